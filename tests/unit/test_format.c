/*
 * test_format: recognisers of every format: whole replies, every way of cutting them, truncation at every byte, text that
 * is no call, and random damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "format_told.h"

static const struct format_tool TOOLS[] = {
    TOOL("f", "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},"
              "\"l\":{\"type\":\"array\"},\"o\":{\"type\":\"object\"},\"t\":{\"type\":\"boolean\"},"
              "\"x\":{},\"u\":{\"type\":[\"string\",\"null\"]}}}"),
    TOOL("get_weather", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}"),
    TOOL("none", ""),
};

static struct format_tools *tools;

struct reply {
    const char *format, *reasoning; /* NULL: none; "+think": the prompt has opened it */
    const char *text, *told;
};

static void config(struct recogniser_config *cfg, const struct reply *c)
{
    *cfg = (struct recogniser_config){.tools = tools};
    if (c->format)
        assert_non_null(cfg->format = format_find(c->format, strlen(c->format)));
    if (c->reasoning) {
        const char *name = c->reasoning + (*c->reasoning == '+');
        assert_non_null(cfg->reasoning = format_find_reasoning(name, strlen(name)));
        cfg->in_reasoning = *c->reasoning == '+';
    }
}

static uint64_t seed = 1;

static size_t below(size_t n)
{
    uint32_t out[4];
    rng_philox(2026, seed++, 0, out);
    return out[0] % n;
}

/* Feeds text[n] in pieces that end at cuts[k]; `end`: the reply ends there. */
static void feed(struct told *t, const struct reply *c, const char *text, size_t n, const size_t *cuts, size_t k, bool end)
{
    struct recogniser_config cfg;
    static struct recogniser r;
    config(&cfg, c);
    recogniser_init(&r, &cfg);
    told_init(t);
    size_t from = 0;
    for (size_t i = 0; i <= k; i++) {
        size_t to = i < k ? cuts[i] : n;
        char *piece = malloc(to - from + 1); /* of its own, so that a sanitizer sees a read beyond it */
        memcpy(piece, text + from, to - from);
        recogniser_feed(&r, piece, to - from, told_sink, t);
        free(piece);
        from = to;
    }
    assert_int_equal(r.fed, n);
    if (end)
        recogniser_end(&r, told_sink, t);
}

static size_t every[1 << 16];

static void expect(const struct reply *c)
{
    struct told t;
    size_t n = strlen(c->text);
    feed(&t, c, c->text, n, NULL, 0, true);
    if (strcmp(told_text(&t), c->told))
        print_error("%s: %s\n  told     %s\n  expected %s\n", c->format, c->text, told_text(&t), c->told);
    assert_string_equal(told_text(&t), c->told);
    told_release(&t);
    feed(&t, c, c->text, n, every, n, true);
    assert_string_equal(told_text(&t), c->told);
    told_release(&t);
    for (size_t cut = 0; cut <= n; cut++) {
        feed(&t, c, c->text, n, &cut, 1, true);
        assert_string_equal(told_text(&t), c->told);
        told_release(&t);
    }
    for (int round = 0; round < 20; round++) {
        size_t cuts[64], k = 0;
        for (size_t at = 0; k < 64 && (at += below(9)) < n;)
            cuts[k++] = at;
        feed(&t, c, c->text, n, cuts, k, true);
        assert_string_equal(told_text(&t), c->told);
        told_release(&t);
    }
}

/* What every reply keeps to, whatever is in it: told the same byte by byte, append-only, no call left open, arguments of
 * complete calls are a JSON object, and what is no call is content, to the last byte. */
