/* sample, what follows the distribution: mirostat's state and target, dynamic temperature's ends. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/sample.h"

static const struct kern_ops *ops;

static struct sampler *make(uint32_t vocab)
{
    struct sampler *s;
    assert_int_equal(sampler_new(&s, vocab, ops, NULL), ST_OK);
    return s;
}

static tok_id choose(struct sampler *s, const struct sample_params *p, struct sample_state *st, const float *l,
                     uint32_t position)
{
    tok_id id = -1;
    assert_int_equal(sample_check(p, LIMIT_VOCAB, NULL), ST_OK);
    assert_int_equal(sampler_choose(s, p, st, l, NULL, NULL, 0, position, &id, NULL), ST_OK);
    return id;
}

/* Zipf's law with an exponent of `zipf`, the ids in another order than the ranks. */
static void fill_zipf(float *l, uint32_t n, double zipf)
{
    for (uint32_t i = 0; i < n; i++)
        l[(i * 7919u + 13) % n] = (float)(-zipf * log((double)(i + 1)));
}

static double log_mass(const float *l, uint32_t n, double temperature)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)l[i] / temperature);
    return log(sum);
}

/* In bits. */
static double surprise(float logit, double temperature, double mass)
{
    return (mass - (double)logit / temperature) / log(2);
}

/* The mean surprise is what was aimed at, wherever the distribution can give it. */
static void test_mirostat_reaches_tau(void **state)
{
    (void)state;
    enum { N = 3001, STEPS = 2500 };
    static const float tau[] = {3.5f, 4, 5, 6};
    float *l = malloc(N * sizeof *l);
    struct sampler *s = make(N);
    fill_zipf(l, N, 1.05); /* from 2.9 bits, the likeliest alone, to about 8 */
    for (uint32_t version = 1; version <= 2; version++)
        for (int t = 0; t < 4; t++) {
            struct sample_params p = sample_defaults();
            struct sample_state st;
            p.temperature = 1;
            p.mirostat = version;
            p.mirostat_tau = tau[t];
            p.seed = version;
            sample_state_begin(&st, &p);
            double sum = 0, mass = log_mass(l, N, 1);
            for (uint32_t i = 0; i < STEPS; i++) {
                double x = surprise(l[choose(s, &p, &st, l, i)], 1, mass);
                sum += i >= 500 ? x : 0;
            }
            if (fabs(sum / (STEPS - 500) - (double)tau[t]) > 0.1)
                fail_msg("version %u: %g bits, not %g", version, sum / (STEPS - 500), (double)tau[t]);
        }
    sampler_free(s);
    free(l);
}

/* Version 2 by its definition: nobody above mu is chosen, mu moves by eta times the error, a draw is the inverse CDF. */
static void test_mirostat_by_definition(void **state)
{
    (void)state;
    enum { N = 500 };
    float l[N];
    struct sampler *s = make(N);
    fill_zipf(l, N, 1.3);
    struct sample_params p = sample_defaults();
    struct sample_state st;
    p.temperature = 1.5f;
    p.mirostat = 2;
    p.mirostat_tau = 4;
    p.mirostat_eta = 0.2f;
    sample_state_begin(&st, &p);
    double mu = 8, all = log_mass(l, N, 1.5);
    for (uint32_t i = 0; i < 500; i++) {
        tok_id id = choose(s, &p, &st, l, i);
        double x = surprise(l[id], 1.5, all), mass = 0, kept = 0;
        double least = surprise(l[13], 1.5, all); /* rank 0 is id 13 */
        assert_true(x <= fmax(mu, least) + 1e-5);
        for (uint32_t r = 0; r < N; r++) {
            double y = surprise(l[r], 1.5, all);
            kept += y <= fmax(mu, least) + 1e-9 ? exp2(-y) : 0;
            mass += y < x - 1e-9 ? exp2(-y) : 0;
        }
        double u = (double)rng_uniform(0, 0, i, RNG_MIROSTAT) * kept;
        assert_true(u >= mass - 1e-4 && u <= mass + exp2(-x) + 1e-4);
        mu -= (double)0.2f * (x - 4);
        assert_true(fabs(mu - st.mu) < 1e-3);
        mu = st.mu;
    }
    sampler_free(s);
}

