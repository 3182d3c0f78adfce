/* barrier: what handing a job to the pool and waiting for its end costs. Figures for people; nothing here can fail. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define SERIES 41u
#define TASK_US 5.0
#define TASKS_EACH 8u

static uint32_t rounds; /* of busy(), so that it takes TASK_US by itself */

static void nothing(void *ctx, uint32_t task, int worker)
{
    (void)ctx, (void)task, (void)worker;
}

static void busy(void *ctx, uint32_t task, int worker)
{
    (void)ctx, (void)task, (void)worker;
    for (volatile uint32_t i = 0; i < rounds; i++)
        ;
}

static void calibrate(void)
{
    double best = 1e9;
    rounds = 100000;
    for (int i = 0; i < 20; i++) {
        double t = clock_seconds();
        busy(NULL, 0, 0);
        t = clock_seconds() - t;
        best = t < best ? t : best;
    }
    rounds = (uint32_t)(rounds * TASK_US * 1e-6 / best);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Microseconds of one job: the median of series of `jobs` jobs, `pause_us` before each series. */
static double job_us(struct pool *p, pool_fn *fn, uint32_t tasks, uint32_t jobs, unsigned pause_us)
{
    double us[SERIES];
    for (uint32_t s = 0; s < SERIES; s++) {
        if (pause_us)
            usleep(pause_us);
        uint64_t t = clock_ns();
        for (uint32_t i = 0; i < jobs; i++)
            pool_run(p, fn, NULL, tasks);
        us[s] = (double)(clock_ns() - t) / jobs / 1e3;
    }
    qsort(us, SERIES, sizeof *us, ascending);
    return us[SERIES / 2];
}

/* Figures in the order of the headline. */
static void bench_size(int threads, int processors)
{
    struct pool *p;
    struct err e;
    if (pool_new(&p, threads, &e) != ST_OK) {
        printf("  %s\n", e.text);
        return;
    }
    uint32_t tasks = (uint32_t)threads * TASKS_EACH;
    double ideal = tasks * TASK_US / (threads < processors ? threads : processors);
    printf("  %3d threads: %6.2f, %6.2f, %7.2f\n", threads, job_us(p, nothing, (uint32_t)threads, 500, 0),
           job_us(p, nothing, (uint32_t)threads, 1, 2000), job_us(p, busy, tasks, 20, 0) - ideal);
    pool_free(p);
}

void bench_barrier(void)
{
    int most = pool_default_threads();
    calibrate();
    printf("a job on the pool, us: empty; empty, all workers asleep; what %u tasks of %.0f us for each thread take longer "
           "than these alone:\n", TASKS_EACH, TASK_US);
    for (int threads = 2; threads < most; threads *= 2)
        bench_size(threads, most);
    if (most > 1)
        bench_size(most, most);
    bench_size(2 * most, most); /* more than there are processors */
}
