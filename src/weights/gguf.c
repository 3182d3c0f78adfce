/*
 * gguf: checks a whole GGUF file and builds its indexes. See gguf.h.
 *
 *   "GGUF" | u32 version | u64 tensors | u64 keys | keys: string, u32 type, value
 *   | tensors: string, u32 dims, u64 dim[dims], u32 type, u64 offset | padding | data
 *
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Padding after the last tensor may be missing: some writers
 * leave it out, and nothing is lost with it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/gguf.h"

#define META_MIN (8 + 1 + 4 + 1)               /* bytes of the smallest metadata entry */
#define TENSOR_MIN (8 + 1 + 4 + 8 + 4 + 8)     /* bytes of the smallest tensor entry */
#define DEFAULT_ALIGN 32

/* The numbers of ggml's tensor types; those this build reads have a kern type. */
static const struct {
    const char *name;
    int kern; /* enum kern_type, or -1 */
} tensor_types[] = {
    [0] = {"F32", KERN_F32},      [1] = {"F16", KERN_F16},    [2] = {"Q4_0", KERN_Q4_0},
    [3] = {"Q4_1", KERN_Q4_1},    [4] = {"Q4_2", -1},         [5] = {"Q4_3", -1},
    [6] = {"Q5_0", KERN_Q5_0},    [7] = {"Q5_1", KERN_Q5_1},  [8] = {"Q8_0", KERN_Q8_0},
    [9] = {"Q8_1", -1},           [10] = {"Q2_K", KERN_Q2_K}, [11] = {"Q3_K", KERN_Q3_K},
    [12] = {"Q4_K", KERN_Q4_K},   [13] = {"Q5_K", KERN_Q5_K}, [14] = {"Q6_K", KERN_Q6_K},
    [15] = {"Q8_K", -1},          [16] = {"IQ2_XXS", -1},     [17] = {"IQ2_XS", -1},
    [18] = {"IQ3_XXS", -1},       [19] = {"IQ1_S", -1},       [20] = {"IQ4_NL", KERN_IQ4_NL},
    [21] = {"IQ3_S", -1},         [22] = {"IQ2_S", -1},       [23] = {"IQ4_XS", KERN_IQ4_XS},
    [24] = {"I8", -1},            [25] = {"I16", -1},         [26] = {"I32", -1},
    [27] = {"I64", -1},           [28] = {"F64", -1},         [29] = {"IQ1_M", -1},
    [30] = {"BF16", KERN_BF16},   [31] = {"Q4_0_4_4", -1},    [32] = {"Q4_0_4_8", -1},
    [33] = {"Q4_0_8_8", -1},      [34] = {"TQ1_0", -1},       [35] = {"TQ2_0", -1},
    [36] = {"IQ4_NL_4_4", -1},    [37] = {"IQ4_NL_4_8", -1},  [38] = {"IQ4_NL_8_8", -1},
    [39] = {"MXFP4", KERN_MXFP4}, [40] = {"NVFP4", -1},       [41] = {"Q1_0", -1},
    [42] = {"Q2_0", -1},
};

uint32_t gguf_type_number(enum kern_type type)
{
    for (uint32_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++)
        if (tensor_types[i].kern == (int)type)
            return i;
    BUG("weight type %d has no number in files", (int)type);
}

