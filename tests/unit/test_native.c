/*
 * server: text, ids and conversations by themselves, what would become of a request, and llama-server's /completion,
 * /props and /slots, over real sockets with fakes below (server_fake.h): a token is a byte.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/native.h"
#include "server/http/json_in.h"

/* Frees `reply`. */
static void said(char *reply, int status, const char *part)
{
    expect(reply, status, json(part));
}

static void ask(const struct live *l, const char *path, const char *body, int status, const char *part)
{
    said(post(l, path, json(body)), status, part);
}

/* ---- text, ids, conversations ---- */

static void test_tokenize(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/tokenize", "{'content':'Az'}", 200, "\r\n\r\n{'tokens':[65,122]}");
    ask(&l, "/tokenize", "{'content':''}", 200, "{'tokens':[]}");
    ask(&l, "/tokenize", "{'content':'A\xC3\xA9','with_pieces':true,'add_special':true,'parse_special':false}", 200,
        "{'tokens':[{'id':65,'piece':'A'},{'id':195,'piece':[195]},{'id':169,'piece':[169]}]}");
    ask(&l, "/tokenize", "{}", 400, "'param':'content'");
    ask(&l, "/tokenize", "{'content':[65]}", 400, "'param':'content'");
    ask(&l, "/tokenize", "{'content':'A','with_pieces':1}", 400, "'param':'with_pieces'");
    ask(&l, "/detokenize", "{'tokens':[65,34,122]}", 200, "{'content':'A\\'z'}");
    ask(&l, "/detokenize", "{'tokens':[]}", 200, "{'content':''}");
    ask(&l, "/detokenize", "{'tokens':[255]}", 200, "{'content':'\xEF\xBF\xBD'}");
    ask(&l, "/detokenize", "{'tokens':[65,256]}", 400, "number 1 is no id of the vocabulary of 256");
    ask(&l, "/detokenize", "{'tokens':[-1]}", 400, "'param':'tokens'");
    ask(&l, "/detokenize", "{'tokens':[1.0]}", 400, "'param':'tokens'");
    ask(&l, "/detokenize", "{'tokens':'A'}", 400, "'param':'tokens'");
    stop(&l);
}

static void test_a_text_that_is_too_long(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *body = malloc(LIMIT_TOKENIZE + 100);
    size_t n = strlen("{\"content\":\"");
    memcpy(body, "{\"content\":\"", n);
    memset(body + n, 'a', LIMIT_TOKENIZE + 1);
    memcpy(body + n + LIMIT_TOKENIZE + 1, "\"}", 3);
    said(post(&l, "/tokenize", body), 400, "'param':'content','code':'too_long'");
    free(body);
    stop(&l);
}

#define HI "'messages':[{'role':'user','content':'hi there'}]"

static void test_conversations(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/apply-template", "{" HI "}", 200, "{'prompt':'hi there'}");
    ask(&l, "/apply-template", "{'messages':[]}", 400, "'param':'messages'");
    ask(&l, "/apply-template", "{" HI ",'tool_choice':'any'}", 400, "'param':'tool_choice'");
    const char *addresses[] = {"/v1/ffwd/count", "/v1/chat/completions/input_tokens"};
    for (int i = 0; i < 2; i++) {
        ask(&l, addresses[i], "{" HI "}", 200,
            "{'object':'response.input_tokens','input_tokens':8,'context_length':3}");
        ask(&l, addresses[i], "{'prompt':['abc',\"de\"]}", 200, "'input_tokens':5,");
        ask(&l, addresses[i], "{'prompt':[1,2,3,4]}", 200, "'input_tokens':4,");
        ask(&l, addresses[i], "{'model':'x'}", 400, "'param':'prompt'");
    }
    stop(&l);
}

static void test_explain(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/v1/ffwd/explain", "{" HI ",'max_tokens':7,'ffwd':{'fill':'strict'}}", 200,
        "{'prompt_tokens':8,'max_tokens':7,'constrained':false,'relaxed':[],'template_rows':0,'fill':'strict','plan':{"
        "'prefix_cache':{'match':{'on':true,'why':null},");
    ask(&l, "/v1/ffwd/explain", "{'prompt':'abc','guided_regex':'a+'}", 200, "'constrained':true,");
    ask(&l, "/v1/ffwd/explain", "{'prompt':'abc'}", 200, "'skip_head':{'on':false,'why':'so it is'}}}");
    ask(&l, "/v1/ffwd/explain", "{" HI ",'temperature':-1}", 400, "'param':'temperature'");
    ask(&l, "/v1/ffwd/explain", "{", 400, "not valid JSON");
    assert_int_equal(atomic_load(&submitted), 0);
    stop(&l);
    start(&l, true);
    ask(&l, "/v1/ffwd/explain", "{'prompt':'abc','model':'other'}", 404, "'code':'model_not_found'");
    ask(&l, "/v1/ffwd/explain", "{'prompt':'abc','model':'some/model'}", 200, "'prompt_tokens':3,");
    stop(&l);
}

