/*
 * server: the Responses API: requests and their translation, and replies over real sockets with fakes below
 * (server_fake.h). The fake template shows the first message only, whose first word says what the reply does.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/responses.h"
#include "server/http/json_in.h"

/* ---- requests ---- */

struct asked {
    struct reply_job job;
    struct responses_request rq;
    struct buf conversation;
    struct err e;
};

static struct responses_own *own_of(const struct asked *a)
{
    return a->job.own;
}

/* `before`: held; taken over; NULL = nothing is continued. */
static enum status ask_after(struct asked *a, struct server_responses *store, struct server_response *before,
                             const char *request)
{
    const char *body = json(request);
    const struct text_view text = {body, strlen(body)};
    *a = (struct asked){0};
    server_job_init(&a->job);
    buf_init(&a->conversation, 1 << 20);
    assert_int_equal(responses_own_new(&a->job, &a->e), ST_OK);
    own_of(a)->store = store;
    own_of(a)->before = before;
    memset(own_of(a)->owner, 'o', SERVER_OWNER);
    assert_int_equal(http_json_parse(body, text.n, &a->job.root, &a->e), ST_OK);
    enum status st = responses_parse(a->job.root, text, &a->job, &a->rq, &a->e);
    if (st == ST_OK)
        st = responses_take_input(a->job.root, text, own_of(a), &a->e);
    return st == ST_OK ? responses_translate(&a->rq, text, own_of(a), &a->conversation, &a->e) : st;
}

static enum status ask(struct asked *a, const char *request)
{
    return ask_after(a, NULL, NULL, request);
}

static void asked_release(struct asked *a)
{
    server_job_release(&a->job);
    buf_release(&a->conversation);
}

#define HI "{'role':'user','content':'hi'}"
#define TEXT(s) "[{'type':'text','text':'" s "'}]"
#define HI_OUT "{'role':'user','content':" TEXT("hi") "}"

static void check_text(const char *members, const char *want)
{
    char body[4096];
    struct asked a;
    snprintf(body, sizeof body, "{%s}", members);
    if (ask(&a, body) != ST_OK)
        fail_msg("%s: %s", members, a.e.text);
    assert_string_equal(a.conversation.data, json(want));
    asked_release(&a);
}

static void test_messages(void **state)
{
    (void)state;
    check_text("'input':'h\\u0000i'", "{'messages':[{'role':'user','content':" TEXT("h\\u0000i") "}]}");
    check_text("'input':[" HI ",{'type':'message','role':'user','content':[{'type':'input_text','text':'a'},"
               "{'type':'input_text','text':'b'}]}]",
               "{'messages':[" HI_OUT ",{'role':'user','content':[{'type':'text','text':'a'},"
               "{'type':'text','text':'b'}]}]}");
    /* what is the system's at the beginning is one message, later ones are their own */
    check_text("'instructions':'i','input':[{'role':'system','content':'s'},{'role':'developer','content':'d'}," HI ","
               "{'role':'developer','content':'e'},{'role':'system','content':[]}]",
               "{'messages':[{'role':'system','content':[{'type':'text','text':'i'},{'type':'text','text':'s'},"
               "{'type':'text','text':'d'}]}," HI_OUT ",{'role':'developer','content':" TEXT("e") "},"
               "{'role':'system','content':[]}]}");
    check_text("'input':[{'role':'developer','content':'d'}," HI "]",
               "{'messages':[{'role':'developer','content':" TEXT("d") "}," HI_OUT "]}");
    check_text("'input':[" HI "],'reasoning':{'effort':'low','summary':'auto'},'chat_template_kwargs':{'x' : 1}",
               "{'messages':[" HI_OUT "],'chat_template_kwargs':{'x' : 1,'enable_thinking':true,'thinking':true,"
               "'reasoning_effort':'low'}}");
    check_text("'input':[" HI "],'reasoning':{'effort':'none'}",
               "{'messages':[" HI_OUT "],'chat_template_kwargs':{'enable_thinking':false,'thinking':false,"
               "'reasoning_effort':'none'}}");
    check_text("'input':[" HI "],'chat_template_kwargs':{}", "{'messages':[" HI_OUT "],'chat_template_kwargs':{}}");
}

