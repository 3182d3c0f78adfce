/* sample, changed logits: bias and bans, penalties, DRY, each against a slow computation. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample/inside.h"

static const struct kern_ops *ops;

static struct sampler *make(uint32_t vocab)
{
    struct sampler *s;
    assert_int_equal(sampler_new(&s, vocab, ops, NULL), ST_OK);
    return s;
}

static float noise(uint32_t i, float scale)
{
    return (rng_uniform(5, 1, i, RNG_XTC) + rng_uniform(5, 2, i, RNG_XTC) - 1) * scale;
}

static tok_id choose(struct sampler *s, const struct sample_params *p, const float *l, const tok_id *h, size_t n,
                     uint32_t position)
{
    tok_id id = -1;
    struct sample_state st;
    sample_state_begin(&st, p);
    assert_int_equal(sample_check(p, s->vocab, NULL), ST_OK);
    assert_int_equal(sampler_choose(s, p, &st, l, NULL, h, n, position, &id, NULL), ST_OK);
    return id;
}

static void set_bit(uint8_t *bits, uint32_t id)
{
    bits[id / 8] |= (uint8_t)(1u << id % 8);
}

static void test_bias(void **state)
{
    (void)state;
    struct sampler *s = make(6);
    const float l[6] = {2.0f, 1.9f, -1.0f, 1.0f, 0.0f, 1.2f};
    struct sample_params p = sample_defaults();
    struct sample_bias b[3] = {{2, 2.95f}};
    p.bias = b;
    p.bias_n = 1;
    assert_int_equal(choose(s, &p, l, NULL, 0, 0), 0);
    b[0].bias = 3.05f;
    assert_int_equal(choose(s, &p, l, NULL, 0, 0), 2);
    b[0] = (struct sample_bias){0, -0.05f};
    assert_int_equal(choose(s, &p, l, NULL, 0, 0), 0);
    b[1] = (struct sample_bias){0, -0.1f}; /* both count */
    p.bias_n = 2;
    assert_int_equal(choose(s, &p, l, NULL, 0, 0), 1);
    b[2] = (struct sample_bias){1, -100};
    p.bias_n = 3;
    assert_int_equal(choose(s, &p, l, NULL, 0, 0), 0);
    sampler_free(s);
}

/* A banned id is never drawn, whatever else is set and however flat the distribution; a bias of -99.9 is no ban. */
static void test_bans(void **state)
{
    (void)state;
    enum { N = 300 };
    float l[N];
    struct sample_bias b[N];
    struct sample_params p = sample_defaults();
    struct sampler *s = make(N);
    p.bias = b;
    for (uint32_t i = 0; i < N; i++) {
        l[i] = noise(i, 2);
        if (i % 7)
            b[p.bias_n++] = (struct sample_bias){(tok_id)i, -100};
    }
    const tok_id history[] = {1, 2, 3, 1, 2, 3, 1, 2};
    for (uint32_t i = 0; i < 4000; i++) {
        struct sample_params q = p;
        q.seed = i;
        q.temperature = i % 3 ? 100 : 1;
        q.top_p = i % 2 ? 0.9f : 1;
        q.typical_p = i % 5 ? 1 : 0.8f;
        q.top_n_sigma = i % 4 ? 0 : 1;
        q.top_k = i % 6 ? 0 : 100;
        q.dynatemp_range = i % 8 ? 0 : 50;
        q.xtc_probability = i % 9 ? 0 : 1;
        q.presence_penalty = -2; /* what occurred becomes likelier, but not 1, 2, 3 */
        q.repetition_penalty = 0.5f;
        q.dry_multiplier = i % 10 ? 0 : 1;
        assert_int_equal(choose(s, &q, l, history, 8, i) % 7, 0);
        struct sample_params m = p;
        m.mirostat = 1 + i % 2;
        m.temperature = 2;
        m.seed = i;
        assert_int_equal(choose(s, &m, l, history, 8, i) % 7, 0);
    }
    p.temperature = 0;
    assert_int_equal(choose(s, &p, l, NULL, 0, 0) % 7, 0);
    const float far[3] = {200, 1, 0};
    struct sampler *t = make(3);
    struct sample_bias near_ban[] = {{0, -99.9f}};
    p.bias = near_ban;
    p.bias_n = 1;
    assert_int_equal(choose(t, &p, far, NULL, 0, 0), 0);
    near_ban[0].bias = -100;
    assert_int_equal(choose(t, &p, far, NULL, 0, 0), 1);
    sampler_free(s);
    sampler_free(t);
}

