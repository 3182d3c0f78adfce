/* base: ceilings hold, errors are sentences, draws are a pure function, jobs run every task once. */
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <errno.h>

#include <cmocka.h>

#include "base/base.h"

/* ---- err ---- */

static void err_fills_and_returns(void **state)
{
    (void)state;
    struct err e = {.retry_after = 9};
    assert_int_equal(err_set(&e, ST_ARGUMENT, "top_p", "top_p must be in (0, 1], not %d", 7), ST_ARGUMENT);
    assert_int_equal(e.code, ST_ARGUMENT);
    assert_string_equal(e.field, "top_p");
    assert_string_equal(e.text, "top_p must be in (0, 1], not 7");
    assert_int_equal(e.retry_after, 0);
    assert_int_equal(err_set(NULL, ST_IO, "x", "y"), ST_IO);
    assert_int_equal(err_set(&e, ST_IO, NULL, "y"), ST_IO);
    assert_string_equal(e.field, "");
}

static void err_appends_errno(void **state)
{
    (void)state;
    struct err e;
    errno = ENOENT;
    assert_int_equal(err_errno(&e, ST_IO, "f.gguf", "cannot open %s", "f.gguf"), ST_IO);
    assert_string_equal(e.text, "cannot open f.gguf: No such file or directory");
}

/* A text cut by the buffer never ends inside a character. */
static void err_cuts_between_characters(void **state)
{
    (void)state;
    struct err e;
    char longer[2 * ERR_TEXT];
    for (int shift = 0; shift < 4; shift++) {
        memset(longer, 'a', sizeof longer);
        longer[sizeof longer - 1] = 0;
        for (size_t i = (size_t)shift; i + 4 < sizeof longer; i += 4)
            memcpy(longer + i, "\xF0\x9F\x98\x80", 4);
        err_set(&e, ST_ARGUMENT, longer, "%s", longer);
        size_t text = strlen(e.text), field = strlen(e.field);
        assert_true(text < ERR_TEXT && text > ERR_TEXT - 6);
        assert_int_equal((text - (size_t)shift) % 4, 0);
        assert_int_equal((field - (size_t)shift) % 4, 0);
    }
    err_set(&e, ST_ARGUMENT, "", "%s", "caf\xC3\xA9");
    assert_string_equal(e.text, "caf\xC3\xA9");
}

static void status_names_are_distinct(void **state)
{
    (void)state;
    for (int i = 0; i < ST_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(status_name((enum status)i), status_name((enum status)j));
    assert_string_equal(status_name(ST_COUNT), "unknown");
}

static void bug_aborts(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        fclose(stderr);
        BUG("on purpose");
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- buf ---- */

static void buf_grows_to_its_limit(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_true(buf_adds(&b, "12345"));
    assert_true(buf_addf(&b, "%d", 678));
    assert_string_equal(b.data, "12345678");
    assert_false(buf_adds(&b, "90x"));
    assert_string_equal(b.data, "12345678");
    assert_false(buf_adds(&b, "9")); /* would fit, but a failure stays */
    buf_clear(&b);
    assert_false(b.failed);
    assert_true(buf_adds(&b, "1234567890"));
    assert_int_equal(b.len, 10);
    assert_null(buf_reserve(&b, SIZE_MAX));
    buf_release(&b);
    assert_null(b.data);
}

static void buf_prints_into_its_room(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 80);
    assert_true(buf_addf(&b, "%060d", 1));
    const size_t cap = b.cap;
    assert_true(buf_addf(&b, "%s", "ab")); /* there is room */
    assert_int_equal(b.cap, cap);
    assert_true(buf_addf(&b, "%s", "cdefghij")); /* there is not, yet */
    assert_int_equal(b.len, 70);
    assert_string_equal(b.data + 58, "01abcdefghij");
    assert_false(buf_addf(&b, "%011d", 2));
    assert_string_equal(b.data + 58, "01abcdefghij");
    buf_release(&b);
}

static void buf_reserve_and_drop(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        char *p = buf_reserve(&b, 3);
        assert_non_null(p);
        memcpy(p, "abc", 3);
        b.len += 3;
        b.data[b.len] = 0;
    }
    assert_int_equal(b.len, 3000);
    buf_drop(&b, 2998);
    assert_string_equal(b.data, "bc");
    buf_drop(&b, 5);
    assert_int_equal(b.len, 0);
    buf_drop(&b, 1);
    assert_true(buf_add(&b, NULL, 0));
    buf_release(&b);
}

/* ---- arena ---- */

