/* qwen2: Qwen 2 and 2.5, dense. Yang et al., arXiv 2407.10671. */
#include "model/family.h"

const struct family family_qwen2 = {
    .arch = "qwen2",
    .qkv_bias = true,
    .glu = KERN_SILU,
};
