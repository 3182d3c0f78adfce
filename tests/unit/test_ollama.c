/*
 * server: Ollama's API: requests and their translation, and replies over real sockets with fakes below (server_fake.h).
 * The fake template shows the first message only, whose first word says what the reply does.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/ollama.h"
#include "server/http/json_in.h"

/* ---- requests ---- */

struct asked {
    json_t *root;
    struct reply_job job;
    struct ollama_request rq;
    struct buf conversation, begun;
    struct err e;
};

static enum status ask(struct asked *a, bool chat, const char *request)
{
    const char *body = json(request);
    const struct text_view text = {body, strlen(body)};
    *a = (struct asked){0};
    server_job_init(&a->job);
    buf_init(&a->conversation, 1 << 20);
    buf_init(&a->begun, 1 << 20);
    assert_int_equal(http_json_parse(body, text.n, &a->job.root, &a->e), ST_OK);
    enum status st = ollama_parse(a->job.root, text, chat, &a->job, &a->rq, &a->e);
    return st == ST_OK ? ollama_translate(&a->rq, text, &a->conversation, &a->begun, &a->e) : st;
}

static void asked_release(struct asked *a)
{
    server_job_release(&a->job);
    buf_release(&a->conversation);
    buf_release(&a->begun);
}

static void check_turns(bool chat, const char *request, const char *want, const char *begun)
{
    struct asked a;
    if (ask(&a, chat, request) != ST_OK)
        fail_msg("%s: %s", request, a.e.text);
    assert_string_equal(a.conversation.data, json(want));
    assert_string_equal(a.begun.len ? a.begun.data : "", json(begun));
    asked_release(&a);
}

#define HI "{'role':'user','content':'hi'}"

static void test_turns(void **state)
{
    (void)state;
    check_turns(true, "{'messages':[" HI "]}", "{'messages':[" HI "]}", "");
    check_turns(true, "{'messages':[" HI ",{'role':'assistant','content':'The \\u0000'}],'think':false}",
                "{'messages':[" HI "],'chat_template_kwargs':{'enable_thinking':false,'thinking':false}}", "The ");
    /* ids are made up where there are none, and results get those of the calls that have no result yet */
    check_turns(true, "{'messages':[" HI ",{'role':'assistant','thinking':'hm','tool_calls':[{'function':{'name':'f',"
                "'arguments':{'n': 18446744073709551615}}},{'id':'c2','function':{'name':'g'}}]},"
                "{'role':'tool','tool_name':'f','content':'1'},{'role':'tool','tool_call_id':'c2','content':'2'}],"
                "'tools':[{'type':'function','function':{'name':'f'}}],'think':true}",
                "{'messages':[" HI ",{'role':'assistant','content':null,'reasoning_content':'hm','tool_calls':["
                "{'id':'call00000','type':'function','function':{'name':'f','arguments':{'n': 18446744073709551615}}},"
                "{'id':'c2','type':'function','function':{'name':'g','arguments':{}}}]},"
                "{'role':'tool','content':'1','name':'f','tool_call_id':'call00000'},"
                "{'role':'tool','content':'2','tool_call_id':'c2'}],'tools':[{'type':'function','function':{'name':'f'}}],"
                "'chat_template_kwargs':{'enable_thinking':true,'thinking':true}}", "");
    check_turns(false, "{'prompt':'\\u00e9','system':'s'}",
                "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'\\u00e9'}]}", "");
    check_turns(false, "{'prompt':'p','think':'low'}", "{'messages':[{'role':'user','content':'p'}],"
                "'chat_template_kwargs':{'enable_thinking':true,'thinking':true,'reasoning_effort':'low'}}", "");
    check_turns(false, "{'prompt':'p','system':''}", "{'messages':[{'role':'user','content':'p'}]}", "");
}

