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

/* ---- rows ---- */

static void rows_need_ids_and_a_proof(void **state)
{
    (void)state;
    struct format_tools *t = tools();
    struct recogniser_config cfg = {.format = format_find("hermes", 6), .tools = t};
    struct template_rows *rows;
    struct err e;
    assert_int_equal(template_rows_new(&rows, &cfg, &e), ST_OK);
    format_tools_free(t); /* the rows hold it */
    static const tok_id mark[] = {7, 8}, longer[] = {6, 7, 8}, a[] = {1, 2}, b[] = {3, 4};
    struct template_row row = {.kind = TEMPLATE_SCAFFOLD, .points = 1 << RECOGNISER_OPENING, .tool = -1, .key = -1,
                               .trigger = mark, .trigger_n = 2, .append = a, .append_n = 2};
    assert_int_equal(template_rows_add(rows, &row, &e), ST_OK);
    struct recogniser_state at = {.place = RECOGNISER_AT_CALL, .point = RECOGNISER_OPENING, .tool = -1, .key = -1};
    static const tok_id history[] = {5, 6, 7, 8};
    const struct template_row *found = template_rows_match(rows, history, 4, &at);
    assert_non_null(found);
    assert_memory_equal(found->append, a, sizeof a);
    assert_null(template_rows_match(rows, history, 3, &at));
    assert_null(template_rows_match(rows, history + 3, 1, &at));
    for (int place = RECOGNISER_AT_REASONING; place <= RECOGNISER_AT_UNSURE; place++) {
        struct recogniser_state other = at;
        other.place = (enum recogniser_place)place;
        assert_int_equal(template_rows_match(rows, history, 4, &other) != NULL, place == RECOGNISER_AT_CALL);
    }
    at.broken = true;
    assert_null(template_rows_match(rows, history, 4, &at));
    at.broken = false;
    row.trigger = longer, row.trigger_n = 3, row.append = b; /* the longer trigger wins */
    assert_int_equal(template_rows_add(rows, &row, &e), ST_OK);
    assert_memory_equal(template_rows_match(rows, history, 4, &at)->append, b, sizeof b);
    row.append = a; /* two that differ are doubt */
    assert_int_equal(template_rows_add(rows, &row, &e), ST_OK);
    assert_null(template_rows_match(rows, history, 4, &at));
    row.points = 1 << RECOGNISER_VALUE_DONE, row.tool = 0, row.key = 1, row.keys = 3;
    assert_int_equal(template_rows_add(rows, &row, &e), ST_OK);
    at = (struct recogniser_state){.place = RECOGNISER_AT_CALL, .point = RECOGNISER_VALUE_DONE};
    at.key = 1, at.keys = 2;
    assert_null(template_rows_match(rows, history, 4, &at));
    at.keys = 3;
    assert_non_null(template_rows_match(rows, history, 4, &at));
    at.key = 0;
    assert_null(template_rows_match(rows, history, 4, &at));
    row.append_n = 0;
    assert_int_equal(template_rows_add(rows, &row, &e), ST_ARGUMENT);
    template_rows_retain(rows);
    template_rows_free(rows);
    template_rows_free(rows);
}

static void rows_have_a_ceiling(void **state)
{
    (void)state;
    struct recogniser_config cfg = {.format = format_find("hermes", 6)};
    struct template_rows *rows;
    struct err e;
    static tok_id ids[64];
    struct template_row row = {.tool = -1, .key = -1, .trigger = ids, .trigger_n = 1, .append = ids, .append_n = 1};
    assert_int_equal(template_rows_new(&rows, &cfg, &e), ST_OK);
    for (size_t i = 0; i < LIMIT_TEMPLATE_ROWS; i++)
        assert_int_equal(template_rows_add(rows, &row, &e), ST_OK);
    assert_int_equal(template_rows_add(rows, &row, &e), ST_TOO_LONG);
    template_rows_free(rows);
    assert_int_equal(template_rows_new(&rows, &cfg, &e), ST_OK);
    row.trigger_n = row.append_n = 64;
    for (size_t i = 0; i < LIMIT_TEMPLATE_IDS / 128; i++)
        assert_int_equal(template_rows_add(rows, &row, &e), ST_OK);
    assert_int_equal(template_rows_add(rows, &row, &e), ST_TOO_LONG);
    template_rows_free(rows);
}

/* ---- tools, names, tags ---- */

static void tools_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *name, *schema;
        enum status st;
    } cases[] = {
        {"f", "{}", ST_OK}, {"f", "", ST_OK}, {"f", "true", ST_OK}, {"f", "{\"maximum\": 18446744073709551615}", ST_OK},
        {"", "", ST_ARGUMENT}, {"a\nb", "", ST_ARGUMENT}, {"a\xff", "", ST_ARGUMENT}, {"\xed\xa0\x80", "", ST_ARGUMENT},
        {" f", "", ST_ARGUMENT}, {"f", "{", ST_ARGUMENT}, {"f", "[]", ST_ARGUMENT}, {"f", "null", ST_ARGUMENT},
        {"g", "", ST_ARGUMENT}, /* a second g */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct format_tool two[2] = {{"g", 1, "", 0},
                                     {cases[i].name, strlen(cases[i].name), cases[i].schema, strlen(cases[i].schema)}};
        struct format_tools *t;
        struct err e = {0};
        assert_int_equal(format_tools_new(&t, two, 2, &e), cases[i].st);
        assert_true(cases[i].st == ST_OK || strstr(e.field, "tools[1]"));
        format_tools_free(t);
    }
    static struct format_tool many[LIMIT_TOOLS + 1];
    static char names[LIMIT_TOOLS + 1][8];
    struct format_tools *t;
    struct err e;
    for (size_t i = 0; i <= LIMIT_TOOLS; i++)
        many[i] = (struct format_tool){names[i], (size_t)snprintf(names[i], sizeof names[i], "t%zu", i), "", 0};
    assert_int_equal(format_tools_new(&t, many, LIMIT_TOOLS, &e), ST_OK);
    assert_int_equal(format_tools_find(t, "t77", 3), 77);
    format_tools_free(t);
    assert_int_equal(format_tools_new(&t, many, LIMIT_TOOLS + 1, &e), ST_TOO_LONG);
}

static void prompts_that_open_reasoning(void **state)
{
    (void)state;
    const struct format_reasoning *g = format_find_reasoning("think", 5);
    assert_true(format_opens_reasoning(g, "<|im_start|>assistant\n<think>\n", 30));
    assert_false(format_opens_reasoning(g, "<think>\n\n</think>\n\n", 19));
    assert_false(format_opens_reasoning(g, "<think> is a tag", 16));
    assert_false(format_opens_reasoning(g, "", 0));
    for (size_t i = 0; format_name_at(i); i++)
        assert_string_equal(format_name(format_find(format_name_at(i), strlen(format_name_at(i)))), format_name_at(i));
    assert_null(format_find("herme", 5));
    assert_string_equal(format_name(format_detect("{{ messages[0].content }}", 25)), "hermes");
    assert_null(format_detect("{% if tools %}call:{{ tools }}{% endif %}", 41));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_where_it_stands),
        cmocka_unit_test(rows_need_ids_and_a_proof),
        cmocka_unit_test(rows_have_a_ceiling),
        cmocka_unit_test(tools_are_checked),
        cmocka_unit_test(prompts_that_open_reasoning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
