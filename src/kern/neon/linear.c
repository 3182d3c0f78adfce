/*
 * linear: quantised matrix × int8 activations with NEON's dot products; equals kern_ref_linear() bit by bit.
 *
 * sdot adds four products of signed bytes to each 32-bit lane, exactly, and a lane is an output: four registers are a
 * whole panel, and one register of activations serves four groups, which pick their four bytes by a lane number. Weights
 * of 2 to 6 bits are non-negative signed bytes as they are; sums start at -offset × Σ xq instead of having the offset
 * taken from each weight. Chunks and unpacking as in avx2/linear.c.
 */
#include "kern/neon/vec.h"

#include "kern/neon/neon.h"
#include "kern/simd/quant.h"

#define TILE 4     /* tokens that share a load of weights: 16 registers of sums, 4 of activations, 4 of weights */
#define FEW 4      /* tokens up to which unpacking to memory does not pay */
#define FEW_SUMS 1 /* and up to which their sums stay in registers then */

struct panel_group { /* weights of four k of sixteen outputs, four outputs in each register */
    int8x16_t w[4];
};

/* The bits of `mask` in x, shifted from bit `from` of their byte to bit `to`. */
VEC_INLINE uint8x16_t bits_of(uint8x16_t x, const int from, const int to, const uint8_t mask)
{
    return vandq_u8(vshlq_u8(x, vdupq_n_s8((int8_t)(to - from))), vdupq_n_u8(mask));
}

/* Four outputs of group g straight from the panel; q points at the block's first bytes of these outputs. */
VEC_INLINE int8x16_t panel_quarter(ktype type, const uint8_t *q, const int g)
{
    if (type == KERN_Q8_0)
        return vreinterpretq_s8_u8(vld1q_u8(q + g * 64));
    if (type == KERN_Q2_K || type == KERN_Q3_K) {
        uint8x16_t x = bits_of(vld1q_u8(q + g / 4 * 64), 2 * (g % 4), 0, 3);
        return vreinterpretq_s8_u8(type == KERN_Q2_K ? x : vorrq_u8(x, bits_of(vld1q_u8(q + 128), g, 2, 4)));
    }
    uint8x16_t x = bits_of(vld1q_u8(q + g % 4 * 64), g < 4 ? 0 : 4, 0, 15);
    if (is_codebook(type))
        return vqtbl1q_s8(vld1q_s8(panel_codebook(type)), x);
    if (is_5bit(type))
        x = vorrq_u8(x, bits_of(vld1q_u8(q + 256), g, 4, 16));
    else if (type == KERN_Q6_K)
        x = vorrq_u8(x, bits_of(vld1q_u8(q + 256 + g / 4 * 64), 2 * (g % 4), 4, 48));
    return vreinterpretq_s8_u8(x);
}

VEC_INLINE struct panel_group panel_group(ktype type, const uint8_t *q, const int g)
{
    return (struct panel_group){{panel_quarter(type, q, g), panel_quarter(type, q + 16, g),
                                 panel_quarter(type, q + 32, g), panel_quarter(type, q + 48, g)}};
}

/* From the unpacked block: byte vectors [8 groups][64]. */
VEC_INLINE struct panel_group bytes_group(const uint8_t *w, const int g)
{
    return panel_group(KERN_Q8_0, w, g);
}

VEC_INLINE const uint8_t *unpack_block(ktype type, const uint8_t *q, uint8_t *w)
{
    if (type == KERN_Q8_0)
        return q;
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        struct panel_group p = panel_group(type, q, g);
        for (int h = 0; h < 4; h++)
            vst1q_u8(w + g * 64 + h * 16, vreinterpretq_u8_s8(p.w[h]));
    }
    return w;
}

struct panel_scales {
    vf ds, m;
    vi sc[2], mn[2]; /* scales of the two halves of k, where the type has them, and Q2_K's minima */
};

VEC_INLINE vi u8_epi32(const uint8_t *p)
{
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_high_u8(x);
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(lo))), vreinterpretq_s32_u32(vmovl_high_u16(lo)),
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(hi))), vreinterpretq_s32_u32(vmovl_high_u16(hi))};
}

VEC_INLINE vi i8_epi32(const uint8_t *p)
{
    int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_high_s8(x);
    return (vi){vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo), vmovl_s16(vget_low_s16(hi)), vmovl_high_s16(hi)};
}

VEC_INLINE vf floats(vi x)
{
    return EACH1(vf, vcvtq_f32_s32, x);
}

VEC_INLINE vf halfs(const uint8_t *p)
{
    return vf_load_half((const uint16_t *)p);
}

/* z - x × y with one rounding */
VEC_INLINE vf less_product(vf x, vf y, vf z)
{
    return (vf){vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b), vfmsq_f32(z.c, x.c, y.c),
                vfmsq_f32(z.d, x.d, y.d)};
}

VEC_INLINE int32x4_t shr4(int32x4_t x)
{
    return vshrq_n_s32(x, 4);
}

VEC_INLINE int32x4_t shl21(int32x4_t x)
{
    return vshlq_n_s32(x, 21);
}

/* e8m0_half_f32(): (e - 1) << 23 is the larger of the two from 2 on. */
VEC_INLINE vf exponents(const uint8_t *p)
{
    vi e = u8_epi32(p), more = vi_add(e, vi_set1(1));
    return vf_from_bits(vi_max(vi_shl23(vi_add(e, vi_set1(-1))), EACH1(vi, shl21, more)));
}

