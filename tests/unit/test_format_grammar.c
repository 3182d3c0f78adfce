/*
 * test_format_grammar: grammars for calls, compiled by the real library and walked over replies, over a vocabulary of
 * single bytes and control tokens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/format.h"
#include "format_told.h"
#include "text/text.h"

enum { UNK, BOS, END, BYTES, CONTROL = BYTES + 256 };

/* Control tokens of several models at once. */
static const char *const SPECIALS[] = {
    "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "<|tool_call>", "<tool_call|>", "<|\"|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
    "｜DSML｜", "<|channel>", "<channel|>", "<|python_tag|>",
};

#define SPECIALS_N (sizeof SPECIALS / sizeof *SPECIALS)

static struct tok *tok;
static struct format_special specials[SPECIALS_N];

static int set_up(void **state)
{
    (void)state;
    static struct text_view tokens[CONTROL + SPECIALS_N];
    static float scores[CONTROL + SPECIALS_N];
    static int32_t types[CONTROL + SPECIALS_N];
    static char bytes[256][8];
    static const char *const first[] = {"<unk>", "<s>", "</s>"};
    for (size_t i = 0; i < CONTROL + SPECIALS_N; i++) {
        const char *text = i < BYTES ? first[i] : i < CONTROL ? bytes[i - BYTES] : SPECIALS[i - CONTROL];
        if (i >= BYTES && i < CONTROL)
            snprintf(bytes[i - BYTES], sizeof bytes[0], "<0x%02X>", (unsigned)(i - BYTES));
        tokens[i] = (struct text_view){text, strlen(text)};
        types[i] = i == UNK ? TOK_UNKNOWN : i >= BYTES && i < CONTROL ? TOK_BYTE : TOK_CONTROL;
        if (i >= CONTROL)
            specials[i - CONTROL] = (struct format_special){text, strlen(text), (tok_id)i};
    }
    struct tok_source src;
    struct err e;
    tok_source_init(&src);
    src.model = "llama";
    src.tokens = tokens, src.scores = scores, src.types = types, src.n_tokens = CONTROL + SPECIALS_N;
    src.bos = BOS, src.eos = END, src.unk = UNK;
    src.add_space_prefix = 0;
    assert_int_equal(tok_new_gguf(&tok, &src, &e), ST_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tok_free(tok);
    return 0;
}

/* ---- walking ---- */

static size_t encode(const char *text, bool special, tok_id *ids)
{
    size_t n = 0;
    for (size_t i = 0; text[i];) {
        size_t best = 0, len = 1;
        for (size_t s = 0; special && s < SPECIALS_N; s++) {
            if (!strncmp(text + i, SPECIALS[s], specials[s].n) && specials[s].n > best)
                best = len = specials[s].n, ids[n] = specials[s].id;
        }
        if (!best)
            ids[n] = BYTES + (unsigned char)text[i];
        n++;
        i += len;
    }
    return n;
}

/* What a grammar says of a text: 'y' it is a reply, 'p' only the beginning of one, 'n' neither. *forced: of how many
 * ids it left no choice. */
static char says(const struct grammar *g, const char *text, bool special, size_t *forced, size_t *at)
{
    static tok_id ids[1 << 14];
    static uint32_t mask[4096];
    struct matcher *m;
    struct matcher_next next;
    struct err e;
    size_t n = encode(text, special, ids);
    char said = 'p';
    *forced = *at = 0;
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    assert_true(matcher_words(m) <= 4096);
    for (; *at < n && said == 'p'; ++*at) {
        assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
        *forced += next.n == 1 && !next.end;
        if (!(mask[ids[*at] / 32] >> ids[*at] % 32 & 1))
            said = 'n';
        else
            assert_int_equal(matcher_consume(m, &ids[*at], 1), 1);
    }
    if (said == 'p') {
        assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
        said = next.end ? 'y' : 'p';
    }
    matcher_free(m);
    return said;
}

static const struct format_tool TOOLS[] = {
    TOOL("f", "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},"
              "\"l\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"t\":{\"type\":\"boolean\"}},"
              "\"required\":[\"a\"],\"additionalProperties\":false}"),
    TOOL("get_weather", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"enum\":[\"Ulm\",\"Ulmen\"]}},"
                        "\"required\":[\"city\"],\"additionalProperties\":false}"),
    TOOL("none", ""),
};

struct ask {
    const char *format, *reasoning; /* "+think": the prompt has opened it */
    enum format_choice choice;
    bool special, parallel;
};

static struct format_tools *tools_of(const struct format_tool *tools, size_t n)
{
    struct format_tools *t;
    struct err e;
    assert_int_equal(format_tools_new(&t, tools, n, &e), ST_OK);
    return t;
}

static struct grammar *compile(const struct ask *a, struct format_tools *tools, size_t named)
{
    const struct format *f = format_find(a->format, strlen(a->format));
    struct format_shape shape;
    struct format_request q = {.tools = tools, .choice = a->choice, .named = named, .parallel = a->parallel};
    struct buf lark;
    struct err e;
    struct grammar *g;
    format_shape_init(f, &shape);
    if (a->reasoning) {
        const char *name = a->reasoning + (*a->reasoning == '+');
        q.reasoning = format_find_reasoning(name, strlen(name));
        q.thinking = *a->reasoning == '+' ? FORMAT_IN_REASONING : FORMAT_MAY_REASON;
    }
    if (a->special)
        q.specials = specials, q.specials_n = SPECIALS_N;
    buf_init(&lark, LIMIT_GRAMMAR_TEXT);
    if (format_grammar(f, &shape, &q, &lark, &e) != ST_OK)
        fail_msg("%s: %s", e.field, e.text);
    struct grammar_source src = {.kind = GRAMMAR_LARK, .text = lark.data, .n = lark.len};
    if (grammar_new(&g, tok, &src, &e) != ST_OK)
        fail_msg("%s\n%s: %s", lark.data, e.field, e.text);
    if (getenv("SHOW"))
        print_message("%s\n", lark.data);
    buf_release(&lark);
    return g;
}

struct walk {
    struct ask ask;
    const char *text;
    char says;
};

static void walk(const struct walk *w, size_t n)
{
    struct format_tools *tools = tools_of(TOOLS, 3);
    struct grammar *g = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t forced, at;
        if (!i || memcmp(&w[i].ask, &w[i - 1].ask, sizeof w->ask)) {
            grammar_free(g);
            g = compile(&w[i].ask, tools, 1);
        }
        char got = says(g, w[i].text, w[i].ask.special, &forced, &at);
        if (got != w[i].says)
            print_error("%s: says %c at %zu of: %s\n", w[i].ask.format, got, at, w[i].text);
        assert_int_equal(got, w[i].says);
    }
    grammar_free(g);
    format_tools_free(tools);
}

