/* cached: see cached.h. */
#include "cli/cached.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/hub.h"
#include "cli/pick.h"
#include "cli/store.h"

#define DEPTH 16 /* folders within each other that are looked into */
#define DIGITS_FROM_END (sizeof "00001-of-00003.gguf" - 1)

/* A file of the cache. Files of one model have the same name. */
struct found {
    char *name;
    uint32_t no, of;
    uint64_t bytes;
    int64_t modified;
    bool unfinished;
};

struct walk {
    char path[STORE_PATH];
    size_t root; /* bytes of the cache folder and its slash */
    struct found *files;
    size_t n, cap;
    struct err *err;
};

/* --- the files -------------------------------------------------------------------------------------------------------- */

static enum status add_file(struct walk *w, const struct stat *st)
{
    struct found f = {.no = 1, .of = 1, .bytes = (uint64_t)st->st_size, .modified = (int64_t)st->st_mtime};
    size_t stem, n = strlen(w->path), end = strlen(STORE_PART);
    f.unfinished = n > end && strcmp(w->path + n - end, STORE_PART) == 0;
    if (w->n == LIMIT_CACHE_FILES)
        return err_set(w->err, ST_UNSUPPORTED, "", "the model cache has more than %u files", LIMIT_CACHE_FILES);
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        struct found *more = realloc(w->files, cap * sizeof *more);
        if (!more)
            return err_set(w->err, ST_NO_MEMORY, "", "no memory for a list of the model cache");
        w->files = more;
        w->cap = cap;
    }
    f.name = strndup(w->path + w->root, n - w->root - (f.unfinished ? end : 0));
    if (!f.name)
        return err_set(w->err, ST_NO_MEMORY, "", "no memory for a list of the model cache");
    if (pick_split(f.name, &f.no, &f.of, &stem))
        memcpy(f.name + strlen(f.name) - DIGITS_FROM_END, "00001", 5);
    if (!pick_is_gguf(f.name) || !pick_is_safe(f.name)) /* names are printed */
        free(f.name);
    else
        w->files[w->n++] = f;
    return ST_OK;
}

/* The folder at w->path. One that cannot be read is as good as empty. */
static enum status walk_folder(struct walk *w, int depth)
{
    size_t n = strlen(w->path);
    enum status st = ST_OK;
    DIR *d = opendir(w->path);
    for (struct dirent *ent; d && st == ST_OK && (ent = readdir(d));) {
        struct stat sb;
        size_t name = strlen(ent->d_name);
        if (ent->d_name[0] == '.' || n + name + 2 > sizeof w->path)
            continue;
        snprintf(w->path + n, sizeof w->path - n, "/%s", ent->d_name);
        if (lstat(w->path, &sb) != 0)
            continue;
        if (S_ISDIR(sb.st_mode) && depth < DEPTH)
            st = walk_folder(w, depth + 1);
        else if (S_ISREG(sb.st_mode) || (S_ISLNK(sb.st_mode) && stat(w->path, &sb) == 0 && S_ISREG(sb.st_mode)))
            st = add_file(w, &sb);
    }
    if (d)
        closedir(d);
    w->path[n] = '\0';
    return st;
}

/* --- the models ------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Joins the sorted files of each model. */
static enum status join(struct cached_list *l, struct walk *w)
{
    if (w->n)
        qsort(w->files, w->n, sizeof *w->files, by_name);
    l->models = calloc(w->n ? w->n : 1, sizeof *l->models);
    if (!l->models)
        return err_set(w->err, ST_NO_MEMORY, "", "no memory for a list of the model cache");
    for (size_t i = 0; i < w->n; i++) {
        const struct found *f = &w->files[i];
        if (l->n == 0 || strcmp(l->models[l->n - 1].name, f->name) != 0) {
            l->models[l->n] = (struct cached){.name = strdup(f->name), .of = f->of};
            if (!l->models[l->n].name)
                return err_set(w->err, ST_NO_MEMORY, "", "no memory for a list of the model cache");
            l->n++;
        }
        struct cached *m = &l->models[l->n - 1];
        m->bytes += f->bytes;
        m->modified = f->modified > m->modified ? f->modified : m->modified;
        m->parts += !f->unfinished;
        m->unfinished |= f->unfinished;
    }
    return ST_OK;
}

enum status cached_read(struct cached_list *l, struct err *e)
{
    struct walk w = {.err = e};
    *l = (struct cached_list){0};
    TRY(cli_cache_dir("models", l->dir, sizeof l->dir, e));
    snprintf(w.path, sizeof w.path, "%s", l->dir);
    w.root = strlen(w.path) + 1;
    enum status st = walk_folder(&w, 0);
    if (st == ST_OK)
        st = join(l, &w);
    for (size_t i = 0; i < w.n; i++)
        free(w.files[i].name);
    free(w.files);
    if (st != ST_OK)
        cached_free(l);
    return st;
}

void cached_free(struct cached_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->models[i].name);
    free(l->models);
    l->models = NULL;
    l->n = 0;
}

/* --- finding one ------------------------------------------------------------------------------------------------------ */

enum status cached_path(const struct cached_list *l, const struct cached *m, uint32_t no, char *path, size_t cap,
                        struct err *e)
{
    char digits[8];
    TRY(cli_join(path, cap, l->dir, m->name, e));
    snprintf(digits, sizeof digits, "%05u", no % 100000);
    if (m->of > 1)
        memcpy(path + strlen(path) - DIGITS_FROM_END, digits, 5);
    return ST_OK;
}

/* The model that a repository's name picks among what was pulled from there. */
static enum status find_in_repo(const struct cached_list *l, const struct hub_name *hub, struct pick_file *files,
                                char *path, size_t cap, struct err *e)
{
    size_t n = 0, repo = strlen(hub->repo), at;
    for (size_t i = 0; i < l->n; i++) {
        const struct cached *m = &l->models[i];
        if (cached_whole(m) && strncmp(m->name, hub->repo, repo) == 0 && m->name[repo] == '/')
            files[n++] = (struct pick_file){.path = m->name + repo + 1};
    }
    if (n == 0)
        return err_set(e, ST_IO, hub->repo, "nothing of %s is in the model cache", hub->repo);
    TRY(pick_head(files, n, hub->want[0] ? hub->want : NULL, hub->repo, &at, e));
    return cli_join(path, cap, l->dir, files[at].path - repo - 1, e);
}

enum status cached_find(const char *name, char *path, size_t cap, struct err *e)
{
    struct cached_list l;
    struct hub_name hub;
    const struct cached *exact = NULL;
    TRY(cached_read(&l, e));
    struct pick_file *files = calloc(l.n + 1, sizeof *files);
    for (size_t i = 0; i < l.n && !exact; i++)
        if (strcmp(l.models[i].name, name) == 0 && cached_whole(&l.models[i]))
            exact = &l.models[i];
    enum status st;
    if (exact)
        st = cached_path(&l, exact, 1, path, cap, e);
    else if (!files)
        st = err_set(e, ST_NO_MEMORY, "", "no memory for a list of the model cache");
    else if (hub_parse(name, &hub))
        st = find_in_repo(&l, &hub, files, path, cap, e);
    else
        st = err_set(e, ST_IO, name, "there is no model %.100s in the cache", name);
    free(files);
    cached_free(&l);
    return st;
}