/* Where scales belong to 16 k. */
VEC_INLINE struct panel_scales scales_of_halves(ktype type, const uint8_t *meta, uint32_t sub)
{
    struct panel_scales s = {.ds = halfs(meta + META_K_D)};
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *p = meta + (2 * sub + i) * 16;
        s.sc[i] = type == KERN_Q2_K ? u8_epi32(p) : i8_epi32(p);
        if (type == KERN_Q2_K) {
            s.mn[i] = EACH1(vi, shr4, s.sc[i]);
            s.sc[i] = vi_and(s.sc[i], vi_set1(15));
        }
    }
    if (type == KERN_Q2_K)
        s.m = halfs(meta + META_K_DMIN);
    return s;
}

VEC_INLINE struct panel_scales scales_of(ktype type, const uint8_t *meta, uint32_t sub)
{
    if (has_half_scales(type))
        return scales_of_halves(type, meta, sub);
    struct panel_scales s = {.ds = vf_zero()};
    if (is_k45(type)) {
        s.ds = vf_mul(halfs(meta + META_K_D), floats(u8_epi32(meta + sub * 16)));
        s.m = vf_mul(halfs(meta + META_K_DMIN), floats(u8_epi32(meta + META_K_MIN + sub * 16)));
    } else if (type == KERN_IQ4_XS) {
        s.ds = vf_mul(halfs(meta + META_XS_D), floats(i8_epi32(meta + sub * 16)));
    } else if (type == KERN_MXFP4) {
        s.ds = exponents(meta);
    } else {
        s.ds = halfs(meta);
        if (has_min(type))
            s.m = halfs(meta + 32);
    }
    return s;
}

/* What a sum starts at, so that the weights' offset is gone at its end. Values of a codebook are signed and have none. */
VEC_INLINE vi first_sum(ktype type, const struct kern_xmeta *xm, const int half)
{
    const int32_t offset = is_codebook(type) ? 0 : panel_layout(type).offset;
    return vi_set1(-offset * (has_half_scales(type) ? xm->s16[half] : xm->s));
}

VEC_INLINE int32x4_t dot4(int32x4_t sum, int8x16_t w, int8x16_t x, const int lane)
{
    switch (lane) { /* the instruction wants a literal */
    case 0: return vdotq_laneq_s32(sum, w, x, 0);
    case 1: return vdotq_laneq_s32(sum, w, x, 1);
    case 2: return vdotq_laneq_s32(sum, w, x, 2);
    default: return vdotq_laneq_s32(sum, w, x, 3);
    }
}

/* x[0] × y[0] + x[1] × y[1] */
VEC_INLINE vi both_halves(const vi x[2], const vi y[2])
{
    return vi_add(EACH2(vi, vmulq_s32, x[0], y[0]), EACH2(vi, vmulq_s32, x[1], y[1]));
}

VEC_INLINE vf finish(ktype type, const struct panel_scales *s, const struct kern_xmeta *xm, const vi sum[2], vf acc)
{
    vi idot = has_half_scales(type) ? both_halves(sum, s->sc) : sum[0];
    acc = vf_fma(vf_mul(s->ds, vf_set1(xm->d)), floats(idot), acc);
    if (type == KERN_Q2_K) {
        const vi sums[2] = {vi_set1(xm->s16[0]), vi_set1(xm->s16[1])};
        acc = less_product(vf_mul(s->m, vf_set1(xm->d)), floats(both_halves(sums, s->mn)), acc);
    }
    if (!has_min(type))
        return acc;
    vf xs = vf_set1(xm->ds);
    return is_k45(type) ? less_product(s->m, xs, acc) : vf_fma(s->m, xs, acc);
}

/* One 32-k block, sixteen outputs × nt tokens. Groups come in their natural order, so that of activations and of the
 * sums one half is in use at a time; there are registers for no more. */
VEC_INLINE void block_tile(ktype type, const int unpacked, const uint8_t *w, const struct panel_scales *s,
                           const int8_t *x, const struct kern_xmeta *xm, vf *acc, const int nt)
{
    vi sum[TILE][2];
    int8x16_t xv[TILE];
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const int half = has_half_scales(type) ? g / 4 : 0;
        const struct panel_group p = unpacked ? bytes_group(w, g) : panel_group(type, w, g);
#pragma GCC unroll 4
        for (int t = 0; t < nt; t++) {
            if (g % 4 == 0)
                xv[t] = vld1q_s8(x + 32 * t + 4 * g);
            vi to = g == 4 * half ? first_sum(type, xm + t, half) : sum[t][half];
            to.a = dot4(to.a, p.w[0], xv[t], g % 4);
            to.b = dot4(to.b, p.w[1], xv[t], g % 4);
            to.c = dot4(to.c, p.w[2], xv[t], g % 4);
            to.d = dot4(to.d, p.w[3], xv[t], g % 4);
            sum[t][half] = to;
        }
        KEEP_ORDER();
    }
#pragma GCC unroll 4
    for (int t = 0; t < nt; t++)
        acc[t] = finish(type, s, xm + t, sum[t], acc[t]);
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
    default: break;
    }
#undef TAIL
}

#include "kern/simd/chunk.h"

void kern_neon_linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                      size_t stride)
{
    linear_quantised(m, p0, p1, x, out, stride);
}
