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
#define SMALL_FAULTS 8 /* of a chunk that is not one page; 32 are usual where it is read, 512 where it is written */

/* The beginning of the file; hashes of the chunks follow, and zeros up to PACKED_CHUNK. */
struct head {
    char magic[16];
    uint32_t version, chunk; /* bytes of a chunk */
    uint8_t key[PACKED_KEY];
    uint64_t bytes;          /* mapped */
    uint64_t sum;            /* of head and hashes, counting itself as 0 */
    uint64_t hash[];
};

static size_t chunks_of(size_t bytes)
{
    return bytes / PACKED_CHUNK;
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
    atomic_bool failed;
    atomic_uint small; /* chunks that are not one huge page */
};

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
    (void)worker;
    populate(ctx, i, MADV_POPULATE_WRITE);
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
    if (!atomic_load(&c->failed))
        populate(c, i, MADV_POPULATE_READ);
    if (!atomic_load(&c->failed) && XXH3_64bits(c->map + (size_t)i * PACKED_CHUNK, PACKED_CHUNK) != c->hash[i])
        atomic_store(&c->failed, true);
}

/* False when a chunk failed. *huge: the mapping is in huge pages, all but a few. */
static bool each_chunk(const struct packed_file *f, struct pool *pool, pool_fn *fn, uint64_t *hash, bool *huge)
{
    struct chunks c = {.map = f->map, .hash = hash};
    uint32_t n = (uint32_t)chunks_of(f->bytes);
    pool_run(pool, fn, &c, n);
    *huge = atomic_load(&c.small) <= n / 8;
    return !atomic_load(&c.failed);
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

/* The head, which the caller frees, where it is what it should be. */
static struct head *read_head(int fd, const uint8_t key[PACKED_KEY], size_t bytes)
{
    size_t n = head_bytes(bytes);
    struct head *h = malloc(n), should;
    if (!h || pread(fd, h, n, 0) != (ssize_t)n) {
        free(h);
        return NULL;
    }
    fill_head(&should, key, bytes);
    should.sum = head_sum(h, n);
    if (memcmp(h, &should, sizeof should) == 0)
        return h;
    free(h);
    return NULL;
}

static bool is_whole(struct packed_file *f, const struct stat *st, const uint8_t key[PACKED_KEY], size_t bytes,
                     struct pool *pool, bool *huge)
{
    if (st->st_size != (off_t)(PACKED_CHUNK + bytes))
        return false;
    struct head *h = read_head(f->fd, key, bytes);
    bool ok = h && map(f, bytes, PROT_READ) && each_chunk(f, pool, check_task, h->hash, huge);
    free(h);
    return ok;
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
    } else if (flock(f->fd, LOCK_SH | LOCK_NB) != 0) {
        log_line(LOG_INFO, "%s is not used: another process is about to remove it", path);
    } else if (!is_whole(f, &st, key, whole, pool, huge)) {
        log_line(LOG_INFO, "%s is damaged and is removed", path);
        unlink(path);
    } else {
        futimens(f->fd, NULL); /* used now: packed_dir.c */
        return true;
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

bool packed_file_make(struct packed_file *f, const char *dir, size_t bytes, bool small_pages, struct pool *pool)
{
    bool huge;
    size_t whole = round_up(bytes);
    *f = (struct packed_file){.fd = -1};
    if (!whole)
        return cannot(f, dir, "they are too large");
    f->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (f->fd < 0 || !reserve(f->fd, PACKED_CHUNK + whole) || flock(f->fd, LOCK_SH | LOCK_NB) != 0 ||
        !map(f, whole, PROT_READ | PROT_WRITE))
        return cannot(f, dir, strerror(errno));
    if (!each_chunk(f, pool, clear_task, NULL, &huge))
        return cannot(f, dir, "the system does not fill its pages");
    if (!small_pages && !huge)
        return cannot(f, dir, "files there are not mapped in huge pages");
    return true;
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
    bool huge, ok = h && mprotect(f->map, f->bytes, PROT_READ) == 0;
    if (ok) {
        fill_head(h, key, f->bytes);
        each_chunk(f, pool, hash_task, h->hash, &huge);
        h->sum = head_sum(h, n);
        ok = pwrite(f->fd, h, n, 0) == (ssize_t)n && name_it(f->fd, path);
    }
    if (!ok)
        log_line(LOG_INFO, "packed weights are not kept as %s: %s", path, strerror(errno));
    free(h);
    return ok;
}