#define F(id) "{" id "'function':{'name':'f'}}"
#define G(id) "{'id':'" id "','type':'function','function':{'name':'f','arguments':{}}}"
#define RESULT(id) "{'role':'tool','content':'1','tool_call_id':'" id "'}"
#define NAMELESS "{'role':'tool','content':'1'}"
#define CALLS(calls) "{'role':'assistant','content':null,'tool_calls':[" calls "]}"
#define ASKED(calls) "{'role':'assistant','tool_calls':[" calls "]}"

static void test_results_without_ids(void **state)
{
    (void)state;
    check_turns(true, "{'messages':[" HI "," ASKED(F("'id':'a',") "," F("'id':'b',")) "," NAMELESS "," NAMELESS "]}",
                "{'messages':[" HI "," CALLS(G("a") "," G("b")) "," RESULT("a") "," RESULT("b") "]}", "");
    /* one that is named in between, and a second round */
    check_turns(true, "{'messages':[" HI "," ASKED(F("'id':'a',") "," F("'id':'b',") "," F("")) "," RESULT("a") "," NAMELESS
                "," NAMELESS "," ASKED(F("'id':'c',")) "," NAMELESS "," NAMELESS "]}",
                "{'messages':[" HI "," CALLS(G("a") "," G("b") "," G("call00002")) "," RESULT("a") "," RESULT("b") ","
                RESULT("call00002") "," CALLS(G("c")) "," RESULT("c") "," RESULT("call00004") "]}", "");
}

static void test_fields(void **state)
{
    (void)state;
    struct asked a;
    assert_int_equal(ask(&a, true, "{'messages':[" HI "]}"), ST_OK); /* Ollama's own values */
    const struct sample_params *s = &a.job.sampling;
    assert_true(a.job.stream && s->temperature == 0.8f && s->top_k == 40 && s->top_p == 0.9f);
    assert_true(s->repetition_penalty == 1.1f && s->penalty_last == 64 && !a.job.max_tokens && !a.rq.window);
    asked_release(&a);
    assert_int_equal(ask(&a, true, "{'model':'m','messages':[" HI "],'stream':false,'keep_alive':'-1m','logprobs':true,"
                     "'top_logprobs':3,'truncate':false,'images':[],'ffwd':{'plan':true},'options':{'num_predict':7,"
                     "'num_ctx':99,'temperature':null,'top_k':5,'top_p':1,'min_p':0.5,'typical_p':0.5,'seed':11,"
                     "'repeat_penalty':1,'repeat_last_n':-1,'stop':['x','yz'],'num_gpu':-1,'use_mmap':true,'num_keep':4,"
                     "'mirostat':0,'tfs_z':1.0,'penalize_newline':true,'vocab_only':false}}"), ST_OK);
    assert_true(!a.job.stream && a.job.plan && a.job.logprobs == 4 && a.job.max_tokens == 7 && a.rq.window == 99);
    assert_true(s->temperature == 0.8f && s->top_k == 5 && s->top_p == 1.0f && s->min_p == 0.5f && s->typical_p == 0.5f);
    assert_true(s->seed == 11 && s->repetition_penalty == 1.0f && s->penalty_last == 0 && a.job.stops_n == 2);
    assert_memory_equal(a.job.stops[1].s, "yz", 2);
    asked_release(&a);
    assert_int_equal(ask(&a, false, "{'prompt':'p','raw':true,'format':{'type' : 'object'},'options':{'num_predict':-2,"
                     "'stop':'x'}}"), ST_OK);
    assert_true(a.rq.raw && a.rq.format.kind == GRAMMAR_SCHEMA && a.job.stops_n == 1 && !a.job.max_tokens);
    assert_memory_equal(a.rq.format.text.data, json("{'type' : 'object'}"), a.rq.format.text.n);
    asked_release(&a);
    /* Ollama's own values give way to what cannot be together with them */
    assert_int_equal(ask(&a, true, "{'messages':[" HI "],'options':{'mirostat':2,'repetition_penalty':1.5}}"), ST_OK);
    assert_true(s->mirostat == 2 && s->top_k == 0 && s->top_p == 1.0f && s->repetition_penalty == 1.5f);
    asked_release(&a);
    assert_int_equal(ask(&a, true, "{'messages':[" HI "],'options':{'samplers':['top_k','temperature']}}"), ST_OK);
    assert_true(s->top_k == 40 && s->top_p == 1.0f && s->temperature == 0.8f && s->repetition_penalty == 1.0f);
    asked_release(&a);
    assert_int_equal(ask(&a, false, "{'prompt':'p','format':'json'}"), ST_OK);
    assert_true(a.rq.format.field && a.rq.format.kind == GRAMMAR_JSON);
    asked_release(&a);
}

