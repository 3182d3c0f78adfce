/* value: reading the items of a GGUF file, each checked against the file's end before it is touched. See gguf.h. */
#include <string.h>

#include "weights/gguf.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF is read in place: this needs a little-endian machine"
#endif
_Static_assert(sizeof(size_t) == 8, "files are mapped whole: this needs a 64-bit machine");

#define BEYOND "reaches beyond the end of the file (truncated or corrupt)"

static const struct {
    const char *name;
    size_t size;
} types[GGUF_TYPES] = {
    [GGUF_U8] = {"uint8", 1},   [GGUF_I8] = {"int8", 1},        [GGUF_U16] = {"uint16", 2},
    [GGUF_I16] = {"int16", 2},  [GGUF_U32] = {"uint32", 4},     [GGUF_I32] = {"int32", 4},
    [GGUF_F32] = {"float32", 4}, [GGUF_BOOL] = {"bool", 1},     [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"uint64", 8},    [GGUF_I64] = {"int64", 8},
    [GGUF_F64] = {"float64", 8},
};

size_t gguf_type_size(uint32_t type)
{
    return type < GGUF_TYPES ? types[type].size : 0;
}

const char *gguf_type_name(uint32_t type)
{
    return type < GGUF_TYPES ? types[type].name : "unknown";
}

bool gguf_take(struct gguf_reader *r, uint64_t n, const uint8_t **out)
{
    if (n > r->size - r->at)
        return false;
    *out = r->base + r->at;
    r->at += n;
    return true;
}

bool gguf_take_u32(struct gguf_reader *r, uint32_t *out)
{
    const uint8_t *p;
    if (!gguf_take(r, sizeof *out, &p))
        return false;
    memcpy(out, p, sizeof *out);
    return true;
}

bool gguf_take_u64(struct gguf_reader *r, uint64_t *out)
{
    const uint8_t *p;
    if (!gguf_take(r, sizeof *out, &p))
        return false;
    memcpy(out, p, sizeof *out);
    return true;
}

const char *gguf_take_string(struct gguf_reader *r, size_t limit, struct weights_str *out)
{
    uint64_t n;
    const uint8_t *p;
    if (!gguf_take_u64(r, &n))
        return BEYOND;
    if (n > r->size - r->at)
        return BEYOND;
    if (n > limit)
        return "is a longer string than any model has";
    gguf_take(r, n, &p);
    *out = (struct weights_str){(const char *)p, (size_t)n};
    return NULL;
}

static const char *check_bools(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1)
            return "is a bool other than 0 and 1";
    return NULL;
}

/* Takes the type, the count and the elements of an array that lies inside `depth` others. */
static const char *take_array(struct gguf_reader *r, unsigned depth, struct gguf_value *out)
{
    if (depth >= LIMIT_META_DEPTH)
        return "nests arrays deeper than any model does";
    if (!gguf_take_u32(r, &out->elem) || !gguf_take_u64(r, &out->count))
        return BEYOND;
    if (out->elem >= GGUF_TYPES)
        return "is an array of an unknown type";
    if (out->count > LIMIT_META_ARRAY)
        return "is a longer array than any model has";
    out->at = r->base + r->at;
    size_t size = gguf_type_size(out->elem);
    if (size) { /* count × 8 at most: cannot overflow below the limit above */
        if (!gguf_take(r, out->count * size, &out->at))
            return BEYOND;
        return out->elem == GGUF_BOOL ? check_bools(out->at, out->count) : NULL;
    }
    const char *why = NULL;
    for (uint64_t i = 0; i < out->count && !why; i++) { /* each turn takes 8 bytes at least, so the file bounds it */
        struct weights_str s;
        struct gguf_value inner;
        why = out->elem == GGUF_STRING ? gguf_take_string(r, LIMIT_META_STRING, &s) : take_array(r, depth + 1, &inner);
    }
    return why;
}

static const char *take_value(struct gguf_reader *r, uint32_t type, struct gguf_value *out)
{
    *out = (struct gguf_value){.type = type, .count = 1};
    if (type >= GGUF_TYPES)
        return "has an unknown type";
    if (type == GGUF_ARRAY)
        return take_array(r, 0, out);
    if (type == GGUF_STRING) {
        struct weights_str s = {0};
        const char *why = gguf_take_string(r, LIMIT_META_STRING, &s);
        out->at = (const uint8_t *)s.s;
        out->count = s.n;
        return why;
    }
    if (!gguf_take(r, gguf_type_size(type), &out->at))
        return BEYOND;
    return type == GGUF_BOOL ? check_bools(out->at, 1) : NULL;
}

const char *gguf_take_value(struct gguf_reader *r, uint32_t type, struct gguf_value *out)
{
    const char *why = take_value(r, type, out);
    out->end = r->base + r->at;
    return why;
}

size_t gguf_utf8(const uint8_t *p, size_t n)
{
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || n < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    bool overlong = (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xF0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF4 && p[1] > 0x8F);
    return overlong || beyond ? 0 : len;
}

const char *gguf_bad_name(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;
    if (!n)
        return "is empty";
    for (size_t i = 0; i < n;) {
        size_t len = gguf_utf8(p + i, n - i);
        if (!len)
            return "is not UTF-8";
        if (p[i] < 0x20 || p[i] == 0x7F)
            return "holds a control byte";
        i += len;
    }
    return NULL;
}
