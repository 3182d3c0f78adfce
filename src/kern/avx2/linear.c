/*
 * linear: quantised matrix × int8 activations on AVX2; equals kern_ref_linear() bit by bit.
 *
 * maddubs multiplies unsigned weights with signed activations and adds pairs into 16 bits: exact up to 128 × 127 × 2.
 * How many of its results can be added in 16 bits before they are widened depends on the weights: eight for 4 bits
 * (8 × 2 × 15 × 127 < 2^15), four for 5 and MXFP4's 0 to 24, two for 6, one for |8|. The widening multiply-add applies the
 * scales of 16 k too.
 *
 * For a chunk of up to 64 tokens the sums of one panel stay in the first-level cache. Weights that are not bytes become so
 * once per 32-k block and are then met by all tokens; with few tokens they are unpacked in registers instead.
 */
#include "kern/avx2/vec.h"

#include "kern/avx2/avx2.h"
#include "kern/simd/quant.h"

#define TILE 4           /* tokens that share a load of weights, at most */
#define FEW 4            /* tokens up to which unpacking to memory does not pay */
#define FEW_SUMS 2       /* and up to which their sums stay in registers then */

struct half_panel { /* weights of one group, with their offset; is_signed() types: as they are */
    __m256i w[2]; /* eight outputs each */
};

/* Keeps the compiler from adding products in a tree at the end: it would run out of registers. */
#define KEEP_SUM(x) __asm__("" : "+x"(x))

VEC_INLINE __m256i shift_to(__m256i x, const int from, const int to)
{
    if (from == to)
        return x;
    return from < to ? _mm256_slli_epi16(x, to - from) : _mm256_srli_epi16(x, from - to);
}

/* The bits of `mask` in x, shifted from bit `from` of their group to bit `to`. */
VEC_INLINE __m256i bits_of(__m256i x, const int from, const int to, const char mask)
{
    return _mm256_and_si256(shift_to(x, from, to), _mm256_set1_epi8(mask));
}

/* Half of group g straight from the panel; q points at the block's bytes of these eight outputs. */
VEC_INLINE __m256i panel_half_group(ktype type, const uint8_t *q, const int g)
{
    const __m256i *p = (const __m256i *)q;
    if (type == KERN_Q8_0)
        return _mm256_load_si256(p + 2 * g);
    if (type == KERN_Q2_K || type == KERN_Q3_K) {
        __m256i w = bits_of(_mm256_load_si256(p + g / 4 * 2), 2 * (g % 4), 0, 3);
        return type == KERN_Q2_K ? w : _mm256_or_si256(w, bits_of(_mm256_load_si256(p + 4), g, 2, 4));
    }
    __m256i w = bits_of(_mm256_load_si256(p + g % 4 * 2), g < 4 ? 0 : 4, 0, 15);
    if (is_codebook(type)) {
        __m256i book = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)panel_codebook(type)));
        return _mm256_shuffle_epi8(_mm256_add_epi8(book, _mm256_set1_epi8((char)panel_layout(type).offset)), w);
    }
    if (is_5bit(type))
        return _mm256_or_si256(w, bits_of(_mm256_load_si256(p + 8), g, 4, 16));
    if (type == KERN_Q6_K)
        return _mm256_or_si256(w, bits_of(_mm256_load_si256(p + 8 + g / 4 * 2), 2 * (g % 4), 4, 48));
    return w;
}

VEC_INLINE struct half_panel panel_group(ktype type, const uint8_t *q, const int g)
{
    return (struct half_panel){{panel_half_group(type, q, g), panel_half_group(type, q + 32, g)}};
}

/* From the unpacked block: byte vectors [8 groups][64]. */
VEC_INLINE struct half_panel bytes_group(const uint8_t *w, const int g)
{
    return (struct half_panel){{_mm256_load_si256((const __m256i *)(w + g * 64)),
                                _mm256_load_si256((const __m256i *)(w + g * 64 + 32))}};
}

VEC_INLINE const uint8_t *unpack_block(ktype type, const uint8_t *q, uint8_t *w)
{
    if (type == KERN_Q8_0)
        return q;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        struct half_panel p = panel_group(type, q, g);
        _mm256_store_si256((__m256i *)(w + g * 64), p.w[0]);
        _mm256_store_si256((__m256i *)(w + g * 64 + 32), p.w[1]);
    }
    return w;
}

/* What turns the integer dot products of a block into f32: eight outputs. */
struct half_scales {
    __m256 ds, m;
    __m256i sc[2];      /* scales of the two halves of k, each twice as 16 bits; ones where the type has none */
    __m256i offset01;   /* scales of both halves times the weights' offset, at most 128 × 32, as pairs of 16 bits */
    __m256i mn01;       /* Q2_K's minima of both halves as pairs of 16 bits */
};

VEC_INLINE __m256 halfs(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

VEC_INLINE __m256i u8_epi32(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

VEC_INLINE __m256i i8_epi32(const uint8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* e8m0_half_f32(): (e - 1) << 23 is the larger of the two from 2 on. */
VEC_INLINE __m256 exponents(const uint8_t *p)
{
    __m256i e = u8_epi32(p), one = _mm256_set1_epi32(1);
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23),
                                                _mm256_slli_epi32(_mm256_add_epi32(e, one), 21)));
}

/* Two int32 that fit 16 bits, as a pair. */
VEC_INLINE __m256i pair_of(__m256i lo, __m256i hi)
{
    return _mm256_blend_epi16(lo, _mm256_slli_epi32(hi, 16), 0xAA);
}

