/* vec: 16 lanes on NEON, as four registers. The vocabulary of simd/; avx2/vec.h has the same on two registers. */
#ifndef KERN_VEC_H
#define KERN_VEC_H

#include <arm_neon.h>
#include <stdint.h>

#define VEC_INLINE static inline __attribute__((always_inline))
#define VEC_LANES 4 /* of one register */
#define VEC_TILE 6  /* query vectors that attention's product takes together */
#define VEC_SUMS 24 /* registers it keeps sums in; eight are left for what is multiplied */

typedef struct {
    float32x4_t a, b, c, d;
} vf; /* float[16] */
typedef struct {
    int32x4_t a, b, c, d;
} vi; /* int32[16], also masks of all ones or zeros */

/* One intrinsic on each of the four registers. */
#define EACH1(T, OP, X) ((T){OP((X).a), OP((X).b), OP((X).c), OP((X).d)})
#define EACH2(T, OP, X, Y) ((T){OP((X).a, (Y).a), OP((X).b, (Y).b), OP((X).c, (Y).c), OP((X).d, (Y).d)})

VEC_INLINE vf vf_set1(float x)
{
    float32x4_t v = vdupq_n_f32(x);
    return (vf){v, v, v, v};
}
VEC_INLINE vf vf_zero(void)
{
    return vf_set1(0);
}
VEC_INLINE vf vf_load(const float *p)
{
    return (vf){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
VEC_INLINE void vf_store(float *p, vf x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
VEC_INLINE vf vf_load_half(const uint16_t *p)
{
    float16x8_t lo = vreinterpretq_f16_u16(vld1q_u16(p)), hi = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return (vf){vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo), vcvt_f32_f16(vget_low_f16(hi)),
                vcvt_high_f32_f16(hi)};
}
VEC_INLINE void vf_store_half(uint16_t *p, vf x) /* nearest even, which is what pool_set_fp_mode() asks for */
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b)));
    vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d)));
}
VEC_INLINE float32x4_t vec_bf16(uint16x4_t x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(x, 16));
}
VEC_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return (vf){vec_bf16(vld1_u16(p)), vec_bf16(vld1_u16(p + 4)), vec_bf16(vld1_u16(p + 8)), vec_bf16(vld1_u16(p + 12))};
}
VEC_INLINE vf vf_add(vf x, vf y)
{
    return EACH2(vf, vaddq_f32, x, y);
}
VEC_INLINE vf vf_sub(vf x, vf y)
{
    return EACH2(vf, vsubq_f32, x, y);
}
VEC_INLINE vf vf_mul(vf x, vf y)
{
    return EACH2(vf, vmulq_f32, x, y);
}
VEC_INLINE vf vf_div(vf x, vf y)
{
    return EACH2(vf, vdivq_f32, x, y);
}
VEC_INLINE vf vf_fma(vf x, vf y, vf z)
{
    return (vf){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                vfmaq_f32(z.d, x.d, y.d)};
}
/* x > y ? x : y and x < y ? x : y, that is, y where either is NaN: not what vmaxq_f32 and vminq_f32 do */
VEC_INLINE float32x4_t vec_max(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
VEC_INLINE float32x4_t vec_min(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcltq_f32(x, y), x, y);
}
VEC_INLINE vf vf_max(vf x, vf y)
{
    return EACH2(vf, vec_max, x, y);
}
VEC_INLINE vf vf_min(vf x, vf y)
{
    return EACH2(vf, vec_min, x, y);
}
VEC_INLINE vf vf_round(vf x)
{
    return EACH1(vf, vrndnq_f32, x);
}
VEC_INLINE vi vi_from_bits(vf x)
{
    return EACH1(vi, vreinterpretq_s32_f32, x);
}
VEC_INLINE vf vf_from_bits(vi x)
{
    return EACH1(vf, vreinterpretq_f32_s32, x);
}
VEC_INLINE vi vi_set1(int32_t x)
{
    int32x4_t v = vdupq_n_s32(x);
    return (vi){v, v, v, v};
}
VEC_INLINE vi vi_iota(void)
{
    return (vi){{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};
}
VEC_INLINE vi vi_add(vi x, vi y)
{
    return EACH2(vi, vaddq_s32, x, y);
}
VEC_INLINE vi vi_and(vi x, vi y)
{
    return EACH2(vi, vandq_s32, x, y);
}
VEC_INLINE vi vi_or(vi x, vi y)
{
    return EACH2(vi, vorrq_s32, x, y);
}
VEC_INLINE vi vi_max(vi x, vi y)
{
    return EACH2(vi, vmaxq_s32, x, y);
}
VEC_INLINE int32x4_t vec_shl23(int32x4_t x)
{
    return vshlq_n_s32(x, 23);
}
VEC_INLINE vi vi_shl23(vi x)
{
    return EACH1(vi, vec_shl23, x);
}
VEC_INLINE vi vi_of(vf x) /* x holds whole numbers */
{
    return EACH1(vi, vcvtnq_s32_f32, x);
}
/* Masks, and selection by them: m ? x : y. */
typedef vi vm;
VEC_INLINE int32x4_t vec_lt(float32x4_t x, float32x4_t y)
{
    return vreinterpretq_s32_u32(vcltq_f32(x, y));
}
VEC_INLINE int32x4_t vec_eq(float32x4_t x, float32x4_t y)
{
    return vreinterpretq_s32_u32(vceqq_f32(x, y));
}
VEC_INLINE int32x4_t vec_gt(int32x4_t x, int32x4_t y)
{
    return vreinterpretq_s32_u32(vcgtq_s32(x, y));
}
VEC_INLINE vm vf_lt(vf x, vf y)
{
    return EACH2(vm, vec_lt, x, y);
}
VEC_INLINE vm vi_gt(vi x, vi y)
{
    return EACH2(vm, vec_gt, x, y);
}
VEC_INLINE vm vm_and(vm x, vm y)
{
    return vi_and(x, y);
}
VEC_INLINE float32x4_t vec_select(int32x4_t m, float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vreinterpretq_u32_s32(m), x, y);
}
VEC_INLINE vf vf_select(vm m, vf x, vf y)
{
    return (vf){vec_select(m.a, x.a, y.a), vec_select(m.b, x.b, y.b), vec_select(m.c, x.c, y.c),
                vec_select(m.d, x.d, y.d)};
}
VEC_INLINE float32x4_t vec_clear(int32x4_t m, float32x4_t x)
{
    return vreinterpretq_f32_s32(vbicq_s32(vreinterpretq_s32_f32(x), m));
}
/* m ? 0 : x */
VEC_INLINE vf vf_clear(vm m, vf x)
{
    return EACH2(vf, vec_clear, m, x);
}
/* NaN in every lane that is NaN in x. */
VEC_INLINE vf vf_keep_nan(vf x, vf y)
{
    return vf_select(EACH2(vm, vec_eq, x, x), y, x);
}

