/*
 * weights: model files, mapped and validated.
 *
 * A `struct weights` is one model: a GGUF v2 or v3 file, or all parts of a split one, mapped read-only. Everything the
 * header says (counts, lengths, types, shapes, offsets, alignment, overlaps with the end of the file) is checked before
 * weights_open() returns, so later code may trust it. Tensor *data* is not judged: any bytes are valid weights.
 *
 * A file that another program shortens while it is mapped cannot be defended against here: touching the lost pages
 * raises SIGBUS, which ends the process (no handler is installed; a library must not). Replace model files by renaming
 * a complete new one over the old, which leaves an open mapping alone; never write into them in place.
 *
 * Packing copies a tensor into kernel panels and gives its source pages back, so that a model is never resident twice.
 * Knows nothing of architectures: names and metadata keys mean nothing here. (Safetensors directories will be a second
 * reader behind the same functions.)
 *
 * GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "kern/kern.h"

struct weights;

struct tensor {
    const char *name;    /* NUL-terminated, owned by the weights */
    enum kern_type type;
    uint32_t dims;       /* 1 to 4 */
    uint64_t dim[4];     /* dim[0] is the contiguous one (k of a matrix), unused ones are 1 */
    const void *data;    /* in the mapping */
    size_t bytes;
    uint32_t part;       /* which file of a split model */
};

/* Opens `path`; for a split model, any of its parts ("…-00001-of-00003.gguf") opens all. On failure *out is NULL and
 * the text names the file and what was expected: ST_IO, ST_MODEL (foreign, truncated, inconsistent), ST_UNSUPPORTED
 * (a tensor type or version this build does not know), ST_NO_MEMORY. */
MUST_CHECK enum status weights_open(struct weights **out, const char *path, struct err *e);
void weights_free(struct weights *w);

const char *weights_path(const struct weights *w);
/* The end of a long path, short enough for error texts. */
const char *weights_shown(const struct weights *w);
uint64_t weights_file_bytes(const struct weights *w); /* of all parts */
/* Is that file, as stat() numbers it, one of those that are mapped? */
bool weights_has_file(const struct weights *w, uint64_t device, uint64_t inode);

size_t weights_count(const struct weights *w);
const struct tensor *weights_at(const struct weights *w, size_t i);
/* The i with weights_at(w, i) == t. */
size_t weights_index(const struct weights *w, const struct tensor *t);
const struct tensor *weights_find(const struct weights *w, const char *name); /* NULL when absent */

/* --- metadata (of the first part) ----------------------------------------------------------------------------------- */

struct weights_str {
    const char *s; /* in the mapping, NOT NUL-terminated; may hold any bytes */
    size_t n;
};

/* Each returns false, and leaves *out alone, when the key is absent, has another kind of type, or a value that does not
 * fit. Integers convert from any width and sign; floats from f32 and f64 (any value: infinities and NaN are for the
 * caller to refuse); bools only from bool. */
bool weights_u64(const struct weights *w, const char *key, uint64_t *out);
bool weights_u32(const struct weights *w, const char *key, uint32_t *out);
bool weights_f32(const struct weights *w, const char *key, float *out);
bool weights_bool(const struct weights *w, const char *key, bool *out);
bool weights_string(const struct weights *w, const char *key, struct weights_str *out);

bool weights_has(const struct weights *w, const char *key);

/* Arrays: the number of elements, 0 when absent or not an array. The readers fill out[0 .. count) and return false when
 * the count is above n, the elements have another kind of type, or one does not fit (out is then partly written). Places
 * of strings are not stored: weights_strings() walks over the array once, so read a vocabulary once and keep it. */
size_t weights_array(const struct weights *w, const char *key);
bool weights_strings(const struct weights *w, const char *key, struct weights_str *out, size_t n);
bool weights_f32s(const struct weights *w, const char *key, float *out, size_t n);   /* any float type */
bool weights_i32s(const struct weights *w, const char *key, int32_t *out, size_t n); /* any integer or bool type */

/* Calls fn for every metadata entry, in file order, for `ffwd info`: the value as text (long strings cut, control bytes
 * escaped), arrays as "string[49152]". */
void weights_each_meta(const struct weights *w, void (*fn)(void *ctx, const char *key, const char *value), void *ctx);

