/*
 * server: what requests ask of their replies' shape: parsing, and over real sockets with fakes below (server_fake.h,
 * server_fake_grammar.h): what is compiled, what is refused, and that nothing is served unconstrained that asked for more.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

/* ---- parsing ---- */

struct asked {
    json_t *root;
    struct server_constraint c;
    struct err e;
};

static enum status ask(struct asked *a, const char *body)
{
    *a = (struct asked){0};
    assert_int_equal(http_json_parse(body, strlen(body), &a->root, &a->e), ST_OK);
    return openai_parse_constraint(a->root, (struct text_view){body, strlen(body)}, &a->c, &a->e);
}

static void check_asked(const char *body, enum grammar_kind kind, const char *field, const char *text)
{
    struct asked a;
    if (ask(&a, body) != ST_OK)
        fail_msg("%s: %s", body, a.e.text);
    if (!a.c.field || strcmp(a.c.field, field) != 0 || a.c.kind != kind)
        fail_msg("%s: '%s' of kind %d", body, a.c.field ? a.c.field : "nothing", a.c.kind);
    if (a.c.text.n != strlen(text) || (a.c.text.n && memcmp(a.c.text.data, text, a.c.text.n) != 0))
        fail_msg("%s: %.*s", body, (int)a.c.text.n, a.c.text.data);
    json_decref(a.root);
}

static void check_nothing(const char *body)
{
    struct asked a;
    if (ask(&a, body) != ST_OK || a.c.field)
        fail_msg("%s: %s %s", body, a.e.text, a.c.field ? a.c.field : "");
    json_decref(a.root);
}

static void check_wrong(const char *body, enum status want, const char *field)
{
    struct asked a;
    enum status st = ask(&a, body);
    if (st != want || strcmp(a.e.field, field) != 0)
        fail_msg("%s: %s '%s', not %s '%s'", body, status_name(st), a.e.field, status_name(want), field);
    json_decref(a.root);
}

static void test_constraints(void **state)
{
    (void)state;
    check_asked("{\"response_format\":{\"type\":\"json_object\"}}", GRAMMAR_JSON, "response_format", "");
    /* The schema's own bytes: order, spacing, 64-bit integers, escapes. */
    check_asked("{\"response_format\": {\"json_schema\": {\"strict\":true, \"name\":\"x\", \"schema\": {\"b\" : [1], "
                "\"a\":\"\\u0000\",\"maximum\":18446744073709551615} }, \"type\":\"json_schema\"}}",
                GRAMMAR_SCHEMA, "response_format.json_schema.schema",
                "{\"b\" : [1], \"a\":\"\\u0000\",\"maximum\":18446744073709551615}");
    check_asked("{\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":\"object\"}}}", GRAMMAR_SCHEMA,
                "response_format.schema", "{\"type\":\"object\"}");
    check_asked("{\"guided_json\":{\"a\":1}}", GRAMMAR_SCHEMA, "guided_json", "{\"a\":1}");
    check_asked("{\"guided_json\":\"{\\\"a\\\":1}\"}", GRAMMAR_SCHEMA, "guided_json", "{\"a\":1}");
    check_asked("{\"guided_regex\":\"\\\\d+\"}", GRAMMAR_REGEX, "guided_regex", "\\d+");
    check_asked("{\"guided_choice\":[ \"a\",\"\\u0062\" ]}", GRAMMAR_CHOICE, "guided_choice", "[ \"a\",\"\\u0062\" ]");
    check_asked("{\"guided_grammar\":\"root ::= x\"}", GRAMMAR_GBNF, "guided_grammar", "root ::= x");
    check_asked("{\"guided_grammar\":\"start: x\"}", GRAMMAR_LARK, "guided_grammar", "start: x");
    check_asked("{\"guided_grammar\":\"start: \\\"a ::= \\\\\\\" ::=\\\" b\"}", GRAMMAR_LARK, "guided_grammar",
                "start: \"a ::= \\\" ::=\" b");
    check_asked("{\"guided_grammar\":\"root ::= \\\"x ::=\\\"\"}", GRAMMAR_GBNF, "guided_grammar", "root ::= \"x ::=\"");
    check_asked("{\"guided_grammar\":\"# an odd \\\" sign\\nroot ::= x\"}", GRAMMAR_GBNF, "guided_grammar",
                "# an odd \" sign\nroot ::= x");
    check_asked("{\"grammar\":\"root ::= x\"}", GRAMMAR_GBNF, "grammar", "root ::= x");
    check_asked("{\"json_schema\":{}}", GRAMMAR_SCHEMA, "json_schema", "{}");
    check_asked("{\"json_schema\":true}", GRAMMAR_SCHEMA, "json_schema", "true");
    check_asked("{\"regex\":\"a|b\"}", GRAMMAR_REGEX, "regex", "a|b");
    check_asked("{\"ebnf\":\"root ::= x\"}", GRAMMAR_GBNF, "ebnf", "root ::= x");
    check_asked("{\"structured_outputs\":{\"json\":{\"a\":1},\"disable_fallback\":true,\"whitespace_pattern\":null}}",
                GRAMMAR_SCHEMA, "structured_outputs.json", "{\"a\":1}");
    check_asked("{\"structured_outputs\":{\"regex\":\"x\"}}", GRAMMAR_REGEX, "structured_outputs.regex", "x");
    check_asked("{\"structured_outputs\":{\"choice\":[\"x\""
           "]}}", GRAMMAR_CHOICE, "structured_outputs.choice", "[\"x\"]");
    check_asked("{\"structured_outputs\":{\"grammar\":\"start: x\"}}", GRAMMAR_LARK, "structured_outputs.grammar",
                "start: x");
    check_asked("{\"structured_outputs\":{\"json_object\":true}}", GRAMMAR_JSON, "structured_outputs.json_object", "");
}

