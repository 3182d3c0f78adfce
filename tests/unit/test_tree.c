/* kv_tree: what is shared, what is copied, what is evicted, and that the counts always add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/kv.h"

#define WINDOW 70

struct world {
    struct kv_pool *pool;
    struct kv_tree *tree;
};

static struct world make(uint32_t positions, uint32_t rows, bool sliding)
{
    struct world w;
    struct kv_config cfg = {.format = KERN_KV_F32, .groups = sliding ? 2 : 1, .positions = positions, .rows = rows,
                            .context = 640, .span = 64, .cached = rows};
    cfg.group[0] = (struct kv_shape){.layers = 1, .heads = 1, .head_dim = 16};
    cfg.group[1] = (struct kv_shape){.layers = 2, .heads = 1, .head_dim = 16, .window = WINDOW};
    assert_int_equal(kv_pool_new(&w.pool, &cfg, NULL), ST_OK);
    assert_int_equal(kv_tree_new(&w.tree, w.pool, NULL), ST_OK);
    return w;
}

static void unmake(struct world *w)
{
    kv_tree_clear(w->tree);
    assert_int_equal(kv_tree_nodes(w->tree), 0);
    for (uint32_t g = 0; g < kv_pool_config(w->pool)->groups; g++) {
        uint32_t n = kv_pool_unused(w->pool, g), taken = 0;
        assert_int_equal(kv_pool_available(w->pool, g), n);
        while (kv_pool_take(w->pool, g) != KV_NONE)
            taken++;
        assert_int_equal(taken, n);
    }
    kv_tree_free(w->tree);
    kv_pool_free(w->pool);
}

static struct kv_seq seq(struct world *w)
{
    struct kv_seq s;
    assert_int_equal(kv_seq_init(&s, w->pool, NULL), ST_OK);
    return s;
}

/* The first float of every key is a hash of all ids up to that position: what a model would have computed from them. */
static float mark_of(const tok_id *ids, uint32_t pos)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i <= pos; i++)
        h = (h ^ (uint32_t)ids[i]) * 16777619u;
    return (float)(h >> 8);
}

static float *place(const struct kv_seq *s, uint32_t g, uint32_t pos)
{
    struct kern_kv_view v = kv_view(s, g, 0, 0);
    assert_true(v.table[pos / KV_BLOCK] != KV_NONE);
    return (float *)(v.base + v.table[pos / KV_BLOCK] * v.block_bytes + v.k_offset) + pos % KV_BLOCK;
}

static uint32_t first_visible(const struct kv_pool *p, uint32_t g, uint32_t len)
{
    uint32_t window = kv_pool_config(p)->group[g].window;
    return window && len + 1 > window ? len + 1 - window : 0;
}

/* Everything the next query sees is what these ids would have left. */
static void check_content(const struct kv_seq *s, const tok_id *ids)
{
    for (uint32_t g = 0; g < kv_pool_config(s->pool)->groups; g++)
        for (uint32_t p = first_visible(s->pool, g, s->len); p < s->len; p++)
            if (*place(s, g, p) != mark_of(ids, p))
                fail_msg("group %u position %u of %u is somebody else's", g, p, s->len);
}

static bool feed(struct world *w, struct kv_seq *s, uint64_t ns, const tok_id *ids, uint32_t n)
{
    while (s->len < n) {
        uint32_t m = n - s->len < 50 ? n - s->len : 50;
        if (kv_seq_reserve(s, m, NULL))
            return false;
        for (uint32_t g = 0; g < kv_pool_config(w->pool)->groups; g++)
            for (uint32_t i = 0; i < m; i++)
                *place(s, g, s->len + i) = mark_of(ids, s->len + i);
        kv_tree_publish(w->tree, ns, ids, s, s->len + m);
        kv_seq_commit(s, m);
        check_content(s, ids);
    }
    return true;
}

static void count_up(tok_id *ids, uint32_t n, tok_id from)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = from + (tok_id)i;
}