/* --- reading tensors ------------------------------------------------------------------------------------------------- */

/* Packs `t` as a matrix of rows = dim[1] × dim[2] × dim[3] outputs and cols = dim[0] inputs into `dst`
 * (kern_mat_bytes() long, 64-byte aligned, kept by the caller as long as *out is used) on all workers of `pool`. Source
 * pages are dropped slice by slice on the way, so that this adds a few MB to the panels at most. Never fails: rows and
 * cols were found to fit 31 bits when the file was opened, cols to be a multiple of the type's block. */
void weights_pack(const struct weights *w, const struct tensor *t, struct pool *pool, uint8_t *dst,
                  struct kern_mat *out);

/* What weights_pack() leaves in *out, where `dst` holds the panels already. */
void weights_packed_mat(const struct tensor *t, const uint8_t *dst, struct kern_mat *out);

/* A whole tensor as f32[n], n = its number of elements. For norms and biases. */
void weights_f32_data(const struct weights *w, const struct tensor *t, float *out);

/* Takes a tensor's source pages out of this process. They stay in the system's cache, and reading them again works. */
void weights_drop(const struct weights *w, const struct tensor *t);

/* --- all matrices as panels (packed.c) ------------------------------------------------------------------------------- */

/*
 * A `struct packed` is the memory that a model's panels lie in, one region for all of them. Large ones are kept in a file,
 * which the next process maps instead of packing: its panels then are pages of the system's cache, shared by all processes
 * that use the model, and none has to be cleared and filled first. See packed.h for the file and what it is checked for.
 */
struct packed;

/* Where panels are kept from one process to the next. */
struct packed_store {
    const char *dir;  /* is made, if the folder above it is there; NULL = nothing is kept */
    uint64_t most;    /* bytes of all its files; 0 = LIMIT_PACKED, or LIMIT_PACKED_SHARE if that is less */
    uint64_t least;   /* fewer bytes of panels are not kept; 0 = PACKED_LEAST */
    bool small_pages; /* for tests: keep them also where files are not mapped in huge pages, which reads more slowly */
};

#define PACKED_LEAST ((uint64_t)64 << 20) /* packing less hides behind building the tokenizer */

enum packed_origin {
    PACKED_HERE,  /* packed by this process */
    PACKED_KEPT,  /* and kept for the next */
    PACKED_FOUND  /* by an earlier process */
};

/* Room for every matrix of `w`, which must outlive it: tensors of two dimensions or more, whose rows and columns fit 31
 * bits. `store` may be NULL. ST_NO_MEMORY; what goes wrong with files is a line in the log, and no failure. */
MUST_CHECK enum status packed_new(struct packed **out, const struct weights *w, const struct packed_store *store,
                                  struct pool *pool, struct err *e);
void packed_free(struct packed *p);

/* Packs the matrix `t`, unless its panels were found. They stay until packed_free(). */
void packed_matrix(struct packed *p, const struct tensor *t, struct pool *pool, struct kern_mat *out);

/* Every matrix has been asked for: now they can be kept, if they were not found. */
void packed_keep(struct packed *p, struct pool *pool);
enum packed_origin packed_origin(const struct packed *p);

/* --- writing --------------------------------------------------------------------------------------------------------- */

/* The tensors of a file that is made of `w`, in its order. */
struct weights_place {
    enum kern_type type; /* chosen by the caller; the row length is a multiple of its block */
    uint64_t at;         /* where its data begins in the file */
    size_t bytes;
};

/* The beginning of one GGUF file with the metadata of `w` and its tensors in other types: everything before the data of the
 * first tensor goes to `out`, which the caller releases, also on failure; the zeros between them, which align the data, do
 * not. Fills `at` and `bytes` of every place, and *end,
 * the length of the whole file. What `w` says of its own types and parts is replaced or left out: general.file_type
 * becomes `file_type` (ggml's number of the mixture), split.* are dropped. ST_NO_MEMORY, ST_TOO_LONG (metadata). */
MUST_CHECK enum status weights_write_head(const struct weights *w, struct weights_place *places, uint32_t file_type,
                                          struct buf *out, uint64_t *end, struct err *e);

#endif