enum status gguf_bad(const struct gguf_file *f, enum status code, struct err *e, const char *fmt, ...)
{
    char text[ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(e, code, f->path, "%s is not a usable GGUF file: %s", f->shown, text);
}

/* --- names ----------------------------------------------------------------------------------------------------------- */

static int compare_bytes(const char *a, size_t na, const char *b, size_t nb)
{
    int c = memcmp(a, b, na < nb ? na : nb);
    return c ? c : (na > nb) - (na < nb);
}

static int compare_names(const void *a, const void *b)
{
    const struct gguf_name *x = a, *y = b;
    return compare_bytes(x->s, x->n, y->s, y->n);
}

size_t gguf_sort_names(struct gguf_name *names, size_t n)
{
    if (n)
        qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return names[i].id;
    return n;
}

const struct gguf_name *gguf_find_name(const struct gguf_name *names, size_t n, const char *s)
{
    size_t len = strlen(s), low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = compare_bytes(s, len, names[mid].s, names[mid].n);
        if (c == 0)
            return &names[mid];
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* --- header and metadata --------------------------------------------------------------------------------------------- */

static enum status check_version(const struct gguf_file *f, uint32_t version, struct err *e)
{
    if (version == 2 || version == 3)
        return ST_OK;
    if (version == 1)
        return gguf_bad(f, ST_UNSUPPORTED, e, "it has version 1 of the format, versions 2 and 3 can be read");
    if (version && (version & 0xFFFF) == 0) /* a small number seen with its bytes reversed */
        return gguf_bad(f, ST_UNSUPPORTED, e, "it is for big-endian machines, a little-endian file was expected");
    return gguf_bad(f, ST_UNSUPPORTED, e, "it has version %u of the format, versions 2 and 3 can be read", version);
}

static enum status check_count(const struct gguf_file *f, const struct gguf_reader *r, const char *what,
                               uint64_t count, uint64_t limit, size_t smallest, struct err *e)
{
    if (count > limit)
        return gguf_bad(f, ST_MODEL, e, "it claims %llu %s, at most %llu were expected", (unsigned long long)count,
                        what, (unsigned long long)limit);
    if (count > (r->size - r->at) / smallest)
        return gguf_bad(f, ST_MODEL, e, "it is too short for the %llu %s it claims (truncated or corrupt)",
                        (unsigned long long)count, what);
    return ST_OK;
}

static enum status parse_header(struct gguf_file *f, struct gguf_reader *r, struct err *e)
{
    const uint8_t *magic; /* seen by map.c */
    uint32_t version;
    uint64_t tensors, metas;
    if (!gguf_take(r, 4, &magic) || !gguf_take_u32(r, &version))
        return gguf_bad(f, ST_MODEL, e, "it ends inside its header (truncated)");
    TRY(check_version(f, version, e));
    if (!gguf_take_u64(r, &tensors) || !gguf_take_u64(r, &metas))
        return gguf_bad(f, ST_MODEL, e, "it ends inside its header (truncated)");
    TRY(check_count(f, r, "tensors", tensors, LIMIT_TENSORS, TENSOR_MIN, e));
    TRY(check_count(f, r, "metadata keys", metas, LIMIT_META_KEYS, META_MIN, e));
    f->count = (size_t)tensors;
    f->metas = (size_t)metas;
    f->meta = calloc(f->metas + 1, sizeof *f->meta);
    f->keys = calloc(f->metas + 1, sizeof *f->keys);
    f->tensors = calloc(f->count + 1, sizeof *f->tensors);
    if (!f->meta || !f->keys || !f->tensors)
        return err_set(e, ST_NO_MEMORY, f->path, "no memory for the header of %s", f->shown);
    return ST_OK;
}

static enum status parse_meta(struct gguf_file *f, struct gguf_reader *r, struct err *e)
{
    for (size_t i = 0; i < f->metas; i++) {
        struct gguf_meta *m = &f->meta[i];
        const char *why = gguf_take_string(r, GGUF_KEY, &m->key);
        if (!why)
            why = gguf_bad_name(m->key.s, m->key.n);
        if (why)
            return gguf_bad(f, ST_MODEL, e, "the name of metadata key %zu %s", i + 1, why);
        uint32_t type;
        if (!gguf_take_u32(r, &type))
            why = "reaches beyond the end of the file (truncated or corrupt)";
        else
            why = gguf_take_value(r, type, &m->value);
        if (why)
            return gguf_bad(f, ST_MODEL, e, "the value of '%.*s' %s", (int)(m->key.n < 64 ? m->key.n : 64), m->key.s,
                            why);
        f->keys[i] = (struct gguf_name){m->key.s, m->key.n, i};
    }
    size_t twice = gguf_sort_names(f->keys, f->metas);
    if (twice < f->metas) {
        const struct weights_str *key = &f->meta[twice].key;
        return gguf_bad(f, ST_MODEL, e, "metadata key '%.*s' occurs twice", (int)(key->n < 64 ? key->n : 64), key->s);
    }
    return ST_OK;
}

static enum status parse_align(struct gguf_file *f, struct err *e)
{
    const struct gguf_value *v = gguf_find(f, "general.alignment");
    f->align = DEFAULT_ALIGN;
    if (!v)
        return ST_OK;
    if (!gguf_u64(f, "general.alignment", &f->align))
        return gguf_bad(f, ST_MODEL, e, "general.alignment is not a positive integer");
    if (f->align < GGUF_ALIGN_MIN || f->align > UINT32_MAX || (f->align & (f->align - 1)) != 0)
        return gguf_bad(f, ST_MODEL, e, "general.alignment is %llu, a power of two from %u on was expected",
                        (unsigned long long)f->align, GGUF_ALIGN_MIN);
    return ST_OK;
}

/* --- tensors --------------------------------------------------------------------------------------------------------- */

static enum status parse_type(const struct gguf_file *f, struct gguf_tensor *t, uint32_t type, struct err *e)
{
    bool known = type < sizeof tensor_types / sizeof *tensor_types;
    if (known && tensor_types[type].kern >= 0) {
        t->t.type = (enum kern_type)tensor_types[type].kern;
        return ST_OK;
    }
    if (known)
        return err_set(e, ST_UNSUPPORTED, f->path, "%s: tensor '%s' has type %s, which this build cannot read",
                       f->shown, t->name, tensor_types[type].name);
    return err_set(e, ST_UNSUPPORTED, f->path, "%s: tensor '%s' has type number %u, which is not known", f->shown,
                   t->name, type);
}

/* Checks dimensions and sets t.bytes. Rows and columns fit 31 bits afterwards, so that kern's 32-bit arithmetic on
 * them cannot wrap. */
static enum status check_shape(const struct gguf_file *f, struct gguf_tensor *t, struct err *e)
{
    const struct kern_type_info *info = kern_type_info(t->t.type);
    uint64_t rows = 1, blocks;
    bool huge = t->t.dim[0] > INT32_MAX;
    for (uint32_t d = 0; d < 4; d++) {
        if (!t->t.dim[d])
            return gguf_bad(f, ST_MODEL, e, "tensor '%s' has an empty dimension", t->name);
        if (d)
            huge = huge || __builtin_mul_overflow(rows, t->t.dim[d], &rows) || rows > INT32_MAX;
    }
    if (t->t.dim[0] % info->block)
        return gguf_bad(f, ST_MODEL, e, "tensor '%s' has rows of %llu values, %s needs a multiple of %u", t->name,
                        (unsigned long long)t->t.dim[0], info->name, info->block);
    huge = huge || __builtin_mul_overflow(t->t.dim[0] / info->block, rows, &blocks)
           || __builtin_mul_overflow(blocks, (uint64_t)info->file_bytes, &t->t.bytes);
    if (huge)
        return gguf_bad(f, ST_MODEL, e, "tensor '%s' is impossibly large", t->name);
    return ST_OK;
}

static enum status parse_tensor(struct gguf_file *f, struct gguf_reader *r, size_t i, struct err *e)
{
    struct gguf_tensor *t = &f->tensors[i];
    struct weights_str name = {0};
    uint32_t dims, type;
    const char *why = gguf_take_string(r, GGUF_NAME, &name);
    if (!why)
        why = gguf_bad_name(name.s, name.n);
    if (why)
        return gguf_bad(f, ST_MODEL, e, "the name of tensor %zu %s", i + 1, why);
    memcpy(t->name, name.s, name.n);
    if (!gguf_take_u32(r, &dims))
        return gguf_bad(f, ST_MODEL, e, "it ends inside tensor '%s' of its list (truncated)", t->name);
    if (dims < 1 || dims > 4)
        return gguf_bad(f, ST_MODEL, e, "tensor '%s' has %u dimensions, 1 to 4 were expected", t->name, dims);
    t->t.dims = dims;
    bool ok = true;
    for (uint32_t d = 0; d < 4; d++) {
        t->t.dim[d] = 1;
        if (d < dims)
            ok = ok && gguf_take_u64(r, &t->t.dim[d]);
    }
    if (!ok || !gguf_take_u32(r, &type) || !gguf_take_u64(r, &t->offset))
        return gguf_bad(f, ST_MODEL, e, "it ends inside tensor '%s' of its list (truncated)", t->name);
    TRY(parse_type(f, t, type, e));
    return check_shape(f, t, e);
}

/* Finds each tensor's data. Nothing can overflow: data_at <= size where there are tensors, and offset and bytes are
 * compared with what is left. */
static enum status place_tensors(struct gguf_file *f, const struct gguf_reader *r, struct err *e)
{
    if (!f->count)
        return ST_OK;
    uint64_t data_at = (r->at + f->align - 1) & ~(f->align - 1); /* at <= 2^63, align < 2^32 */
    if (data_at > f->size)
        return gguf_bad(f, ST_MODEL, e, "it ends before its tensor data (truncated)");
    f->data_at = data_at;
    for (size_t i = 0; i < f->count; i++) {
        struct gguf_tensor *t = &f->tensors[i];
        if (t->offset % f->align)
            return gguf_bad(f, ST_MODEL, e, "the data of tensor '%s' is not aligned to %llu bytes", t->name,
                            (unsigned long long)f->align);
        if (t->offset > f->size - data_at || t->t.bytes > f->size - data_at - t->offset)
            return gguf_bad(f, ST_MODEL, e, "the data of tensor '%s' reaches beyond the end of the file (truncated)",
                            t->name);
        t->t.data = f->base + data_at + t->offset;
    }
    return ST_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(struct gguf_tensor *const *)a, *y = *(struct gguf_tensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static enum status check_overlap(const struct gguf_file *f, struct err *e)
{
    struct gguf_tensor **order = calloc(f->count + 1, sizeof *order);
    if (!order)
        return err_set(e, ST_NO_MEMORY, f->path, "no memory for the header of %s", f->shown);
    for (size_t i = 0; i < f->count; i++)
        order[i] = &f->tensors[i];
    if (f->count)
        qsort(order, f->count, sizeof *order, compare_offsets);
    enum status s = ST_OK;
    for (size_t i = 1; i < f->count && s == ST_OK; i++) {
        const struct gguf_tensor *a = order[i - 1], *b = order[i];
        if (b->offset - a->offset < a->t.bytes)
            s = gguf_bad(f, ST_MODEL, e, "the data of '%s' and '%s' overlap", a->name, b->name);
    }
    free(order);
    return s;
}

enum status gguf_parse(struct gguf_file *f, struct err *e)
{
    struct gguf_reader r = {.base = f->base, .size = f->size};
    TRY(parse_header(f, &r, e));
    TRY(parse_meta(f, &r, e));
    TRY(parse_align(f, e));
    for (size_t i = 0; i < f->count; i++)
        TRY(parse_tensor(f, &r, i, e));
    TRY(place_tensors(f, &r, e));
    return check_overlap(f, e);
}