/* ---- /completion ---- */

static enum status parse(struct reply_job *job, const char *body, struct err *e)
{
    server_job_init(job);
    const char *text = json(body);
    assert_int_equal(http_json_parse(text, strlen(text), &job->root, e), ST_OK);
    return native_parse_completion(job->root, job, e);
}

static void test_completion_fields(void **state)
{
    struct reply_job job;
    struct err e;
    (void)state;
    assert_int_equal(parse(&job, "{'prompt':'p'}", &e), ST_OK); /* llama-server's own values */
    const struct sample_params *s = &job.sampling;
    assert_true(s->temperature == 0.8f && s->top_k == 40 && s->top_p == 0.95f && s->min_p == 0.05f);
    assert_true(s->penalty_last == 64 && s->repetition_penalty == 1.0f && !job.stream && !job.max_tokens && job.n == 1);
    assert_true(!job.no_prefix_cache && !job.tells_ids && !job.logprobs);
    server_job_release(&job);
    assert_int_equal(parse(&job, "{'prompt':'p','n_predict':5,'max_tokens':5,'n_cmpl':2,'stream':true,'stop':['a','b'],"
                           "'n_probs':3,'return_tokens':true,'cache_prompt':false,'id_slot':7,'n_keep':-1,"
                           "'ignore_eos':true,"
                           "'logit_bias':[[65,-1.5],[66,2]],'lora':[],'min_keep':0,'temperature':0.5,'seed':3,"
                           "'samplers':['top_k','temperature'],'priority':4}", &e), ST_OK);
    assert_true(job.max_tokens == 5 && job.n == 2 && job.stream && job.stops_n == 2 && job.logprobs == 4);
    assert_true(job.tells_ids && job.no_prefix_cache && job.ignore_eos && job.priority == 4);
    assert_true(s->bias_n == 2 && s->bias[0].id == 65 && s->bias[0].bias == -1.5f && s->bias[1].bias == 2.0f);
    assert_true(s->temperature == 0.5f && s->top_k == 40 && s->top_p == 1.0f && s->min_p == 0.0f && s->seed == 3);
    server_job_release(&job);
    assert_int_equal(parse(&job, "{'logit_bias':{'65':1},'n_predict':-2,'max_tokens':null}", &e), ST_OK);
    assert_true(s->bias_n == 1 && job.max_tokens == 0);
    server_job_release(&job);
}

static const struct wrong {
    const char *body, *field;
} wrongs[] = {
    {"'n_predict':0", "n_predict"},
    {"'n_predict':-3", "n_predict"},
    {"'n_predict':4,'max_tokens':5", "n_predict"},
    {"'n_cmpl':0", "n_cmpl"},
    {"'n':33", "n"},
    {"'n':2,'n_cmpl':3", "n_cmpl"},
    {"'grammar_lazy':true", "grammar_lazy"},
    {"'stop_token_ids':[1]", "stop_token_ids"},
    {"'bad_words':['a']", "bad_words"},
    {"'n_probs':21", "n_probs"},
    {"'id_slot':'any'", "id_slot"},
    {"'cache_prompt':1", "cache_prompt"},
    {"'return_tokens':1", "return_tokens"},
    {"'stream':1", "stream"},
    {"'stop':[5]", "stop[0]"},
    {"'temperature':-1", "temperature"},
    {"'logit_bias':[[65,false]]", "logit_bias"},
    {"'logit_bias':[['a',1]]", "logit_bias"},
    {"'logit_bias':[[65]]", "logit_bias"},
    {"'logit_bias':[[-1,1]]", "logit_bias"},
    {"'lora':[{'id':0,'scale':1}]", "lora"},
    {"'min_keep':2", "min_keep"},
    {"'n_indent':4", "n_indent"},
    {"'n_cache_reuse':256", "n_cache_reuse"},
    {"'t_max_predict_ms':100", "t_max_predict_ms"},
    {"'timings_per_token':true", "timings_per_token"},
    {"'return_progress':1", "return_progress"},
    {"'post_sampling_probs':true", "post_sampling_probs"},
    {"'response_fields':['content']", "response_fields"},
    {"'sse_ping_interval':5", "sse_ping_interval"},
    {"'image_data':[{}]", "image_data"},
};

