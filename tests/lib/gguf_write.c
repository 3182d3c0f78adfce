/* gguf_write: see gguf_write.h. */
#include "gguf_write.h"

#include <stdio.h>
#include <string.h>

#define ROOM ((size_t)256 << 20)

void gw_init(struct gw *w)
{
    *w = (struct gw){.version = 3, .align = 32};
    buf_init(&w->meta, ROOM);
    buf_init(&w->infos, ROOM);
    buf_init(&w->data, ROOM);
}

void gw_release(struct gw *w)
{
    buf_release(&w->meta);
    buf_release(&w->infos);
    buf_release(&w->data);
}

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

static void pad(struct buf *b, size_t before, size_t align)
{
    while ((before + b->len) % align && !b->failed)
        buf_add(b, "", 1);
}

void gw_key(struct gw *w, const char *key, uint32_t type, const void *value, size_t bytes)
{
    add_text(&w->meta, key, strlen(key));
    add_u32(&w->meta, type);
    buf_add(&w->meta, value, bytes);
    w->keys++;
}

void gw_u32(struct gw *w, const char *key, uint32_t value)
{
    gw_key(w, key, GW_U32, &value, sizeof value);
}

void gw_text(struct gw *w, const char *key, const char *value)
{
    gw_key(w, key, GW_STRING, "", 0);
    add_text(&w->meta, value, strlen(value));
}

void gw_array(struct gw *w, const char *key, uint32_t elem, uint64_t count)
{
    gw_key(w, key, GW_ARRAY, &elem, sizeof elem);
    add_u64(&w->meta, count);
}

void gw_raw(struct gw *w, const void *bytes, size_t n)
{
    buf_add(&w->meta, bytes, n);
}

void gw_element(struct gw *w, const char *s, size_t n)
{
    add_text(&w->meta, s, n);
}

void gw_entry(struct gw *w, const char *name, size_t name_bytes, uint32_t type, uint32_t dims, const uint64_t *dim,
              uint64_t offset)
{
    add_text(&w->infos, name, name_bytes);
    add_u32(&w->infos, dims);
    for (uint32_t i = 0; i < dims; i++)
        add_u64(&w->infos, dim[i]);
    add_u32(&w->infos, type);
    add_u64(&w->infos, offset);
    w->tensors++;
}

void gw_tensor(struct gw *w, const char *name, uint32_t type, uint32_t dims, const uint64_t *dim, const void *data,
               size_t bytes)
{
    pad(&w->data, 0, w->align);
    gw_entry(w, name, strlen(name), type, dims, dim, w->data.len);
    char *p = buf_reserve(&w->data, bytes);
    if (!p)
        return;
    if (data)
        memcpy(p, data, bytes);
    else
        memset(p, 0, bytes);
    w->data.len += bytes;
}

bool gw_build(const struct gw *w, struct buf *out)
{
    buf_clear(out);
    buf_add(out, "GGUF", 4);
    add_u32(out, w->version);
    add_u64(out, w->tensors);
    add_u64(out, w->keys);
    buf_add(out, w->meta.data, w->meta.len);
    buf_add(out, w->infos.data, w->infos.len);
    if (w->data.len)
        pad(out, 0, w->align);
    buf_add(out, w->data.data, w->data.len);
    return !(out->failed || w->meta.failed || w->infos.failed || w->data.failed);
}

bool gw_save(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    bool whole = fwrite(bytes, 1, n, f) == n;
    return fclose(f) == 0 && whole;
}
