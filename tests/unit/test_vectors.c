/*
 * server: vectors of texts and ranks of documents in every dialect, over real sockets with fakes below (server_fake.h): a
 * token is a byte, a vector is the first one, how many there are, and the last.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/http/json_out.h"

static struct server_facts facts = {.architecture = "fake", .weights = "F32"};

static void begin(struct live *l, enum model_pooling pooling, uint32_t context)
{
    struct err e = {0};
    fake_pooling = pooling;
    fake_context = context;
    fake_adds_eos = facts.matryoshka = facts.mute = false;
    facts.rerank_template = NULL;
    if (pooling == POOLING_RANK) {
        facts.rerank_template = "q {query} d {document}\n";
        facts.rerank_template_n = strlen(facts.rerank_template);
    }
    assert_int_equal(chat_new(&l->chat, NULL, "tools", 5, &e), ST_OK);
    struct server_config cfg = config(l);
    cfg.facts = &facts;
    start_with(l, &cfg);
}

static void ask(const struct live *l, const char *path, const char *request, int status, const char *part)
{
    expect(post(l, path, json(request)), status, part ? json(part) : NULL);
}

static void test_openai(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_MEAN, 40);
    ask(&l, "/v1/embeddings", "{'input':'abc','user':'me','model':'x'}", 200,
        "{'object':'list','data':[{'object':'embedding','index':0,'embedding':[97,3,99]}],'model':'some/model',"
        "'usage':{'prompt_tokens':3,'total_tokens':3}}");
    ask(&l, "/v1/embeddings", "{'input':['abc','d'],'encoding_format':'float'}", 200,
        "'index':0,'embedding':[97,3,99]},{'object':'embedding','index':1,'embedding':[100,1,100]}]");
    ask(&l, "/v1/embeddings", "{'input':[5,6],'encoding_format':'base64'}", 200, "'embedding':'AACgQAAAAEAAAMBA'}]");
    ask(&l, "/v1/embeddings", "{'input':[[5,6],[7]],'dimensions':3}", 200, "'embedding':[5,2,6]");
    ask(&l, "/v1/embeddings", "{'input':'abc','cache_salt':'mine'}", 200, NULL);
    assert_int_equal(last_request.salt_n, 4);
    assert_memory_equal(last_salt, "mine", 4);
    fake_adds_eos = true; /* behind texts, not behind ids */
    ask(&l, "/v1/embeddings", "{'input':['abc',[7]]}", 200, "'embedding':[97,4,0]},{'object':'embedding','index':1,"
        "'embedding':[7,1,7]");
    stop(&l);
}

static void test_shorter(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_MEAN, 40);
    ask(&l, "/v1/embeddings", "{'input':[3,3,3,4],'dimensions':2}", 400, "'param':'dimensions'");
    facts.matryoshka = true;
    ask(&l, "/v1/embeddings", "{'input':[[3,3,3,4],[8,8,8,8,8,8]],'dimensions':2}", 200,
        "'embedding':[0.6,0.8]},{'object':'embedding','index':1,'embedding':[0.8,0.6]}");
    ask(&l, "/api/embed", "{'input':'abc','dimensions':1}", 200, "'embeddings':[[1]]");
    ask(&l, "/api/embed", "{'input':'abc','dimensions':1,'encoding_format':'?'}", 200, "'embeddings':[[1]]"); /* unknown */
    ask(&l, "/v1/embeddings", "{'input':'abc','dimensions':4}", 400, "'param':'dimensions'");
    ask(&l, "/v1/embeddings", "{'input':'abc','dimensions':0}", 400, "'param':'dimensions'");
    stop(&l);
}

