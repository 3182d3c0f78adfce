/*
 * attn: attention on 16 lanes; equals ref/attn.c bit by bit. Included once by each level's ops.c after simd/ops.h.
 *
 * A call meets one partial after the other: scores of all its blocks, weights, values of all its blocks. Query vectors go
 * in tiles that share each load of K and V (product.h). With few of them the memory is what takes time, so while one
 * block is met the next one is fetched, wherever the page table says it is.
 */
#ifndef KERN_SIMD_ATTN_H
#define KERN_SIMD_ATTN_H

#include "kern/simd/ops.h"
#include "kern/simd/product.h"

/* What is worked on: all query vectors of one partial. Keys are counted from its first. */
struct attn_job {
    const struct kern_attn *a;
    float (*e)[KERN_PARTIAL];                /* of each vector: scores, then exp(score - m) */
    uint32_t n, tiles, tile;                 /* query vectors: queries × heads, head fastest; in so many tiles of so many */
    uint64_t part;
    uint32_t lo[KERN_ATTN_VECTORS], hi[KERN_ATTN_VECTORS]; /* live keys of each vector */
    uint32_t from, to;                       /* keys any of them sees */
    uint32_t all_from, all_to;               /* keys all of them see */
    float *acc[KERN_ATTN_VECTORS];
    const float *q[KERN_ATTN_VECTORS];
};

/* K or V (at `offset`) of the block that holds a key of partial `part`. */
static const uint8_t *block_at(const struct kern_attn *a, uint64_t part, uint32_t key, size_t offset)
{
    uint64_t block = part * (KERN_PARTIAL / KERN_KV_TOKENS) + key / KERN_KV_TOKENS;
    return a->kv.base + (size_t)a->kv.table[block] * a->kv.block_bytes + offset;
}

/* The block at m, while which `next` is fetched, or nothing when that is NULL. */
static struct matrix block_matrix(const struct attn_job *j, const uint8_t *m, const uint8_t *next, uint32_t rows,
                                  uint32_t lanes)
{
    enum kern_kv format = j->a->kv.format;
    size_t bytes = (size_t)rows * lanes * kv_size(format);
    return (struct matrix){format, m, lanes, rows, lanes, next ? next : m, next ? bytes / j->tiles : 0};
}

/* The vectors from r on that make a tile; their part of what is fetched follows on that of the tile before. */
static uint32_t next_tile(const struct attn_job *j, uint32_t r, struct matrix *x)
{
    if (r)
        x->fetch += x->fetch_bytes;
    return j->n - r < j->tile ? j->n - r : j->tile;
}

static void job_scores(struct attn_job *j)
{
    const struct kern_attn *a = j->a;
    size_t k = a->kv.k_offset, v = a->kv.v_offset;
    uint32_t first = j->from / KERN_KV_TOKENS * KERN_KV_TOKENS;
    for (uint32_t key = first; key < j->to; key += KERN_KV_TOKENS) {
        const uint8_t *next = key + KERN_KV_TOKENS < j->to ? block_at(a, j->part, key + KERN_KV_TOKENS, k)
                                                           : block_at(a, j->part, first, v);
        struct matrix x = block_matrix(j, block_at(a, j->part, key, k), next, a->kv.head_dim, KERN_KV_TOKENS);
        for (uint32_t r = 0, nr; r < j->n; r += nr) {
            struct vectors t = {.fresh = true};
            nr = next_tile(j, r, &x);
            for (uint32_t i = 0; i < nr; i++) {
                t.s[i] = j->q[r + i];
                t.acc[i] = j->e[r + i] + key;
            }
            product(&x, &t, nr);
        }
    }
}

/* The scores of 16 keys from t on, scaled; -inf where a key is dead. */
VEC_INLINE vf scaled_scores(const struct attn_job *j, uint32_t r, uint32_t t)
{
    const struct kern_attn *a = j->a;
    vf s = vf_mul(vf_load(j->e[r] + t), vf_set1(a->scale)), cap = vf_set1(a->softcap);
    if (a->softcap > 0)
        s = vf_mul(cap, vf_tanh(vf_div(s, cap)));
    if (t >= j->lo[r] && t + 16 <= j->hi[r])
        return s;
    vi at = vi_add(vi_iota(), vi_set1((int32_t)t));
    vm live = vm_and(vi_gt(at, vi_set1((int32_t)j->lo[r] - 1)), vi_gt(vi_set1((int32_t)j->hi[r]), at));
    return vf_select(live, s, vf_set1(-INFINITY));
}

