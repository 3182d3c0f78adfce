/*
 * panel_read: single weights and scales of a panel, for the reference product and for rows. It says in plain C what the
 * layout of panel.h means; the levels read the same bytes a vector at a time. Private to kern.
 */
#ifndef KERN_PANEL_READ_H
#define KERN_PANEL_READ_H

#include <string.h>

#include "kern/half.h"
#include "kern/panel.h"

/* The integer weight of output `lane` at k (0..31) of the 32-k block at q, its offset taken off. */
static inline int panel_weight(enum kern_type type, const uint8_t *q, uint32_t lane, uint32_t k)
{
    uint32_t at = lane * 4 + k % 4, g = k / 4, pair = 2 * (g % 4);
    int x = type == KERN_Q8_0                        ? (int8_t)q[g * 64 + at]
            : type == KERN_Q2_K || type == KERN_Q3_K ? (q[g / 4 * 64 + at] >> pair) & 3
                                                     : (q[g % 4 * 64 + at] >> (g / 4 * 4)) & 15;
    switch (type) {
    case KERN_Q3_K: x |= ((q[128 + at] >> g) & 1) << 2; break;
    case KERN_Q5_0:
    case KERN_Q5_1:
    case KERN_Q5_K: x |= ((q[256 + at] >> g) & 1) << 4; break;
    case KERN_Q6_K: x |= ((q[256 + g / 4 * 64 + at] >> pair) & 3) << 4; break;
    case KERN_IQ4_NL:
    case KERN_IQ4_XS:
    case KERN_MXFP4: return panel_codebook(type)[x];
    default: break;
    }
    return x - panel_layout(type).offset;
}

/* What turns integer weights w of one output and a 32-k block into numbers: ds × sc[k / 16] × w + neg_m × mn[k / 16]. */
struct panel_scale {
    float ds, neg_m;
    int32_t sc[2]; /* 1 where the format has no scales of 16 k */
    int32_t mn[2]; /* 1 where it has no minima of 16 k */
};

static inline float panel_half(const uint8_t *array, uint32_t lane)
{
    uint16_t h;
    memcpy(&h, array + 2 * lane, sizeof h);
    return half_f32(h);
}

/* Scales of 32-k block `sub` of the file block whose meta this is. */
static inline struct panel_scale panel_scale(enum kern_type type, const uint8_t *meta, uint32_t sub, uint32_t lane)
{
    struct panel_scale s = {0, 0, {1, 1}, {1, 1}};
    const uint8_t *at = meta + sub * 16 + lane, *half = meta + 2 * sub * 16 + lane; /* in arrays of 8, of 16 */
    switch (type) {
    case KERN_Q4_K:
    case KERN_Q5_K:
        s.ds = panel_half(meta + META_K_D, lane) * (float)*at;
        s.neg_m = -(panel_half(meta + META_K_DMIN, lane) * (float)at[META_K_MIN]);
        break;
    case KERN_Q6_K:
    case KERN_Q3_K:
        s.ds = panel_half(meta + META_K_D, lane);
        s.sc[0] = (int8_t)half[0];
        s.sc[1] = (int8_t)half[16];
        break;
    case KERN_Q2_K:
        s.ds = panel_half(meta + META_K_D, lane);
        s.neg_m = -panel_half(meta + META_K_DMIN, lane);
        for (int i = 0; i < 2; i++) {
            s.sc[i] = half[16 * i] & 15;
            s.mn[i] = half[16 * i] >> 4;
        }
        break;
    case KERN_IQ4_XS: s.ds = panel_half(meta + META_XS_D, lane) * (float)(int8_t)*at; break;
    case KERN_MXFP4: s.ds = e8m0_half_f32(meta[lane]); break;
    case KERN_Q4_1:
    case KERN_Q5_1: s.neg_m = panel_half(meta + 32, lane); /* fall through */
    default: s.ds = panel_half(meta, lane); break;
    }
    return s;
}

#endif
