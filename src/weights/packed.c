/* packed: a model's panels: where each matrix lies, and whether it has to be packed. See weights.h and packed.h. */
#include "weights/packed.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "weights/gguf.h"

#define LINE 64u         /* panels begin at a cache line */
#define SAMPLE_COLS 768u /* several of every type's blocks */
#define SAMPLE_ROWS (KERN_LANES + 5) /* a whole panel and one that is not full */
#define SAMPLE_DATA 4096u /* bytes of each matrix that are looked at */

struct packed {
    const struct weights *w;
    size_t *at;              /* of each tensor: where its panels begin */
    size_t bytes;            /* of all panels */
    uint8_t *panels;         /* file.map or anonymous memory */
    struct packed_file file;
    char path[PACKED_PATH];  /* of the file, once it is complete */
    uint8_t key[PACKED_KEY];
    enum packed_origin origin;
};

/* --- what panels depend on: the key ---------------------------------------------------------------------------------- */

static void add(XXH3_state_t *x, const void *bytes, size_t n)
{
    XXH3_128bits_update(x, bytes, n);
}

static void add_number(XXH3_state_t *x, uint64_t v)
{
    add(x, &v, sizeof v);
}

/* What the packer makes of a small matrix of bytes that all differ: another layout shows here, so nobody has to remember to
 * count a version up. False without memory. */
static bool add_layout(XXH3_state_t *x, enum kern_type type)
{
    const struct kern_type_info *info = kern_type_info(type);
    size_t from = (size_t)SAMPLE_ROWS * (SAMPLE_COLS / info->block) * info->file_bytes;
    size_t to = kern_mat_bytes(type, SAMPLE_ROWS, SAMPLE_COLS);
    uint8_t *file = malloc(from), *panel = calloc(to, 1);
    bool ok = file && panel;
    for (size_t i = 0; ok && i < from; i++)
        file[i] = (uint8_t)(XXH64(&i, sizeof i, 0) >> 56);
    if (ok) {
        kern_pack(type, SAMPLE_ROWS, SAMPLE_COLS, file, 0, kern_panels(SAMPLE_ROWS), panel);
        add(x, panel, to);
    }
    free(file);
    free(panel);
    return ok;
}

/* A matrix: what it is, where its panels lie, and how its data begin, in case the file's time of change tells nothing (a
 * clock that stands still or was set back). */
static void add_matrix(XXH3_state_t *x, const struct packed *p, size_t i)
{
    const struct tensor *t = weights_at(p->w, i);
    add(x, t->name, strlen(t->name) + 1);
    add_number(x, t->type);
    add(x, t->dim, sizeof t->dim);
    add_number(x, p->at[i]);
    if (t->dims < 2)
        return;
    add(x, t->data, t->bytes < SAMPLE_DATA ? t->bytes : SAMPLE_DATA);
    weights_drop(p->w, t);
}

/* False for weights that are no files, and without memory: nothing is kept then. */
static bool make_key(struct packed *p)
{
    const struct weights *w = p->w;
    XXH3_state_t *x = XXH3_createState();
    bool ok = x && XXH3_128bits_reset(x) == XXH_OK;
    for (int t = 0; ok && t < KERN_TYPES; t++)
        ok = add_layout(x, (enum kern_type)t);
    for (size_t i = 0; ok && i < w->n_parts; i++) {
        const struct gguf_file *f = &w->parts[i];
        ok = f->mapped;
        add(x, f->identity, sizeof f->identity);
        add_number(x, f->size);
        add(x, f->base, f->data_at);
    }
    for (size_t i = 0; ok && i < weights_count(w); i++)
        add_matrix(x, p, i);
    if (ok) {
        XXH128_canonical_t key;
        XXH128_canonicalFromHash(&key, XXH3_128bits_digest(x));
        memcpy(p->key, key.digest, PACKED_KEY);
    }
    XXH3_freeState(x);
    return ok;
}

/* --- memory ---------------------------------------------------------------------------------------------------------- */

/* In file order, whatever order they are asked for in. Sums saturate. */
static void place(struct packed *p)
{
    for (size_t i = 0; i < weights_count(p->w); i++) {
        const struct tensor *t = weights_at(p->w, i);
        uint64_t rows = t->dim[1] * t->dim[2] * t->dim[3];
        p->at[i] = p->bytes;
        if (t->dims >= 2)
            p->bytes = mem_add(p->bytes, kern_mat_bytes(t->type, (uint32_t)rows, (uint32_t)t->dim[0]));
        p->bytes = mem_add(p->bytes, LINE - 1) / LINE * LINE;
    }
}

