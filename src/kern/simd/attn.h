/*
 * attn: attention on 16 lanes; equals ref/attn.c bit by bit. Included once by each level's ops.c after simd/ops.h.
 *
 * Both halves of attention are the same small product: acc[r][lane] = Σ over rows of M[row][lane] × s[r][row]. For scores
 * the lanes are the 32 tokens of a block and the rows its channels; for values the lanes are channels and the rows
 * tokens. VEC_TILE queries share each load of M. With many queries a block is first widened to f32, once.
 */
#ifndef KERN_SIMD_ATTN_H
#define KERN_SIMD_ATTN_H

#include "kern/simd/ops.h"

#define WIDEN_FROM 8u /* query vectors from which widening a block pays */

struct attn_scratch {
    _Alignas(64) float e[KERN_ATTN_VECTORS][KERN_PARTIAL];          /* scores, then exp(score - m) */
    _Alignas(64) float wide[KERN_KV_TOKENS * LIMIT_HEAD_DIM];       /* one block of K or V as f32 */
};

VEC_INLINE vf load_kv(enum kern_kv format, const uint8_t *p, size_t i)
{
    return format == KERN_KV_F16 ? vf_load_half((const uint16_t *)p + i) : vf_load((const float *)p + i);
}

/* acc[r][0 .. 16 w) += Σ rows ascending of M[row][lanes] × s[r][row × s_step], M rows `ld` elements apart. */
VEC_INLINE void tile_product(enum kern_kv format, const uint8_t *m, size_t ld, uint32_t rows, const float *const *s,
                             float *const *acc, const int nr, const int w)
{
    vf sum[VEC_TILE][2];
    for (int r = 0; r < nr; r++)
        for (int j = 0; j < w; j++)
            sum[r][j] = vf_load(acc[r] + 16 * j);
    for (uint32_t row = 0; row < rows; row++)
        for (int j = 0; j < w; j++) {
            vf x = load_kv(format, m, row * ld + 16 * (size_t)j);
            for (int r = 0; r < nr; r++)
                sum[r][j] = vf_fma(x, vf_set1(s[r][row]), sum[r][j]);
        }
    for (int r = 0; r < nr; r++)
        for (int j = 0; j < w; j++)
            vf_store(acc[r] + 16 * j, sum[r][j]);
}

/* Compile-time tile shapes for the loops above. */
VEC_INLINE void product_format(enum kern_kv format, const uint8_t *m, size_t ld, uint32_t rows, const float *const *s,
                               float *const *acc, int nr, int w)
{
#define SHAPE(NR)                                                       \
    case NR:                                                            \
        if (w == 2)                                                     \
            tile_product(format, m, ld, rows, s, acc, NR, 2);           \
        else                                                            \
            tile_product(format, m, ld, rows, s, acc, NR, 1);           \
        break
    switch (nr) {
        SHAPE(1);
        SHAPE(2);
        SHAPE(3);
#if VEC_TILE > 3
        SHAPE(4);
#endif
    default: break;
    }
#undef SHAPE
}

static void product_f16(const uint8_t *m, size_t ld, uint32_t rows, const float *const *s, float *const *acc, int nr,
                        int w)
{
    product_format(KERN_KV_F16, m, ld, rows, s, acc, nr, w);
}

static void product_f32(const uint8_t *m, size_t ld, uint32_t rows, const float *const *s, float *const *acc, int nr,
                        int w)
{
    product_format(KERN_KV_F32, m, ld, rows, s, acc, nr, w);
}

typedef void product_fn(const uint8_t *, size_t, uint32_t, const float *const *, float *const *, int, int);

/* What one call works on: all query vectors of one partial. */
struct attn_job {
    const struct kern_attn *a;
    struct attn_scratch *s;
    uint32_t n;                              /* query vectors: queries × heads, head fastest */
    uint64_t base;                           /* first key of the partial */
    uint32_t lo[KERN_ATTN_VECTORS], hi[KERN_ATTN_VECTORS]; /* live keys of each, counted from base */
    uint32_t from, to;                       /* keys any of them sees */
    float *acc[KERN_ATTN_VECTORS];
    const float *q[KERN_ATTN_VECTORS];
};

static const uint8_t *job_block(struct attn_job *j, uint32_t key, size_t offset, product_fn **product)
{
    const struct kern_kv_view *kv = &j->a->kv;
    const uint8_t *p =
        kv->base + (size_t)kv->table[(j->base + key) / KERN_KV_TOKENS] * kv->block_bytes + offset;
    *product = product_f32;
    if (kv->format == KERN_KV_F32)
        return p;
    *product = product_f16;
    if (j->n < WIDEN_FROM)
        return p;
    *product = product_f32;
    for (uint32_t i = 0; i < KERN_KV_TOKENS * kv->head_dim; i += 16)
        vf_store(j->s->wide + i, vf_load_half((const uint16_t *)p + i));
    return (const uint8_t *)j->s->wide;
}