static void test_all_banned(void **state)
{
    (void)state;
    const float l[3] = {1, 2, 3};
    struct sample_bias b[] = {{0, -100}, {1, -100}, {2, -100}};
    struct sampler *s = make(3);
    for (int t = 0; t < 3; t++) {
        struct sample_params p = sample_defaults();
        struct sample_state st;
        struct err e = {0};
        tok_id id = -7;
        p.temperature = t ? 1 : 0;
        p.mirostat = t == 2 ? 2 : 0;
        p.bias = b;
        p.bias_n = 3;
        sample_state_begin(&st, &p);
        assert_int_equal(sampler_choose(s, &p, &st, l, NULL, NULL, 0, 0, &id, &e), ST_ARGUMENT);
        assert_string_equal(e.field, "logit_bias");
        assert_true(st.mu == 10 && id == -7);
        p.bias_n = 2;
        for (uint32_t i = 0; i < 20; i++)
            assert_int_equal(choose(s, &p, l, NULL, 0, i), 2);
    }
    sampler_free(s);
}

static void test_min_tokens(void **state)
{
    (void)state;
    enum { N = 40 };
    float l[N] = {0};
    uint8_t ends[N / 8] = {0};
    set_bit(ends, 3);
    set_bit(ends, 17);
    set_bit(ends, 39);
    l[17] = l[39] = 10;
    l[5] = 9;
    struct sampler *s = make(N);
    struct sample_params p = sample_defaults();
    p.ends = (struct sample_set){ends, N};
    p.min_tokens = 4;
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(choose(s, &p, l, NULL, 0, i), i < 4 ? 5 : 17);
    p.temperature = 100;
    p.min_tokens = 5000;
    for (uint32_t i = 0; i < 5000; i++) {
        tok_id id = choose(s, &p, l, NULL, 0, i);
        assert_true(id != 3 && id != 17 && id != 39);
    }
    sampler_free(s);
}

/* --- penalties ------------------------------------------------------------------------------------------------------- */

static void prepare(struct sampler *s, const struct sample_params *p, const float *l)
{
    assert_int_equal(sample_check(p, s->vocab, NULL), ST_OK);
    s->p = p;
    memcpy(s->logits, l, s->vocab * sizeof *l);
}

static void no_counts_left(const struct sampler *s)
{
    for (uint32_t i = 0; i < s->vocab; i++)
        assert_int_equal(s->count[i], 0);
}

static void test_penalties(void **state)
{
    (void)state;
    enum { N = 60, H = 200 };
    float l[N];
    tok_id h[H];
    struct sampler *s = make(N);
    for (uint32_t i = 0; i < N; i++)
        l[i] = noise(i, 5);
    for (uint32_t i = 0; i < H; i++)
        h[i] = (tok_id)(rng_uniform(8, 0, i, RNG_FINAL) * 20) - (i % 50 == 7 ? 100 : 0); /* a few that are no ids */
    static const float repetition[] = {1, 1.3f, 0.5f}, presence[] = {0, 1.5f, -2}, frequency[] = {0, 0.25f, -0.5f};
    static const uint32_t last[] = {0, 1, 20, 199, 200, 1000};
    static const uint32_t own[] = {0, 7, UINT32_MAX}; /* as the first; some; all */
    for (int c = 0; c < 27 * 6; c++) {
        struct sample_params p = sample_defaults();
        p.repetition_penalty = repetition[c % 3];
        p.presence_penalty = presence[c / 3 % 3];
        p.frequency_penalty = frequency[c / 9 % 3];
        p.penalty_last = last[c / 27];
        p.presence_last = own[c % 2 * (c % 5) % 3];
        p.frequency_last = own[c % 7 % 3];
        prepare(s, &p, l);
        sample_penalise(s, h, H);
        for (uint32_t id = 0; id < N; id++) {
            uint32_t times[3] = {0}, window[3] = {p.penalty_last, p.presence_last, p.frequency_last};
            for (int k = 0; k < 3; k++) {
                uint32_t w = window[k] ? window[k] : p.penalty_last;
                for (uint32_t i = w && w < H ? H - w : 0; i < H; i++)
                    times[k] += h[i] == (tok_id)id;
            }
            double x = (double)l[id];
            if (times[0])
                x = x > 0 ? x / (double)p.repetition_penalty : x * (double)p.repetition_penalty;
            x -= (times[1] ? (double)p.presence_penalty : 0) + (double)p.frequency_penalty * times[2];
            assert_true(fabs((double)s->logits[id] - x) < 1e-5);
        }
        no_counts_left(s);
    }
    sampler_free(s);
}

