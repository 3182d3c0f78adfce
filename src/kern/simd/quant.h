/* quant: what the levels' quantised products share before they begin. Included after vec.h. */
#ifndef KERN_SIMD_QUANT_H
#define KERN_SIMD_QUANT_H

#include <string.h>

#include "kern/panel.h"

typedef const enum kern_type ktype; /* always a compile-time constant in these files */

/* Keeps the compiler from loading the activations of later groups early: it would run out of registers. */
#define KEEP_ORDER() __asm__ volatile("" ::: "memory")

VEC_INLINE int is_5bit(ktype type)
{
    return type == KERN_Q5_0 || type == KERN_Q5_1 || type == KERN_Q5_K;
}

/* Their scales and minima are bytes times d and dmin, and the minimum is subtracted; the others with one add it. */
VEC_INLINE int is_k45(ktype type)
{
    return type == KERN_Q4_K || type == KERN_Q5_K;
}

VEC_INLINE int is_codebook(ktype type)
{
    return type == KERN_IQ4_NL || type == KERN_IQ4_XS || type == KERN_MXFP4;
}

/* Weights that fill eight bits, and so have no unsigned form that maddubs could multiply. */
VEC_INLINE int is_signed(ktype type)
{
    return type == KERN_Q8_0 || type == KERN_IQ4_NL || type == KERN_IQ4_XS;
}

/* Scales of 16 k that multiply the integer dot products. */
VEC_INLINE int has_half_scales(ktype type)
{
    return type == KERN_Q6_K || type == KERN_Q3_K || type == KERN_Q2_K;
}

/* Minima of 32 k; those of Q2_K belong to 16. */
VEC_INLINE int has_min(ktype type)
{
    return type == KERN_Q4_1 || type == KERN_Q5_1 || is_k45(type);
}

#endif
