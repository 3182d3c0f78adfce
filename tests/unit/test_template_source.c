/*
 * template source: a model writes a reply id by id, and the source proposes what comes next. What comes out are the
 * model's ids, whatever is proposed; what is proposed has to be right in calls, and nothing at all elsewhere.
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

#define TAIL "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}" \
    "{# tools <think> </think> #}"
#define HERMES CALLS_TURN CALLS_HERMES TAIL
#define XML CALLS_TURN CALLS_XML TAIL

#define TOOLS \
    "[{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}," \
    "\"days\":{\"type\":\"integer\"}},\"required\":[\"city\",\"days\"],\"additionalProperties\":false}}," \
    "{\"name\":\"find_way\",\"parameters\":{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"string\"}," \
    "\"by\":{\"type\":\"string\"}},\"required\":[\"to\"]}}]"

#define CALL "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 12}}\n</tool_call>"
#define XML_CALL(value) \
    "<tool_call>\n<function=find_way>\n<parameter=to>\n" value "\n</parameter>\n</function>\n</tool_call>"

static struct tok *tok;
static struct calls hermes, xml;
static struct source *source;

static int begin(void **state)
{
    (void)state;
    struct err e;
    tok = calls_tok(NULL, 0);
    calls_open(&hermes, tok, HERMES, strlen(HERMES), TOOLS);
    calls_open(&xml, tok, XML, strlen(XML), TOOLS);
    assert_true(hermes.rows && xml.rows && hermes.cfg.reasoning);
    return source_template_new(&source, tok, &e) != ST_OK;
}

static int end(void **state)
{
    (void)state;
    source->ops->free(source);
    calls_close(&hermes);
    calls_close(&xml);
    tok_free(tok);
    return 0;
}

static struct calls_run write_most(const struct calls *c, const char *text, uint32_t most)
{
    struct calls_run run;
    struct err e;
    tok_id *ids;
    size_t n;
    assert_int_equal(tok_encode(tok, text, strlen(text), TOK_TRUSTED | TOK_INNER, &ids, &n, &e), ST_OK);
    calls_write(source, c, ids, n, most, &run);
    tok_ids_free(ids, n);
    return run;
}

static struct calls_run write_text(const struct calls *c, const char *text)
{
    return write_most(c, text, SOURCE_SPAN);
}

static void check_silent(const struct calls *c, const char *text)
{
    struct calls_run run = write_text(c, text);
    if (run.offered)
        fail_msg("%u ids were proposed in %s", run.offered, text);
}

/* Everything right, and at least so many ids. */
static void check_right(const struct calls *c, const char *text, uint32_t least)
{
    struct calls_run run = write_text(c, text);
    if (run.accepted != run.offered || run.accepted < least || run.sure_wrong || run.disarmed)
        fail_msg("%u of %u ids were right in %s", run.accepted, run.offered, text);
}

/* ---- where it speaks ---- */

static void test_call(void **state)
{
    (void)state;
    check_right(&hermes, CALL, 70);
    check_right(&xml, XML_CALL("Rome"), 50);
}

static void test_completed_call_permits_the_next(void **state)
{
    (void)state;
    check_right(&hermes, CALL "\n" CALL, 140);
    check_right(&xml, XML_CALL("Rome") "\n" XML_CALL("Bath"), 100);
}

static void test_after_reasoning_and_content(void **state)
{
    (void)state;
    check_right(&hermes, "<think>\nWhat is it?\n</think>\n\n" CALL, 70);
    check_right(&hermes, "I will look.\n" CALL, 70);
}

/* Whatever a proposal is cut to, the rest of a row comes with the next. */
static void test_cut_proposals(void **state)
{
    (void)state;
    struct calls_run whole = write_text(&hermes, CALL);
    for (uint32_t most = 1; most < 12; most++) {
        struct calls_run run = write_most(&hermes, CALL, most);
        if (run.accepted != run.offered)
            fail_msg("most %u: %u of %u", most, run.accepted, run.offered);
        assert_true(run.accepted * 2 >= whole.accepted);
    }
    assert_int_equal(write_most(&hermes, CALL, 0).offered, 0);
}

/* ---- where it is silent ---- */

static void test_reasoning(void **state)
{
    (void)state;
    check_silent(&hermes, "<think>\nI could write " CALL " now.\n</think>\n\nNo.");
    check_silent(&hermes, "<think>\na <think> b </think> c\n");
    check_silent(&hermes, "<think>\n<think>\n" CALL);
}