static void test_calls_and_results(void **state)
{
    (void)state;
    check_text("'input':[" HI ",{'type':'reasoning','id':'rs_1','summary':[{'type':'summary_text','text':'s'}],'content':["
               "{'type':'reasoning_text','text':'\\u00e9'},{'type':'reasoning_text','text':'f'}]},"
               "{'type':'reasoning','summary':[],'encrypted_content':'x'},"
               "{'type':'message','id':'msg_1','status':'completed','role':'assistant','content':[{'type':'output_text',"
               "'annotations':[],'text':'t'},{'type':'refusal','refusal':'no'}]},"
               "{'type':'function_call','id':'fc_1','call_id':'c1','name':'f','arguments':'{\\'n\\': 1}'},"
               "{'type':'function_call','call_id':'c2','name':'g','arguments':''},"
               "{'type':'function_call_output','call_id':'c1','output':'r'},"
               "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text','text':'q'}]},"
               "{'role':'assistant','content':'u'}]",
               "{'messages':[" HI_OUT ",{'role':'assistant','content':[{'type':'text','text':'t'},"
               "{'type':'text','text':'no'}],'reasoning_content':'\\u00e9\\nf','tool_calls':["
               "{'id':'c1','type':'function','function':{'name':'f','arguments':'{\\'n\\': 1}'}},"
               "{'id':'c2','type':'function','function':{'name':'g','arguments':''}}]},"
               "{'role':'tool','tool_call_id':'c1','content':" TEXT("r") "},"
               "{'role':'tool','tool_call_id':'c2','content':" TEXT("q") "},"
               "{'role':'assistant','content':" TEXT("u") "}]}");
    const char *tools = "'input':[" HI "],'tools':[{'type':'function','name':'f','description':'d','parameters':"
                        "{'type' : 'object'},'strict':true},{'type':'function','name':'g','parameters':null}]";
    char more[1000];
    check_text(tools, "{'messages':[" HI_OUT "],'tools':[{'type':'function','function':{'name':'f','description':'d',"
               "'parameters':{'type' : 'object'}}},{'type':'function','function':{'name':'g'}}]}");
    snprintf(more, sizeof more, "%s,'tool_choice':'none'", tools);
    check_text(more, "{'messages':[" HI_OUT "]}");
}

static void test_fields(void **state)
{
    (void)state;
    struct asked a;
    assert_int_equal(ask(&a, "{'max_output_tokens':7,'input':'','temperature':0.5,'top_k':5,'stream':true,'store':false,"
        "'metadata':{'a':'b'},'service_tier':'flex','truncation':'disabled','max_tool_calls':3,'ffwd':{'plan':true},"
        "'include':['reasoning.encrypted_content','file_search_call.results'],'top_logprobs':3,'background':false,"
        "'user':'u','prompt_cache_options':{'mode':'implicit'},'tools':[{'type':'function','name':'f','parameters':{}},"
        "{'type':'function','name':'g','parameters':{},'strict':true}],'parallel_tool_calls':false,"
        "'tool_choice':{'type':'function','name':'g'},'stream_options':{'include_obfuscation':false}}"), ST_OK);
    assert_true(a.job.max_tokens == 7 && a.job.sampling.temperature == 0.5f && a.job.sampling.top_k == 5);
    assert_true(a.job.stream && a.job.plan && a.job.logprobs == 4 && !own_of(&a)->keep && own_of(&a)->encrypted);
    assert_true(a.rq.tools.n == 2 && !a.rq.tools.parallel && a.rq.tools.choice == FORMAT_NAMED && a.rq.tools.named == 1);
    assert_true(!server_set_has(a.rq.tools.strict, 0) && server_set_has(a.rq.tools.strict, 1) && !a.rq.effort);
    asked_release(&a);
    assert_int_equal(ask(&a, "{'input':'','text':{'format':{'type':'json_schema','name':'n','schema':{'type' : 'object'}}},"
        "'include':['message.output_text.logprobs'],'reasoning':{'effort':'medium'}}"), ST_OK);
    assert_int_equal(a.rq.format.kind, GRAMMAR_SCHEMA);
    assert_memory_equal(a.rq.format.text.data, json("{'type' : 'object'}"), a.rq.format.text.n);
    assert_true(a.job.logprobs == 1 && own_of(&a)->keep && a.rq.tools.parallel && !a.job.max_tokens);
    assert_string_equal(a.rq.effort, "medium");
    asked_release(&a);
    assert_int_equal(ask(&a, "{'input':'','text':{'format':{'type':'json_object'},'verbosity':'medium'}}"), ST_OK);
    assert_int_equal(a.rq.format.kind, GRAMMAR_JSON);
    asked_release(&a);
    assert_int_equal(ask(&a, "{'input':'','guided_choice':['a'],'tools':[{'type':'function','name':'f'}],"
                         "'tool_choice':'none'}"), ST_OK);
    assert_true(a.rq.format.kind == GRAMMAR_CHOICE && !a.rq.tools.n);
    asked_release(&a);
    assert_int_equal(ask(&a, "{'input':'','tools':[{'type':'function','name':'f'},{'type':'function','name':'g'}],"
        "'tool_choice':{'type':'allowed_tools','mode':'required','tools':[{'type':'function','name':'g'}]}}"), ST_OK);
    assert_true(a.rq.tools.some && !server_set_has(a.rq.tools.allowed, 0) && server_set_has(a.rq.tools.allowed, 1));
    assert_int_equal(a.rq.tools.choice, FORMAT_REQUIRED);
    asked_release(&a);
}

