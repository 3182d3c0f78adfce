/* packed_file: one file of panels by itself: who locks it meanwhile, and what a file costs that is not made. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "weights/packed.h"

#define CHUNKS 32u
#define BYTES (CHUNKS * PACKED_CHUNK)
#define CHUNK_FAULTS 512 /* of one that is written in pages of 4 KiB */

static const uint8_t key[PACKED_KEY] = "a model's key";
static char dir[64], path[96];
static struct pool *pool;

static int begin(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ffwd-packed-file-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    log_set_level(LOG_SILENT);
    return pool_new(&pool, 2, NULL) == ST_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    pool_free(pool);
    remove(path);
    return rmdir(dir);
}

/* --- locks ----------------------------------------------------------------------------------------------------------- */

/* A file of two chunks at `path`. Skips the test where there can be none. */
static void put_file(void)
{
    struct packed_file f;
    if (!packed_file_make(&f, dir, 2 * PACKED_CHUNK, true, pool))
        skip();
    assert_true(packed_file_fill(&f, dir, true, pool));
    memset(f.map, 7, f.bytes);
    assert_true(packed_file_keep(&f, path, key, pool));
    packed_file_release(&f);
}

static bool find(void)
{
    struct packed_file f;
    bool huge, found = packed_file_find(&f, path, key, 2 * PACKED_CHUNK, pool, &huge);
    packed_file_release(&f);
    return found;
}

/* Another process that looks whether the file is in use, slowly. */
struct other {
    pthread_t thread;
    int fd;
    bool removes;
};

static void *other_main(void *arg)
{
    struct other *o = arg;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    if (o->removes)
        unlink(path);
    close(o->fd);
    return NULL;
}

static bool find_beside(bool removes)
{
    struct other o = {.fd = open(path, O_RDONLY | O_CLOEXEC), .removes = removes};
    assert_int_equal(flock(o.fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(pthread_create(&o.thread, NULL, other_main, &o), 0);
    bool found = find();
    pthread_join(o.thread, NULL);
    return found;
}

static void test_locked_for_a_moment(void **state)
{
    (void)state;
    put_file();
    assert_true(find());
    assert_true(find_beside(false));
    assert_false(find_beside(true)); /* it is waited for, and then gone */
    assert_int_equal(access(path, F_OK), -1);
    put_file();
    assert_true(find());
}

/* --- huge pages or nothing ------------------------------------------------------------------------------------------- */

static long faults(void)
{
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return u.ru_minflt;
}

/* Where files get small pages, which those in memory do unless the system was told otherwise, a few chunks show it. */
static void test_small_pages_early(void **state)
{
    char never[64] = "", shm[] = "/dev/shm/ffwd-packed-file-XXXXXX";
    struct packed_file f;
    (void)state;
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    bool small = file && fgets(never, sizeof never, file) && strstr(never, "[never]");
    if (file)
        fclose(file);
    if (!small || !mkdtemp(shm))
        skip();
    long before = faults();
    bool made = packed_file_make(&f, shm, BYTES, false, pool);
    long probe = faults() - before;
    bool any = packed_file_make(&f, shm, BYTES, true, pool);
    before = faults();
    bool filled = packed_file_fill(&f, shm, false, pool);
    long some = faults() - before;
    rmdir(shm);
    assert_true(any && !made && !filled);
    assert_in_range(probe, CHUNK_FAULTS, 8 * CHUNK_FAULTS);
    assert_in_range(some, CHUNK_FAULTS, CHUNKS / 2 * CHUNK_FAULTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locked_for_a_moment),
        cmocka_unit_test(test_small_pages_early),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
