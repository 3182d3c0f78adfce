/*
 * arena: memory with one lifetime, released all at once.
 *
 * Bounded when made: an arena that would grow beyond its limit returns NULL from arena_try() and aborts in
 * arena_alloc(), which is for small things whose size no client controls.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *head; /* newest block; allocation happens here */
    size_t used;              /* bytes handed out, padding included */
    size_t limit;             /* `used` never exceeds it */
};

void arena_init(struct arena *a, size_t limit);
void arena_release(struct arena *a);

/* Keeps the newest block for reuse and forgets everything in it. */
void arena_clear(struct arena *a);

/* `size` zeroed bytes aligned to 64, or NULL when the limit or the machine's memory is reached. */
void *arena_try(struct arena *a, size_t size);

/* As arena_try(), but a failure aborts. */
void *arena_alloc(struct arena *a, size_t size);

/* A NUL-terminated copy of n bytes; NULL as arena_try(). */
char *arena_copy(struct arena *a, const char *s, size_t n);

#endif
