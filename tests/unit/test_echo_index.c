/* source: the index of earlier occurrences is what brute force finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/index.h"

enum { MAX = 4000 };

static uint32_t draw(uint32_t stream, uint32_t i, uint32_t below)
{
    return (uint32_t)(rng_uniform(stream, 0, i, RNG_FINAL) * (float)below);
}

/* Few different ids, so that grams come again. */
static void fill(tok_id *ids, uint32_t n, uint32_t stream, uint32_t kinds)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (tok_id)(10 + draw(stream, i, kinds));
}

/* Ends e < known, e <= cap, of the gram before n: the nearest first. */
static uint32_t brute(const tok_id *ids, uint32_t k, uint32_t known, uint32_t cap, uint32_t n, uint32_t *ends,
                      uint32_t most)
{
    uint32_t found = 0;
    for (uint32_t e = known - 1; e >= k && found < most; e--)
        if (e <= cap && memcmp(ids + e - k, ids + n - k, k * sizeof *ids) == 0)
            ends[found++] = e;
    return found;
}

/* Every place of ids[0, n) as the end of what is looked up. */
static void check_index(const struct source_index *x, const tok_id *ids, uint32_t known, uint32_t n)
{
    static uint32_t got[MAX], want[MAX];
    for (uint32_t most = 1; most <= MAX; most += MAX - 1)
        for (uint32_t at = x->k; at <= n; at++) {
            const uint32_t found = source_index_find(x, ids, at, got, most);
            assert_int_equal(found, brute(ids, x->k, known, x->cap, at, want, most));
            assert_memory_equal(got, want, found * sizeof *got);
        }
}

static void test_index_is_brute_force(void **state)
{
    static const struct {
        uint32_t k, kinds, n;
    } cases[] = {{1, 2, 300},  {2, 3, 600},  {3, 4, 900}, {8, 2, 1500}, {8, 1, 200},
                 {8, 50, 400}, {8, 2, 8},   {8, 2, 9},   {8, 2, 3}};
    tok_id ids[MAX];
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct source_index x;
        fill(ids, cases[i].n, (uint32_t)i, cases[i].kinds);
        assert_int_equal(source_index_init(&x, cases[i].k, cases[i].n, LIMIT_ECHO, &e), ST_OK);
        source_index_extend(&x, ids, cases[i].n);
        check_index(&x, ids, cases[i].n, cases[i].n);
        source_index_release(&x);
    }
}

static void test_index_grows(void **state)
{
    enum { N = 700 };
    tok_id ids[N];
    struct source_index bulk, bits;
    struct err e;
    (void)state;
    fill(ids, N, 3, 2);
    assert_int_equal(source_index_init(&bulk, 8, N, LIMIT_ECHO, &e), ST_OK);
    assert_int_equal(source_index_init(&bits, 8, N, LIMIT_ECHO, &e), ST_OK);
    for (uint32_t n = 0, i = 0; n < N; n += draw(4, i++, 20)) {
        source_index_extend(&bits, ids, n);
        source_index_extend(&bits, ids, n); /* nothing new */
        if (n > 8 && i % 8 == 0)
            check_index(&bits, ids, n, n);
    }
    source_index_extend(&bits, ids, N);
    source_index_extend(&bulk, ids, N);
    assert_int_equal(bits.mask, bulk.mask);
    assert_memory_equal(bits.last, bulk.last, (bits.mask + 1) * sizeof *bits.last);
    assert_memory_equal(bits.before, bulk.before, (bits.cap + 1) * sizeof *bits.before);
    source_index_release(&bits);
    source_index_release(&bulk);
}

static void test_index_freezes(void **state)
{
    enum { N = 900, CAP = 300 };
    tok_id ids[N];
    struct source_index x;
    struct err e;
    (void)state;
    fill(ids, N, 5, 2);
    assert_int_equal(source_index_init(&x, 8, N, CAP, &e), ST_OK);
    assert_int_equal(x.cap, CAP);
    for (uint32_t n = 0; n <= N; n += 50) {
        source_index_extend(&x, ids, n);
        if (n)
            check_index(&x, ids, n, n);
    }
    assert_int_equal(x.next, CAP + 1);
    source_index_release(&x);
    source_index_release(&x);
}

/* What has nothing behind it is not found: neither the gram looked up, nor the one that ends with what is known. */
static void test_index_continues(void **state)
{
    tok_id ids[20];
    uint32_t ends[20];
    struct source_index x;
    struct err e;
    (void)state;
    for (int i = 0; i < 20; i++)
        ids[i] = i % 10;
    assert_int_equal(source_index_init(&x, 8, 20, LIMIT_ECHO, &e), ST_OK);
    source_index_extend(&x, ids, 8);
    assert_int_equal(source_index_find(&x, ids, 8, ends, 20), 0);
    assert_int_equal(source_index_find(&x, ids, 18, ends, 20), 0);
    source_index_extend(&x, ids, 9);
    assert_int_equal(source_index_find(&x, ids, 18, ends, 20), 1);
    assert_int_equal(ends[0], 8);
    assert_int_equal(source_index_find(&x, ids, 7, ends, 20), 0);
    source_index_release(&x);
}

/* Different grams that begin in the same slot: as many as there are probes are told apart, the rest are left out. */
static void test_index_collisions(void **state)
{
    enum { SAME = 100, K = 2, CAP = 4 * SAME };
    static tok_id ids[CAP];
    uint32_t end, found = 0, n = 0;
    struct source_index x;
    struct err e;
    (void)state;
    assert_int_equal(source_index_init(&x, K, CAP, CAP, &e), ST_OK);
    for (tok_id v = 0; n < K * SAME; v++) { /* ids stand for themselves once, so that the grams between differ */
        const tok_id gram[K] = {2 * v, 2 * v + 1};
        if ((source_index_hash(gram, K) & x.mask) != 7)
            continue;
        ids[n++] = gram[0];
        ids[n++] = gram[1];
    }
    source_index_extend(&x, ids, n);
    for (uint32_t at = K; at < n; at += K)
        if (source_index_find(&x, ids, at, &end, 1)) {
            assert_int_equal(end, at);
            found++;
        }
    assert_in_range(found, 30, 64);
    memcpy(ids + n, ids, K * sizeof *ids); /* the first of them, again, behind all */
    assert_int_equal(source_index_find(&x, ids, n + K, &end, 1), 1);
    assert_int_equal(end, K);
    source_index_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_is_brute_force),
        cmocka_unit_test(test_index_grows),
        cmocka_unit_test(test_index_freezes),
        cmocka_unit_test(test_index_continues),
        cmocka_unit_test(test_index_collisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