static void test_wrong_completion_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        char body[300];
        struct reply_job job;
        struct err e = {0};
        snprintf(body, sizeof body, "{%s}", wrongs[i].body);
        enum status st = parse(&job, body, &e);
        if (st == ST_OK || strcmp(e.field, wrongs[i].field) != 0)
            fail_msg("%s: %s '%s', not '%s'", body, status_name(st), e.field, wrongs[i].field);
        server_job_release(&job);
    }
}

static void has(const char *reply, const char *part)
{
    if (!strstr(reply, json(part)))
        fail_msg("'%s' is not in: %s", part, reply);
}

static void test_completion_whole(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *s = post(&l, "/completion", json("{'prompt':'hi there','return_tokens':true,'n_probs':1}"));
    has(s, "\r\n\r\n{'index':0,'content':'Hello, \\'world\\'\\n','tokens':[72,101,");
    has(s, "'completion_probabilities':[{'id':72,'token':'H','logprob':-0.500000,'bytes':[72],'top_logprobs':[{'id':97,"
           "'token':'a','logprob':-1.000000,'bytes':[97]}]},");
    has(s, "'id_slot':-1,'stop':true,'model':'some/model','tokens_predicted':15,'tokens_evaluated':5,'tokens_cached':2,"
           "'generation_settings':{'n_predict':-1,'seed':");
    has(s, "'min_p':0.050000,");
    has(s, "},'prompt':'hi there','truncated':false,'stop_type':'eos','stopping_word':'',"
           "'timings':{'cache_n':2,'prompt_n':3,");
    has(s, "'predicted_n':15,'predicted_ms':");
    has(s, "},'usage':{'ffwd':{'sampled':15,");
    free(s);
    assert_false(last_request.no_prefix_cache);
    ask(&l, "/completions", "{'prompt':'hi there','n_predict':3,'cache_prompt':false}", 200,
        "{'index':0,'content':'Hel','tokens':[],'id_slot':-1,'stop':true,");
    assert_true(last_request.no_prefix_cache);
    ask(&l, "/completion", "{'prompt':'hi there','n_predict':3}", 200, "'stop_type':'limit'");
    s = post(&l, "/completion", json("{'prompt':['hi there','hi you'],'n_predict':2}"));
    has(s, "\r\n\r\n[{'index':0,'content':'He',");
    has(s, "},{'index':1,'content':'He',");
    has(s, "'prompt':'hi you',");
    char *usage = strstr(s, "\"usage\"");
    assert_true(usage && !strstr(usage + 1, "\"usage\"") && usage > strstr(s, "\"index\":1")); /* once, at the end */
    free(s);
    ask(&l, "/completion", "{'prompt':'busy'}", 429, "Retry-After: 7");
    ask(&l, "/completion", "{}", 400, "'param':'prompt'");
    ask(&l, "/completion", "{'prompt':'x','grammar':'broken'}", 400, "'param':'grammar'");
    stop(&l);
}

static void test_completion_stream(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *s = post(&l, "/completion", json("{'prompt':'hi there','stream':true,'n_predict':2}"));
    has(s, "Content-Type: text/event-stream\r\n");
    has(s, "data: {'index':0,'content':'H','tokens':[72],'stop':false,'id_slot':-1,'tokens_predicted':1,"
           "'tokens_evaluated':8}\n\n");
    has(s, "data: {'index':0,'content':'','tokens':[],'id_slot':-1,'stop':true,'model':'some/model','tokens_predicted':2,");
    has(s, "'stop_type':'limit'");
    assert_null(strstr(s, "[DONE]"));
    free(s);
    stop(&l);
}

#define PROGRESS "'prompt_progress':{'total':8,'cache':2,"

