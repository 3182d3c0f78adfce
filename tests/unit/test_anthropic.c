/*
 * server: the Messages API: requests and their translation, and replies over real sockets with fakes below
 * (server_fake.h). The fake template shows the first message only, whose first word says what the reply does.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/anthropic.h"
#include "server/http/json_in.h"

/* ---- requests ---- */

struct asked {
    json_t *root;
    struct reply_job job;
    struct anthropic_request rq;
    struct buf conversation, begun;
    struct err e;
};

static enum status ask(struct asked *a, const char *request)
{
    const char *body = json(request);
    const struct text_view text = {body, strlen(body)};
    *a = (struct asked){0};
    server_job_init(&a->job);
    buf_init(&a->conversation, 1 << 20);
    buf_init(&a->begun, 1 << 20);
    assert_int_equal(http_json_parse(body, text.n, &a->job.root, &a->e), ST_OK);
    enum status st = anthropic_parse(a->job.root, text, &a->job, &a->rq, &a->e);
    return st == ST_OK ? anthropic_translate(&a->rq, text, &a->conversation, &a->begun, &a->e) : st;
}

static void asked_release(struct asked *a)
{
    server_job_release(&a->job);
    buf_release(&a->conversation);
    buf_release(&a->begun);
}

#define OFF ",'chat_template_kwargs':{'enable_thinking':false,'thinking':false}}"
#define ON ",'chat_template_kwargs':{'enable_thinking':true,'thinking':true}}"
#define HI "{'role':'user','content':'hi'}"
#define HI_OUT "{'role':'user','content':[{'type':'text','text':'hi'}]}"

/* What `rest` of a request, behind max_tokens, becomes. */
static void check_text(const char *rest, const char *want, const char *begun)
{
    char body[4096];
    struct asked a;
    snprintf(body, sizeof body, "{'max_tokens':9,%s}", rest);
    if (ask(&a, body) != ST_OK)
        fail_msg("%s: %s", rest, a.e.text);
    assert_string_equal(a.conversation.data, json(want));
    assert_string_equal(a.begun.len ? a.begun.data : "", json(begun));
    asked_release(&a);
}

static void test_turns(void **state)
{
    (void)state;
    check_text("'messages':[" HI "]", "{'messages':[" HI_OUT "]" OFF, "");
    check_text("'system':'a\\u0000b','messages':[" HI "]",
               "{'messages':[{'role':'system','content':[{'type':'text','text':'a\\u0000b'}]}," HI_OUT "]" OFF, "");
    check_text("'system':[{'type':'text','text':'a','cache_control':{'type':'ephemeral'}},"
               "{'type':'text','text':'b'}],'messages':[" HI "]",
               "{'messages':[{'role':'system','content':[{'type':'text','text':'a'},"
               "{'type':'text','text':'b'}]}," HI_OUT "]" OFF, "");
    /* turns of the user in a row are one */
    check_text("'messages':[" HI ",{'role':'user','content':[{'type':'text','text':'you'}]},"
               "{'role':'system','content':'s'}]",
               "{'messages':[{'role':'user','content':[{'type':'text','text':'hi'},{'type':'text',"
               "'text':'you'}]},{'role':'system','content':[{'type':'text','text':'s'}]}]" OFF, "");
    check_text("'messages':[" HI "],'thinking':{'type':'adaptive'}", "{'messages':[" HI_OUT "]" ON, "");
    /* what the reply begins with */
    check_text("'messages':[" HI ",{'role':'assistant','content':'The \\'answer\\''}]",
               "{'messages':[" HI_OUT "]" OFF, "The 'answer'");
    check_text("'messages':[" HI ",{'role':'assistant','content':[{'type':'text','text':'a'},"
               "{'type':'text','text':'b'}]}]", "{'messages':[" HI_OUT "]" OFF, "a\nb");
}

