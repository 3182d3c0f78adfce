/*
 * test_format_proof: where a recogniser says it stands, which formats belong to which template, tools, and rows of ids.
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

static void nothing(void *user, const struct recogniser_event *ev)
{
    (void)user;
    (void)ev;
}

static const struct format_tool TOOL = {
    "f", 1, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}}}", 77};

static struct format_tools *tools(void)
{
    struct format_tools *t;
    struct err e;
    struct format_tool tool = TOOL;
    tool.schema_n = strlen(tool.schema);
    assert_int_equal(format_tools_new(&t, &tool, 1, &e), ST_OK);
    return t;
}

/* One letter for each place and point. */
static char letter(const struct recogniser_state *s)
{
    static const char places[] = "Rstq=C?", points[] = "onN,kK.vc";
    if (s->place == RECOGNISER_AT_CALL)
        return s->opening ? 'O' : points[s->point];
    return places[s->place];
}

struct walk {
    const char *format, *reasoning, *text, *places; /* places[i]: after byte i of the text */
};

static const struct walk WALKS[] = {
    /* reasoning R, start s, text t, quoted q, between =, unsure ?; in a call: mark O, o, name n, named N, args ",", key k,
     * keyed K, value ".", value done v, closing c */
    {"hermes", NULL, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 12, \"b\": \"x\"}}\n</tool_call>\n",
     "OOOOOOOOOOooooooooooonnNNNNNNNNNNNNNNNN,kkKKK..,,kkKKK..vcccccccccccccc=="},
    {"hermes", "think", "<think>a</think>\n\nb `c` \"d\"\n```\ne\n```\nf", "??????RRRRRRRRRsssttqqqtqqttqqqqqqqqqtt"},
    {"hermes", NULL, "`<tool_call>\n{\"name\": \"f\"", "q????????????????????????"},
    {"qwen-xml", NULL, "<tool_call>\n<function=f>\n<parameter=b>\nx\n</parameter>\n</function>\n</tool_call>",
     "OOOOOOOOOOooooooooooonn,,,,,,,,,,,,kkKK.............vvvvvvvvvvvvccccccccccccc="},
    {"llama3", NULL, "{\"name\": \"f\", \"parameters\": {}}", "ooooooooonnNNNNNNNNNNNNNNNNN,c="},
    {"glm", NULL, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
     "OOOOOOOOOOnn,,,,,,,,,kkkkkkkkkkkKKKKKKKKKKKKK............vvvvvvvvvvvvv="},
    {"gemma", NULL, "<|tool_call>call:f{a:1,b:<|\"|>x<|\"|>}<tool_call|>",
     "OOOOOOOOOOOooooonn,kK.,kK..........vcccccccccccc="},
};

static void says_where_it_stands(void **state)
{
    (void)state;
    struct format_tools *t = tools();
    for (size_t i = 0; i < sizeof WALKS / sizeof *WALKS; i++) {
        const struct walk *w = &WALKS[i];
        struct recogniser_config cfg = {.format = format_find(w->format, strlen(w->format)), .tools = t};
        if (w->reasoning)
            cfg.reasoning = format_find_reasoning(w->reasoning, strlen(w->reasoning));
        struct recogniser r;
        recogniser_init(&r, &cfg);
        char got[256] = "";
        for (size_t k = 0; w->text[k]; k++) {
            struct recogniser_state s;
            recogniser_feed(&r, w->text + k, 1, nothing, NULL);
            recogniser_look(&r, &s);
            got[k] = letter(&s);
            got[k + 1] = 0;
        }
        if (strcmp(got, w->places))
            print_error("%s\n%s\n%s\n", w->text, got, w->places);
        assert_string_equal(got, w->places);
    }
    format_tools_free(t);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_where_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
