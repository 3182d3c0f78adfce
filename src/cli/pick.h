/*
 * pick: which files of a list are the model somebody means.
 *
 * A model is one GGUF file or all parts of a split one ("…-00001-of-00003.gguf"). A quant ("Q4_K_M") stands for the
 * model whose file name has that word; files that only help a model (vision projectors, importance matrices) are taken
 * by their own name alone.
 */
#ifndef CLI_PICK_H
#define CLI_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct pick_file {
    char *path;      /* relative, with '/'; owned by whoever made the list */
    uint64_t bytes;
    char sha256[65]; /* "" = unknown */
};

/* Is `path` part `no` (from 1) of `of` parts? Then `stem` bytes of it come before "-00001-of-00003.gguf". Where it is not,
 * nothing is written. */
bool pick_split(const char *path, uint32_t *no, uint32_t *of, size_t *stem);

bool pick_is_gguf(const char *path);

/* Can it be used as a path below a folder: no empty, hidden or upward step, no byte that a terminal might obey. */
bool pick_is_safe(const char *path);

/* Which file stands for the model: a whole one, or a part (the first, unless `want` is the path of another). `want` is,
 * in this order, a path in the list, the name at its end, a quant; or NULL: the only model, or the best known to be a
 * good choice.
 * ST_ARGUMENT says which there are. `repo` names the list in texts. */
MUST_CHECK enum status pick_head(const struct pick_file *files, size_t n, const char *want, const char *repo, size_t *out,
                                 struct err *e);

/* The same, with all parts in their order: `out` is LIMIT_SPLITS long. ST_MODEL when one is not in the list. */
MUST_CHECK enum status pick_model(const struct pick_file *files, size_t n, const char *want, const char *repo,
                                  uint32_t *out, uint32_t *count, struct err *e);

#endif
