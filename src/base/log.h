/*
 * log: one line a call to stderr, to a file, or to nowhere. The level is set once at start (by cli) and read without
 * locks; the file can be opened anew at any time, while other threads write.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_SILENT, LOG_ERROR, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
enum log_level log_level(void);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From now on lines are appended to the file at `path`, which is made where there is none. The string is not copied. On
 * ST_IO lines go where they went. */
MUST_CHECK enum status log_open(const char *path, struct err *e);

/* Opens the path again: after the file was moved away, lines go to a new one. Without a file it does nothing. On ST_IO
 * lines go where they went. One thread only. */
MUST_CHECK enum status log_reopen(struct err *e);

#endif