#define WALK(name, ...) \
    static void name(void **state) \
    { \
        (void)state; \
        static const struct walk w[] = {__VA_ARGS__}; \
        walk(w, sizeof w / sizeof *w); \
    }

#define AUTO {"hermes", NULL, FORMAT_AUTO, false, true}
WALK(auto_hermes,
     {AUTO, "Hello, a < b.", 'y'},
     {AUTO, "", 'y'},
     {AUTO, HERMES("f", "{\"a\": 1}"), 'y'},
     {AUTO, "Ok.\n" HERMES("f", "{\"a\": 1, \"b\": \"x\\n\"}") "\n"
      HERMES("get_weather", "{\"city\": \"Ulm\"}") "\nBye", 'y'},
     {AUTO, HERMES("none", "{\"x\": {\"y\": [1, null]}}"), 'y'},
     {AUTO, "<tool_call>\n", 'p'},
     {AUTO, "<tool_call>x", 'n'},
     {AUTO, "<tool_call>\n{\"name\": \"g\"", 'n'},
     {AUTO, HERMES("f", "{}"), 'n'},
     {AUTO, HERMES("f", "{\"a\":1}"), 'n'},
     {AUTO, HERMES("f", "{\"b\": \"x\", \"a\": 1}"), 'n'},
     {AUTO, HERMES("get_weather", "{\"city\": \"Berlin\"}"), 'n'},
     {AUTO, "<tool_cal l>", 'y'})

#define ONE {"hermes", NULL, FORMAT_AUTO, false, false}
#define ONE_REQUIRED {"hermes", NULL, FORMAT_REQUIRED, false, false}
WALK(at_most_one_call_tc10,
     {ONE, "Hm " HERMES("f", "{\"a\": 1}") " ok", 'y'},
     {ONE, HERMES("f", "{\"a\": 1}") "\n" HERMES("f", "{\"a\": 1}"), 'n'},
     {ONE_REQUIRED, HERMES("f", "{\"a\": 1}"), 'y'},
     {ONE_REQUIRED, HERMES("f", "{\"a\": 1}") "\n", 'n'})

#define REQUIRED {"hermes", NULL, FORMAT_REQUIRED, false, true}
#define REQUIRED_MAY {"hermes", "think", FORMAT_REQUIRED, false, true}
#define REQUIRED_IN {"hermes", "+think", FORMAT_REQUIRED, false, true}
WALK(a_required_call_is_forced_tc8,
     {REQUIRED, "", 'p'},
     {REQUIRED, "H", 'n'},
     {REQUIRED, HERMES("f", "{\"a\": 1}"), 'y'},
     {REQUIRED, HERMES("f", "{\"a\": 1}") "\n" HERMES("none", "{}"), 'y'},
     {REQUIRED_MAY, "<think>a <tool_call></think>\n\n" HERMES("f", "{\"a\": 1}"), 'y'},
     {REQUIRED_MAY, HERMES("f", "{\"a\": 1}"), 'y'},
     {REQUIRED_MAY, "<think>a</think>", 'p'},
     {REQUIRED_IN, "a</think>\n\n" HERMES("f", "{\"a\": 1}"), 'y'},
     {REQUIRED_IN, "a</think>\n\nb", 'n'})

