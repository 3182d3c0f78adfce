/*
 * sample, cuts: every step and their combinations in any order against a slow reference: a full sort, flags and double
 * precision. Draws are compared one by one: the token must be the one at which the reference's running mass passes u.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/inside.h"

#define MOST 3000u

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
    struct err e = {0};
    sample_state_begin(&st, p);
    if (sample_check(p, s->vocab, &e) || sampler_choose(s, p, &st, l, NULL, NULL, 0, position, &id, &e))
        fail_msg("%s", e.text);
    return id;
}

static float uniform(uint32_t a, uint32_t b)
{
    return rng_uniform(77, a, b, RNG_XTC);
}

/* Roughly normal. */
static float noise(uint32_t a, uint32_t i, float scale)
{
    return (uniform(a, 3 * i) + uniform(a, 3 * i + 1) + uniform(a, 3 * i + 2) - 1.5f) * 2 * scale;
}

/* --- the reference --------------------------------------------------------------------------------------------------- */

struct cand {
    float logit;
    uint32_t id;
    bool kept;
    double p; /* of those kept, at the temperature of now */
};

static struct cand *ref;
static uint32_t ref_n;
static double ref_t;

static int by_order(const void *a, const void *b)
{
    const struct cand *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static void ref_normalise(void)
{
    double sum = 0, top = 0;
    bool any = false;
    for (uint32_t i = 0; i < ref_n; i++)
        if (ref[i].kept && !any) {
            top = (double)ref[i].logit;
            any = true;
        }
    assert_true(any);
    for (uint32_t i = 0; i < ref_n; i++)
        sum += ref[i].p = ref[i].kept ? exp(((double)ref[i].logit - top) / ref_t) : 0;
    for (uint32_t i = 0; i < ref_n; i++)
        ref[i].p /= sum;
}

static double ref_entropy(uint32_t *n)
{
    double h = 0;
    *n = 0;
    for (uint32_t i = 0; i < ref_n; i++) {
        *n += ref[i].kept;
        if (ref[i].p > 0)
            h -= ref[i].p * log(ref[i].p);
    }
    return h;
}

static void ref_top_p(double most)
{
    double mass = 0;
    for (uint32_t i = 0; i < ref_n; i++) {
        ref[i].kept = ref[i].kept && mass < most;
        mass += ref[i].kept ? ref[i].p : 0;
    }
}

static void ref_min_p(double least)
{
    double first = 0;
    for (uint32_t i = 0; i < ref_n; i++) {
        if (ref[i].kept && first == 0)
            first = ref[i].p;
        ref[i].kept = ref[i].kept && ref[i].p >= least * first;
    }
}

static void ref_typical(double most)
{
    uint32_t n;
    double h = ref_entropy(&n), mass = 0;
    bool *taken = calloc(ref_n, sizeof *taken);
    while (mass < most) {
        uint32_t best = ref_n;
        for (uint32_t i = 0; i < ref_n; i++)
            if (ref[i].kept && !taken[i] && ref[i].p > 0 &&
                (best == ref_n || fabs(-log(ref[i].p) - h) < fabs(-log(ref[best].p) - h)))
                best = i;
        if (best == ref_n)
            break;
        taken[best] = true;
        mass += ref[best].p;
    }
    for (uint32_t i = 0; i < ref_n; i++)
        ref[i].kept = taken[i];
    free(taken);
}

static void ref_xtc(const struct sample_params *p, uint32_t position)
{
    uint32_t last = 0, found = 0;
    if (rng_uniform(p->seed, p->choice, position, RNG_XTC) >= p->xtc_probability)
        return;
    for (uint32_t i = 0; i < ref_n; i++)
        if (ref[i].kept && ref[i].p >= (double)p->xtc_threshold) {
            last = i;
            found++;
        }
    for (uint32_t i = 0; found > 1 && i < last; i++)
        ref[i].kept = ref[i].kept && sample_set_has(&p->protect, ref[i].id);
}

static void ref_sigma(double n_sigma)
{
    double mean = 0, var = 0, max = -INFINITY;
    uint32_t n = 0;
    for (uint32_t i = 0; i < ref_n; i++)
        if (ref[i].kept) {
            mean += (double)ref[i].logit;
            max = fmax(max, (double)ref[i].logit);
            n++;
        }
    mean /= n;
    for (uint32_t i = 0; i < ref_n; i++)
        var += ref[i].kept ? ((double)ref[i].logit - mean) * ((double)ref[i].logit - mean) / n : 0;
    for (uint32_t i = 0; i < ref_n; i++)
        ref[i].kept = ref[i].kept && (double)ref[i].logit >= max - n_sigma * sqrt(var);
}

static void ref_top_k(uint32_t k)
{
    for (uint32_t i = 0; i < ref_n; i++) {
        ref[i].kept = ref[i].kept && k;
        k -= ref[i].kept;
    }
}

static void ref_temperature(const struct sample_params *p)
{
    uint32_t n;
    ref_t = (double)p->temperature;
    double h = ref_entropy(&n);
    if (p->dynatemp_range == 0.0f || n < 2)
        return;
    double lo = fmax((double)p->temperature - (double)p->dynatemp_range, 0);
    double hi = (double)p->temperature + (double)p->dynatemp_range;
    ref_t = lo + (hi - lo) * pow(h / log(n), (double)p->dynatemp_exponent);
}

static void ref_run(const struct sample_params *p, const float *l, uint32_t n, uint32_t position)
{
    static const uint8_t order[] = {SAMPLE_TOP_N_SIGMA, SAMPLE_TOP_P, SAMPLE_MIN_P, SAMPLE_TYPICAL,
                                    SAMPLE_XTC,         SAMPLE_TOP_K, SAMPLE_TEMPERATURE};
    const uint8_t *steps = p->order_n ? p->order : order;
    for (uint32_t i = 0; i < n; i++)
        ref[i] = (struct cand){l[i], i, true, 0};
    ref_n = n;
    ref_t = 1;
    qsort(ref, n, sizeof *ref, by_order);
    for (uint32_t i = 0; i < (p->order_n ? p->order_n : sizeof order); i++) {
        ref_normalise();
        if (steps[i] == SAMPLE_TOP_N_SIGMA && p->top_n_sigma > 0.0f)
            ref_sigma((double)p->top_n_sigma);
        else if (steps[i] == SAMPLE_TOP_P && p->top_p < 1.0f)
            ref_top_p((double)p->top_p);
        else if (steps[i] == SAMPLE_MIN_P)
            ref_min_p((double)p->min_p);
        else if (steps[i] == SAMPLE_TYPICAL && p->typical_p < 1.0f)
            ref_typical((double)p->typical_p);
        else if (steps[i] == SAMPLE_XTC)
            ref_xtc(p, position);
        else if (steps[i] == SAMPLE_TOP_K && p->top_k)
            ref_top_k(p->top_k);
        else if (steps[i] == SAMPLE_TEMPERATURE)
            ref_temperature(p);
    }
    ref_normalise();
}

/* `id` is where the running mass passes u, to the accuracy of f32 weights. */
static bool ref_agrees(double u, tok_id id)
{
    double mass = 0;
    for (uint32_t i = 0; i < ref_n; i++) {
        if (ref[i].id == (uint32_t)id)
            return ref[i].kept && u >= mass - 1e-5 && u <= mass + ref[i].p + 1e-5;
        mass += ref[i].p;
    }
    return false;
}

static void check(struct sampler *s, const struct sample_params *p, const float *l, uint32_t positions)
{
    uint32_t varies = p->xtc_probability > 0.0f;
    for (uint32_t i = 0; i < positions; i++) {
        if (i == 0 || varies)
            ref_run(p, l, s->vocab, i);
        tok_id id = choose(s, p, l, i);
        if (!ref_agrees((double)rng_uniform(p->seed, p->choice, i, RNG_FINAL), id))
            fail_msg("seed %u position %u: %d (T %g p %g min %g typ %g sigma %g xtc %g/%g k %u dyn %g/%g order %u)",
                     (unsigned)p->seed, i, (int)id, (double)p->temperature, (double)p->top_p, (double)p->min_p,
                     (double)p->typical_p, (double)p->top_n_sigma, (double)p->xtc_probability,
                     (double)p->xtc_threshold, p->top_k, (double)p->dynatemp_range, (double)p->dynatemp_exponent,
                     p->order_n);
    }
}

/* --- one step at a time, then all together --------------------------------------------------------------------------- */

static void fill(float *l, uint32_t n, uint32_t seed, float scale, bool coarse)
{
    for (uint32_t i = 0; i < n; i++) {
        l[i] = noise(seed, i, scale);
        if (coarse)
            l[i] = roundf(l[i] * 2) / 2;
    }
}

static void test_single_steps(void **state)
{
    (void)state;
    float *l = malloc(MOST * sizeof *l);
    for (uint32_t c = 0; c < 400; c++) {
        uint32_t n = c % 4 == 3 ? MOST : 1 + c * 3;
        struct sampler *s = make(n);
        struct sample_params p = sample_defaults();
        fill(l, n, c, c % 3 ? 4 : 0.3f, false);
        float v = uniform(c, 1u << 20);
        p.temperature = c % 5 ? 1 : 0.3f + 2 * v;
        p.seed = c;
        switch (c % 8) {
        case 0: p.top_p = 0.05f + 0.94f * v; break;
        case 1: p.min_p = 0.3f * v; break;
        case 2: p.typical_p = 0.05f + 0.9f * v; break;
        case 3: p.top_n_sigma = 0.1f + 2 * v; break;
        case 4: p.top_k = 1 + (uint32_t)(v * 50); break;
        case 5: p.xtc_probability = 0.5f, p.xtc_threshold = 0.1f * v; break;
        case 6: p.dynatemp_range = 0.8f * v, p.dynatemp_exponent = 0.2f + 2 * v; break;
        default: break;
        }
        check(s, &p, l, p.typical_p < 1 ? 20 : 10);
        sampler_free(s);
    }
    free(l);
}

static void shuffle_order(struct sample_params *p, uint32_t c)
{
    static const uint8_t all[] = {SAMPLE_TOP_N_SIGMA, SAMPLE_TOP_P, SAMPLE_MIN_P, SAMPLE_TYPICAL,
                                  SAMPLE_XTC,         SAMPLE_TOP_K, SAMPLE_TEMPERATURE};
    memcpy(p->order, all, sizeof all);
    p->order_n = sizeof all;
    for (uint32_t i = p->order_n - 1; i; i--) {
        uint32_t j = (uint32_t)(uniform(c, 5000 + i) * (float)(i + 1));
        uint8_t t = p->order[i];
        p->order[i] = p->order[j];
        p->order[j] = t;
    }
}

static void test_combinations(void **state)
{
    (void)state;
    float *l = malloc(MOST * sizeof *l);
    uint8_t protect[MOST / 8];
    for (uint32_t c = 0; c < 1500; c++) {
        uint32_t n = c % 10 == 9 ? MOST : 2 + c % 300;
        struct sampler *s = make(n);
        struct sample_params p = sample_defaults();
        fill(l, n, 1000 + c, c % 4 ? 3 : 0.5f, false);
        for (uint32_t i = 0; i < sizeof protect; i++)
            protect[i] = (uint8_t)(c % 3 ? 0 : 0x21u << i % 3);
#define MAYBE(k, field, value)                 \
    do {                                       \
        float v = uniform(c, 100 + (k));       \
        if (uniform(c, 200 + (k)) < 0.4f)      \
            p.field = (value);                 \
    } while (0)
        MAYBE(0, top_p, 0.2f + 0.79f * v);
        MAYBE(1, min_p, 0.2f * v);
        MAYBE(2, typical_p, 0.2f + 0.79f * v);
        MAYBE(3, top_n_sigma, 0.3f + 2 * v);
        MAYBE(4, top_k, 1 + (uint32_t)(v * 60));
        MAYBE(5, xtc_probability, 0.3f + 0.7f * v);
        MAYBE(6, dynatemp_range, v);
        p.temperature = 0.4f + 1.5f * uniform(c, 300);
        p.xtc_threshold = 0.15f * uniform(c, 301);
        p.dynatemp_exponent = 2 * uniform(c, 302);
        p.protect = (struct sample_set){protect, n};
        p.seed = c;
        if (c % 2)
            shuffle_order(&p, c);
        check(s, &p, l, 6);
        sampler_free(s);
    }
    free(l);
}

/* --- by hand --------------------------------------------------------------------------------------------------------- */

/* The ids that come out in many draws, as a bit mask. */
static uint32_t reach(struct sampler *s, const struct sample_params *p, const float *l)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 3000; i++)
        mask |= 1u << choose(s, p, l, i);
    return mask;
}