/* Members of a chat that has messages; "-" before one that has none. */
static const struct wrong {
    const char *rest, *field;
} wrongs[] = {
    {"-'messages':{}", "messages"},
    {"-'messages':[5]", "messages[0]"},
    {"-'messages':[{'content':'x'}]", "messages[0].role"},
    {"-'messages':[{'role':'user','content':'x','images':['aGk=']}]", "messages[0].images"},
    {"-'messages':[{'role':'assistant','content':'x','thinking':5}]", "messages[0].thinking"},
    {"-'messages':[{'role':'assistant','tool_calls':{}}]", "messages[0].tool_calls"},
    {"-'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':'{}'}}]}]",
     "messages[0].tool_calls"},
    {"-'messages':[" HI ",{'role':'assistant','content':5}]", "messages[1].content"},
    {"-'messages':[" HI ",{'role':'assistant','content':'','tool_calls':[]}]", "messages[1]"},
    {"-'messages':[],'keep_alive':0", "keep_alive"},
    {"-'messages':[],'keep_alive':'0s'", "keep_alive"},
    {"'keep_alive':true", "keep_alive"},
    {"'keep_alive':'soon'", "keep_alive"},
    {"'stream':1", "stream"},
    {"'think':'some'", "think"},
    {"'think':1", "think"},
    {"'format':'xml'", "format"},
    {"'format':[]", "format"},
    {"'format':'json','tools':[{'type':'function','function':{'name':'f'}}]", "format"},
    {"'logprobs':2", "logprobs"},
    {"'top_logprobs':21", "top_logprobs"},
    {"'tools':{}", "tools"},
    {"'tool_choice':'required'", "tool_choice"},
    {"'template':'{{ .Prompt }}'", "template"},
    {"'context':[1]", "context"},
    {"'truncate':true", "truncate"},
    {"'shift':true", "shift"},
    {"'width':64", "width"},
    {"'cache_salt':''", "cache_salt"},
    {"'options':[]", "options"},
    {"'options':{'temperature':-1}", "options.temperature"},
    {"'options':{'top_p':'x'}", "options.top_p"},
    {"'options':{'num_predict':-3}", "options.num_predict"},
    {"'options':{'num_ctx':1.5}", "options.num_ctx"},
    {"'options':{'num_gpu':'all'}", "options.num_gpu"},
    {"'options':{'use_mmap':1}", "options.use_mmap"},
    {"'options':{'tfs_z':0.5}", "options.tfs_z"},
    {"'options':{'vocab_only':true}", "options.vocab_only"},
    {"'options':{'penalize_newline':false}", "options.penalize_newline"},
    {"'options':{'stop':['']}", "options.stop[0]"},
};