static void test_calls_and_results(void **state)
{
    (void)state;
    check_text("'messages':[" HI ",{'role':'assistant','content':[{'type':'thinking','thinking':'\\u00e9',"
               "'signature':'msg_1'},{'type':'redacted_thinking','data':'x'},{'type':'text','text':'t'},"
               "{'type':'tool_use','id':'c1','name':'f','input':{'n': 18446744073709551615,'x':0.10}},"
               "{'type':'tool_use','id':'c2','name':'g','input':{}}]},"
               "{'role':'user','content':[{'type':'tool_result','tool_use_id':'c1','content':'r'},"
               "{'type':'tool_result','tool_use_id':'c2','is_error':true,'content':[{'type':'text',"
               "'text':'no'}]},{'type':'tool_result','tool_use_id':'c3'},{'type':'text','text':'so?'}]}]",
               "{'messages':[" HI_OUT ",{'role':'assistant','content':[{'type':'text','text':'t'}],"
               "'reasoning_content':'\\u00e9','tool_calls':[{'id':'c1','type':'function','function':"
               "{'name':'f','arguments':{'n': 18446744073709551615,'x':0.10}}},{'id':'c2','type':'function',"
               "'function':{'name':'g','arguments':{}}}]},"
               "{'role':'tool','tool_call_id':'c1','content':[{'type':'text','text':'r'}]},"
               "{'role':'tool','tool_call_id':'c2','content':[{'type':'text','text':'Error:'},"
               "{'type':'text','text':'no'}]},{'role':'tool','tool_call_id':'c3','content':[]},"
               "{'role':'user','content':[{'type':'text','text':'so?'}]}]" OFF, "");
    const char *tools = "'messages':[" HI "],'tools':[{'name':'f','description':'d','input_schema':{'type' : "
                        "'object'},'cache_control':{'type':'ephemeral'}},{'name':'g','input_schema':{}}]";
    char more[1000];
    check_text(tools, "{'messages':[" HI_OUT "],'tools':[{'type':'function','function':{'name':'f',"
               "'description':'d','parameters':{'type' : 'object'}}},{'type':'function','function':{"
               "'name':'g','parameters':{}}}]" OFF, "");
    snprintf(more, sizeof more, "%s,'tool_choice':{'type':'none'}", tools);
    check_text(more, "{'messages':[" HI_OUT "]" OFF, "");
}

static void test_fields(void **state)
{
    (void)state;
    struct asked a;
    assert_int_equal(ask(&a, "{'max_tokens':7,'messages':[" HI "],'temperature':0.5,'top_p':0,"
        "'top_k':5,'stream':true,'stop_sequences':['x','yz'],'metadata':{'user_id':null},'service_tier':'auto',"
                         "'cache_control':{'type':'ephemeral'},'ffwd':{'plan':true},'tools':[{'name':'f',"
                         "'input_schema':{}},{'name':'g','input_schema':{},'strict':true,'type':'custom'}],"
                         "'tool_choice':{'type':'tool','name':'g','disable_parallel_tool_use':true}}"), ST_OK);
    assert_int_equal(a.job.max_tokens, 7);
    assert_true(a.job.sampling.temperature == 0.5f && a.job.sampling.top_p > 0 && a.job.sampling.top_p < 1e-20f);
    assert_true(a.job.sampling.top_k == 5 && a.job.stream && a.job.plan && a.job.stops_n == 2 && a.job.stops[1].n == 2);
    assert_true(a.rq.tools == 2 && !a.rq.parallel && a.rq.choice == FORMAT_NAMED && a.rq.named == 1);
    assert_true(!server_set_has(a.rq.strict, 0) && server_set_has(a.rq.strict, 1));
    asked_release(&a);
    assert_int_equal(ask(&a, "{'max_tokens':7,'messages':[" HI "],'output_config':{'format':{'type':'json_schema',"
                         "'schema':{'type' : 'object'}}},'thinking':{'type':'enabled','budget_tokens':6}}"), ST_OK);
    assert_int_equal(a.rq.format.kind, GRAMMAR_SCHEMA);
    assert_memory_equal(a.rq.format.text.data, json("{'type' : 'object'}"), a.rq.format.text.n);
    assert_true(a.rq.thinking == THINKING_BUDGET && a.rq.budget == 6 && a.rq.parallel && a.job.sampling.temperature == 1);
    asked_release(&a);
}

