/*
 * rows: what is compiled of templates and tools. Small templates with a vocabulary of bytes say what may be in a row and
 * what not; the real ones, where they are there, that every row is a run of ids of a whole rendering.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <glob.h>

#include "api/api.h"
#include "calls.h"

#define TAIL "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{# tools #}"

#define HERMES CALLS_TURN CALLS_HERMES TAIL

#define XML CALLS_TURN CALLS_XML TAIL

#define ARG_KEYS \
    CALLS_TURN "{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}\n" \
    "{% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n" \
    "{% endfor %}</tool_call>{% endfor %}" TAIL

#define STRING(name) "\"" name "\":{\"type\":\"string\"}"
#define TOOL(name, properties, more) \
    "{\"name\":\"" name "\",\"parameters\":{\"type\":\"object\",\"properties\":{" properties "}" more "}}"
#define CLOSED ",\"additionalProperties\":false"
#define ONE "[" TOOL("get_weather", STRING("city"), ",\"required\":[\"city\"]" CLOSED) "]"

static struct tok *tok;

static int make_tok(void **state)
{
    (void)state;
    tok = calls_tok(NULL, 0);
    return 0;
}

static int drop_tok(void **state)
{
    (void)state;
    tok_free(tok);
    return 0;
}

static void open_text(struct calls *c, const char *source, const char *tools)
{
    calls_open(c, tok, source, strlen(source), tools);
}

/* ids as text; in static memory, two at a time. */
static const char *text_of(const struct tok *t, const tok_id *ids, size_t n)
{
    static char out[2][2048];
    static int turn;
    char *at = out[turn ^= 1];
    size_t len = 0, k;
    for (size_t i = 0; i < n; i++) {
        const char *s = tok_bytes(t, ids[i], &k);
        assert_true(len + k < sizeof out[0]);
        memcpy(at + len, s, k);
        len += k;
    }
    at[len] = '\0';
    return at;
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

/* The row whose trigger ends with `trigger` and whose append is or, with `part`, begins with `append`. */
static const struct template_row *find(const struct calls *c, const char *trigger, const char *append, bool part)
{
    for (size_t i = 0; c->rows && i < template_rows_n(c->rows); i++) {
        const struct template_row *r = template_rows_at(c->rows, i);
        const char *then = text_of(c->tok, r->append, r->append_n);
        if (ends_with(text_of(c->tok, r->trigger, r->trigger_n), trigger) &&
            (part ? !strncmp(then, append, strlen(append)) : !strcmp(then, append)))
            return r;
    }
    return NULL;
}

/* The ids that a row for `trigger` gives in this order are determined up to `sure`. */
static void check_sure(const struct calls *c, const char *trigger, const char *append, const char *sure)
{
    const struct template_row *r = find(c, trigger, append, false);
    if (!r)
        fail_msg("no row %s -> %s (%s)", trigger, append, c->why);
    assert_string_equal(text_of(c->tok, r->append, r->sure_n), sure);
}

/* ---- formats ---- */

static void test_json(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, ONE);
    check_sure(&c, "<tool_call>", "\n{\"name\": \"get_weather\"", "\n{\"name\": \"get_weather\"");
    check_sure(&c, "\"", ", \"arguments\": {\"city\": \"", ", \"arguments\": {\"city\": ");
    check_sure(&c, "\"", "}}\n</tool_call>", "}}\n</tool_call>");
    assert_int_equal(find(&c, "\"", "}}\n</tool_call>", false)->kind, TEMPLATE_CLOSE);
    calls_close(&c);
}

static void test_xml(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, XML, ONE);
    check_sure(&c, "<tool_call>", "\n<function=get_weather>", "\n<function=get_weather>");
    check_sure(&c, ">", "\n<parameter=city>\n", "\n<parameter=city>");
    check_sure(&c, ">", "\n</function>\n</tool_call>", "\n</function>\n</tool_call>");
    calls_close(&c);
}

