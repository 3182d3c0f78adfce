/* index: see index.h. */
#include "source/index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES = 64 };

enum status source_index_init(struct source_index *x, uint32_t k, uint32_t longest, uint32_t cap, struct err *e)
{
    uint32_t slots = 1;
    *x = (struct source_index){.k = k, .cap = longest < cap ? longest : cap, .next = k};
    while (slots < 2 * x->cap)
        slots *= 2;
    x->mask = slots - 1;
    x->last = calloc(slots, sizeof *x->last);
    x->before = calloc((size_t)x->cap + 1, sizeof *x->before);
    if (x->last && x->before)
        return ST_OK;
    source_index_release(x);
    return err_set(e, ST_NO_MEMORY, "", "no memory to look for copies in %u ids", (unsigned)longest);
}

void source_index_release(struct source_index *x)
{
    free(x->last);
    free(x->before);
    *x = (struct source_index){0};
}

uint32_t source_index_hash(const tok_id *gram, uint32_t k)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < k; i++) {
        h = (h ^ (uint32_t)gram[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

/* The slot of the gram that ends at `end`: its own or a free one; NULL where neither is near. */
static uint32_t *slot_of(const struct source_index *x, const tok_id *ids, uint32_t end)
{
    const tok_id *gram = ids + end - x->k;
    uint32_t at = source_index_hash(gram, x->k);
    for (int i = 0; i < PROBES; i++, at++) {
        uint32_t *slot = &x->last[at & x->mask];
        if (*slot == 0 || memcmp(ids + *slot - x->k, gram, x->k * sizeof *gram) == 0)
            return slot;
    }
    return NULL;
}

void source_index_extend(struct source_index *x, const tok_id *ids, uint32_t n)
{
    for (; x->next < n && x->next <= x->cap; x->next++) {
        uint32_t *slot = slot_of(x, ids, x->next);
        if (!slot)
            continue;
        x->before[x->next] = *slot;
        *slot = x->next;
    }
}

uint32_t source_index_find(const struct source_index *x, const tok_id *ids, uint32_t n, uint32_t *ends, uint32_t most)
{
    uint32_t found = 0;
    if (n < x->k)
        return 0;
    const uint32_t *slot = slot_of(x, ids, n);
    for (uint32_t end = slot ? *slot : 0; end && found < most; end = x->before[end])
        ends[found++] = end;
    return found;
}

uint32_t source_index_match(const tok_id *ids, uint32_t a, uint32_t b, uint32_t most)
{
    uint32_t m = 0;
    while (m < most && m < a && ids[a - 1 - m] == ids[b - 1 - m])
        m++;
    return m;
}