static void job_scores(struct attn_job *j)
{
    uint32_t first = j->from / KERN_KV_TOKENS * KERN_KV_TOKENS;
    for (uint32_t key = first; key < j->to; key += KERN_KV_TOKENS) {
        product_fn *product;
        const uint8_t *k = job_block(j, key, j->a->kv.k_offset, &product);
        for (uint32_t r = 0; r < j->n; r += VEC_TILE) {
            int nr = j->n - r < VEC_TILE ? (int)(j->n - r) : VEC_TILE;
            float *out[VEC_TILE];
            for (int i = 0; i < nr; i++) {
                out[i] = j->s->e[r + (uint32_t)i] + key;
                memset(out[i], 0, KERN_KV_TOKENS * sizeof(float));
            }
            product(k, KERN_KV_TOKENS, j->a->kv.head_dim, j->q + r, out, nr, 2);
        }
    }
}

/* Scores to weights, in place; m and l of the accumulator. */
static void job_softmax(struct attn_job *j, uint32_t r)
{
    const struct kern_attn *a = j->a;
    float *e = j->s->e[r];
    uint32_t first = j->lo[r] & ~15u;
    vf scale = vf_set1(a->scale), cap = vf_set1(a->softcap), dead = vf_set1(-INFINITY), top = dead;
    vi lo = vi_set1((int32_t)j->lo[r] - 1), hi = vi_set1((int32_t)j->hi[r]);
    for (uint32_t t = first; t < j->hi[r]; t += 16) {
        vf s = vf_mul(vf_load(e + t), scale);
        if (a->softcap > 0)
            s = vf_mul(cap, vf_tanh(vf_div(s, cap)));
        vi at = vi_add(vi_iota(), vi_set1((int32_t)t));
        s = vf_select(vm_and(vi_gt(at, lo), vi_gt(hi, at)), s, dead);
        top = vf_max(s, top);
        vf_store(e + t, s);
    }
    float m = vf_top(top);
    vf mv = vf_set1(m), sum = vf_zero();
    for (uint32_t t = first; t < j->hi[r]; t += 16) {
        vf x = vf_exp(vf_sub(vf_load(e + t), mv));
        sum = vf_add(sum, x);
        vf_store(e + t, x);
    }
    j->acc[r][a->kv.head_dim] = m;
    j->acc[r][a->kv.head_dim + 1] = vf_sum(sum);
}

/* Keys [lo, hi) of one block of values (key b is its first), for query vectors [r, r + nr). */
static void add_values(struct attn_job *j, product_fn *product, const uint8_t *v, uint32_t b, uint32_t lo, uint32_t hi,
                       uint32_t r, int nr)
{
    if (lo >= hi)
        return;
    uint32_t hd = j->a->kv.head_dim;
    size_t esize = product == product_f16 ? sizeof(uint16_t) : sizeof(float);
    const float *w[VEC_TILE];
    for (int i = 0; i < nr; i++)
        w[i] = j->s->e[r + (uint32_t)i] + lo;
    for (uint32_t c = 0; c < hd; c += 32) {
        float *out[VEC_TILE];
        for (int i = 0; i < nr; i++)
            out[i] = j->acc[r + (uint32_t)i] + c;
        product(v + ((size_t)(lo - b) * hd + c) * esize, hd, hi - lo, w, out, nr, hd - c >= 32 ? 2 : 1);
    }
}

static uint32_t clamp_key(uint32_t key, uint32_t b)
{
    return key < b ? b : key > b + KERN_KV_TOKENS ? b + KERN_KV_TOKENS : key;
}

/* Keys all vectors of the tile see are done together; the ragged ends before and after one vector at a time, so that
 * each vector still meets its keys in ascending order. */
static void job_values_tile(struct attn_job *j, product_fn *product, const uint8_t *v, uint32_t b, uint32_t r, int nr)
{
    uint32_t lo = b, hi = b + KERN_KV_TOKENS;
    for (int i = 0; i < nr; i++) {
        uint32_t l = clamp_key(j->lo[r + (uint32_t)i], b), h = clamp_key(j->hi[r + (uint32_t)i], b);
        lo = l > lo ? l : lo;
        hi = h < hi ? h : hi;
    }
    if (lo > hi)
        lo = hi = b + KERN_KV_TOKENS; /* nothing in common: all of it is ragged start */
    for (int i = 0; i < nr; i++) {
        uint32_t q = r + (uint32_t)i, l = clamp_key(j->lo[q], b), h = clamp_key(j->hi[q], b);
        add_values(j, product, v, b, l, h < lo ? h : lo, q, 1);
    }
    add_values(j, product, v, b, lo, hi, r, nr);
    for (int i = 0; i < nr; i++) {
        uint32_t q = r + (uint32_t)i, l = clamp_key(j->lo[q], b), h = clamp_key(j->hi[q], b);
        add_values(j, product, v, b, l > hi ? l : hi, h, q, 1);
    }
}