struct wrong {
    const char *rest, *field;
};

/* Members of a request that has messages and max_tokens; "-" before one that has neither. */
static const struct wrong wrongs[] = {
    {"-'messages':[" HI "]", "max_tokens"},
    {"-'max_tokens':1", "messages"},
    {"-'max_tokens':0,'messages':[" HI "]", "max_tokens"},
    {"-'max_tokens':1,'messages':[]", "messages"},
    {"-'max_tokens':1,'messages':[5]", "messages[0]"},
    {"-'max_tokens':1,'messages':[{'role':'tool','content':''}]", "messages[0]"},
    {"-'max_tokens':1,'messages':[" HI ",{'role':'user'}]", "messages[1]"},
    {"-'max_tokens':1,'messages':[{'role':'user','content':[]}]", "messages[0]"},
    {"-'max_tokens':1,'messages':[{'role':'user','content':[{'type':'image'}]}]",
     "messages[0].content[0]"},
    {"-'max_tokens':1,'messages':[{'role':'user','content':[{'type':'tool_use'}]}]",
     "messages[0].content[0]"},
    {"-'max_tokens':1,'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'a',"
     "'content':[{'type':'text','text':''},{'type':'document'}]}]}]",
     "messages[0].content[0].content[1]"},
    {"-'max_tokens':1,'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'a',"
     "'is_error':1}]}]", "messages[0].content[0]"},
    {"-'max_tokens':1,'messages':[{'role':'assistant','content':[{'type':'tool_use','id':'a','name':'f',"
     "'input':[]}]}," HI "]", "messages[0].content[0]"},
    {"-'max_tokens':1,'messages':[" HI ",{'role':'assistant','content':[{'type':'tool_use'}]}]",
     "messages[1].content[0]"},
    {"-'max_tokens':1,'messages':[" HI ",{'role':'assistant','content':'a '}]", "messages[1].content"},
    {"-'max_tokens':1,'messages':[{'role':'assistant','content':'a'}]", "messages"},
    {"'system':[{'type':'image'}]", "system[0]"},
    {"'system':5", "system"},
    {"'temperature':1.5", "temperature"},
    {"'top_p':-1", "top_p"},
    {"'top_k':0.5", "top_k"},
    {"'stop_sequences':'x'", "stop_sequences"},
    {"'stop_sequences':['x','']", "stop_sequences[1]"},
    {"'stream':1", "stream"},
    {"'metadata':{'user_id':5}", "metadata.user_id"},
    {"'service_tier':'priority'", "service_tier"},
    {"'cache_control':true", "cache_control"},
    {"'container':'x'", "container"},
    {"'mcp_servers':[{}]", "mcp_servers"},
    {"'diagnostics':{}", "diagnostics"},
    {"'speed':'fast'", "speed"},
    {"'thinking':true", "thinking"},
    {"'thinking':{'type':'enabled'}", "thinking.budget_tokens"},
    {"'thinking':{'type':'enabled','budget_tokens':0}", "thinking.budget_tokens"},
    {"'thinking':{'type':'enabled','budget_tokens':9}", "thinking.budget_tokens"},
    {"'thinking':{'type':'between_tools'}", "thinking.type"},
    {"'thinking':{'type':'adaptive','display':'omitted'}", "thinking.display"},
    {"'thinking':{'type':'adaptive'},'tools':[{'name':'f','input_schema':{}}],'tool_choice':{'type':'any'}",
     "tool_choice"},
    {"'output_config':{'effort':'low'}", "output_config.effort"},
    {"'output_config':{'format':{'type':'text'}}", "output_config.format"},
    {"'output_config':{'format':{'type':'json_schema'}}", "output_config.format.schema"},
    {"'output_config':{'format':{'type':'json_schema','schema':{}}},'tools':[{'name':'f','input_schema':{}}]",
     "output_config.format"},
    {"'tools':{}", "tools"},
    {"'tools':[5]", "tools[0]"},
    {"'tools':[{'input_schema':{}}]", "tools[0].name"},
    {"'tools':[{'name':'f'}]", "tools[0].input_schema"},
    {"'tools':[{'name':'f','input_schema':{},'description':5}]", "tools[0].description"},
    {"'tools':[{'type':'web_search_20250305','name':'web_search'}]", "tools[0].type"},
    {"'tools':[{'name':'f','input_schema':{},'defer_loading':true}]", "tools[0].defer_loading"},
    {"'tools':[{'name':'f','input_schema':{},'strict':5}]", "tools[0].strict"},
    {"'tool_choice':'auto'", "tool_choice"},
    {"'tool_choice':{'type':'any'}", "tool_choice"},
    {"'tool_choice':{'type':'required'}", "tool_choice.type"},
    {"'tools':[{'name':'f','input_schema':{}}],'tool_choice':{'type':'tool','name':'g'}",
     "tool_choice.name"},
    {"'cache_salt':''", "cache_salt"},
};