struct wrong {
    const char *rest, *field;
};

#define F "{'type':'function','name':'f'}"

/* Members of a request that has input; "-" before one that has not. */
static const struct wrong wrongs[] = {
    {"-'temperature':1", "input"},
    {"-'input':null", "input"},
    {"-'input':5", "input"},
    {"-'input':[]", "input"},
    {"-'input':[5]", "input[0]"},
    {"-'input':[{}]", "input[0]"},
    {"-'input':[{'role':'tool','content':''}]", "input[0]"},
    {"-'input':[" HI ",{'role':'user'}]", "input[1]"},
    {"-'input':[{'role':'user','content':[5]}]", "input[0].content[0]"},
    {"-'input':[{'role':'user','content':[{'type':'input_text','text':''},{'type':'input_image'}]}]",
     "input[0].content[1]"},
    {"-'input':[{'role':'user','content':[{'type':'input_text'}]}]", "input[0].content[0]"},
    {"-'input':[{'type':'web_search_call','id':'x'}]", "input[0]"},
    {"-'input':[{'type':'item_reference','id':'x'}]", "input[0].id"},
    {"-'input':[" HI ",{'id':'x'}]", "input[1].id"},
    {"-'input':[{'type':'item_reference'}]", "input[0].id"},
    {"-'input':[{'type':'function_call','call_id':'a','name':'f'}]", "input[0]"},
    {"-'input':[{'type':'function_call','call_id':'a','arguments':'{}'}]", "input[0]"},
    {"-'input':[{'type':'function_call_output','output':''}]", "input[0]"},
    {"-'input':[" HI ",{'type':'function_call_output','call_id':'a'}]", "input[1]"},
    {"-'input':[{'type':'function_call_output','call_id':'a','output':[{'type':'input_file'}]}]", "input[0].output[0]"},
    {"-'input':[{'type':'reasoning','content':'x'}]", "input[0]"},
    {"-'input':[{'type':'reasoning','content':[{}]}]", "input[0].content[0]"},
    {"'instructions':5", "instructions"},
    {"'max_output_tokens':0", "max_output_tokens"},
    {"'temperature':-1", "temperature"},
    {"'top_logprobs':21", "top_logprobs"},
    {"'stream':1", "stream"},
    {"'store':'yes'", "store"},
    {"'stream_options':{'include_obfuscation':true}", "stream_options.include_obfuscation"},
    {"'include':'x'", "include"},
    {"'include':['no.such.thing']", "include"},
    {"'metadata':[]", "metadata"},
    {"'metadata':{'a':1}", "metadata"},
    {"'background':true", "background"},
    {"'conversation':'conv_1'", "conversation"},
    {"'prompt':{'id':'x'}", "prompt"},
    {"'context_management':[{}]", "context_management"},
    {"'moderation':{'model':'m'}", "moderation"},
    {"'truncation':'auto'", "truncation"},
    {"'truncation':1", "truncation"},
    {"'prompt_cache_options':{'prewarm':true}", "prompt_cache_options.prewarm"},
    {"'previous_response_id':5", "previous_response_id"},
    {"'messages':[]", "messages"},
    {"'max_tokens':5", "max_tokens"},
    {"'response_format':{'type':'text'}", "response_format"},
    {"'n':2", "n"},
    {"'stop':'x'", "stop"},
    {"'bad_words':['x']", "bad_words"},
    {"'text':5", "text"},
    {"'text':{'verbosity':'low'}", "text.verbosity"},
    {"'text':{'format':{'type':'grammar'}}", "text.format.type"},
    {"'text':{'format':{'type':'json_schema'}}", "text.format.schema"},
    {"'text':{'format':{'type':'json_schema','schema':5}}", "text.format.schema"},
    {"'text':{'format':{'type':'json_schema','schema':{},'strict':5}}", "text.format.strict"},
    {"'text':{'format':{'type':'json_object'}},'regex':'a'", "regex"},
    {"'text':{'format':{'type':'json_object'}},'tools':[" F "]", "text.format"},
    {"'reasoning':'low'", "reasoning"},
    {"'reasoning':{'effort':'some'}", "reasoning.effort"},
    {"'reasoning':{'summary':'detailed'}", "reasoning.summary"},
    {"'reasoning':{'mode':'pro'}", "reasoning.mode"},
    {"'reasoning':{'effort':'low'},'chat_template_kwargs':{'enable_thinking':false}", "reasoning.effort"},
    {"'chat_template_kwargs':5", "chat_template_kwargs"},
    {"'tools':{}", "tools"},
    {"'tools':[5]", "tools[0]"},
    {"'tools':[{'name':'f'}]", "tools[0].type"},
    {"'tools':[" F ",{'type':'web_search'}]", "tools[1].type"},
    {"'tools':[{'type':'custom','name':'f'}]", "tools[0].type"},
    {"'tools':[{'type':'function'}]", "tools[0].name"},
    {"'tools':[{'type':'function','name':'f','parameters':5}]", "tools[0].parameters"},
    {"'tools':[{'type':'function','name':'f','description':5}]", "tools[0].description"},
    {"'tools':[{'type':'function','name':'f','strict':5}]", "tools[0].strict"},
    {"'tools':[{'type':'function','name':'f','defer_loading':true}]", "tools[0].defer_loading"},
    {"'parallel_tool_calls':5", "parallel_tool_calls"},
    {"'tool_choice':'some'", "tool_choice"},
    {"'tool_choice':'required'", "tool_choice"},
    {"'tools':[" F "],'tool_choice':{'type':'function','name':'g'}", "tool_choice"},
    {"'tools':[" F "],'tool_choice':{'type':'web_search_preview'}", "tool_choice"},
    {"'tools':[" F "],'tool_choice':{'type':'allowed_tools','mode':'some'}", "tool_choice.mode"},
    {"'tools':[" F "],'tool_choice':{'type':'allowed_tools','mode':'auto','tools':[]}", "tool_choice.tools"},
    {"'cache_salt':''", "cache_salt"},
};