static void test_arg_keys(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, ARG_KEYS, ONE);
    check_sure(&c, ">", "\n</tool_call>", "\n</tool_call>");
    assert_non_null(find(&c, "<tool_call>", "get_weather\n", true));
    assert_non_null(find(&c, "\n", "<arg_key>city</arg_key>\n<arg_value>", false));
    calls_close(&c);
}

/* A vocabulary that writes "=get" in one token: the name's row follows that token and no piece encoded by itself. */
static void test_merged_name_token(void **state)
{
    (void)state;
    static const char *const merged[] = {"= g", "=g e", "=ge t", "= f", "=f i"};
    static const char TWO[] = "[" TOOL("get_weather", STRING("city"), "") "," TOOL("find_way", STRING("to"), "") "]";
    struct tok *t = calls_tok(merged, 5);
    struct calls c;
    calls_open(&c, t, XML, strlen(XML), TWO);
    const struct template_row *get = find(&c, "<function=get", "_weather>", false);
    const struct template_row *way = find(&c, "<function=fi", "nd_way>", false);
    assert_true(get && way);
    assert_string_equal(text_of(t, get->trigger + get->trigger_n - 1, 1), "=get");
    assert_null(find(&c, "<function=", "", true));
    calls_close(&c);
    tok_free(t);
}

/* ---- nothing ---- */

static void check_empty(const char *source, const char *tools, const char *why)
{
    struct calls c;
    open_text(&c, source, tools);
    assert_null(c.rows);
    if (!strstr(c.why, why))
        fail_msg("\"%s\", not \"%s\"", c.why, why);
    calls_close(&c);
}

static void test_empty(void **state)
{
    (void)state;
    check_empty(CALLS_TURN "{{ m.content }}" TAIL, ONE, ""); /* no tool calls */
    check_empty(CALLS_TURN "{{ m.content }}{% if m.tool_calls %}<tool_call>\n{}\n</tool_call>{% endif %}" TAIL, ONE,
                "format"); /* nameless */
    check_empty(CALLS_TURN "{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ raise_exception('no calls here') }}"
                     "{% endfor %}" TAIL, ONE, "no calls here");                                      /* throwing */
    check_empty("{{ raise_exception('never') }}<tool_call>", ONE, "never");
    check_empty(HERMES, "[]", "no tools");
    check_empty(HERMES, "[" TOOL("<|im_end|>", STRING("city"), "") "]", "control token");
}

/* ---- what the schema leaves open ---- */

static void test_open_schema_blocks(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, "[" TOOL("get_weather", STRING("city"), ",\"required\":[\"city\"]") "]");
    check_sure(&c, "\"", ", \"arguments\": {\"city\": \"", ", \"arguments\": {\"");
    assert_int_equal(find(&c, "\"", "}}\n</tool_call>", false)->sure_n, 0);
    calls_close(&c);
    open_text(&c, HERMES, "[" TOOL("get_weather", STRING("city"), ",\"required\":[\"city\"]" CLOSED
                                   ",\"patternProperties\":{\"^x\":{}}") "]");
    check_sure(&c, "\"", ", \"arguments\": {\"city\": \"", ", \"arguments\": {\"");
    calls_close(&c);
}

static void test_optional_blocks(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, "[" TOOL("get_weather", STRING("city"), CLOSED) "]");
    check_sure(&c, "\"", ", \"arguments\": {", ", \"arguments\": {"); /* {} or {"city": */
    calls_close(&c);
    open_text(&c, HERMES, "[" TOOL("f", STRING("a") "," STRING("b"), ",\"required\":[\"a\"]" CLOSED) "]");
    assert_null(find(&c, "\"", ", \"b\": \"", true));
    const struct template_row *r = find(&c, "\"", "}}\n</tool_call>", false); /* behind a, b may come */
    assert_true(r && r->key == 1 && r->sure_n == 0);
    check_sure(&c, "\",", " \"b\": \"", " \"");             /* b alone is left, but it could be a */
    check_sure(&c, "\"}", "}\n</tool_call>", "}\n</tool_call>");
    calls_close(&c);
}