static void test_no_constraint(void **state)
{
    (void)state;
    check_nothing("{}");
    check_nothing("{\"response_format\":null,\"guided_json\":null,\"structured_outputs\":null}");
    check_nothing("{\"response_format\":{\"type\":\"text\"}}");
    check_nothing("{\"grammar\":\"\",\"json_schema\":\"\"}");
    check_nothing("{\"structured_outputs\":{\"json\":null,\"json_object\":false}}");
}

static void test_wrong_constraints(void **state)
{
    (void)state;
    static const char schema[] = "response_format.json_schema.schema";
    check_wrong("{\"response_format\":\"json_object\"}", ST_ARGUMENT, "response_format");
    check_wrong("{\"response_format\":{}}", ST_ARGUMENT, "response_format.type");
    check_wrong("{\"response_format\":{\"type\":\"xml\"}}", ST_UNSUPPORTED, "response_format");
    check_wrong("{\"response_format\":{\"type\":\"json_schema\"}}", ST_ARGUMENT, "response_format.json_schema");
    check_wrong("{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\""
           "}}}", ST_ARGUMENT, schema);
    check_wrong("{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":"
           "[]}}}", ST_ARGUMENT, schema);
    check_wrong("{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"strict\":1}}}",
                ST_ARGUMENT, "response_format.json_schema.strict");
    check_wrong("{\"guided_json\":[]}", ST_ARGUMENT, "guided_json");
    check_wrong("{\"guided_regex\":{}}", ST_ARGUMENT, "guided_regex");
    check_wrong("{\"guided_choice\":[]}", ST_ARGUMENT, "guided_choice");
    check_wrong("{\"guided_choice\":[\"a\",1]}", ST_ARGUMENT, "guided_choice");
    check_wrong("{\"grammar\":{}}", ST_ARGUMENT, "grammar");
    check_wrong("{\"structured_outputs\":[]}", ST_ARGUMENT, "structured_outputs");
    check_wrong("{\"structured_outputs\":{\"structural_tag\":\"x\"}}", ST_UNSUPPORTED, "structured_outputs");
    check_wrong("{\"structured_outputs\":{\"json_object\":1}}", ST_ARGUMENT, "structured_outputs.json_object");
    /* two at once */
    check_wrong("{\"response_format\":{\"type\":\"json_object\"},\"guided_regex\":\"x\"}", ST_ARGUMENT, "guided_regex");
    check_wrong("{\"guided_json\":{},\"grammar\":\"root ::= x\"}", ST_ARGUMENT, "grammar");
    check_wrong("{\"structured_outputs\":{\"json\":{},\"regex\":\"x\"}}", ST_ARGUMENT, "structured_outputs.regex");
}

#define TOOL(name, more) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"" more "}}"
#define TWO "\"tools\":[" TOOL("f", "") "," TOOL("g", ",\"strict\":true") "]"

