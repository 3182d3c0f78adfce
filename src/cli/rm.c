/* rm: removes models from the cache. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/bar.h"
#include "cli/cached.h"
#include "cli/cli.h"
#include "cli/package.h"
#include "cli/store.h"

#define PATH_CAP (STORE_PATH + 16)

struct options {
    bool yes;
    struct opt_list names;
};

static const struct opt opts[] = {
    {NULL, 0, OPT_LIST, offsetof(struct options, names), 0, 0, "NAME", "a model as `ffwd ls` names it, or a known name"},
    {"yes", 'y', OPT_FLAG, offsetof(struct options, yes), 0, 0, NULL, "do not ask"},
};
static const struct opt_verb verb = {
    "rm",
    "Removes models from the cache: all parts, and what unfinished downloads left of them. Asks first, on a terminal; "
    "elsewhere --yes is needed.",
    "[--yes] NAME...", opts, sizeof opts / sizeof *opts};

/* --- removing --------------------------------------------------------------------------------------------------------- */

/* Takes the lock that a download of the file at `path` would hold (store.h). *fd is -1 where nothing was left of one. */
static enum status lock(const char *path, int *fd, struct err *e)
{
    char part[PATH_CAP];
    snprintf(part, sizeof part, "%s" STORE_PART, path);
    *fd = open(part, O_RDWR | O_CLOEXEC);
    if (*fd < 0)
        return errno == ENOENT ? ST_OK : err_errno(e, ST_IO, part, "cannot open %s", part);
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return ST_OK;
    return errno == EWOULDBLOCK ? err_set(e, ST_BUSY, path, "%s is being fetched by another process", path)
                                : err_errno(e, ST_IO, part, "cannot lock %s", part);
}

static enum status remove_file(const char *path, struct err *e)
{
    return unlink(path) == 0 || errno == ENOENT ? ST_OK : err_errno(e, ST_IO, path, "cannot remove %s", path);
}

/* A file of a model, with what a download left beside it. */
static enum status remove_part(const char *path, struct err *e)
{
    char beside[PATH_CAP];
    snprintf(beside, sizeof beside, "%s" STORE_PART, path);
    TRY(remove_file(path, e));
    TRY(remove_file(beside, e));
    snprintf(beside, sizeof beside, "%s" STORE_FROM, path);
    return remove_file(beside, e);
}

/* Folders that held nothing else go, too, up to the cache folder itself. */
static void remove_folders(const char *dir, char *path)
{
    size_t root = strlen(dir);
    for (char *up = dirname(path); strlen(up) > root && rmdir(up) == 0;)
        up = dirname(up);
}

/* All or nothing: what is being fetched is found out before the first file goes. */
static enum status remove_model(const struct cached_list *l, const struct cached *m, struct err *e)
{
    char path[STORE_PATH];
    int locks[LIMIT_SPLITS];
    uint32_t no, locked = 0;
    enum status st = ST_OK;
    for (no = 1; no <= m->of && st == ST_OK; no++) {
        st = cached_path(l, m, no, path, sizeof path, e);
        if (st == ST_OK)
            st = lock(path, &locks[locked++], e);
    }
    for (no = 1; no <= m->of && st == ST_OK; no++) {
        st = cached_path(l, m, no, path, sizeof path, e);
        if (st == ST_OK)
            st = remove_part(path, e);
    }
    while (locked--)
        if (locks[locked] >= 0)
            close(locks[locked]);
    if (st == ST_OK)
        remove_folders(l->dir, path);
    return st;
}

/* --- which ------------------------------------------------------------------------------------------------------------ */

static enum status find(const struct cached_list *l, const char *name, const struct cached **out, struct err *e)
{
    const struct package_model *known = package_find(name);
    for (size_t i = 0; i < l->n; i++) {
        *out = &l->models[i];
        if (strcmp((*out)->name, name) == 0 || (known && strcmp((*out)->name, known->file) == 0))
            return ST_OK;
    }
    return err_set(e, ST_ARGUMENT, "name", "there is no model %.100s in the cache; `ffwd ls` lists them", name);
}

/* Asks on the terminal; whatever is not yes is no. */
static bool agreed(const struct cached *m)
{
    char size[BAR_BYTES], answer[16] = "";
    fprintf(stderr, "remove %s (%s)? [y/N] ", m->name, bar_bytes(m->bytes, size));
    if (!fgets(answer, sizeof answer, stdin))
        return false;
    answer[strcspn(answer, "\n")] = '\0';
    return strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0;
}

/* All names are looked up before anything is removed. */
static enum status remove_all(const struct cached_list *l, const struct options *o, struct err *e)
{
    const struct cached *found[LIMIT_STOPS];
    for (uint32_t i = 0; i < o->names.n; i++)
        TRY(find(l, o->names.item[i], &found[i], e));
    for (uint32_t i = 0; i < o->names.n; i++) {
        if (!o->yes && !agreed(found[i]))
            continue;
        TRY(remove_model(l, found[i], e));
        printf("removed %s\n", found[i]->name);
    }
    return ST_OK;
}

int verb_rm(int argc, char **argv)
{
    struct options o = {0};
    struct cached_list l;
    struct err e = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (o.names.n == 0)
        return opt_wrong(&verb, "NAME is missing");
    if (!o.yes && !isatty(STDIN_FILENO))
        return opt_wrong(&verb, "there is no terminal to ask on; --yes removes without asking");
    if (cached_read(&l, &e) != ST_OK)
        return cli_fail(&e);
    status = remove_all(&l, &o, &e) == ST_OK ? cli_flush() : cli_fail(&e);
    cached_free(&l);
    return status;
}
