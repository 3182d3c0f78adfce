/* gemma3: Gemma 3, text. Gemma team, arXiv 2503.19786: five sliding layers to one full, each kind with its own rotation
 * base. GGUF files hold the norms with 1 already added. */
#include "model/family.h"

const struct family family_gemma3 = {
    .arch = "gemma3",
    .qk_norm = true,
    .sandwich = true,
    .embed_scaled = true,
    .glu = KERN_GELU_TANH,
    .window_period = 6,
    .scale_by_width = 62, /* the 27B */
    .rope_base_local = 10000.0f,
};