#define NAMED {"hermes", NULL, FORMAT_NAMED, false, false}
WALK(a_named_call_is_forced_tc9,
     {NAMED, HERMES("get_weather", "{\"city\": \"Ulmen\"}"), 'y'},
     {NAMED, "<tool_call>\n{\"name\": \"f", 'n'},
     {NAMED, "x", 'n'})

#define MAY {"hermes", "think", FORMAT_AUTO, false, true}
#define IN {"hermes", "+think", FORMAT_AUTO, false, true}
WALK(reasoning_is_free,
     {MAY, "<think>\n<tool_call>x</think>\n\nHello", 'y'},
     {MAY, "\n<think>a</think>" HERMES("f", "{\"a\": 1}") "x", 'y'},
     {MAY, "<thin", 'y'},
     {MAY, "<think>a", 'p'},
     {MAY, "Hello <think> there", 'y'},
     {MAY, "x" HERMES("f", "{\"a\": 1}") "<think>" HERMES("f", "{\"a\": 1}"), 'y'},
     {IN, "<tool_call>x</think>\n\n" HERMES("f", "{\"a\": 1}"), 'y'},
     {IN, "a</think><tool_call>x", 'n'})

#define XML_AUTO {"qwen-xml", "+think", FORMAT_AUTO, false, true}
#define XML_REQUIRED {"qwen-xml", NULL, FORMAT_REQUIRED, false, true}
#define SEED {"seed", NULL, FORMAT_REQUIRED, false, true}
WALK(pairs,
     {XML_AUTO, "t</think>\n\nok\n\n"
      XML("f", PAIR("a", "1") PAIR("b", "x \"y\"\n</p> <parameter=q>") PAIR("t", "True")), 'y'},
     {XML_AUTO, "t</think><function=", 'n'},
     {XML_AUTO, "t</think>x <tool_call>\n<function=x", 'n'},
     {XML_REQUIRED, XML("f", PAIR("a", "1") PAIR("l", "[1, 2]")), 'y'},
     {XML_REQUIRED, XML("f", PAIR("a", "1") PAIR("l", "[1,2]")), 'n'},
     {XML_REQUIRED, XML("f", PAIR("a", "x")), 'n'},
     {XML_REQUIRED, XML("f", PAIR("b", "x")), 'n'},
     {XML_REQUIRED, XML("f", PAIR("a", "1") PAIR("b", "")), 'y'},
     {XML_REQUIRED, XML("get_weather", PAIR("city", "Ulm")), 'y'},
     {XML_REQUIRED, XML("get_weather", PAIR("city", "Ulmen")) "\n" XML("none", PAIR("what-ever", "1")), 'y'},
     {XML_REQUIRED, XML("get_weather", PAIR("city", "Berlin")), 'n'},
     {XML_REQUIRED, XML("f", PAIR("a", "1") PAIR("b", "a</parameterization>")), 'y'},
     {SEED, "<seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n<parameter=b>x</parameter>\n</function>\n"
      "</seed:tool_call>", 'y'})

