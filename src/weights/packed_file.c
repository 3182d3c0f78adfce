/* packed_file: one file of panels: found and checked, or made and named. See packed.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>) /* the same hashes, 1.5 times as fast with wide vectors */
#include <xxh_x86dispatch.h>
#endif

#include "weights/packed.h"

#define MAGIC "ffwd panels\n\0\0\0"
#define VERSION 1u
#define PROBE 4u         /* chunks that show which pages a folder's files get */
#define SMALL_FAULTS 8   /* of a chunk that is not one page; 32 are usual where it is read, 512 where it is written */

/* The beginning of the file; hashes of the chunks follow, and zeros up to PACKED_CHUNK. */
struct head {
    char magic[16];
    uint32_t version, chunk; /* bytes of a chunk */
    uint8_t key[PACKED_KEY];
    uint64_t bytes;          /* mapped */
    uint64_t sum;            /* of head and hashes, counting itself as 0 */
    uint64_t hash[];
};

static uint32_t chunks_of(size_t bytes)
{
    return (uint32_t)(bytes / PACKED_CHUNK); /* their hashes fit the head */
}

static size_t head_bytes(size_t bytes)
{
    return sizeof(struct head) + chunks_of(bytes) * sizeof(uint64_t);
}

/* Bytes of the mapping; 0 when its hashes would not fit the head. */
static size_t round_up(size_t bytes)
{
    if (!bytes || bytes > (size_t)1 << 40) /* far beyond that, and no sum overflows */
        return 0;
    size_t whole = mem_round(bytes, PACKED_CHUNK);
    return head_bytes(whole) <= PACKED_CHUNK ? whole : 0;
}

size_t packed_file_bytes(size_t bytes)
{
    size_t whole = round_up(bytes);
    return whole ? PACKED_CHUNK + whole : 0;
}

static uint64_t head_sum(const struct head *h, size_t n)
{
    struct head first = *h;
    first.sum = 0;
    return XXH3_64bits_withSeed(h->hash, n - sizeof *h, XXH3_64bits(&first, sizeof first));
}

static void fill_head(struct head *h, const uint8_t key[PACKED_KEY], size_t bytes)
{
    *h = (struct head){.magic = MAGIC, .version = VERSION, .chunk = PACKED_CHUNK, .bytes = bytes};
    memcpy(h->key, key, PACKED_KEY);
}

/* --- the mapping ----------------------------------------------------------------------------------------------------- */

/* Only an address that is a multiple of a huge page can get one: more is reserved, and both ends are given back. */
static bool map(struct packed_file *f, size_t bytes, int prot)
{
    uint8_t *p = mmap(NULL, bytes + PACKED_CHUNK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    size_t before = mem_round((uintptr_t)p, PACKED_CHUNK) - (uintptr_t)p;
    void *at = mmap(p + before, bytes, prot, MAP_SHARED | MAP_FIXED, f->fd, PACKED_CHUNK);
    if (at == MAP_FAILED) {
        munmap(p, bytes + PACKED_CHUNK);
        return false;
    }
    if (before)
        munmap(p, before);
    if (before < PACKED_CHUNK)
        munmap(p + before + bytes, PACKED_CHUNK - before);
    madvise(at, bytes, MADV_HUGEPAGE);
    f->map = at;
    f->bytes = bytes;
    return true;
}

/* What a job does with each chunk. */
struct chunks {
    uint8_t *map;
    uint64_t *hash;
    uint32_t small_most; /* clearing ends with more small ones than that */
    atomic_bool failed;  /* the system did not bring one into memory */
    atomic_bool wrong;   /* one has another hash */
    atomic_uint small;   /* those that are not one huge page */
};

/* A mapping of n chunks is in huge pages if no more than these are small. */
static uint32_t small_few(uint32_t n)
{
    return n / 8;
}

static long faults(void)
{
    struct rusage u;
    return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_minflt + u.ru_majflt : 0;
}

/* Brings a chunk into this process: first, so that a disk that cannot read or write it is no signal later; and counting
 * faults, because that tells cheaply what pages it got: a huge one takes one fault, small ones take dozens. */
static void populate(struct chunks *c, uint32_t i, int advice)
{
    long before = faults();
    if (madvise(c->map + (size_t)i * PACKED_CHUNK, PACKED_CHUNK, advice) != 0)
        atomic_store(&c->failed, true);
    if (faults() - before >= SMALL_FAULTS)
        atomic_fetch_add(&c->small, 1);
}

static void clear_task(void *ctx, uint32_t i, int worker)
{
    struct chunks *c = ctx;
    (void)worker;
    if (atomic_load(&c->small) <= c->small_most)
        populate(c, i, MADV_POPULATE_WRITE);
}

static void hash_task(void *ctx, uint32_t i, int worker)
{
    struct chunks *c = ctx;
    (void)worker;
    c->hash[i] = XXH3_64bits(c->map + (size_t)i * PACKED_CHUNK, PACKED_CHUNK);
}

static void check_task(void *ctx, uint32_t i, int worker)
{
    struct chunks *c = ctx;
    (void)worker;
    if (!atomic_load(&c->failed) && !atomic_load(&c->wrong))
        populate(c, i, MADV_POPULATE_READ);
    if (!atomic_load(&c->failed) && XXH3_64bits(c->map + (size_t)i * PACKED_CHUNK, PACKED_CHUNK) != c->hash[i])
        atomic_store(&c->wrong, true);
}

void packed_file_release(struct packed_file *f)
{
    if (f->map)
        munmap(f->map, f->bytes);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct packed_file){.fd = -1};
}

