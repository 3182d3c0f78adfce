/* attn: attention, its fold, and the storing of K and V, over pages in random order. */
#include <stdio.h>
#include <string.h>

#include "check.h"

struct cache {
    struct kern_kv_view view;
    uint32_t *table;
    size_t bytes;
};

/* A cache of `positions` in shuffled blocks; what was not stored is NaN, so that reading it shows. */
static struct cache make_cache(struct check *c, uint32_t positions, uint32_t hd, enum kern_kv format)
{
    uint32_t blocks = (positions + KERN_KV_TOKENS - 1) / KERN_KV_TOKENS;
    size_t half = (size_t)hd * KERN_KV_TOKENS * (format == KERN_KV_F32 ? 4 : 2);
    struct cache k = {.bytes = 2 * half * blocks};
    k.table = guard_alloc(blocks * sizeof *k.table, 4);
    shuffled(c, k.table, blocks);
    k.view = (struct kern_kv_view){guard_alloc(k.bytes, 64), k.table, 2 * half, 0, half, format, hd};
    memset(k.view.base, 0xFF, k.bytes);
    return k;
}

static void fill_cache(struct check *c, struct cache *k, uint32_t positions)
{
    uint32_t hd = k->view.head_dim, step = 7;
    for (uint32_t p = 0; p < positions; p += step) {
        uint32_t n = positions - p < step ? positions - p : step, stride = hd + 3;
        float *kv = guard_alloc((size_t)2 * n * stride * 4, 4);
        for (uint32_t i = 0; i < 2 * n * stride; i++)
            kv[i] = rnd_float(c, 2);
        kern_level_ops(KERN_REF)->kv_store(&k->view, p, n, kv, kv + (size_t)n * stride, stride);
        struct kern_kv_view other = k->view;
        other.base = guard_alloc(k->bytes, 64);
        memcpy(other.base, k->view.base, k->bytes);
        c->ops->kv_store(&other, p, n, kv, kv + (size_t)n * stride, stride);
        if (p < 5 * step)
            same(c, "kv_store", k->view.base, other.base, k->bytes);
    }
}

struct shape {
    uint32_t queries, heads, hd, pos0, window;
    enum kern_kv format;
    float softcap;
    bool nan_key;
    uint32_t keys; /* that there are, where queries look ahead */
};

static void one_nan(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : __builtin_nanf("");
}

static void spoil_key(struct cache *k, uint32_t pos)
{
    size_t esize = k->view.format == KERN_KV_F32 ? 4 : 2;
    uint8_t *block = k->view.base + (size_t)k->table[pos / KERN_KV_TOKENS] * k->view.block_bytes;
    memset(block + k->view.k_offset + pos % KERN_KV_TOKENS * esize, 0xFF, esize);
}

static void one_attn(struct check *c, struct shape s)
{
    char what[128];
    snprintf(what, sizeof what, "attn %u queries × %u heads of %u at %u, window %u, of %u, f%d, softcap %g%s", s.queries,
             s.heads, s.hd, s.pos0, s.window, s.keys, s.format == KERN_KV_F32 ? 32 : 16, (double)s.softcap,
             s.nan_key ? ", a NaN key" : "");
    uint32_t positions = s.keys ? s.keys : s.pos0 + s.queries;
    struct cache k = make_cache(c, positions, s.hd, s.format);
    fill_cache(c, &k, positions);
    size_t q_token = (size_t)s.heads * s.hd + 5, size = s.hd + KERN_ACC_EXTRA;
    float *q = guard_alloc(q_token * s.queries * 4, 4);
    for (size_t i = 0; i < q_token * s.queries; i++)
        q[i] = rnd_float(c, 2);
    struct kern_attn a = {.kv = k.view, .q = q, .q_token = q_token, .queries = s.queries, .heads = s.heads,
                          .pos0 = s.pos0, .window = s.window, .keys = s.keys, .scale = 0.125f, .softcap = s.softcap};
    uint64_t first, last, ignored;
    kern_attn_sees(s.window, s.keys, s.pos0, &first, &ignored);
    kern_attn_sees(s.window, s.keys, s.pos0 + s.queries - 1, &ignored, &last);
    a.part0 = first / KERN_PARTIAL;
    a.part1 = (last - 1) / KERN_PARTIAL + 1;
    size_t vectors = (size_t)s.queries * s.heads, parts = a.part1 - a.part0, n = parts * vectors * size;
    float *want = guard_alloc(n * 4, 4), *got = guard_alloc(n * 4, 4);
    void *scratch = guard_alloc(KERN_ATTN_SCRATCH, 64);
    if (s.nan_key) /* one key of the cache is not a number: all who see it, and nobody else, must notice */
        spoil_key(&k, s.pos0);
    kern_level_ops(KERN_REF)->attn(&a, want, scratch);
    c->ops->attn(&a, got, scratch);
    one_nan(want, n);
    one_nan(got, n);
    same(c, what, want, got, n * 4);
    for (size_t v = 0; v < vectors; v += 3) {
        float *run[2], *out[2];
        for (int l = 0; l < 2; l++) {
            const struct kern_ops *ops = l ? c->ops : kern_level_ops(KERN_REF);
            run[l] = guard_alloc(size * 4, 4);
            out[l] = guard_alloc(s.hd * 4, 4);
            memset(run[l], 0, size * 4);
            for (size_t p = 0; p < parts; p++)
                ops->attn_fold(run[l], want + (p * vectors + v) * size, s.hd);
            ops->attn_finish(run[l], s.hd, out[l]);
        }
        same(c, "attn_fold", run[0], run[1], size * 4);
        same(c, "attn_finish", out[0], out[1], s.hd * 4);
    }
    guard_release();
}