/* p = 0.5, 0.3, 0.2. top-p 0.55 keeps two of all; after top-k 2 the first is 0.625 and enough alone. */
static void test_order_by_hand(void **state)
{
    (void)state;
    const float l[3] = {logf(0.5f), logf(0.3f), logf(0.2f)};
    struct sampler *s = make(3);
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.top_p = 0.55f;
    p.top_k = 2;
    assert_int_equal(reach(s, &p, l), 3);
    p.order_n = 2;
    p.order[0] = SAMPLE_TOP_K;
    p.order[1] = SAMPLE_TOP_P;
    assert_int_equal(reach(s, &p, l), 1);
    /* At temperature 3 p = 0.397, 0.335, 0.293 (to the power 1/3): min-p 0.7 keeps all; at 1 only the first. */
    p = sample_defaults();
    p.temperature = 3;
    p.min_p = 0.7f;
    assert_int_equal(reach(s, &p, l), 1);
    p.order_n = 2;
    p.order[0] = SAMPLE_TEMPERATURE;
    p.order[1] = SAMPLE_MIN_P;
    assert_int_equal(reach(s, &p, l), 7);
    sampler_free(s);
}

static void test_xtc_by_hand(void **state)
{
    (void)state;
    const float l[5] = {logf(0.3f), logf(0.25f), logf(0.2f), logf(0.15f), logf(0.1f)};
    uint8_t protect[1] = {0};
    struct sampler *s = make(5);
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.xtc_probability = 1;
    p.xtc_threshold = 0.18f; /* 0, 1, 2 reach it: 2 is the least of them */
    assert_int_equal(reach(s, &p, l), 4 | 8 | 16);
    protect[0] = 1;
    p.protect = (struct sample_set){protect, 5};
    assert_int_equal(reach(s, &p, l), 1 | 4 | 8 | 16);
    p.top_k = 2; /* comes after: of 0, 2, 3, 4 the first two */
    assert_int_equal(reach(s, &p, l), 1 | 4);
    p.top_k = 0;
    p.xtc_threshold = 0.28f; /* one alone is left in peace */
    assert_int_equal(reach(s, &p, l), 31);
    p.xtc_threshold = 0.6f;
    assert_int_equal(reach(s, &p, l), 31);
    p.xtc_threshold = 0;
    p.protect.n = 0;
    assert_int_equal(reach(s, &p, l), 16);
    /* The least likely of those that reach it, at a temperature where the first would round to everything. */
    p.temperature = 0.001f;
    p.xtc_threshold = 0.18f;
    assert_int_equal(reach(s, &p, l), 4);
    /* And two that are left are still told apart there: 0.018 and 0.016 of all, but 0.97 and 0.03 of what is left. */
    const float far[3] = {8, 4, 3.9f};
    struct sampler *t = make(3);
    p.temperature = 0.03f;
    p.xtc_threshold = 0.017f;
    assert_int_equal(reach(t, &p, far), 2 | 4);
    sampler_free(t);
    p.xtc_threshold = 0.18f;
    /* It acts as often as asked: the first comes only when it does not act. */
    p.temperature = 1;
    p.xtc_probability = 0.25f;
    uint32_t first = 0;
    for (uint32_t i = 0; i < 20000; i++)
        first += choose(s, &p, l, i) == 0;
    assert_true(fabs(first / 20000.0 - 0.75 * 0.3) < 0.01);
    /* Greedy is greedy. */
    p.temperature = 0;
    p.xtc_probability = 1;
    assert_int_equal(reach(s, &p, l), 1);
    sampler_free(s);
}