/* --- finding --------------------------------------------------------------------------------------------------------- */

static bool is_trusted(int fd, struct stat *st)
{
    return fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Whether a file is what it should be. Only what is bad is removed. */
enum verdict { GOOD, BAD, UNKNOWN };

static enum verdict read_head(int fd, struct head *h, const uint8_t key[PACKED_KEY], size_t bytes)
{
    size_t n = head_bytes(bytes);
    struct head should;
    ssize_t got = pread(fd, h, n, 0);
    if (got != (ssize_t)n)
        return got < 0 ? UNKNOWN : BAD;
    fill_head(&should, key, bytes);
    should.sum = head_sum(h, n);
    return memcmp(h, &should, sizeof should) == 0 ? GOOD : BAD;
}

static enum verdict check_chunks(const struct packed_file *f, struct pool *pool, uint64_t *hash, bool *huge)
{
    struct chunks c = {.map = f->map, .hash = hash};
    uint32_t n = chunks_of(f->bytes);
    pool_run(pool, check_task, &c, n);
    *huge = atomic_load(&c.small) <= small_few(n);
    if (atomic_load(&c.wrong))
        return BAD;
    return atomic_load(&c.failed) ? UNKNOWN : GOOD;
}

static enum verdict check(struct packed_file *f, const struct stat *st, const uint8_t key[PACKED_KEY], size_t bytes,
                          struct pool *pool, bool *huge)
{
    if (st->st_size != (off_t)(PACKED_CHUNK + bytes))
        return BAD;
    struct head *h = malloc(head_bytes(bytes));
    enum verdict v = h ? read_head(f->fd, h, key, bytes) : UNKNOWN;
    if (v == GOOD)
        v = map(f, bytes, PROT_READ) ? check_chunks(f, pool, h->hash, huge) : UNKNOWN;
    free(h);
    return v;
}

/* Who looks whether a file is in use locks it for a moment (packed_dir.c), which is waited for. */
static bool lock(int fd, struct stat *st)
{
    return flock(fd, LOCK_SH) == 0 && fstat(fd, st) == 0 && st->st_nlink > 0;
}

bool packed_file_find(struct packed_file *f, const char *path, const uint8_t key[PACKED_KEY], size_t bytes,
                      struct pool *pool, bool *huge)
{
    struct stat st;
    size_t whole = round_up(bytes);
    *f = (struct packed_file){.fd = whole ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1};
    if (f->fd < 0)
        return false;
    if (!is_trusted(f->fd, &st)) {
        log_line(LOG_INFO, "%s is not used: it is another user's, or others may write to it", path);
    } else if (!lock(f->fd, &st)) {
        log_line(LOG_INFO, "%s is not used: it was removed by another process", path);
    } else {
        switch (check(f, &st, key, whole, pool, huge)) {
        case GOOD:
            futimens(f->fd, NULL); /* used now: packed_dir.c */
            return true;
        case BAD:
            log_line(LOG_INFO, "%s is damaged and is removed", path);
            unlink(path);
            break;
        case UNKNOWN:
            log_line(LOG_INFO, "%s is not used: it cannot be read into memory", path);
            break;
        }
    }
    packed_file_release(f);
    return false;
}

/* --- making ---------------------------------------------------------------------------------------------------------- */

static bool cannot(struct packed_file *f, const char *dir, const char *why)
{
    log_line(LOG_INFO, "packed weights are not kept in %s: %s", dir, why);
    packed_file_release(f);
    return false;
}

/* Space is taken before the first byte is written: a full disk could only be a signal later. */
static bool reserve(int fd, size_t size)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && size > most.rlim_cur) {
        errno = EFBIG; /* and no SIGXFSZ */
        return false;
    }
    return fallocate(fd, 0, 0, (off_t)size) == 0;
}