static void test_wrong_fields(void **state)
{
    (void)state;
    struct asked a;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        char body[1000];
        snprintf(body, sizeof body, w->rest[0] == '-' ? "{%s}" : "{'messages':[" HI "],%s}",
                 w->rest + (w->rest[0] == '-'));
        enum status st = ask(&a, true, body);
        if (st == ST_OK || strcmp(a.e.field, w->field) != 0)
            fail_msg("%s: %s '%s', not '%s'", body, status_name(st), a.e.field, w->field);
        asked_release(&a);
    }
    assert_int_equal(ask(&a, false, "{'prompt':5}"), ST_ARGUMENT);
    asked_release(&a);
    assert_int_equal(ask(&a, false, "{'prompt':'p','raw':true,'system':'s'}"), ST_ARGUMENT);
    assert_string_equal(a.e.field, "system");
    asked_release(&a);
}

/* ---- replies ---- */

/* Frees `reply`. */
static void said(char *reply, int status, const char *part)
{
    expect(reply, status, json(part));
}

static void has(const char *reply, const char *part)
{
    if (!strstr(reply, json(part)))
        fail_msg("'%s' is not in: %s", part, reply);
}

static char *say_chat(const struct live *l, const char *script_name, const char *more)
{
    char body[1000];
    snprintf(body, sizeof body, "{'messages':[{'role':'user','content':'%s'}]%s}", script_name, more);
    return post(l, "/api/chat", json(body));
}

static char *generate(const struct live *l, const char *script_name, const char *more)
{
    char body[1000];
    snprintf(body, sizeof body, "{'prompt':'%s'%s}", script_name, more);
    return post(l, "/api/generate", json(body));
}

#define WHOLE ",'stream':false"

static void test_whole(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    said(say_chat(&l, "hi there", WHOLE), 200, "{'model':'some/model','created_at':'20");
    said(say_chat(&l, "hi there", WHOLE), 200, "Z','message':{'role':'assistant','content':'Hello, \\'world\\'\\n'},"
         "'done':true,'done_reason':'stop','total_duration':");
    said(say_chat(&l, "hi there", WHOLE), 200, "'load_duration':0,'prompt_eval_count':5,'prompt_eval_duration':");
    said(say_chat(&l, "hi there", WHOLE), 200, "'eval_count':15,'eval_duration':");
    said(say_chat(&l, "hi there", WHOLE), 200, "'usage':{'ffwd':{'sampled':15,");
    said(say_chat(&l, "full", WHOLE), 200, "'ffwd_detail':'kv_exhausted'");
    said(say_chat(&l, "hi there", WHOLE ",'options':{'num_predict':3}"), 200, "'Hel'},'done':true,'done_reason':'length'");
    said(generate(&l, "hi there", WHOLE), 200, "'response':'Hello, \\'world\\'\\n','done':true");
    said(generate(&l, "hi there", WHOLE ",'raw':true"), 200, "'response':'Hello, ");
    said(generate(&l, "hi there", WHOLE ",'options':{'num_predict':1},'top_logprobs':1"), 200, "'response':'H',"
         "'logprobs':[{'token':'H','logprob':-0.500000,'bytes':[72],'top_logprobs':[{'token':'a'");
    said(generate(&l, "", WHOLE), 200, "'response':'','done':true,'done_reason':'load'}");
    said(post(&l, "/api/chat", "{}"), 200, json("'content':''},'done':true,'done_reason':'load'}"));
    stop(&l);
}

static void test_stream(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *s = say_chat(&l, "hi there", ",'ffwd':{'trace':true}");
    has(s, "Content-Type: application/x-ndjson\r\n");
    has(s, "'message':{'role':'assistant','content':'H");
    has(s, "'ffwd':{'origins':['sampled'");
    has(s, "},'done':false}\n{'model':'some/model'");
    has(s, "'message':{'role':'assistant','content':''},'done':true,'done_reason':'stop'");
    has(s, "}},'ffwd':{'trace':['sampled'");
    free(s);
    s = generate(&l, "hi there", ",'logprobs':true");
    has(s, "'response':'");
    has(s, "'logprobs':[{'token':'H','logprob':-0.500000,'bytes':[72],'top_logprobs':[]}],'done':false}\n");
    has(s, "'response':'','done':true,");
    free(s);
    stop(&l);
}