static void test_share(void **state)
{
    (void)state;
    struct world w = make(640, 2, false);
    struct kv_seq a = seq(&w), b = seq(&w);
    tok_id ids[200];
    count_up(ids, 200, 0);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 200, &a), 0);
    assert_true(feed(&w, &a, 0, ids, 150));
    assert_int_equal(kv_tree_nodes(w.tree), 4);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 200, &b), 128); /* while a still runs */
    assert_memory_equal(a.table[0], b.table[0], 4 * sizeof **a.table);
    check_content(&b, ids);
    assert_true(feed(&w, &b, 0, ids, 200));
    assert_true(a.table[0][4] != b.table[0][4]);
    kv_seq_clear(&a);
    check_content(&b, ids);
    kv_seq_clear(&b);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 129, &a), 128);
    kv_seq_clear(&a);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 128, &a), 127); /* one id is left to feed */
    check_content(&a, ids);
    kv_seq_clear(&a);
    assert_int_equal(kv_tree_match(w.tree, 1, ids, 200, &a), 0); /* another namespace */
    kv_seq_release(&a);
    kv_seq_release(&b);
    unmake(&w);
}

static void test_partial_copy(void **state)
{
    (void)state;
    struct world w = make(640, 3, true);
    struct kv_seq a = seq(&w), b = seq(&w), c = seq(&w);
    tok_id ids[200], fork[200];
    count_up(ids, 200, 0);
    count_up(fork, 200, 0);
    for (uint32_t i = 140; i < 200; i++)
        fork[i] = 7;
    assert_true(feed(&w, &a, 0, ids, 200));
    assert_int_equal(kv_tree_match(w.tree, 0, fork, 200, &b), 140);
    assert_true(b.table[0][4] != a.table[0][4]);
    check_content(&b, fork);
    assert_true(feed(&w, &b, 0, fork, 200)); /* writes into its copy */
    check_content(&a, ids);
    assert_int_equal(kv_tree_match(w.tree, 0, fork, 200, &c), 192);
    check_content(&c, fork);
    kv_seq_release(&a);
    kv_seq_release(&b);
    kv_seq_release(&c);
    unmake(&w);
}

static void test_eviction(void **state)
{
    (void)state;
    struct world w = make(320, 2, false);
    struct kv_seq a = seq(&w), b = seq(&w);
    tok_id ids[3][320];
    for (int i = 0; i < 3; i++)
        count_up(ids[i], 320, 1000 * i);
    assert_true(feed(&w, &a, 0, ids[0], 96));
    kv_seq_clear(&a);
    assert_true(feed(&w, &a, 0, ids[1], 96));
    kv_seq_clear(&a);
    assert_int_equal(kv_pool_unused(w.pool, 0), 4);
    assert_int_equal(kv_pool_available(w.pool, 0), 10);
    assert_int_equal(kv_tree_match(w.tree, 0, ids[0], 97, &b), 96); /* used again: ids[1] is the oldest now */
    assert_int_equal(kv_pool_available(w.pool, 0), 7);
    assert_true(feed(&w, &a, 0, ids[2], 160)); /* five blocks: one of ids[1] has to go, its last */
    kv_seq_clear(&a);
    check_content(&b, ids[0]);
    assert_int_equal(kv_tree_match(w.tree, 0, ids[1], 97, &a), 64);
    kv_seq_clear(&a);
    assert_false(feed(&w, &a, 0, ids[1], 320)); /* b holds three of ten */
    kv_seq_clear(&b);
    assert_true(feed(&w, &a, 0, ids[1], 320));
    kv_seq_release(&a);
    kv_seq_release(&b);
    unmake(&w);
}