static void test_wrong_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        char body[1000];
        struct asked a;
        snprintf(body, sizeof body, w->rest[0] == '-' ? "{%s}" : "{'input':[" HI "],%s}", w->rest + (w->rest[0] == '-'));
        enum status st = ask(&a, body);
        if (st == ST_OK || strcmp(a.e.field, w->field) != 0)
            fail_msg("%s: %s '%s', not '%s'", body, status_name(st), a.e.field, w->field);
        asked_release(&a);
    }
}

static void test_metadata_limits(void **state)
{
    (void)state;
    static const struct {
        unsigned name, value, pairs;
        enum status st;
    } cases[] = {{64, 512, 16, ST_OK}, {65, 1, 1, ST_ARGUMENT}, {1, 513, 1, ST_ARGUMENT}, {1, 1, 17, ST_ARGUMENT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[4000];
        size_t n = (size_t)snprintf(body, sizeof body, "{'input':'','metadata':{");
        for (unsigned k = 0; k < cases[i].pairs; k++)
            n += (size_t)snprintf(body + n, sizeof body - n, "%s'%0*u':'%0*u'", k ? "," : "", (int)cases[i].name, k,
                                  k ? 1 : (int)cases[i].value, 0u);
        snprintf(body + n, sizeof body - n, "}}");
        struct asked a;
        assert_int_equal(ask(&a, body), cases[i].st);
        asked_release(&a);
    }
}

static void test_names(void **state)
{
    (void)state;
    struct asked a;
    assert_int_equal(ask(&a, "{'previous_response_id':'resp_1','input':[{'type':'reasoning','id':'rs_1',"
        "'encrypted_content':'resp_0'},{'type':'function_call','call_id':'c1','name':'f','arguments':'{}'},"
        "{'type':'function_call_output','call_id':'c1','output':''},{'role':'user','content':'','id':5}]}"), ST_OK);
    responses_name_items(a.job.root, &a.job);
    const char *want[] = {"c1", "rs_1", "resp_0", "resp_1"};
    assert_int_equal(a.job.lookups_n, 4);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(a.job.lookups[i].s, want[i], strlen(want[i]));
    asked_release(&a);
}

/* ---- what is continued ---- */

static struct server_response *keep(struct server_responses *st, const char *id, struct server_response *before,
                                    const char *in, const char *out)
{
    char owner[SERVER_OWNER];
    memset(owner, 'o', sizeof owner);
    const struct server_name who = {owner, sizeof owner}, name = {id, strlen(id)};
    in = json(in);
    out = json(out);
    const struct server_response texts = {.input = {in, strlen(in)}, .output = {out, strlen(out)}};
    server_responses_put(st, who, name, before, &texts);
    server_responses_drop(st, before);
    return server_responses_find(st, who, name);
}

static void test_continued(void **state)
{
    (void)state;
    struct server_responses *st;
    struct asked a;
    struct err e;
    assert_int_equal(server_responses_new(&st, &e), ST_OK);
    struct server_response *r = keep(st, "resp_1", NULL, "[{'role':'developer','content':'d'}," HI "]",
        "[{'type':'function_call','id':'fc_1','call_id':'c1','name':'f','arguments':'{}'}]");
    r = keep(st, "resp_2", r, "[{'type':'function_call_output','call_id':'c1','output':'r'}]",
             "[{'type':'message','id':'msg_2','role':'assistant','content':[{'type':'output_text','text':'t'}]}]");
    /* the latest instructions alone count; an item that is referred to stands for itself */
    assert_int_equal(ask_after(&a, st, r, "{'previous_response_id':'resp_2','instructions':'i','input':["
        "{'type':'item_reference','id':'msg_2'}," HI "]}"), ST_OK);
    assert_string_equal(a.conversation.data, json(
        "{'messages':[{'role':'system','content':[{'type':'text','text':'i'},{'type':'text','text':'d'}]}," HI_OUT ","
        "{'role':'assistant','content':[],'tool_calls':[{'id':'c1','type':'function','function':{'name':'f',"
        "'arguments':'{}'}}]},{'role':'tool','tool_call_id':'c1','content':" TEXT("r") "},"
        "{'role':'assistant','content':[{'type':'text','text':'t'},{'type':'text','text':'t'}]}," HI_OUT "]}"));
    asked_release(&a);
    /* nothing new is fine where something is continued; errors know whose items are wrong */
    r = keep(st, "resp_3", NULL, "[" HI "]", "[{'type':'computer_call'}]");
    assert_int_equal(ask_after(&a, st, r, "{'previous_response_id':'resp_3','input':[]}"), ST_UNSUPPORTED);
    assert_string_equal(a.e.field, "previous_response_id");
    asked_release(&a);
    r = keep(st, "resp_4", NULL, "[" HI "]", "[]");
    assert_int_equal(ask_after(&a, st, r, "{'previous_response_id':'resp_4'}"), ST_OK);
    asked_release(&a);
    server_responses_free(st);
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

/* The parts follow each other in `reply`, which is freed. */
static void has_in_order(char *reply, const char *const *parts, size_t n)
{
    const char *at = reply;
    for (size_t i = 0; i < n; i++) {
        const char *found = strstr(at, json(parts[i]));
        if (!found)
            fail_msg("'%s' is not in: %s", parts[i], at);
        at = found + strlen(parts[i]);
    }
    free(reply);
}

/* A template that thinks and knows tools. */
static void start_thinking(struct live *l, const char *more)
{
    char source[200];
    struct err e = {0};
    snprintf(source, sizeof source, "{{ tools }} <tool_call> <think> </think> %s", more);
    assert_int_equal(chat_new(&l->chat, NULL, source, strlen(source), &e), ST_OK);
    struct server_config cfg = config(l);
    start_with(l, &cfg);
}

#define TOOLS ",'tools':[{'type':'function','name':'f','parameters':{'type':'object'}}]"
#define THOUGHT "<think>\nWhy \"not\"?\n</think>\n\n"
#define CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"y\"}}\n</tool_call>"

static char *respond(const struct live *l, const char *script_name, const char *more)
{
    char body[1000];
    snprintf(body, sizeof body, "{'max_output_tokens':500,'input':'%s'%s}", script_name, more);
    return post(l, "/v1/responses", json(body));
}

static void test_whole(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *s = respond(&l, "hi there", ",'metadata':{'a' : 'b c'},\n'tools':[ ],'temperature':0.50");
    const char *order[] = {
        "\r\nX-Request-Id: resp_", "{'id':'resp_", "'object':'response','created_at':",
        "'status':'completed','completed_at':",
        "'error':null,'incomplete_details':null,'model':'some/model','background':false,'instructions':null,"
        "'max_output_tokens':500,'max_tool_calls':null,'metadata':{'a':'b c'},'parallel_tool_calls':true,",
        "'store':true,'temperature':0.50,'text':{'format':{'type':'text'}},'tool_choice':'auto','tools':[],",
        "'service_tier':'default','output':[{'id':'msg_", "'type':'message','status':'completed','role':'assistant',"
        "'content':[{'type':'output_text','annotations':[],'logprobs':[],'text':'Hello, \\'world\\'\\n'}]}],"
        "'usage':{'input_tokens':5,'input_tokens_details':{'cached_tokens':2,'cache_write_tokens':0},"
        "'output_tokens':15,'output_tokens_details':{'reasoning_tokens':0},'total_tokens':20,'ffwd':{'sampled':15,",
    };
    has_in_order(s, order, sizeof order / sizeof *order);
    said(respond(&l, "full", ""), 200, "'ffwd_detail':'kv_exhausted'");
    const char *cut = "'incomplete_details':{'reason':'max_output_tokens'}";
    said(post(&l, "/v1/responses", json("{'max_output_tokens':3,'input':'hi there'}")), 200, cut);
    s = post(&l, "/v1/responses", json("{'max_output_tokens':3,'input':'hi there'}"));
    has(s, "'status':'incomplete','role':'assistant','content':[{'type':'output_text','annotations':[],'logprobs':[],"
        "'text':'Hel'}]}]");
    free(s);
    said(respond(&l, "utf8", ""), 200, "'text':'a\xEF\xBF\xBD\xEF\xBF\xBD'");
    said(respond(&l, "hi there", ",'top_logprobs':1"), 200, "'logprobs':[{'token':'H','logprob':-0.500000,'bytes':[72],"
         "'top_logprobs':[{'token':'a','logprob':-1.000000,'bytes':[97]}]},{'token':'e',");
    said(post(&l, "/v1/responses/input_tokens", json("{'input':'twelve bytes'}")), 200,
         "{'object':'response.input_tokens','input_tokens':12}");
    said(post(&l, "/v1/responses/input_tokens", json("{'input':[]}")), 400, "input is empty");
    stop(&l);
}

#define EVENT(name, n) "event: " name "\ndata: {'type':'" name "','sequence_number':" n

static void test_stream(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    const char *order[] = {
        EVENT("response.created", "0") ",'response':{'id':'resp_", "'status':'in_progress','completed_at':null,",
        "'tools':[],", "'output':[],'usage':null}}\n\n",
        EVENT("response.in_progress", "1"),
        EVENT("response.output_item.added", "2") ",'output_index':0,'item':{'id':'msg_",
        "'type':'message','status':'in_progress','role':'assistant','content':[]}}\n\n",
        EVENT("response.content_part.added", "3") ",'output_index':0,'item_id':'msg_", "'content_index':0,'part':{"
        "'type':'output_text','annotations':[],'logprobs':[],'text':''}}\n\n",
        EVENT("response.output_text.delta", "4"), "'content_index':0,'delta':'H", "','logprobs':[]}\n\n",
        "event: response.output_text.done\n", "'content_index':0,'text':'Hello, \\'world\\'\\n','logprobs':[]}\n\n",
        "event: response.content_part.done\n", "'text':'Hello, \\'world\\'\\n'}}\n\n",
        "event: response.output_item.done\n", "'type':'message','status':'completed','role':'assistant','content':[{",
        "event: response.completed\n", "'status':'completed',", "'output':[{'id':'msg_", "'usage':{'input_tokens':5,",
    };
    has_in_order(respond(&l, "hi there", ",'stream':true,\n'tools':[\n]"), order, sizeof order / sizeof *order);
    char *s = post(&l, "/v1/responses", json("{'max_output_tokens':3,'input':'hi there','stream':true}"));
    has(s, "event: response.incomplete\n");
    assert_null(strstr(s, "response.completed"));
    free(s);
    s = respond(&l, "hi there", ",'top_logprobs':1,'stream':true");
    has(s, "','logprobs':[{'token':'H','logprob':-0.500000,'bytes':[72],'top_logprobs':[{'token':'a',");
    free(s);
    stop(&l);
}

/* What was told of the reply by then is in the response that failed, as far as it is complete. */
static void test_broken_stream(void **state)
{
    char model[] = "some/model";
    struct server srv = {.model = model};
    struct http_call call = {.id = "resp_1"};
    struct reply r = {.srv = &srv, .call = &call};
    struct buf out;
    (void)state;
    buf_init(&out, 4000);
    buf_init(&r.parts[0].tool_calls, 100);
    buf_adds(&r.parts[0].tool_calls, json("{'id':'rs_1'}"));
    assert_int_equal(responses_own_new(&r.job, &r.err), ST_OK);
    ((struct responses_own *)r.job.own)->events = 7;
    r.parts[0].begun = true;
    (void)err_set(&r.err, ST_DEADLINE, "", "it was not done in time");
    responses_ops.broken(&r, &out);
    assert_string_equal(out.data, json("event: response.failed\ndata: {'type':'response.failed','sequence_number':7,"
        "'response':{'id':'resp_1','object':'response','created_at':0,'status':'failed','completed_at':null,'error':{"
        "'code':'server_error','message':'it was not done in time'},'incomplete_details':null,'model':'some/model',"
        "'output':[{'id':'rs_1'}],'usage':null}}\n\n"));
    assert_string_equal(call.failure, status_name(ST_DEADLINE));
    buf_release(&out);
    buf_release(&r.parts[0].tool_calls);
    server_job_release(&r.job);
}

/* A stream that only said that it is still there begins as every other before it tells what went wrong. */
static void test_stream_that_broke_at_once(void **state)
{
    char model[] = "some/model";
    struct server srv = {.model = model};
    struct http_call call = {.id = "resp_1"};
    struct reply r = {.srv = &srv, .call = &call};
    struct buf out;
    const char *order[] = {
        EVENT("response.created", "0") ",'response':{'id':'resp_1'", "'status':'in_progress','completed_at':null,"
        "'error':null,", EVENT("response.in_progress", "1"), "'error':null,", EVENT("response.failed", "2"),
        "'status':'failed','completed_at':null,'error':{'code':'server_error','message':'it was not done in time'}",
    };
    (void)state;
    buf_init(&out, 4000);
    assert_int_equal(responses_own_new(&r.job, &r.err), ST_OK);
    (void)err_set(&r.err, ST_DEADLINE, "", "it was not done in time");
    responses_ops.broken(&r, &out);
    has_in_order(out.data, order, sizeof order / sizeof *order);
    server_job_release(&r.job);
}

/* Reasoning, text and calls of a reply, whole and as a stream's deltas. */
static void test_items(void **state)
{
    struct live l;
    (void)state;
    start_thinking(&l, "");
    fake_reply = THOUGHT "So." CALL;
    const char *whole[] = {
        "'output':[{'id':'rs_", "'type':'reasoning','status':'completed','summary':[],'content':[{'type':'reasoning_text',"
        "'text':'Why \\'not\\'?'}],'encrypted_content':'resp_", "'},{'id':'msg_", "'text':'So.'}]},{'id':'fc_",
        "'type':'function_call','status':'completed','call_id':'call_", "','name':'f','arguments':'{\\'a\\': "
        "\\'x\\\\\\'y\\'}'}],'usage':{",
    };
    has_in_order(respond(&l, "say it", TOOLS ",'include':['reasoning.encrypted_content']"), whole,
                 sizeof whole / sizeof *whole);
    const char *told[] = {
        EVENT("response.output_item.added", "2"), "'item':{'id':'rs_",
        "'type':'reasoning','status':'in_progress','summary':[],"
        "'content':[]}}\n\n", "event: response.content_part.added\n", "'part':{'type':'reasoning_text','text':''}}\n\n",
        "event: response.reasoning_text.delta\n", "'delta':'W", "event: response.reasoning_text.done\n",
        "event: response.output_item.done\n", "event: response.output_item.added\n", "'output_index':1,'item':{'id':'msg_",
        "event: response.output_item.done\n", "event: response.output_item.added\n", "'output_index':2,'item':{'id':'fc_",
        "'type':'function_call','status':'in_progress','call_id':'call_", "'name':'f','arguments':''}}\n\n",
        "event: response.function_call_arguments.delta\n", "'output_index':2,'item_id':'fc_", "','delta':'{",
        "event: response.function_call_arguments.done\n", "'arguments':'{\\'a\\': \\'x\\\\\\'y\\'}','name':'f'}\n\n",
        "event: response.output_item.done\n", "event: response.completed\n", "'output':[{'id':'rs_",
        "'arguments':'{\\'a\\': \\'x\\\\\\'y\\'}'}],'usage':{",
    };
    has_in_order(respond(&l, "say it", TOOLS ",'stream':true"), told, sizeof told / sizeof *told);
    said(respond(&l, "say it", TOOLS), 200, "'reasoning_tokens':18}"); /* up to the question mark */
    /* log-probabilities are those of the text's ids: none of the mark that a call begins with */
    const char *alone = "'token':'.','logprob':-0.500000,'bytes':[46],'top_logprobs':[{'token':'a','logprob':-1.000000,"
                        "'bytes':[97]}]}],'text':'So.'}";
    said(respond(&l, "say it", TOOLS ",'top_logprobs':1"), 200, alone);
    said(respond(&l, "say it", TOOLS ",'top_logprobs':1,'stream':true"), 200, alone);
    /* a call that breaks is text; in a stream, what was told of it stands */
    fake_reply = "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ]";
    said(respond(&l, "say it", TOOLS), 200,
         "'text':'a <tool_call>\\n{\\'name\\': \\'f\\', \\'arguments\\': {\\'a\\': ]'}]}],");
    const char *broke[] = {
        "'type':'function_call','status':'in_progress'", "event: response.output_item.done\n",
        "'type':'function_call','status':'incomplete'", "'output_index':2,'item':{'id':'msg_",
        "event: response.completed\n",
    };
    has_in_order(respond(&l, "say it", TOOLS ",'stream':true"), broke, sizeof broke / sizeof *broke);
    stop(&l);
}

/* ---- kept responses ---- */

/* The id of a reply's response, which is freed. */
static void take_id(char *reply, char *id, size_t cap)
{
    const char *at = strstr(reply, json("{'id':'resp_"));
    assert_non_null(at);
    snprintf(id, cap, "%.29s", at + 7);
    free(reply);
}

static char *call(const struct live *l, const char *method, const char *id, const char *more)
{
    char request[300];
    snprintf(request, sizeof request, "%s /v1/responses/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n",
             method, id, more);
    return raw(l, request);
}

static void test_kept(void **state)
{
    struct live l;
    char id[40], second[40], more[200];
    (void)state;
    start(&l, false);
    take_id(respond(&l, "hi there", ""), id, sizeof id);
    take_id(respond(&l, "hi there", ",'stream':true"), second, sizeof second);
    said(call(&l, "GET", id, ""), 200, "'text':'Hello, \\'world\\'\\n'}]}],'usage':{'input_tokens':5,");
    said(call(&l, "GET", second, ""), 200, "'status':'completed',");
    said(call(&l, "GET", id, "Authorization: Bearer other\r\n"), 404, "'param':'response_id'");
    snprintf(more, sizeof more, "%s?stream=true", id);
    said(call(&l, "GET", more, ""), 400, "'param':'stream'");
    snprintf(more, sizeof more, ",'previous_response_id':'%s'", id);
    const int own = getpriority(PRIO_PROCESS, 0), low = own < 10 ? 10 : own;
    assert_int_equal(encoder_nice, own);
    said(respond(&l, "and now", more), 200, "'previous_response_id':'resp_");
    assert_int_equal(encoder_nice, low); /* what it continues may be long */
    said(call(&l, "DELETE", id, "Authorization: Bearer other\r\n"), 404, "'param':'response_id'");
    said(call(&l, "DELETE", id, ""), 200, "'object':'response','deleted':true}");
    said(call(&l, "DELETE", id, ""), 404, "'type':'invalid_request_error'");
    said(call(&l, "GET", id, ""), 404, " here (any more)");
    said(respond(&l, "and now", more), 400, "'param':'previous_response_id','code':'previous_response_not_found'}");
    said(call(&l, "POST", second, "Content-Length: 0\r\n"), 405, "Allow: GET, HEAD, DELETE, OPTIONS");
    take_id(respond(&l, "hi there", ",'store':false"), id, sizeof id);
    said(call(&l, "GET", id, ""), 404, "'param':'response_id'");
    stop(&l);
}

/* ---- errors and effort ---- */

static void test_errors(void **state)
{
    struct live l;
    (void)state;
    start(&l, true);
    const char *model = ",'model':'some/model'";
    said(respond(&l, "hi there", ",'model':'other'"), 404, "'code':'model_not_found'}");
    said(respond(&l, "busy", model), 429, "Retry-After: 7");
    said(respond(&l, "long", model), 400, "'param':'input','code':'context_length_exceeded'}");
    said(respond(&l, "fuel", model), 400, "'param':'input'");
    said(respond(&l, "fail", model), 500, "'type':'server_error'");
    said(respond(&l, "fail", ",'stream':true,'model':'some/model'"), 500, "'type':'server_error'");
    said(respond(&l, "late", model), 504, "'code':'deadline'}");
    said(post(&l, "/v1/responses", "{"), 400, "'code':'invalid_json'}");
    said(raw(&l, "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405,
         "Allow: POST, OPTIONS");
    stop(&l);
}

static void test_effort(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    said(respond(&l, "hi there", ",'reasoning':{'effort':'low'}"), 400, "'param':'reasoning.effort'");
    said(respond(&l, "hi there", ",'reasoning':{'effort':'none'}"), 200, "'reasoning':{'effort':'none'}");
    stop(&l);
    start_thinking(&l, "");
    said(respond(&l, "hi there", ",'reasoning':{'effort':'low'}"), 400, "cannot be kept"); /* its end is no token */
    said(respond(&l, "hi there", ",'reasoning':{'effort':'max'}"), 200, "Hello");
    said(respond(&l, "hi <think>", ",'reasoning':{'effort':'none'}"), 400, "reasoning.effort cannot be kept");
    stop(&l);
    start_thinking(&l, "{{ reasoning_effort }}");
    said(respond(&l, "hi there", ",'reasoning':{'effort':'low'}"), 200, "Hello");
    assert_int_equal(last_request.thinking.close_n, 0); /* the template limits it */
    stop(&l);
}

/* A ceiling of ids for each word, where thinking begins and ends with tokens. */
static void test_effort_without_the_template(void **state)
{
    struct live l;
    (void)state;
    static const struct {
        const char *word;
        unsigned ids;
    } cases[] = {{"minimal", 256}, {"low", 1024}, {"medium", 4096}, {"high", 16384}, {"xhigh", 0}, {"max", 0}};
    fake_special[4] = "<think>", fake_special[5] = "</think>";
    start_thinking(&l, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[100];
        snprintf(more, sizeof more, ",'reasoning':{'effort':'%s'}", cases[i].word);
        said(respond(&l, "hi there", more), 200, "Hello");
        assert_int_equal(last_request.thinking.ids, cases[i].ids);
        assert_true(!last_request.thinking.close_n == !cases[i].ids);
    }
    stop(&l);
    memset(fake_special, 0, sizeof fake_special);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),     cmocka_unit_test(test_calls_and_results), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_wrong_fields), cmocka_unit_test(test_metadata_limits),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_continued),    cmocka_unit_test(test_whole),             cmocka_unit_test(test_stream),
        cmocka_unit_test(test_broken_stream), cmocka_unit_test(test_items),            cmocka_unit_test(test_kept),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_effort),
        cmocka_unit_test(test_effort_without_the_template),
        cmocka_unit_test(test_stream_that_broke_at_once),
    };
    fake_init();
    return cmocka_run_group_tests_name("responses", tests, NULL, NULL);
}
