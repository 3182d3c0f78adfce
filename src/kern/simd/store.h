/* store: K and V of new tokens into their blocks; equals ref/attn.c bit by bit. Included once by each level's ops.c. */
#ifndef KERN_SIMD_STORE_H
#define KERN_SIMD_STORE_H

#include <string.h>

#include "kern/kern.h"

/* K goes in as columns: tokens are its lanes. */
static void simd_kv_store(const struct kern_kv_view *kv, uint64_t pos, uint32_t n, const float *k, const float *v,
                          size_t stride)
{
    uint32_t hd = kv->head_dim;
    for (uint32_t i = 0; i < n; i++, pos++, k += stride, v += stride) {
        uint8_t *block = kv->base + (size_t)kv->table[pos / KERN_KV_TOKENS] * kv->block_bytes;
        uint32_t t = (uint32_t)(pos % KERN_KV_TOKENS);
        if (kv->format == KERN_KV_F32) {
            float *kc = (float *)(block + kv->k_offset) + t;
            for (uint32_t d = 0; d < hd; d++)
                kc[(size_t)d * KERN_KV_TOKENS] = k[d];
            memcpy((float *)(block + kv->v_offset) + (size_t)t * hd, v, hd * sizeof *v);
            continue;
        }
        uint16_t *kc = (uint16_t *)(block + kv->k_offset) + t, *vt = (uint16_t *)(block + kv->v_offset) + (size_t)t * hd;
        uint16_t half[16];
        for (uint32_t d = 0; d < hd; d += 16) {
            vf_store_half(half, vf_load(k + d));
            for (uint32_t e = 0; e < 16; e++)
                kc[(size_t)(d + e) * KERN_KV_TOKENS] = half[e];
            vf_store_half(vt + d, vf_load(v + d));
        }
    }
}

#endif
