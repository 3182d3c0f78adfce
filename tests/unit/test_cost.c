/* engine: the cost model. What it predicts is what it was given; what it learns is what it saw. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/cost.h"

static const struct engine_cost curve = {.n = 3, .point = {{1, 2}, {4, 5}, {16, 11}}, .head_ms = 0.5,
                                         .attention_ms = 4, .decode_attention_ms = 7};

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("%.12g, not %.12g", a, b);
}

static double body(const struct engine_cost *c, uint32_t tokens)
{
    return cost_ms(c, &(struct cost_work){.tokens = tokens});
}

static void test_prediction(void **state)
{
    (void)state;
    near(body(&curve, 1), 2);
    near(body(&curve, 2), 3);
    near(body(&curve, 4), 5);
    near(body(&curve, 10), 8);
    near(body(&curve, 16), 11);
    near(body(&curve, 32), 22); /* proportional beyond the last point */
    assert_true(body(&curve, 0) == 0);
    const struct cost_work w = {.tokens = 4, .heads = 3, .keys = 2.5e6, .decode_keys = 1e6};
    near(cost_ms(&curve, &w), 5 + 1.5 + 10 + 7);
}

/* Against the sum it stands for. */
static void test_keys(void **state)
{
    (void)state;
    static const uint32_t windows[] = {0, 1, 40, 512};
    for (int w = 0; w < 4; w++)
        for (uint32_t len = 0; len < 700; len += 33)
            for (uint32_t n = 1; n < 600; n = n * 3 + 1) {
                const struct kv_shape g = {.layers = 3, .window = windows[w]};
                double sum = 0;
                for (uint32_t p = len; p < len + n; p++)
                    sum += g.window && p + 1 > g.window ? g.window : p + 1;
                near(cost_keys(&g, len, n), 3 * sum);
            }
}

static void test_check(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(engine_cost_check(&curve, &e), ST_OK);
    struct engine_cost bad = curve;
    bad.n = 0;
    assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
    bad.n = ENGINE_COST_POINTS + 1;
    assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
    bad = curve;
    bad.point[1].tokens = 1;
    assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
    assert_string_equal(e.field, "points");
    static const double wrong[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        bad = curve;
        bad.point[2].ms = wrong[i];
        assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
        bad = curve;
        bad.head_ms = wrong[i];
        assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
        assert_string_equal(e.field, "head_ms_per_position");
        bad = curve;
        bad.attention_ms = wrong[i];
        assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
        assert_string_equal(e.field, "attention_ms_per_mkey");
        bad = curve;
        bad.decode_attention_ms = wrong[i];
        assert_int_equal(engine_cost_check(&bad, &e), ST_ARGUMENT);
        assert_string_equal(e.field, "decode_attention_ms_per_mkey");
    }
}

/* --- learning -------------------------------------------------------------------------------------------------------- */

/* A machine that follows a law of its own. */
static double law(const struct cost_work *w)
{
    return 3.3 + 0.75 * w->tokens + 17e-6 * w->keys + 45e-6 * w->decode_keys;
}

static double uniform(uint32_t stream, uint32_t i)
{
    return (double)rng_uniform(stream, 0, i, RNG_FINAL);
}

/* 10 % either way, and one step in a hundred five times as long: a noisy machine. */
static double noise(uint32_t i)
{
    return (0.9 + 0.2 * uniform(1, i)) * (uniform(2, i) < 0.01 ? 5 : 1);
}

static void begin(struct cost *c)
{
    const struct model_info info = {.token_bytes = 100000000, .token_macs = 106000000, .head_macs = 28000000, .heads = 9,
                                    .head_dim = 64};
    struct engine_cost guess;
    engine_cost_guess(&guess, &info, NULL);
    assert_int_equal(engine_cost_check(&guess, NULL), ST_OK);
    cost_begin(c, &guess);
}

static void check_sane(const struct cost *c)
{
    assert_int_equal(engine_cost_check(&c->curve, NULL), ST_OK);
    for (uint32_t k = 1; k < c->curve.n; k++)
        assert_true(c->curve.point[k].ms >= c->curve.point[k - 1].ms);
    assert_true(c->late >= 0 && c->late < 100);
}

