/*
 * gguf: the file format, private to weights/.
 *
 * A file goes through three hands: map.c gets its bytes into memory and turns away what is not GGUF, value.c and gguf.c
 * check every length and number in it, weights.c joins the parts of a split model. Nothing of the file is copied except
 * tensor names; keys, strings and arrays stay where they are and are found again through an index.
 *
 * Invariant: whatever a gguf_value or tensor points at was found to lie inside the file, with its declared type and
 * length, when the file was parsed. Readers of values do not check again.
 */
#ifndef WEIGHTS_GGUF_H
#define WEIGHTS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "weights/weights.h"

#define GGUF_NAME 64u     /* bytes of a tensor name, as in ggml */
#define GGUF_KEY 65535u   /* bytes of a metadata key, as in the specification */
#define GGUF_SHOWN 80u    /* bytes of a path that error texts show, so that the rest of the sentence fits */
#define GGUF_ALIGN_MIN 8u /* what the specification demands; also lets f32 tensors be read in place */

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

/* One metadata value. Nothing in the file is aligned: `at` is read with memcpy only. */
struct gguf_value {
    uint32_t type;     /* enum gguf_type */
    uint32_t elem;     /* of arrays: type of the elements */
    uint64_t count;    /* of arrays: elements; of strings: bytes; otherwise 1 */
    const uint8_t *at; /* the scalar, the first byte of the string, or the first element */
    const uint8_t *end; /* first byte after it */
};

struct gguf_meta {
    struct weights_str key;
    struct gguf_value value;
};

struct gguf_tensor {
    struct tensor t; /* t.name is set when the tensor has reached its last place */
    uint64_t offset; /* from the start of the data section */
    char name[GGUF_NAME + 1];
};

/* A name and what it names. Sorted arrays of them are searched by halving: unlike a hash table, nothing a hostile file
 * can choose makes that slow. */
struct gguf_name {
    const char *s;
    size_t n;
    size_t id;
};

struct gguf_file {
    char *path; /* owned */
    const char *shown; /* its end, short enough for error texts */
    const uint8_t *base;
    size_t size;
    bool mapped; /* base is a mapping to undo; otherwise the caller's bytes */
    uint64_t identity[4]; /* of a mapped file: device, inode, time of change (ctime) in seconds and nanoseconds */
    uint64_t align, data_at;
    struct gguf_meta *meta; /* in file order */
    size_t metas;
    struct gguf_name *keys; /* sorted */
    struct gguf_tensor *tensors; /* in file order */
    size_t count;
};

struct weights {
    uint64_t bytes;
    struct gguf_file *parts;
    size_t n_parts;
    size_t asked; /* the part whose path was given to weights_open() */
    struct gguf_tensor *tensors;
    size_t count;
    struct gguf_name *names; /* sorted */
};

/* --- map.c: bytes of a file ------------------------------------------------------------------------------------------ */

/* Maps a regular file that begins like GGUF. On failure f needs no release. `part` is "" or says in the error text
 * which part of a split model this is. */
MUST_CHECK enum status gguf_map(struct gguf_file *f, const char *path, const char *part, struct err *e);

/* As gguf_map() for bytes in memory, which the caller keeps alive and which begin at a multiple of GGUF_ALIGN_MIN. */
MUST_CHECK enum status gguf_borrow(struct gguf_file *f, const char *name, const void *bytes, size_t size,
                                   struct err *e);
void gguf_release(struct gguf_file *f);

/* Advice on the pages under [at, at + bytes) of a mapped file: wanted soon, or not needed any more. */
void gguf_will_need(const struct gguf_file *f, const void *at, size_t bytes);
void gguf_forget(const struct gguf_file *f, const void *at, size_t bytes);

/* --- value.c: reading values ----------------------------------------------------------------------------------------- */

struct gguf_reader {
    const uint8_t *base;
    size_t size, at; /* at <= size */
};

/* Each takes the next item; false when the file ends before its end, and then nothing was taken. */
bool gguf_take(struct gguf_reader *r, uint64_t n, const uint8_t **out);
bool gguf_take_u32(struct gguf_reader *r, uint32_t *out);
bool gguf_take_u64(struct gguf_reader *r, uint64_t *out);

/* Takes a length and that many bytes, at most `limit`. NULL, or what is wrong ("is longer than …"). */
const char *gguf_take_string(struct gguf_reader *r, size_t limit, struct weights_str *out);

/* Takes and checks a value of the given type. NULL, or what is wrong, as the end of a sentence about the value. */
const char *gguf_take_value(struct gguf_reader *r, uint32_t type, struct gguf_value *out);

/* NULL, or what makes these bytes unfit as a key or tensor name: they are printed and compared as text. */
const char *gguf_bad_name(const char *s, size_t n);

/* Bytes of the UTF-8 sequence that p, of n >= 1 bytes, begins with: 1 to 4, or 0 when it is not valid (RFC 3629). */
size_t gguf_utf8(const uint8_t *p, size_t n);

/* Bytes of one value of a scalar type; 0 for strings, arrays and unknown types. */
size_t gguf_type_size(uint32_t type);
const char *gguf_type_name(uint32_t type);

/* --- gguf.c: the whole file ------------------------------------------------------------------------------------------ */

/* Checks everything and fills meta, keys and tensors. What was allocated belongs to f, also on failure. */
MUST_CHECK enum status gguf_parse(struct gguf_file *f, struct err *e);

/* Fills `e` with "FILE is not a usable GGUF file: …" and returns `code`. */
enum status gguf_bad(const struct gguf_file *f, enum status code, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The number that files give a tensor type. */
uint32_t gguf_type_number(enum kern_type type);

/* Sorts n names; the id of one that occurs twice, or n. */
size_t gguf_sort_names(struct gguf_name *names, size_t n);
const struct gguf_name *gguf_find_name(const struct gguf_name *names, size_t n, const char *s);

/* --- meta.c ---------------------------------------------------------------------------------------------------------- */

/* NULL when the file has no such key. */
const struct gguf_value *gguf_find(const struct gguf_file *f, const char *key);
bool gguf_u64(const struct gguf_file *f, const char *key, uint64_t *out); /* any integer that is not negative */

/* --- weights.c ------------------------------------------------------------------------------------------------------- */

/* A one-part model from bytes in memory, for tests that must notice a read one byte beyond the end. */
MUST_CHECK enum status gguf_open_bytes(struct weights **out, const char *name, const void *bytes, size_t size,
                                       struct err *e);

/* The file a tensor lies in. */
const struct gguf_file *gguf_part(const struct weights *w, const struct tensor *t);

#endif