static void test_refused(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_LAST, 4);
    ask(&l, "/v1/embeddings", "{}", 400, "'param':'input'");
    ask(&l, "/v1/embeddings", "{'input':''}", 400, "'param':'input'");
    ask(&l, "/v1/embeddings", "{'input':[]}", 400, "'param':'input'");
    ask(&l, "/v1/embeddings", "{'input':7}", 400, "'param':'input'");
    ask(&l, "/v1/embeddings", "{'input':['a',{}]}", 400, "'param':'input[1]'");
    ask(&l, "/v1/embeddings", "{'input':['a','']}", 400, "'param':'input[1]'");
    ask(&l, "/v1/embeddings", "{'input':[1,256]}", 400, "'param':'input'");
    ask(&l, "/v1/embeddings", "{'input':['a','abcde']}", 400,
        "input[1] has 5 tokens; this model takes at most 4','type':'invalid_request_error','param':'input[1]',"
        "'code':'context_length_exceeded'");
    ask(&l, "/v1/embeddings", "{'input':'a','encoding_format':'int8'}", 400, "'param':'encoding_format'");
    ask(&l, "/v1/embeddings", "{'input':'a','user':7}", 400, "'param':'user'");
    ask(&l, "/v1/embeddings", "{'input':'a','priority':1000}", 400, "'param':'priority'");
    ask(&l, "/v1/embeddings", "{'input':'a','cache_salt':''}", 400, "'param':'cache_salt'");
    ask(&l, "/v1/rerank", "{'query':'a','documents':['b']}", 400, "'param':'model','code':'unsupported'");
    ask(&l, "/embedding", "{'content':'a','embd_normalize':-1}", 400, "'param':'embd_normalize'");
    ask(&l, "/embedding", "{'content':'a','input':'a'}", 400, "'param':'input'");
    ask(&l, "/api/embed", "{'input':'abcde','truncate':false}", 400, "{'error':'input has 5 tokens");
    ask(&l, "/api/embed", "{'input':'a','options':{'num_ctx':'many'}}", 400, "options.num_ctx");
    stop(&l);
    begin(&l, POOLING_NONE, 4);
    ask(&l, "/v1/embeddings", "{'input':'a'}", 400, "not made for vectors");
    ask(&l, "/api/embed", "{'input':'a'}", 400, "not made for vectors");
    stop(&l);
}

static void add_texts(struct buf *b, const char *before, const char *text, unsigned n)
{
    buf_adds(b, before);
    for (unsigned i = 0; i < n; i++)
        buf_addf(b, "%s\"%s\"", i ? "," : "", text);
    buf_adds(b, "]}");
    assert_false(b->failed);
}

static char *post_texts(const struct live *l, const char *path, const char *before, const char *text, unsigned n)
{
    struct buf b;
    buf_init(&b, 8 << 20);
    add_texts(&b, before, text, n);
    char *reply = post(l, path, b.data);
    buf_release(&b);
    return reply;
}

static void test_limits(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_MEAN, 40);
    expect(post_texts(&l, "/v1/embeddings", "{\"input\":[", "b", LIMIT_VECTOR_TEXTS), 200,
           json("'index':2047,'embedding':[98,1,98]"));
    /* nobody looks at the empty one */
    expect(post_texts(&l, "/v1/embeddings", "{\"input\":[\"\",", "b", LIMIT_VECTOR_TEXTS), 400, "at most 2048 texts");
    stop(&l);
}

/* What is cut was encoded all the same. */
static void test_cut(void **state)
{
    (void)state;
    static char text[(LIMIT_VECTOR_ENCODED >> 6) + 1]; /* as long as the fake's texts can be */
    struct live l;
    begin(&l, POOLING_MEAN, 40);
    memset(text, 'a', sizeof text - 1);
    expect(post_texts(&l, "/api/embed", "{\"input\":[", text, 64), 200, "\"prompt_eval_count\":2560}");
    expect(post_texts(&l, "/api/embed", "{\"input\":[", text, 65), 400, "before they are cut");
    stop(&l);
}

#define BASE64 "{\"encoding_format\":\"base64\",\"input\":["