static void arena_is_bounded_aligned_and_zero(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 20);
    size_t got = 0;
    for (char *p; (p = arena_try(&a, 100)); got++) {
        assert_int_equal((uintptr_t)p % 64, 0);
        for (int i = 0; i < 100; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAB, 100);
    }
    assert_int_equal(got, (1 << 20) / 128);
    assert_null(arena_try(&a, 1));
    assert_null(arena_try(&a, SIZE_MAX));
    assert_null(arena_try(&a, SIZE_MAX - 64));
    arena_clear(&a);
    assert_int_equal(a.used, 0);
    char *p = arena_try(&a, 100);
    assert_non_null(p);
    assert_int_equal(p[0], 0);
    assert_string_equal(arena_copy(&a, "hello, world", 5), "hello");
    assert_string_equal(arena_copy(&a, NULL, 0), "");
    arena_release(&a);
    arena_release(&a);
}

static void arena_serves_large_pieces(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 64 << 20);
    for (size_t size = 1; size < (16u << 20); size *= 3) {
        char *p = arena_alloc(&a, size);
        p[0] = p[size - 1] = 1;
    }
    arena_release(&a);
}

/* ---- mem ---- */

static void mem_maps_and_forgets(void **state)
{
    (void)state;
    size_t n = 8u << 20;
    unsigned char *p = mem_map(n);
    assert_non_null(p);
    memset(p, 7, n);
    uint64_t before = mem_resident();
    mem_forget(p + 1, n - 2); /* whole pages inside only */
    assert_int_equal(p[0], 7);
    assert_int_equal(p[n - 1], 7);
    assert_int_equal(p[n / 2], 0);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(mem_resident() + (4u << 20) < before);
#endif
    assert_true(mem_peak() >= before / 2);
    assert_true(mem_available() > 0);
    mem_unmap(p, n);
    mem_unmap(NULL, 5);
    assert_null(mem_map(0));
    assert_null(mem_map(SIZE_MAX));
}

/* What is mapped and read cannot be had, though the system counts it as page cache. Other programs move the figure, too. */
static void mem_available_knows_mapped_files(void **state)
{
    (void)state;
    const size_t n = 256u << 20;
    bool seen = false;
    FILE *f = tmpfile();
    assert_true(f && ftruncate(fileno(f), (off_t)n) == 0);
    for (int i = 0; i < 5 && !seen; i++) {
        const volatile char *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fileno(f), 0);
        assert_true(p != MAP_FAILED);
        uint64_t before = mem_available();
        for (size_t at = 0; at < n; at += 4096)
            assert_int_equal(p[at], 0);
        uint64_t within = mem_available();
        munmap((void *)p, n);
        seen = within + n / 2 < before && within + n / 2 < mem_available();
    }
    assert_true(seen);
    fclose(f);
}

#if !defined(__SANITIZE_ADDRESS__) /* whose allocator and shadow have pages of their own */
/* Whether the system gives huge pages to those who ask. */
static bool has_huge_pages(void)
{
    char modes[128] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (f && !fgets(modes, sizeof modes, f))
        modes[0] = 0;
    if (f)
        fclose(f);
    return strchr(modes, '[') && !strstr(modes, "[never]") && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0;
}

static void mem_gets_huge_pages(void **state)
{
    (void)state;
    const size_t huge = 2u << 20, n = 8 * huge + 12345;
    uint64_t before = mem_huge();
    char *p = mem_map(n), *sparse = mem_map_sparse(n);
    assert_non_null(p);
    assert_non_null(sparse);
    assert_int_equal((uintptr_t)p % huge, 0);
    p[n - 1] = sparse[n - 1] = 1; /* the last byte belongs to it, where it was cut */
    for (size_t i = 0; i < n; i += huge)
        sparse[i] = 1;
    assert_true(mem_huge() < before + 4 * huge); /* the kernel may make some anywhere at any time */
    memset(p, 1, n);
    if (has_huge_pages())
        assert_true(mem_huge() > before);
    else
        assert_int_equal(mem_huge(), 0);
    mem_unmap(p, n);
    mem_unmap(sparse, n);
}
#endif

static void mem_sums_saturate(void **state)
{
    (void)state;
    assert_int_equal(mem_mul(3, 5), 15);
    assert_true(mem_mul(SIZE_MAX / 2, 3) == SIZE_MAX);
    assert_int_equal(mem_add(3, 5), 8);
    assert_true(mem_add(SIZE_MAX, 1) == SIZE_MAX);
    assert_int_equal(mem_round(65, 64), 128);
    assert_int_equal(mem_round(64, 64), 64);
}

/* ---- rng ---- */

