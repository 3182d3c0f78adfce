/*
 * pool: a fixed set of worker threads that run the tasks of one job after another.
 *
 * The caller of pool_run() is worker 0 and takes part. Tasks are handed out in ascending order from one atomic counter,
 * so a slow core takes fewer. A job ends when its last task has ended; a worker that slept through a job is not waited
 * for. Workers spin for a short while between jobs and then sleep; with more threads than processors they make way for
 * each other. They keep to the processors of this process' home (home.h). Tasks run with round-to-nearest and without
 * flushing denormals, also on the caller's thread, whose own mode comes back when pool_run() returns.
 *
 * Invariant: nothing a task computes may depend on which worker runs it. `worker` only picks scratch memory.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdint.h>

#include "base/err.h"

struct pool;

/* task < tasks of pool_run(); worker < pool_size(). */
typedef void pool_fn(void *ctx, uint32_t task, int worker);

/* `threads` counts the caller; 0 = pool_default_threads(). */
MUST_CHECK enum status pool_new(struct pool **out, int threads, struct err *e);
void pool_free(struct pool *p);
int pool_size(const struct pool *p);

/* How often a thread of the pool went to sleep so far, for want of something to do or waiting for others. */
uint64_t pool_sleeps(const struct pool *p);

/* At most POOL_TASKS tasks. Only one thread at a time may run jobs on a pool. */
#define POOL_TASKS ((1u << 20) - 1)
void pool_run(struct pool *p, pool_fn *fn, void *ctx, uint32_t tasks);

/* The least of: physical cores of this process' home (home.h), its cgroup's CPU quota. At least 1. */
int pool_default_threads(void);

/* Sets the calling thread's floating-point mode as tasks have it, for arithmetic outside of jobs. */
void pool_set_fp_mode(void);

#endif
