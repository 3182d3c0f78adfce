/*
 * chunk: the loops around a level's block product. Included by each level's linear.c at its end, which has defined
 *
 *   struct panel_scales                                what turns a block's integer dot products into f32
 *   scales_of(type, meta, sub)                         reads it
 *   unpack_block(type, q, bytes)                       a 32-k block's quants as bytes, [8 groups][64]
 *   block_tokens(type, unpacked, w, s, x, xm, acc, n)  adds one block's products for n tokens to acc[n][16]
 *   UNPACK_FROM                                        tokens from which unpacking to memory pays
 */
#ifndef KERN_SIMD_CHUNK_H
#define KERN_SIMD_CHUNK_H

VEC_INLINE void panel_chunk(ktype type, const struct kern_mat *m, const uint8_t *panel, const int8_t *x,
                            const struct kern_xmeta *xm, uint32_t n, float (*acc)[16])
{
    const struct panel_layout l = panel_layout(type);
    const uint8_t *meta = panel_meta(panel, type, m->cols);
    _Alignas(64) uint8_t bytes[512];
    for (uint32_t b = 0; b < m->cols / KERN_QBLOCK; b++) {
        const uint8_t *q = panel + (size_t)b * l.quant_bytes;
        struct panel_scales s = scales_of(type, meta + (size_t)(b / l.per_block) * l.meta_bytes, b % l.per_block);
        const int8_t *xb = x + (size_t)b * n * KERN_QBLOCK;
        const struct kern_xmeta *xmb = xm + (size_t)b * n;
        if (n < UNPACK_FROM) {
            block_tokens(type, 0, q, &s, xb, xmb, acc, n);
        } else {
            unpack_block(type, q, bytes);
            block_tokens(type, 1, bytes, &s, xb, xmb, acc, n);
        }
    }
}

VEC_INLINE void linear_type(ktype type, const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x,
                            float *out, size_t stride)
{
    _Alignas(64) float acc[KERN_CHUNK][16];
    for (uint32_t c = 0; c < x->tokens; c += KERN_CHUNK) {
        uint32_t n = x->tokens - c < KERN_CHUNK ? x->tokens - c : KERN_CHUNK;
        for (uint32_t p = p0; p < p1; p++) {
            memset(acc, 0, n * sizeof *acc);
            panel_chunk(type, m, m->panels + (size_t)p * m->stride, x->q + (size_t)c * m->cols,
                        x->meta + (size_t)c * (m->cols / KERN_QBLOCK), n, acc);
            uint32_t first = p * KERN_LANES, w = m->rows - first < KERN_LANES ? m->rows - first : KERN_LANES;
            for (uint32_t t = 0; t < n; t++)
                if (w == KERN_LANES)
                    memcpy(out + (size_t)(c + t) * stride + first, acc[t], sizeof acc[t]);
                else
                    memcpy(out + (size_t)(c + t) * stride + first, acc[t], w * sizeof(float));
        }
    }
}

#define LINEAR(TYPE)                                                                                              \
    static __attribute__((noinline)) void linear_##TYPE(const struct kern_mat *m, uint32_t p0, uint32_t p1,        \
                                                        const struct kern_act *x, float *out, size_t stride)      \
    {                                                                                                             \
        linear_type(KERN_##TYPE, m, p0, p1, x, out, stride);                                                      \
    }
LINEAR(Q8_0)
LINEAR(Q4_0)
LINEAR(Q4_1)
LINEAR(Q5_0)
LINEAR(Q5_1)
LINEAR(Q4_K)
LINEAR(Q5_K)
LINEAR(Q6_K)
#undef LINEAR

static void linear_quantised(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                             size_t stride)
{
    switch (m->type) {
    case KERN_Q8_0: linear_Q8_0(m, p0, p1, x, out, stride); break;
    case KERN_Q4_0: linear_Q4_0(m, p0, p1, x, out, stride); break;
    case KERN_Q4_1: linear_Q4_1(m, p0, p1, x, out, stride); break;
    case KERN_Q5_0: linear_Q5_0(m, p0, p1, x, out, stride); break;
    case KERN_Q5_1: linear_Q5_1(m, p0, p1, x, out, stride); break;
    case KERN_Q4_K: linear_Q4_K(m, p0, p1, x, out, stride); break;
    case KERN_Q5_K: linear_Q5_K(m, p0, p1, x, out, stride); break;
    case KERN_Q6_K: linear_Q6_K(m, p0, p1, x, out, stride); break;
    default: BUG("quantised product of type %d", (int)m->type);
    }
}

#endif