/* llama-server's return_progress, which chat and completions know too. */
static void test_progress(void **state)
{
    static const char *const bodies[][2] = {
        {"/completion", "{'prompt':'hi there','n_predict':2,'return_progress':true"},
        {"/v1/completions", "{'prompt':'hi there','max_tokens':2,'return_progress':true"},
        {"/v1/chat/completions", "{" HI ",'max_tokens':2,'return_progress':true"},
    };
    struct live l;
    (void)state;
    start(&l, false);
    for (size_t i = 0; i < 3; i++) {
        char body[200];
        snprintf(body, sizeof body, "%s,'stream':true}", bodies[i][1]);
        char *s = post(&l, bodies[i][0], json(body));
        const char *begins = strstr(s, json(PROGRESS "'processed':2,'time_ms':1.500000}}\n\n"));
        const char *ends = strstr(s, json(PROGRESS "'processed':8,'time_ms':1.500000}}\n\n"));
        const char *first = strstr(s, "\"H\"");
        if (!begins || begins > ends || ends > first)
            fail_msg("%s", s);
        free(s);
        snprintf(body, sizeof body, "%s}", bodies[i][1]);
        s = post(&l, bodies[i][0], json(body));
        assert_null(strstr(s, "progress")); /* there is none to tell of a whole reply */
        expect(s, 200, "He");
        ask(&l, bodies[i][0], "{" HI ",'prompt':'x','return_progress':5}", 400, "'param':'return_progress'");
    }
    stop(&l);
}

/* ---- /infill, and suffix ---- */

#define GAP "'input_prefix':'int ','input_suffix':';'"

static void test_infill(void **state)
{
    static const struct {
        const char *body, *part;
    } wrong[] = {
        {"{'input_prefix':'a'}", "input_suffix is missing"},
        {"{'input_suffix':'a'}", "input_prefix is missing"},
        {"{'input_prefix':1,'input_suffix':'a'}", "'param':'input_prefix'"},
        {"{" GAP ",'prompt':['a']}", "'param':'prompt'"},
        {"{" GAP ",'input_extra':'a'}", "'param':'input_extra'"},
        {"{" GAP ",'input_extra':[{'text':'a'},'b']}", "'param':'input_extra[1]'"},
        {"{" GAP ",'input_extra':[{'filename':'a'}]}", "input_extra[0]: text is missing"},
        {"{" GAP ",'input_extra':[{'text':'a','filename':1}]}", "'param':'input_extra[0]'"},
        {"{" GAP ",'n_predict':0}", "'param':'n_predict'"},
    };
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/infill", "{" GAP "}", 400, "input_prefix: this model has no tokens for filling in a text");
    fake_infill = (struct tok_infill){1, 2, 3, TOK_NONE, TOK_NONE};
    ask(&l, "/infill", "{" GAP ",'prompt':'x','n_predict':2,'n_cmpl':2}", 200, "'content':'He'");
    ask(&l, "/infill", "{" GAP ",'stream':true}", 200, "'tokens_evaluated':8}\n\n");
    ask(&l, "/infill", "{" GAP ",'input_extra':[{'text':'a'}],'stream':true}", 200, "'tokens_evaluated':28}\n\n");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ask(&l, "/infill", wrong[i].body, 400, wrong[i].part);
    struct buf many;
    buf_init(&many, 1 << 20);
    for (uint32_t i = 0; i <= LIMIT_INFILL_FILES; i++)
        buf_adds(&many, i ? ",{'text':''}" : "{'input_prefix':'','input_suffix':'','input_extra':[{'text':''}");
    buf_adds(&many, "]}");
    ask(&l, "/infill", many.data, 400, "input_extra has more than 256 entries");
    buf_release(&many);
    ask(&l, "/completion", "{'prompt':'x'," GAP "}", 400, "'param':'input_prefix'");
    stop(&l);
    fake_infill = (struct tok_infill){TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE};
}

