/*
 * budget: replies that think no longer than they may. The model's next id is the last one plus one, so where ids were
 * imposed can be seen. However the ids came, one by one or as a source proposed them, the reply is the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/sample.h"
#include "engine_client.h"

#define OPEN 10
#define SHUT 100
#define BEFORE 200 /* what comes before SHUT when the end is imposed */

static tok_id plus_one(const tok_id *ids, uint32_t n)
{
    return ids[n - 1] + 1;
}

/* Proposes what the model would choose without a budget. */
static void propose(struct source *s, const struct source_ask *asks, uint32_t n)
{
    (void)s;
    for (uint32_t i = 0; i < n; i++) {
        struct source_proposal *p = asks[i].out;
        tok_id last = asks[i].row->ids[asks[i].row->n - 1];
        for (p->n = 0; p->n < 6; p->n++) {
            p->id[p->n] = last + 1 + (tok_id)p->n;
            p->chance[p->n] = 0.9f;
        }
    }
}

static void keep(struct source *s)
{
    (void)s;
}

static const struct sample_limit three = {.ids = 3, .open = OPEN, .close = {BEFORE, SHUT}, .close_n = 2};

static struct client_reply reply;

/* Asks for `count` ids behind prompt[n] with such a budget. */
static void run(const tok_id *prompt, uint32_t n, const struct sample_limit *budget, enum fill_mode fill, uint32_t count)
{
    static const struct source_ops ops = {.kind = SOURCE_ECHO, .propose = propose, .free = keep};
    static const struct engine_cost cheap = {.n = 2, .point = {{1, 1}, {64, 1.5}}, .head_ms = 0.01, .attention_ms = 1e-6,
                                             .decode_attention_ms = 1e-6, .frozen = true};
    struct source source = {.ops = &ops}, *sources[SOURCE_KINDS] = {[SOURCE_ECHO] = &source};
    struct fake_model fake;
    struct pool *pool;
    struct engine *en;
    request_id id;
    struct err e = {.text = ""};
    assert_int_equal(pool_new(&pool, 1, NULL), ST_OK);
    fake_init(&fake, 500);
    fake.next = plus_one;
    fake.tuning = (struct engine_tuning){.manual = true, .source = sources};
    const struct engine_config cfg = {.pool = pool, .rows = 1, .context = 400, .cost = &cheap};
    assert_int_equal(fake_engine(&en, &fake, &cfg, true, &e), ST_OK);
    struct request rq = client_request(prompt, n, count);
    rq.thinking = *budget;
    rq.fill = fill;
    if (engine_submit(en, &rq, &id, &e) != ST_OK)
        fail_msg("%s", e.text);
    memset(&reply, 0, sizeof reply);
    while (!reply.ended) {
        engine_turn(en);
        client_take(en, id, &reply);
    }
    engine_result(en, id, &reply.result);
    engine_close(en, id);
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
}

static void check(tok_id from, const struct sample_limit *budget, const tok_id *want, uint32_t n)
{
    const tok_id prompt[] = {5, from};
    for (int fill = 0; fill < 2; fill++) {
        run(prompt, 2, budget, fill ? FILL_OFF : FILL_LOSSLESS, n);
        assert_int_equal(reply.n, n);
        assert_true(fill || reply.result.usage.by_source[SOURCE_ECHO].accepted > 0);
        for (uint32_t i = 0; i < n; i++)
            if (reply.ids[i] != want[i])
                fail_msg("fill %d, id %u: %d, not %d", fill, i, (int)reply.ids[i], (int)want[i]);
    }
}

static void test_replies(void **state)
{
    (void)state;
    /* the model opens it */
    const tok_id opened[] = {7, 8, 9, OPEN, 11, 12, 13, BEFORE, SHUT, 101, 102, 103, 104};
    check(6, &three, opened, 13);
    /* the prompt has */
    struct sample_limit b = three;
    b.inside = true;
    const tok_id inside[] = {21, 22, 23, BEFORE, SHUT, 101, 102, 103, 104};
    check(20, &b, inside, 9);
    /* none at all */
    b.ids = 0;
    const tok_id none[] = {BEFORE, SHUT, 101, 102, 103, 104, 105};
    check(20, &b, none, 7);
    /* it ends by itself in time; what comes then is not counted */
    b.ids = 3;
    const tok_id natural[] = {98, 99, SHUT, 101, 102, 103, 104, 105, 106};
    check(97, &b, natural, 9);
    /* without a budget */
    const tok_id plain[] = {9, OPEN, 11, 12, 13, 14, 15, 16};
    check(8, &(struct sample_limit){0}, plain, 8);
}

/* An id that the budget imposes does not hide that the model is broken. */
static void test_not_finite(void **state)
{
    const tok_id prompt[] = {5, FAKE_POISON, 20};
    struct sample_limit b = three;
    (void)state;
    b.inside = true;
    b.ids = 0;
    run(prompt, 3, &b, FILL_OFF, 7);
    assert_int_equal(reply.result.finish, FINISH_ERROR);
    assert_int_equal(reply.result.err.code, ST_STEP_FAILED);
    assert_int_equal(reply.n, 0);
}

static void test_thinking_again(void **state)
{
    (void)state;
    struct sample_budget b;
    sample_budget_begin(&b, &three);
    const tok_id ids[] = {OPEN, 1, SHUT, 2, OPEN, 3, 4};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        assert_int_equal(sample_budget_imposes(&b, NULL), TOK_NONE);
        sample_budget_take(&b, ids[i]);
    }
    assert_int_equal(sample_budget_imposes(&b, NULL), BEFORE); /* all thoughts together count */
    sample_budget_take(&b, BEFORE);
    assert_int_equal(sample_budget_imposes(&b, NULL), SHUT);
    sample_budget_take(&b, SHUT);
    assert_int_equal(sample_budget_imposes(&b, NULL), TOK_NONE);
    sample_budget_take(&b, OPEN);
    assert_int_equal(sample_budget_imposes(&b, NULL), BEFORE);
}

static void test_under_a_grammar(void **state)
{
    (void)state;
    uint32_t mask[16] = {0};
    struct sample_limit of = three;
    struct sample_budget b;
    of.inside = true;
    of.ids = 0;
    sample_budget_begin(&b, &of);
    assert_int_equal(sample_budget_imposes(&b, mask), TOK_NONE); /* neither is allowed: the sampler chooses */
    sample_budget_take(&b, 7);
    mask[SHUT / 32] = 1u << SHUT % 32;
    assert_int_equal(sample_budget_imposes(&b, mask), SHUT);
    mask[BEFORE / 32] |= 1u << BEFORE % 32;
    assert_int_equal(sample_budget_imposes(&b, mask), BEFORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_thinking_again),
        cmocka_unit_test(test_under_a_grammar),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