/* The prompt has opened reasoning: rows made for such a request know it. */
static void test_request_in_reasoning(void **state)
{
    (void)state;
    struct calls c = hermes;
    c.cfg.in_reasoning = true;
    c.rows = chat_rows_compile(c.chat, &c.cfg, c.list, (struct cut){0}, c.why);
    assert_non_null(c.rows);
    check_silent(&c, "Perhaps " CALL);
    check_right(&c, "Perhaps.\n</think>\n\n" CALL, 70);
    template_rows_free(c.rows);
}

static void test_fences(void **state)
{
    (void)state;
    check_silent(&hermes, "```\n" CALL "\n```\n");
    check_silent(&hermes, "~~~\n" CALL "\n~~~\n");
    check_silent(&hermes, "```xml\n~~~\n" CALL);
    check_silent(&xml, "````\n```\n" XML_CALL("a"));
}

static void test_quotes(void **state)
{
    (void)state;
    check_silent(&hermes, "Write `" CALL);
    check_silent(&hermes, "It says \"" CALL);
}

static void test_prose(void **state)
{
    (void)state;
    check_silent(&hermes, "The tool call get_weather takes {\"city\": \"Rome\", \"days\": 12} as arguments.");
    check_silent(&xml, "Use <parameter=to> and </parameter> and function=find_way> for it. </function>");
    check_silent(&hermes, "if a < b and b > c then a <b");
}

/* In a value nothing is known until it is complete. */
static void test_unfinished_value(void **state)
{
    (void)state;
    struct calls_run a = write_text(&hermes, "<tool_call>\n{\"name\": \"find_way\", \"arguments\": {\"to\": \"");
    struct calls_run b = write_text(&hermes, "<tool_call>\n{\"name\": \"find_way\", \"arguments\": {\"to\": "
                                             "\"a\\\", \\\"b");
    assert_int_equal(a.offered, b.offered);
}

static void test_parameterization(void **state)
{
    (void)state;
    check_right(&xml, XML_CALL("</parameterization> of </param and </function>"), 50);
    check_right(&xml, XML_CALL("<parameter=by>"), 50);
}

/* ---- what goes wrong ---- */

/* Keys in another order: proposals may be wrong, determined ids never, and the ids are the model's. */
static void test_other_order(void **state)
{
    (void)state;
    struct calls_run run = write_text(&hermes, "<tool_call>\n{\"name\": \"find_way\", \"arguments\": {\"by\": \"car\", "
                                               "\"to\": \"Rome\"}}\n</tool_call>");
    assert_true(run.accepted >= 40 && run.accepted < run.offered);
    assert_int_equal(run.sure_wrong, 0);
    assert_false(run.disarmed);
}

/* After the likely key has been written nobody proposes it again. */
static void test_no_key_twice(void **state)
{
    (void)state;
    struct calls_run run = write_text(&hermes, "<tool_call>\n{\"name\": \"find_way\", \"arguments\": {\"by\": \"car\", "
                                               "\"to\": \"Rome\", \"x\": 1}}\n</tool_call>");
    assert_int_equal(run.sure_wrong, 0);
}

static void test_disarmed_by_a_broken_call(void **state)
{
    (void)state;
    static const char broken[] = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": ]}\n";
    struct calls_run one = write_text(&hermes, broken);
    struct calls_run two = write_text(&hermes, "<tool_call>\n{\"name\": \"get_weather\", "
                                               "\"arguments\": {\"city\": ]}\n" CALL);
    assert_true(one.disarmed && two.disarmed && one.accepted > 0);
    assert_int_equal(one.offered, two.offered);
}

/* A call that breaks before a row has fired is not this source's doing. */
static void test_not_charged_if_nothing_fired(void **state)
{
    (void)state;
    struct calls_run run = write_most(&hermes, "<tool_call>\n]", 0);
    assert_false(run.disarmed);
}

static void test_without_rows(void **state)
{
    (void)state;
    struct calls c = hermes;
    c.rows = NULL;
    check_silent(&c, CALL);
}