static void hold(const struct reply *c, const char *text, size_t n)
{
    struct told whole, bytes;
    feed(&whole, c, text, n, NULL, 0, true);
    feed(&bytes, c, text, n, every, n, true);
    assert_string_equal(told_text(&whole), told_text(&bytes));
    assert_int_equal(whole.begun, whole.ended + whole.broken);
    const char *told = told_text(&whole);
    if (!whole.begun && !c->reasoning && n) {
        assert_int_equal(strlen(told), n + 3);
        assert_memory_equal(told + 2, text, n);
    }
    if (whole.broken == 1 && whole.begun == 1 && !c->reasoning) {
        assert_true(whole.from < whole.at && whole.at <= n);
        size_t rest = n - whole.at;
        const char *tail = told + strlen(told) - (rest ? rest + 1 : 0);
        assert_memory_equal(tail, text + whole.at, rest);
        assert_int_equal(tail[rest ? -3 : -1], '!');
    }
    told_release(&whole);
    told_release(&bytes);
}

static void truncated(const struct reply *c)
{
    size_t n = strlen(c->text);
    struct told part;
    for (size_t cut = 0; cut <= n; cut++) {
        hold(c, c->text, cut);
        feed(&part, c, c->text, cut, NULL, 0, false);
        const char *told = part.text.data ? part.text.data : ""; /* with what is open left open */
        if (strncmp(told, c->told, strlen(told)))
            print_error("%.*s\n  told so far %s\n  in the end  %s\n", (int)cut, c->text, told, c->told);
        assert_int_equal(strncmp(told, c->told, strlen(told)), 0);
        told_release(&part);
    }
}

/* ---- the replies ---- */

static const struct reply PLAIN[] = {
    {NULL, NULL, "", ""},
    {NULL, NULL, "Hello <tool_call> there", "C{Hello <tool_call> there}"},
    {NULL, "think", "<think>\nSo.\n\n</think>\n\nHello\n", "R{So.}C{Hello\n}"},
    {NULL, "think", "\n<think>a < b </thin k</think>x", "R{a < b </thin k}C{x}"},
    {NULL, "+think", "So\n</think>\n\nHello", "R{So}C{Hello}"},
    {NULL, "+think", "<think>\nSo\n</think>\n\nHello", "R{So}C{Hello}"},
    {NULL, "+think", "  So it never ends </thi", "R{So it never ends </thi}"},
    {NULL, "+think", "</think>", ""},
    {NULL, "think", "Then <think> is a tag</think>", "C{Then <think> is a tag</think>}"},
    {NULL, "mistral", "[THINK]a[/THINK]b", "R{a}C{b}"},
    {NULL, "gemma", "<|channel>thought\nhm\n<channel|>b", "R{hm}C{b}"},
};

