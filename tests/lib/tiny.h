/*
 * tiny: small random models of every family as GGUF files, made by the tests when they need them.
 *
 * The weights come from a counter (tests/golden/README.md defines it), so that only the logits that an independent
 * implementation computed from the same weights are committed: tests/golden/tiny/<family>.json. Tensor names, metadata
 * and conventions are those of the files that people use. Knows nothing of src/ but base.
 */
#ifndef TESTS_LIB_TINY_H
#define TESTS_LIB_TINY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant.h"

#include "base/buf.h"
#include "base/err.h"

#define TINY_VOCAB 512
#define TINY_PROMPT 44 /* ids in the prompt of the recordings; longer than the window of the gemma3 models */
#define TINY_WINDOW 16
#define TINY_FAMILIES 10
#define TINY_DENSE 192 /* numbers between the dense layers of gemma_embedding */
#define TINY_CLASSES 2

/* llama (llama3 scaling, untied), smollm2 (tied), mistral (untied, heads wider than the model), llama_linear,
 * llama_yarn, llama256, qwen2 (biases), qwen3 (QK norms), gemma3, gemma3_256. Every width of llama256 and gemma3_256
 * is a multiple of 256, as the K types and IQ4_XS need; those of the others are multiples of 32. */
extern const char *const tiny_families[TINY_FAMILIES];

/* Besides, for vectors and ranks: gemma_embedding (bidirectional, mean, two dense layers), qwen3_rank (classes, a template
 * for reranking). */

int32_t tiny_prompt(size_t i); /* id at position i < TINY_PROMPT */

/* Appends the file to `out`, which the caller initialised (16 MiB is enough for each) and releases. Matrices are stored
 * as `type`, norms and biases as F32. With `rounded` they are stored as F32 of the values that `type` stands for, so a
 * quantised model and its rounded twin differ by the rounding of activations alone. ST_ARGUMENT for an unknown family
 * or a type whose blocks do not fit the widths. */
MUST_CHECK enum status tiny_build(const char *family, enum tiny_type type, bool rounded, struct buf *out,
                                  struct err *e);

/* The same into a file, which is removed again when writing fails. */
MUST_CHECK enum status tiny_write(const char *path, const char *family, enum tiny_type type, struct err *e);
MUST_CHECK enum status tiny_write_rounded(const char *path, const char *family, enum tiny_type type, struct err *e);

/* `count` numbers of the generator, in [-1, 1), for the tensor `name`. */
void tiny_draws(const char *name, size_t count, float *out);

#endif
