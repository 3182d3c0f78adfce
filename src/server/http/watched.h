/*
 * watched: a file of the operator's that is read again once it changed: keys, certificates.
 *
 * No thread waits for the change: whoever needs what the file says looks first, and the file is looked at once a second
 * at most. Another file, another size or another time of change is one (st_ctime, which permissions move, too). Its owner
 * holds a lock around every call.
 */
#ifndef SERVER_HTTP_WATCHED_H
#define SERVER_HTTP_WATCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/base.h"

struct http_watched {
    const char *path;  /* not copied */
    const char *field; /* of errors: the option that names it */
    uint64_t looked;   /* clock_ns() */
    struct stat read;  /* what was read last */
};

void http_watched_init(struct http_watched *w, const char *path, const char *field);

/* Whether the file is not the one that was read last. A file that is gone has not changed: what it said stays. */
bool http_watched_changed(struct http_watched *w);

/* Appends the file to `out`. ST_IO, or ST_TOO_LONG when it is longer than out's limit. A file is read once, also when it
 * turns out to be wrong or cannot be opened: it has to change before it counts as changed. */
MUST_CHECK enum status http_watched_read(struct http_watched *w, struct buf *out, struct err *e);

#endif
