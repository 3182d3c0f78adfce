/*
 * cgroup: what the control groups of this process allow it. Private to base.
 *
 * A process may sit anywhere in a hierarchy, and each level above it can be the tightest, so all are looked at, from
 * /proc/self/cgroup upwards. Version 2 and the memory and cpu controllers of version 1.
 */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The least memory limit and the least room left below a limit. Page cache that can be dropped counts as room, less
 * `mapped` bytes of files that this process uses. False when no level has a limit. `root` goes before /proc and /sys ("";
 * tests make up their own). */
bool cgroup_memory(const char *root, uint64_t mapped, uint64_t *limit, uint64_t *left);

/* The least CPU quota, rounded up to whole processors; 0 = none. */
int cgroup_cpus(void);

#endif
