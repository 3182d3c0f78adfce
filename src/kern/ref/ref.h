/* ref: the operations as plain loops. What these compute, bit by bit, is what ffwd computes. Private to kern. */
#ifndef KERN_REF_REF_H
#define KERN_REF_REF_H

#include "kern/kern.h"

void kern_ref_linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                     size_t stride);
void kern_ref_quantise(const struct kern_act *a, uint32_t t0, uint32_t t1, uint32_t b0, uint32_t b1);
void kern_ref_attn(const struct kern_attn *a, float *acc, void *scratch);
void kern_ref_attn_fold(float *run, const float *part, uint32_t head_dim);
void kern_ref_attn_finish(const float *run, uint32_t head_dim, float *out);
void kern_ref_kv_store(const struct kern_kv_view *kv, uint64_t pos, uint32_t n, const float *k, const float *v,
                       size_t stride);

extern const struct kern_ops kern_ref_ops;

#endif