/* A reply that could have no room is refused before the engine has anything of it. */
static void test_long_replies(void **state)
{
    (void)state;
    struct live l;
    const unsigned before = atomic_load(&submitted);
    fake_numbers = LIMIT_REPLY / LIMIT_VECTOR_TEXTS / 16 + 1;
    begin(&l, POOLING_MEAN, 40);
    expect(post_texts(&l, "/v1/embeddings", "{\"input\":[", "a", LIMIT_VECTOR_TEXTS), 400, "send fewer at a time");
    fake_numbers = LIMIT_REPLY / LIMIT_VECTOR_TEXTS / 6 + 1;
    expect(post_texts(&l, "/v1/embeddings", BASE64, "a", LIMIT_VECTOR_TEXTS), 400, "send fewer at a time");
    assert_int_equal(atomic_load(&submitted), before);
    facts.matryoshka = true; /* shorter ones have room: it is the engine that refuses them */
    expect(post_texts(&l, "/v1/embeddings", "{\"dimensions\":1000,\"input\":[", "busy", LIMIT_VECTOR_TEXTS), 429,
           "queue_full");
    stop(&l);
    fake_numbers = 3;
}

/* One that fails, or has no room, fails all; nothing stays behind (stop() compares). */
static void test_failures(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_MEAN, 40);
    ask(&l, "/v1/embeddings", "{'input':['a','fail','hang']}", 500, "not finite");
    ask(&l, "/v1/embeddings", "{'input':['busy','a']}", 429, "queue_full");
    ask(&l, "/api/embed", "{'input':'busy'}", 503, "the queue is full");
    int fd = dial(&l); /* a client that leaves */
    say(fd, "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n{\"input\":\"hang\"}");
    while (atomic_load(&submitted) == atomic_load(&closed))
        usleep(1000);
    close(fd);
    for (int i = 0; i < 5000 && atomic_load(&submitted) != atomic_load(&closed); i++)
        usleep(1000);
    assert_int_equal(atomic_load(&submitted), atomic_load(&closed));
    stop(&l);
}

/* Vectors to be are counted with the bodies, though the bodies they come from are gone. */
static void test_memory(void **state)
{
    (void)state;
    enum { CALLS = 6, EACH = LIMIT_BODIES / (CALLS + 1) + 1, WAY = 32 };
    struct live l;
    int fds[CALLS];
    struct buf b;
    fake_numbers = EACH / LIMIT_VECTOR_TEXTS / sizeof(float) + 1;
    begin(&l, POOLING_MEAN, 40);
    buf_init(&b, 1 << 16);
    add_texts(&b, BASE64, "hang", LIMIT_VECTOR_TEXTS);
    const unsigned before = atomic_load(&submitted);
    for (unsigned i = 0; i < CALLS; i++) {
        fds[i] = dial(&l);
        char head[200];
        snprintf(head, sizeof head, "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n",
                 b.len);
        say(fds[i], head);
        say(fds[i], b.data);
    }
    for (int i = 0; i < 5000 && atomic_load(&submitted) - before < CALLS * WAY; i++)
        usleep(1000);
    expect(post(&l, "/v1/embeddings", b.data), 429, "too many large requests");
    assert_int_equal(atomic_load(&submitted) - before, CALLS * WAY);
    for (unsigned i = 0; i < CALLS; i++)
        close(fds[i]);
    for (int i = 0; i < 5000 && atomic_load(&submitted) != atomic_load(&closed); i++)
        usleep(1000);
    buf_release(&b);
    stop(&l);
    fake_numbers = 3;
}

static void test_llama_server(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_MEAN, 40);
    ask(&l, "/embedding", "{'content':'ab'}", 200, "[{'index':0,'embedding':[[97,2,98]]}]");
    ask(&l, "/embeddings", "{'input':['ab','c'],'embd_normalize':2}", 200, "{'index':1,'embedding':[[99,1,99]]}]");
    stop(&l);
}