/* Version 1 by its definition: on Zipf's law itself the estimate is exact, and with eta 0 the cut stays where it begins. */
static void test_mirostat_one_by_definition(void **state)
{
    (void)state;
    enum { N = 500 };
    static const double zipf[] = {0.7, 1.3, 2};
    float l[N];
    struct sampler *s = make(N);
    for (int z = 0; z < 3; z++)
        for (float tau = 0.5f; tau < 4; tau += 0.7f) {
            struct sample_params p = sample_defaults();
            struct sample_state st;
            double eps = zipf[z] - 1, k = pow(eps * exp2(2 * (double)tau) / (1 - pow(N, -eps)), 1 / zipf[z]);
            uint32_t want = k < 1 ? 1 : k > N ? N : (uint32_t)k, most = 0;
            fill_zipf(l, N, zipf[z]);
            p.temperature = 1;
            p.mirostat = 1;
            p.mirostat_tau = tau;
            p.mirostat_eta = 0;
            sample_state_begin(&st, &p);
            for (uint32_t i = 0; i < 6000; i++) {
                uint32_t rank = (uint32_t)lround(exp(-(double)l[choose(s, &p, &st, l, i)] / zipf[z]));
                most = rank > most ? rank : most;
            }
            assert_true(most <= want && most >= want * 9 / 10);
        }
    sampler_free(s);
}

/* Rows do not share state, and what a row does depends on its own choices alone. */
static void test_state_is_the_row_s(void **state)
{
    (void)state;
    enum { N = 1000, STEPS = 200 };
    float l[N];
    tok_id alone[STEPS];
    struct sampler *s = make(N), *t = make(N);
    fill_zipf(l, N, 1.1);
    struct sample_params p = sample_defaults(), q;
    struct sample_state a, b, kept;
    p.temperature = 1;
    p.mirostat = 2;
    p.mirostat_tau = 3;
    q = p;
    q.seed = 9;
    q.mirostat = 1;
    sample_state_begin(&a, &p);
    for (uint32_t i = 0; i < STEPS; i++)
        alone[i] = choose(s, &p, &a, l, i);
    sample_state_begin(&a, &p);
    sample_state_begin(&b, &q);
    for (uint32_t i = 0; i < STEPS; i++) {
        (void)choose(i % 2 ? s : t, &q, &b, l, i);
        kept = a;
        assert_int_equal(choose(i % 3 ? s : t, &p, &a, l, i), alone[i]);
        assert_int_equal(choose(t, &p, &kept, l, i), alone[i]); /* the same again from a copy */
        assert_memory_equal(&kept, &a, sizeof a);
    }
    p.temperature = 0; /* greedy: the state stays */
    kept = a;
    assert_int_equal(choose(s, &p, &a, l, 0), 13);
    assert_memory_equal(&kept, &a, sizeof a);
    sampler_free(s);
    sampler_free(t);
}