/* Keys that are all required come in the schema's order, each after the other. */
static void test_after_value(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, "[" TOOL("f", STRING("a") ",\"b\":{\"type\":\"integer\"}," STRING("c"),
                                   ",\"required\":[\"a\",\"b\",\"c\"]" CLOSED) "]");
    check_sure(&c, "\"", ", \"b\": ", ", \"b\":");
    check_sure(&c, ",", " \"c\": \"", " \"c\": ");
    check_sure(&c, "\"", "}}\n</tool_call>", "}}\n</tool_call>");
    const struct template_row *r = find(&c, "\"", ", \"b\": ", false);
    assert_int_equal(r->kind, TEMPLATE_AFTER);
    assert_int_equal(r->key, 0);
    assert_int_equal(r->absent, 2);
    calls_close(&c);
}

/* The close row holds for the tool that leaves nothing else, whatever the others leave. */
static void test_close_by_tool(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, "[" TOOL("all", STRING("a"), ",\"required\":[\"a\"]" CLOSED) ","
                              TOOL("some", STRING("a"), "") "]");
    const struct template_row *r = find(&c, "\"", "}}\n</tool_call>", false);
    assert_non_null(r);
    for (size_t i = 0; i < template_rows_n(c.rows); i++) {
        r = template_rows_at(c.rows, i);
        if (r->kind == TEMPLATE_CLOSE && r->tool == 1 && r->points & 1u << RECOGNISER_VALUE_DONE)
            assert_int_equal(r->sure_n, 0);
    }
    calls_close(&c);
}

static void test_values(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, "[" TOOL("f", "\"unit\":{\"type\":\"string\",\"enum\":[\"celsius\",\"cm\",\"kelvin\"]},"
                                        "\"kind\":{\"const\":\"fixed\"}",
                                   ",\"required\":[\"unit\",\"kind\"]" CLOSED) "]");
    assert_non_null(find(&c, "\"k", "elvin", false));
    assert_non_null(find(&c, "\"ce", "lsius", false));
    assert_null(find(&c, "\"c", "", true)); /* celsius or cm */
    assert_non_null(find(&c, "\"", ": \"fixed", false));
    calls_close(&c);
}

/* Value types: a string's quote is determined, that of a value which may be a number is not. */
static void test_value_types(void **state)
{
    (void)state;
    struct calls c;
    open_text(&c, HERMES, "[" TOOL("f", "\"a\":{\"type\":[\"string\",\"integer\"]}", ",\"required\":[\"a\"]" CLOSED) "]");
    assert_non_null(find(&c, "\"", ", \"arguments\": {\"a\": ", false));
    calls_close(&c);
    open_text(&c, HERMES, "[" TOOL("f", "\"a\":{\"type\":\"array\"}", ",\"required\":[\"a\"]" CLOSED) "]");
    assert_non_null(find(&c, "\"", ", \"arguments\": {\"a\": [", false));
    calls_close(&c);
}

/* ---- triggers ---- */

/* "</" begins the end of a value as well as other words: no row follows it. */
static void test_bare_end_never_arms(void **state)
{
    (void)state;
    static const char *const sources[] = {XML, ARG_KEYS};
    for (int i = 0; i < 2; i++) {
        struct calls c;
        open_text(&c, sources[i], ONE);
        assert_non_null(c.rows);
        for (size_t k = 0; k < template_rows_n(c.rows); k++) {
            const struct template_row *r = template_rows_at(c.rows, k);
            const char *trigger = text_of(tok, r->trigger, r->trigger_n);
            if (ends_with(trigger, "</"))
                assert_int_not_equal(r->points, 1u << RECOGNISER_VALUE);
            assert_string_not_equal(trigger, "</");
            assert_string_not_equal(trigger, "<");
        }
        calls_close(&c);
    }
}