static void test_wrong_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        char body[1000];
        struct asked a;
        snprintf(body, sizeof body, w->rest[0] == '-' ? "{%s}" : "{'max_tokens':9,'messages':[" HI "],%s}",
                 w->rest + (w->rest[0] == '-'));
        enum status st = ask(&a, body);
        if (st == ST_OK || strcmp(a.e.field, w->field) != 0)
            fail_msg("%s: %s '%s', not '%s'", body, status_name(st), a.e.field, w->field);
        asked_release(&a);
    }
}

static void test_names(void **state)
{
    (void)state;
    struct asked a;
    assert_int_equal(ask(&a, "{'max_tokens':7,'messages':[{'role':'assistant','content':[{'type':'thinking',"
                         "'thinking':'','signature':'msg_1'},{'type':'tool_use','id':'c1','name':'f',"
                         "'input':{}}]},{'role':'user','content':[{'type':'tool_result','tool_use_id':'c1'},"
                         "{'type':'tool_result','tool_use_id':'c2'}]}]}"), ST_OK);
    anthropic_name_messages(a.job.root, &a.job);
    const char *want[] = {"c1", "c2", "msg_1"};
    assert_int_equal(a.job.lookups_n, 3);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(a.job.lookups[i].s, want[i], strlen(want[i]));
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

/* A template that thinks and knows tools. */
static void start_thinking(struct live *l)
{
    static const char source[] = "{{ tools }} <tool_call> <think> </think>";
    struct err e = {0};
    assert_int_equal(chat_new(&l->chat, NULL, source, sizeof source - 1, &e), ST_OK);
    struct server_config cfg = config(l);
    start_with(l, &cfg);
}

#define TOOLS ",'tools':[{'name':'f','input_schema':{'type':'object'}}]"
#define THOUGHT "<think>\nWhy \"not\"?\n</think>\n\n"
#define CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"y\"}}\n</tool_call>"

static char *message(const struct live *l, const char *script_name, const char *more)
{
    char body[1000];
    snprintf(body, sizeof body, "{'max_tokens':500,'messages':[{'role':'user','content':'%s'}]%s}",
        script_name, more);
    return post(l, "/v1/messages", json(body));
}

static void test_whole(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    said(message(&l, "hi there", ""), 200, "'type':'message','role':'assistant','model':'some/model','content':["
           "{'type':'text','text':'Hello, \\'world\\'\\n'}],'stop_reason':'end_turn','stop_sequence':null,"
           "'usage':{'input_tokens':3,'cache_creation_input_tokens':0,'cache_read_input_tokens':2,"
           "'output_tokens':15,'ffwd':{'sampled':15,");
    said(message(&l, "hi there", ""), 200, "\r\nRequest-Id: req_");
    said(message(&l, "full", ""), 200, "'stop_reason':'end_turn','stop_sequence':null,"
        "'ffwd_detail':'kv_exhausted'");
    said(post(&l, "/v1/messages", json("{'max_tokens':3,'messages':[{'role':'user','content':'hi there'}]}")), 200,
           "'text':'Hel'}],'stop_reason':'max_tokens'");
    said(message(&l, "utf8", ""), 200, "'text':'a\xEF\xBF\xBD\xEF\xBF\xBD'");
    said(post(&l, "/v1/messages/count_tokens", json("{'messages':[{'role':'user','content':'twelve bytes'},"
              "{'role':'assistant','content':'six...'}]}")), 200, "{'input_tokens':18}");
    said(post(&l, "/v1/messages/count_tokens", json("{'messages':[],'max_tokens':''}")), 400, "messages is empty");
    stop(&l);
}

#define EVENT(name) "event: " name "\ndata: {'type':'" name "'"

static void test_stream(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *s = message(&l, "hi there", ",'stream':true");
    const char *order[] = {
        EVENT("message_start") ",'message':{'id':'msg_", "'content':[],'stop_reason':null", EVENT("ping"),
        EVENT("content_block_start") ",'index':0,'content_block':{'type':'text','text':''}}\n\n",
        EVENT("content_block_delta") ",'index':0,'delta':{'type':'text_delta','text':'H", "'}}\n\n",
        EVENT("content_block_stop") ",'index':0}\n\n",
        EVENT("message_delta") ",'delta':{'stop_reason':'end_turn','stop_sequence':null},"
            "'usage':{'input_tokens':3,",
        "'output_tokens':15,'ffwd':{", EVENT("message_stop") "}\n\n",
    };
    const char *at = s;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *found = strstr(at, json(order[i]));
        if (!found)
            fail_msg("'%s' is not in: %s", order[i], at);
        at = found + strlen(order[i]);
    }
    free(s);
    stop(&l);
}