void check_attn(struct check *c)
{
    static const struct shape shapes[] = {
        {1, 1, 64, 0, 0, KERN_KV_F16, 0, false, 0},
        {1, 3, 64, 31, 0, KERN_KV_F16, 0, false, 0},
        {1, 3, 64, 32, 0, KERN_KV_F32, 0, false, 0},
        {16, 3, 64, 0, 0, KERN_KV_F16, 0, false, 0},
        {16, 4, 256, 500, 0, KERN_KV_F16, 0, false, 0},
        {5, 4, 32, 250, 0, KERN_KV_F32, 0, false, 0},
        {3, 2, 80, 255, 0, KERN_KV_F16, 0, false, 0},
        {7, 1, 16, 511, 0, KERN_KV_F16, 30, false, 0},
        {16, 4, 64, 40, 16, KERN_KV_F32, 0, false, 0},
        {16, 1, 128, 700, 512, KERN_KV_F16, 0, false, 0},
        {2, 8, 64, 300, 33, KERN_KV_F16, 50, false, 0},
        {64, 1, 48, 230, 31, KERN_KV_F32, 0, false, 0},
        {1, 7, 96, 256, 1, KERN_KV_F16, 0, false, 0},
        {13, 3, 64, 246, 10, KERN_KV_F16, 0, false, 0},
        {1, 64, 16, 77, 0, KERN_KV_F16, 0, false, 0},
        {4, 2, 512, 100, 0, KERN_KV_F16, 0, false, 0},
        /* each number of vectors that a tile can have, alone; head sizes that leave 16 lanes over */
        {1, 1, 80, 290, 0, KERN_KV_F16, 0, false, 0},
        {1, 2, 48, 300, 0, KERN_KV_F16, 0, false, 0},
        {1, 3, 80, 600, 0, KERN_KV_F16, 0, false, 0},
        {1, 3, 48, 520, 100, KERN_KV_F32, 0, false, 0},
        {1, 4, 64, 527, 0, KERN_KV_F16, 0, false, 0},
        {1, 5, 80, 300, 0, KERN_KV_F16, 0, false, 0},
        {1, 6, 128, 290, 0, KERN_KV_F16, 0, false, 0},
        {1, 7, 48, 289, 0, KERN_KV_F32, 0, false, 0},
        {1, 8, 80, 1030, 0, KERN_KV_F16, 0, false, 0},
        {17, 1, 16, 480, 0, KERN_KV_F16, 0, false, 0},
        {9, 3, 64, 100, 0, KERN_KV_F16, 0, true, 0},
        {9, 3, 64, 100, 3, KERN_KV_F32, 0, true, 0},
        /* looking ahead: to the end, within even and odd windows, at a partial's edges, at the first key and the last */
        {1, 1, 64, 0, 0, KERN_KV_F16, 0, false, 1},
        {16, 3, 64, 0, 0, KERN_KV_F16, 0, false, 300},
        {5, 1, 256, 250, 0, KERN_KV_F32, 0, false, 777},
        {16, 4, 64, 40, 16, KERN_KV_F32, 0, false, 60},
        {16, 1, 128, 700, 513, KERN_KV_F16, 0, false, 1030},
        {7, 2, 80, 252, 10, KERN_KV_F16, 30, false, 600},
        {3, 1, 48, 511, 1, KERN_KV_F16, 0, false, 520},
        {64, 1, 16, 0, 512, KERN_KV_F16, 0, false, 64},
        {9, 3, 64, 100, 7, KERN_KV_F32, 0, true, 130},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        one_attn(c, shapes[i]);
}
