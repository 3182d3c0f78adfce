/*
 * family: an architecture as data. Private to model.
 *
 * The forward pass is one function; a family says which of its variations apply, what its metadata keys begin with and
 * which tensors a layer has. A new family is a descriptor file, a line in family.c, and goldens.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

#include "kern/kern.h"
#include "model/model.h"

struct family {
    const char *arch;          /* general.architecture, and the prefix of the metadata keys */
    bool rope_interleaved;     /* rotates pairs (2i, 2i + 1) instead of (i, i + n/2) */
    bool qkv_bias;             /* q, k and v have biases (missing ones are an error) */
    bool qk_norm;              /* q and k are RMS-normed per head before rotation */
    bool sandwich;             /* attention and FFN outputs are normed before they are added */
    bool embed_scaled;         /* embeddings are multiplied by sqrt(width) */
    enum kern_glu glu;
    bool bidirectional;        /* queries look ahead, too: the model makes vectors and does not write */
    bool matryoshka;           /* trained so that a vector's first numbers stand for it */
    enum model_pooling pooling; /* where the file names none */
    uint32_t window_period;    /* with a window: layer i is full when i % period == period - 1; 0 = no windows */
    uint32_t scale_by_width;   /* with this many layers, scores are scaled by 1 / sqrt(width / heads), not by head size */
    float rope_base_local;     /* rotation base of sliding layers; they are never scaled. 0 = as full layers */
};

/* NULL when unknown. */
const struct family *family_find(const char *arch, size_t n);

/* The known names, separated by commas, for error texts. */
const char *family_names(void);

extern const struct family family_llama, family_qwen2, family_qwen3, family_gemma3, family_gemma_embedding;

#endif