/* What does not pay is not proposed, and what is rejected lowers the chance. */
static void test_price_and_rate(void **state)
{
    (void)state;
    struct source *s;
    struct err e;
    struct source_proposal p = {0};
    tok_id ids[] = {0, '<', 't', 'o', 'o', 'l', '_', 'c', 'a', 'l', 'l', '>'};
    struct source_row row = {.ids = ids, .prompt_n = 1, .known = 12, .n = 12, .rows = hermes.rows};
    struct source_ask ask = {.row = &row, .most = 64, .chance = 1, .price = 0, .out = &p};
    assert_int_equal(source_template_new(&s, tok, &e), ST_OK);
    assert_int_equal(s->ops->open(s, &row, 100, &e), ST_OK);
    s->ops->propose(s, &ask, 1);
    uint32_t all = p.n;
    float chance = p.chance[0];
    assert_true(all > 8 && chance > 0.8f && chance < 1);
    for (int i = 0; i < 3; i++) {
        p = (struct source_proposal){0};
        ask.price = 0.7f;
        s->ops->propose(s, &ask, 1);
        assert_true(p.n > 0 && p.n < all);
        s->ops->settle(s, &row, p.ticket, p.n, 0);
    }
    p = (struct source_proposal){0};
    ask.price = 0;
    s->ops->propose(s, &ask, 1);
    assert_true(p.chance[0] < chance);
    s->ops->settle(s, &row, p.ticket, 0, 0); /* never run: no rejection */
    s->ops->settle(s, &row, p.ticket, p.n, 0);
    p = (struct source_proposal){0};
    s->ops->propose(s, &ask, 1); /* four in a row were wrong */
    assert_int_equal(p.n, 0);
    s->ops->close(s, &row);
    s->ops->free(s);
}

/* ---- the real templates ---- */

static const char *const ARGUMENTS[][2] = {
    {"get_weather", "{\"city\":\"Rio de Janeiro\",\"days\":3}"},
    {"get_weather", "{\"city\":\"/tmp/x\\n\\\"y\\\"\",\"days\":1250}"},
    {"find_way", "{\"to\":\"Ulan-Ude, 1st </param street\"}"},
    {"find_way", "{\"to\":\"\u6771\u4eac\",\"by\":\"ship & train\"}"},
};

static void write_real(const struct calls *c, const char *name, uint32_t *accepted, uint32_t *offered, uint32_t *ids_n)
{
    for (size_t i = 0; i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++) {
        char message[1024];
        struct calls_run run;
        tok_id *ids;
        snprintf(message, sizeof message, "\"content\":\"\",\"tool_calls\":[{\"id\":\"kD8sWq2Lz\",\"type\":\"function\","
                 "\"function\":{\"name\":\"%s\",\"arguments\":%s}}]", ARGUMENTS[i][0], ARGUMENTS[i][1]);
        size_t n = calls_reply(c, message, 0, &ids);
        calls_write(source, c, ids, n, SOURCE_SPAN, &run);
        free(ids);
        if (run.sure_wrong)
            fail_msg("%s: a determined id was wrong in %s", name, ARGUMENTS[i][1]);
        if (run.disarmed)
            fail_msg("%s: disarmed by %s", name, ARGUMENTS[i][1]);
        *accepted += run.accepted;
        *offered += run.offered;
        *ids_n += (uint32_t)n;
    }
}

static void test_real_templates(void **state)
{
    (void)state;
    static const char *const vocabs[] = {"qwen2", "llama-bpe", "gemma-4"};
    const char *corpus = calls_corpus();
    char path[4200];
    glob_t found;
    if (!corpus)
        skip();
    snprintf(path, sizeof path, "%s/templates/*.jinja", corpus);
    assert_int_equal(glob(path, 0, NULL, &found), 0);
    struct source *bytes = source;
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        struct api_model m;
        struct err e;
        uint32_t accepted = 0, offered = 0, ids = 0, templates = 0;
        snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf", corpus, vocabs[v]);
        struct api_open o = {.path = path, .want = API_TOK};
        if (api_open(&m, &o, &e) != ST_OK)
            fail_msg("%s", e.text);
        assert_int_equal(source_template_new(&source, m.tok, &e), ST_OK);
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct calls c;
            size_t n;
            char *text = calls_read(found.gl_pathv[i], &n);
            calls_open(&c, m.tok, text, n, TOOLS);
            if (c.rows) {
                write_real(&c, found.gl_pathv[i], &accepted, &offered, &ids);
                templates++;
            }
            calls_close(&c);
            free(text);
        }
        printf("note: %s: %u templates, of %u ids %u proposed, %u of them right\n", vocabs[v], templates, ids, offered,
               accepted);
        assert_true(accepted * 10 >= offered * 9 && accepted * 5 >= ids * 2);
        source->ops->free(source);
        api_close(&m);
    }
    source = bytes;
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_completed_call_permits_the_next),
        cmocka_unit_test(test_after_reasoning_and_content),
        cmocka_unit_test(test_cut_proposals),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_request_in_reasoning),
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_prose),
        cmocka_unit_test(test_unfinished_value),
        cmocka_unit_test(test_parameterization),
        cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_no_key_twice),
        cmocka_unit_test(test_disarmed_by_a_broken_call),
        cmocka_unit_test(test_not_charged_if_nothing_fired),
        cmocka_unit_test(test_without_rows),
        cmocka_unit_test(test_price_and_rate),
        cmocka_unit_test(test_real_templates),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
