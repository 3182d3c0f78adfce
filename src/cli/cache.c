/* cache: the user's cache folder, ${XDG_CACHE_HOME:-$HOME/.cache}/ffwd. See cli.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/cli.h"

enum status cli_make_dirs(char *path, struct err *e)
{
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char saved = *p;
        *p = 0;
        int rc = mkdir(path, 0777);
        if (rc != 0 && errno != EEXIST)
            return err_errno(e, ST_IO, path, "cannot make the cache folder %s", path);
        *p = saved;
        if (!saved)
            return ST_OK;
    }
}

enum status cli_join(char *out, size_t cap, const char *dir, const char *file, struct err *e)
{
    int n = snprintf(out, cap, "%s/%s", dir, file);
    if (n < 0 || (size_t)n >= cap)
        return err_set(e, ST_ARGUMENT, "XDG_CACHE_HOME", "the path of the cache folder is too long");
    return ST_OK;
}

/* A relative XDG_CACHE_HOME is ignored, as its specification says. */
enum status cli_cache_dir(const char *sub, char *out, size_t cap, struct err *e)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char name[256];
    snprintf(name, sizeof name, "%sffwd/%s", xdg && xdg[0] == '/' ? "" : ".cache/", sub);
    if (xdg && xdg[0] == '/')
        return cli_join(out, cap, xdg, name, e);
    if (home && home[0] == '/')
        return cli_join(out, cap, home, name, e);
    return err_set(e, ST_ARGUMENT, "HOME", "neither XDG_CACHE_HOME nor HOME names a folder for the cache");
}