static enum status parse_tools(const char *body, struct openai_tools *out, struct err *e)
{
    json_t *root;
    assert_int_equal(http_json_parse(body, strlen(body), &root, e), ST_OK);
    enum status st = openai_parse_tools(root, out, e);
    json_decref(root);
    return st;
}

static void test_tool_choice(void **state)
{
    (void)state;
    struct openai_tools t;
    struct err e = {0};
    assert_int_equal(parse_tools("{" TWO "}", &t, &e), ST_OK);
    assert_true(t.n == 2 && t.choice == FORMAT_AUTO && t.parallel && !t.hidden && !t.some);
    assert_true(!server_set_has(t.strict, 0) && server_set_has(t.strict, 1));
    assert_int_equal(parse_tools("{" TWO ",\"tool_choice\":\"none\"}", &t, &e), ST_OK);
    assert_true(t.n == 0 && t.hidden);
    assert_int_equal(parse_tools("{" TWO ",\"tool_choice\":\"required\",\"parallel_tool_calls\":"
           "false}", &t, &e), ST_OK);
    assert_true(t.choice == FORMAT_REQUIRED && !t.parallel);
    assert_int_equal(parse_tools("{" TWO ",\"tool_choice\":" TOOL("g", "") "}", &t, &e), ST_OK);
    assert_true(t.choice == FORMAT_NAMED && t.named == 1);
    assert_int_equal(parse_tools("{" TWO ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":"
                                 "\"required\",\"tools\":[" TOOL("g", "") "]}}}",
                                 &t, &e),
                     ST_OK);
    assert_true(t.choice == FORMAT_REQUIRED && t.some && server_set_has(t.allowed, 1) && !server_set_has(t.allowed, 0));
    assert_int_equal(parse_tools("{\"tool_choice\":\"auto\",\"tools\":[]}", &t, &e), ST_OK);
    assert_true(t.n == 0);
}

/* TC9: a choice that cannot be met is an error, never "auto". */
static void test_wrong_tool_choice(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
        enum status code;
    } all[] = {
        {"{" TWO ",\"tool_choice\":" TOOL("h", "") "}", "tool_choice", ST_ARGUMENT},
        {"{" TWO ",\"tool_choice\":{\"type\":\"function\"}}", "tool_choice", ST_ARGUMENT},
        {"{" TWO ",\"tool_choice\":{\"type\":\"custom\",\"custom\":{\"name\":\"f\"}}}", "tool_choice", ST_UNSUPPORTED},
        {"{" TWO ",\"tool_choice\":\"any\"}", "tool_choice", ST_ARGUMENT},
        {"{" TWO ",\"tool_choice\":7}", "tool_choice", ST_ARGUMENT},
        {"{\"tool_choice\":\"required\"}", "tool_choice", ST_ARGUMENT},
        {"{\"tools\":[],\"tool_choice\":" TOOL("f", "") "}", "tool_choice", ST_ARGUMENT},
        {"{" TWO ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":["
         TOOL("h", "") "]}}}", "tool_choice.allowed_tools", ST_ARGUMENT},
        {"{" TWO ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[]}}}",
         "tool_choice.allowed_tools", ST_ARGUMENT},
        {"{" TWO ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"tools\":[" TOOL("f", "") "]}}}",
         "tool_choice.allowed_tools", ST_ARGUMENT},
        {"{" TWO ",\"parallel_tool_calls\":1}", "parallel_tool_calls", ST_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct openai_tools t;
        struct err e = {0};
        enum status st = parse_tools(all[i].body, &t, &e);
        if (st != all[i].code || strcmp(e.field, all[i].field) != 0)
            fail_msg("%s: %s '%s'", all[i].body, status_name(st), e.field);
    }
}

/* ---- over sockets ---- */

static void begin(struct live *l, const char *template)
{
    struct err e = {0};
    if (!template)
        template = "tools"; /* which calls nothing in a known way */
    assert_int_equal(chat_new(&l->chat, NULL, template, strlen(template), &e), ST_OK);
    struct server_config cfg = config(l);
    start_with(l, &cfg);
    fake_sources_n = 0;
}

/* No reference to a grammar outlives its request. */
static void end(struct live *l)
{
    stop(l);
    assert_int_equal(atomic_load(&fake_grammars), 0);
}

