/* sample: the fixed rules of the draw, each against a plain computation or an expected frequency. */
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

static tok_id choose(struct sampler *s, const struct sample_params *p, const float *l, uint32_t position)
{
    tok_id id = -1;
    struct sample_state st;
    sample_state_begin(&st, p);
    assert_int_equal(sampler_choose(s, p, &st, l, NULL, NULL, 0, position, &id, NULL), ST_OK);
    return id;
}

static float noise(uint32_t i, float scale)
{
    float sum = -1.5f;
    for (uint32_t k = 0; k < 3; k++)
        sum += rng_uniform(99, k, i, RNG_XTC);
    return sum * scale;
}

static void test_ranges(void **state)
{
    (void)state;
    struct err e;
    struct sample_params p = sample_defaults();
    assert_int_equal(sample_check(&p, 8, &e), ST_OK);
#define BAD(f, v)                                          \
    do {                                                   \
        p = sample_defaults();                             \
        p.f = (v);                                         \
        assert_int_equal(sample_check(&p, 8, &e), ST_ARGUMENT); \
        assert_string_equal(e.field, #f);                  \
    } while (0)
    BAD(temperature, -0.1f);
    BAD(temperature, 100.1f);
    BAD(temperature, NAN);
    BAD(temperature, INFINITY);
    BAD(top_p, 0.0f);
    BAD(top_p, 1.01f);
    BAD(top_p, NAN);
    BAD(min_p, -0.1f);
    BAD(min_p, 1.0f);
    BAD(min_p, NAN);
    BAD(repetition_penalty, 0.0f);
    BAD(repetition_penalty, 101.0f);
    BAD(repetition_penalty, NAN);
    struct sampler *s;
    assert_int_equal(sampler_new(&s, 0, ops, &e), ST_ARGUMENT);
    assert_null(s);
    sampler_free(NULL);
}

static void test_greedy(void **state)
{
    (void)state;
    struct sampler *s = make(5);
    struct sample_params p = sample_defaults();
    const float l[5] = {1, 3, 3, -2, 3};
    assert_int_equal(choose(s, &p, l, 0), 1); /* ties go to the lowest id */
    p.temperature = 1;
    p.top_k = 1;
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(choose(s, &p, l, i), 1);
    sampler_free(s);
}

/* Chi-square of `draws` draws against the expected probabilities; the seeds are fixed, so this cannot flicker. */
static void check_distribution(const struct sample_params *p, const float *l, const double *want, uint32_t n)
{
    enum { DRAWS = 20000 };
    struct sampler *s = make(n);
    uint32_t *seen = calloc(n, sizeof *seen);
    for (uint32_t i = 0; i < DRAWS; i++)
        seen[choose(s, p, l, i)]++;
    double chi = 0;
    uint32_t cells = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (want[i] == 0) {
            assert_int_equal(seen[i], 0);
            continue;
        }
        double d = (double)seen[i] - want[i] * DRAWS;
        chi += d * d / (want[i] * DRAWS);
        cells++;
    }
    assert_true(chi < cells + 4 * sqrt(2.0 * cells));
    free(seen);
    sampler_free(s);
}

static const float eight[8] = {0.5f, 2.0f, -1.0f, 1.5f, 2.0f, 0.0f, -0.5f, 1.0f};
static const uint32_t by_rank[8] = {1, 4, 3, 7, 0, 5, 6, 2};

/* Probabilities of `eight` at a temperature when only the first `keep` in order remain. */
static void expect(double *want, double temperature, uint32_t keep)
{
    double sum = 0;
    for (uint32_t i = 0; i < 8; i++)
        want[i] = 0;
    for (uint32_t i = 0; i < keep; i++)
        sum += want[by_rank[i]] = exp((double)eight[by_rank[i]] / temperature);
    for (uint32_t i = 0; i < 8; i++)
        want[i] /= sum;
}