/* Ties: all of them where the cut is by value, the lowest ids where it is by number. */
static void test_ties_at_a_cut(void **state)
{
    (void)state;
    const float l[6] = {0, 1, 1, 1, 0, 1};
    struct sampler *s = make(6);
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    p.top_k = 2;
    assert_int_equal(reach(s, &p, l), 2 | 4);
    p.top_k = 0;
    p.min_p = 0.9f;
    assert_int_equal(reach(s, &p, l), 2 | 4 | 8 | 32);
    p.min_p = 0;
    p.top_n_sigma = 0.5f;
    assert_int_equal(reach(s, &p, l), 2 | 4 | 8 | 32);
    sampler_free(s);
}

/* A vocabulary of one, and equal logits: every step keeps something. */
static void test_smallest(void **state)
{
    (void)state;
    const float l[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    for (uint32_t n = 1; n <= 4; n++)
        for (uint32_t c = 0; c < 64; c++) {
            struct sampler *s = make(n);
            struct sample_params p = sample_defaults();
            p.temperature = 0.7f;
            p.top_p = c & 1 ? 0.01f : 1;
            p.typical_p = c & 2 ? 0.01f : 1;
            p.top_n_sigma = c & 4 ? 0.01f : 0;
            p.xtc_probability = c & 8 ? 1 : 0;
            p.xtc_threshold = 0;
            p.dynatemp_range = c & 16 ? 0.7f : 0;
            p.top_k = c & 32 ? 1 : 0;
            assert_in_range(choose(s, &p, l, c), 0, n - 1);
            sampler_free(s);
        }
}

/* Every level this machine has, and a sampler that was used for something else before, give the same ids. */
static void test_levels(void **state)
{
    (void)state;
    enum { N = 5003 };
    float *l = malloc(N * sizeof *l);
    for (int level = 0; level < KERN_LEVELS; level++) {
        const struct kern_ops *o = kern_level_ops((enum kern_level)level);
        struct sampler *a = make(N), *b;
        if (!o) {
            sampler_free(a);
            continue;
        }
        assert_int_equal(sampler_new(&b, N, o, NULL), ST_OK);
        for (uint32_t i = 0; i < 300; i++) {
            struct sample_params p = sample_defaults();
            fill(l, N, i % 7, i % 2 ? 10 : 2, i % 3 == 0);
            p.temperature = 0.5f + 0.3f * (float)(i % 5);
            p.top_p = i % 4 ? 1 : 0.95f;
            p.typical_p = i % 5 ? 1 : 0.7f;
            p.top_n_sigma = i % 6 ? 0 : 1.5f;
            p.xtc_probability = i % 7 ? 0 : 0.5f;
            p.dynatemp_range = i % 8 ? 0 : 0.4f;
            p.top_k = i % 9 ? 0 : 40;
            if (i % 11 == 0) {
                p = sample_defaults();
                p.temperature = 0.9f;
                p.mirostat = 1 + i % 2;
            }
            struct sampler *fresh;
            assert_int_equal(sampler_new(&fresh, N, o, NULL), ST_OK);
            tok_id id = choose(a, &p, l, i);
            assert_int_equal(choose(b, &p, l, i), id);
            assert_int_equal(choose(fresh, &p, l, i), id);
            sampler_free(fresh);
        }
        sampler_free(a);
        sampler_free(b);
    }
    free(l);
}

/* A plain request sorts a small part of the vocabulary only, with the temperature last as well. */
static void test_stays_lazy(void **state)
{
    (void)state;
    enum { N = 100000 };
    float *l = malloc(N * sizeof *l);
    struct sampler *s = make(N);
    fill(l, N, 5, 6, false);
    static const struct {
        float temperature, top_p;
        uint32_t top_k, most; /* candidates sorted a draw, about twice what was seen */
    } cases[] = {{1, 1, 0, 2500},         {0.7f, 1, 0, 1000},  {0.7f, 0.9f, 0, 5000},
                 {0.7f, 0.9f, 40, 5000}, {1.3f, 1, 40, 256}, {0.7f, 1, 40, 256}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct sample_params p = sample_defaults();
        p.temperature = cases[c].temperature;
        p.top_p = cases[c].top_p;
        p.top_k = cases[c].top_k;
        uint64_t sorted = 0;
        for (uint32_t i = 0; i < 50; i++) {
            (void)choose(s, &p, l, i);
            sorted += s->order.n;
        }
        assert_true(sorted / 50 < cases[c].most);
    }
    sampler_free(s);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_steps),  cmocka_unit_test(test_combinations), cmocka_unit_test(test_order_by_hand),
        cmocka_unit_test(test_xtc_by_hand),   cmocka_unit_test(test_ties_at_a_cut), cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_levels),        cmocka_unit_test(test_stays_lazy),
    };
    ops = kern_level_ops(KERN_REF);
    ref = calloc(MOST, sizeof *ref);
    int rc = ops && ref ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    free(ref);
    return rc;
}