static const struct fake_source *last_source(void)
{
    assert_true(fake_sources_n > 0);
    return &fake_sources[fake_sources_n - 1];
}

static void test_constrained(void **state)
{
    (void)state;
    struct live l;
    begin(&l, NULL);
    expect(chat(&l, "hi", ",\"response_format\":{\"type\":\"json_object\"}"), 200, "\"finish_reason\":\"stop\"");
    assert_int_equal(last_source()->kind, GRAMMAR_JSON);
    assert_non_null(last_request.grammar);
    expect(chat(&l, "hi", ",\"guided_regex\":\"a+\",\"stream\":true,\"n\":3"), 200, "[DONE]");
    assert_true(last_source()->kind == GRAMMAR_REGEX && strcmp(last_source()->text, "a+") == 0);
    expect(post(&l, "/v1/completions", "{\"prompt\":\"hi\",\"guided_choice\":[\"yes\",\"no\"]}"), 200, "\"text\":");
    assert_true(last_source()->kind == GRAMMAR_CHOICE && strcmp(last_source()->text, "[\"yes\",\"no\"]") == 0);
    assert_non_null(last_request.grammar);
    expect(chat(&l, "hi", ""), 200, "\"finish_reason\"");
    assert_null(last_request.grammar);
    assert_int_equal(fake_sources_n, 3);
    end(&l);
}

/* SO1: a grammar that fails is a 400. SO2: so is a schema that cannot be enforced, with the keyword and its place. */
static void test_refused_constraints(void **state)
{
    (void)state;
    struct live l;
    begin(&l, NULL);
    unsigned before = atomic_load(&submitted);
    expect(chat(&l, "hi", ",\"grammar\":\"broken\""), 400, "grammar: line 1, column 2: this is no grammar\"");
    expect(chat(&l, "hi", ",\"grammar\":\"broken\",\"stream\":true"), 400, "\"param\":\"grammar\"");
    expect(post(&l, "/v1/completions", "{\"prompt\":\"hi\",\"guided_regex\":\"broken\"}"), 400,
           "\"param\":\"guided_regex\"");
    static const char *const strict[] = {",\"strict\":true", ",\"strict\":false", ""};
    for (size_t i = 0; i < 3; i++) {
        char more[300];
        snprintf(more, sizeof more, ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\","
                 "\"schema\":{\"properties\":{\"a\":{\"not\":{}}}}%s}}", strict[i]);
        expect(chat(&l, "hi", more), 400,
               "response_format.json_schema.schema/properties/a/not: the keyword 'not' cannot be enforced\","
               "\"type\":\"invalid_request_error\",\"param\":\"response_format.json_schema.schema\",\"code\":"
               "\"unsupported\"");
    }
    expect(post(&l, "/v1/completions", "{\"prompt\":\"hi\"," TWO "}"), 400, "\"param\":\"tools\",\"code\":\"unsupported\"");
    expect(post(&l, "/v1/completions", "{\"prompt\":\"hi\",\"tool_choice\":\"required\"}"), 400,
           "\"param\":\"tool_choice\",\"code\":\"unsupported\"");
    expect(chat(&l, "hi", ",\"guided_json\":{\"title\":\"slow\"}"), 400, "\"code\":\"too_long\"");
    expect(chat(&l, "hi", ",\"guided_json\":{\"title\":\"busy\"}"), 429, "Retry-After: 3");
    expect(chat(&l, "hi", ",\"guided_json\":{},\"guided_regex\":\"x\""), 400, "guided_json and guided_regex both");
    assert_int_equal(atomic_load(&submitted), before);
    end(&l);
}

#define HERMES "tools <tool_call> {{ tool_call.name }} tool_calls </tool_call>"
#define A_NOT ",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"not\":{}}}}"

/* A template that writes calls in no known way, and one that is asked to force them. */
static void test_unknown_format(void **state)
{
    (void)state;
    struct live l;
    begin(&l, NULL);
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":\"required\""), 400,
           "\"param\":\"tool_choice\",\"code\":\"unsupported\"");
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":" TOOL("f", "")), 400, "\"param\":\"tool_choice\"");
    expect(chat(&l, "hi", "," TWO), 400, "\"param\":\"tools[1].function.parameters\",\"code\":\"unsupported\"");
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "],\"parallel_tool_calls\":false"), 200, "\"content\":\"Hello");
    assert_null(last_request.grammar);
    assert_int_equal(fake_sources_n, 0);
    end(&l);
}

