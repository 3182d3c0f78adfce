/*
 * log_file: a file that lines are appended to, and that can be opened anew at any time while other threads write: after
 * it was moved away, lines go to a new one.
 */
#ifndef BASE_LOG_FILE_H
#define BASE_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct log_file {
    const char *path;  /* not copied */
    const char *field; /* of errors: the option that names it */
    _Atomic int fd;    /* -1 = not open */
};

/* The file is made where there is none, with the permissions `mode`. On ST_IO an open one stays as it was. */
MUST_CHECK enum status log_file_open(struct log_file *f, const char *path, const char *field, int mode, struct err *e);
void log_file_close(struct log_file *f);

/* One thread only. On ST_IO lines go where they went. */
MUST_CHECK enum status log_file_reopen(struct log_file *f, int mode, struct err *e);

/* Whole lines, by one call, so that threads do not mix theirs. False: not all of it was written. */
bool log_file_write(struct log_file *f, const char *text, size_t n);

#endif