static void test_distribution(void **state)
{
    (void)state;
    double want[8];
    static const float temperatures[] = {0.5f, 1.0f, 2.5f};
    for (int i = 0; i < 3; i++) {
        struct sample_params p = sample_defaults();
        p.temperature = temperatures[i];
        p.seed = 7 + (uint64_t)i;
        expect(want, p.temperature, 8);
        check_distribution(&p, eight, want, 8);
        p.top_k = 3;
        expect(want, p.temperature, 3);
        check_distribution(&p, eight, want, 8);
    }
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.top_k = 800; /* more than there are */
    expect(want, 1, 8);
    check_distribution(&p, eight, want, 8);
}

static void test_top_p(void **state)
{
    (void)state;
    double all[8], want[8], sum = 0;
    expect(all, 1, 8);
    for (uint32_t keep = 1; keep <= 7; keep++) {
        struct sample_params p = sample_defaults();
        p.temperature = 1;
        p.seed = keep;
        p.top_p = (float)(sum + all[by_rank[keep - 1]] * 0.5); /* reached within the keep-th candidate */
        sum += all[by_rank[keep - 1]];
        expect(want, 1, keep);
        check_distribution(&p, eight, want, 8);
    }
    /* After a top-k the mass is that of what it left. */
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.top_k = 3;
    p.order[0] = SAMPLE_TOP_K;
    p.order[1] = SAMPLE_TOP_P;
    p.order_n = 2;
    p.top_p = (float)((all[1] + all[4]) / (all[1] + all[4] + all[3]) - 0.01);
    expect(want, 1, 2);
    check_distribution(&p, eight, want, 8);
    p.top_p = 1e-9f; /* the first candidate always stays */
    expect(want, 1, 1);
    check_distribution(&p, eight, want, 8);
}

static void test_min_p(void **state)
{
    (void)state;
    double want[8];
    for (uint32_t keep = 2; keep < 8; keep++) {
        struct sample_params p = sample_defaults();
        p.temperature = 1;
        p.seed = keep;
        p.min_p = (float)exp((double)eight[by_rank[keep - 1]] - 2.0) * 0.999f;
        expect(want, 1, keep);
        check_distribution(&p, eight, want, 8);
    }
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.min_p = 0.9999f;
    expect(want, 1, 2); /* both candidates that share the maximum */
    check_distribution(&p, eight, want, 8);
}

/* Equal logits over a whole vocabulary: order is by id, so the draw is floor(u × n). */
static void test_ties(void **state)
{
    (void)state;
    enum { N = 1000 };
    float l[N];
    for (int i = 0; i < N; i++)
        l[i] = i % 2 ? 0.0f : -0.0f;
    struct sampler *s = make(N);
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.seed = 3;
    for (uint32_t i = 0; i < 2000; i++) {
        double u = (double)rng_uniform(3, 0, i, RNG_FINAL) * N;
        assert_int_equal(choose(s, &p, l, i), (tok_id)u);
    }
    sampler_free(s);
}

struct entry {
    float logit;
    tok_id id;
};

