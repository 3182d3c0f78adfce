/*
 * cached: what lies in the model cache.
 *
 * A model is called by its path below the cache folder, "owner/name/file.gguf"; a split one by its first part. A file
 * whose download did not end (store.h) counts as an unfinished model, or part of one.
 */
#ifndef CLI_CACHED_H
#define CLI_CACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct cached {
    char *name;
    uint64_t bytes;      /* of all its files */
    int64_t modified;    /* seconds since 1970, of the newest one */
    uint32_t parts, of;  /* how many whole files there are, and should be */
    bool unfinished;     /* a download of one did not end */
};

struct cached_list {
    char dir[4096]; /* the cache folder of models */
    struct cached *models; /* owned; by name */
    size_t n;
};

/* On failure there is nothing to free. A cache that is not there is empty. */
MUST_CHECK enum status cached_read(struct cached_list *l, struct err *e);
void cached_free(struct cached_list *l);

/* The path of the model that `name` names: as in the list, or "owner/name", "owner/name:quant" and "owner/name:file" of
 * what was pulled from there. ST_IO when there is none, ST_ARGUMENT when it has to be said which. */
MUST_CHECK enum status cached_find(const char *name, char *path, size_t cap, struct err *e);

/* The path of part `no` (from 1) of a model; the whole file when it has no parts. */
MUST_CHECK enum status cached_path(const struct cached_list *l, const struct cached *m, uint32_t no, char *path, size_t cap,
                                   struct err *e);

/* A model all of whose files are there. */
static inline bool cached_whole(const struct cached *m)
{
    return m->parts == m->of;
}

#endif
