/*
 * ops: norms, activations, rotation, quantisation on 16 lanes; each equals its loop in ref/ bit by bit. Included once by
 * each level's ops.c, after its vec.h, so that the code exists once and the instructions follow the folder's flags.
 */
#ifndef KERN_SIMD_OPS_H
#define KERN_SIMD_OPS_H

#include <math.h>
#include <string.h>

#include "kern/half.h"
#include "kern/kern.h"
#include "kern/simd/math.h"

/* The last n < 16 floats of an array, the rest `fill`. */
VEC_INLINE vf load_tail(const float *p, uint32_t n, float fill)
{
    float t[16];
    for (int i = 0; i < 16; i++)
        t[i] = fill;
    memcpy(t, p, n * sizeof *p);
    return vf_load(t);
}

VEC_INLINE void store_tail(float *p, uint32_t n, vf x)
{
    float t[16];
    vf_store(t, x);
    memcpy(p, t, n * sizeof *p);
}

static void simd_rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y)
{
    vf sum = vf_zero();
    uint32_t k = 0;
    for (; k + 16 <= n; k += 16) {
        vf v = vf_load(x + k);
        sum = vf_fma(v, v, sum);
    }
    if (k < n) {
        vf v = load_tail(x + k, n - k, 0);
        sum = vf_fma(v, v, sum);
    }
    float scale = 1.0f / sqrtf(vf_sum(sum) / (float)n + eps);
    vf sc = vf_set1(scale);
    for (k = 0; k + 16 <= n; k += 16)
        vf_store(y + k, vf_mul(vf_mul(vf_load(x + k), sc), vf_load(w + k)));
    if (k < n)
        store_tail(y + k, n - k, vf_mul(vf_mul(load_tail(x + k, n - k, 0), sc), load_tail(w + k, n - k, 0)));
}

VEC_INLINE vf glu_lanes(enum kern_glu kind, vf gate, vf up)
{
    return vf_mul(kind == KERN_SILU ? vf_silu(gate) : vf_gelu_tanh(gate), up);
}

VEC_INLINE void glu_loop(enum kern_glu kind, const float *gate, const float *up, uint32_t n, float *y)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        vf_store(y + i, glu_lanes(kind, vf_load(gate + i), vf_load(up + i)));
    if (i < n)
        store_tail(y + i, n - i, glu_lanes(kind, load_tail(gate + i, n - i, 0), load_tail(up + i, n - i, 0)));
}

static void simd_glu(enum kern_glu kind, const float *gate, const float *up, uint32_t n, float *y)
{
    if (kind == KERN_SILU)
        glu_loop(KERN_SILU, gate, up, n, y);
    else
        glu_loop(KERN_GELU_TANH, gate, up, n, y);
}

static void simd_add(float *x, const float *y, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        vf_store(x + i, vf_add(vf_load(x + i), vf_load(y + i)));
    for (; i < n; i++)
        x[i] = x[i] + y[i];
}

static void simd_softcap(float *x, uint32_t n, float cap)
{
    vf c = vf_set1(cap);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        vf_store(x + i, vf_mul(c, vf_tanh(vf_div(vf_load(x + i), c))));
    if (i < n)
        store_tail(x + i, n - i, vf_mul(c, vf_tanh(vf_div(load_tail(x + i, n - i, 0), c))));
}

/* a' = fmaf(a, cos, -(b sin)), b' = fmaf(b, cos, a sin) */
VEC_INLINE void rotate(vf *a, vf *b, vf c, vf s)
{
    vf u = *a, v = *b;
    *a = vf_fma(u, c, vf_neg(vf_mul(v, s)));
    *b = vf_fma(v, c, vf_mul(u, s));
}

static void rope_tail(float *x, const float *cs, uint32_t n, uint32_t from, bool interleaved)
{
    for (uint32_t i = from; i < n; i++) {
        float *pa = interleaved ? &x[2 * i] : &x[i], *pb = interleaved ? &x[2 * i + 1] : &x[i + n];
        float u = *pa, v = *pb, c = cs[i], s = cs[n + i];
        *pa = fmaf(u, c, -(v * s));
        *pb = fmaf(v, c, u * s);
    }
}