static void test_calls(void **state)
{
    (void)state;
    struct live l;
    begin(&l, HERMES);
    /* TC8: "required" forces a call. */
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":\"required\""), 200, "\"finish_reason\"");
    const struct fake_source *s = last_source();
    assert_true(s->kind == GRAMMAR_LARK && s->relax && strstr(s->text, "start"));
    assert_non_null(last_request.grammar);
    /* TC9: a named tool is the only one. */
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":" TOOL("f", "")), 200, "\"finish_reason\"");
    assert_true(strstr(last_source()->text, "\\\"f\\\"") && !strstr(last_source()->text, "\\\"g\\\""));
    /* TC10: with and without parallel calls the grammar is another. */
    char both[20000];
    expect(chat(&l, "hi", "," TWO), 200, "\"finish_reason\"");
    snprintf(both, sizeof both, "%s", last_source()->text);
    expect(chat(&l, "hi", "," TWO ",\"parallel_tool_calls\":false"), 200, "\"finish_reason\"");
    assert_string_not_equal(both, last_source()->text);
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":\"none\""), 200, "\"finish_reason\"");
    assert_null(last_request.grammar);
    /* Only some may be called. */
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":"
           "\"required\","
                          "\"tools\":[" TOOL("g", "") "]}}"), 200, "\"finish_reason\"");
    assert_true(!strstr(last_source()->text, "\\\"f\\\"") && strstr(last_source()->text, "\\\"g\\\""));
    expect(chat(&l, "hi", "," TWO ",\"response_format\":{\"type\":\"json_object\"}"), 400, "\"param\":\""
           "response_format\"");
    expect(chat(&l, "hi", "," TWO ",\"tool_choice\":\"none\",\"response_format\":{\"type\":\"json_object\"}"), 200,
           "Hello");
    assert_int_equal(last_source()->kind, GRAMMAR_JSON);
    end(&l);
}

/* A strict function's schema is enforced whole; of others what cannot be enforced is left out, and the reply says so. */
static void test_strict_and_relaxed(void **state)
{
    (void)state;
    struct live l;
    begin(&l, HERMES);
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "," TOOL("g", ",\"strict\":true" A_NOT) "]"), 400,
           "tools[1].function.parameters/properties/a/not: the keyword 'not' cannot be enforced\",\"type\":"
           "\"invalid_request_error\",\"param\":\"tools[1].function.parameters\",\"code\":\"unsupported\"");
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "," TOOL("g", A_NOT) "]"), 200,
           "\"relaxed\":[\"/tools/1/function/parameters/properties/a/not\","
           "\"/tools/1/function/parameters/properties/q\\\"/not\"]");
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "]"), 200, "\"relaxed\":[],");
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "," TOOL("g", ",\"parameters\":[1]") "]"), 400,
           "\"param\":\"tools[1].function.parameters\"");
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "," TOOL("f", "") "]"), 400, "tools[1].");
    end(&l);
}

#define XML_CALLS "tools <tool_call> <function={{ tool_call.name }}> <parameter= tool_calls </tool_call>"
#define A_PATTERN ",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"x\"}}}"
#define A_NUMBER ",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"minimum\":3}}}"

/* Law 6: a notation that cannot express a keyword does not take a strict tool with it, and says so of any other. */
static void test_what_a_notation_leaves_out(void **state)
{
    (void)state;
    struct live l;
    begin(&l, XML_CALLS);
    unsigned before = atomic_load(&submitted);
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "," TOOL("g", ",\"strict\":true" A_PATTERN) "]"), 400,
           "tools[1].function.parameters/properties/a/pattern cannot be enforced in this model's way of writing calls "
           "(qwen-xml)\",\"type\":\"invalid_request_error\",\"param\":\"tools[1].function.parameters\",\"code\":"
           "\"unsupported\"");
    assert_int_equal(atomic_load(&submitted), before);
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", A_PATTERN) "," TOOL("g", ",\"strict\":true" A_NUMBER) "]"), 200,
           "\"relaxed\":[\"/tools/0/function/parameters/properties/a/pattern\"],");
    /* Counted among all tools, though only some may be called. */
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", "") "," TOOL("g", A_PATTERN) "],\"tool_choice\":{\"type\":"
           "\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[" TOOL("g", "") "]}}"), 200,
           "\"relaxed\":[\"/tools/1/function/parameters/properties/a/pattern\"],");
    end(&l);
}

