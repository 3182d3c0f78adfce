/* qwen3: Qwen 3, dense. Yang et al., arXiv 2505.09388. */
#include "model/family.h"

const struct family family_qwen3 = {
    .arch = "qwen3",
    .qk_norm = true,
    .glu = KERN_SILU,
};
