/* math: the elementary functions on 16 lanes, operation for operation those of ref/math.h. Included after vec.h. */
#ifndef KERN_SIMD_MATH_H
#define KERN_SIMD_MATH_H

#include "kern/coef.h"

VEC_INLINE vf vf_neg(vf x)
{
    return vf_from_bits(vi_add(vi_from_bits(x), vi_set1(INT32_MIN)));
}

/* `falling`: x is not above 0; then a NaN stays one, but not with its own bits. */
VEC_INLINE vf exp_lanes(vf x, const int falling)
{
    vf c = vf_max(vf_set1(EXP_LO), falling ? x : vf_min(vf_set1(EXP_HI), x));
    vf n = vf_round(vf_mul(c, vf_set1(EXP_LOG2E)));
    vf r = vf_fma(n, vf_set1(-EXP_LN2_HI), c);
    r = vf_fma(n, vf_set1(-EXP_LN2_LO), r);
    vf p = vf_set1(EXP_C0);
    p = vf_fma(p, r, vf_set1(EXP_C1));
    p = vf_fma(p, r, vf_set1(EXP_C2));
    p = vf_fma(p, r, vf_set1(EXP_C3));
    p = vf_fma(p, r, vf_set1(EXP_C4));
    p = vf_fma(p, r, vf_set1(EXP_C5));
    p = vf_add(vf_fma(p, vf_mul(r, r), r), vf_set1(1.0f));
    vf y = vf_mul(p, vf_from_bits(vi_shl23(vi_add(vi_of(n), vi_set1(127)))));
    y = vf_clear(vf_lt(x, vf_set1(EXP_LO)), y);
    return falling ? y : vf_keep_nan(x, y);
}

VEC_INLINE vf vf_exp(vf x)
{
    return exp_lanes(x, 0);
}

VEC_INLINE vf vf_tanh(vf x)
{
    vf z = vf_from_bits(vi_and(vi_from_bits(x), vi_set1(0x7FFFFFFF))), s = vf_mul(x, x);
    vf p = vf_set1(TANH_C0);
    p = vf_fma(p, s, vf_set1(TANH_C1));
    p = vf_fma(p, s, vf_set1(TANH_C2));
    p = vf_fma(p, s, vf_set1(TANH_C3));
    p = vf_fma(p, s, vf_set1(TANH_C4));
    vf small = vf_fma(vf_mul(p, s), x, x);
    vf big = vf_sub(vf_set1(1.0f), vf_div(vf_set1(2.0f), vf_add(vf_exp(vf_add(z, z)), vf_set1(1.0f))));
    big = vf_from_bits(vi_or(vi_from_bits(big), vi_and(vi_from_bits(x), vi_set1(INT32_MIN))));
    return vf_select(vf_lt(z, vf_set1(TANH_SMALL)), small, big);
}

VEC_INLINE vf vf_silu(vf x)
{
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(x))));
}

VEC_INLINE vf vf_gelu_tanh(vf x)
{
    vf u = vf_mul(x, vf_fma(vf_mul(x, x), vf_set1(GELU_B), vf_set1(GELU_A)));
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(vf_neg(u))));
}

#endif
