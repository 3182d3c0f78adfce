/* write: the head of a GGUF file that is made from another one. See weights.h for what it keeps, gguf.c for the layout. */
#include <string.h>

#include "weights/gguf.h"

#define META_LIMIT ((size_t)1 << 30)
#define HEAD_LIMIT (META_LIMIT + (size_t)LIMIT_TENSORS * 256) /* an entry of a tensor is shorter */
#define VERSION 3u
#define QUANTISATION 2u /* ggml's version of its block formats */

static void add_u32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof v);
}

static void add_u64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof v);
}

static void add_text(struct buf *b, const char *s, size_t n)
{
    add_u64(b, n);
    buf_add(b, s, n);
}

static bool is_key(const struct gguf_meta *m, const char *key)
{
    return m->key.n == strlen(key) && memcmp(m->key.s, key, m->key.n) == 0;
}

static bool is_dropped(const struct gguf_meta *m)
{
    return is_key(m, "general.file_type") || is_key(m, "general.quantization_version") ||
           (m->key.n > 6 && memcmp(m->key.s, "split.", 6) == 0);
}

/* The bytes of a value are those of the file, behind what its type puts before them. */
static void add_meta(struct buf *b, const struct gguf_meta *m)
{
    const struct gguf_value *v = &m->value;
    add_text(b, m->key.s, m->key.n);
    add_u32(b, v->type);
    if (v->type == GGUF_ARRAY)
        add_u32(b, v->elem);
    if (v->type == GGUF_ARRAY || v->type == GGUF_STRING)
        add_u64(b, v->count);
    buf_add(b, v->at, (size_t)(v->end - v->at));
}

static void add_number(struct buf *b, const char *key, uint32_t value)
{
    add_text(b, key, strlen(key));
    add_u32(b, GGUF_U32);
    add_u32(b, value);
}

static size_t meta_bytes(const struct gguf_file *f)
{
    return f->metas ? (size_t)(f->meta[f->metas - 1].value.end - f->base) : 0;
}

/* Offsets count from the first tensor's data and are as aligned as the file says. */
static uint64_t add_tensor(struct buf *b, const struct tensor *t, struct weights_place *p, uint64_t at, uint64_t align)
{
    const struct kern_type_info *ti = kern_type_info(p->type);
    uint64_t n = 1;
    add_text(b, t->name, strlen(t->name));
    add_u32(b, t->dims);
    for (uint32_t i = 0; i < t->dims; i++) {
        add_u64(b, t->dim[i]);
        n *= t->dim[i];
    }
    add_u32(b, gguf_type_number(p->type));
    add_u64(b, at);
    p->at = at;
    p->bytes = (size_t)(n / ti->block * ti->file_bytes);
    return at + (p->bytes + align - 1) / align * align;
}

enum status weights_write_head(const struct weights *w, struct weights_place *places, uint32_t file_type,
                               struct buf *out, uint64_t *end, struct err *e)
{
    const struct gguf_file *f = &w->parts[0];
    size_t kept = 0;
    uint64_t at = 0;
    buf_init(out, HEAD_LIMIT);
    if (meta_bytes(f) > META_LIMIT)
        return err_set(e, ST_TOO_LONG, weights_path(w), "%s: the metadata take more than %zu MB", weights_shown(w),
                       META_LIMIT >> 20);
    for (size_t i = 0; i < f->metas; i++)
        kept += !is_dropped(&f->meta[i]);
    buf_add(out, "GGUF", 4);
    add_u32(out, VERSION);
    add_u64(out, w->count);
    add_u64(out, kept + 2);
    for (size_t i = 0; i < f->metas; i++)
        if (!is_dropped(&f->meta[i]))
            add_meta(out, &f->meta[i]);
    add_number(out, "general.quantization_version", QUANTISATION);
    add_number(out, "general.file_type", file_type);
    for (size_t i = 0; i < w->count; i++)
        at = add_tensor(out, &w->tensors[i].t, &places[i], at, f->align);
    uint64_t data = mem_round(out->len, f->align);
    for (size_t i = 0; i < w->count; i++)
        places[i].at += data;
    *end = data + at;
    return out->failed ? err_set(e, ST_NO_MEMORY, weights_path(w), "no memory for the header of a new file") : ST_OK;
}