/* Where the prompt has opened reasoning, a reply begins with its end; that is no call. */
static void test_scaffold_not_on_think_close(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
        "{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
        "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# tools <think> </think> #}";
    static const char *const merged[] = {"Ċ Ċ", "< t"};
    struct tok *t = calls_tok(merged, 2);
    struct calls c;
    calls_open(&c, t, source, sizeof source - 1, ONE);
    if (!c.rows)
        fail_msg("%s", c.why);
    size_t scaffolds = 0;
    for (size_t k = 0; k < template_rows_n(c.rows); k++) {
        const struct template_row *r = template_rows_at(c.rows, k);
        assert_null(strstr(text_of(t, r->trigger, r->trigger_n), "think"));
        scaffolds += r->kind == TEMPLATE_SCAFFOLD;
        if (r->kind == TEMPLATE_SCAFFOLD)
            assert_int_equal(strncmp(text_of(t, r->trigger, r->trigger_n), "<t", 2), 0);
    }
    assert_true(scaffolds > 0);
    calls_close(&c);
    tok_free(t);
}

static void test_many_tools(void **state)
{
    (void)state;
    static char tools[64u << 10];
    size_t n = 0;
    n += (size_t)snprintf(tools + n, sizeof tools - n, "[");
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(tools + n, sizeof tools - n, "%s" TOOL("tool_%d_%s", STRING("a"), ""), i ? "," : "", i,
                              i % 2 ? "read" : "write");
    snprintf(tools + n, sizeof tools - n, "]");
    struct calls c;
    open_text(&c, HERMES, tools);
    assert_non_null(find(&c, "<tool_call>", "\n{\"name\": \"tool_", false));
    assert_non_null(find(&c, "tool_137", "_read\"", false));
    assert_non_null(find(&c, "tool_199", "_read\"", false));
    assert_null(find(&c, "tool_1", "_", true)); /* or tool_10, … */
    assert_true(template_rows_n(c.rows) <= LIMIT_TEMPLATE_ROWS);
    calls_close(&c);
}

/* ---- the real templates ---- */

static const char REAL[] =
    "[" TOOL("get_weather", STRING("city") ",\"days\":{\"type\":\"integer\"},"
             "\"unit\":{\"type\":\"string\",\"enum\":[\"celsius\",\"fahrenheit\"]}",
             ",\"required\":[\"city\",\"days\",\"unit\"]" CLOSED) ","
        TOOL("find_flight", STRING("origin") "," STRING("destination") "," STRING("departure_date") ","
             STRING("departure_time"), ",\"required\":[\"origin\",\"destination\"]") "]";

/* Calls, in which every row has to be found. */
static const char *const REAL_CALLS[][2] = {
    {"get_weather", "{\"city\":\"Oslo\",\"days\":3,\"unit\":\"celsius\"}"},
    {"get_weather", "{\"city\":\"7 km\",\"days\":41,\"unit\":\"fahrenheit\"}"},
    {"get_weather", "{\"city\":\"Rio\",\"days\":5,\"unit\":\"celsius\"}"},
    {"find_flight", "{\"origin\":\"Oslo\",\"destination\":\"Oslo\"}"},
    {"find_flight", "{\"origin\":\"Oslo\",\"destination\":\"Oslo\",\"departure_date\":\"Oslo\"}"},
    {"find_flight", "{\"origin\":\"Oslo\",\"destination\":\"Oslo\",\"departure_time\":\"Oslo\"}"},
    {"find_flight", "{\"origin\":\"Oslo\",\"destination\":\"Oslo\",\"departure_date\":\"Oslo\","
                    "\"departure_time\":\"Oslo\"}"},
};
#define REAL_N (sizeof REAL_CALLS / sizeof *REAL_CALLS)

static void message_of(size_t i, char *out, size_t cap)
{
    snprintf(out, cap, "\"content\":\"\",\"tool_calls\":[{\"id\":\"aB3dE5fG7\",\"type\":\"function\",\"function\":"
             "{\"name\":\"%s\",\"arguments\":%s}}]", REAL_CALLS[i][0], REAL_CALLS[i][1]);
}