/* Where scales belong to 16 k. `scale`, `d`: of the first of the eight outputs. */
VEC_INLINE struct half_scales scales_of_halves(ktype type, const uint8_t *scale, const uint8_t *d)
{
    struct half_scales s = {.ds = halfs(d)};
    __m256i sc[2], mn[2];
    for (int i = 0; i < 2; i++) {
        sc[i] = type == KERN_Q2_K ? u8_epi32(scale + 16 * i) : i8_epi32(scale + 16 * i);
        if (type == KERN_Q2_K) {
            mn[i] = _mm256_srli_epi32(sc[i], 4);
            sc[i] = _mm256_and_si256(sc[i], _mm256_set1_epi32(15));
        }
        s.sc[i] = pair_of(sc[i], sc[i]);
    }
    const int offset = panel_layout(type).offset;
    if (offset)
        s.offset01 = _mm256_slli_epi16(pair_of(sc[0], sc[1]), __builtin_ctz((unsigned)offset));
    if (type == KERN_Q2_K) {
        s.mn01 = pair_of(mn[0], mn[1]);
        s.m = halfs(d + META_K_DMIN - META_K_D);
    }
    return s;
}

VEC_INLINE struct half_scales half_scales_of(ktype type, const uint8_t *meta, uint32_t sub, const int h)
{
    if (has_half_scales(type))
        return scales_of_halves(type, meta + 2 * sub * 16 + 8 * h, meta + META_K_D + 16 * h);
    struct half_scales s = {.sc = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)}};
    const uint8_t *scale = meta + sub * 16 + 8 * h;
    if (is_k45(type)) {
        s.ds = _mm256_mul_ps(halfs(meta + META_K_D + 16 * h), _mm256_cvtepi32_ps(u8_epi32(scale)));
        s.m = _mm256_mul_ps(halfs(meta + META_K_DMIN + 16 * h), _mm256_cvtepi32_ps(u8_epi32(scale + META_K_MIN)));
    } else if (type == KERN_IQ4_XS) {
        s.ds = _mm256_mul_ps(halfs(meta + META_XS_D + 16 * h), _mm256_cvtepi32_ps(i8_epi32(scale)));
    } else if (type == KERN_MXFP4) {
        s.ds = exponents(meta + 8 * h);
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
    if (has_half_scales(type))
        return type == KERN_Q6_K ? 2 : 4; /* scales change after group 3 */
    return is_signed(type) ? 1 : is_5bit(type) || type == KERN_MXFP4 ? 4 : 8;
}

/* Adds the products of the i-th group met to 16-bit sums, and widens them when they are full. `sc`: the multiplier of
 * the widening, for each half panel. */
VEC_INLINE void multiply(ktype type, const int i, const struct half_panel *p, const __m256i sc[2], const int8_t *x,
                         __m256i sum16[2], __m256i sum32[2])
{
    const int full = groups_per_sum(type);
    __m256i xv = four(x);
    for (int h = 0; h < 2; h++) {
        __m256i product = is_signed(type)
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

/* The weights' offset times x in all lanes: broadcast from memory and shifted, where the offset is a power of two, since
 * the way from an integer register takes the multiplications' places. */
VEC_INLINE __m256i times_offset(ktype type, int32_t x)
{
    const int32_t offset = panel_layout(type).offset;
    if (offset & (offset - 1))
        return _mm256_set1_epi32(offset * x);
    return _mm256_slli_epi32(_mm256_set1_epi32(x), __builtin_ctz((unsigned)offset));
}

VEC_INLINE __m256 finish(ktype type, const struct half_scales *s, const struct kern_xmeta *xm, __m256i idot, __m256 acc)
{
    const int32_t offset = panel_layout(type).offset;
    int32_t pair; /* sums of both halves of k */
    memcpy(&pair, xm->s16, sizeof pair);
    if (has_half_scales(type) && offset) {
        idot = _mm256_sub_epi32(idot, _mm256_madd_epi16(s->offset01, _mm256_set1_epi32(pair)));
    } else if (offset) {
        idot = _mm256_sub_epi32(idot, times_offset(type, xm->s));
    }
    acc = _mm256_fmadd_ps(_mm256_mul_ps(s->ds, _mm256_set1_ps(xm->d)), _mm256_cvtepi32_ps(idot), acc);
    if (type == KERN_Q2_K) {
        __m256i low = _mm256_madd_epi16(s->mn01, _mm256_set1_epi32(pair));
        acc = _mm256_fnmadd_ps(_mm256_mul_ps(s->m, _mm256_set1_ps(xm->d)), _mm256_cvtepi32_ps(low), acc);
    }
    if (!has_min(type))
        return acc;
    __m256 xs = _mm256_set1_ps(xm->ds);
    return is_k45(type) ? _mm256_fnmadd_ps(s->m, xs, acc) : _mm256_fmadd_ps(s->m, xs, acc);
}

/* One 32-k block, sixteen outputs × nt tokens. Groups are met in an order that suits where they come from: a packed
 * byte holds groups g and g + 4. Scales of 16 k need the natural one, since they change after group 3. */
VEC_INLINE void block_tile(ktype type, const int unpacked, const uint8_t *w, const struct panel_scales *s,
                           const int8_t *x, const struct kern_xmeta *xm, vf *acc, const int nt)
{
    __m256i sum16[TILE][2], sum32[TILE][2];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        const int g = unpacked || has_half_scales(type) ? i : i / 2 + i % 2 * 4;
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
    return has_half_scales(type) ? 2 : TILE;
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
