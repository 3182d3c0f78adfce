/*
 * kern/encode: what is lost by turning values into blocks and back. Decoding is the tests' own (tests/lib/quant.c), and
 * so is the plain encoder that the searches have to beat.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kern/kern.h"
#include "quant.h"

enum { N = 64 * 256 };

static const struct {
    enum kern_type type;
    enum tiny_type tiny;
    double most; /* relative error of normal values: sqrt(sum (x - y)^2 / sum x^2) */
} types[] = {
    {KERN_Q8_0, TINY_Q8_0, 0.0060},
    {KERN_Q4_0, TINY_Q4_0, 0.0900},
    {KERN_Q4_K, TINY_Q4_K, 0.0730},
    {KERN_Q6_K, TINY_Q6_K, 0.0180},
};
#define TYPES (sizeof types / sizeof *types)

static float x[N], y[N];
static uint8_t blocks[4 * N];

/* Normal values: the sum of twelve uniform ones. */
static void fill_normal(uint64_t seed, float scale)
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t four[4];
        double sum = -6;
        for (uint32_t k = 0; k < 3; k++) {
            rng_philox(seed, i, k, four);
            for (int j = 0; j < 4; j++)
                sum += four[j] / 4294967296.0;
        }
        x[i] = scale * (float)sum;
    }
}

static double error_of(void)
{
    double lost = 0, all = 0;
    for (int i = 0; i < N; i++) {
        lost += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(lost / all);
}

static double round_trip(size_t t)
{
    memset(blocks, 0xAA, sizeof blocks);
    kern_from_f32(types[t].type, x, N, blocks);
    tiny_decode(types[t].tiny, blocks, N, y);
    size_t end = tiny_row_bytes(types[t].tiny, N);
    assert_int_equal(blocks[end], 0xAA);
    return error_of();
}

static void errors_of_normal_values(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        const char *name = kern_type_info(types[t].type)->name;
        for (uint64_t seed = 1; seed < 4; seed++) {
            fill_normal(seed, seed == 3 ? 1e-3f : 0.02f);
            double got = round_trip(t);
            if (!(got < types[t].most))
                fail_msg("%s loses %.5f of normal values, expected less than %.5f", name, got, types[t].most);
            tiny_encode(types[t].tiny, x, N, blocks);
            tiny_decode(types[t].tiny, blocks, N, y);
            double plain = error_of();
            print_message("note: %s: error %.5f, a plain encoder %.5f\n", name, got, plain);
            bool searched = types[t].type == KERN_Q4_K || types[t].type == KERN_Q6_K;
            if (searched && !(got < 0.97 * plain))
                fail_msg("%s loses %.5f, no less than a plain encoder's %.5f", name, got, plain);
        }
    }
}

/* Values that the type can say come back as they were. */
static void fixed_points(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) { /* Q8_0, Q4_0: what was decoded once stays */
        fill_normal(9, 1.0f);
        round_trip(t);
        memcpy(x, y, sizeof x);
        assert_true(round_trip(t) < 1e-3); /* the scale is rounded to f16 again */
    }
}

static void expect_all(float value, double most)
{
    for (int i = 0; i < N; i++)
        x[i] = value;
    for (size_t t = 0; t < TYPES; t++) {
        memset(blocks, 0, sizeof blocks);
        kern_from_f32(types[t].type, x, N, blocks);
        tiny_decode(types[t].tiny, blocks, N, y);
        for (int i = 0; i < N; i++)
            if (!(fabs((double)y[i] - (double)value) <= most * fabs((double)value)))
                fail_msg("%s makes %g of %g", kern_type_info(types[t].type)->name, (double)y[i], (double)value);
    }
}

static void constants(void **state)
{
    (void)state;
    expect_all(0.0f, 0);
    expect_all(-0.0f, 0);
    expect_all(1e-38f, 1); /* may become zero, not more */
    expect_all(1.0f, 0.002);
    expect_all(-0.037f, 0.01); /* Q6_K's scale is a subnormal half float there */
    expect_all(60000.0f, 0.002);
    expect_all(-65504.0f, 0.002);
}

/* One value among zeros, at every place of a block. */
static void single_values(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            memset(x, 0, sizeof x);
            for (int b = 0; b < 64; b++)
                x[256 * b + 4 * b + b % 4] = 0.5f * (float)sign;
            double got = round_trip(t);
            if (!(got < 0.07))
                fail_msg("%s loses %g of lone values of sign %d", kern_type_info(types[t].type)->name, got, sign);
        }
    }
}

/* kern_to_f32() is the inverse of the same layout. */
static void own_decoder_agrees(void **state)
{
    (void)state;
    static float z[N];
    for (size_t t = 0; t < TYPES; t++) {
        fill_normal(5, 0.3f);
        round_trip(t);
        kern_to_f32(types[t].type, blocks, N, z);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == z[i]); /* zeros of either sign are alike */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_normal_values), cmocka_unit_test(fixed_points),       cmocka_unit_test(constants),
        cmocka_unit_test(single_values),           cmocka_unit_test(own_decoder_agrees),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
