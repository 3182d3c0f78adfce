/* store: see store.h. */
#include "cli/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "cli/bar.h"
#include "cli/cli.h"

#define CHUNK (1u << 18)
#define WAIT_NS 100000000L
#define ROOM_EVERY (UINT64_C(64) << 20) /* bytes after which the disk is looked at again */
#define MARGIN (UINT64_C(64) << 20) /* bytes of the disk that are left alone */

bool store_is_sha256(const char *s)
{
    size_t n = strspn(s, "0123456789abcdefABCDEF");
    return n == STORE_HEX - 1 && !s[n];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static enum status make_folder(const char *path, struct err *e)
{
    char dir[STORE_PATH];
    snprintf(dir, sizeof dir, "%.*s", (int)(base_name(path) - path - 1), path);
    return cli_make_dirs(dir, e);
}

bool store_is_still(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
           ours.st_dev == theirs.st_dev;
}

static enum status lock(struct store *s, struct err *e)
{
    while (flock(s->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(e, ST_IO, s->part, "cannot lock %s", s->part);
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, s->path, "interrupted while another process fetches %s",
                           base_name(s->path));
        cli_progress("waiting for another process that fetches %s", base_name(s->path));
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    return ST_OK;
}

enum status store_open(struct store *s, const char *path, struct err *e)
{
    *s = (struct store){.fd = -1};
    if (strlen(path) >= sizeof s->path)
        return err_set(e, ST_ARGUMENT, path, "the path of a file in the cache is too long");
    snprintf(s->path, sizeof s->path, "%s", path);
    snprintf(s->part, sizeof s->part, "%s" STORE_PART, path);
    snprintf(s->from, sizeof s->from, "%s" STORE_FROM, path);
    do {
        store_close(s, true);
        TRY(make_folder(path, e));
        s->fd = open(s->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (s->fd < 0)
            return err_errno(e, ST_IO, s->part, "cannot create %s", s->part);
        enum status st = lock(s, e);
        if (st != ST_OK) {
            store_close(s, true);
            return st;
        }
    } while (!store_is_still(s->fd, s->part));
    SHA256Init(&s->hash);
    return ST_OK;
}

void store_close(struct store *s, bool keep)
{
    if (s->fd < 0)
        return;
    if (!keep) {
        unlink(s->from);
        unlink(s->part);
    }
    close(s->fd);
    s->fd = -1;
}

/* --- filling ------------------------------------------------------------------------------------------------------ */

enum status store_restart(struct store *s, struct err *e)
{
    SHA256Init(&s->hash);
    s->size = s->room_at = 0;
    unlink(s->from);
    if (ftruncate(s->fd, 0) != 0 || lseek(s->fd, 0, SEEK_SET) != 0)
        return err_errno(e, ST_IO, s->part, "cannot empty %s", s->part);
    return ST_OK;
}

/* Hashes all that `fd` gives. */
static enum status hash_file(int fd, const char *name, SHA2_CTX *hash, uint64_t *size, struct err *e)
{
    static unsigned char data[CHUNK];
    struct stat st;
    struct bar bar;
    bar_begin(&bar, name, 0);
    uint64_t total = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    for (*size = 0;;) {
        ssize_t n = read(fd, data, sizeof data);
        if (n == 0)
            return ST_OK;
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, name, "interrupted while checking %s", name);
        if (n < 0 && errno != EINTR)
            return err_errno(e, ST_IO, name, "cannot read %s", name);
        if (n > 0) {
            SHA256Update(hash, data, (size_t)n);
            *size += (uint64_t)n;
            bar_show(&bar, *size, total);
        }
    }
}

enum status store_resume(struct store *s, const char *key, char validator[STORE_VALIDATOR], struct err *e)
{
    char line[STORE_KEY + 2] = "";
    bool same = false;
    validator[0] = '\0';
    FILE *f = fopen(s->from, "re");
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        same = strcmp(line, key) == 0;
        if (same && fgets(validator, STORE_VALIDATOR, f))
            validator[strcspn(validator, "\n")] = '\0';
    }
    if (f)
        fclose(f);
    if (!same)
        return store_restart(s, e);
    return hash_file(s->fd, base_name(s->path), &s->hash, &s->size, e);
}

enum status store_note(struct store *s, const char *key, const char *validator, struct err *e)
{
    int fd = open(s->from, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); /* the address may hold a key */
    FILE *f = fd >= 0 && fchmod(fd, 0600) == 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        enum status st = err_errno(e, ST_IO, s->from, "cannot create %s", s->from);
        if (fd >= 0)
            close(fd);
        return st;
    }
    fprintf(f, "%s\n%s\n", key, validator);
    bool bad = ferror(f);
    if (fclose(f) != 0 || bad)
        return err_errno(e, ST_IO, s->from, "cannot write %s", s->from);
    return ST_OK;
}