/* --- DRY ------------------------------------------------------------------------------------------------------------- */

/* The definition, as it stands in dry.c, without any cleverness. */
static void slow_dry(const struct sample_params *p, const tok_id *h, size_t n, double *out, uint32_t vocab)
{
    size_t from = p->dry_last && n > p->dry_last ? n - p->dry_last : 0;
    for (uint32_t id = 0; id < vocab; id++) {
        uint32_t best = 0;
        for (size_t at = from; at < n; at++) {
            uint32_t length = 0;
            while (h[at] == (tok_id)id && length < LIMIT_DRY_MATCH && at - from > length &&
                   h[at - 1 - length] == h[n - 1 - length] && !sample_set_has(&p->breakers, (uint32_t)h[n - 1 - length]))
                length++;
            best = length > best ? length : best;
        }
        if (best >= p->dry_allowed && !sample_set_has(&p->breakers, id))
            out[id] -= (double)p->dry_multiplier * pow((double)p->dry_base, best - p->dry_allowed);
    }
}

static void check_dry(struct sampler *s, const struct sample_params *p, const tok_id *h, size_t n)
{
    float *l = malloc(s->vocab * sizeof *l);
    double *want = malloc(s->vocab * sizeof *want);
    for (uint32_t i = 0; i < s->vocab; i++)
        want[i] = (double)(l[i] = noise(i, 3));
    prepare(s, p, l);
    sample_dry(s, h, n);
    slow_dry(p, h, n, want, s->vocab);
    for (uint32_t i = 0; i < s->vocab; i++) {
        double w = fmax(want[i], -(double)FLT_MAX);
        if (!(fabs((double)s->logits[i] - w) <= 1e-5 + fabs(w) * 1e-5))
            fail_msg("id %u: %g, not %g", i, (double)s->logits[i], w);
    }
    no_counts_left(s);
    free(l);
    free(want);
}

/* 1 2 3 4 1 2 3: id 4 would go on with a repeat of three. */
static void test_dry_by_hand(void **state)
{
    (void)state;
    const tok_id h[] = {1, 2, 3, 4, 1, 2, 3};
    const float l[6] = {0};
    uint8_t breakers[1] = {0};
    struct sampler *s = make(6);
    struct sample_params p = sample_defaults();
    p.dry_multiplier = 0.5f;
    p.dry_base = 2;
    p.breakers = (struct sample_set){breakers, 6};
    prepare(s, &p, l);
    sample_dry(s, h, 7);
    assert_true(s->logits[4] == -1.0f && s->logits[1] == 0 && s->logits[2] == 0 && s->logits[3] == 0); /* 0.5 × 2^1 */
    p.dry_allowed = 4;
    prepare(s, &p, l);
    sample_dry(s, h, 7);
    assert_true(s->logits[4] == 0);
    p.dry_allowed = 1;
    set_bit(breakers, 1); /* only 2 3 is left of the repeat */
    prepare(s, &p, l);
    sample_dry(s, h, 7);
    assert_true(s->logits[4] == -1.0f);
    set_bit(breakers, 4); /* never penalised itself */
    prepare(s, &p, l);
    sample_dry(s, h, 7);
    assert_true(s->logits[4] == 0);
    breakers[0] = 0;
    set_bit(breakers, 3); /* the history ends with one */
    prepare(s, &p, l);
    sample_dry(s, h, 7);
    for (int i = 0; i < 6; i++)
        assert_true(s->logits[i] == 0);
    breakers[0] = 0;
    p.dry_last = 6; /* 2 3 4 1 2 3: a repeat of two */
    prepare(s, &p, l);
    sample_dry(s, h, 7);
    assert_true(s->logits[4] == -1.0f);
    sample_dry(s, h, 0);
    sampler_free(s);
}

static void test_dry_against_slow(void **state)
{
    (void)state;
    enum { H = 400 };
    tok_id h[H];
    uint8_t breakers[2];
    struct sampler *s = make(12);
    for (uint32_t c = 0; c < 400; c++) {
        uint32_t letters = 1 + c % 5, n = c % 7 ? H - c % 50 : c % 30, period = 1 + c % 23;
        for (uint32_t i = 0; i < n; i++) {
            h[i] = (tok_id)(rng_uniform(c, 0, i, RNG_FINAL) * (float)letters);
            if (c % 2 && i >= period && rng_uniform(c, 1, i, RNG_FINAL) < 0.97f)
                h[i] = h[i - period]; /* almost periodic */
            if (i % 91 == 90)
                h[i] = c % 3 ? 11 : (tok_id)1 << 20; /* a breaker sometimes, or no id of this vocabulary */
        }
        breakers[0] = c % 4 == 1 ? 1 : 0;
        breakers[1] = 8;
        struct sample_params p = sample_defaults();
        p.dry_multiplier = 0.8f;
        p.dry_base = c % 3 ? 1.1f : 1.75f;
        p.dry_allowed = 1 + c % 4;
        p.dry_last = c % 6 ? 0 : 1 + c % 300;
        if (c % 5)
            p.breakers = (struct sample_set){breakers, 12};
        check_dry(s, &p, h, n);
    }
    sampler_free(s);
}