/* Scores to weights, in place; m and l of the accumulator. */
static void job_softmax(struct attn_job *j, uint32_t r)
{
    float *e = j->e[r], *ml = j->acc[r] + j->a->kv.head_dim;
    vf top = vf_set1(-INFINITY), sum = vf_zero();
    for (uint32_t t = j->lo[r] & ~15u; t < j->hi[r]; t += 16) {
        vf s = scaled_scores(j, r, t);
        top = vf_max(s, top);
        vf_store(e + t, s);
    }
    ml[0] = vf_top(top);
    vf m = vf_set1(ml[0]);
    for (uint32_t t = j->lo[r] & ~15u; t < j->hi[r]; t += 16) {
        vf x = exp_lanes(vf_sub(vf_load(e + t), m), 1);
        sum = vf_add(sum, x);
        vf_store(e + t, x);
    }
    ml[1] = vf_sum(sum);
}

/* Keys [lo, hi) of the block of values x, whose first key is b, for query vectors [r, r + nr). */
static void add_values(const struct attn_job *j, const struct matrix *x, uint32_t b, uint32_t lo, uint32_t hi, uint32_t r,
                       uint32_t nr)
{
    if (lo >= hi)
        return;
    struct matrix part = *x;
    struct vectors t = {.fresh = false};
    part.m += (size_t)(lo - b) * x->ld * kv_size(x->format);
    part.rows = hi - lo;
    for (uint32_t i = 0; i < nr; i++) {
        t.s[i] = j->e[r + i] + lo;
        t.acc[i] = j->acc[r + i];
    }
    product(&part, &t, nr);
}

static uint32_t clamp_key(uint32_t key, uint32_t b)
{
    return key < b ? b : key > b + KERN_KV_TOKENS ? b + KERN_KV_TOKENS : key;
}

/* A block that not all vectors see in full. Keys all vectors of the tile see are done together; the ragged ends before
 * and after one vector at a time, so that each vector still meets its keys in ascending order. */
static void ragged_values(const struct attn_job *j, const struct matrix *x, uint32_t b, uint32_t r, uint32_t nr)
{
    uint32_t lo = b, hi = b + KERN_KV_TOKENS, end = r + nr;
    for (uint32_t q = r; q < end; q++) {
        uint32_t l = clamp_key(j->lo[q], b), h = clamp_key(j->hi[q], b);
        lo = l > lo ? l : lo;
        hi = h < hi ? h : hi;
    }
    if (lo > hi)
        lo = hi = b + KERN_KV_TOKENS; /* nothing in common: all of it is ragged start */
    for (uint32_t q = r; q < end; q++) {
        uint32_t l = clamp_key(j->lo[q], b), h = clamp_key(j->hi[q], b);
        add_values(j, x, b, l, h < lo ? h : lo, q, 1);
    }
    add_values(j, x, b, lo, hi, r, nr);
    for (uint32_t q = r; q < end; q++) {
        uint32_t l = clamp_key(j->lo[q], b), h = clamp_key(j->hi[q], b);
        add_values(j, x, b, l > hi ? l : hi, h, q, 1);
    }
}

static void job_values(struct attn_job *j)
{
    const struct kern_attn *a = j->a;
    size_t k = a->kv.k_offset, v = a->kv.v_offset;
    for (uint32_t b = j->from / KERN_KV_TOKENS * KERN_KV_TOKENS; b < j->to; b += KERN_KV_TOKENS) {
        uint32_t end = b + KERN_KV_TOKENS;
        const uint8_t *next = end < j->to                 ? block_at(a, j->part, end, v)
                              : j->part + 1 < a->part1 ? block_at(a, j->part + 1, 0, k)
                                                         : NULL;
        struct matrix x = block_matrix(j, block_at(a, j->part, b, v), next, KERN_KV_TOKENS, a->kv.head_dim);
        bool whole = b >= j->all_from && end <= j->all_to;
        for (uint32_t r = 0, nr; r < j->n; r += nr) {
            nr = next_tile(j, r, &x);
            if (whole)
                add_values(j, &x, b, b, end, r, nr);
            else
                ragged_values(j, &x, b, r, nr);
        }
    }
}