static void job_values(struct attn_job *j)
{
    uint32_t first = j->from / KERN_KV_TOKENS * KERN_KV_TOKENS;
    for (uint32_t b = first; b < j->to; b += KERN_KV_TOKENS) {
        product_fn *product;
        const uint8_t *v = job_block(j, b, j->a->kv.v_offset, &product);
        for (uint32_t r = 0; r < j->n; r += VEC_TILE)
            job_values_tile(j, product, v, b, r, j->n - r < VEC_TILE ? (int)(j->n - r) : VEC_TILE);
    }
}

/* Live keys of query i within the partial that begins at key `base`, counted from there. */
static void live_keys(const struct kern_attn *a, uint32_t i, uint64_t base, uint32_t *lo, uint32_t *hi)
{
    uint64_t end = a->pos0 + i + 1, start = a->window && end > a->window ? end - a->window : 0;
    uint64_t h = end > base ? end - base : 0, l = start > base ? start - base : 0;
    *hi = h < KERN_PARTIAL ? (uint32_t)h : KERN_PARTIAL;
    *lo = l < KERN_PARTIAL ? (uint32_t)l : KERN_PARTIAL;
}

static void simd_attn(const struct kern_attn *a, float *acc, void *scratch)
{
    struct attn_job j = {.a = a, .s = scratch, .n = a->queries * a->heads};
    size_t size = a->kv.head_dim + KERN_ACC_EXTRA;
    memset(acc, 0, (size_t)(a->part1 - a->part0) * j.n * size * sizeof *acc);
    for (uint64_t p = a->part0; p < a->part1; p++, acc += j.n * size) {
        j.base = p * KERN_PARTIAL;
        j.from = KERN_PARTIAL;
        j.to = 0;
        for (uint32_t r = 0; r < j.n; r++) {
            uint32_t i = r / a->heads;
            live_keys(a, i, j.base, &j.lo[r], &j.hi[r]);
            j.acc[r] = acc + r * size;
            j.q[r] = a->q + i * a->q_token + (size_t)(r % a->heads) * a->kv.head_dim;
            if (j.lo[r] >= j.hi[r])
                continue;
            j.from = j.lo[r] < j.from ? j.lo[r] : j.from;
            j.to = j.hi[r] > j.to ? j.hi[r] : j.to;
        }
        if (j.from >= j.to)
            continue;
        job_scores(&j);
        for (uint32_t r = 0; r < j.n; r++)
            if (j.lo[r] < j.hi[r])
                job_softmax(&j, r);
            else
                j.lo[r] = j.hi[r] = 0; /* sees nothing here: its accumulator stays 0 */
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
    float top = m > m2 ? m : m2, a = kern_exp(m - top), b = kern_exp(m2 - top);
    for (uint32_t c = 0; c < head_dim; c += 16)
        vf_store(run + c, vf_fma(vf_load(part + c), vf_set1(b), vf_mul(vf_load(run + c), vf_set1(a))));
    run[head_dim] = top;
    run[head_dim + 1] = fmaf(l2, b, l * a);
}

static void simd_attn_finish(const float *run, uint32_t head_dim, float *out)
{
    vf inv = vf_set1(1.0f / run[head_dim + 1]);
    for (uint32_t c = 0; c < head_dim; c += 16)
        vf_store(out + c, vf_mul(vf_load(run + c), inv));
}

/* K goes in as columns: tokens are its lanes. */
static void simd_kv_store(const struct kern_kv_view *kv, uint64_t pos, uint32_t n, const float *k, const float *v,
                          size_t stride)
{
    uint32_t hd = kv->head_dim;
    for (uint32_t i = 0; i < n; i++, pos++, k += stride, v += stride) {
        uint8_t *block = kv->base + (size_t)kv->table[pos / KERN_KV_TOKENS] * kv->block_bytes;
        uint32_t t = (uint32_t)(pos % KERN_KV_TOKENS);
        if (kv->format == KERN_KV_F32) {
            float *kc = (float *)(block + kv->k_offset) + t;
            for (uint32_t d = 0; d < hd; d++)
                kc[(size_t)d * KERN_KV_TOKENS] = k[d];
            memcpy((float *)(block + kv->v_offset) + (size_t)t * hd, v, hd * sizeof *v);
            continue;
        }
        uint16_t *kc = (uint16_t *)(block + kv->k_offset) + t, *vr = (uint16_t *)(block + kv->v_offset) + (size_t)t * hd;
        uint16_t half[16];
        for (uint32_t d = 0; d < hd; d += 16) {
            vf_store_half(half, vf_load(k + d));
            for (uint32_t e = 0; e < 16; e++)
                kc[(size_t)(d + e) * KERN_KV_TOKENS] = half[e];
            vf_store_half(vr + d, vf_load(v + d));
        }
    }
}

#endif
