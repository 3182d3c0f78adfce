/*
 * panel: the layout of packed weights, shared by the packer and by every level's kernels. Private to kern.
 *
 * A quantised panel is all its quants, then all its meta:
 *
 *   quants of 32-k block b at  b × quant_bytes:
 *     2, 3 bits     Q[2][64]: bits 2 (g mod 4) and the next of byte lane × 4 + j of vector g / 4 are bits 0 and 1 of
 *                   k = 4g + j, of output `lane`
 *     3 bits        then H[64]: bit g of byte lane × 4 + j is bit 2 of k = 4g + j
 *     4 to 6 bits   Q[4][64]: byte lane × 4 + j of vector v has k = 4v + j in its low nibble, k = 16 + 4v + j in its
 *                   high nibble; the nibbles of IQ4_NL, IQ4_XS and MXFP4 are indices into panel_codebook()
 *     5 bits        then H[64]: bit g of byte lane × 4 + j is bit 4 of k = 4g + j
 *     6 bits        then H[2][64]: as Q[2] of 2 bits, bits 4 and 5
 *     8 bits        Q[8][64]: byte lane × 4 + j of vector g is k = 4g + j, signed
 *
 *   meta of file block B at  (cols / 32) × quant_bytes + B × meta_bytes, every array over the 16 outputs:
 *     Q8_0, Q4_0, Q5_0, IQ4_NL   f16 d
 *     Q4_1, Q5_1                 f16 d, f16 m
 *     MXFP4                      u8 e
 *     Q4_K, Q5_K                 u8 scale[8], u8 min[8], f16 d, f16 dmin
 *     Q6_K, Q3_K                 i8 scale[16], f16 d
 *     Q2_K                       u8 scale_min[16], scales in the low nibbles, f16 d, f16 dmin
 *     IQ4_XS                     i8 scale[8], f16 d
 *
 * Vectors are 64-byte aligned because quant_bytes is a multiple of 64 and so is the panel stride.
 */
#ifndef KERN_PANEL_H
#define KERN_PANEL_H

#include <stdint.h>

#include "kern/kern.h"

struct panel_layout {
    uint32_t quant_bytes; /* of 16 outputs × 32 k */
    uint32_t meta_bytes;  /* of 16 outputs × one file block */
    uint32_t per_block;   /* 32-k blocks of a file block: 1 or 8 */
    int32_t offset;       /* added to weights to make them unsigned: stored quants contain it, values of a codebook do
                             not. 0 where they are unsigned anyway, or fill eight signed bits */
};

/* Where the meta arrays of the types with blocks of 256 begin. */
#define META_K_MIN 128u
#define META_K_D 256u
#define META_K_DMIN 288u
#define META_XS_D 128u

static inline struct panel_layout panel_layout(enum kern_type type)
{
    switch (type) {
    case KERN_Q8_0: return (struct panel_layout){512, 32, 1, 0};
    case KERN_Q4_0: return (struct panel_layout){256, 32, 1, 8};
    case KERN_Q4_1: return (struct panel_layout){256, 64, 1, 0};
    case KERN_Q5_0: return (struct panel_layout){320, 32, 1, 16};
    case KERN_Q5_1: return (struct panel_layout){320, 64, 1, 0};
    case KERN_Q4_K: return (struct panel_layout){256, 320, 8, 0};
    case KERN_Q5_K: return (struct panel_layout){320, 320, 8, 0};
    case KERN_Q6_K: return (struct panel_layout){384, 288, 8, 32};
    case KERN_Q2_K: return (struct panel_layout){128, 320, 8, 0};
    case KERN_Q3_K: return (struct panel_layout){192, 288, 8, 4};
    case KERN_IQ4_NL: return (struct panel_layout){256, 32, 1, 0};
    case KERN_IQ4_XS: return (struct panel_layout){256, 160, 8, 0};
    case KERN_MXFP4: return (struct panel_layout){256, 16, 1, 12};
    default: return (struct panel_layout){0, 0, 1, 0};
    }
}

/* Meta of the panel that begins at `panel`. */
static inline const uint8_t *panel_meta(const uint8_t *panel, enum kern_type type, uint32_t cols)
{
    return panel + (size_t)(cols / KERN_QBLOCK) * panel_layout(type).quant_bytes;
}

/* The 16 values that the nibbles of a codebook type stand for, NULL for the other types. MXFP4's are doubled, so that
 * they are integers. */
static inline const int8_t *panel_codebook(enum kern_type type)
{
    static const int8_t iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    static const int8_t fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return type == KERN_MXFP4 ? fp4 : type == KERN_IQ4_NL || type == KERN_IQ4_XS ? iq4 : NULL;
}

#endif
