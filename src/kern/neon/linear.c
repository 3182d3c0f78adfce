/*
 * linear: quantised matrix × int8 activations with NEON's dot products; equals kern_ref_linear() bit by bit.
 *
 * sdot adds four products of signed bytes to each 32-bit lane, exactly, and a lane is an output: four registers are a
 * whole panel, and one register of activations serves four groups, which pick their four bytes by a lane number. Weights
 * of 4 to 6 bits are non-negative signed bytes as they are; sums start at -offset × Σ xq instead of having the offset
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

/* The bits of a plane that belong at bit 4 and up, of which the lowest lies at bit `from`. */
VEC_INLINE uint8x16_t high_bits(const uint8_t *plane, const int from, const uint8_t mask)
{
    return vandq_u8(vshlq_u8(vld1q_u8(plane), vdupq_n_s8((int8_t)(4 - from))), vdupq_n_u8(mask));
}

/* Group g straight from the panel; q points at the block. */
VEC_INLINE struct panel_group panel_group(ktype type, const uint8_t *q, const int g)
{
    struct panel_group r;
    for (int h = 0; h < 4; h++, q += 16) {
        if (type == KERN_Q8_0) {
            r.w[h] = vreinterpretq_s8_u8(vld1q_u8(q + g * 64));
            continue;
        }
        uint8x16_t raw = vld1q_u8(q + g % 4 * 64), x = g < 4 ? vandq_u8(raw, vdupq_n_u8(15)) : vshrq_n_u8(raw, 4);
        if (is_5bit(type))
            x = vorrq_u8(x, high_bits(q + 256, g, 16));
        else if (type == KERN_Q6_K)
            x = vorrq_u8(x, high_bits(q + 256 + g / 4 * 64, 2 * (g % 4), 48));
        r.w[h] = vreinterpretq_s8_u8(x);
    }
    return r;
}

/* From the unpacked block: byte vectors [8 groups][64]. */
VEC_INLINE struct panel_group bytes_group(const uint8_t *w, const int g)
{
    return panel_group(KERN_Q8_0, w, g);
}

VEC_INLINE void unpack_block(ktype type, const uint8_t *q, uint8_t *w)
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        struct panel_group p = panel_group(type, q, g);
        for (int h = 0; h < 4; h++)
            vst1q_u8(w + g * 64 + h * 16, vreinterpretq_u8_s8(p.w[h]));
    }
}

struct panel_scales {
    vf ds, neg_m;
    vi sc[2]; /* Q6_K: scales of the two halves of k */
};

VEC_INLINE vf bytes_ps(const uint8_t *p)
{
    uint8x16_t x = vld1q_u8(p);
    uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_high_u8(x);
    return (vf){vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))), vcvtq_f32_u32(vmovl_high_u16(lo)),
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))), vcvtq_f32_u32(vmovl_high_u16(hi))};
}

VEC_INLINE vi signed_bytes(const uint8_t *p)
{
    int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t lo = vmovl_s8(vget_low_s8(x)), hi = vmovl_high_s8(x);
    return (vi){vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo), vmovl_s16(vget_low_s16(hi)), vmovl_high_s16(hi)};
}

VEC_INLINE vf halfs(const uint8_t *p)
{
    return vf_load_half((const uint16_t *)p);
}

VEC_INLINE struct panel_scales scales_of(ktype type, const uint8_t *meta, uint32_t sub)
{
    struct panel_scales s = {.ds = vf_zero()};
    if (type == KERN_Q4_K || type == KERN_Q5_K) {
        s.ds = vf_mul(halfs(meta + META_K_D), bytes_ps(meta + sub * 16));
        s.neg_m = EACH1(vf, vnegq_f32, vf_mul(halfs(meta + META_K_DMIN), bytes_ps(meta + META_K_MIN + sub * 16)));
    } else if (type == KERN_Q6_K) {
        s.ds = halfs(meta + META_Q6_D);
        s.sc[0] = signed_bytes(meta + 2 * sub * 16);
        s.sc[1] = signed_bytes(meta + (2 * sub + 1) * 16);
    } else {
        s.ds = halfs(meta);
        if (has_min(type))
            s.neg_m = halfs(meta + 32);
    }
    return s;
}

/* What a sum starts at, so that the weights' offset is gone at its end. Q6_K has one sum for each half of k. */
VEC_INLINE vi first_sum(ktype type, const struct kern_xmeta *xm, const int half)
{
    return vi_set1(-panel_layout(type).offset * (type == KERN_Q6_K ? xm->s16[half] : xm->s));
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

VEC_INLINE vf finish(ktype type, const struct panel_scales *s, const struct kern_xmeta *xm, const vi sum[2], vf acc)
{
    vi idot = sum[0];
    if (type == KERN_Q6_K)
        idot = vi_add(EACH2(vi, vmulq_s32, sum[0], s->sc[0]), EACH2(vi, vmulq_s32, sum[1], s->sc[1]));
    acc = vf_fma(vf_mul(s->ds, vf_set1(xm->d)), EACH1(vf, vcvtq_f32_s32, idot), acc);
    return has_min(type) ? vf_fma(s->neg_m, vf_set1(xm->ds), acc) : acc;
}

/* One 32-k block, sixteen outputs × nt tokens. Groups come in their natural order, so that of activations and of Q6_K's
 * sums one half is in use at a time; there are registers for no more. */
VEC_INLINE void block_tile(ktype type, const int unpacked, const uint8_t *w, const struct panel_scales *s,
                           const int8_t *x, const struct kern_xmeta *xm, vf *acc, const int nt)
{
    vi sum[TILE][2];
    int8x16_t xv[TILE];
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        const int half = type == KERN_Q6_K ? g / 4 : 0;
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