#define LLAMA {"llama3", NULL, FORMAT_AUTO, false, false}
#define LLAMA_SPECIAL {"llama3", NULL, FORMAT_REQUIRED, true, false}
WALK(llama3,
     {LLAMA, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", 'y'},
     {LLAMA, "\n\n{\"name\": \"f\", \"parameters\": {\"a\": 1}}", 'y'},
     {LLAMA, "{\"answer\": 42}", 'y'},
     {LLAMA, "Use {\"name\": \"x\"}", 'y'},
     {LLAMA, "{\"name\": \"x", 'n'},
     {LLAMA, "{ \"name\"", 'n'},
     {LLAMA_SPECIAL, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", 'y'})

#define MISTRAL {"mistral", NULL, FORMAT_AUTO, true, true}
#define MISTRAL_ARGS {"mistral-args", "mistral", FORMAT_AUTO, true, true}
WALK(mistral,
     {MISTRAL, "Ok[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"123456789\"}, "
      "{\"name\": \"none\", \"arguments\": {}, \"id\": \"abcdefghi\"}]", 'y'},
     {MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"12345\"}]", 'n'},
     {MISTRAL, "Hi", 'y'},
     {MISTRAL_ARGS, "[THINK]a[/THINK]ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]none[ARGS]{}", 'y'},
     {MISTRAL_ARGS, "[TOOL_CALLS]f[ARGS]{\"a\": 1}", 'y'},
     {MISTRAL_ARGS, "[TOOL_CALLS]x", 'n'},
     {MISTRAL_ARGS, "[ARGS]", 'n'})

#define GEMMA {"gemma", "gemma", FORMAT_AUTO, true, true}
WALK(gemma,
     {GEMMA, "<|channel>thought\nhm\n<channel|>"
      "<|tool_call>call:f{a:1,b:<|\"|>x \"y\", {<|\"|>,l:[1,2],t:true}<tool_call|>", 'y'},
     {GEMMA, "<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:none{x:<|\"|><|\"|>,y:{z:[null,-1.5]}}<tool_call|>", 'y'},
     {GEMMA, "<|tool_call>call:get_weather{city:<|\"|>Ulmen<|\"|>}<tool_call|>", 'y'},
     {GEMMA, "<|tool_call>call:get_weather{city:<|\"|>Bonn", 'n'},
     {GEMMA, "<|tool_call>call:f{b", 'n'},
     {GEMMA, "Hello", 'y'})

#define GLM_AUTO {"glm", "think", FORMAT_AUTO, false, true}
WALK(glm,
     {GLM_AUTO, "\n<think>a</think>\nok\n" GLM("f", ARG("a", "1") ARG("b", "x </arg_")), 'y'},
     {GLM_AUTO, GLM("none", ""), 'y'},
     {GLM_AUTO, GLM("f", ARG("a", "x")), 'n'})

#define DEEP {"deepseek", "+think", FORMAT_AUTO, true, true}
#define DEEP31 {"deepseek-v3.1", NULL, FORMAT_REQUIRED, true, true}
#define DEEP4 {"deepseek-v4", NULL, FORMAT_AUTO, true, true}
WALK(deepseek,
     {DEEP, "t</think>\n\nok" BEGIN DS("f", "{\"a\": 1}") "\n" DS("none", "{}") ENDS, 'y'},
     {DEEP, "t</think>" BEGIN DS("f", "{\"a\": \"1\"}"), 'n'},
     {DEEP31, BEGIN DS31("f", "{\"a\": 1}") DS31("none", "{}") ENDS, 'y'},
     {DEEP31, BEGIN DS31("f", "{\"a\": 1}"), 'p'},
     {DEEP4, "ok\n\n<" D "tool_calls>\n"
      INVOKE("f", PARAM("a", "false", "1") PARAM("b", "true", "x < y")) "</" D "tool_calls>", 'y'},
     {DEEP4, "a <b", 'y'},
     {DEEP4, "<" D "tool_calls>\n" INVOKE("f", PARAM("a", "true", "1")), 'n'})

/* Names and schemas that try to be more than names and schemas. */
static void hostile_names_stay_names(void **state)
{
    (void)state;
    static const struct format_tool tools[] = {
        TOOL("a\"b\\c", ""), TOOL("x\" | /.*/ \"", ""), TOOL("</tool_call>", ""), TOOL("# no // comment", ""),
        TOOL("%json {}", "{\"type\":\"object\",\"properties\":{\"\\\"\\n start: /.*/\":{\"type\":\"string\"}},"
                         "\"additionalProperties\":false}  "),
        TOOL("täst", "{\"properties\":{\"a/b\":{\"const\":\"/ | x\"}},\"required\":[\"a/b\"]}"),
    };
    static const struct ask ask = {"hermes", NULL, FORMAT_REQUIRED, false, false};
    struct format_tools *t = tools_of(tools, 6);
    struct grammar *g = compile(&ask, t, 0);
    size_t forced, at;
    assert_int_equal(says(g, HERMES("a\\\"b\\\\c", "{}"), false, &forced, &at), 'y');
    assert_int_equal(says(g, HERMES("x\\\" | /.*/ \\\"", "{}"), false, &forced, &at), 'y');
    assert_int_equal(says(g, HERMES("</tool_call>", "{}"), false, &forced, &at), 'y');
    assert_int_equal(says(g, HERMES("# no // comment", "{}"), false, &forced, &at), 'y');
    assert_int_equal(says(g, HERMES("%json {}", "{\"\\\"\\n start: /.*/\": \"x\"}"), false, &forced, &at), 'y');
    assert_int_equal(says(g, HERMES("täst", "{\"a/b\": \"/ | x\"}"), false, &forced, &at), 'y');
    assert_int_equal(says(g, HERMES("täst", "{}"), false, &forced, &at), 'n');
    assert_int_equal(says(g, HERMES("x", "{}"), false, &forced, &at), 'n');
    grammar_free(g);
    format_tools_free(t);
    static const struct format_tool plain[] = {
        TOOL("a.b|c*(d)",
             "{\"type\":\"object\",\"properties\":{\"k.*/[\":{\"type\":\"string\"}},\"required\":[\"k.*/[\"]}"),
    };
    static const struct ask xml = {"qwen-xml", NULL, FORMAT_AUTO, false, true};
    t = tools_of(plain, 1);
    g = compile(&xml, t, 0);
    assert_int_equal(says(g, XML("a.b|c*(d)", PAIR("k.*/[", "x")), false, &forced, &at), 'y');
    assert_int_equal(says(g, XML("a.b|c*(d)", PAIR("kxx/[", "x")), false, &forced, &at), 'n');
    grammar_free(g);
    format_tools_free(t);
}

/* ---- schemas ---- */

/* The grammar of one tool, and a list of what it leaves out. */
static struct grammar *grammar_of(const char *format, const char *schema, char *left_out, size_t cap)
{
    const struct format_tool tool = {"f", 1, schema, strlen(schema)};
    struct format_tools *t = tools_of(&tool, 1);
    const struct format *f = format_find(format, strlen(format));
    struct format_shape shape;
    struct buf lark, left;
    struct err e;
    struct grammar *g;
    format_shape_init(f, &shape);
    buf_init(&lark, LIMIT_GRAMMAR_TEXT);
    buf_init(&left, 1 << 14);
    struct format_request q = {.tools = t, .choice = FORMAT_REQUIRED, .left_out = &left, .specials = specials,
                               .specials_n = SPECIALS_N};
    if (format_grammar(f, &shape, &q, &lark, &e) != ST_OK)
        fail_msg("%s: %s: %s", schema, e.field, e.text);
    const struct grammar_source src = {.kind = GRAMMAR_LARK, .text = lark.data, .n = lark.len};
    if (grammar_new(&g, tok, &src, &e) != ST_OK)
        fail_msg("%s\n%s: %s", lark.data, e.field, e.text);
    snprintf(left_out, cap, "%s", left.data);
    buf_release(&left);
    buf_release(&lark);
    format_tools_free(t);
    return g;
}

struct said {
    const char *format, *schema, *left_out, *yes, *no;
};

static void check_said(const struct said *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char left[1000];
        size_t forced, at;
        struct grammar *g = grammar_of(c[i].format, c[i].schema, left, sizeof left);
        if (strcmp(left, c[i].left_out))
            fail_msg("%s: %s: left out %s, not %s", c[i].format, c[i].schema, left, c[i].left_out);
        if (c[i].yes && says(g, c[i].yes, true, &forced, &at) != 'y')
            fail_msg("%s: %s: not at %zu: %s", c[i].format, c[i].schema, at, c[i].yes);
        if (c[i].no && says(g, c[i].no, true, &forced, &at) != 'n')
            fail_msg("%s: %s: takes %s", c[i].format, c[i].schema, c[i].no);
        grammar_free(g);
    }
}

#define P(properties) "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[\"a\"]}"
#define DEEP_A(string, v) "<" D "tool_calls>\n" INVOKE("f", PARAM("a", string, v)) "</" D "tool_calls>"
#define CALL_F(args) "<|tool_call>call:f{" args "}<tool_call|>"
#define Q "<|\"|>"

static void schemas_that_say_little(void **state)
{
    (void)state;
    static const struct said c[] = {
        {"qwen-xml", P("\"a\":{}"), "[]", XML("f", PAIR("a", "x")), NULL},
        {"qwen-xml", P("\"a\":true"), "[]", XML("f", PAIR("a", "1")), NULL},
        {"qwen-xml", P("\"a\":false"), "[[0,\"/properties/a\"]]", NULL, NULL},
        {"deepseek-v4", P("\"a\":{ }"), "[]", DEEP_A("false", "[1]"), NULL},
        {"deepseek-v4", P("\"a\":true"), "[]", DEEP_A("true", "x"), NULL},
        {"hermes", P("\"a\":{}"), "[]", HERMES("f", "{\"a\": [1]}"), NULL},
        {"hermes", P("\"a\":true"), "[]", HERMES("f", "{\"a\": [1]}"), NULL},
        {"hermes", "{ }", "[]", HERMES("f", "{\"a\": [1]}"), NULL},
        {"gemma", P("\"a\":{}"), "[]", CALL_F("a:[1]"), NULL},
        {"gemma", P("\"a\":true"), "[]", CALL_F("a:" Q "x" Q), NULL},
    };
    check_said(c, sizeof c / sizeof *c);
}

static void references_lead_from_the_root(void **state)
{
    (void)state;
    static const struct said c[] = {
        {"qwen-xml", P("\"a\":{\"type\":\"integer\",\"minimum\":3},\"b\":{\"$ref\":\"#/properties/a\"}"), "[]",
         XML("f", PAIR("a", "4") PAIR("b", "3")), XML("f", PAIR("a", "4") PAIR("b", "2"))},
        {"qwen-xml", P("\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}"), "[]",
         XML("f", PAIR("a", "[{\"a\": []}]")), XML("f", PAIR("a", "[{\"a\": 1}]"))},
        {"qwen-xml", "{\"$id\":\"x:y\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"$ref\":"
         "\"x:y#/properties/n~1%41\"}},\"n/A\":{\"const\":7}}}", "[]", XML("f", PAIR("a", "[7]")),
         XML("f", PAIR("a", "[8]"))},
        {"qwen-xml", "{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/$ref\"}}},"
         "\"$defs\":{\"$ref\":{\"const\":{\"$ref\":\"#\"}}},\"x\":{\"$ref\":\"#\"}}", "[]",
         XML("f", PAIR("a", "[{\"$ref\": \"#\"}]")), NULL},
        {"glm", "{\"$ref\":\"#/$defs/A\",\"$defs\":{\"A\":" P("\"a\":{\"type\":\"integer\"}") "}}", "[]",
         GLM("f", ARG("a", "1")), GLM("f", "")},
        {"gemma", "{\"$ref\":\"#/$defs/A\",\"$defs\":{\"A\":" P("\"a\":{\"$ref\":\"#/$defs/N\"}") ",\"N\":{\"type\":"
         "\"integer\"}}}", "[]", CALL_F("a:1"), CALL_F("")},
    };
    check_said(c, sizeof c / sizeof *c);
}

/* Law 6: what a notation cannot express of a schema is told, keyword by keyword. */
static void what_is_not_enforced_is_told(void **state)
{
    (void)state;
    static const struct said c[] = {
        {"qwen-xml", P("\"a\":{\"type\":\"string\",\"pattern\":\"x\",\"maxLength\":3,\"format\":\"date\",\"minLength\":0}"),
         "[[0,\"/properties/a/format\"],[0,\"/properties/a/maxLength\"],[0,\"/properties/a/pattern\"]]", NULL, NULL},
        {"hermes", P("\"a\":{\"type\":\"string\",\"pattern\":\"^x$\"}"), "[]", HERMES("f", "{\"a\": \"x\"}"),
         HERMES("f", "{\"a\": \"y\"}")},
        {"qwen-xml", P("\"a\":{\"enum\":[\"x\",null,3,true]}"), "[]", XML("f", PAIR("a", "None")),
         XML("f", PAIR("a", "y"))},
        {"glm", P("\"a\":{\"enum\":[\"x\",null,3]}"), "[]", GLM("f", ARG("a", "null")), GLM("f", ARG("a", "4"))},
        {"glm", P("\"a\":{\"enum\":[\"3\",3]}"), "[[0,\"/properties/a/enum\"]]", NULL, NULL},
        {"glm", P("\"a\":{\"enum\":[\"</arg_value>\"]}"), "[[0,\"/properties/a/enum\"]]", NULL, NULL},
        {"glm", P("\"a\":{\"enum\":[\"x\",1.5]}"), "[[0,\"/properties/a/enum\"]]", NULL, NULL},
        {"glm", P("\"a\":{\"type\":[\"string\",\"null\"],\"minimum\":3}"), "[]", GLM("f", ARG("a", "null")), NULL},
        {"glm", P("\"a\":{\"anyOf\":[{\"const\":\"x\"},{\"const\":\"y\"}]}"), "[]", GLM("f", ARG("a", "y")),
         GLM("f", ARG("a", "z"))},
        {"glm", P("\"a\":{\"oneOf\":[{\"const\":\"x\"},{\"const\":\"y\"}]}"), "[]", GLM("f", ARG("a", "y")),
         GLM("f", ARG("a", "z"))},
        {"glm", P("\"a\":{\"oneOf\":[{\"const\":\"x\"},{\"const\":\"x\"}]}"), "[[0,\"/properties/a/oneOf\"]]", NULL, NULL},
        {"glm", P("\"a\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"null\"}}]}"),
         "[[0,\"/properties/a/anyOf/1/items\"]]", NULL, NULL},
        {"glm", "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/s\"}},\"$defs\":{\"s\":{\"type\":\"string\",\"not\":{}}}}",
         "[[0,\"/$defs/s/not\"]]", NULL, NULL},
        {"glm", "{\"properties\":{\"a/~\":{\"type\":\"string\",\"const\":\"x\",\"minLength\":1}}}",
         "[[0,\"/properties/a~1~0/minLength\"]]", GLM("f", ARG("a/~", "x")), GLM("f", ARG("a/~", "y"))},
        {"qwen-xml", P("\"a\":{\"type\":\"boolean\",\"const\":true}"), "[]", XML("f", PAIR("a", "True")),
         XML("f", PAIR("a", "False"))},
        {"qwen-xml", P("\"a\":{\"type\":\"boolean\",\"not\":{\"const\":true}}"), "[[0,\"/properties/a/not\"]]", NULL, NULL},
        {"deepseek-v4", P("\"a\":{\"type\":[\"string\",\"integer\"],\"minimum\":3}"), "[]", DEEP_A("false", "3"),
         DEEP_A("false", "2")},
        {"deepseek-v4", P("\"a\":{\"enum\":[\"x\",3]}"), "[]", DEEP_A("false", "3"), DEEP_A("true", "3")},
        {"seed", "{\"properties\":{\"a\":{}},\"required\":[\"a\",\"b\"],\"patternProperties\":{\"x\":{\"type\":\"null\"}},"
         "\"minProperties\":1,\"additionalProperties\":{\"type\":\"null\"}}",
         "[[0,\"/minProperties\"],[0,\"/patternProperties\"],[0,\"/required\"]]", NULL, NULL},
        {"seed", "{\"additionalProperties\":{\"type\":\"null\"}}", "[[0,\"/additionalProperties\"]]", NULL, NULL},
        {"seed", "{\"anyOf\":[" P("\"a\":{}") "]}", "[[0,\"/anyOf\"]]", NULL, NULL},
        {"gemma", P("\"a\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":\"object\",\"properties\":{\"b\":"
         "{\"const\":1},\"c\":{\"type\":\"string\",\"pattern\":\"x\"}}}}"),
         "[[0,\"/properties/a/minItems\"],[0,\"/properties/a/items/properties/c/pattern\"]]", CALL_F("a:[{b:1}]"),
         CALL_F("a:[{b:2}]")},
        {"gemma", P("\"a\":{\"type\":[\"string\",\"null\"]}"), "[]", CALL_F("a:null"), CALL_F("a:1")},
        {"gemma", P("\"a\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":\"null\"}}]}"), "[]",
         CALL_F("a:[null]"), CALL_F("a:[1]")},
        {"gemma", P("\"a\":{\"enum\":[\"<|\\\"|>\"]}"), "[[0,\"/properties/a/enum\"]]", NULL, NULL},
        {"gemma", P("\"a\":{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}"),
         "[[0,\"/properties/a/oneOf/0/type\"],[0,\"/properties/a/oneOf/1/type\"]]", NULL, NULL},
        {"gemma", P("\"a\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}"),
         "[[0,\"/properties/a/additionalProperties\"]]", CALL_F("a:{x:1}"), NULL},
        {"gemma", P("\"a\":{\"type\":\"object\",\"additionalProperties\":false}"), "[]", CALL_F("a:{}"), CALL_F("a:{x:1}")},
    };
    check_said(c, sizeof c / sizeof *c);
}

/* References that multiply: each branch of a union leads back to the union. */
static void unions_of_references_cost_no_more_than_a_limit(void **state)
{
    (void)state;
    enum { BRANCHES = 400, CAP = 1 << 16 };
    static const char *const formats[] = {"qwen-xml", "gemma", "hermes"};
    char *schema = malloc(CAP);
    size_t n = (size_t)snprintf(schema, CAP, "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"}},"
                                "\"$defs\":{\"x\":{\"anyOf\":[");
    for (int i = 0; i < BRANCHES; i++)
        n += (size_t)snprintf(schema + n, CAP - n, "%s{\"$ref\":\"#/$defs/x\"}", i ? "," : "");
    snprintf(schema + n, CAP - n, "]}}}");
    const struct format_tool tool = {"f", 1, schema, strlen(schema)};
    uint64_t began = clock_ns();
    struct format_tools *t = tools_of(&tool, 1);
    for (size_t i = 0; i < 3; i++) {
        const struct format *f = format_find(formats[i], strlen(formats[i]));
        struct format_shape shape;
        struct buf lark, left;
        struct err e;
        struct format_request q = {.tools = t, .choice = FORMAT_REQUIRED, .left_out = &left};
        format_shape_init(f, &shape);
        buf_init(&lark, LIMIT_GRAMMAR_TEXT);
        buf_init(&left, 1 << 14);
        enum status st = format_grammar(f, &shape, &q, &lark, &e);
        assert_true(st == ST_OK || st == ST_TOO_LONG);
        if (st == ST_OK && i < 2)
            assert_non_null(strstr(left.data, "\"/$defs/x"));
        buf_release(&left);
        buf_release(&lark);
    }
    format_tools_free(t);
    free(schema);
    assert_true(clock_ns() - began < 10ull * 1000000000u); /* without a limit: the fourth power of the branches, hours */
}