/* Steps of all sizes: predictions come within a part of the law, from far off. */
static void test_learning(void **state)
{
    (void)state;
    struct cost c;
    begin(&c);
    for (uint32_t i = 0; i < 4000; i++) {
        static const uint32_t sizes[] = {1, 1, 1, 8, 8, 40, 65, 130, 1, 300};
        struct cost_work w = {.tokens = sizes[i % 10]};
        *(w.tokens < 10 ? &w.decode_keys : &w.keys) = w.tokens * 30.0 * (i * 7919 % 3000);
        cost_saw_forward(&c, &w, law(&w) * noise(i));
        cost_saw_heads(&c, 1 + i % 4, 1.7 * (1 + i % 4) * noise(i + 5000));
        check_sane(&c);
    }
    static const uint32_t sizes[] = {1, 4, 8, 20, 40, 65, 130, 300};
    for (int i = 0; i < 8; i++)
        for (double depth = 0; depth < 3000; depth += 1000) {
            struct cost_work w = {.tokens = sizes[i]};
            *(w.tokens < 10 ? &w.decode_keys : &w.keys) = w.tokens * 30.0 * depth;
            double want = law(&w), got = cost_ms(&c.curve, &w);
            if (got < 0.7 * want || got > 1.5 * want)
                fail_msg("%u ids at %.0f: %.2f ms, not %.2f", sizes[i], depth, got, want);
        }
    assert_true(fabs(c.curve.head_ms - 1.7) < 0.4);
}

/* As the scheduler does: the most ids of a prompt beside `decoding` rows that are predicted to fit 50 ms, at least 4. */
static uint32_t choose(const struct cost *c, uint32_t decoding, double depth)
{
    uint32_t best = 4;
    for (uint32_t n = 4; n <= 512; n++) {
        struct cost_work w = {.tokens = decoding + n, .heads = decoding, .keys = n * 30.0 * depth};
        if (cost_ms(&c->curve, &w) <= 50)
            best = n;
    }
    return best;
}

/* What is learnt decides what is tried next. However long only some rows decoded, with all the noise: a prompt that
 * comes then is fed in steps of about the right size, within a few hundred steps at most. */
static void check_prompt_after(uint32_t decoding, uint32_t steps)
{
    struct cost c;
    begin(&c);
    for (uint32_t i = 0; i < steps; i++) {
        struct cost_work w = {.tokens = decoding, .decode_keys = decoding * 30.0 * (i % 2000)};
        cost_saw_forward(&c, &w, law(&w) * noise(i));
        cost_saw_heads(&c, decoding, 0.5 * decoding * noise(i + 7));
        if (i % 1000 == 0)
            check_sane(&c);
    }
    uint32_t fed = 0, longest = 0;
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t n = choose(&c, decoding, fed % 2000);
        struct cost_work w = {.tokens = decoding + n, .keys = n * 30.0 * (fed % 2000),
                              .decode_keys = decoding * 30.0 * 500};
        double ms = law(&w);
        cost_saw_forward(&c, &w, ms * noise(i + 99));
        longest += i > 100 && ms > 80;
        fed += n;
    }
    check_sane(&c);
    if (fed < 600 * 15)
        fail_msg("%u rows decoding for %u steps, then %u ids in 600 steps", decoding, steps, fed);
    if (longest > 30)
        fail_msg("%u rows decoding for %u steps, then %u of 500 steps were much too long", decoding, steps, longest);
}

static void test_learning_decides(void **state)
{
    (void)state;
    static const uint32_t steps[] = {0, 1, 100, 3000, 300000};
    for (uint32_t decoding = 1; decoding <= 8; decoding++)
        for (int i = 0; i < 5; i++)
            check_prompt_after(decoding, steps[i]);
}

static void test_frozen(void **state)
{
    (void)state;
    struct engine_cost fixed = curve;
    struct cost c;
    fixed.frozen = true;
    cost_begin(&c, &fixed);
    cost_saw_forward(&c, &(struct cost_work){.tokens = 4, .keys = 100}, 900);
    cost_saw_heads(&c, 4, 900);
    near(cost_ms(&c.curve, &(struct cost_work){.tokens = 4, .heads = 3, .keys = 2.5e6}), 16.5);
    assert_true(c.late == 0);
}

/* One absurd measurement (the machine slept) does not throw it, whatever the size. */
static void test_outlier(void **state)
{
    (void)state;
    for (uint32_t tokens = 1; tokens <= 20; tokens++) {
        struct cost c;
        const struct cost_work w = {.tokens = tokens};
        cost_begin(&c, &curve);
        for (int i = 0; i < 50; i++)
            cost_saw_forward(&c, &w, 5);
        near(round(body(&c.curve, tokens)), 5);
        cost_saw_forward(&c, &w, 60000);
        assert_true(body(&c.curve, tokens) < 5 * 1.3);
        cost_saw_forward(&c, &w, 0);
        cost_saw_forward(&c, &w, NAN);
        cost_saw_forward(&c, &w, INFINITY);
        assert_true(body(&c.curve, tokens) < 5 * 1.3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prediction), cmocka_unit_test(test_keys),   cmocka_unit_test(test_check),
        cmocka_unit_test(test_learning),   cmocka_unit_test(test_frozen), cmocka_unit_test(test_outlier),
        cmocka_unit_test(test_learning_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
