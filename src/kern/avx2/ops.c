/* ops: the table of this level; the bodies are in simd/, compiled here with this folder's instruction flags. */
#include "kern/avx2/vec.h"

#include "kern/avx2/avx2.h"
#include "kern/simd/attn.h"
#include "kern/simd/ops.h"
#include "kern/simd/plain.h"

static void linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                   size_t stride)
{
    if (kern_type_info(m->type)->quantised)
        kern_avx2_linear(m, p0, p1, x, out, stride);
    else
        simd_plain(m, p0, p1, x, out, stride);
}

const struct kern_ops kern_avx2_ops = {
    .name = "avx2",
    .linear = linear,
    .quantise = simd_quantise,
    .rms_norm = simd_rms_norm,
    .glu = simd_glu,
    .add = simd_add,
    .softcap = simd_softcap,
    .rope = simd_rope,
    .kv_store = simd_kv_store,
    .attn = simd_attn,
    .attn_fold = simd_attn_fold,
    .attn_finish = simd_attn_finish,
    .argmax = simd_argmax,
    .exp_sum = simd_exp_sum,
};