/* Repeats longer than the ceiling count as long as it; huge powers end at the lowest finite logit. */
static void test_dry_long_repeats(void **state)
{
    (void)state;
    enum { H = 3000 };
    tok_id *h = calloc(H, sizeof *h);
    struct sampler *s = make(4);
    struct sample_params p = sample_defaults();
    p.dry_multiplier = 1;
    p.dry_base = 1.001f;
    check_dry(s, &p, h, H);
    p.dry_base = 100;
    check_dry(s, &p, h, H);
    assert_true(s->logits[0] == -FLT_MAX);
    h[0] = 1;
    for (int i = 1; i < H; i++)
        h[i] = i % 2 ? 2 : 3;
    p.dry_base = 1.01f;
    check_dry(s, &p, h, H);
    p.temperature = 1; /* finite, so that whatever follows has something to draw from */
    p.dry_base = 100;
    float l[4] = {0};
    assert_in_range(choose(s, &p, l, h, H, 0), 0, 3);
    sampler_free(s);
    free(h);
}

/* A quadratic pass, even one that stops at the ceiling of a match, would need minutes here; the alarm ends the program. */
static void test_dry_is_linear(void **state)
{
    (void)state;
    enum { H = 100000, CALLS = 1500 };
    tok_id *h = calloc(H, sizeof *h);
    const float l[4] = {0};
    struct sampler *s = make(4);
    struct sample_params p = sample_defaults();
    p.dry_multiplier = 1;
    for (int shape = 0; shape < 3; shape++) {
        for (int i = 0; i < H; i++)
            h[i] = shape == 0 ? 0 : shape == 1 ? i % 500 == 0 : i % 2;
        alarm(15);
        for (int i = 0; i < CALLS / 3; i++) {
            prepare(s, &p, l);
            sample_dry(s, h, H);
        }
        alarm(0);
        assert_true(s->logits[0] < -1e6f || s->logits[1] < -1e6f);
    }
    sampler_free(s);
    free(h);
}

/* Everything at once, on logits of any size: still finite, still a token. */
static void test_extremes(void **state)
{
    (void)state;
    float l[5] = {FLT_MAX, -FLT_MAX, 1e38f, -1e38f, 0};
    const tok_id h[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1};
    struct sample_bias b[] = {{0, 100}, {1, -99}, {2, 100}, {3, -99}};
    struct sampler *s = make(5);
    for (uint32_t i = 0; i < 400; i++) {
        struct sample_params p = sample_defaults();
        p.bias = b;
        p.bias_n = i % 5;
        p.repetition_penalty = i % 2 ? 0.001f : 100;
        p.presence_penalty = i % 3 ? 2 : -2;
        p.frequency_penalty = i % 4 ? -2 : 2;
        p.dry_multiplier = i % 5 ? 100 : 0;
        p.dry_base = 100;
        p.temperature = i % 7 ? 1 : 0.001f;
        p.top_n_sigma = i % 11 ? 0 : 1;
        p.typical_p = i % 13 ? 1 : 0.5f;
        p.dynatemp_range = i % 6 ? 0 : 0.5f;
        p.xtc_probability = i % 8 ? 0 : 1;
        assert_in_range(choose(s, &p, l, h, 10, i), 0, 4);
        p = sample_defaults();
        p.mirostat = 1 + i % 2;
        p.temperature = 1;
        assert_in_range(choose(s, &p, l, h, 10, i), 0, 4);
        l[i % 5] = -l[i % 5];
    }
    sampler_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bias),          cmocka_unit_test(test_bans),        cmocka_unit_test(test_all_banned),
        cmocka_unit_test(test_min_tokens),    cmocka_unit_test(test_penalties),   cmocka_unit_test(test_dry_by_hand),
        cmocka_unit_test(test_dry_against_slow), cmocka_unit_test(test_dry_long_repeats),
        cmocka_unit_test(test_dry_is_linear), cmocka_unit_test(test_extremes),
    };
    ops = kern_level_ops(KERN_REF);
    return ops ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
