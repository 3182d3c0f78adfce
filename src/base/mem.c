/* mem: see mem.h. */
#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/home.h"

#define HUGE_PAGE ((size_t)2 << 20)

static uint8_t *reserve(size_t bytes)
{
    if (!bytes || bytes > SIZE_MAX / 2)
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Only an aligned 2 MB can be one page, so more is reserved and both ends are given back. */
void *mem_map(size_t bytes)
{
    if (bytes < HUGE_PAGE)
        return reserve(bytes);
    uint8_t *p = reserve(mem_add(bytes, HUGE_PAGE));
    if (!p)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), kept = mem_round(bytes, page);
    size_t before = mem_round((uintptr_t)p, HUGE_PAGE) - (uintptr_t)p;
    if (before)
        munmap(p, before);
    if (before < HUGE_PAGE)
        munmap(p + before + kept, HUGE_PAGE - before);
    p += before;
    madvise(p, bytes, MADV_HUGEPAGE); /* advice, as is the home: a refusal changes nothing but speed */
    home_memory(home_here(), p, bytes);
    return p;
}

void *mem_map_sparse(size_t bytes)
{
    void *p = reserve(bytes);
    if (p)
        madvise(p, bytes, MADV_NOHUGEPAGE);
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

/* The number after `key` in a file of "key value" lines. */
static bool file_number(const char *path, const char *key, uint64_t *out)
{
    FILE *f = fopen(path, "re");
    char line[256];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned long long v;
        found = strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &v) == 1;
        if (found)
            *out = v;
    }
    if (f)
        fclose(f);
    return found;
}

/* Files that this process has mapped, its weights among them: the system counts them as page cache, and they could be
 * had only by reading them again for each token. */
static uint64_t mapped_files(void)
{
    uint64_t file = 0, shared = 0;
    file_number("/proc/self/status", "RssFile:", &file);
    file_number("/proc/self/status", "RssShmem:", &shared);
    return (file + shared) * 1024;
}

uint64_t mem_available(void)
{
    uint64_t kib, best = UINT64_MAX, limit, left, mapped = mapped_files();
    if (file_number("/proc/meminfo", "MemAvailable:", &kib))
        best = kib * 1024 > mapped ? kib * 1024 - mapped : 0;
    if (cgroup_memory("", mapped, &limit, &left) && left < best)
        best = left;
    return best == UINT64_MAX ? (uint64_t)1 << 30 : best;
}

uint64_t mem_total(void)
{
    uint64_t kib, best = UINT64_MAX, limit, left;
    if (file_number("/proc/meminfo", "MemTotal:", &kib))
        best = kib * 1024;
    if (cgroup_memory("", 0, &limit, &left) && limit < best)
        best = limit;
    return best;
}

uint64_t mem_resident(void)
{
    uint64_t kib = 0;
    file_number("/proc/self/status", "VmRSS:", &kib);
    return kib * 1024;
}

uint64_t mem_huge(void)
{
    uint64_t own = 0, files = 0;
    file_number("/proc/self/smaps_rollup", "AnonHugePages:", &own);
    file_number("/proc/self/smaps_rollup", "FilePmdMapped:", &files);
    return (own + files) * 1024;
}

uint64_t mem_peak(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss * 1024;
}
