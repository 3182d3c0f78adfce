/*
 * linear: quantised matrix × int8 activations with AVX-512 VNNI; equals kern_ref_linear() bit by bit.
 *
 * vpdpbusd adds four products of unsigned weights and signed activations to a 32-bit lane, exactly, and a lane is an
 * output: a register is a whole panel. 8-bit weights are made unsigned by flipping their sign bit, so their offset is
 * 128; codebooks are looked up with the offset added. Chunks and unpacking as in avx2/linear.c.
 */
#include "kern/avx512/vec.h"

#include "kern/avx512/avx512.h"
#include "kern/simd/quant.h"

#define TILE 8          /* tokens that share a load of weights: eight chains hide the latency of vpdpbusd */
#define FEW 8           /* tokens up to which unpacking to memory does not pay */
#define FEW_SUMS 4      /* and up to which their sums stay in registers then */

struct group_pair { /* unsigned quants of groups v and v + 4, sixteen outputs */
    __m512i lo, hi;
};

VEC_INLINE __m512i load512(const uint8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

VEC_INLINE __m512i shift_to(__m512i x, const int from, const int to)
{
    if (from == to)
        return x;
    return from < to ? _mm512_slli_epi16(x, (unsigned)(to - from)) : _mm512_srli_epi16(x, (unsigned)(from - to));
}

VEC_INLINE int32_t offset_of(ktype type)
{
    return is_signed(type) ? 128 : panel_layout(type).offset;
}

/* The bits of `mask` in x, shifted from bit `from` of their group to bit `to`. */
VEC_INLINE __m512i bits_of(__m512i x, const int from, const int to, const char mask)
{
    return _mm512_and_si512(shift_to(x, from, to), _mm512_set1_epi8(mask));
}

/* Groups v and v + 4 of Q2_K and Q3_K. */
VEC_INLINE struct group_pair low_bits(ktype type, const uint8_t *q, const int v)
{
    struct group_pair w = {bits_of(load512(q), 2 * v, 0, 3), bits_of(load512(q + 64), 2 * v, 0, 3)};
    if (type == KERN_Q3_K) {
        __m512i top = load512(q + 128);
        w.lo = _mm512_or_si512(w.lo, bits_of(top, v, 2, 4));
        w.hi = _mm512_or_si512(w.hi, bits_of(top, v + 4, 2, 4));
    }
    return w;
}

VEC_INLINE struct group_pair panel_pair(ktype type, const uint8_t *q, const int v)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    if (type == KERN_Q8_0)
        return (struct group_pair){_mm512_xor_si512(load512(q + v * 64), flip),
                                   _mm512_xor_si512(load512(q + (v + 4) * 64), flip)};
    if (type == KERN_Q2_K || type == KERN_Q3_K)
        return low_bits(type, q, v);
    __m512i raw = load512(q + v * 64);
    struct group_pair w = {bits_of(raw, 0, 0, 15), bits_of(raw, 4, 0, 15)};
    if (is_codebook(type)) {
        __m512i book = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)panel_codebook(type)));
        __m512i offset = _mm512_set1_epi8((char)offset_of(type));
        book = is_signed(type) ? _mm512_xor_si512(book, flip) : _mm512_add_epi8(book, offset);
        w.lo = _mm512_shuffle_epi8(book, w.lo);
        w.hi = _mm512_shuffle_epi8(book, w.hi);
    } else if (is_5bit(type)) {
        __m512i top = load512(q + 256);
        w.lo = _mm512_or_si512(w.lo, bits_of(top, v, 4, 16));
        w.hi = _mm512_or_si512(w.hi, bits_of(top, v + 4, 4, 16));
    } else if (type == KERN_Q6_K) {
        w.lo = _mm512_or_si512(w.lo, bits_of(load512(q + 256), 2 * v, 4, 48));
        w.hi = _mm512_or_si512(w.hi, bits_of(load512(q + 320), 2 * v, 4, 48));
    }
    return w;
}

VEC_INLINE const uint8_t *unpack_block(ktype type, const uint8_t *q, uint8_t *w)
{
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        struct group_pair p = panel_pair(type, q, v);
        _mm512_storeu_si512((void *)(w + v * 64), p.lo);
        _mm512_storeu_si512((void *)(w + (v + 4) * 64), p.hi);
    }
    return w;
}

struct panel_scales {
    __m512 ds, m;
    __m512i sc[2]; /* scales of the two halves of k, where the type has them */
    __m512i mn01;  /* Q2_K: their minima as a pair of 16 bits */
};

VEC_INLINE __m512 halfs(const uint8_t *p)
{
    return vf_load_half((const uint16_t *)p);
}

