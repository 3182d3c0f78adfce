/* table: a level's operations, from the bodies in simd/ and the level's own quantised product. Included last. */
#ifndef KERN_SIMD_TABLE_H
#define KERN_SIMD_TABLE_H

#define SIMD_TABLE(LEVEL, NAME)                                                                                   \
    static void linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,   \
                       size_t stride)                                                                             \
    {                                                                                                             \
        if (kern_type_info(m->type)->quantised)                                                                   \
            kern_##LEVEL##_linear(m, p0, p1, x, out, stride);                                                     \
        else                                                                                                      \
            simd_plain(m, p0, p1, x, out, stride);                                                                \
    }                                                                                                             \
    const struct kern_ops kern_##LEVEL##_ops = {                                                                  \
        .name = NAME,                                                                                             \
        .linear = linear,                                                                                         \
        .quantise = simd_quantise,                                                                                \
        .rms_norm = simd_rms_norm,                                                                                \
        .glu = simd_glu,                                                                                          \
        .add = simd_add,                                                                                          \
        .softcap = simd_softcap,                                                                                  \
        .rope = simd_rope,                                                                                        \
        .kv_store = simd_kv_store,                                                                                \
        .attn = simd_attn,                                                                                        \
        .attn_fold = simd_attn_fold,                                                                              \
        .attn_finish = simd_attn_finish,                                                                          \
        .argmax = simd_argmax,                                                                                    \
        .exp_sum = simd_exp_sum,                                                                                  \
    }

#endif
