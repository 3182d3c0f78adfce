/* home: see home.h. */
#include "base/home.h"

#include <inttypes.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOT "/sys/devices/system"
#define NODES_MOST 1024
#define LIST_CAP 8192
#define PATH_CAP 512

static bool has(const struct cpus *c, int cpu)
{
    return CPU_ISSET_S((size_t)cpu, sizeof *c, c->set);
}

/* A file like "0-3,8-11". False when there is none. */
static bool read_list(const char *path, struct cpus *out)
{
    char text[LIST_CAP] = "", *p = text;
    memset(out, 0, sizeof *out);
    FILE *f = fopen(path, "re");
    bool found = f && fgets(text, sizeof text, f);
    if (f)
        fclose(f);
    while (found) {
        char *end;
        long a = strtol(p, &end, 10), b = a;
        if (end == p)
            break;
        if (*end == '-')
            b = strtol(end + 1, &end, 10);
        for (long c = a < 0 ? 0 : a; c <= b && c < (long)HOME_CPUS; c++)
            CPU_SET_S((size_t)c, sizeof *out, out->set);
        if (*end != ',')
            break;
        p = end + 1;
    }
    return found;
}

/* Physical cores: processors without a sibling before them in the set. */
static int count_cores(const char *root, const struct cpus *set)
{
    char path[PATH_CAP];
    struct cpus siblings;
    int cores = 0;
    for (int cpu = 0; cpu < (int)HOME_CPUS; cpu++) {
        if (!has(set, cpu))
            continue;
        snprintf(path, sizeof path, "%s/cpu/cpu%d/topology/thread_siblings_list", root, cpu);
        bool known = read_list(path, &siblings), first = true;
        for (int c = 0; known && first && c < cpu; c++)
            first = !has(&siblings, c) || !has(set, c);
        cores += first;
    }
    return cores;
}

/* Memory of a node that is free or holds files that nobody uses, in bytes. FilePages count shared memory, which cannot be
 * given back, and what is mapped: other models, above all. What is both is taken off twice: better too little. */
static uint64_t node_memory(const char *root, int node)
{
    char path[PATH_CAP], line[256], name[32];
    uint64_t free_kib = 0, files = 0, used = 0, kib;
    snprintf(path, sizeof path, "%s/node/node%d/meminfo", root, node);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) { /* "Node 0 MemFree:  123 kB" */
        if (sscanf(line, "Node %*d %31[^:]: %" SCNu64, name, &kib) != 2)
            continue;
        if (strcmp(name, "MemFree") == 0)
            free_kib = kib;
        else if (strcmp(name, "FilePages") == 0)
            files = kib;
        else if (strcmp(name, "Mapped") == 0 || strcmp(name, "Shmem") == 0)
            used += kib;
    }
    if (f)
        fclose(f);
    return (free_kib + (files > used ? files - used : 0)) * 1024;
}

struct node {
    int id, cores;
    uint64_t memory;
    struct cpus cpus;
};

/* The node with the most usable cores, of several the one with the most memory to give. Returns how many are usable. */
static int best_node(const char *root, const struct cpus *allowed, struct node *best)
{
    char path[PATH_CAP];
    struct cpus online;
    int usable = 0;
    *best = (struct node){.id = -1};
    snprintf(path, sizeof path, "%s/node/online", root);
    if (!read_list(path, &online))
        return 0;
    for (int id = 0; id < NODES_MOST; id++) {
        struct node n = {.id = id};
        snprintf(path, sizeof path, "%s/node/node%d/cpulist", root, id);
        if (!has(&online, id) || !read_list(path, &n.cpus))
            continue;
        CPU_AND_S(sizeof n.cpus, n.cpus.set, n.cpus.set, allowed->set);
        n.cores = count_cores(root, &n.cpus);
        n.memory = node_memory(root, id);
        usable += n.cores > 0;
        if (n.cores > best->cores || (n.cores == best->cores && n.memory > best->memory))
            *best = n;
    }
    return usable;
}

void home_look(struct home *out, const char *root, const struct cpus *allowed, uint64_t bytes, uint32_t threads)
{
    struct node best;
    int usable = best_node(root, allowed, &best);
    bool one = usable > 1 && threads <= (uint32_t)best.cores && bytes <= best.memory;
    *out = (struct home){.nodes = usable > 1 ? usable : 1, .node = one ? best.id : -1, .cpus = one ? best.cpus : *allowed};
    out->processors = CPU_COUNT_S(sizeof out->cpus, out->cpus.set);
    out->cores = one ? best.cores : count_cores(root, allowed);
    if (one)
        snprintf(out->why, sizeof out->why, "node %d, one of %d: no other has more cores", best.id, usable);
    else if (usable <= 1)
        snprintf(out->why, sizeof out->why, "there is one memory node");
    else if (threads > (uint32_t)best.cores)
        snprintf(out->why, sizeof out->why, "all %d nodes: the largest has %d cores, %u threads were asked for", usable,
                 best.cores, threads);
    else
        snprintf(out->why, sizeof out->why,
                 "all %d nodes: the largest has %" PRIu64 " MB to give, the weights take %" PRIu64, usable,
                 best.memory >> 20, bytes >> 20);
}

const struct home *home_choose(uint64_t bytes, uint32_t threads)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct home home;
    pthread_mutex_lock(&lock);
    if (!home.nodes) {
        struct cpus allowed = {0};
        if (sched_getaffinity(0, sizeof allowed, allowed.set) != 0)
            CPU_SET_S(0, sizeof allowed, allowed.set);
        home_look(&home, ROOT, &allowed, bytes, threads);
    }
    pthread_mutex_unlock(&lock);
    return &home;
}

const struct home *home_here(void)
{
    return home_choose(0, 0);
}

bool home_thread(const struct home *h)
{
    return h->node >= 0 && sched_setaffinity(0, sizeof h->cpus, h->cpus.set) == 0;
}

/* Preferred, not bound: a node that is full lends from the others. */
bool home_memory(const struct home *h, void *at, size_t bytes)
{
    const unsigned bits = 8 * sizeof(unsigned long);
    unsigned long mask[NODES_MOST / (8 * sizeof(unsigned long))] = {0};
    if (h->node < 0)
        return false;
    mask[(unsigned)h->node / bits] = 1ul << ((unsigned)h->node % bits);
    return syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, mask, (unsigned long)NODES_MOST + 1, 0) == 0;
}