VEC_INLINE __m512i u8_epi32(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

VEC_INLINE __m512i i8_epi32(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* e8m0_half_f32(): (e - 1) << 23 is the larger of the two from 2 on. */
VEC_INLINE __m512 exponents(const uint8_t *p)
{
    __m512i e = u8_epi32(p), one = _mm512_set1_epi32(1);
    return vf_from_bits(_mm512_max_epi32(_mm512_slli_epi32(_mm512_sub_epi32(e, one), 23),
                                         _mm512_slli_epi32(_mm512_add_epi32(e, one), 21)));
}

VEC_INLINE struct panel_scales half_scales_of(ktype type, const uint8_t *meta, uint32_t sub)
{
    struct panel_scales s;
    memset(&s, 0, sizeof s);
    s.ds = halfs(meta + META_K_D);
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *p = meta + (2 * sub + i) * 16;
        s.sc[i] = type == KERN_Q2_K ? _mm512_and_si512(u8_epi32(p), _mm512_set1_epi32(15)) : i8_epi32(p);
        if (type == KERN_Q2_K)
            s.mn01 = _mm512_or_si512(s.mn01, _mm512_slli_epi32(_mm512_srli_epi32(u8_epi32(p), 4), 16 * i));
    }
    if (type == KERN_Q2_K)
        s.m = halfs(meta + META_K_DMIN);
    return s;
}

VEC_INLINE struct panel_scales scales_of(ktype type, const uint8_t *meta, uint32_t sub)
{
    if (has_half_scales(type))
        return half_scales_of(type, meta, sub);
    struct panel_scales s;
    memset(&s, 0, sizeof s);
    if (is_k45(type)) {
        s.ds = _mm512_mul_ps(halfs(meta + META_K_D), _mm512_cvtepi32_ps(u8_epi32(meta + sub * 16)));
        s.m = _mm512_mul_ps(halfs(meta + META_K_DMIN), _mm512_cvtepi32_ps(u8_epi32(meta + META_K_MIN + sub * 16)));
    } else if (type == KERN_IQ4_XS) {
        s.ds = _mm512_mul_ps(halfs(meta + META_XS_D), _mm512_cvtepi32_ps(i8_epi32(meta + sub * 16)));
    } else if (type == KERN_MXFP4) {
        s.ds = exponents(meta);
    } else {
        s.ds = halfs(meta);
        if (has_min(type))
            s.m = halfs(meta + 32);
    }
    return s;
}

VEC_INLINE __m512i four(const int8_t *x)
{
    int32_t u;
    memcpy(&u, x, sizeof u);
    return _mm512_set1_epi32(u);
}

VEC_INLINE vf finish(ktype type, const struct panel_scales *s, const struct kern_xmeta *xm, __m512i lo, __m512i hi,
                     vf acc)
{
    const int32_t offset = offset_of(type);
    __m512i idot;
    if (has_half_scales(type)) {
        if (offset) {
            lo = _mm512_sub_epi32(lo, _mm512_set1_epi32(offset * xm->s16[0]));
            hi = _mm512_sub_epi32(hi, _mm512_set1_epi32(offset * xm->s16[1]));
        }
        idot = _mm512_add_epi32(_mm512_mullo_epi32(lo, s->sc[0]), _mm512_mullo_epi32(hi, s->sc[1]));
    } else {
        idot = _mm512_add_epi32(lo, hi);
        if (offset)
            idot = _mm512_sub_epi32(idot, _mm512_set1_epi32(offset * xm->s));
    }
    acc = _mm512_fmadd_ps(_mm512_mul_ps(s->ds, _mm512_set1_ps(xm->d)), _mm512_cvtepi32_ps(idot), acc);
    if (type == KERN_Q2_K) {
        int32_t pair;
        memcpy(&pair, xm->s16, sizeof pair);
        __m512i low = _mm512_madd_epi16(s->mn01, _mm512_set1_epi32(pair));
        acc = _mm512_fnmadd_ps(_mm512_mul_ps(s->m, _mm512_set1_ps(xm->d)), _mm512_cvtepi32_ps(low), acc);
    }
    if (!has_min(type))
        return acc;
    __m512 xs = _mm512_set1_ps(xm->ds);
    return is_k45(type) ? _mm512_fnmadd_ps(s->m, xs, acc) : _mm512_fmadd_ps(s->m, xs, acc);
}

/* One 32-k block, sixteen outputs × nt tokens. */
VEC_INLINE void block_tile(ktype type, const int unpacked, const uint8_t *w, const struct panel_scales *s,
                           const int8_t *x, const struct kern_xmeta *xm, vf *acc, const int nt)
{
    __m512i lo[TILE], hi[TILE];
    for (int t = 0; t < nt; t++)
        lo[t] = hi[t] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        struct group_pair p;
        if (unpacked)
            p = (struct group_pair){load512(w + v * 64), load512(w + (v + 4) * 64)};
        else
            p = panel_pair(type, w, v);
#pragma GCC unroll 8
        for (int t = 0; t < nt; t++) {
            lo[t] = _mm512_dpbusd_epi32(lo[t], p.lo, four(x + 32 * t + 4 * v));
            hi[t] = _mm512_dpbusd_epi32(hi[t], p.hi, four(x + 32 * t + 16 + 4 * v));
        }
        KEEP_ORDER();
    }
    for (int t = 0; t < nt; t++)
        acc[t] = finish(type, s, xm + t, lo[t], hi[t], acc[t]);
}

VEC_INLINE void block_tokens(ktype type, const uint8_t *w, const struct panel_scales *s, const int8_t *x,
                             const struct kern_xmeta *xm, vf *acc, uint32_t n)
{
    uint32_t t = 0;
    for (; t + TILE <= n; t += TILE)
        block_tile(type, 1, w, s, x + 32 * t, xm + t, acc + t, TILE);
#define TAIL(NT)                                                                         \
    case NT: block_tile(type, 1, w, s, x + 32 * t, xm + t, acc + t, NT); break
    switch (n - t) {
        TAIL(1);
        TAIL(2);
        TAIL(3);
        TAIL(4);
        TAIL(5);
        TAIL(6);
        TAIL(7);
    default: break;
    }
#undef TAIL
}

#include "kern/simd/chunk.h"

void kern_avx512_linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                        size_t stride)
{
    linear_quantised(m, p0, p1, x, out, stride);
}