/* Flat, certain, tiny: an estimate of Zipf's exponent that is 0 or huge is no reason to fail. */
static void test_mirostat_odd_shapes(void **state)
{
    (void)state;
    enum { N = 400 };
    float l[N];
    struct sampler *s = make(N), *one = make(1);
    for (uint32_t version = 1; version <= 2; version++)
        for (int shape = 0; shape < 6; shape++) {
            struct sample_params p = sample_defaults();
            struct sample_state st;
            p.mirostat = version;
            p.temperature = shape == 5 ? 1e-30f : shape == 4 ? 100 : 1;
            p.mirostat_tau = shape % 2 ? 100 : 0;
            p.mirostat_eta = 1;
            for (uint32_t i = 0; i < N; i++)
                l[i] = shape == 0 ? 0 : shape == 1 ? (i == 7 ? 3e38f : -3e38f) : shape == 2 ? -(float)i * 500 : -(float)i;
            sample_state_begin(&st, &p);
            for (uint32_t i = 0; i < 300; i++) {
                assert_in_range(choose(s, &p, &st, l, i), 0, N - 1);
                assert_int_equal(choose(one, &p, &st, l, i), 0);
                assert_true(isfinite(st.mu));
            }
        }
    sampler_free(s);
    sampler_free(one);
}

/* --- dynamic temperature --------------------------------------------------------------------------------------------- */

static void same_draws(const struct sample_params *a, const struct sample_params *b, const float *l, uint32_t n)
{
    struct sampler *s = make(n);
    struct sample_state st = {0};
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(choose(s, a, &st, l, i), choose(s, b, &st, l, i));
    sampler_free(s);
}

static void test_dynamic_ends(void **state)
{
    (void)state;
    enum { N = 200 };
    float l[N];
    fill_zipf(l, N, 1.2);
    struct sample_params dynamic = sample_defaults(), fixed = sample_defaults();
    dynamic.temperature = 1;
    dynamic.dynatemp_range = 0.5f;
    dynamic.dynatemp_exponent = 0; /* h^0 = 1: the highest */
    fixed.temperature = 1.5f;
    same_draws(&dynamic, &fixed, l, N);
    dynamic.dynatemp_exponent = 100; /* h^100 is next to nothing: the lowest */
    fixed.temperature = 0.5f;
    same_draws(&dynamic, &fixed, l, N);
    dynamic.dynatemp_range = 3; /* the lowest is never below 0 */
    dynamic.dynatemp_exponent = 100;
    fixed.temperature = 0;
    same_draws(&dynamic, &fixed, l, N);
    /* Two equal candidates among what top-k left: h = 1, the highest, whatever the exponent. */
    float two[4] = {5, 5, 0, 0};
    dynamic = sample_defaults();
    fixed = sample_defaults();
    dynamic.temperature = 1;
    dynamic.dynatemp_range = 1;
    dynamic.dynatemp_exponent = 3;
    dynamic.top_k = fixed.top_k = 2;
    fixed.temperature = 2;
    same_draws(&dynamic, &fixed, two, 4);
    dynamic.temperature = 0; /* greedy stays greedy */
    fixed.temperature = 0;
    same_draws(&dynamic, &fixed, l, N);
}

/* p = 0.8, 0.2: h = 0.7219 bits; with range 0.4 around 1 and exponent 1, T = 0.6 + 0.8 h = 1.1775. */
static void test_dynamic_between(void **state)
{
    (void)state;
    const float l[2] = {logf(0.8f), logf(0.2f)};
    struct sample_params p = sample_defaults();
    struct sampler *s = make(2);
    p.temperature = 1;
    p.dynatemp_range = 0.4f;
    double t = 0.6 + 0.8 * 0.721928, want = 1 / (1 + pow(0.25, 1 / t));
    for (uint32_t i = 0; i < 5000; i++) {
        double u = (double)rng_uniform(0, 0, i, RNG_FINAL);
        if (fabs(u - want) > 1e-5)
            assert_int_equal(choose(s, &p, NULL, l, i), u > want);
    }
    sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mirostat_reaches_tau), cmocka_unit_test(test_mirostat_by_definition),
        cmocka_unit_test(test_mirostat_one_by_definition),
        cmocka_unit_test(test_state_is_the_row_s),   cmocka_unit_test(test_mirostat_odd_shapes),
        cmocka_unit_test(test_dynamic_ends),         cmocka_unit_test(test_dynamic_between),
    };
    ops = kern_level_ops(KERN_REF);
    return ops ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