static bool has_run(const tok_id *ids, size_t n, const struct template_row *r)
{
    size_t len = (size_t)r->trigger_n + r->append_n;
    for (size_t i = 0; i + len <= n; i++)
        if (!memcmp(ids + i, r->trigger, r->trigger_n * sizeof *ids) &&
            !memcmp(ids + i + r->trigger_n, r->append, r->append_n * sizeof *ids))
            return true;
    return false;
}

/* Every row of a template is a run of ids in the prompt of a conversation with such a call, as a server would render
 * it. Returns rows; 0 if the template does not render such a conversation. */
static size_t check_template(const struct calls *c, const char *name)
{
    tok_id *ids[REAL_N];
    size_t n[REAL_N], rows = template_rows_n(c->rows), rendered = 0;
    char message[1024];
    for (size_t i = 0; i < REAL_N; i++) {
        message_of(i, message, sizeof message);
        n[i] = calls_reply(c, message, 2, &ids[i]);
        rendered += n[i] && n[i] < 400 && strstr(text_of(c->tok, ids[i], n[i]), REAL_CALLS[i][0]);
    }
    for (size_t k = 0; k < rows && rendered == REAL_N; k++) {
        const struct template_row *r = template_rows_at(c->rows, k);
        bool found = false;
        for (size_t i = 0; i < REAL_N; i++)
            found = found || has_run(ids[i], n[i], r);
        if (!found)
            fail_msg("%s: no rendering has %s -> %s", name, text_of(c->tok, r->trigger, r->trigger_n),
                     text_of(c->tok, r->append, r->append_n));
        for (uint32_t i = 0; i < r->append_n; i++)
            assert_false(tok_is_eos(c->tok, r->append[i]));
    }
    for (size_t i = 0; i < REAL_N; i++)
        free(ids[i]);
    return rendered == REAL_N ? rows : 0;
}

static void test_real_templates(void **state)
{
    (void)state;
    static const char *const vocabs[] = {"qwen2", "llama-bpe", "gemma-4", "llama-spm"};
    const char *corpus = calls_corpus();
    char path[4200];
    glob_t found;
    if (!corpus)
        skip();
    snprintf(path, sizeof path, "%s/templates/*.jinja", corpus);
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        struct api_model m;
        struct err e;
        size_t templates = 0, rows = 0, unseen = 0;
        snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf", corpus, vocabs[v]);
        struct api_open o = {.path = path, .want = API_TOK};
        if (api_open(&m, &o, &e) != ST_OK)
            fail_msg("%s", e.text);
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct calls c;
            size_t n;
            char *source = calls_read(found.gl_pathv[i], &n);
            calls_open(&c, m.tok, source, n, REAL);
            size_t seen = c.rows ? check_template(&c, found.gl_pathv[i]) : 0;
            templates += seen > 0;
            unseen += c.rows && !seen;
            rows += seen;
            assert_true(c.rows || c.why[0]);
            calls_close(&c);
            free(source);
        }
        printf("note: %s: %zu rows of %zu templates found in renderings, %zu templates render no such request\n", vocabs[v],
               rows, templates, unseen);
        assert_true(templates >= 20 && unseen <= 2);
        api_close(&m);
    }
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_xml),
        cmocka_unit_test(test_arg_keys),
        cmocka_unit_test(test_merged_name_token),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_open_schema_blocks),
        cmocka_unit_test(test_optional_blocks),
        cmocka_unit_test(test_after_value),
        cmocka_unit_test(test_close_by_tool),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_value_types),
        cmocka_unit_test(test_bare_end_never_arms),
        cmocka_unit_test(test_scaffold_not_on_think_close),
        cmocka_unit_test(test_many_tools),
        cmocka_unit_test(test_real_templates),
    };
    return cmocka_run_group_tests(tests, make_tok, drop_tok);
}