/* Live keys of query i within the partial whose first key is `base`, counted from there. */
static void live_keys(const struct kern_attn *a, uint32_t i, uint64_t base, uint32_t *lo, uint32_t *hi)
{
    uint64_t start, end;
    kern_attn_sees(a->window, a->keys, a->pos0 + i, &start, &end);
    uint64_t h = end > base ? end - base : 0, l = start > base ? start - base : 0;
    *hi = h < KERN_PARTIAL ? (uint32_t)h : KERN_PARTIAL;
    *lo = l < KERN_PARTIAL ? (uint32_t)l : KERN_PARTIAL;
}

/* The vectors' live keys and places; a vector that sees nothing here has lo = hi = 0. */
static void begin_partial(struct attn_job *j, float *acc)
{
    const struct kern_attn *a = j->a;
    size_t size = a->kv.head_dim + KERN_ACC_EXTRA;
    j->from = j->all_to = KERN_PARTIAL;
    j->to = j->all_from = 0;
    for (uint32_t i = 0, r = 0; i < a->queries; i++) {
        uint32_t lo, hi;
        live_keys(a, i, j->part * KERN_PARTIAL, &lo, &hi);
        if (lo >= hi)
            lo = hi = 0;
        j->all_from = lo > j->all_from ? lo : j->all_from;
        j->all_to = hi < j->all_to ? hi : j->all_to;
        if (lo < hi) {
            j->from = lo < j->from ? lo : j->from;
            j->to = hi > j->to ? hi : j->to;
        }
        for (uint32_t h = 0; h < a->heads; h++, r++) {
            j->lo[r] = lo;
            j->hi[r] = hi;
            j->acc[r] = acc + r * size;
            j->q[r] = a->q + i * a->q_token + (size_t)h * a->kv.head_dim;
        }
    }
}

static void simd_attn(const struct kern_attn *a, float *acc, void *scratch)
{
    struct attn_job j = {.a = a, .e = scratch, .n = a->queries * a->heads};
    size_t part = j.n * (a->kv.head_dim + (size_t)KERN_ACC_EXTRA);
    j.tiles = (j.n + VEC_TILE - 1) / VEC_TILE;
    j.tile = (j.n + j.tiles - 1) / j.tiles;
    memset(acc, 0, (size_t)(a->part1 - a->part0) * part * sizeof *acc);
    for (j.part = a->part0; j.part < a->part1; j.part++, acc += part) {
        begin_partial(&j, acc);
        if (j.from >= j.to)
            continue;
        job_scores(&j);
        for (uint32_t r = 0; r < j.n; r++)
            if (j.lo[r] < j.hi[r])
                job_softmax(&j, r);
        job_values(&j);
    }
}

static void simd_attn_fold(float *run, const float *part, uint32_t head_dim)
{
    float m = run[head_dim], l = run[head_dim + 1], m2 = part[head_dim], l2 = part[head_dim + 1];
    if (l2 == 0)
        return;
    if (l == 0) {
        memcpy(run, part, (head_dim + KERN_ACC_EXTRA) * sizeof *run);
        return;
    }
    /* one of the two factors is exp(0), which is 1 */
    vf one = vf_set1(1.0f), less = exp_lanes(vf_set1(m > m2 ? m2 - m : m - m2), 1);
    vf a = m > m2 ? one : less, b = m > m2 ? less : one;
    for (uint32_t c = 0; c < head_dim; c += 16)
        vf_store(run + c, vf_fma(vf_load(part + c), b, vf_mul(vf_load(run + c), a)));
    run[head_dim] = m > m2 ? m : m2;
    run[head_dim + 1] = vf_top(vf_fma(vf_set1(l2), b, vf_mul(vf_set1(l), a))); /* all lanes are the same */
}

static void simd_attn_finish(const float *run, uint32_t head_dim, float *out)
{
    vf inv = vf_set1(1.0f / run[head_dim + 1]);
    for (uint32_t c = 0; c < head_dim; c += 16)
        vf_store(out + c, vf_mul(vf_load(run + c), inv));
}

#endif