static void copy_task(void *ctx, uint32_t i, int worker)
{
    struct packed *p = ctx;
    size_t from = (size_t)i * PACKED_CHUNK, left = p->bytes - from;
    (void)worker;
    memcpy(p->panels + from, p->file.map + from, left < PACKED_CHUNK ? left : PACKED_CHUNK);
    mem_forget(p->file.map + from, PACKED_CHUNK); /* so that both are never resident as a whole */
}

/* Copying takes a tenth of the time of packing. Without memory for both the file stays mapped, which only reads slower. */
static uint8_t *copy_file(struct packed *p, struct pool *pool)
{
    p->panels = mem_map(p->bytes);
    if (!p->panels)
        return p->file.map;
    pool_run(pool, copy_task, p, (uint32_t)((p->bytes + PACKED_CHUNK - 1) / PACKED_CHUNK));
    packed_file_release(&p->file);
    return p->panels;
}

/* In a file that was found or is new; NULL when it has to be other memory. */
static uint8_t *in_file(struct packed *p, const struct packed_store *store, struct pool *pool)
{
    bool huge;
    if (!store || !store->dir || p->bytes < (store->least ? store->least : PACKED_LEAST) || !make_key(p) ||
        !packed_dir_path(p->path, store->dir, p->key))
        return NULL;
    if (packed_file_find(&p->file, p->path, p->key, p->bytes, pool, &huge)) {
        p->origin = PACKED_FOUND;
        return huge || store->small_pages ? p->file.map : copy_file(p, pool);
    }
    if (!packed_file_make(&p->file, store->dir, p->bytes, store->small_pages, pool))
        return NULL;
    if (packed_dir_room(store->dir, store->most, packed_file_bytes(p->bytes)))
        return packed_file_fill(&p->file, store->dir, store->small_pages, pool) ? p->file.map : NULL;
    packed_file_release(&p->file);
    log_line(LOG_INFO, "packed weights are not kept in %s: there is no room for %zu MB", store->dir, p->bytes >> 20);
    return NULL;
}

static enum status reserve(struct packed *p, const struct packed_store *store, struct pool *pool, struct err *e)
{
    const char *shown = weights_shown(p->w);
    if (p->bytes > mem_total())
        return err_set(e, ST_NO_MEMORY, "", "%s: %zu MB of weights do not fit this machine's %zu MB of memory", shown,
                       p->bytes >> 20, (size_t)(mem_total() >> 20));
    p->panels = in_file(p, store, pool);
    if (!p->panels)
        p->panels = mem_map(p->bytes);
    if (!p->panels && p->bytes)
        return err_set(e, ST_NO_MEMORY, "", "%s: no memory for %zu MB of weights", shown, p->bytes >> 20);
    return ST_OK;
}

enum status packed_new(struct packed **out, const struct weights *w, const struct packed_store *store,
                       struct pool *pool, struct err *e)
{
    struct packed *p = *out = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a model");
    p->w = w;
    p->file.fd = -1;
    p->at = calloc(weights_count(w) + 1, sizeof *p->at);
    enum status st = p->at ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a model");
    if (st == ST_OK) {
        place(p);
        st = reserve(p, store, pool, e);
    }
    if (st != ST_OK) {
        packed_free(p);
        *out = NULL;
    }
    return st;
}

void packed_free(struct packed *p)
{
    if (!p)
        return;
    if (p->panels != p->file.map)
        mem_unmap(p->panels, p->bytes);
    packed_file_release(&p->file);
    free(p->at);
    free(p);
}

void packed_matrix(struct packed *p, const struct tensor *t, struct pool *pool, struct kern_mat *out)
{
    uint8_t *at = p->panels + p->at[weights_index(p->w, t)];
    if (t->dims < 2)
        BUG("tensor %s is no matrix", t->name);
    if (p->origin == PACKED_FOUND)
        weights_packed_mat(t, at, out);
    else
        weights_pack(p->w, t, pool, at, out);
}

void packed_keep(struct packed *p, struct pool *pool)
{
    if (p->origin == PACKED_HERE && p->file.map && packed_file_keep(&p->file, p->path, p->key, pool))
        p->origin = PACKED_KEPT;
}

enum packed_origin packed_origin(const struct packed *p)
{
    return p->origin;
}
