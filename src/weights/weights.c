/* weights: opens a model of one or more files and finds its tensors by name. See weights.h. */
#include "weights/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/gguf.h"

#define SPLIT_NAME "-%05u-of-%05u.gguf"
#define SPLIT_NAME_BYTES 20u /* for numbers of five digits */

/* What the metadata of a part says about it. count = 1: the file is a whole model. */
struct split {
    uint64_t no, count, tensors; /* no counts from 0; tensors of all parts */
};

static enum status read_split(const struct gguf_file *f, struct split *s, struct err *e)
{
    *s = (struct split){.count = 1};
    if (!gguf_find(f, "split.count"))
        return ST_OK;
    if (!gguf_u64(f, "split.count", &s->count))
        return gguf_bad(f, ST_MODEL, e, "split.count is not a positive integer");
    if (s->count <= 1) { /* tools that join parts leave 0 */
        s->count = 1;
        return ST_OK;
    }
    if (!gguf_u64(f, "split.no", &s->no) || !gguf_u64(f, "split.tensors.count", &s->tensors))
        return gguf_bad(f, ST_MODEL, e, "it is part of a split model, but split.no or split.tensors.count is missing");
    if (s->count > LIMIT_SPLITS || s->no >= s->count)
        return gguf_bad(f, ST_MODEL, e, "it says to be part %llu of %llu, at most %u parts were expected",
                        (unsigned long long)s->no + 1, (unsigned long long)s->count, LIMIT_SPLITS);
    return ST_OK;
}

/* Bytes of `path` before "-00002-of-00003.gguf", which must be its end. */
static enum status split_stem(const struct gguf_file *f, const struct split *s, size_t *stem, struct err *e)
{
    char end[64];
    size_t n = strlen(f->path);
    snprintf(end, sizeof end, SPLIT_NAME, (unsigned)s->no + 1, (unsigned)s->count);
    if (n < SPLIT_NAME_BYTES || strcmp(f->path + n - SPLIT_NAME_BYTES, end) != 0)
        return err_set(e, ST_MODEL, f->path, "%s is part %u of %u of a split model; its name was expected to end in %s",
                       f->shown, (unsigned)s->no + 1, (unsigned)s->count, end);
    *stem = n - SPLIT_NAME_BYTES;
    return ST_OK;
}

static enum status open_file(struct gguf_file *f, const char *path, const char *part, struct err *e)
{
    TRY(gguf_map(f, path, part, e));
    return gguf_parse(f, e);
}

/* Opens part i (from 0) of a model whose part `known` is s, and checks that both agree. */
static enum status open_part(struct weights *w, size_t i, const struct gguf_file *known, size_t stem,
                             const struct split *s, struct err *e)
{
    char part[64];
    size_t cap = stem + SPLIT_NAME_BYTES + 1;
    char *path = malloc(cap);
    if (!path)
        return err_set(e, ST_NO_MEMORY, known->path, "no memory to open the model");
    memcpy(path, known->path, stem);
    snprintf(path + stem, cap - stem, SPLIT_NAME, (unsigned)i + 1, (unsigned)s->count);
    snprintf(part, sizeof part, ", part %u of %u of the model", (unsigned)i + 1, (unsigned)s->count);
    enum status status = open_file(&w->parts[i], path, part, e);
    free(path);
    if (status != ST_OK)
        return status;
    struct split own;
    const struct gguf_file *f = &w->parts[i];
    TRY(read_split(f, &own, e));
    if (own.no != i || own.count != s->count || own.tensors != s->tensors)
        return gguf_bad(f, ST_MODEL, e, "its split.no, split.count or split.tensors.count does not fit part %zu of %s",
                        i + 1, known->shown + (strlen(known->shown) > 40 ? strlen(known->shown) - 40 : 0));
    return ST_OK;
}

/* Opens the parts that `first`, which becomes w's, belongs to. */
static enum status open_parts(struct weights *w, struct gguf_file *first, struct err *e)
{
    struct split s;
    size_t stem = 0;
    TRY(read_split(first, &s, e));
    if (s.count > 1)
        TRY(split_stem(first, &s, &stem, e));
    w->parts = calloc(s.count, sizeof *w->parts);
    if (!w->parts)
        return err_set(e, ST_NO_MEMORY, first->path, "no memory to open the model");
    w->n_parts = s.count;
    w->asked = s.no;
    struct gguf_file *known = &w->parts[s.no];
    *known = *first;
    *first = (struct gguf_file){0};
    uint64_t tensors = known->count;
    for (size_t i = 0; i < s.count; i++) {
        if (i == s.no)
            continue;
        TRY(open_part(w, i, known, stem, &s, e));
        tensors += w->parts[i].count;
    }
    if (s.count > 1 && tensors != s.tensors)
        return gguf_bad(known, ST_MODEL, e, "the parts hold %llu tensors, split.tensors.count says %llu",
                        (unsigned long long)tensors, (unsigned long long)s.tensors);
    if (tensors > LIMIT_TENSORS)
        return gguf_bad(known, ST_MODEL, e, "the parts hold %llu tensors, at most %u were expected",
                        (unsigned long long)tensors, LIMIT_TENSORS);
    return ST_OK;
}

