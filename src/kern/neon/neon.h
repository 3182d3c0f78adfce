/* neon: the table of this level. Private to kern; the caller has checked the processor. */
#ifndef KERN_NEON_H
#define KERN_NEON_H

#include "kern/kern.h"

void kern_neon_linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                      size_t stride);

extern const struct kern_ops kern_neon_ops;

#endif