static void test_suffix(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/v1/completions", "{'prompt':'x','suffix':''}", 200, "Hello");
    ask(&l, "/v1/completions", "{'prompt':'x','suffix':'y'}", 400, "suffix: this model has no tokens");
    ask(&l, "/api/generate", "{'prompt':'x','suffix':'y'}", 400, "suffix: this model has no tokens");
    fake_infill = (struct tok_infill){1, 2, 3, TOK_NONE, TOK_NONE};
    ask(&l, "/v1/completions", "{'prompt':['x','z'],'suffix':'y'}", 200, "{'index':1,'text':'Hello");
    ask(&l, "/v1/ffwd/count", "{'prompt':['x','zz'],'suffix':'y'}", 200, "'input_tokens':11,");
    ask(&l, "/v1/completions", "{'prompt':[1,2],'suffix':'y'}", 400, "'param':'suffix'");
    ask(&l, "/v1/completions", "{'prompt':'x','suffix':'y','echo':true}", 400, "'param':'suffix'");
    ask(&l, "/v1/completions", "{'prompt':'x','suffix':5}", 400, "'param':'suffix'");
    ask(&l, "/api/generate", "{'prompt':'x','suffix':'y','stream':false}", 200, "'response':'Hello");
    ask(&l, "/api/generate", "{'suffix':'y','stream':false}", 200, "'response':'Hello");
    ask(&l, "/api/generate", "{'prompt':'x','suffix':5}", 400, "suffix");
    ask(&l, "/api/generate", "{'prompt':'x','suffix':'y','raw':true}", 400, "suffix cannot be combined with raw");
    ask(&l, "/api/generate", "{'prompt':'x','suffix':'y','system':'s'}", 400, "suffix cannot be combined with");
    ask(&l, "/api/generate", "{'prompt':'x','suffix':'y','think':true}", 400, "think");
    stop(&l);
    fake_infill = (struct tok_infill){TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE};
}

/* ---- /props and /slots ---- */

static char *get(const struct live *l, const char *path)
{
    char request[100];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return raw(l, request);
}

static void test_props(void **state)
{
    static const struct server_facts facts = {.chat_template = "{{ \"x\" }}", .chat_template_n = 9,
                                              .path = "/a/secret/place/m.gguf", .context = 77};
    struct live l;
    struct err e = {0};
    (void)state;
    assert_int_equal(chat_new(&l.chat, NULL, "tools", 5, &e), ST_OK);
    struct server_config cfg = config(&l);
    cfg.facts = &facts;
    cfg.version = "1.2";
    start_with(&l, &cfg);
    char *s = get(&l, "/props");
    has(s, "{'default_generation_settings':{'id':0,'n_ctx':3,'speculative':false,'is_processing':false,'params':{"
           "'n_predict':-1,'seed':-1,'temperature':0.800000,");
    has(s, "}},'total_slots':2,'model_alias':'some/model','model_path':'m.gguf','n_ctx_train':77,"
           "'chat_template':'{{ \\'x\\' }}','bos_token':'','eos_token':'\\u0000',"
           "'modalities':{'vision':false,'audio':false},"
           "'build_info':'ffwd 1.2'}");
    free(s);
    stop(&l);
    start(&l, false);
    said(get(&l, "/props"), 200, "'model_path':'','n_ctx_train':0,'chat_template':''");
    stop(&l);
}

static void test_slots(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    said(get(&l, "/slots"), 200, "\r\n\r\n[{'id':0,'id_task':-1,'n_ctx':3,'speculative':false,'is_processing':false},"
         "{'id':1,'id_task':-1,'n_ctx':3,'speculative':false,'is_processing':false}]");
    int held[2];
    for (unsigned i = 0; i < 2; i++) {
        unsigned before = atomic_load(&submitted);
        held[i] = dial(&l);
        say(held[i], "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n{\"prompt\":\"hang\"}");
        for (int k = 0; k < 2000 && atomic_load(&submitted) == before; k++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        said(get(&l, "/slots"), 200, i ? "{'id':1,'id_task':1," : "{'id':1,'id_task':-1,");
        said(get(&l, "/slots?fail_on_no_slot=1"), i ? 503 : 200, i ? "no slot is free" : "{'id':0,'id_task':0,");
    }
    said(get(&l, "/slots?fail_on_no_slot=0"), 200, "'is_processing':true,'n_prompt_tokens':4,'n_prompt_tokens_cache':0,"
         "'n_prompt_tokens_processed':0,'next_token':{'has_next_token':true,'n_remain':-1,'n_decoded':0}}]");
    close(held[0]);
    close(held[1]);
    for (int k = 0; k < 2000 && atomic_load(&submitted) != atomic_load(&closed); k++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    stop(&l);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain), /* first: nothing was submitted then */
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_a_text_that_is_too_long),
        cmocka_unit_test(test_conversations),
        cmocka_unit_test(test_completion_fields),
        cmocka_unit_test(test_wrong_completion_fields),
        cmocka_unit_test(test_completion_whole),
        cmocka_unit_test(test_completion_stream),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_infill),
        cmocka_unit_test(test_suffix),
        cmocka_unit_test(test_props),
        cmocka_unit_test(test_slots),
    };
    return cmocka_run_group_tests_name("native", tests, NULL, NULL);
}
