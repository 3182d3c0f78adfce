/* sample, parameters: ranges, contradictions, the order of steps, copies. Each refusal names its field. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/sample.h"

#define VOCAB 100u

static void expect(const struct sample_params *p, const char *field)
{
    struct err e = {0};
    enum status st = sample_check(p, VOCAB, &e);
    if (st != (field ? ST_ARGUMENT : ST_OK) || (field && strcmp(e.field, field) != 0))
        fail_msg("%s '%s': %s; expected '%s'", status_name(st), e.field, e.text, field ? field : "");
    if (field && strlen(field) > 2)
        assert_non_null(strstr(e.text, field));
}

#define TRY_VALUE(f, v, name)                        \
    do {                                             \
        struct sample_params p_ = sample_defaults(); \
        p_.f = (v);                                  \
        expect(&p_, name);                           \
    } while (0)

static void test_float_ranges(void **state)
{
    (void)state;
    struct sample_params p = sample_defaults();
    expect(&p, NULL);
    /* field, lowest and highest that are allowed, just below and above them */
#define RANGE(f, lo, hi, below, above)   \
    do {                                 \
        TRY_VALUE(f, lo, NULL);          \
        TRY_VALUE(f, hi, NULL);          \
        TRY_VALUE(f, below, #f);         \
        TRY_VALUE(f, above, #f);         \
        TRY_VALUE(f, NAN, #f);           \
        TRY_VALUE(f, INFINITY, #f);      \
        TRY_VALUE(f, -INFINITY, #f);     \
    } while (0)
    RANGE(temperature, 0, 100, -1e-6f, 100.01f);
    RANGE(dynatemp_range, 0, 100, -1e-6f, 100.01f);
    RANGE(dynatemp_exponent, 0, 100, -1e-6f, 100.01f);
    RANGE(top_p, 1e-9f, 1, 0, 1.001f);
    RANGE(min_p, 0, 0.9999f, -1e-6f, 1);
    RANGE(typical_p, 1e-9f, 1, 0, 1.001f);
    RANGE(top_n_sigma, 0, 100, -1e-6f, 100.01f);
    RANGE(xtc_probability, 0, 1, -1e-6f, 1.001f);
    RANGE(xtc_threshold, 0, 1, -1e-6f, 1.001f);
    RANGE(repetition_penalty, 1e-9f, 100, 0, 100.01f);
    RANGE(presence_penalty, -2, 2, -2.001f, 2.001f);
    RANGE(frequency_penalty, -2, 2, -2.001f, 2.001f);
    RANGE(dry_multiplier, 0, 100, -1e-6f, 100.01f);
    RANGE(dry_base, 1, 100, 0.999f, 100.01f);
    RANGE(mirostat_tau, 0, 100, -1e-6f, 100.01f);
    RANGE(mirostat_eta, 0, 1, -1e-6f, 1.001f);
}

static void test_counts(void **state)
{
    (void)state;
    TRY_VALUE(dry_allowed, 0, "dry_allowed_length");
    TRY_VALUE(dry_allowed, 1, NULL);
    TRY_VALUE(dry_allowed, LIMIT_DRY_MATCH, NULL);
    TRY_VALUE(dry_allowed, LIMIT_DRY_MATCH + 1, "dry_allowed_length");
    TRY_VALUE(mirostat, 1, NULL);
    TRY_VALUE(mirostat, 2, NULL);
    TRY_VALUE(mirostat, 3, "mirostat");
    TRY_VALUE(order_n, SAMPLE_STEPS + 1, "samplers");
    struct sample_params p = sample_defaults();
    p.breakers = (struct sample_set){NULL, 5};
    expect(&p, "dry_sequence_breakers");
    p = sample_defaults();
    p.ends = (struct sample_set){(const uint8_t *)"", LIMIT_VOCAB + 1};
    expect(&p, "min_tokens");
}

static void test_bias_list(void **state)
{
    (void)state;
    struct sample_bias *b = calloc(LIMIT_BIAS + 1, sizeof *b);
    struct sample_params p = sample_defaults();
    p.bias = b;
    p.bias_n = LIMIT_BIAS;
    expect(&p, NULL);
    p.bias_n++;
    expect(&p, "logit_bias");
    p.bias_n = 2;
    static const float fine[] = {-100, 100, 0.5f}, bad[] = {-100.01f, 100.01f, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        b[1].bias = fine[i];
        expect(&p, NULL);
    }
    for (size_t i = 0; i < 5; i++) {
        b[1].bias = bad[i];
        expect(&p, "logit_bias");
    }
    b[1].bias = 1;
    b[1].id = VOCAB - 1;
    expect(&p, NULL);
    b[1].id = VOCAB;
    expect(&p, "logit_bias");
    b[1].id = -1;
    expect(&p, "logit_bias");
    free(b);
}

static struct sample_params ordered(const char *steps)
{
    struct sample_params p = sample_defaults();
    p.temperature = 1;
    for (; *steps; steps += strcspn(steps, " "), steps += *steps == ' ')
        assert_int_equal(sample_order_add(&p, steps, strcspn(steps, " "), NULL), ST_OK);
    return p;
}

static void test_order(void **state)
{
    (void)state;
    struct err e;
    struct sample_params p = ordered("penalties dry top_n_sigma top_k typ_p top_p min_p xtc temperature");
    assert_int_equal(p.order_n, SAMPLE_STEPS);
    assert_true(p.order[3] == SAMPLE_TOP_K && p.order[4] == SAMPLE_TYPICAL && p.order[8] == SAMPLE_TEMPERATURE);
    expect(&p, NULL);
    assert_int_equal(sample_order_add(&p, "dry", 3, &e), ST_ARGUMENT);
    assert_string_equal(e.field, "samplers");
    static const char *const unknown[] = {"", "top", "top_kk", "greedy", "dry\0", "typical"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        p = sample_defaults();
        assert_int_equal(sample_order_add(&p, unknown[i], strlen(unknown[i]) + (i == 4), &e), ST_ARGUMENT);
        assert_string_equal(e.field, "samplers");
        assert_int_equal(p.order_n, 0);
    }
    p = ordered("typical_p");
    assert_int_equal(p.order[0], SAMPLE_TYPICAL);
    p = ordered("dry temperature");
    expect(&p, NULL);
    p = ordered("dry penalties");
    expect(&p, "samplers");
    p = ordered("top_k penalties");
    expect(&p, "samplers");
    p = ordered("temperature dry");
    expect(&p, "samplers");
    p = ordered("top_k");
    p.order[1] = SAMPLE_TOP_K;
    p.order_n = 2;
    expect(&p, "samplers");
    p.order[1] = SAMPLE_STEPS;
    expect(&p, "samplers");
}

/* What is set but has no place in the order is an error of its own field. */
static void test_left_out(void **state)
{
    (void)state;
#define LEFT(f, v)                             \
    do {                                       \
        struct sample_params p_ = ordered("dry"); \
        if (strcmp(#f, "dry_multiplier") == 0) \
            p_ = ordered("top_k");             \
        p_.f = (v);                            \
        expect(&p_, #f);                       \
    } while (0)
    LEFT(repetition_penalty, 1.1f);
    LEFT(presence_penalty, 0.1f);
    LEFT(frequency_penalty, -0.1f);
    LEFT(dry_multiplier, 0.5f);
    LEFT(top_n_sigma, 1);
    LEFT(top_p, 0.9f);
    LEFT(min_p, 0.1f);
    LEFT(typical_p, 0.9f);
    LEFT(xtc_probability, 0.5f);
    LEFT(top_k, 5);
    LEFT(temperature, 0.5f);
    LEFT(temperature, 0);
    LEFT(dynatemp_range, 0.5f);
    struct sample_params p = ordered("top_k top_p");
    p.top_k = 5;
    p.top_p = 0.5f;
    expect(&p, NULL);
}

static void test_mirostat_stands_alone(void **state)
{
    (void)state;
#define WITH(f, v)                                   \
    do {                                             \
        struct sample_params p_ = sample_defaults(); \
        p_.temperature = 0.8f;                       \
        p_.mirostat = 2;                             \
        expect(&p_, NULL);                           \
        p_.f = (v);                                  \
        expect(&p_, #f);                             \
        p_.mirostat = 0;                             \
        expect(&p_, NULL);                           \
    } while (0)
    WITH(top_n_sigma, 1);
    WITH(top_p, 0.9f);
    WITH(min_p, 0.1f);
    WITH(typical_p, 0.9f);
    WITH(xtc_probability, 0.5f);
    WITH(top_k, 5);
    WITH(dynatemp_range, 0.5f);
    struct sample_params p = ordered("temperature");
    p.mirostat = 1;
    expect(&p, "samplers");
    p = sample_defaults();
    p.temperature = 1;
    assert_false(sample_needs_dist(&p));
    p.mirostat = 1;
    assert_true(sample_needs_dist(&p));
    p.temperature = 0;
    assert_false(sample_needs_dist(&p));
}

/* The largest request fits the ceiling, the copy shares nothing, and an arena that is full is an error. */
static void test_copy(void **state)
{
    (void)state;
    struct sample_bias *b = calloc(LIMIT_BIAS, sizeof *b);
    uint8_t *bits = malloc(LIMIT_VOCAB / 8);
    for (uint32_t i = 0; i < LIMIT_BIAS; i++)
        b[i] = (struct sample_bias){(tok_id)i, (float)i / 100};
    memset(bits, 0xA5, LIMIT_VOCAB / 8);
    struct sample_params p = sample_defaults(), q;
    p.bias = b;
    p.bias_n = LIMIT_BIAS;
    p.breakers = p.protect = p.ends = (struct sample_set){bits, LIMIT_VOCAB};
    struct arena a;
    arena_init(&a, LIMIT_SAMPLE_ARENA);
    assert_int_equal(sample_params_copy(&q, &p, &a, NULL), ST_OK);
    assert_true(q.bias != b && q.breakers.bits != bits && q.protect.bits != q.ends.bits);
    memset(bits, 0, LIMIT_VOCAB / 8);
    b[77].bias = 5;
    assert_true(q.bias[77].bias == 0.77f && q.bias_n == LIMIT_BIAS);
    for (uint32_t i = 0; i < LIMIT_VOCAB / 8; i += 4099)
        assert_true(q.breakers.bits[i] == 0xA5 && q.protect.bits[i] == 0xA5 && q.ends.bits[i] == 0xA5);
    arena_release(&a);
    arena_init(&a, 4096);
    struct err e;
    assert_int_equal(sample_params_copy(&q, &p, &a, &e), ST_NO_MEMORY);
    arena_release(&a);
    struct sample_params none = sample_defaults();
    arena_init(&a, 0);
    assert_int_equal(sample_params_copy(&q, &none, &a, NULL), ST_OK);
    assert_true(!q.bias && !q.breakers.bits && !q.protect.bits && !q.ends.bits);
    arena_release(&a);
    free(b);
    free(bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_ranges), cmocka_unit_test(test_counts),   cmocka_unit_test(test_bias_list),
        cmocka_unit_test(test_order),        cmocka_unit_test(test_left_out), cmocka_unit_test(test_mirostat_stands_alone),
        cmocka_unit_test(test_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
