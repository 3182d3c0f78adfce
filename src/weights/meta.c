/* meta: typed access to metadata. Values were checked when the file was parsed; here they are only converted. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "weights/gguf.h"

#define TEXT_BYTES 1024u /* of a string value that weights_each_meta() shows */

/* An integer of any width: `u`, or (int64_t)u where negative. */
struct integer {
    bool negative;
    uint64_t u;
};

#define READ(ctype)              \
    do {                         \
        ctype v_;                \
        memcpy(&v_, p, sizeof v_); \
        out->negative = v_ < 0;  \
        out->u = (uint64_t)v_;   \
        return true;             \
    } while (0)
#define READ_UNSIGNED(ctype)     \
    do {                         \
        ctype v_;                \
        memcpy(&v_, p, sizeof v_); \
        out->negative = false;   \
        out->u = v_;             \
        return true;             \
    } while (0)

/* False when `type` is no integer type. */
static bool read_integer(uint32_t type, const uint8_t *p, struct integer *out)
{
    switch (type) {
    case GGUF_U8: READ_UNSIGNED(uint8_t);
    case GGUF_U16: READ_UNSIGNED(uint16_t);
    case GGUF_U32: READ_UNSIGNED(uint32_t);
    case GGUF_U64: READ_UNSIGNED(uint64_t);
    case GGUF_I8: READ(int8_t);
    case GGUF_I16: READ(int16_t);
    case GGUF_I32: READ(int32_t);
    case GGUF_I64: READ(int64_t);
    default: return false;
    }
}

/* False when `type` is no float type, or a double is beyond the floats. */
static bool read_float(uint32_t type, const uint8_t *p, float *out)
{
    if (type == GGUF_F32) {
        memcpy(out, p, sizeof *out);
        return true;
    }
    if (type != GGUF_F64)
        return false;
    double d;
    memcpy(&d, p, sizeof d);
    if (isfinite(d) && fabs(d) > (double)FLT_MAX)
        return false;
    *out = (float)d;
    return true;
}

const struct gguf_value *gguf_find(const struct gguf_file *f, const char *key)
{
    const struct gguf_name *n = gguf_find_name(f->keys, f->metas, key);
    return n ? &f->meta[n->id].value : NULL;
}

bool gguf_u64(const struct gguf_file *f, const char *key, uint64_t *out)
{
    const struct gguf_value *v = gguf_find(f, key);
    struct integer i;
    if (!v || !read_integer(v->type, v->at, &i) || i.negative)
        return false;
    *out = i.u;
    return true;
}

static const struct gguf_value *find(const struct weights *w, const char *key)
{
    return gguf_find(&w->parts[0], key);
}

bool weights_has(const struct weights *w, const char *key)
{
    return find(w, key) != NULL;
}

bool weights_u64(const struct weights *w, const char *key, uint64_t *out)
{
    return gguf_u64(&w->parts[0], key, out);
}

bool weights_u32(const struct weights *w, const char *key, uint32_t *out)
{
    uint64_t u;
    if (!weights_u64(w, key, &u) || u > UINT32_MAX)
        return false;
    *out = (uint32_t)u;
    return true;
}

bool weights_f32(const struct weights *w, const char *key, float *out)
{
    const struct gguf_value *v = find(w, key);
    return v && read_float(v->type, v->at, out);
}

bool weights_bool(const struct weights *w, const char *key, bool *out)
{
    const struct gguf_value *v = find(w, key);
    if (!v || v->type != GGUF_BOOL)
        return false;
    *out = *v->at != 0;
    return true;
}

bool weights_string(const struct weights *w, const char *key, struct weights_str *out)
{
    const struct gguf_value *v = find(w, key);
    if (!v || v->type != GGUF_STRING)
        return false;
    *out = (struct weights_str){(const char *)v->at, (size_t)v->count};
    return true;
}

/* --- arrays ---------------------------------------------------------------------------------------------------------- */

size_t weights_array(const struct weights *w, const char *key)
{
    const struct gguf_value *v = find(w, key);
    return v && v->type == GGUF_ARRAY ? (size_t)v->count : 0;
}

/* The array under `key` if it has at most n elements. */
static const struct gguf_value *find_array(const struct weights *w, const char *key, size_t n)
{
    const struct gguf_value *v = find(w, key);
    return v && v->type == GGUF_ARRAY && v->count <= n ? v : NULL;
}

