/* kv: reference counts, page tables, windows, and what running out leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/kv.h"

static struct kv_config config(uint32_t positions, uint32_t rows, uint32_t context, uint32_t window, uint32_t span)
{
    struct kv_config cfg = {.format = KERN_KV_F32, .groups = window ? 2 : 1, .positions = positions, .rows = rows,
                            .context = context, .span = span};
    cfg.group[0] = (struct kv_shape){.layers = 2, .heads = 3, .head_dim = 8};
    cfg.group[1] = (struct kv_shape){.layers = 4, .heads = 1, .head_dim = 16, .window = window};
    return cfg;
}

static struct kv_pool *pool(struct kv_config cfg)
{
    struct kv_pool *p;
    assert_int_equal(kv_pool_new(&p, &cfg, NULL), ST_OK);
    return p;
}

static void test_sizes(void **state)
{
    (void)state;
    struct kv_config cfg = config(1000, 4, 500, 64, 32);
    assert_int_equal(kv_position_bytes(&cfg), 4 * 2 * (2 * 3 * 8 + 4 * 16));
    struct kv_pool *p = pool(cfg);
    assert_int_equal(kv_pool_unused(p, 0), 32);
    assert_int_equal(kv_pool_unused(p, 1), 4 * ((64 + 32) / 32 + 2));
    assert_int_equal(kv_pool_bytes(p), kv_config_bytes(&cfg));
    assert_int_equal(kv_pool_bytes(p), 32 * (32 * 4 * 2 * 48) + 20 * (32 * 4 * 2 * 64));
    kv_pool_free(p);
    kv_pool_free(NULL);
}

static void test_bad_config(void **state)
{
    (void)state;
    struct kv_pool *p;
    struct err e;
    struct kv_config cfg = config(1000, 4, 500, 0, 0);
    cfg.groups = 0;
    assert_int_equal(kv_pool_new(&p, &cfg, &e), ST_ARGUMENT);
    assert_null(p);
    cfg = config(UINT32_MAX, 4, 500, 0, 0);
    cfg.group[0] = (struct kv_shape){.layers = 512, .heads = 1024, .head_dim = 512};
    assert_int_equal(kv_pool_new(&p, &cfg, &e), ST_NEVER_FITS);
    assert_null(p);
    cfg = config(1000, 4, 500, 0, 0);
    cfg.group[0].heads = 0;
    assert_int_equal(kv_pool_new(&p, &cfg, &e), ST_ARGUMENT);
}

static void test_blocks(void **state)
{
    (void)state;
    struct kv_pool *p = pool(config(3 * KV_BLOCK, 4, 96, 0, 0));
    uint32_t a = kv_pool_take(p, 0), b = kv_pool_take(p, 0), c = kv_pool_take(p, 0);
    assert_true(a != b && b != c && a != c && a < 3 && b < 3 && c < 3);
    assert_int_equal(kv_pool_take(p, 0), KV_NONE);
    kv_pool_retain(p, 0, b);
    kv_pool_drop(p, 0, b);
    assert_int_equal(kv_pool_unused(p, 0), 0);
    kv_pool_drop(p, 0, b);
    assert_int_equal(kv_pool_unused(p, 0), 1);
    assert_int_equal(kv_pool_take(p, 0), b);
    kv_pool_free(p);
}

static void test_sequence(void **state)
{
    (void)state;
    struct kv_pool *p = pool(config(10 * KV_BLOCK, 4, 200, 0, 0));
    struct kv_seq s;
    assert_int_equal(kv_seq_init(&s, p, NULL), ST_OK);
    assert_int_equal(s.table[0][0], KV_NONE);
    assert_int_equal(kv_seq_reserve(&s, 0, NULL), ST_OK);
    assert_int_equal(s.room, 0);
    assert_int_equal(kv_seq_reserve(&s, 33, NULL), ST_OK);
    assert_int_equal(s.room, 64);
    assert_int_equal(kv_pool_unused(p, 0), 8);
    kv_seq_commit(&s, 32);
    assert_true(s.table[0][1] != KV_NONE); /* stays until the sequence ends */
    struct err e;
    assert_int_equal(kv_seq_reserve(&s, 169, &e), ST_TOO_LONG);
    assert_int_equal(kv_seq_reserve(&s, UINT32_MAX, &e), ST_TOO_LONG);
    assert_int_equal(kv_seq_reserve(&s, 168, &e), ST_OK); /* the context is not a multiple of a block */
    assert_int_equal(s.room, 224);
    kv_seq_commit(&s, 168);
    kv_seq_clear(&s);
    assert_int_equal(kv_pool_unused(p, 0), 10);
    assert_int_equal(s.len, 0);
    kv_seq_release(&s);
    kv_seq_release(&s);
    kv_pool_free(p);
}

