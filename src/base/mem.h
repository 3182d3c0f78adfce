/*
 * mem: large page-aligned regions (weights, KV, scratch), reserved at start and touched on first use.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reserves zero pages; nothing is resident until it is written. NULL when the address space cannot be had.
 *
 * mem_map() is for what fills up from its beginning: from 2 MB on it gets huge pages where the system has them, so that
 * reading all of it misses the translation buffer 512 times less. mem_map_sparse() is for what is touched here and
 * there, where each touch would make a whole huge page resident.
 */
void *mem_map(size_t bytes);
void *mem_map_sparse(size_t bytes);
void mem_unmap(void *p, size_t bytes); /* of either; the same number of bytes */

/* Gives pages back to the system; they read as zero afterwards. Whole pages inside the range only. */
void mem_forget(void *p, size_t bytes);

/* a * b, or SIZE_MAX when that overflows: an impossible size for any limit check that follows. */
size_t mem_mul(size_t a, size_t b);
size_t mem_add(size_t a, size_t b);

/* What this process may still take: free memory of the machine or of its control groups, whichever is less, in bytes.
 * Page cache counts as free, unless it is files that this process has mapped and read. */
uint64_t mem_available(void);

/* All it could ever have: the machine's memory or its tightest control group's limit. */
uint64_t mem_total(void);

/* Resident set now, how much of it is huge pages, and the highest so far, in bytes. 0 where the system does not say. */
uint64_t mem_resident(void);
uint64_t mem_huge(void);
uint64_t mem_peak(void);

static inline size_t mem_round(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

#endif