static void simd_rope(float *x, const float *cs, uint32_t n, bool interleaved)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        vf c = vf_load(cs + i), s = vf_load(cs + n + i), a, b;
        if (interleaved) {
            vf_load2(x + 2 * i, &a, &b);
            rotate(&a, &b, c, s);
            vf_store2(x + 2 * i, a, b);
        } else {
            a = vf_load(x + i), b = vf_load(x + n + i);
            rotate(&a, &b, c, s);
            vf_store(x + i, a);
            vf_store(x + n + i, b);
        }
    }
    rope_tail(x, cs, n, i, interleaved);
}

/* 32 values. NaN ranks above infinity above every number when patterns without sign are compared as integers. */
VEC_INLINE void quantise32(const float *x, int8_t *q, struct kern_xmeta *meta)
{
    vf x0 = vf_load(x), x1 = vf_load(x + 16);
    vi abs = vi_set1(0x7FFFFFFF);
    int32_t top = vi_top(vi_max(vi_and(vi_from_bits(x0), abs), vi_and(vi_from_bits(x1), abs)));
    float amax = bits_f32((uint32_t)top);
    if (top >= 0x7F800000 || amax < AMAX_TINY) {
        memset(q, 0, 32);
        float d = top >= 0x7F800000 ? NAN : 0;
        *meta = (struct kern_xmeta){.d = d, .ds = d * 0.0f};
        return;
    }
    vf inv = vf_set1(127.0f / amax), hi = vf_set1(127), lo = vf_set1(-127);
    vi q0 = vi_of(vf_max(vf_min(vf_round(vf_mul(x0, inv)), hi), lo));
    vi q1 = vi_of(vf_max(vf_min(vf_round(vf_mul(x1, inv)), hi), lo));
    vi_store_i8(q, q0);
    vi_store_i8(q + 16, q1);
    int32_t s0 = vi_sum(q0), s1 = vi_sum(q1);
    float d = amax / 127.0f;
    *meta = (struct kern_xmeta){
        .d = d, .ds = d * (float)(s0 + s1), .s = s0 + s1, .s16 = {(int16_t)s0, (int16_t)s1}};
}

static void simd_quantise(const struct kern_act *a, uint32_t t0, uint32_t t1, uint32_t b0, uint32_t b1)
{
    for (uint32_t t = t0; t < t1; t++) {
        uint32_t c0 = t / KERN_CHUNK * KERN_CHUNK;
        uint32_t n = a->tokens - c0 < KERN_CHUNK ? a->tokens - c0 : KERN_CHUNK;
        const float *x = a->x + (size_t)t * a->cols;
        for (uint32_t b = b0; b < b1; b++) {
            size_t at = (size_t)c0 * (a->cols / 32) + (size_t)b * n + (t - c0);
            quantise32(x + b * 32, a->q + at * 32, a->meta + at);
        }
    }
}

static struct kern_top simd_argmax(const float *x, uint32_t n)
{
    /* Per lane the first index of its largest value; ties between lanes go to the lowest index at the end. */
    uint32_t i = 0, best = 0;
    vi exponents = vi_set1(0);
    vf top = vf_set1(-INFINITY), at = vf_zero();
    vi expo = vi_set1(0x7F800000);
    uint32_t chunk_n = n & ~15u;
    for (; i < chunk_n; i += 16) {
        vf v = vf_load(x + i);
        exponents = vi_max(exponents, vi_and(vi_from_bits(v), expo));
        vm more = vf_lt(top, v);
        top = vf_select(more, v, top);
        at = vf_select(more, vf_from_bits(vi_set1((int32_t)i)), at);
    }
    float tops[16], ats[16];
    vf_store(tops, top);
    vf_store(ats, at);
    bool finite = vi_top(exponents) < 0x7F800000, any = false;
    for (uint32_t lane = 0; chunk_n && lane < 16; lane++) {
        uint32_t k = f32_bits(ats[lane]) + lane;
        if (!any || tops[lane] > x[best] || (tops[lane] == x[best] && k < best))
            best = k, any = true;
    }
    for (; i < n; i++) {
        finite &= (f32_bits(x[i]) & 0x7F800000u) != 0x7F800000u;
        if (x[i] > x[best])
            best = i;
    }
    return (struct kern_top){finite, best, x[best]};
}

static float simd_exp_sum(const float *x, uint32_t n, float max)
{
    vf sum = vf_zero(), m = vf_set1(max);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        sum = vf_add(sum, vf_exp(vf_sub(vf_load(x + i), m)));
    if (i < n) /* exp of minus infinity is 0 and adding 0 changes nothing */
        sum = vf_add(sum, vf_exp(vf_sub(load_tail(x + i, n - i, -INFINITY), m)));
    return vf_sum(sum);
}

#endif