bool weights_strings(const struct weights *w, const char *key, struct weights_str *out, size_t n)
{
    const struct gguf_value *v = find_array(w, key, n);
    if (!v || v->elem != GGUF_STRING)
        return false;
    const uint8_t *p = v->at;
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t len; /* these bytes are read a second time: a file written to meanwhile must not lead us out of it */
        if ((size_t)(v->end - p) < sizeof len)
            return false;
        memcpy(&len, p, sizeof len);
        if (len > (size_t)(v->end - p) - sizeof len)
            return false;
        out[i] = (struct weights_str){(const char *)p + sizeof len, (size_t)len};
        p += sizeof len + len;
    }
    return true;
}

bool weights_f32s(const struct weights *w, const char *key, float *out, size_t n)
{
    const struct gguf_value *v = find_array(w, key, n);
    if (!v || (v->elem != GGUF_F32 && v->elem != GGUF_F64))
        return false;
    size_t size = gguf_type_size(v->elem);
    for (uint64_t i = 0; i < v->count; i++)
        if (!read_float(v->elem, v->at + i * size, &out[i]))
            return false;
    return true;
}

bool weights_i32s(const struct weights *w, const char *key, int32_t *out, size_t n)
{
    const struct gguf_value *v = find_array(w, key, n);
    size_t size = v ? gguf_type_size(v->elem) : 0;
    if (!size || v->elem == GGUF_F32 || v->elem == GGUF_F64)
        return false;
    uint32_t type = v->elem == GGUF_BOOL ? GGUF_U8 : v->elem;
    for (uint64_t i = 0; i < v->count; i++) {
        struct integer x;
        read_integer(type, v->at + i * size, &x);
        if (x.negative ? (int64_t)x.u < INT32_MIN : x.u > INT32_MAX)
            return false;
        out[i] = (int32_t)(int64_t)x.u;
    }
    return true;
}

/* --- as text --------------------------------------------------------------------------------------------------------- */

/* What a terminal or a JSON writer would stumble over becomes \n, \t, \\ or \xNN. */
static void add_escaped(struct buf *b, const uint8_t *p, size_t n)
{
    size_t shown = n < TEXT_BYTES ? n : TEXT_BYTES, i = 0;
    while (i < shown) {
        size_t len = gguf_utf8(p + i, n - i);
        if (p[i] == '\n' || p[i] == '\t' || p[i] == '\\')
            buf_adds(b, p[i] == '\n' ? "\\n" : p[i] == '\t' ? "\\t" : "\\\\");
        else if (!len || p[i] < 0x20 || p[i] == 0x7F)
            buf_addf(b, "\\x%02x", p[i]);
        else
            buf_add(b, p + i, len);
        i += len ? len : 1;
    }
    if (i < n)
        buf_addf(b, "… (%zu bytes)", n);
}

static void add_value(struct buf *b, const struct gguf_value *v)
{
    struct integer i;
    float f;
    if (v->type == GGUF_STRING) {
        add_escaped(b, v->at, (size_t)v->count);
    } else if (v->type == GGUF_ARRAY) {
        buf_addf(b, "%s[%llu]", gguf_type_name(v->elem), (unsigned long long)v->count);
    } else if (v->type == GGUF_BOOL) {
        buf_adds(b, *v->at ? "true" : "false");
    } else if (read_integer(v->type, v->at, &i)) {
        if (i.negative)
            buf_addf(b, "%lld", (long long)(int64_t)i.u);
        else
            buf_addf(b, "%llu", (unsigned long long)i.u);
    } else if (read_float(v->type, v->at, &f)) {
        buf_addf(b, "%.7g", (double)f);
    } else { /* a double beyond the floats */
        double d;
        memcpy(&d, v->at, sizeof d);
        buf_addf(b, "%.17g", d);
    }
}

void weights_each_meta(const struct weights *w, void (*fn)(void *ctx, const char *key, const char *value), void *ctx)
{
    const struct gguf_file *f = &w->parts[0];
    struct buf key, value;
    buf_init(&key, GGUF_KEY);
    buf_init(&value, 8 * TEXT_BYTES);
    for (size_t i = 0; i < f->metas; i++) {
        buf_clear(&key);
        buf_clear(&value);
        buf_add(&value, "", 0); /* so that data is a string even where nothing follows */
        add_value(&value, &f->meta[i].value);
        if (buf_add(&key, f->meta[i].key.s, f->meta[i].key.n) && !value.failed)
            fn(ctx, key.data, value.data);
    }
    buf_release(&key);
    buf_release(&value);
}
