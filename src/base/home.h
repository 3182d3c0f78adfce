/*
 * home: which processors the workers run on, and in whose memory the large regions lie.
 *
 * On a machine with several memory nodes (sockets, mostly) a core reads another node's memory at a fraction of the speed
 * of its own, and every job waits for its slowest worker. So a process keeps to one node, unless its weights do not fit
 * there or more threads were asked for than the node has cores: then it uses all nodes, and each page lies with the
 * worker that wrote it first.
 */
#ifndef BASE_HOME_H
#define BASE_HOME_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOME_CPUS (1u << 16) /* processor numbers are below this */

struct cpus {
    cpu_set_t set[HOME_CPUS / CPU_SETSIZE];
};

struct home {
    int nodes;        /* with processors that this process may use; 1 where the system does not say */
    int node;         /* the one it keeps to; -1 = there is no other, or all are used */
    int cores;        /* physical cores that it may use there, at least 1 */
    int processors;   /* at least 1 */
    struct cpus cpus; /* these */
    char why[160];    /* one sentence */
};

/* The home of this process. The first call of either decides: by the bytes of the weights (0 = unknown) and by the
 * threads that were asked for (0 = as many as are sensible). Any thread; never freed. */
const struct home *home_choose(uint64_t bytes, uint32_t threads);
const struct home *home_here(void);

/* The same decision from a tree like /sys/devices/system at `root` and the processors `allowed`. */
void home_look(struct home *out, const char *root, const struct cpus *allowed, uint64_t bytes, uint32_t threads);

/* Keeps the calling thread, or what a region will hold, to the home's node. False when there is none or the system
 * refuses, which changes nothing but speed. */
bool home_thread(const struct home *h);
bool home_memory(const struct home *h, void *at, size_t bytes);

#endif
