/* engine: the cost model. What it predicts is what it was given; what it learns is what it saw. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/cost.h"

static const struct engine_cost curve = {
    .n = 3, .point = {{1, 2}, {4, 5}, {16, 11}}, .head_ms = 0.5, .attention_ms = 4};

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("%.12g, not %.12g", a, b);
}

static void test_prediction(void **state)
{
    (void)state;
    near(cost_body_ms(&curve, 1), 2);
    near(cost_body_ms(&curve, 2), 3);
    near(cost_body_ms(&curve, 4), 5);
    near(cost_body_ms(&curve, 10), 8);
    near(cost_body_ms(&curve, 16), 11);
    near(cost_body_ms(&curve, 32), 22); /* proportional beyond the last point */
    assert_true(cost_body_ms(&curve, 0) == 0);
    near(cost_ms(&curve, 4, 3, 2.5e6), 5 + 1.5 + 10);
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
    }
}

/* A machine that follows a law of its own, with noise: predictions come within a tenth of it, from far off. */
static double law(uint32_t tokens, double keys)
{
    return 6 + 0.4 * tokens + 9 * keys * 1e-6;
}

static double noise(uint32_t i)
{
    return 0.9 + 0.2 * (double)rng_uniform(1, 0, i, RNG_FINAL);
}

static void test_learning(void **state)
{
    (void)state;
    const struct model_info info = {.token_bytes = 100000000, .token_macs = 100000000, .head_macs = 28000000, .heads = 9,
                                    .head_dim = 64};
    struct engine_cost guess;
    struct cost c;
    engine_cost_guess(&guess, &info, NULL);
    assert_int_equal(engine_cost_check(&guess, NULL), ST_OK);
    cost_begin(&c, &guess);
    static const uint32_t sizes[] = {1, 1, 1, 8, 8, 40, 65, 130, 1, 300};
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t tokens = sizes[i % 10];
        double keys = (double)tokens * 30 * (i * 7919 % 3000);
        cost_saw_forward(&c, tokens, keys, law(tokens, keys) * noise(i));
        cost_saw_heads(&c, 1 + i % 4, 1.7 * (1 + i % 4) * noise(i + 5000));
        assert_int_equal(engine_cost_check(&c.curve, NULL), ST_OK);
        for (uint32_t k = 1; k < c.curve.n; k++)
            assert_true(c.curve.point[k].ms >= c.curve.point[k - 1].ms);
    }
    for (int i = 0; i < 10; i++)
        for (double depth = 0; depth < 3000; depth += 1000) {
            double keys = sizes[i] * 30 * depth, want = law(sizes[i], keys), got = cost_ms(&c.curve, sizes[i], 0, keys);
            if (fabs(got - want) > 0.15 * want)
                fail_msg("%u ids at %.0f: %.2f ms, not %.2f", sizes[i], depth, got, want);
        }
    assert_true(fabs(c.curve.head_ms - 1.7) < 0.2);
}

static void test_frozen(void **state)
{
    (void)state;
    struct engine_cost fixed = curve;
    struct cost c;
    fixed.frozen = true;
    cost_begin(&c, &fixed);
    cost_saw_forward(&c, 4, 100, 900);
    cost_saw_heads(&c, 4, 900);
    near(cost_ms(&c.curve, 4, 3, 2.5e6), 16.5);
}

/* One absurd measurement (the machine slept) does not throw it. */
static void test_outlier(void **state)
{
    (void)state;
    struct cost c;
    cost_begin(&c, &curve);
    for (int i = 0; i < 50; i++)
        cost_saw_forward(&c, 4, 0, 5);
    cost_saw_forward(&c, 4, 0, 60000);
    assert_true(cost_body_ms(&c.curve, 4) < 5 * 1.5);
    cost_saw_forward(&c, 4, 0, 0);
    cost_saw_forward(&c, 4, 0, NAN);
    assert_true(cost_body_ms(&c.curve, 4) < 5 * 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prediction), cmocka_unit_test(test_keys),   cmocka_unit_test(test_check),
        cmocka_unit_test(test_learning),   cmocka_unit_test(test_frozen), cmocka_unit_test(test_outlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
