/* The forward pass against transformers: tiny random models of every family (tests/golden/README.md), f32 weights and
 * f32 KV. Also quantised ones against their rounded twins, which differ by the rounding of activations alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "feed.h"
#include "tiny.h"

#define TOLERANCE 1e-4 /* × standard deviation of the logits */
#define GREEDY 8

static json_t *recording(const char *family)
{
    char path[256];
    json_error_t je;
    snprintf(path, sizeof path, "tests/golden/tiny/%s.json", family);
    json_t *j = json_load_file(path, 0, &je);
    if (!j)
        fail_msg("%s: %s", path, je.text);
    return j;
}

static void open_tiny(struct feed *f, const char *family, enum tiny_type type, bool rounded, int threads,
                      enum kern_kv format)
{
    char path[] = "/tmp/ffwd-golden-XXXXXX";
    struct err e = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    enum status st = rounded ? tiny_write_rounded(path, family, type, &e) : tiny_write(path, family, type, &e);
    if (!st)
        st = feed_open(f, path, threads, format, 128, &e);
    unlink(path);
    if (st)
        fail_msg("%s: %s", family, e.text);
}

/* The larger; NaN wins, so that it cannot hide. */
static double worse(double worst, double x)
{
    return x <= worst ? worst : x;
}

static double number(json_t *array, size_t i)
{
    json_t *v = json_array_get(array, i);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static double distance(const json_t *rec, const float *logits)
{
    double worst = 0;
    json_t *top = json_object_get(rec, "top"), *full = json_object_get(rec, "full");
    assert_int_equal(json_array_size(top), TINY_PROMPT);
    for (size_t p = 0; p < TINY_PROMPT; p++) {
        json_t *ids = json_object_get(json_array_get(top, p), "ids");
        json_t *want = json_object_get(json_array_get(top, p), "logits");
        for (size_t i = 0; i < json_array_size(ids); i++)
            worst = worse(worst, fabs(number(want, i) - (double)logits[p * TINY_VOCAB + (size_t)number(ids, i)]));
    }
    static const size_t at[] = {0, 22, 43};
    for (size_t k = 0; k < 3; k++) {
        json_t *row = json_array_get(full, k), *want = json_is_object(row) ? json_object_get(row, "logits") : row;
        assert_int_equal(json_array_size(want), TINY_VOCAB);
        for (size_t i = 0; i < TINY_VOCAB; i++)
            worst = worse(worst, fabs(number(want, i) - (double)logits[at[k] * TINY_VOCAB + i]));
    }
    return worst / json_number_value(json_object_get(rec, "std"));
}

static tok_id best(const float *x)
{
    tok_id b = 0;
    for (tok_id i = 1; i < TINY_VOCAB; i++)
        b = x[i] > x[b] ? i : b;
    return b;
}

static void check_family(const char *family)
{
    struct feed f;
    tok_id ids[TINY_PROMPT + GREEDY];
    float *logits = calloc((TINY_PROMPT + GREEDY) * TINY_VOCAB, sizeof *logits);
    json_t *rec = recording(family), *greedy = json_object_get(rec, "greedy");
    open_tiny(&f, family, TINY_F32, false, 2, KERN_KV_F32);
    for (size_t i = 0; i < TINY_PROMPT; i++)
        ids[i] = tiny_prompt(i);
    feed_logits(&f, ids, TINY_PROMPT, TINY_PROMPT, logits);
    double d = distance(rec, logits);
    print_message("%s: %.1e × std from transformers\n", family, d);
    assert_true(d <= TOLERANCE);
    double std = json_number_value(json_object_get(rec, "std"));
    for (uint32_t n = 0; n < GREEDY; n++) {
        tok_id want = (tok_id)number(json_object_get(greedy, "ids"), n);
        double margin = number(json_object_get(greedy, "margins"), n);
        tok_id got = best(logits + (size_t)(TINY_PROMPT + n - 1) * TINY_VOCAB);
        if (margin > 10 * TOLERANCE * std)
            assert_int_equal(got, want);
        ids[TINY_PROMPT + n] = want;
        feed_logits(&f, ids, TINY_PROMPT + n + 1, 64, logits);
    }
    json_decref(rec);
    feed_release(&f);
    free(logits);
}

static void test_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < TINY_FAMILIES; i++)
        check_family(tiny_families[i]);
}

/* Law L1 on every family: the bits do not depend on chunks or threads. */
static void test_chunks_and_threads(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 7, 33, TINY_PROMPT};
    size_t n = (size_t)TINY_PROMPT * TINY_VOCAB;
    float *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
    tok_id ids[TINY_PROMPT];
    for (size_t i = 0; i < TINY_PROMPT; i++)
        ids[i] = tiny_prompt(i);
    for (size_t k = 0; k < TINY_FAMILIES; k++)
        for (int threads = 1; threads <= 3; threads++) {
            struct feed f;
            open_tiny(&f, tiny_families[k], TINY_F32, false, threads, KERN_KV_F16);
            for (size_t c = 0; c < 4; c++) {
                feed_logits(&f, ids, TINY_PROMPT, chunks[c], threads == 1 && c == 0 ? want : got);
                if (threads > 1 || c > 0)
                    assert_memory_equal(want, got, n * sizeof *want);
            }
            feed_release(&f);
        }
    free(want);
    free(got);
}

static void test_rounded_twins(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        enum tiny_type type;
    } cases[] = {{"llama", TINY_F16},       {"qwen2", TINY_BF16},      {"smollm2", TINY_Q4_1},   {"llama", TINY_Q4_0},
                 {"qwen3", TINY_Q8_0},      {"gemma3", TINY_Q5_0},     {"qwen2", TINY_Q5_1},     {"llama256", TINY_Q4_K},
                 {"gemma3_256", TINY_Q5_K}, {"gemma3_256", TINY_Q6_K}, {"llama256", TINY_Q6_K},
                 {"llama256", TINY_Q2_K},   {"gemma3_256", TINY_Q3_K}, {"llama256", TINY_Q3_K},  {"gemma3", TINY_IQ4_NL},
                 {"llama256", TINY_IQ4_XS}, {"qwen3", TINY_MXFP4}};
    size_t n = (size_t)TINY_PROMPT * TINY_VOCAB;
    float *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b);
    tok_id ids[TINY_PROMPT];
    for (size_t i = 0; i < TINY_PROMPT; i++)
        ids[i] = tiny_prompt(i);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct feed f, g;
        open_tiny(&f, cases[c].family, cases[c].type, false, 2, KERN_KV_F32);
        open_tiny(&g, cases[c].family, cases[c].type, true, 2, KERN_KV_F32);
        feed_logits(&f, ids, TINY_PROMPT, 64, a);
        feed_logits(&g, ids, TINY_PROMPT, 64, b);
        double sum = 0, sq = 0, err = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)b[i];
            sq += (double)b[i] * (double)b[i];
            err += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        }
        double std = sqrt(sq / (double)n - sum / (double)n * (sum / (double)n)), rms = sqrt(err / (double)n) / std;
        print_message("%s as type %d: %.1e × std rms from its rounded twin\n", cases[c].family, (int)cases[c].type, rms);
        assert_true(rms <= (cases[c].type == TINY_F16 || cases[c].type == TINY_BF16 ? 1e-5 : 0.04));
        feed_release(&f);
        feed_release(&g);
    }
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_chunks_and_threads),
        cmocka_unit_test(test_rounded_twins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