static void test_broken_stream(void **state)
{
    struct http_call call = {.id = "req_1"};
    struct reply r = {.call = &call};
    struct buf out;
    (void)state;
    buf_init(&out, 1000);
    (void)err_set(&r.err, ST_DEADLINE, "", "it was not done in time");
    anthropic_ops.broken(&r, &out);
    assert_string_equal(out.data, json("event: error\ndata: {'type':'error','error':{'type':'timeout_error','message':"
                                       "'it was not done in time'},'request_id':'req_1'}\n\n"));
    assert_string_equal(call.failure, status_name(ST_DEADLINE));
    buf_release(&out);
}

/* Thinking, text and calls of a reply, whole and as a stream's deltas. */
static void test_blocks(void **state)
{
    struct live l;
    (void)state;
    start_thinking(&l);
    fake_reply = THOUGHT "So." CALL;
    said(message(&l, "say it", TOOLS), 200, "'content':[{'type':'thinking','thinking':'Why \\'not\\'?',"
           "'signature':'msg_");
    said(message(&l, "say it", TOOLS), 200, "},{'type':'text','text':'So.'},{'type':'tool_use','id':'toolu_");
    said(message(&l, "say it", TOOLS), 200, "'name':'f','input':{'a': 'x\\'y'}}],'stop_reason':'tool_use'");
    char *s = message(&l, "say it", TOOLS ",'stream':true");
    has(s, "'index':0,'content_block':{'type':'thinking','thinking':'','signature':''}}");
    has(s, "'index':0,'delta':{'type':'thinking_delta','thinking':'W");
    has(s, "'index':0,'delta':{'type':'signature_delta','signature':'msg_");
    has(s, "'index':1,'content_block':{'type':'text','text':''}}");
    has(s, "'index':2,'content_block':{'type':'tool_use','id':'toolu_");
    has(s, "'name':'f','input':{}}}");
    has(s, "'index':2,'delta':{'type':'input_json_delta','partial_json':'{");
    has(s, "'delta':{'stop_reason':'tool_use'");
    free(s);
    /* a call that breaks is text */
    fake_reply = "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ]";
    said(message(&l, "say it", TOOLS), 200, "'content':[{'type':'text',"
        "'text':'a <tool_call>\\n{\\'name\\': \\'f\\', \\'arguments\\': {\\'a\\': ]'}],'stop_reason':'end_turn'");
    s = message(&l, "say it", TOOLS ",'stream':true");
    has(s, "'index':2,'content_block':{'type':'text'");
    has(s, "'delta':{'stop_reason':'end_turn'");
    free(s);
    stop(&l);
}

