/* arena: a list of blocks, each twice the last. See arena.h. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define ARENA_ALIGN 64u
#define ARENA_FIRST (16u << 10)
#define ARENA_LARGEST (4u << 20)

struct arena_block {
    struct arena_block *next;
    size_t cap, fill;
    alignas(ARENA_ALIGN) unsigned char data[];
};

void arena_init(struct arena *a, size_t limit)
{
    *a = (struct arena){.limit = limit};
}

void arena_release(struct arena *a)
{
    for (struct arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    a->head = NULL;
    a->used = 0;
}

void arena_clear(struct arena *a)
{
    if (!a->head)
        return;
    struct arena_block *keep = a->head;
    a->head = keep->next;
    arena_release(a);
    keep->next = NULL;
    keep->fill = 0;
    a->head = keep;
}

static struct arena_block *block_new(struct arena *a, size_t size)
{
    size_t cap = a->head ? a->head->cap * 2 : ARENA_FIRST;
    if (cap > ARENA_LARGEST)
        cap = ARENA_LARGEST;
    if (cap < size)
        cap = size;
    size_t total = (sizeof(struct arena_block) + cap + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct arena_block *b = aligned_alloc(ARENA_ALIGN, total);
    if (!b)
        return NULL;
    b->cap = cap;
    b->fill = 0;
    b->next = a->head;
    a->head = b;
    return b;
}

void *arena_try(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - 2 * ARENA_ALIGN)
        return NULL;
    size_t need = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (need > a->limit - a->used || a->used > a->limit)
        return NULL;
    struct arena_block *b = a->head;
    if (!b || b->cap - b->fill < need)
        b = block_new(a, need);
    if (!b)
        return NULL;
    void *p = b->data + b->fill;
    b->fill += need;
    a->used += need;
    memset(p, 0, need);
    return p;
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *p = arena_try(a, size);
    if (!p)
        BUG("arena of %zu bytes cannot give %zu more", a->limit, size);
    return p;
}

char *arena_copy(struct arena *a, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? arena_try(a, n + 1) : NULL;
    if (p && n)
        memcpy(p, s, n);
    return p;
}