static void test_ollama(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_MEAN, 4);
    ask(&l, "/api/embed", "{'model':'m','input':['ab','c'],'keep_alive':'5m','options':{'seed':1}}", 200,
        "{'model':'some/model','embeddings':[[97,2,98],[99,1,99]],'total_duration':");
    ask(&l, "/api/embed", "{'model':'m','input':'ab'}", 200, "'load_duration':0,'prompt_eval_count':2}");
    ask(&l, "/api/embed", "{'model':'m'}", 200, "'embeddings':[]");
    ask(&l, "/api/embed", "{'model':'m','input':'abcdefgh'}", 200, "'embeddings':[[97,4,100]]");
    ask(&l, "/api/embed", "{'model':'m','input':'abcdefgh','options':{'num_ctx':2}}", 200, "'embeddings':[[97,2,98]]");
    fake_adds_eos = true; /* what ends a text is kept */
    ask(&l, "/api/embed", "{'model':'m','input':'abcdefgh'}", 200, "'embeddings':[[97,4,0]]");
    ask(&l, "/api/embeddings", "{'model':'m','prompt':'ab'}", 200, "{'embedding':[97,3,0]}");
    ask(&l, "/api/embeddings", "{'model':'m','prompt':''}", 200, "{'embedding':[]}");
    ask(&l, "/api/embeddings", "{'model':'m','prompt':['a']}", 400, "prompt must be a string");
    ask(&l, "/api/show", "{'model':'m'}", 200, "'capabilities':['completion','embedding'");
    facts.mute = true;
    ask(&l, "/api/show", "{'model':'m'}", 200, "'capabilities':['embedding']");
    stop(&l);
}

static void test_rerank(void **state)
{
    (void)state;
    struct live l;
    begin(&l, POOLING_RANK, 40);
    ask(&l, "/v1/rerank", "{'query':'q','documents':['b',{'text':'c'},'b'],'model':'m'}", 200,
        "{'object':'list','model':'some/model','usage':{'prompt_tokens':3,'total_tokens':3},'results':["
        "{'index':1,'relevance_score':99},{'index':0,'relevance_score':98},{'index':2,'relevance_score':98}]}");
    ask(&l, "/reranking", "{'query':'q','documents':['b',{'text':'c'}],'top_n':1,'return_documents':true}", 200,
        "'results':[{'index':1,'relevance_score':99,'document':{'text':'c'}}]}");
    ask(&l, "/v1/rerank", "{'documents':['b']}", 400, "'param':'query'");
    ask(&l, "/v1/rerank", "{'query':'q','documents':[]}", 400, "'param':'documents'");
    expect(post_texts(&l, "/v1/rerank", "{\"query\":\"q\",\"documents\":[7,", "b", LIMIT_VECTOR_TEXTS), 400,
           "at most 2048 texts");
    ask(&l, "/v1/rerank", "{'query':'q','documents':['b',7]}", 400, "'param':'documents[1]'");
    ask(&l, "/v1/rerank", "{'query':'q','documents':['b'],'top_n':0}", 400, "'param':'top_n'");
    ask(&l, "/v1/embeddings", "{'input':'a'}", 400, "this model ranks documents");
    stop(&l);
}

static void test_numbers(void **state)
{
    (void)state;
    static const float x[] = {0.1f, -1.0f / 3, 1e-30f, 16777216, 0.0f, -0.02937473f};
    struct buf b;
    buf_init(&b, 1000);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        buf_clear(&b);
        http_json_float(&b, x[i]);
        assert_true(strtof(b.data, NULL) == x[i]);
    }
    static const char *const texts[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"}; /* those of RFC 4648 */
    static const char *const coded[] = {"''", "'Zg=='", "'Zm8='", "'Zm9v'", "'Zm9vYg=='", "'Zm9vYmE='", "'Zm9vYmFy'"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        buf_clear(&b);
        http_json_base64(&b, texts[i], i);
        assert_string_equal(b.data, json(coded[i]));
    }
    buf_release(&b);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_openai),       cmocka_unit_test(test_shorter), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_failures), cmocka_unit_test(test_llama_server),
        cmocka_unit_test(test_cut),          cmocka_unit_test(test_long_replies), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_ollama),       cmocka_unit_test(test_rerank),  cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