static void test_broken_stream(void **state)
{
    struct http_call call = {.id = "ollama-1"};
    struct reply r = {.call = &call};
    struct buf out;
    (void)state;
    buf_init(&out, 1000);
    (void)err_set(&r.err, ST_DEADLINE, "", "it was not done in time");
    ollama_chat_ops.broken(&r, &out);
    assert_string_equal(out.data, json("{'error':'it was not done in time'}\n"));
    assert_string_equal(call.failure, status_name(ST_DEADLINE));
    buf_release(&out);
}

static void test_a_quiet_stream(void **state)
{
    char model[] = "some/model";
    struct server srv = {.model = model};
    struct http_call call = {.id = "ollama-1"};
    struct reply r = {.srv = &srv, .call = &call, .ops = &ollama_chat_ops, .created = 1700000000};
    struct buf out;
    (void)state;
    buf_init(&out, 1000);
    buf_init(&r.head, 1000);
    ollama_chat_ops.quiet(&r, &out);
    assert_string_equal(out.data, json("{'model':'some/model','created_at':'2023-11-14T22:13:20Z','message':{"
                                       "'role':'assistant','content':''},'done':false}\n"));
    buf_release(&r.head);
    buf_release(&out);
}

static void test_times(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 100);
    ollama_write_time(0, &out);
    ollama_write_time(INT64_MAX, &out); /* in a year that has no number */
    assert_string_equal(out.data, json("'1970-01-01T00:00:00Z''1970-01-01T00:00:00Z'"));
    buf_release(&out);
}

/* A template that thinks and knows tools. */
#define THINKER "{{ tools }} <tool_call> <think> </think>"

static void start_thinking(struct live *l, const char *source)
{
    struct err e = {0};
    assert_int_equal(chat_new(&l->chat, NULL, source, strlen(source), &e), ST_OK);
    struct server_config cfg = config(l);
    start_with(l, &cfg);
}

#define TOOLS ",'tools':[{'type':'function','function':{'name':'f','parameters':{'type':'object'}}}]"
#define THOUGHT "<think>\nWhy \"not\"?\n</think>\n\n"
#define CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"y\"}}\n</tool_call>"

static void test_thinking_and_calls(void **state)
{
    struct live l;
    (void)state;
    start_thinking(&l, THINKER);
    fake_reply = THOUGHT "So." CALL CALL;
    char *s = say_chat(&l, "say it", TOOLS WHOLE);
    has(s, "'content':'So.','thinking':'Why \\'not\\'?','tool_calls':[{'id':'call_");
    has(s, "','function':{'index':0,'name':'f','arguments':{'a': 'x\\'y'}}},{'id':'call_");
    has(s, "','function':{'index':1,'name':'f','arguments':{'a': 'x\\'y'}}}]},'done':true,'done_reason':'stop'");
    free(s);
    s = say_chat(&l, "say it", TOOLS);
    has(s, "'message':{'role':'assistant','content':'','thinking':'W");
    has(s, "'message':{'role':'assistant','content':'','tool_calls':[{'id':'call_");
    has(s, "','function':{'index':1,'name':'f','arguments':{'a': 'x\\'y'}}}]},'done':false}\n");
    free(s);
    said(generate(&l, "say it", WHOLE), 200, "'thinking':'Why \\'not\\'?','done':true");
    /* a call that breaks is text, in a stream too: nobody was told of it */
    fake_reply = "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ]";
    said(say_chat(&l, "say it", TOOLS WHOLE), 200, "'content':'a <tool_call>\\n{\\'name\\': \\'f\\', \\'arguments\\': "
         "{\\'a\\': ]'},'done':true");
    s = say_chat(&l, "say it", TOOLS);
    has(s, "<tool_call>");
    assert_null(strstr(s, "tool_calls"));
    free(s);
    said(say_chat(&l, "hi <think>", ",'think':false"), 400, "think cannot be kept"); /* its end is no token */
    said(say_chat(&l, "hi there", ",'think':true" WHOLE), 200, "Hello");
    said(say_chat(&l, "hi there", ",'think':'high'" WHOLE), 400, "template knows no levels");
    said(post(&l, "/api/show", "{}"), 200, json("'capabilities':['completion','tools','thinking']"));
    stop(&l);
    start_thinking(&l, THINKER " {{ reasoning_effort }}");
    said(say_chat(&l, "hi there", ",'think':'high'" WHOLE), 200, "Hello");
    stop(&l);
}

