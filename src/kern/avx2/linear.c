/*
 * linear: quantised matrix × int8 activations on AVX2; equals kern_ref_linear() bit by bit.
 *
 * maddubs multiplies unsigned weights with signed activations and adds pairs into 16 bits: exact up to 128 × 127 × 2.
 * How many of its results can be added in 16 bits before they are widened depends on the weights: eight for 4 bits
 * (8 × 2 × 15 × 127 < 2^15), four for 5, two for 6, one for |8|. The widening multiply-add applies Q6_K's scales too.
 *
 * For a chunk of up to 64 tokens the sums of one panel stay in the first-level cache. Weights are unpacked to bytes once
 * per 32-k block and then met by all tokens; with few tokens they are unpacked in registers instead.
 */
#include "kern/avx2/vec.h"

#include "kern/avx2/avx2.h"
#include "kern/simd/quant.h"

#define TILE 4           /* tokens that share a load of weights, at most */
#define FEW 4            /* tokens up to which unpacking to memory does not pay */
#define FEW_SUMS 2       /* and up to which their sums stay in registers then */

struct half_panel { /* quants of one group, unsigned; 8 bits: signed */
    __m256i w[2]; /* eight outputs each */
};

/* Keeps the compiler from adding products in a tree at the end: it would run out of registers. */
#define KEEP_SUM(x) __asm__("" : "+x"(x))

VEC_INLINE __m256i shift_to(__m256i x, int from, int to)
{
    return from < to ? _mm256_slli_epi16(x, to - from) : _mm256_srli_epi16(x, from - to);
}

/* Group g straight from the panel; q points at the block. */
VEC_INLINE struct half_panel panel_group(ktype type, const uint8_t *q, const int g)
{
    struct half_panel r;
    for (int h = 0; h < 2; h++, q += 32) {
        if (type == KERN_Q8_0) {
            r.w[h] = _mm256_load_si256((const __m256i *)(q + g * 64));
            continue;
        }
        __m256i raw = _mm256_load_si256((const __m256i *)(q + g % 4 * 64));
        r.w[h] = _mm256_and_si256(g < 4 ? raw : _mm256_srli_epi16(raw, 4), _mm256_set1_epi8(15));
        if (is_5bit(type)) {
            __m256i top = shift_to(_mm256_load_si256((const __m256i *)(q + 256)), g, 4);
            r.w[h] = _mm256_or_si256(r.w[h], _mm256_and_si256(top, _mm256_set1_epi8(16)));
        } else if (type == KERN_Q6_K) {
            __m256i top = shift_to(_mm256_load_si256((const __m256i *)(q + 256 + g / 4 * 64)), 2 * (g % 4), 4);
            r.w[h] = _mm256_or_si256(r.w[h], _mm256_and_si256(top, _mm256_set1_epi8(48)));
        }
    }
    return r;
}

/* From the unpacked block: byte vectors [8 groups][64]. */
VEC_INLINE struct half_panel bytes_group(const uint8_t *w, const int g)
{
    return (struct half_panel){{_mm256_load_si256((const __m256i *)(w + g * 64)),
                                _mm256_load_si256((const __m256i *)(w + g * 64 + 32))}};
}

VEC_INLINE void unpack_block(ktype type, const uint8_t *q, uint8_t *w)
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        struct half_panel p = panel_group(type, q, g);
        _mm256_store_si256((__m256i *)(w + g * 64), p.w[0]);
        _mm256_store_si256((__m256i *)(w + g * 64 + 32), p.w[1]);
    }
}

/* What turns the integer dot products of a block into f32: eight outputs. */
struct half_scales {
    __m256 ds, m;
    __m256i sc[2]; /* Q6_K: the two halves' scales, each twice as 16 bits; otherwise ones */
    __m256i sc01;  /* Q6_K: both as a pair of 16 bits */
};

VEC_INLINE __m256 halfs(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

VEC_INLINE __m256 bytes_ps(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

VEC_INLINE struct half_scales half_scales_of(ktype type, const uint8_t *meta, uint32_t sub, const int h)
{
    struct half_scales s = {.sc = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)}};
    if (type == KERN_Q4_K || type == KERN_Q5_K) {
        s.ds = _mm256_mul_ps(halfs(meta + META_K_D + 16 * h), bytes_ps(meta + sub * 16 + 8 * h));
        s.m = _mm256_mul_ps(halfs(meta + META_K_DMIN + 16 * h), bytes_ps(meta + META_K_MIN + sub * 16 + 8 * h));
    } else if (type == KERN_Q6_K) {
        s.ds = halfs(meta + META_Q6_D + 16 * h);
        __m256i even = _mm256_set1_epi32(0xFFFF);
        for (int i = 0; i < 2; i++) {
            __m256i x = _mm256_and_si256(
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(meta + (2 * sub + (uint32_t)i) * 16 + 8 * h))),
                even);
            s.sc[i] = _mm256_or_si256(x, _mm256_slli_epi32(x, 16));
        }
        s.sc01 = _mm256_blend_epi16(s.sc[0], s.sc[1], 0xAA);
    } else {
        s.ds = halfs(meta + 16 * h);
        if (has_min(type))
            s.m = halfs(meta + 32 + 16 * h);
    }
    return s;
}

struct panel_scales {
    struct half_scales h[2];
};

