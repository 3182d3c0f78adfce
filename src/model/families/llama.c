/* llama: Llama 1 to 3, SmolLM2, Mistral and what else converts to "llama". Touvron et al., arXiv 2302.13971. GGUF files
 * hold q and k permuted for interleaved rotation. */
#include "model/family.h"

const struct family family_llama = {
    .arch = "llama",
    .rope_interleaved = true,
    .glu = KERN_SILU,
};
