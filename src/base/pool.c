/*
 * pool: see pool.h.
 *
 * One 64-bit word holds {generation, next task, number of tasks}. A worker takes a task by advancing that word with
 * compare-and-swap, which can only succeed while the job it looked at still has that task, so a late worker can never
 * touch the job after it. Completion counts tasks, not workers, and a worker adds what it did when it finds no more: the
 * job cannot end before that, so this too is of the job it looked at.
 *
 * Who has nothing to do spins, since the next job of a step comes within microseconds, and sleeps after a while; worker 0
 * wakes sleepers for each job. A pool with more threads than processors is different: spinning keeps the processor from
 * the worker one waits for, and waking somebody for each job takes longer than the job. There a worker spins less, and
 * then naps: nobody wakes it, and it looks by itself a little later whether there is work.
 */
#include "base/pool.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/home.h"
#include "base/limits.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#define RELAX() _mm_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

/* x86's control word: exceptions masked, round to nearest, no flush to zero, denormals kept; without its sticky flags. */
#define FP_MODE 0x1F80u
#define FP_MODE_BITS 0xFFC0u

#define TASK_BITS 20
#define TASK_MASK ((1ull << TASK_BITS) - 1)
#define SPIN_NS 60000 /* a little more than the longest gap between two jobs of one step */
#define CROWDED_SPIN_NS 20000
#define NAP_NS 2000000
#define SPINS_A_LOOK 32 /* at the clock */

struct pool {
    /* What worker 0 writes for each job and the others read, on one cache line. */
    _Alignas(64) _Atomic uint64_t work; /* generation | next << 20 | tasks */
    _Atomic(pool_fn *) fn;
    void *_Atomic ctx;
    _Atomic uint32_t generation; /* the futex word workers sleep on */
    _Atomic int stop;
    /* What the others write and worker 0 reads. */
    _Alignas(64) _Atomic uint32_t done; /* tasks of the current job that ended, and are counted */
    _Atomic uint32_t waiting;           /* worker 0 sleeps on `done` */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint64_t sleeps;            /* so far */
    uint64_t spin_ns;
    bool crowded; /* more threads than processors */
    int size;
    struct pool_worker {
        pthread_t thread;
        struct pool *pool;
        int index;
    } *workers;
};

/* Sleeps while *word is `seen`, at most `limit` if there is one. May end early. */
static void futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *limit)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Sets our floating-point mode and returns the caller's, which fp_mode_leave() brings back. */
static uint32_t fp_mode_enter(void)
{
#if defined(__x86_64__)
    uint32_t saved = _mm_getcsr();
    if ((saved & FP_MODE_BITS) != FP_MODE)
        _mm_setcsr(FP_MODE);
    return saved;
#elif defined(__aarch64__)
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(0ul));
    return (uint32_t)saved;
#else
    return 0;
#endif
}

static void fp_mode_leave(uint32_t saved)
{
#if defined(__x86_64__)
    if ((saved & FP_MODE_BITS) != FP_MODE)
        _mm_setcsr(saved);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)saved));
#else
    (void)saved;
#endif
}

void pool_set_fp_mode(void)
{
    (void)fp_mode_enter();
}

/* Runs tasks of the job that is current until it has none left. */
static void take_tasks(struct pool *p, int worker)
{
    uint32_t mine = 0;
    uint64_t w = atomic_load_explicit(&p->work, memory_order_acquire), tasks;
    for (;;) {
        uint64_t next = (w >> TASK_BITS) & TASK_MASK;
        tasks = w & TASK_MASK;
        if (next >= tasks)
            break;
        pool_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&p->work, &w, w + (1ull << TASK_BITS), memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        fn(ctx, (uint32_t)next, worker);
        mine++;
        w = atomic_load_explicit(&p->work, memory_order_acquire);
    }
    /* sequentially consistent on both sides: either this sees `waiting`, or the waiter sees the last task done */
    if (mine && atomic_fetch_add(&p->done, mine) + mine == (uint32_t)tasks && atomic_load(&p->waiting))
        futex_wake(&p->done, 1);
}

/* Waits until *word is `value`, or until it is not. False when this took longer than one may spin. */
static bool spin(const _Atomic uint32_t *word, uint32_t value, bool until_equal, uint64_t limit_ns)
{
    uint64_t began = 0;
    for (uint32_t i = 1; (atomic_load_explicit(word, memory_order_acquire) == value) != until_equal; i++) {
        RELAX();
        if (i % SPINS_A_LOOK)
            continue;
        uint64_t now = clock_ns();
        if (!began)
            began = now;
        else if (now - began > limit_ns)
            return false;
    }
    return true;
}

