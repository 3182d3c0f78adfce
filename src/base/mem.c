/* mem: see mem.h. */
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_PAGE (2u << 20)

void *mem_map(size_t bytes)
{
    if (!bytes || bytes > SIZE_MAX / 2)
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE_PAGE)
        madvise(p, bytes, MADV_HUGEPAGE); /* advice only: a refusal changes nothing but speed */
    return p;
}

void mem_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

void mem_forget(void *p, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) / page * page, to = ((uintptr_t)p + bytes) / page * page;
    if (to > from)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

size_t mem_mul(size_t a, size_t b)
{
    size_t r;
    return __builtin_mul_overflow(a, b, &r) ? SIZE_MAX : r;
}

size_t mem_add(size_t a, size_t b)
{
    size_t r;
    return __builtin_add_overflow(a, b, &r) ? SIZE_MAX : r;
}

/* The number after `key` in a file of "key value" lines, or in a file that is one number when key is NULL. */
static int file_number(const char *path, const char *key, uint64_t *out)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    char line[256];
    int found = 0;
    while (!found && fgets(line, sizeof line, f)) {
        const char *p = line;
        size_t n = key ? strlen(key) : 0;
        if (key && strncmp(line, key, n) != 0)
            continue;
        unsigned long long v;
        found = sscanf(p + n, "%llu", &v) == 1;
        if (found)
            *out = v;
        else if (!key)
            break;
    }
    fclose(f);
    return found;
}

uint64_t mem_available(void)
{
    uint64_t kib = 0, best = UINT64_MAX, max, now;
    if (file_number("/proc/meminfo", "MemAvailable:", &kib))
        best = kib * 1024;
    static const char *const limits[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (!file_number(limits[i][0], NULL, &max) || !file_number(limits[i][1], NULL, &now))
            continue;
        uint64_t left = max > now ? max - now : 0;
        if (left < best)
            best = left;
    }
    return best == UINT64_MAX ? (uint64_t)1 << 30 : best;
}

uint64_t mem_resident(void)
{
    uint64_t kib = 0;
    file_number("/proc/self/status", "VmRSS:", &kib);
    return kib * 1024;
}

uint64_t mem_peak(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss * 1024;
}