/* Clears chunks [0, n). NULL, or why it cannot be. */
static const char *clear(const struct packed_file *f, uint32_t n, uint32_t small_most, struct pool *pool)
{
    struct chunks c = {.map = f->map, .small_most = small_most};
    pool_run(pool, clear_task, &c, n);
    if (atomic_load(&c.failed))
        return "the system does not fill its pages";
    return atomic_load(&c.small) > small_most ? "files there are not mapped in huge pages" : NULL;
}

bool packed_file_make(struct packed_file *f, const char *dir, size_t bytes, bool small_pages, struct pool *pool)
{
    size_t whole = round_up(bytes);
    uint32_t n = chunks_of(whole) < PROBE ? chunks_of(whole) : PROBE;
    *f = (struct packed_file){.fd = -1};
    if (!whole)
        return cannot(f, dir, "they are too large");
    mkdir(dir, 0700); /* open() says whether it is there now */
    f->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (f->fd < 0 || !reserve(f->fd, (1 + n) * PACKED_CHUNK) || flock(f->fd, LOCK_SH | LOCK_NB) != 0 ||
        !map(f, whole, PROT_READ | PROT_WRITE))
        return cannot(f, dir, strerror(errno));
    const char *why = clear(f, n, small_pages ? n : n / 2, pool);
    return why ? cannot(f, dir, why) : true;
}

bool packed_file_fill(struct packed_file *f, const char *dir, bool small_pages, struct pool *pool)
{
    uint32_t n = chunks_of(f->bytes);
    if (!reserve(f->fd, PACKED_CHUNK + f->bytes))
        return cannot(f, dir, strerror(errno));
    const char *why = clear(f, n, small_pages ? n : small_few(n), pool);
    return why ? cannot(f, dir, why) : true;
}

/* What is there already was not found good, or is another process's of this very moment. */
static bool name_it(int fd, const char *path)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    unlink(path);
    return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

bool packed_file_keep(struct packed_file *f, const char *path, const uint8_t key[PACKED_KEY], struct pool *pool)
{
    size_t n = head_bytes(f->bytes);
    struct head *h = malloc(n);
    bool ok = h && mprotect(f->map, f->bytes, PROT_READ) == 0;
    if (ok) {
        fill_head(h, key, f->bytes);
        pool_run(pool, hash_task, &(struct chunks){.map = f->map, .hash = h->hash}, chunks_of(f->bytes));
        h->sum = head_sum(h, n);
        ok = pwrite(f->fd, h, n, 0) == (ssize_t)n && name_it(f->fd, path);
    }
    if (!ok)
        log_line(LOG_INFO, "packed weights are not kept as %s: %s", path, strerror(errno));
    free(h);
    return ok;
}