/* Known answers of Philox4x32-10 from the authors' Random123 distribution. */
static void rng_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, lo, hi;
        uint32_t out[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        rng_philox(cases[i].key, cases[i].lo, cases[i].hi, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void rng_uniform_is_uniform(void **state)
{
    (void)state;
    int bins[16] = {0};
    for (uint32_t i = 0; i < 160000; i++) {
        float u = rng_uniform(42, 0, i, RNG_FINAL);
        assert_true(u >= 0 && u < 1);
        bins[(int)(u * 16)]++;
    }
    for (int i = 0; i < 16; i++)
        assert_true(bins[i] > 9600 && bins[i] < 10400); /* 4 standard deviations */
    assert_true(rng_uniform(1, 2, 3, RNG_FINAL) == rng_uniform(1, 2, 3, RNG_FINAL));
    assert_true(rng_uniform(1, 2, 3, RNG_FINAL) != rng_uniform(1, 2, 3, RNG_XTC));
    assert_true(rng_uniform(1, 2, 3, RNG_FINAL) != rng_uniform(1, 3, 2, RNG_FINAL));
}

/* ---- clock, log ---- */

static void clock_moves_forward(void **state)
{
    (void)state;
    uint64_t a = clock_ns();
    double s = clock_seconds();
    usleep(2000);
    assert_true(clock_ns() - a >= 2000000);
    assert_true(clock_seconds() - s >= 0.002);
    assert_true(clock_unix() > 1700000000);
}

static void log_writes_whole_lines(void **state)
{
    (void)state;
    FILE *old = stderr, *f = tmpfile();
    enum log_level level = log_level();
    assert_non_null(f);
    stderr = f;
    log_set_level(LOG_INFO);
    log_line(LOG_INFO, "seen %d", 1);
    log_line(LOG_DEBUG, "not seen");
    log_line(LOG_INFO, "%0*d", 5000, 7);
    log_set_level(LOG_SILENT);
    log_line(LOG_ERROR, "not seen");
    stderr = old;
    log_set_level(level);
    rewind(f);
    char line[8192];
    assert_non_null(fgets(line, sizeof line, f));
    assert_non_null(strstr(line, "Z seen 1\n"));
    assert_non_null(fgets(line, sizeof line, f));
    assert_true(strlen(line) <= 1024 && line[strlen(line) - 1] == '\n');
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
}

/* ---- pool ---- */

struct job {
    _Atomic uint32_t runs[1000];
    _Atomic uint32_t bad_worker, bad_mode;
    int size;
};

static void job_task(void *ctx, uint32_t task, int worker)
{
    struct job *j = ctx;
    atomic_fetch_add(&j->runs[task], 1);
    if (worker < 0 || worker >= j->size)
        atomic_fetch_add(&j->bad_worker, 1);
    volatile float tiny = 0x1p-126f;
    if (fegetround() != FE_TONEAREST || tiny * 0.5f == 0.0f)
        atomic_fetch_add(&j->bad_mode, 1);
}

static void pool_runs_every_task_once(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 8};
    static struct job j;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct pool *p;
        struct err e;
        assert_int_equal(pool_new(&p, sizes[s], &e), ST_OK);
        assert_int_equal(pool_size(p), sizes[s]);
        for (uint32_t round = 0; round < 300; round++) {
            uint32_t tasks = round * 7 % 1000;
            memset(&j, 0, sizeof j);
            j.size = sizes[s];
            pool_run(p, job_task, &j, tasks);
            for (uint32_t i = 0; i < 1000; i++)
                assert_int_equal(j.runs[i], i < tasks);
            assert_int_equal(j.bad_worker, 0);
            assert_int_equal(j.bad_mode, 0);
            if (round % 100 == 99)
                usleep(1000); /* long enough for the workers to fall asleep */
        }
        pool_free(p);
    }
    pool_free(NULL);
}

static void sum_task(void *ctx, uint32_t task, int worker)
{
    (void)worker;
    atomic_fetch_add((_Atomic uint64_t *)ctx, task + 1);
}

/* Many short jobs without a pause: a late worker must never touch the job after its own. */
static void pool_survives_short_jobs(void **state)
{
    (void)state;
    struct pool *p;
    struct err e;
    assert_int_equal(pool_new(&p, 4, &e), ST_OK);
    _Atomic uint64_t sum = 0;
    uint64_t expected = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t n = i % 6;
        pool_run(p, sum_task, &sum, n);
        expected += (uint64_t)n * (n + 1) / 2;
        assert_int_equal(sum, expected);
    }
    pool_free(p);
}

/* The first task lasts until all others have ended: whoever holds one is the only one that is waited for. */
struct held {
    _Atomic uint32_t ended;
    uint32_t others;
};

static void held_task(void *ctx, uint32_t task, int worker)
{
    struct held *h = ctx;
    (void)worker;
    while (task == 0 && h->ended < h->others)
        usleep(100);
    if (task)
        h->ended++;
}

