/* math: the elementary functions as scalars. These define the arithmetic; see coef.h for sources. */
#ifndef KERN_REF_MATH_H
#define KERN_REF_MATH_H

#include <math.h>
#include <stdint.h>

#include "kern/coef.h"
#include "kern/half.h"

static inline float ref_exp(float x)
{
    float c = x > EXP_HI ? EXP_HI : x;
    c = c < EXP_LO ? EXP_LO : c;
    float n = nearbyintf(c * EXP_LOG2E);
    float r = fmaf(n, -EXP_LN2_HI, c);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = EXP_C0;
    p = fmaf(p, r, EXP_C1);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C5);
    p = fmaf(p, r * r, r) + 1.0f;
    if (x != x)
        return x;
    float y = p * bits_f32((uint32_t)((int32_t)n + 127) << 23);
    return x < EXP_LO ? 0.0f : y;
}

static inline float ref_tanh(float x)
{
    float z = fabsf(x), s = x * x;
    float p = TANH_C0;
    p = fmaf(p, s, TANH_C1);
    p = fmaf(p, s, TANH_C2);
    p = fmaf(p, s, TANH_C3);
    p = fmaf(p, s, TANH_C4);
    float small = fmaf(p * s, x, x);
    float big = 1.0f - 2.0f / (ref_exp(z + z) + 1.0f);
    big = bits_f32(f32_bits(big) | (f32_bits(x) & 0x80000000u));
    return z < TANH_SMALL ? small : big;
}

static inline float ref_silu(float x)
{
    return x / (1.0f + ref_exp(-x));
}

static inline float ref_gelu_tanh(float x)
{
    return x / (1.0f + ref_exp(-(x * fmaf(x * x, GELU_B, GELU_A))));
}

/* The one tree that adds 16 partial sums: i + (i + 8), then + 4, + 2, + 1. */
static inline float ref_sum16(const float s[16])
{
    float t[8];
    for (int i = 0; i < 8; i++)
        t[i] = s[i] + s[i + 8];
    for (int i = 0; i < 4; i++)
        t[i] = t[i] + t[i + 4];
    return (t[0] + t[2]) + (t[1] + t[3]);
}

#endif
