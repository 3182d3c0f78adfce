/*
 * gguf_write: the tests' own writer of GGUF files, field by field, so that a test can write what no honest tool would.
 * Files are little-endian, as the machine that runs the tests.
 */
#ifndef TESTS_LIB_GGUF_WRITE_H
#define TESTS_LIB_GGUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Numbers of the file format. */
enum gw_type {
    GW_U8, GW_I8, GW_U16, GW_I16, GW_U32, GW_I32, GW_F32, GW_BOOL, GW_STRING, GW_ARRAY, GW_U64, GW_I64, GW_F64
};

struct gw {
    struct buf meta, infos, data;
    uint32_t version;
    uint32_t align;           /* of data; the key is the caller's business */
    uint64_t keys, tensors;   /* what the header will claim */
};

void gw_init(struct gw *w); /* version 3, alignment 32, nothing in it */
void gw_release(struct gw *w);

/* Key, type and the bytes of a value; the other two for the commonest types. */
void gw_key(struct gw *w, const char *key, uint32_t type, const void *value, size_t bytes);
void gw_u32(struct gw *w, const char *key, uint32_t value);
void gw_text(struct gw *w, const char *key, const char *value);

/* Key, type array, element type and count; the elements follow by gw_raw() or gw_element(). */
void gw_array(struct gw *w, const char *key, uint32_t elem, uint64_t count);
void gw_raw(struct gw *w, const void *bytes, size_t n);
void gw_element(struct gw *w, const char *s, size_t n); /* a string of an array */

/* A tensor behind the last one, with `bytes` of data (zeros where data is NULL). Its directory entry says `type`, dims
 * and dim whether or not they fit. */
void gw_tensor(struct gw *w, const char *name, uint32_t type, uint32_t dims, const uint64_t *dim, const void *data,
               size_t bytes);

/* A directory entry alone. */
void gw_entry(struct gw *w, const char *name, size_t name_bytes, uint32_t type, uint32_t dims, const uint64_t *dim,
              uint64_t offset);

/* The file. Nothing follows the last tensor's last byte. False when memory ran out. */
bool gw_build(const struct gw *w, struct buf *out);

/* Writes bytes to a file, replacing it; false when that fails. */
bool gw_save(const char *path, const void *bytes, size_t n);

#endif