static void test_errors(void **state)
{
    struct live l;
    (void)state;
    start(&l, true);
    const char *model = ",'model':'some/model'";
    said(message(&l, "hi there", ",'model':'other'"), 404, "{'type':'error','error':{'type':'not_found_error'");
    said(message(&l, "busy", model), 529, "Retry-After: 7");
    said(message(&l, "busy", model), 529, "'type':'overloaded_error'");
    said(message(&l, "long", model), 400, "{'type':'invalid_request_error','message':'the prompt has");
    said(message(&l, "fail", model), 500, "'type':'api_error'");
    said(message(&l, "late", model), 504, "'type':'timeout_error'");
    said(post(&l, "/v1/messages", json("{'model':'some/model','max_tokens':9,'messages':[" HI ",{'role':'assistant',"
                                       "'content':'{'}],'output_config':{'format':{'type':'json_schema','schema':{}}}}")),
         400, "'message':'messages: output_config.format is about the whole reply");
    said(post(&l, "/v1/messages", "{"), 400, "'request_id':'req_");
    said(post(&l, "/v1/messages", ""), 400, "'type':'invalid_request_error'");
    said(raw(&l, "GET /v1/messages HTTP/1.1\r\nHost: localhost\r\nanthropic-version: 2023-06-01\r\n"
                 "Connection: close\r\n\r\n"), 405,
           "{'type':'error',");
    said(raw(&l, "GET /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405, "{'type':'error',");
    said(raw(&l, "GET /v1/messages/batches HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 404,
         "{'type':'error',");
    said(raw(&l, "GET /v1/messagesx HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 404, "{'error':{");
    said(raw(&l, "GET /v2 HTTP/1.1\r\nHost: localhost\r\nanthropic-version: 2023-06-01\r\nConnection: close\r\n\r\n"), 404,
           "'type':'not_found_error'");
    stop(&l);
}

static void test_thinking(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    said(message(&l, "hi there", ",'thinking':{'type':'enabled','budget_tokens':5}"), 400, "does not think");
    said(message(&l, "hi there", ",'thinking':{'type':'adaptive'}"), 200, "Hello");
    said(message(&l, "hi there", ",'thinking':{'type':'disabled'}"), 200, "Hello");
    stop(&l);
    start_thinking(&l);
    const char *budget = ",'thinking':{'type':'enabled','budget_tokens':5}";
    said(message(&l, "hi there", budget), 400, "thinking.budget_tokens cannot be kept"); /* its end is no token */
    said(message(&l, "hi <think>", ",'thinking':{'type':'disabled'}"), 400, "thinking cannot be kept");
    said(message(&l, "hi there", ",'thinking':{'type':'disabled'}"), 200, "Hello");
    stop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),    cmocka_unit_test(test_calls_and_results), cmocka_unit_test(test_fields),
        cmocka_unit_test(test_wrong_fields), cmocka_unit_test(test_names),         cmocka_unit_test(test_whole),
        cmocka_unit_test(test_stream),   cmocka_unit_test(test_broken_stream),     cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_thinking),
    };
    fake_init();
    return cmocka_run_group_tests_name("anthropic", tests, NULL, NULL);
}