VEC_INLINE struct panel_scales scales_of(ktype type, const uint8_t *meta, uint32_t sub)
{
    return (struct panel_scales){{half_scales_of(type, meta, sub, 0), half_scales_of(type, meta, sub, 1)}};
}

VEC_INLINE __m256i four(const int8_t *x)
{
    int32_t u;
    memcpy(&u, x, sizeof u);
    return _mm256_set1_epi32(u);
}

/* How many groups' products 16 bits hold. */
VEC_INLINE int groups_per_sum(ktype type)
{
    return type == KERN_Q8_0 ? 1 : type == KERN_Q6_K ? 2 : is_5bit(type) ? 4 : 8;
}

/* Adds the products of the i-th group met to 16-bit sums, and widens them when they are full. `sc`: the multiplier of
 * the widening, for each half panel. */
VEC_INLINE void multiply(ktype type, const int i, const struct half_panel *p, const __m256i sc[2], const int8_t *x,
                         __m256i sum16[2], __m256i sum32[2])
{
    const int full = groups_per_sum(type);
    __m256i xv = four(x);
    for (int h = 0; h < 2; h++) {
        __m256i product = type == KERN_Q8_0
                              ? _mm256_maddubs_epi16(_mm256_abs_epi8(p->w[h]), _mm256_sign_epi8(xv, p->w[h]))
                              : _mm256_maddubs_epi16(p->w[h], xv);
        sum16[h] = i % full ? _mm256_add_epi16(sum16[h], product) : product;
        if (i % full != full - 1)
            KEEP_SUM(sum16[h]);
        if (i % full == full - 1) {
            __m256i wide = _mm256_madd_epi16(sum16[h], sc[h]);
            sum32[h] = i < full ? wide : _mm256_add_epi32(sum32[h], wide);
            KEEP_SUM(sum32[h]);
        }
    }
}

VEC_INLINE __m256 finish(ktype type, const struct half_scales *s, const struct kern_xmeta *xm, __m256i idot, __m256 acc)
{
    const int32_t offset = panel_layout(type).offset;
    if (type == KERN_Q6_K) {
        int32_t pair;
        memcpy(&pair, xm->s16, sizeof pair);
        __m256i sum = _mm256_madd_epi16(s->sc01, _mm256_set1_epi32(pair));
        idot = _mm256_sub_epi32(idot, _mm256_slli_epi32(sum, 5));
    } else if (offset) {
        idot = _mm256_sub_epi32(idot, _mm256_set1_epi32(offset * xm->s));
    }
    acc = _mm256_fmadd_ps(_mm256_mul_ps(s->ds, _mm256_set1_ps(xm->d)), _mm256_cvtepi32_ps(idot), acc);
    if (!has_min(type))
        return acc;
    __m256 xs = _mm256_set1_ps(xm->ds); /* K types subtract their minimum, the others add it */
    return type == KERN_Q4_K || type == KERN_Q5_K ? _mm256_fnmadd_ps(s->m, xs, acc) : _mm256_fmadd_ps(s->m, xs, acc);
}

/* One 32-k block, sixteen outputs × nt tokens. Groups are met in an order that suits where they come from: a packed
 * byte holds groups g and g + 4. Q6_K needs the natural one, since its scale changes after group 3. */
VEC_INLINE void block_tile(ktype type, const int unpacked, const uint8_t *w, const struct panel_scales *s,
                           const int8_t *x, const struct kern_xmeta *xm, vf *acc, const int nt)
{
    __m256i sum16[TILE][2], sum32[TILE][2];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const int g = unpacked || type == KERN_Q6_K ? i : i / 2 + i % 2 * 4;
        struct half_panel p = unpacked ? bytes_group(w, g) : panel_group(type, w, g);
        KEEP_SUM(p.w[0]);
        KEEP_SUM(p.w[1]);
        const __m256i sc[2] = {s->h[0].sc[g / 4], s->h[1].sc[g / 4]};
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++)
            multiply(type, i, &p, sc, x + 32 * t + 4 * g, sum16[t], sum32[t]);
        KEEP_ORDER();
    }
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++) {
        acc[t].a = finish(type, &s->h[0], xm + t, sum32[t][0], acc[t].a);
        acc[t].b = finish(type, &s->h[1], xm + t, sum32[t][1], acc[t].b);
    }
}

/* How many tokens share a load of weights: as many as the registers hold the sums of. */
VEC_INLINE int tile_of(ktype type)
{
    return type == KERN_Q6_K ? 2 : type == KERN_Q8_0 ? 3 : TILE;
}

VEC_INLINE void block_tokens(ktype type, const uint8_t *w, const struct panel_scales *s, const int8_t *x,
                             const struct kern_xmeta *xm, vf *acc, uint32_t n)
{
    const int nt = tile_of(type);
    uint32_t t = 0;
    for (; t + (uint32_t)nt <= n; t += (uint32_t)nt)
        block_tile(type, 1, w, s, x + 32 * t, xm + t, acc + t, nt);
#define TAIL(NT)                                                                         \
    case NT:                                                                             \
        if (NT < nt)                                                                     \
            block_tile(type, 1, w, s, x + 32 * t, xm + t, acc + t, NT);                  \
        break
    switch (n - t) {
        TAIL(1);
        TAIL(2);
        TAIL(3);
    default: break;
    }
#undef TAIL
}

#include "kern/simd/chunk.h"

void kern_avx2_linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                      size_t stride)
{
    linear_quantised(m, p0, p1, x, out, stride);
}
