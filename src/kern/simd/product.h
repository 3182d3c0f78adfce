/*
 * product: the small matrix product that both halves of attention are made of. Included by attn.h.
 *
 *     acc[r][lane] += Σ over rows ascending of M[row][lane] × s[r][row]
 *
 * For scores the lanes are the 32 tokens of a block and the rows its channels; for values the lanes are channels and the
 * rows tokens. Up to VEC_TILE vectors share each load of M. Their sums stay in registers, VEC_SUMS at most: 32 lanes of
 * each vector, or 16 where there are many of them. That is enough independent sums to hide the latency of a fused
 * multiply-add. The inner loop keeps in registers whichever is less, its lanes or its factors, and takes the other one
 * by one: with a single value more alive than there are registers, gcc 12 keeps a sum in memory, at half the speed.
 */
#ifndef KERN_SIMD_PRODUCT_H
#define KERN_SIMD_PRODUCT_H

#include "kern/kern.h"

#define CACHE_LINE 64
#define UNROLL _Pragma("GCC unroll 8") /* for loops whose bound is a constant once the function is inlined */
#define LANES_MOST (32 / VEC_LANES) /* registers of lanes of one vector */

/* Some rows of a block of K or V. */
struct matrix {
    enum kern_kv format;
    const uint8_t *m;
    size_t ld;           /* elements from one row to the next */
    uint32_t rows, lanes; /* lanes: a multiple of 16 */
    const uint8_t *fetch; /* what is read later and fetched from memory meanwhile, bit by bit; never NULL */
    size_t fetch_bytes;
};

/* What each vector is multiplied by, and added to. */
struct vectors {
    const float *s[VEC_TILE];
    float *acc[VEC_TILE];
    bool fresh; /* acc counts as 0 */
};

VEC_INLINE size_t kv_size(enum kern_kv format)
{
    return format == KERN_KV_F16 ? sizeof(uint16_t) : sizeof(float);
}

VEC_INLINE vr load_kv(enum kern_kv format, const uint8_t *p)
{
    return format == KERN_KV_F16 ? vr_load_half((const uint16_t *)p) : vr_load((const float *)p);
}

/* One row: sum[r][j] += m[j] × k[r], for nr vectors and w registers of lanes. */
VEC_INLINE void product_row(enum kern_kv format, const uint8_t *m, const float *const *s, size_t row,
                            vr (*sum)[LANES_MOST], const int nr, const int w)
{
    const size_t reg = VEC_LANES * kv_size(format);
    vr kept[VEC_TILE];
    if (nr < w) {
        UNROLL for (int r = 0; r < nr; r++)
            kept[r] = vr_set1(s[r][row]);
        UNROLL for (int j = 0; j < w; j++) {
            vr x = load_kv(format, m + (size_t)j * reg);
            UNROLL for (int r = 0; r < nr; r++)
                sum[r][j] = vr_fma(x, kept[r], sum[r][j]);
        }
    } else {
        UNROLL for (int j = 0; j < w; j++)
            kept[j] = load_kv(format, m + (size_t)j * reg);
        UNROLL for (int r = 0; r < nr; r++) {
            vr k = vr_set1(s[r][row]);
            UNROLL for (int j = 0; j < w; j++)
                sum[r][j] = vr_fma(kept[j], k, sum[r][j]);
        }
    }
}

/* All rows, for w registers of lanes from lane c on. With each row go `share` bytes from `fetch` on: no more lines than the
 * row has itself, so that reads and products keep pace. */
VEC_INLINE void product_lanes(enum kern_kv format, const struct matrix *x, const struct vectors *v, uint32_t c,
                              const uint8_t *fetch, size_t share, const int nr, const int w)
{
    const size_t esize = kv_size(format), step = x->ld * esize;
    const uint8_t *m = x->m + c * esize;
    const float *s[VEC_TILE];
    vr sum[VEC_TILE][LANES_MOST];
    UNROLL for (int r = 0; r < nr; r++) {
        s[r] = v->s[r];
        UNROLL for (int j = 0; j < w; j++)
            sum[r][j] = v->fresh ? vr_zero() : vr_load(v->acc[r] + c + j * VEC_LANES);
    }
    _Pragma("GCC unroll 2") for (size_t row = 0; row < x->rows; row++, m += step, fetch += share) {
        product_row(format, m, s, row, sum, nr, w);
        UNROLL for (size_t b = 0; b < (size_t)w * VEC_LANES * esize; b += CACHE_LINE)
            __builtin_prefetch(fetch + b);
    }
    UNROLL for (int r = 0; r < nr; r++)
        UNROLL for (int j = 0; j < w; j++)
            vr_store(v->acc[r] + c + j * VEC_LANES, sum[r][j]);
}

VEC_INLINE void product_shape(enum kern_kv format, const struct matrix *x, const struct vectors *v, const int nr)
{
    const int w = nr * LANES_MOST <= VEC_SUMS ? LANES_MOST : LANES_MOST / 2;
    const uint32_t lanes = (uint32_t)w * VEC_LANES;
    const uint8_t *fetch = x->fetch;
    size_t share = x->fetch_bytes / ((x->lanes + lanes - 1) / lanes * x->rows);
    uint32_t c = 0;
    for (; c + lanes <= x->lanes; c += lanes, fetch += share * x->rows)
        product_lanes(format, x, v, c, fetch, share, nr, w);
    if (w == LANES_MOST && c < x->lanes)
        product_lanes(format, x, v, c, fetch, share, nr, w / 2);
}

VEC_INLINE void product_format(enum kern_kv format, const struct matrix *x, const struct vectors *v, int nr)
{
    switch (nr) {
    case 1: product_shape(format, x, v, 1); break;
    case 2: product_shape(format, x, v, 2); break;
    case 3: product_shape(format, x, v, 3); break;
    case 4: product_shape(format, x, v, 4); break;
    case 5: product_shape(format, x, v, 5); break;
    case 6: product_shape(format, x, v, 6); break;
#if VEC_TILE > 6
    case 7: product_shape(format, x, v, 7); break;
    case 8: product_shape(format, x, v, 8); break;
#endif
    default: BUG("a tile of %d vectors", nr);
    }
}

static void product(const struct matrix *x, const struct vectors *v, uint32_t nr)
{
    if (x->format == KERN_KV_F16)
        product_format(KERN_KV_F16, x, v, (int)nr);
    else
        product_format(KERN_KV_F32, x, v, (int)nr);
}

#endif
