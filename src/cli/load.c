/* load: from what -m says to an open model; and reading whole files. See cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cached.h"
#include "cli/package.h"

/* A path wins over a known name and over one of the cache, so that a file called like a model can be used. */
enum status cli_model_path(const char *model, char *path, size_t cap, struct err *e)
{
    const char *name = model ? model : CLI_DEFAULT_MODEL;
    struct stat sb;
    bool exists = model && stat(name, &sb) == 0;
    if (!exists && package_find(name))
        return package_fetch(name, false, path, cap, e);
    bool cache = !exists && cli_cache_dir("models", path, cap, NULL) == ST_OK; /* without HOME nothing is cached */
    enum status cached = cache ? cached_find(name, path, cap, e) : ST_IO;
    if (cached == ST_OK || cached == ST_ARGUMENT) /* there, or it has to be said which of several */
        return cached;
    if (strlen(name) >= cap)
        return err_set(e, ST_ARGUMENT, "-m", "-m: the path has more than %zu bytes", cap - 1);
    if (!exists && !strchr(name, '/') && !strchr(name, '.'))
        return err_set(e, ST_IO, name, "%s: there is no such file, nor a model of that name that can be fetched", name);
    memcpy(path, name, strlen(name) + 1);
    return ST_OK;
}

struct progress {
    const char *path;
    double next; /* when the line is worth a change */
};

static void show_progress(void *ctx, size_t done, size_t total)
{
    struct progress *p = ctx;
    double now = cli_seconds();
    if (now < p->next || total == 0)
        return;
    p->next = now + 0.1;
    cli_progress("loading %s: %d %%", p->path, (int)(100.0 * (double)done / (double)total));
}

/* "off", or a ceiling in bytes: *on and *most. */
static enum status packed_wish(bool *on, uint64_t *most, struct err *e)
{
    const char *wish = getenv("FFWD_PACKED_CACHE");
    char *end;
    *on = true;
    *most = 0;
    if (!wish || !*wish)
        return ST_OK;
    *on = strcmp(wish, "off") != 0;
    if (!*on)
        return ST_OK;
    errno = 0;
    *most = strtoull(wish, &end, 10);
    if (*wish < '0' || *wish > '9' || *end || errno || !*most)
        return err_set(e, ST_ARGUMENT, "FFWD_PACKED_CACHE",
                       "FFWD_PACKED_CACHE must be 'off' or a number of bytes, not '%.40s'", wish);
    return ST_OK;
}

/* Where packed weights are kept; dir is NULL where there is no folder for them. */
static enum status packed_store(struct packed_store *store, char dir[PATH_MAX], struct err *e)
{
    bool on;
    TRY(packed_wish(&on, &store->most, e));
    if (on && cli_cache_dir("", dir, PATH_MAX, NULL) == ST_OK && cli_make_dirs(dir, NULL) == ST_OK &&
        cli_cache_dir("packed", dir, PATH_MAX, NULL) == ST_OK)
        store->dir = dir;
    return ST_OK;
}

enum status cli_load(struct api_model *out, const char *model, uint32_t threads, unsigned want, bool fresh,
                     struct err *e)
{
    char path[PATH_MAX], packed[PATH_MAX];
    struct packed_store store = {0};
    *out = (struct api_model){0};
    TRY(cli_model_path(model, path, sizeof path, e));
    if ((want & API_MODEL) && !fresh)
        TRY(packed_store(&store, packed, e));
    const char *slash = strrchr(path, '/');
    struct progress p = {.path = slash ? slash + 1 : path, .next = cli_seconds() + 0.3};
    struct api_open o = {.path = path,
                         .want = want,
                         .threads = threads,
                         .store = &store,
                         .progress = show_progress,
                         .progress_ctx = &p};
    enum status st = api_open(out, &o, e);
    cli_progress("%s", "");
    return st;
}

const char *cli_panels(enum packed_origin origin)
{
    switch (origin) {
    case PACKED_FOUND: return "found";
    case PACKED_KEPT: return "kept";
    default: return "packed";
    }
}

/* All that `fd` still gives. */
static enum status read_all(int fd, const char *name, struct buf *out, struct err *e)
{
    char piece[32 << 10];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n == 0)
            return ST_OK;
        if (n < 0 && errno == EINTR && !cli_interrupted())
            continue;
        if (n < 0)
            return err_errno(e, ST_IO, name, "%s: cannot read", name);
        if ((size_t)n > out->limit - out->len)
            return err_set(e, ST_TOO_LONG, name, "%s: more than %zu bytes", name, out->limit);
        if (!buf_add(out, piece, (size_t)n))
            return err_set(e, ST_NO_MEMORY, name, "%s: no memory", name);
    }
}

enum status cli_read(const char *path, size_t limit, struct buf *out, struct err *e)
{
    const char *name = path ? path : "stdin";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    buf_init(out, limit);
    if (fd < 0)
        return err_errno(e, ST_IO, name, "%s: cannot open", name);
    enum status st = read_all(fd, name, out, e);
    if (path)
        close(fd);
    if (st == ST_OK && !buf_adds(out, "")) /* so that an empty text is "" and not NULL */
        st = err_set(e, ST_NO_MEMORY, name, "%s: no memory", name);
    if (st != ST_OK)
        buf_release(out);
    return st;
}
