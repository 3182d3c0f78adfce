/*
 * buf: a byte buffer that grows up to a ceiling fixed when it is made.
 *
 * `data` is always NUL-terminated once something was added. A write that does not fit sets `failed`, adds nothing, and
 * makes every later write fail as well, so a writer checks once, at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buf {
    char *data; /* owned; NULL while empty */
    size_t len, cap;
    size_t limit; /* len never exceeds it */
    bool failed;
};

void buf_init(struct buf *b, size_t limit);
void buf_release(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory, forgets content and failure */

bool buf_add(struct buf *b, const void *data, size_t n);
static inline bool buf_adds(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s)); /* of a literal the compiler knows it */
}
bool buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Room for n more bytes at data + len, to be followed by len += written; NULL when it cannot be had. */
char *buf_reserve(struct buf *b, size_t n);

/* Removes the first n bytes. */
void buf_drop(struct buf *b, size_t n);

#endif