/* One register, for loops that keep several apart. */
typedef float32x4_t vr; /* float[VEC_LANES] */
VEC_INLINE vr vr_zero(void)
{
    return vdupq_n_f32(0);
}
VEC_INLINE vr vr_set1(float x)
{
    return vdupq_n_f32(x);
}
VEC_INLINE vr vr_load(const float *p)
{
    return vld1q_f32(p);
}
VEC_INLINE vr vr_load_half(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
VEC_INLINE void vr_store(float *p, vr x)
{
    vst1q_f32(p, x);
}
VEC_INLINE vr vr_fma(vr x, vr y, vr z)
{
    return vfmaq_f32(z, x, y);
}

/* The tree of ref_sum16(). */
VEC_INLINE float vf_sum(vf x)
{
    float32x4_t e = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    return vpadds_f32(vadd_f32(vget_low_f32(e), vget_high_f32(e)));
}
VEC_INLINE float vf_top(vf x) /* largest lane; order does not matter without NaN */
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}
VEC_INLINE int32_t vi_top(vi x)
{
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d)));
}
VEC_INLINE int32_t vi_sum(vi x)
{
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d)));
}
/* Saturated to int8 in order; values are within ±127 already. */
VEC_INLINE void vi_store_i8(int8_t *p, vi x)
{
    int16x8_t lo = vcombine_s16(vqmovn_s32(x.a), vqmovn_s32(x.b)), hi = vcombine_s16(vqmovn_s32(x.c), vqmovn_s32(x.d));
    vst1q_s8(p, vcombine_s8(vqmovn_s16(lo), vqmovn_s16(hi)));
}
/* The 16 even and the 16 odd floats of 32, and back. */
VEC_INLINE void vf_load2(const float *p, vf *even, vf *odd)
{
    float32x4x2_t x = vld2q_f32(p), y = vld2q_f32(p + 8), z = vld2q_f32(p + 16), w = vld2q_f32(p + 24);
    *even = (vf){x.val[0], y.val[0], z.val[0], w.val[0]};
    *odd = (vf){x.val[1], y.val[1], z.val[1], w.val[1]};
}
VEC_INLINE void vf_store2(float *p, vf even, vf odd)
{
    vst2q_f32(p, ((float32x4x2_t){{even.a, odd.a}}));
    vst2q_f32(p + 8, ((float32x4x2_t){{even.b, odd.b}}));
    vst2q_f32(p + 16, ((float32x4x2_t){{even.c, odd.c}}));
    vst2q_f32(p + 24, ((float32x4x2_t){{even.d, odd.d}}));
}

#endif