/* Names that a format cannot write are refused by name. */
static void names_that_cannot_be_written(void **state)
{
    (void)state;
    static const struct {
        const char *format, *name;
    } cases[] = {{"qwen-xml", "a>b"}, {"glm", "a<arg_key>"}, {"mistral-args", "a{b"}, {"deepseek-v3.1", "a<｜tool▁sep｜>"},
                 {"hermes", "[TOOL_CALLS]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct format_tool tool = {cases[i].name, strlen(cases[i].name), "", 0};
        struct format_tools *t = tools_of(&tool, 1);
        struct format_request q = {.tools = t, .choice = FORMAT_REQUIRED, .specials = specials, .specials_n = SPECIALS_N};
        struct format_shape shape;
        struct buf lark;
        struct err e;
        const struct format *f = format_find(cases[i].format, strlen(cases[i].format));
        format_shape_init(f, &shape);
        buf_init(&lark, LIMIT_GRAMMAR_TEXT);
        assert_int_equal(format_grammar(f, &shape, &q, &lark, &e), ST_ARGUMENT);
        assert_string_equal(e.field, "tools[0]");
        buf_release(&lark);
        format_tools_free(t);
    }
}

/* Once the model has begun to call, the shape leaves it little choice. */
static void most_of_a_call_is_forced(void **state)
{
    (void)state;
    static const struct ask ask = {"hermes", NULL, FORMAT_REQUIRED, false, false};
    static const char text[] = HERMES("get_weather", "{\"city\": \"Ulm\"}");
    struct format_tools *t = tools_of(TOOLS, 3);
    struct grammar *g = compile(&ask, t, 0);
    size_t forced, at;
    assert_int_equal(says(g, text, false, &forced, &at), 'y');
    print_message("%zu of %zu bytes are forced\n", forced, sizeof text - 1);
    assert_true(forced >= sizeof text - 1 - 2); /* all but which tool, and which city */
    grammar_free(g);
    format_tools_free(t);
}

/* ---- what a grammar lets through, a recogniser reads ---- */

static uint32_t draw(uint32_t n)
{
    static uint64_t count;
    uint32_t out[4];
    rng_philox(7, count++, 0, out);
    return out[0] % n;
}

/* A random reply of at most cap - 1 bytes: each byte one that the grammar allows, those of `likely` (closing tags) first,
 * so that texts come to an end. False: it did not. */
static bool random_reply(const struct grammar *g, const char *likely, char *text, size_t cap)
{
    static uint32_t mask[4096];
    struct matcher *m;
    struct matcher_next next = {0};
    struct err e;
    size_t n = 0, at = 0, len = strlen(likely);
    bool ended = false;
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    while (n + 32 < cap && !ended) {
        assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
        ended = next.end && (!next.n || draw(4) == 0);
        tok_id allowed[CONTROL + SPECIALS_N], id;
        uint32_t k = 0;
        for (tok_id i = BYTES; i < (tok_id)(CONTROL + SPECIALS_N); i++) {
            if (mask[i / 32] >> i % 32 & 1 && (i < BYTES + 0x7f || i >= CONTROL))
                allowed[k++] = i;
        }
        if (ended || !k)
            break;
        id = allowed[draw(k)];
        at = draw(12) == 0 ? draw((uint32_t)len) : (at + 1) % len;
        tok_id want = BYTES + (unsigned char)likely[at];
        if (mask[want / 32] >> want % 32 & 1)
            id = want;
        assert_int_equal(matcher_consume(m, &id, 1), 1);
        size_t size = 1;
        const char *bytes = id >= CONTROL ? SPECIALS[id - CONTROL] : NULL;
        if (bytes)
            memcpy(text + n, bytes, size = strlen(bytes));
        else
            text[n] = (char)(id - BYTES);
        n += size;
    }
    text[n] = 0;
    matcher_free(m);
    return ended;
}

static void what_is_let_through_is_read(void **state)
{
    (void)state;
    static const struct {
        struct ask ask;
        const char *likely;
    } cases[] = {
        {REQUIRED, "\"}}\n</tool_call>"}, {AUTO, "<tool_call>\"}}\n</tool_call>"},
        {XML_REQUIRED, "1\n</parameter>\n</function>"},
        {SEED, "1</parameter>\n</function>"}, {LLAMA, "{\"name\": \"f\"1}}"}, {MISTRAL, "\", \"}a1]"},
        {MISTRAL_ARGS, "[/THINK]\"}1"}, {GEMMA, "1}:\"]"}, {GLM_AUTO, "<tool_call>1</arg_value>\n</tool_call></think>"},
        {DEEP31, "\"}1"}, {DEEP4, "</parameter>\n1}"}, {REQUIRED_MAY, "</think>\"}}"}, {MAY, "</think><tool_call>\"}}"},
    };
    static char text[1200];
    struct format_tools *tools = tools_of(TOOLS, 3);
    uint32_t ended = 0, calls = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct ask *a = &cases[i].ask;
        struct grammar *g = compile(a, tools, 0);
        struct recogniser_config cfg = {.format = format_find(a->format, strlen(a->format)), .tools = tools};
        if (a->reasoning)
            cfg.reasoning = format_find_reasoning(a->reasoning, strlen(a->reasoning));
        for (int round = 0; round < 40; round++) {
            if (!random_reply(g, cases[i].likely, text, sizeof text))
                continue;
            static struct recogniser r;
            struct told t;
            told_init(&t);
            recogniser_init(&r, &cfg);
            recogniser_feed(&r, text, strlen(text), told_sink, &t);
            recogniser_end(&r, told_sink, &t);
            if (t.broken || t.begun != t.ended || (a->choice != FORMAT_AUTO && !t.ended))
                print_error("%s: %s\n%s\n", a->format, text, told_text(&t));
            assert_int_equal(t.broken, 0);
            assert_true(a->choice == FORMAT_AUTO || t.ended > 0);
            assert_true(a->parallel || t.ended <= 1);
            ended++;
            calls += t.ended;
            told_release(&t);
        }
        grammar_free(g);
    }
    print_message("%u random replies, %u calls in them\n", ended, calls);
    assert_true(ended > 200 && calls > 100);
    format_tools_free(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_hermes),
        cmocka_unit_test(at_most_one_call_tc10),
        cmocka_unit_test(a_required_call_is_forced_tc8),
        cmocka_unit_test(a_named_call_is_forced_tc9),
        cmocka_unit_test(reasoning_is_free),
        cmocka_unit_test(pairs),
        cmocka_unit_test(llama3),
        cmocka_unit_test(mistral),
        cmocka_unit_test(gemma),
        cmocka_unit_test(glm),
        cmocka_unit_test(deepseek),
        cmocka_unit_test(hostile_names_stay_names),
        cmocka_unit_test(schemas_that_say_little),
        cmocka_unit_test(references_lead_from_the_root),
        cmocka_unit_test(what_is_not_enforced_is_told),
        cmocka_unit_test(unions_of_references_cost_no_more_than_a_limit),
        cmocka_unit_test(names_that_cannot_be_written),
        cmocka_unit_test(most_of_a_call_is_forced),
        cmocka_unit_test(what_is_let_through_is_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
