/* buf: see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t limit)
{
    *b = (struct buf){.limit = limit};
}

void buf_release(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

char *buf_reserve(struct buf *b, size_t n)
{
    if (b->failed || n > b->limit || b->len > b->limit - n) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + n + 1;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < need)
            cap = cap > SIZE_MAX / 2 ? need : cap * 2;
        char *p = realloc(b->data, cap);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
    }
    return b->data + b->len;
}

bool buf_add(struct buf *b, const void *data, size_t n)
{
    char *p = buf_reserve(b, n);
    if (!p)
        return false;
    if (n)
        memcpy(p, data, n);
    b->len += n;
    b->data[b->len] = 0;
    return true;
}

/* Printed where it would go at once, and again where that was too small. */
bool buf_addf(struct buf *b, const char *fmt, ...)
{
    const size_t room = b->failed ? 0 : b->cap - b->len;
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
    va_end(ap);
    char *p = n >= 0 ? buf_reserve(b, (size_t)n) : NULL;
    if (p && (size_t)n >= room)
        vsnprintf(p, (size_t)n + 1, fmt, again);
    if (p)
        b->len += (size_t)n;
    else if (room)
        b->data[b->len] = 0;
    va_end(again);
    return p != NULL;
}

void buf_drop(struct buf *b, size_t n)
{
    if (n > b->len)
        n = b->len;
    if (!n)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = 0;
}