static void test_running_out_keeps_nothing(void **state)
{
    (void)state;
    struct kv_pool *p = pool(config(4 * KV_BLOCK, 4, 128, 40, 64));
    struct kv_seq a, b;
    struct err e;
    assert_int_equal(kv_seq_init(&a, p, NULL), ST_OK);
    assert_int_equal(kv_seq_init(&b, p, NULL), ST_OK);
    assert_int_equal(kv_seq_reserve(&a, 64, NULL), ST_OK);
    uint32_t unused0 = kv_pool_unused(p, 0), unused1 = kv_pool_unused(p, 1);
    assert_int_equal(kv_seq_reserve(&b, 65, &e), ST_BUSY);
    assert_int_equal(b.room, 0);
    assert_int_equal(kv_pool_unused(p, 0), unused0);
    assert_int_equal(kv_pool_unused(p, 1), unused1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(b.table[0][i], KV_NONE);
    assert_int_equal(kv_seq_reserve(&b, 64, &e), ST_OK);
    kv_seq_release(&a);
    kv_seq_release(&b);
    assert_int_equal(kv_pool_unused(p, 0), 4);
    kv_pool_free(p);
}

/* Entries in front of the window are held, those behind it are not, whatever the spans; and a row that keeps its spans
 * within cfg.span never finds its sliding group empty. */
static void test_window(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 2, 31, 32, 33, 64, 100};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        uint32_t window = windows[w], span = 48, rows = 3;
        struct kv_pool *p = pool(config(rows * 640, rows, 640, window, span));
        struct kv_seq s[3];
        uint32_t all[2] = {kv_pool_unused(p, 0), kv_pool_unused(p, 1)};
        for (uint32_t r = 0; r < rows; r++)
            assert_int_equal(kv_seq_init(&s[r], p, NULL), ST_OK);
        for (uint32_t turn = 0; turn < 400; turn++) {
            struct kv_seq *q = &s[turn % rows];
            uint32_t n = 1 + (turn * 7919u) % span;
            if (q->len + n > 640)
                continue;
            assert_int_equal(kv_seq_reserve(q, n, NULL), ST_OK);
            kv_seq_commit(q, n);
            for (uint32_t b = 0; b < q->room / KV_BLOCK; b++) {
                bool behind = b * KV_BLOCK + KV_BLOCK - 1 + window < q->len + 1;
                assert_int_equal(q->table[1][b] == KV_NONE, behind);
                assert_true(q->table[0][b] != KV_NONE);
            }
        }
        for (uint32_t r = 0; r < rows; r++)
            kv_seq_release(&s[r]);
        assert_int_equal(kv_pool_unused(p, 0), all[0]);
        assert_int_equal(kv_pool_unused(p, 1), all[1]);
        kv_pool_free(p);
    }
}

/* Whatever was fed and taken back: a cut within `back` of the furthest length works and leaves every key that the next
 * query sees; beyond that it works exactly when they are all still there; and the sliding group never runs out. */
static void test_cut(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 2, 31, 32, 33, 64, 100};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        uint32_t window = windows[w], span = 48, back = 40, refused = 0;
        struct kv_config cfg = config(640, 1, 640, window, span);
        cfg.back = back;
        struct kv_pool *p = pool(cfg);
        struct kv_seq s;
        assert_int_equal(kv_seq_init(&s, p, NULL), ST_OK);
        uint32_t all = kv_pool_unused(p, 1), furthest = 0;
        for (uint32_t turn = 0; turn < 2000; turn++) {
            uint32_t n = 1 + (turn * 7919u) % span;
            if (s.len + n > 640) {
                kv_seq_clear(&s);
                furthest = 0;
            }
            assert_int_equal(kv_seq_reserve(&s, n, NULL), ST_OK);
            kv_seq_commit(&s, n);
            furthest = s.len > furthest ? s.len : furthest;
            uint32_t len = s.len, by = (turn * 104729u) % (turn % 3 ? back + 1 : 200), to = by < len ? len - by : 0;
            uint32_t first = to + 1 > window ? (to + 1 - window) / KV_BLOCK : 0;
            bool there = true, works = kv_seq_cut(&s, to);
            for (uint32_t b = first; b < s.room / KV_BLOCK; b++) {
                there &= s.table[1][b] != KV_NONE;
                assert_true(s.table[0][b] != KV_NONE);
            }
            assert_int_equal(works, there);
            assert_true(works || to + back < furthest);
            assert_int_equal(s.len, works ? to : len);
            refused += !works;
            kv_verify(p, &s, 1);
        }
        assert_true(refused > 0);
        kv_seq_release(&s);
        assert_int_equal(kv_pool_unused(p, 1), all);
        kv_pool_free(p);
    }
}

/* The parts of all layers and heads tile a block: no overlap, no gap, all within the pool. */
static void test_view(void **state)
{
    (void)state;
    struct kv_config cfg = config(2 * KV_BLOCK, 1, 64, 0, 0);
    cfg.format = KERN_KV_F16;
    struct kv_pool *p = pool(cfg);
    struct kv_seq s;
    assert_int_equal(kv_seq_init(&s, p, NULL), ST_OK);
    assert_int_equal(kv_seq_reserve(&s, 64, NULL), ST_OK);
    size_t next = 0;
    for (uint32_t l = 0; l < 2; l++)
        for (uint32_t h = 0; h < 3; h++) {
            struct kern_kv_view v = kv_view(&s, 0, l, h);
            assert_int_equal(v.k_offset, next);
            assert_int_equal(v.v_offset, next + 8 * 32 * 2);
            assert_int_equal(v.head_dim, 8);
            assert_int_equal((uintptr_t)(v.base + v.k_offset) % 64, 0);
            next += 2 * 8 * 32 * 2;
            for (uint32_t b = 0; b < 2; b++)
                memset(v.base + v.table[b] * v.block_bytes + v.k_offset, (int)(b + 1), 8 * 32 * 2);
        }
    assert_int_equal(kv_view(&s, 0, 0, 0).block_bytes, next);
    kv_seq_release(&s);
    kv_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_blocks),   cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_running_out_keeps_nothing), cmocka_unit_test(test_window),
        cmocka_unit_test(test_cut),      cmocka_unit_test(test_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