/* Strict tools take one compilation, with nothing left out; a schema by itself is only looked at. */
static void test_strict_together(void **state)
{
    (void)state;
    struct live l;
    begin(&l, HERMES);
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", ",\"strict\":true" A_NUMBER) ","
           TOOL("g", ",\"strict\":true" A_PATTERN) "]"), 200, "\"relaxed\":[],");
    assert_true(fake_sources_n == 1 && fake_sources[0].kind == GRAMMAR_LARK && !fake_sources[0].relax);
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", A_NUMBER) "," TOOL("g", ",\"strict\":true" A_PATTERN) "]"), 200,
           "\"relaxed\":[],");
    assert_true(fake_sources_n == 2 && fake_sources[1].relax);
    expect(chat(&l, "hi", ",\"tools\":[" TOOL("f", A_NUMBER) "," TOOL("g", ",\"strict\":true" A_NOT) "]"), 400,
           "\"param\":\"tools[1].function.parameters\"");
    assert_int_equal(fake_sources_n, 5);
    assert_true(fake_sources[3].check && fake_sources[3].relax && fake_sources[4].check && !fake_sources[4].relax);
    end(&l);
}

/* SO7: the prompt has opened reasoning, so the constraint starts behind it. */
static void test_behind_reasoning(void **state)
{
    (void)state;
    struct live l;
    begin(&l, HERMES "<think> </think>");
    expect(chat(&l, "hi <think>\\n", ",\"response_format\":{\"type\":\"json_object\"}"), 200, "\"finish_reason\"");
    assert_string_equal(last_source()->after, "</think>");
    expect(chat(&l, "hi", ",\"response_format\":{\"type\":\"json_object\"}"), 200, "\"finish_reason\"");
    assert_string_equal(last_source()->after, "");
    end(&l);
}

/* What a request says of fast-forwarding reaches the engine. */
static void test_fill(void **state)
{
    (void)state;
    struct live l;
    struct err e = {0};
    assert_int_equal(chat_new(&l.chat, NULL, "tools", 5, &e), ST_OK);
    struct server_config cfg = config(&l);
    cfg.fill = FILL_STRICT;
    start_with(&l, &cfg);
    expect(chat(&l, "hi", ""), 200, "\"finish_reason\"");
    assert_true(last_request.fill == FILL_STRICT && last_request.sources_off == 0);
    expect(chat(&l, "hi", ",\"ffwd\":{\"fill\":\"off\"}"), 200, "\"finish_reason\"");
    assert_int_equal(last_request.fill, FILL_OFF);
    expect(post(&l, "/v1/completions", "{\"prompt\":\"hi\",\"ffwd\":{\"fill\":\"lossless\",\"sources\":[\""
           "ngram\"]}}"), 200,
           "\"text\"");
    assert_true(last_request.fill == FILL_LOSSLESS && last_request.sources_off == (0x3Fu & ~(1u << SOURCE_NGRAM)));
    expect(chat(&l, "hi", ",\"ffwd\":{\"sources\":[\"oracle\"]}"), 400,
           "they are grammar, grammar_likely, template, echo, ngram and draft");
    stop(&l);
}

/* A grammar that was compiled for nobody is given back, and is the only one. */
static void test_warm(void **state)
{
    (void)state;
    struct live l = {0};
    struct server_config cfg = config(&l);
    cfg.warm_grammars = true;
    fake_sources_n = 0;
    start_with(&l, &cfg);
    end(&l);
    assert_int_equal(fake_sources_n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constraints),      cmocka_unit_test(test_no_constraint),
        cmocka_unit_test(test_wrong_constraints), cmocka_unit_test(test_tool_choice),
        cmocka_unit_test(test_wrong_tool_choice), cmocka_unit_test(test_constrained),
        cmocka_unit_test(test_refused_constraints), cmocka_unit_test(test_unknown_format),
        cmocka_unit_test(test_calls),            cmocka_unit_test(test_strict_and_relaxed),
        cmocka_unit_test(test_what_a_notation_leaves_out), cmocka_unit_test(test_strict_together),
        cmocka_unit_test(test_behind_reasoning), cmocka_unit_test(test_fill),
        cmocka_unit_test(test_warm),
    };
    fake_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