static void test_errors(void **state)
{
    struct live l;
    (void)state;
    start(&l, true);
    const char *model = ",'model':'some/model:latest'";
    said(say_chat(&l, "hi there", ",'model':'other'"), 404, " not found; there is only ");
    said(say_chat(&l, "busy", model), 503, "Retry-After: 7");
    said(say_chat(&l, "long", model), 400, "{'error':'the prompt has");
    said(say_chat(&l, "fail", model), 500, "{'error':");
    said(say_chat(&l, "late", model), 504, "{'error':");
    said(say_chat(&l, "hi there", ",'model':'some/model','options':{'num_ctx':2}"), 400, "but options.num_ctx is 2");
    said(say_chat(&l, "hi there", ",'model':'some/model','think':true"), 400, "does not think");
    said(post(&l, "/api/generate", "{"), 400, "{'error':'the body is not valid JSON");
    said(post(&l, "/api/pull", "{}"), 404, "{'error':'there is nothing at this address'}");
    said(raw(&l, "GET /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405, "{'error':");
    stop(&l);
}

static void test_models(void **state)
{
    static const struct server_facts facts = {.architecture = "llama", .weights = "Q4_1", .chat_template = "{{ \"x\" }}",
        .chat_template_n = 9, .parameters = 7999999999u, .bytes = 1ull << 33, .modified = 86400, .layers = 2, .width = 64};
    struct live l;
    struct err e = {0};
    (void)state;
    assert_int_equal(chat_new(&l.chat, NULL, "tools", 5, &e), ST_OK);
    struct server_config cfg = config(&l);
    cfg.facts = &facts;
    cfg.version = "1.2";
    start_with(&l, &cfg);
    char *s = raw(&l, "GET /api/tags HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    has(s, "{'models':[{'name':'some/model','model':'some/model','size':8589934592,'digest':'");
    has(s, "'details':{'parent_model':'','format':'gguf','family':'llama','families':['llama'],"
           "'parameter_size':'8.0B','quantization_level':'Q4_1'},'modified_at':'1970-01-02T00:00:00Z'}]}");
    free(s);
    said(raw(&l, "GET /api/ps HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 200,
         "'size_vram':0,'context_length':3}]}");
    said(raw(&l, "GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 200, "'ffwd':'1.2'}");
    s = post(&l, "/api/show", json("{'name':'any'}"));
    has(s, "'template':'{{ \\'x\\' }}','details':{");
    has(s, "'model_info':{'general.architecture':'llama','general.parameter_count':7999999999,'llama.context_length':3,"
           "'llama.embedding_length':64,'llama.block_count':2,");
    has(s, "'capabilities':['completion','tools'],");
    free(s);
    said(post(&l, "/api/show", json("{'verbose':true}")), 400, "verbose is not supported");
    stop(&l);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_wrong_fields), cmocka_unit_test(test_whole),
        cmocka_unit_test(test_stream),       cmocka_unit_test(test_broken_stream),
        cmocka_unit_test(test_times),        cmocka_unit_test(test_results_without_ids),
        cmocka_unit_test(test_a_quiet_stream),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_thinking_and_calls),
        cmocka_unit_test(test_models),
    };
    return cmocka_run_group_tests_name("ollama", tests, NULL, NULL);
}