static int by_order(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Lazy order against a full sort, over shapes of distributions: peaked, flat, coarse (many ties), heavy tails. */
static void test_lazy_order(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const float scale[] = {0.001f, 1.0f, 8.0f, 300.0f};
    static const float temperature[] = {0.05f, 1.0f, 40.0f};
    float *l = malloc(N * sizeof *l);
    struct entry *sorted = malloc(N * sizeof *sorted);
    struct sampler *s = make(N);
    for (int shape = 0; shape < 8; shape++)
        for (int t = 0; t < 3; t++) {
            for (uint32_t i = 0; i < N; i++) {
                l[i] = noise(i, scale[shape % 4]);
                if (shape >= 4)
                    l[i] = roundf(l[i] * 4 / scale[shape % 4]);
                sorted[i] = (struct entry){l[i], (tok_id)i};
            }
            qsort(sorted, N, sizeof *sorted, by_order);
            struct sample_params p = sample_defaults();
            p.temperature = temperature[t];
            p.top_k = 5000; /* masses in candidate order: the plain loop below is exact */
            double mass = 0;
            for (uint32_t i = 0; i < p.top_k; i++)
                mass += (double)kern_exp(fmaxf((sorted[i].logit - sorted[0].logit) / p.temperature, -104.0f));
            for (uint32_t i = 0; i < 12; i++) {
                double target = (double)rng_uniform(0, 0, i, RNG_FINAL) * mass, sum = 0;
                uint32_t at = 0;
                for (; at < p.top_k; at++) {
                    sum += (double)kern_exp(fmaxf((sorted[at].logit - sorted[0].logit) / p.temperature, -104.0f));
                    if (sum > target)
                        break;
                }
                assert_int_equal(choose(s, &p, l, i), sorted[at].id);
            }
        }
    sampler_free(s);
    free(l);
    free(sorted);
}

static void test_extreme_temperatures(void **state)
{
    (void)state;
    enum { N = 300 };
    float l[N];
    for (uint32_t i = 0; i < N; i++)
        l[i] = noise(i, 3.0f);
    l[7] = -3e38f;
    l[8] = 9.0f;
    struct sampler *s = make(N);
    struct sample_params p = sample_defaults();
    static const float tiny[] = {1e-40f, 1e-30f, 1e-10f, 1e-3f};
    for (int i = 0; i < 4; i++) {
        p.temperature = tiny[i];
        assert_int_equal(sample_check(&p, N, NULL), ST_OK);
        for (uint32_t k = 0; k < 20; k++)
            assert_int_equal(choose(s, &p, l, k), 8);
    }
    p.temperature = 100;
    for (uint32_t k = 0; k < 20; k++)
        assert_in_range(choose(s, &p, l, k), 0, N - 1);
    sampler_free(s);
}

static void test_penalty(void **state)
{
    (void)state;
    struct sampler *s = make(6);
    struct sample_params p = sample_defaults();
    const float l[6] = {2.0f, 1.9f, -1.0f, 1.0f, 0.0f, 1.2f};
    const tok_id history[] = {5, 3, 0, 0, 0};
    tok_id id;
    p.repetition_penalty = 1.5f; /* id 0, thrice in the history, is penalised once: 1.33 < 1.9 */
    assert_int_equal(sampler_choose(s, &p, NULL, l, NULL, history, 5, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 1);
    p.repetition_penalty = 1.05f; /* 1.905 > 1.9 only if applied once */
    assert_int_equal(sampler_choose(s, &p, NULL, l, NULL, history, 5, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 0);
    p.repetition_penalty = 2.0f;
    p.penalty_last = 2; /* only id 0 */
    const float l2[6] = {2.0f, 0.5f, -1.0f, 0.5f, 0.0f, 1.2f};
    assert_int_equal(sampler_choose(s, &p, NULL, l2, NULL, history, 5, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 5);
    p.penalty_last = 0; /* 5 too */
    assert_int_equal(sampler_choose(s, &p, NULL, l2, NULL, history, 5, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 0);
    const float negative[6] = {-1.0f, -1.5f, -9.0f, -9.0f, -9.0f, -9.0f};
    assert_int_equal(sampler_choose(s, &p, NULL, negative, NULL, history, 5, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 1); /* negative logits are multiplied: -2 */
    const tok_id odd[] = {-1, 6, 1 << 30};
    assert_int_equal(sampler_choose(s, &p, NULL, l, NULL, odd, 3, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 0);
    /* The logits were not changed, and nothing is remembered from one call to the next. */
    assert_int_equal(choose(s, &p, negative, 0), 0);
    sampler_free(s);
}

static void test_penalty_cannot_overflow(void **state)
{
    (void)state;
    struct sampler *s = make(3);
    struct sample_params p = sample_defaults();
    const float l[3] = {3e38f, -3e38f, 1.0f};
    const tok_id history[] = {0, 1};
    tok_id id;
    p.repetition_penalty = 0.01f;
    assert_int_equal(sampler_choose(s, &p, NULL, l, NULL, history, 2, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 0);
    p.temperature = 1;
    assert_int_equal(sampler_choose(s, &p, NULL, l, NULL, history, 2, 0, &id, NULL), ST_OK);
    assert_int_equal(id, 0);
    sampler_free(s);
}

static void test_non_finite(void **state)
{
    (void)state;
    enum { N = 100 };
    float l[N] = {0};
    struct sampler *s = make(N);
    struct sample_params p = sample_defaults();
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int t = 0; t < 2; t++) {
        p.temperature = (float)t;
        for (int b = 0; b < 3; b++)
            for (uint32_t at = 0; at < N; at += 33) {
                struct err e;
                tok_id id;
                l[at] = bad[b];
                assert_int_equal(sampler_choose(s, &p, NULL, l, NULL, NULL, 0, 4, &id, &e), ST_STEP_FAILED);
                l[at] = 0;
            }
    }
    sampler_free(s);
}

/* Draws depend on (seed, choice, position) and on nothing else. */
static void test_keys(void **state)
{
    (void)state;
    enum { N = 500 };
    float l[N];
    for (uint32_t i = 0; i < N; i++)
        l[i] = noise(i, 1.0f);
    struct sampler *a = make(N), *b = make(N);
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.seed = 1;
    tok_id first[64];
    int seeds = 0, choices = 0;
    for (uint32_t i = 0; i < 64; i++)
        first[i] = choose(a, &p, l, i);
    for (uint32_t i = 64; i-- > 0;)
        assert_int_equal(choose(b, &p, l, i), first[i]);
    for (uint32_t i = 0; i < 64; i++) {
        p.seed = 2;
        seeds += choose(a, &p, l, i) != first[i];
        p.seed = 1;
        p.choice = 1;
        choices += choose(a, &p, l, i) != first[i];
        p.choice = 0;
    }
    assert_true(seeds > 48 && choices > 48);
    sampler_free(a);
    sampler_free(b);
}

static void test_logprobs(void **state)
{
    (void)state;
    struct sampler *s = make(8);
    double all[8];
    expect(all, 1, 8);
    float lp, max = kern_level_ops(KERN_REF)->argmax(eight, 8).value;
    struct sample_logprob top[20];
    sampler_logprobs(s, eight, max, 6, &lp, top, 5);
    assert_true(fabs((double)lp - log(all[6])) < 1e-6);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(top[i].id, by_rank[i]);
        assert_true(fabs((double)top[i].logprob - log(all[by_rank[i]])) < 1e-6);
    }
    sampler_logprobs(s, eight, max, 1, &lp, NULL, 0);
    assert_true(fabs((double)lp - log(all[1])) < 1e-6);
    sampler_logprobs(s, eight, max, 1, &lp, top, 20);
    assert_int_equal(top[7].id, 2);
    assert_int_equal(top[8].id, -1);
    sampler_free(s);
}

/* Every level this machine has chooses the same ids and gives the same log-probabilities. */
static void test_levels(void **state)
{
    (void)state;
    enum { N = 5003 };
    float *l = malloc(N * sizeof *l);
    for (uint32_t i = 0; i < N; i++)
        l[i] = noise(i, 12.0f);
    for (int level = 0; level < KERN_LEVELS; level++) {
        const struct kern_ops *o = kern_level_ops((enum kern_level)level);
        if (!o)
            continue;
        struct sampler *a = make(N), *b;
        float max = o->argmax(l, N).value;
        assert_int_equal(sampler_new(&b, N, o, NULL), ST_OK);
        for (uint32_t i = 0; i < 200; i++) {
            struct sample_params p = sample_defaults();
            p.temperature = 0.5f + (float)(i % 5) * 0.5f;
            p.top_p = i % 2 ? 0.9f : 1.0f;
            p.min_p = i % 3 ? 0.0f : 0.02f;
            tok_id id = choose(a, &p, l, i);
            assert_int_equal(choose(b, &p, l, i), id);
            float x, y;
            sampler_logprobs(a, l, max, id, &x, NULL, 0);
            sampler_logprobs(b, l, max, id, &y, NULL, 0);
            assert_memory_equal(&x, &y, sizeof x);
        }
        sampler_free(a);
        sampler_free(b);
    }
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),       cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_distribution), cmocka_unit_test(test_top_p),
        cmocka_unit_test(test_min_p),        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_lazy_order),   cmocka_unit_test(test_extreme_temperatures),
        cmocka_unit_test(test_penalty),      cmocka_unit_test(test_penalty_cannot_overflow),
        cmocka_unit_test(test_non_finite),   cmocka_unit_test(test_keys),
        cmocka_unit_test(test_logprobs),     cmocka_unit_test(test_levels),
    };
    ops = kern_level_ops(KERN_REF);
    return ops ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
