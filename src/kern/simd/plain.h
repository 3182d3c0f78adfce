/*
 * plain: linear layers with F32, F16 and BF16 weights on 16 lanes; equals ref/linear.c. Included after simd/ops.h.
 *
 * One output's sum is a chain of dependent fused multiply-adds, so several panels and tokens are kept in flight: four
 * panels of one token, or PLAIN_T tokens of one panel.
 */
#ifndef KERN_SIMD_PLAIN_H
#define KERN_SIMD_PLAIN_H

#include "kern/simd/ops.h"

#define PLAIN_T 4
#define PLAIN_P 4

VEC_INLINE vf load_weight(enum kern_type type, const uint8_t *panel, size_t k)
{
    if (type == KERN_F32)
        return vf_load((const float *)panel + k * 16);
    if (type == KERN_F16)
        return vf_load_half((const uint16_t *)panel + k * 16);
    return vf_load_bf16((const uint16_t *)panel + k * 16);
}

VEC_INLINE void store_panel(const struct kern_mat *m, uint32_t panel, vf acc, float *out)
{
    uint32_t first = panel * KERN_LANES;
    if (m->rows - first >= KERN_LANES)
        vf_store(out + first, acc);
    else
        store_tail(out + first, m->rows - first, acc);
}

VEC_INLINE void plain_tile(enum kern_type type, const struct kern_mat *m, uint32_t p, const float *x, float *out,
                           size_t stride, const int np, const int nt)
{
    vf acc[PLAIN_P][PLAIN_T];
    for (int i = 0; i < np; i++)
        for (int t = 0; t < nt; t++)
            acc[i][t] = vf_zero();
    for (uint32_t k0 = 0; k0 < m->cols; k0 += KERN_SECTION) {
        uint32_t k1 = k0 + KERN_SECTION < m->cols ? k0 + KERN_SECTION : m->cols;
        vf sec[PLAIN_P][PLAIN_T];
        for (int i = 0; i < np; i++)
            for (int t = 0; t < nt; t++)
                sec[i][t] = vf_zero();
        for (uint32_t k = k0; k < k1; k++)
            for (int i = 0; i < np; i++) {
                vf w = load_weight(type, m->panels + (size_t)(p + (uint32_t)i) * m->stride, k);
                for (int t = 0; t < nt; t++)
                    sec[i][t] = vf_fma(w, vf_set1(x[(size_t)t * m->cols + k]), sec[i][t]);
            }
        for (int i = 0; i < np; i++)
            for (int t = 0; t < nt; t++)
                acc[i][t] = vf_add(acc[i][t], sec[i][t]);
    }
    for (int i = 0; i < np; i++)
        for (int t = 0; t < nt; t++)
            store_panel(m, p + (uint32_t)i, acc[i][t], out + (size_t)t * stride);
}

VEC_INLINE void plain_type(enum kern_type type, const struct kern_mat *m, uint32_t p0, uint32_t p1,
                           const struct kern_act *x, float *out, size_t stride)
{
    uint32_t wide = x->tokens / PLAIN_T * PLAIN_T;
    for (uint32_t p = p0; p < p1; p++)
        for (uint32_t t = 0; t < wide; t += PLAIN_T)
            plain_tile(type, m, p, x->x + (size_t)t * m->cols, out + t * stride, stride, 1, PLAIN_T);
    for (uint32_t t = wide; t < x->tokens; t++) {
        const float *xt = x->x + (size_t)t * m->cols;
        uint32_t p = p0;
        for (; p + PLAIN_P <= p1; p += PLAIN_P)
            plain_tile(type, m, p, xt, out + t * stride, stride, PLAIN_P, 1);
        for (; p < p1; p++)
            plain_tile(type, m, p, xt, out + t * stride, stride, 1, 1);
    }
}

static void simd_plain(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                       size_t stride)
{
    if (m->type == KERN_F32)
        plain_type(KERN_F32, m, p0, p1, x, out, stride);
    else if (m->type == KERN_F16)
        plain_type(KERN_F16, m, p0, p1, x, out, stride);
    else
        plain_type(KERN_BF16, m, p0, p1, x, out, stride);
}

#endif