static const struct reply HERMES_CALLS[] = {
    {"hermes", NULL, HERMES("f", "{\"a\": 1}"), "[f {\"a\": 1}]"},
    {"hermes", NULL, "Yes.\n\n" HERMES("f", "{}") "\n" HERMES("get_weather", "{\"city\": \"Ulm\"}") "\n",
     "C{Yes.}[f {}][get_weather {\"city\": \"Ulm\"}]"},
    {"hermes", "think", "<think>\n" HERMES("f", "{}") "\n</think>\n\n" HERMES("f", "{\"b\":\"</tool_call>\"}"),
     "R{" HERMES("f", "{}") "}[f {\"b\":\"</tool_call>\"}]"},
    {"hermes", NULL, "```\n" HERMES("f", "{}") "\n```\nDone", "C{```}[f {}]C{```\nDone}"},
    {"hermes", NULL, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[1,{\"b\":null}],\"x\":-1.5e3}}</tool_call>",
     "[f {\"a\":[1,{\"b\":null}],\"x\":-1.5e3}]"},
    {"hermes", NULL, "<tool_call>\n{\"type\": \"function\", \"id\": 7, \"name\": \"f\"}\n</tool_call> ok",
     "[f {}]C{ok}"},
    {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": \"{\\\"b\\\": \\\"\\u00e4\\\\n\\\"}\"}\n</tool_call>",
     "[f {\"b\": \"ä\\n\"}]"},
    {"hermes", NULL, HERMES("f", "{\"b\": \"two\nlines\"}"), "[f {\"b\": \"two\\nlines\"}]"},
    {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", "[f {}]"},
    {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n" HERMES("none", "{}"), "[f {}][none {}]"},
    {"hermes", NULL, "a < b <tool <tool_call <<tool_call>x", "C{a < b <tool <tool_call <<tool_call>x}"},
};

static const struct reply HERMES_RAW[] = {
    {"hermes", NULL, HERMES("unknown", "{\"a\": 1}"), "C{" HERMES("unknown", "{\"a\": 1}") "}"},
    {"hermes", NULL, "<tool_call>\n{\"name\": \"f, \"arguments\": {}}\n</tool_call>",
     "C{<tool_call>\n{\"name\": \"f, \"arguments\": {}}\n</tool_call>}"},
    {"hermes", NULL, "<tool_call>\n{\"arguments\": {}, \"name\": \"f\"}\n</tool_call>",
     "C{<tool_call>\n{\"arguments\": {}, \"name\": \"f\"}\n</tool_call>}"},
    {"hermes", NULL, "<tool_call>\nf(a=1)\n</tool_call>" HERMES("f", "{}"),
     "C{<tool_call>\nf(a=1)\n</tool_call>}[f {}]"},
    {"hermes", NULL, "<tool_call>" HERMES("f", "{}"), "C{<tool_call>}[f {}]"},
    {"hermes", NULL, HERMES("f", "{\"b\": \"say \"hi\"\"}") " and",
     "[f {\"b\": \"say \"!C{hi\"\"}}\n</tool_call> and}"},
    {"hermes", NULL, HERMES("f", "[1]"), "[f !C{[1]}\n</tool_call>}"},
    {"hermes", NULL, HERMES("f", "{}, \"arguments\": {}"), "[f {}!C{\": {}}\n</tool_call>}"},
    {"hermes", NULL, HERMES("f", "{\"a\": 1,}"), "[f {\"a\": 1,!C{}}\n</tool_call>}"},
    {"hermes", NULL, HERMES("f", "{\"a\": 1}} x"), "[f {\"a\": 1}]C{x}\n</tool_call>}"},
    {"hermes", NULL, HERMES("f", "{\"a\": 1, \"a\": 2}"), "[f {\"a\": 1, \"a\": 2}]"},
};

static const struct reply XML_CALLS[] = {
    {"qwen-xml", NULL, XML("f", PAIR("a", "1") PAIR("b", "x \"y\"\n</p>")),
     "[f {\"a\": 1, \"b\": \"x \\\"y\\\"\\n</p>\"}]"},
    {"qwen-xml", NULL, "Ok\n\n" XML("f", PAIR("b", "1")) "\n" XML("none", ""), "C{Ok}[f {\"b\": \"1\"}][none {}]"},
    {"qwen-xml", NULL, XML("f", PAIR("b", "a</parameterization>\n")), "[f {\"b\": \"a</parameterization>\\n\"}]"},
    {"qwen-xml", NULL, XML("f", PAIR("b", "<tool_call><function=f>")), "[f {\"b\": \"<tool_call><function=f>\"}]"},
    {"qwen-xml", NULL, XML("f", PAIR("a", "five") PAIR("t", "True") PAIR("u", "None") PAIR("x", "[1, 2]")),
     "[f {\"a\": \"five\", \"t\": true, \"u\": null, \"x\": [1, 2]}]"},
    {"qwen-xml", NULL, XML("f", PAIR("o", "{\"k\": [1, \"}\"]}") PAIR("l", "[1, 2") PAIR("x", "null and void")),
     "[f {\"o\": {\"k\": [1, \"}\"]}, \"l\": \"[1, 2\", \"x\": \"null and void\"}]"},
    {"qwen-xml", NULL, XML("f", PAIR("a", "1.5") PAIR("u", "5") PAIR("b", "")),
     "[f {\"a\": \"1.5\", \"u\": \"5\", \"b\": \"\"}]"},
    {"qwen-xml", NULL, "<function=f>\n" PAIR("a", "2") "</function>\nBye", "[f {\"a\": 2}]C{Bye}"},
    {"qwen-xml", NULL, "<tool_call>\n<function=f>\n</function>", "[f {}]"},
    {"qwen-xml", "+think", "t\n</think>\n\n" XML("f", ""), "R{t}[f {}]"},
    {"seed", "seed", "<seed:think>t</seed:think><seed:tool_call>\n<function=f>\n<parameter=b>\nx</parameter>\n"
     "<parameter=a>7</parameter>\n</function>\n</seed:tool_call>", "R{t}[f {\"b\": \"\\nx\", \"a\": 7}]"},
};

static const struct reply XML_RAW[] = {
    {"qwen-xml", NULL, XML("unknown", ""), "C{" XML("unknown", "") "}"},
    {"qwen-xml", NULL, XML("f", PAIR("a", "1") PAIR("a", "2")),
     "[f {\"a\": 1!C{a>\n2\n</parameter>\n</function>\n</tool_call>}"},
    {"qwen-xml", NULL, XML("f", "a=1\n"), "[f !C{\na=1\n</function>\n</tool_call>}"},
    {"qwen-xml", NULL, XML("f", PAIR("b", "x</parameter>y")),
     "[f {\"b\": \"x\"!C{y\n</parameter>\n</function>\n</tool_call>}"},
};

static const struct reply LLAMA_CALLS[] = {
    {"llama3", NULL, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "[f {\"a\": 1}]"},
    {"llama3", NULL, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "[f {}]"},
    {"llama3", NULL, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}; {\"name\": \"none\"}",
     "[f {}][none {}]"},
    {"llama3", NULL, "{\"answer\": 1}", "C{{\"answer\": 1}}"},
    {"llama3", NULL, "Use {\"name\": \"f\", \"parameters\": {}}", "C{Use {\"name\": \"f\", \"parameters\": {}}}"},
    {"llama3", NULL, "<|python_tag|>brave_search.call(query=\"x\")",
     "C{<|python_tag|>brave_search.call(query=\"x\")}"},
    {"llama3", NULL, "{\"name\": \"unknown\", \"parameters\": {}}", "C{{\"name\": \"unknown\", \"parameters\": {}}}"},
    {"llama3", NULL, "{\"name\": \"f\", \"parameters\": {\"a\": x}}", "[f {\"a\": !C{x}}}"},
};

static const struct reply MISTRAL_CALLS[] = {
    {"mistral", NULL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"123456789\"}, "
     "{\"name\": \"none\", \"arguments\": {}, \"id\": \"abcdefghi\"}]", "[f {\"a\": 1}][none {}]"},
    {"mistral", NULL, "Ok [TOOL_CALLS] [{\"name\": \"f\"}]", "C{Ok}[f {}]"},
    {"mistral", NULL, "[TOOL_CALLS] f(1)", "C{[TOOL_CALLS] f(1)}"},
    {"mistral", NULL, "[TOOL_CALLS][]", "C{[TOOL_CALLS][]}"},
    {"mistral-args", NULL, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]none[CALL_ID]123456789[ARGS]{}",
     "[f {\"a\": 1}][none {}]"},
    {"mistral-args", "mistral", "[THINK]t[/THINK]ok[TOOL_CALLS]f{\"a\": 1}", "R{t}C{ok}[f {\"a\": 1}]"},
    {"mistral-args", NULL, "[TOOL_CALLS]unknown[ARGS]{}", "C{[TOOL_CALLS]unknown[ARGS]{}}"},
    {"mistral-args", NULL, "[TOOL_CALLS]f[ARGS]{\"a\"=1}", "[f {\"a\"!C{=1}}"},
};

static const struct reply GEMMA_CALLS[] = {
    {"gemma", "gemma", "<|channel>thought\nx\n<channel|>"
     "<|tool_call>call:f{a:1,b:<|\"|>x \"y\"<|\"|>,o:{k:[true,null,<|\"|><|\"|>]}}"
     "<tool_call|><|tool_call>call:none{}<tool_call|>",
     "R{x}[f {\"a\": 1, \"b\": \"x \\\"y\\\"\", \"o\": {\"k\": [true, null, \"\"]}}][none {}]"},
    {"gemma", NULL, "Ok<|tool_call>call:f{x:-1.5,b:hello,l:[]}<tool_call|>",
     "C{Ok}[f {\"x\": -1.5, \"b\": \"hello\", \"l\": []}]"},
    {"gemma", NULL, "<|tool_call>call:f{b:<|\"|>a<|x<|\"|\n<|\"|>}<tool_call|>", "[f {\"b\": \"a<|x<|\\\"|\\n\"}]"},
    {"gemma", NULL, "<|tool_call>call:unknown{}<tool_call|>", "C{<|tool_call>call:unknown{}<tool_call|>}"},
    {"gemma", NULL, "<|tool_call>call:f{a:1]<tool_call|>", "[f {\"a\": 1!C{]<tool_call|>}"},
    {"gemma", NULL, "<|tool_call>call:f{a:1,a:2}<tool_call|>", "[f {\"a\": 1, !C{a:2}<tool_call|>}"},
    {"functiongemma", NULL, "<start_function_call>call:f{b:<escape>x<escape>}<end_function_call>",
     "[f {\"b\": \"x\"}]"},
};

static const struct reply GLM_CALLS[] = {
    {"glm", "think", "\n<think>t</think>\nok\n" GLM("f", ARG("a", "1") ARG("b", "2")) "\n" GLM("none", ""),
     "R{t}C{ok}[f {\"a\": 1, \"b\": \"2\"}][none {}]"},
    {"glm", NULL, "<tool_call>f<arg_key>l</arg_key><arg_value>[1]</arg_value></tool_call>", "[f {\"l\": [1]}]"},
    {"glm", NULL, "<tool_call>none</tool_call>", "[none {}]"},
    {"glm", NULL, "<tool_call>\nf\n</tool_call>", "[f {}]"},
    {"glm", NULL, GLM("unknown", ARG("a", "1")), "C{" GLM("unknown", ARG("a", "1")) "}"},
    {"glm", NULL, GLM("f", ARG("b", "</arg_val") "x"), "[f {\"b\": \"</arg_val\"!C{\nx</tool_call>}"},
};

static const struct reply DEEPSEEK_CALLS[] = {
    {"deepseek", "+think", "t\n</think>\n\n" BEGIN DS("f", "{\"a\": 1}") "\n" DS("none", "{}") ENDS,
     "R{t}[f {\"a\": 1}][none {}]"},
    {"deepseek", NULL, BEGIN DS("unknown", "{}") ENDS, "C{" BEGIN DS("unknown", "{}") ENDS "}"},
    {"deepseek", NULL, DS("f", "{\"b\": \"```\"}"), "[f {\"b\": \"```\"}]"},
    {"deepseek", NULL, BEGIN DS("f", "{}") "x", "[f {}]C{x}"},
    {"deepseek-v3.1", NULL, "ok" BEGIN DS31("f", "{\"a\": 1}") DS31("none", "{}") ENDS,
     "C{ok}[f {\"a\": 1}][none {}]"},
    {"deepseek-v3.1", NULL, BEGIN DS31("f", "1") ENDS, "[f !C{1<｜tool▁call▁end｜>" ENDS "}"},
    {"deepseek-v3.2", "think", "<think>t</think>ok\n\n<" D "function_calls>\n"
     INVOKE("f", PARAM("b", "true", "1") PARAM("a", "false", "1") PARAM("x", "false", "\"s\""))
     INVOKE("none", "") "</" D "function_calls>",
     "R{t}C{ok}[f {\"b\": \"1\", \"a\": 1, \"x\": \"s\"}][none {}]"},
    {"deepseek-v4", NULL, "<" D "tool_calls>\n" INVOKE("f", "\n") "</" D "tool_calls>", "[f {}]"},
    {"deepseek-v4", NULL, "<" D "tool_calls>\n" INVOKE("unknown", "") "</" D "tool_calls>",
     "C{<" D "tool_calls>\n" INVOKE("unknown", "") "</" D "tool_calls>}"},
};

static const struct {
    const struct reply *at;
    size_t n;
} GROUPS[] = {
#define GROUP(x) {x, sizeof x / sizeof *x}
    GROUP(PLAIN), GROUP(HERMES_CALLS), GROUP(HERMES_RAW), GROUP(XML_CALLS), GROUP(XML_RAW), GROUP(LLAMA_CALLS),
    GROUP(MISTRAL_CALLS), GROUP(GEMMA_CALLS), GROUP(GLM_CALLS), GROUP(DEEPSEEK_CALLS),
};

#define EACH(c) \
    for (size_t g_ = 0; g_ < sizeof GROUPS / sizeof *GROUPS; g_++) \
        for (const struct reply *c = GROUPS[g_].at; c < GROUPS[g_].at + GROUPS[g_].n; c++)

static void every_way_of_cutting_tells_the_same_tc4(void **state)
{
    (void)state;
    EACH(c) expect(c);
}

static void truncation_at_every_byte_tc14(void **state)
{
    (void)state;
    EACH(c) truncated(c);
}

/* Random damage: bytes lost, doubled, exchanged; pieces of other replies put in. */
static void damage_never_loses_text_tc3_tc13(void **state)
{
    (void)state;
    static char text[1 << 14];
    EACH(c)
    {
        for (int round = 0; round < 60; round++) {
            size_t n = strlen(c->text);
            memcpy(text, c->text, n);
            for (size_t hits = 1 + below(4); hits; hits--) {
                size_t at = below(n + 1), size = below(12);
                const struct reply *other = &GROUPS[g_].at[below(GROUPS[g_].n)];
                size_t from = below(strlen(other->text) + 1), k = strlen(other->text) - from;
                k = k < size ? k : size;
                if (below(2) && at + size <= n) {
                    memmove(text + at, text + at + size, n - at - size);
                    n -= size;
                } else if (below(2)) {
                    memmove(text + at + k, text + at, n - at);
                    memcpy(text + at, other->text + from, k);
                    n += k;
                } else if (at < n) {
                    text[at] = (char)(1 + below(255));
                }
            }
            if (!memchr(text, 0, n))
                hold(c, text, n);
        }
    }
}

static void long_values_are_bounded(void **state)
{
    (void)state;
    static char text[8192], told[8192];
    static const char *const values[] = {"[\"%s\"]", "{\"k\": \"%s\"}", "plain %s", "%s", "[%s"};
    static char a[3000];
    memset(a, 'a', sizeof a - 1);
    for (size_t i = 0; i < 5; i++) {
        char value[3100];
        snprintf(value, sizeof value, values[i], a);
        snprintf(text, sizeof text, XML("f", "<parameter=x>\n%s\n</parameter>\n"), value);
        if (i < 2)
            snprintf(told, sizeof told, "[f {\"x\": %s}]", value);
        else
            snprintf(told, sizeof told, "[f {\"x\": \"%s\"}]", value);
        struct reply c = {"qwen-xml", NULL, text, told};
        struct told t;
        feed(&t, &c, text, strlen(text), every, strlen(text), true);
        assert_string_equal(told_text(&t), told);
        told_release(&t);
        hold(&c, text, strlen(text));
    }
    snprintf(text, sizeof text, "<tool_call>\n{\"name\": \"%s\"}", a);
    struct reply c = {"hermes", NULL, text, NULL};
    hold(&c, text, strlen(text));
    memset(text, ' ', 5000);
    memcpy(text, "<tool_call>", 11);
    hold(&c, text, 5000);
    memset(text, ' ', 11);
    hold(&c, text, 5000);
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        every[i] = i + 1;
    struct err e;
    assert_int_equal(format_tools_new(&tools, TOOLS, sizeof TOOLS / sizeof *TOOLS, &e), ST_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    format_tools_free(tools);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_cutting_tells_the_same_tc4),
        cmocka_unit_test(truncation_at_every_byte_tc14),
        cmocka_unit_test(damage_never_loses_text_tc3_tc13),
        cmocka_unit_test(long_values_are_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
