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

VEC_INLINE int has_min(ktype type)
{
    return type == KERN_Q4_1 || type == KERN_Q5_1 || type == KERN_Q4_K || type == KERN_Q5_K;
}

#endif