static void pool_goes_on_while_a_task_is_held(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 5; threads++) {
        struct pool *p;
        struct err e;
        assert_int_equal(pool_new(&p, threads, &e), ST_OK);
        for (uint32_t others = 1; others < 60; others += 7) {
            struct held h = {.others = others};
            if (others % 2)
                usleep(1000); /* from sleep, too */
            pool_run(p, held_task, &h, others + 1);
            assert_int_equal(h.ended, others);
        }
        assert_true(pool_sleeps(p) > 0);
        pool_free(p);
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Threads without work sleep, of a pool with more threads than processors too. */
static void pool_sleeps_when_idle(void **state)
{
    (void)state;
    struct pool *p, *crowded;
    struct err e;
    _Atomic uint64_t sum = 0;
    assert_int_equal(pool_new(&p, 2, &e), ST_OK);
    assert_int_equal(pool_new(&crowded, 2 * home_here()->processors < 64 ? 2 * home_here()->processors : 64, &e), ST_OK);
    pool_run(p, sum_task, &sum, 100);
    pool_run(crowded, sum_task, &sum, 100);
    usleep(100000);
    uint64_t sleeps = pool_sleeps(p) + pool_sleeps(crowded);
    double before = cpu_seconds();
    usleep(300000);
    assert_true(cpu_seconds() - before < 0.1);
    assert_int_equal(pool_sleeps(p) + pool_sleeps(crowded), sleeps);
    pool_free(p);
    pool_free(crowded);
}

static void short_task(void *ctx, uint32_t task, int worker)
{
    (void)ctx, (void)task, (void)worker;
    for (volatile int i = 0; i < 5000; i++)
        ;
}

/* Seconds of many short jobs on as many threads, all on the one processor that the caller is kept to. */
static double seconds_on_one_processor(int threads)
{
    struct pool *p;
    struct err e;
    assert_int_equal(pool_new(&p, threads, &e), ST_OK);
    double t = clock_seconds();
    for (int i = 0; i < 1000; i++)
        pool_run(p, short_task, NULL, 4);
    t = clock_seconds() - t;
    pool_free(p);
    return t;
}

/* Threads that waited for each other's turns would need a time slice for each job: a hundred times as long. */
static void pool_does_not_collapse_on_one_processor(void **state)
{
    (void)state;
    struct cpus before, one = {0};
    const int most = 4 * home_here()->processors;
    assert_int_equal(sched_getaffinity(0, sizeof before, before.set), 0);
    int cpu = sched_getcpu();
    assert_true(cpu >= 0);
    CPU_SET_S((size_t)cpu, sizeof one, one.set);
    assert_int_equal(sched_setaffinity(0, sizeof one, one.set), 0);
    double alone = seconds_on_one_processor(1);
    assert_true(seconds_on_one_processor(2) < 15 * alone + 0.2);
    assert_true(seconds_on_one_processor(most < 64 ? most : 64) < 15 * alone + 0.2);
    assert_int_equal(sched_setaffinity(0, sizeof before, before.set), 0);
}

static void pool_refuses_odd_sizes(void **state)
{
    (void)state;
    struct pool *p;
    struct err e;
    assert_int_equal(pool_new(&p, -1, &e), ST_ARGUMENT);
    assert_null(p);
    assert_int_equal(pool_new(&p, LIMIT_THREADS + 1, &e), ST_ARGUMENT);
    assert_string_equal(e.field, "threads");
    assert_true(pool_default_threads() >= 1 && pool_default_threads() <= LIMIT_THREADS);
    assert_int_equal(pool_new(&p, 0, &e), ST_OK);
    assert_int_equal(pool_size(p), pool_default_threads());
    pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_fills_and_returns),
        cmocka_unit_test(err_appends_errno),
        cmocka_unit_test(err_cuts_between_characters),
        cmocka_unit_test(status_names_are_distinct),
        cmocka_unit_test(bug_aborts),
        cmocka_unit_test(buf_grows_to_its_limit),
        cmocka_unit_test(buf_prints_into_its_room),
        cmocka_unit_test(buf_reserve_and_drop),
        cmocka_unit_test(arena_is_bounded_aligned_and_zero),
        cmocka_unit_test(arena_serves_large_pieces),
        cmocka_unit_test(mem_maps_and_forgets),
        cmocka_unit_test(mem_available_knows_mapped_files),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(mem_gets_huge_pages),
#endif
        cmocka_unit_test(mem_sums_saturate),
        cmocka_unit_test(rng_known_answers),
        cmocka_unit_test(rng_uniform_is_uniform),
        cmocka_unit_test(clock_moves_forward),
        cmocka_unit_test(log_writes_whole_lines),
        cmocka_unit_test(pool_runs_every_task_once),
        cmocka_unit_test(pool_survives_short_jobs),
        cmocka_unit_test(pool_goes_on_while_a_task_is_held),
        cmocka_unit_test(pool_sleeps_when_idle),
        cmocka_unit_test(pool_does_not_collapse_on_one_processor),
        cmocka_unit_test(pool_refuses_odd_sizes),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
