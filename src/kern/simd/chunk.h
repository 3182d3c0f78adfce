/*
 * chunk: the loops around a level's block product. Included by each level's linear.c at its end, which has defined
 *
 *   struct panel_scales                                what turns a block's integer dot products into f32
 *   scales_of(type, meta, sub)                         reads it
 *   unpack_block(type, q, bytes)                       a 32-k block's quants as bytes, [8 groups][64]: returns where they
 *                                                      are, in bytes[512] or, where they are such already, q
 *   block_tile(type, unpacked, w, s, x, xm, acc, n)    adds one block's products for n tokens to acc[n]; n is constant
 *   block_tokens(type, w, s, x, xm, acc, n)            the same for any n, with unpacked weights
 *   FEW                                                tokens up to which unpacking to memory does not pay
 *   FEW_SUMS                                           tokens up to which their sums stay in registers then
 */
#ifndef KERN_SIMD_CHUNK_H
#define KERN_SIMD_CHUNK_H

/* Bytes of quants that are asked for before they are needed, and the meta that goes with them, or the next. One or two
 * tokens pass them so fast that the processor looks ahead by itself; more need too many instructions for a block. */
#define AHEAD 1024u
#define AHEAD_OF_SEVERAL 2048u

/* A panel's quants and its meta are two streams, which the processor's own prefetchers lose at each panel's end: both go
 * on in the next panel. `q`: the quants of block b; `meta`: of its file block; `bytes`: how far ahead. */
VEC_INLINE void prefetch_block(ktype type, const struct kern_mat *m, const uint8_t *q, const uint8_t *meta, uint32_t b,
                               const uint32_t bytes)
{
    const struct panel_layout l = panel_layout(type);
    const uint32_t ahead = (bytes + l.quant_bytes - 1) / l.quant_bytes, meta_ahead = l.per_block == 1 ? ahead : 1;
    uint32_t blocks = m->cols / KERN_QBLOCK, metas = blocks / l.per_block;
    q += b + ahead < blocks ? 0 : m->stride - (size_t)blocks * l.quant_bytes;
    for (uint32_t i = 0; i < l.quant_bytes; i += 64)
        __builtin_prefetch(q + ahead * l.quant_bytes + i);
    if (b % l.per_block)
        return;
    meta += b / l.per_block + meta_ahead < metas ? 0 : m->stride - (size_t)metas * l.meta_bytes;
    for (uint32_t i = 0; i < l.meta_bytes; i += 64)
        __builtin_prefetch(meta + meta_ahead * l.meta_bytes + i);
}

/* Up to FEW tokens: weights are unpacked in registers, where up to FEW_SUMS tokens' sums stay, too. */
VEC_INLINE void panel_few(ktype type, const struct kern_mat *m, const uint8_t *panel, const int8_t *x,
                          const struct kern_xmeta *xm, const int n, vf *acc)
{
    const struct panel_layout l = panel_layout(type);
    const uint8_t *meta = panel_meta(panel, type, m->cols);
    vf sum[FEW], *at = sum;
    if (n > FEW_SUMS) /* memory that the compiler does not know to be its own */
        __asm__("" : "=r"(at) : "0"(acc));
    for (int t = 0; t < n; t++)
        at[t] = vf_zero();
    for (uint32_t b = 0; b < m->cols / KERN_QBLOCK; b++) {
        const uint8_t *q = panel + (size_t)b * l.quant_bytes, *mb = meta + (size_t)(b / l.per_block) * l.meta_bytes;
        struct panel_scales s = scales_of(type, mb, b % l.per_block);
        prefetch_block(type, m, q, mb, b, n > 2 ? AHEAD_OF_SEVERAL : AHEAD);
        block_tile(type, 0, q, &s, x + (size_t)b * n * KERN_QBLOCK, xm + (size_t)b * n, at, n);
    }
    for (int t = 0; t < n; t++)
        acc[t] = at[t];
}

/* More: a block is unpacked once, and met by all of them. */
VEC_INLINE void panel_many(ktype type, const struct kern_mat *m, const uint8_t *panel, const int8_t *x,
                           const struct kern_xmeta *xm, uint32_t n, vf *acc)
{
    const struct panel_layout l = panel_layout(type);
    const uint8_t *meta = panel_meta(panel, type, m->cols);
    _Alignas(64) uint8_t bytes[512];
    for (uint32_t t = 0; t < n; t++)
        acc[t] = vf_zero();
    for (uint32_t b = 0; b < m->cols / KERN_QBLOCK; b++) {
        const uint8_t *q = panel + (size_t)b * l.quant_bytes, *mb = meta + (size_t)(b / l.per_block) * l.meta_bytes;
        struct panel_scales s = scales_of(type, mb, b % l.per_block);
        prefetch_block(type, m, q, mb, b, AHEAD_OF_SEVERAL);
        const uint8_t *w = unpack_block(type, q, bytes);
        block_tokens(type, w, &s, x + (size_t)b * n * KERN_QBLOCK, xm + (size_t)b * n, acc, n);
    }
}

VEC_INLINE void panel_chunk(ktype type, const struct kern_mat *m, const uint8_t *panel, const int8_t *x,
                            const struct kern_xmeta *xm, uint32_t n, vf *acc)
{
#define EXACTLY(N)                                         \
    case N: panel_few(type, m, panel, x, xm, N, acc); break
    switch (n) {
        EXACTLY(1);
        EXACTLY(2);
        EXACTLY(3);
        EXACTLY(4);
#if FEW > 4
        EXACTLY(5);
        EXACTLY(6);
        EXACTLY(7);
        EXACTLY(8);
#endif
    default: panel_many(type, m, panel, x, xm, n, acc); break;
    }
#undef EXACTLY
}

VEC_INLINE void linear_type(ktype type, const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x,
                            float *out, size_t stride)
{
    vf acc[KERN_CHUNK];
    for (uint32_t c = 0; c < x->tokens; c += KERN_CHUNK) {
        uint32_t n = x->tokens - c < KERN_CHUNK ? x->tokens - c : KERN_CHUNK;
        for (uint32_t p = p0; p < p1; p++) {
            panel_chunk(type, m, m->panels + (size_t)p * m->stride, x->q + (size_t)c * m->cols,
                        x->meta + (size_t)c * (m->cols / KERN_QBLOCK), n, acc);
            uint32_t first = p * KERN_LANES, w = m->rows - first < KERN_LANES ? m->rows - first : KERN_LANES;
            for (uint32_t t = 0; t < n; t++)
                if (w == KERN_LANES)
                    vf_store(out + (size_t)(c + t) * stride + first, acc[t]);
                else
                    memcpy(out + (size_t)(c + t) * stride + first, &acc[t], w * sizeof(float));
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
LINEAR(Q2_K)
LINEAR(Q3_K)
LINEAR(IQ4_NL)
LINEAR(IQ4_XS)
LINEAR(MXFP4)
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
    case KERN_Q2_K: linear_Q2_K(m, p0, p1, x, out, stride); break;
    case KERN_Q3_K: linear_Q3_K(m, p0, p1, x, out, stride); break;
    case KERN_IQ4_NL: linear_IQ4_NL(m, p0, p1, x, out, stride); break;
    case KERN_IQ4_XS: linear_IQ4_XS(m, p0, p1, x, out, stride); break;
    case KERN_MXFP4: linear_MXFP4(m, p0, p1, x, out, stride); break;
    default: BUG("quantised product of type %d", (int)m->type);
    }
}

#endif
