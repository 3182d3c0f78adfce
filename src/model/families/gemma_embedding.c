/* gemma-embedding: EmbeddingGemma, arXiv 2509.20354. Gemma 3 with attention to both sides, within windows too; the mean of
 * the final states goes through two dense layers. */
#include "model/family.h"

const struct family family_gemma_embedding = {
    .arch = "gemma-embedding",
    .qk_norm = true,
    .sandwich = true,
    .embed_scaled = true,
    .glu = KERN_GELU_TANH,
    .bidirectional = true,
    .matryoshka = true,
    .pooling = POOLING_MEAN,
    .window_period = 6,
    .rope_base_local = 10000.0f,
};