/* What a sequence fed into its last block is found again though the block was never full; other ids are not. */
static void test_tail(void **state)
{
    (void)state;
    struct world w = make(2000, 4, true);
    struct kv_seq a = seq(&w), b = seq(&w);
    tok_id ids[200], other[200];
    count_up(ids, 200, 0);
    count_up(other, 200, 0);
    other[105] = 9;
    assert_true(feed(&w, &a, 0, ids, 110));
    kv_tree_publish_tail(w.tree, 0, ids, &a);
    kv_tree_publish_tail(w.tree, 0, ids, &a); /* once is enough */
    assert_int_equal(kv_tree_nodes(w.tree), 4);
    kv_seq_clear(&a);
    assert_int_equal(kv_tree_peek(w.tree, 0, ids, 200).miss, KV_MISS_NEW);
    assert_int_equal(kv_tree_peek(w.tree, 0, other, 200).miss, KV_MISS_DIFFERS);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 200, &a), 110);
    check_content(&a, ids);
    assert_int_equal(kv_tree_match(w.tree, 0, other, 200, &b), 105);
    check_content(&b, other);
    assert_true(feed(&w, &b, 0, other, 140)); /* into a copy */
    assert_true(feed(&w, &a, 0, ids, 130));
    check_content(&a, ids);
    kv_seq_clear(&a);
    kv_seq_clear(&b);
    assert_int_equal(kv_tree_match(w.tree, 1, ids, 200, &a), 0); /* another namespace */
    kv_seq_release(&a);
    kv_seq_release(&b);
    unmake(&w);
}

/* A sliding group forgets the middle of a long sequence, so a fork there begins earlier; its end stays good. */
static void test_windows(void **state)
{
    (void)state;
    struct world w = make(1280, 1, true);
    struct kv_seq a = seq(&w);
    tok_id ids[600], other[600];
    count_up(ids, 600, 0);
    count_up(other, 600, 5000);
    assert_true(feed(&w, &a, 0, ids, 590));
    kv_seq_clear(&a);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 600, &a), 576);
    check_content(&a, ids);
    kv_seq_clear(&a);
    assert_true(feed(&w, &a, 0, other, 90)); /* takes sliding blocks: the middle of ids goes, its end does not */
    kv_seq_clear(&a);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 600, &a), 576);
    check_content(&a, ids);
    kv_seq_clear(&a);
    assert_int_equal(kv_tree_match(w.tree, 0, ids, 500, &a), 416); /* the windows after it have holes */
    check_content(&a, ids);
    kv_seq_release(&a);
    unmake(&w);
}

static void test_random(void **state)
{
    (void)state;
    enum { SEQS = 4, MOST = 400 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct world w = make(640 + 64 * (uint32_t)(seed % 9), SEQS, seed % 2);
        struct kv_seq s[SEQS];
        static tok_id ids[SEQS][MOST];
        uint32_t r[4];
        for (int i = 0; i < SEQS; i++)
            s[i] = seq(&w);
        for (uint32_t step = 0; step < 60; step++) {
            rng_philox(seed, step, 0, r);
            int i = (int)(r[0] % SEQS);
            uint32_t n = 1 + r[1] % (MOST - 1);
            kv_seq_clear(&s[i]);
            if (r[2] % 8 == 0)
                continue;
            for (uint32_t k = 0; k < n; k++) { /* few distinct ids and forks: many common prefixes */
                uint32_t f[4];
                rng_philox(seed, k / 37, k < r[3] % MOST ? 1 : 2 + r[2] % 3, f);
                ids[i][k] = (tok_id)(f[0] % 5);
            }
            uint32_t got = kv_tree_match(w.tree, r[2] % 2, ids[i], n, &s[i]);
            assert_true(got < n);
            check_content(&s[i], ids[i]);
            feed(&w, &s[i], r[2] % 2, ids[i], n);
            for (int k = 0; k < SEQS; k++)
                check_content(&s[k], ids[k]);
        }
        for (int i = 0; i < SEQS; i++)
            kv_seq_release(&s[i]);
        unmake(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),   cmocka_unit_test(test_partial_copy), cmocka_unit_test(test_eviction),
        cmocka_unit_test(test_windows), cmocka_unit_test(test_random),       cmocka_unit_test(test_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