static void await_generation(struct pool *p, uint32_t seen)
{
    if (spin(&p->generation, seen, false, p->spin_ns))
        return;
    atomic_fetch_add_explicit(&p->sleeps, 1, memory_order_relaxed);
    if (p->crowded)
        futex_wait(&p->generation, seen, &(struct timespec){.tv_nsec = NAP_NS});
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->generation) == seen)
        futex_wait(&p->generation, seen, NULL);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void *worker_main(void *arg)
{
    struct pool_worker *w = arg;
    struct pool *p = w->pool;
    char name[16];
    snprintf(name, sizeof name, "ffwd-work-%d", w->index % 1000);
    pthread_setname_np(pthread_self(), name);
    pool_set_fp_mode();
    home_thread(home_here());
    uint32_t seen = 0;
    for (;;) {
        await_generation(p, seen);
        seen = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (atomic_load_explicit(&p->stop, memory_order_relaxed))
            return NULL;
        take_tasks(p, w->index);
    }
}

static void await_done(struct pool *p, uint32_t tasks)
{
    uint32_t done;
    if (spin(&p->done, tasks, true, p->spin_ns))
        return;
    atomic_store(&p->waiting, 1);
    atomic_fetch_add_explicit(&p->sleeps, 1, memory_order_relaxed);
    while ((done = atomic_load(&p->done)) != tasks)
        futex_wait(&p->done, done, NULL);
    atomic_store(&p->waiting, 0);
}

static void run_shared(struct pool *p, pool_fn *fn, void *ctx, uint32_t tasks)
{
    uint32_t gen = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1, others = (uint32_t)p->size - 1;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->work, (uint64_t)gen << (2 * TASK_BITS) | tasks, memory_order_release);
    atomic_store(&p->generation, gen);
    if (atomic_load(&p->sleepers))
        futex_wake(&p->generation, (int)(tasks - 1 < others ? tasks - 1 : others));
    take_tasks(p, 0);
    await_done(p, tasks);
}

void pool_run(struct pool *p, pool_fn *fn, void *ctx, uint32_t tasks)
{
    if (tasks > POOL_TASKS)
        BUG("job of %u tasks", tasks);
    uint32_t saved = fp_mode_enter();
    if (p->size == 1 || tasks <= 1)
        for (uint32_t i = 0; i < tasks; i++)
            fn(ctx, i, 0);
    else
        run_shared(p, fn, ctx, tasks);
    fp_mode_leave(saved);
}

int pool_size(const struct pool *p)
{
    return p->size;
}

uint64_t pool_sleeps(const struct pool *p)
{
    return atomic_load_explicit(&p->sleeps, memory_order_relaxed);
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->generation, 1);
    futex_wake(&p->generation, p->size);
    for (int i = 1; i < p->size; i++)
        pthread_join(p->workers[i].thread, NULL);
    free(p->workers);
    free(p);
}

enum status pool_new(struct pool **out, int threads, struct err *e)
{
    *out = NULL;
    if (threads == 0)
        threads = pool_default_threads();
    if (threads < 1 || threads > LIMIT_THREADS)
        return err_set(e, ST_ARGUMENT, "threads", "threads must be between 1 and %d", LIMIT_THREADS);
    struct pool *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
    struct pool_worker *workers = calloc((size_t)threads, sizeof *workers);
    if (!p || !workers) {
        free(p);
        free(workers);
        return err_set(e, ST_NO_MEMORY, "threads", "no memory for %d threads", threads);
    }
    memset(p, 0, sizeof *p);
    p->workers = workers;
    p->crowded = threads > home_here()->processors;
    p->spin_ns = p->crowded ? CROWDED_SPIN_NS : SPIN_NS;
    p->size = 1;
    sigset_t all, before; /* a program's signal handlers are not to run on compute threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    for (int i = 1; i < threads && !rc; i++) {
        workers[i] = (struct pool_worker){.pool = p, .index = i};
        rc = pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
        if (!rc)
            p->size = i + 1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        int started = p->size;
        pool_free(p);
        errno = rc;
        return err_errno(e, ST_NO_MEMORY, "threads", "cannot start thread %d of %d", started + 1, threads);
    }
    *out = p;
    return ST_OK;
}

int pool_default_threads(void)
{
    int cores = home_here()->cores, quota = cgroup_cpus();
    if (quota && quota < cores)
        cores = quota;
    return cores > LIMIT_THREADS ? LIMIT_THREADS : cores;
}