enum status store_room(const char *path, const char *name, uint64_t bytes, struct err *e)
{
    struct statvfs v;
    char need[BAR_BYTES], have[BAR_BYTES];
    if (statvfs(path, &v) != 0)
        return err_errno(e, ST_IO, path, "cannot see how full the disk of %s is", path);
    uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    if (free_bytes > MARGIN && bytes <= free_bytes - MARGIN)
        return ST_OK;
    return err_set(e, ST_IO, path, "%.100s needs %s more, and the disk of the cache has %s free", name,
                   bar_bytes(bytes, need), bar_bytes(free_bytes, have));
}

enum status store_write(struct store *s, const void *data, size_t n, struct err *e)
{
    const char *at = data;
    if (s->size >= s->room_at) {
        TRY(store_room(s->part, base_name(s->path), n, e));
        s->room_at = s->size + ROOM_EVERY;
    }
    SHA256Update(&s->hash, data, n);
    for (size_t left = n; left;) {
        ssize_t wrote = write(s->fd, at, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return err_errno(e, ST_IO, s->path, "cannot write %s to the cache", base_name(s->path));
        at += wrote;
        left -= (size_t)wrote;
    }
    s->size += n;
    return ST_OK;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static enum status compare(SHA2_CTX *hash, const char *name, const char *sha256, struct err *e)
{
    char hex[STORE_HEX];
    SHA256End(hash, hex);
    if (strcasecmp(hex, sha256) != 0)
        return err_set(e, ST_MODEL, name, "the file for %.80s has SHA-256 %s, expected %s", name, hex, sha256);
    return ST_OK;
}

static enum status check(struct store *s, const char *name, uint64_t bytes, const char *sha256, struct err *e)
{
    char magic[4];
    struct stat st;
    if (fstat(s->fd, &st) != 0 || (uint64_t)st.st_size != s->size)
        return err_set(e, ST_MODEL, name, "%s does not hold the %llu bytes that were written to it", s->part,
                       (unsigned long long)s->size);
    if (bytes && s->size != bytes)
        return err_set(e, ST_MODEL, name, "what was downloaded for %.80s has %llu bytes, expected %llu", name,
                       (unsigned long long)s->size, (unsigned long long)bytes);
    if (sha256)
        TRY(compare(&s->hash, name, sha256, e));
    if (pread(s->fd, magic, sizeof magic, 0) != sizeof magic || memcmp(magic, "GGUF", sizeof magic) != 0)
        return err_set(e, ST_MODEL, name, "what was downloaded for %.80s is not a GGUF file", name);
    return ST_OK;
}

/* Everything is on the disk before the name appears. */
enum status store_publish(struct store *s, const char *name, uint64_t bytes, const char *sha256, struct err *e)
{
    TRY(check(s, name, bytes, sha256, e));
    if (fsync(s->fd) != 0)
        return err_errno(e, ST_IO, s->part, "cannot write %s", s->part);
    if (rename(s->part, s->path) != 0)
        return err_errno(e, ST_IO, s->path, "cannot move the downloaded file to %s", s->path);
    unlink(s->from);
    return ST_OK;
}

enum status store_verify(const char *path, const char *name, const char *sha256, struct err *e)
{
    SHA2_CTX hash;
    uint64_t size;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ST_IO, path, "cannot open %s", path);
    SHA256Init(&hash);
    enum status st = hash_file(fd, base_name(path), &hash, &size, e);
    close(fd);
    return st == ST_OK ? compare(&hash, name, sha256, e) : st;
}