/* Moves the tensors of all parts into one list and indexes their names. */
static enum status join_tensors(struct weights *w, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_parts; i++) {
        n += w->parts[i].count;
        w->bytes += w->parts[i].size;
    }
    w->tensors = calloc(n + 1, sizeof *w->tensors);
    w->names = calloc(n + 1, sizeof *w->names);
    if (!w->tensors || !w->names)
        return err_set(e, ST_NO_MEMORY, weights_path(w), "no memory to open the model");
    for (size_t i = 0; i < w->n_parts; i++) {
        struct gguf_file *f = &w->parts[i];
        for (size_t k = 0; k < f->count; k++) {
            struct gguf_tensor *t = &w->tensors[w->count];
            *t = f->tensors[k];
            t->t.name = t->name;
            t->t.part = (uint32_t)i;
            w->names[w->count] = (struct gguf_name){t->name, strlen(t->name), w->count};
            w->count++;
        }
        free(f->tensors);
        f->tensors = NULL;
    }
    size_t twice = gguf_sort_names(w->names, w->count);
    if (twice < w->count) {
        const struct tensor *t = &w->tensors[twice].t;
        return gguf_bad(&w->parts[t->part], ST_MODEL, e, "tensor '%s' occurs twice", t->name);
    }
    return ST_OK;
}

/* The rest of opening, once a first file is in memory. Takes `first` over in every case. */
static enum status open_rest(struct weights **out, struct gguf_file *first, struct err *e)
{
    struct weights *w = calloc(1, sizeof *w);
    enum status s = w ? gguf_parse(first, e) : err_set(e, ST_NO_MEMORY, first->path, "no memory to open the model");
    if (s == ST_OK)
        s = open_parts(w, first, e);
    if (s == ST_OK)
        s = join_tensors(w, e);
    if (s == ST_OK)
        *out = w;
    else
        weights_free(w);
    gguf_release(first); /* empty where w has it */
    return s;
}

enum status weights_open(struct weights **out, const char *path, struct err *e)
{
    struct gguf_file first;
    *out = NULL;
    TRY(gguf_map(&first, path, "", e));
    return open_rest(out, &first, e);
}

enum status gguf_open_bytes(struct weights **out, const char *name, const void *bytes, size_t size, struct err *e)
{
    struct gguf_file first;
    *out = NULL;
    TRY(gguf_borrow(&first, name, bytes, size, e));
    return open_rest(out, &first, e);
}

void weights_free(struct weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_parts; i++)
        gguf_release(&w->parts[i]);
    free(w->parts);
    free(w->tensors);
    free(w->names);
    free(w);
}

const char *weights_path(const struct weights *w)
{
    return w->parts[w->asked].path;
}

const char *weights_shown(const struct weights *w)
{
    return w->parts[0].shown;
}

uint64_t weights_file_bytes(const struct weights *w)
{
    return w->bytes;
}

bool weights_has_file(const struct weights *w, uint64_t device, uint64_t inode)
{
    for (size_t i = 0; i < w->n_parts; i++) {
        const struct gguf_file *f = &w->parts[i];
        if (f->mapped && f->identity[0] == device && f->identity[1] == inode)
            return true;
    }
    return false;
}

size_t weights_count(const struct weights *w)
{
    return w->count;
}

const struct tensor *weights_at(const struct weights *w, size_t i)
{
    if (i >= w->count)
        BUG("tensor %zu of %zu", i, w->count);
    return &w->tensors[i].t;
}

const struct tensor *weights_find(const struct weights *w, const char *name)
{
    const struct gguf_name *n = gguf_find_name(w->names, w->count, name);
    return n ? &w->tensors[n->id].t : NULL;
}

size_t weights_index(const struct weights *w, const struct tensor *t)
{
    /* `t` is the first member of its entry */
    return (size_t)((const struct gguf_tensor *)(const void *)t - w->tensors);
}

const struct gguf_file *gguf_part(const struct weights *w, const struct tensor *t)
{
    return &w->parts[t->part];
}
