/* log: see log.h. A line is formatted first and written by one call, so that threads do not mix theirs. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log_file.h"

#define LOG_MODE 0644

static _Atomic int current = LOG_INFO;
static struct log_file file = {.fd = -1}; /* while it is not open, lines go to stderr */

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&current, (int)level, memory_order_relaxed);
}

enum log_level log_level(void)
{
    return (enum log_level)atomic_load_explicit(&current, memory_order_relaxed);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    if (level > log_level() || level == LOG_SILENT)
        return;
    char line[1024];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ ", &tm);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
    va_end(ap);
    n += m < 0 ? 0 : (size_t)m < sizeof line - n - 1 ? (size_t)m : sizeof line - n - 2;
    line[n] = '\n';
    /* A line that cannot be written is lost: there is nobody left to tell. */
    if (atomic_load_explicit(&file.fd, memory_order_relaxed) < 0)
        fwrite(line, 1, n + 1, stderr);
    else
        (void)log_file_write(&file, line, n + 1);
}

enum status log_open(const char *path, struct err *e)
{
    return log_file_open(&file, path, "log-file", LOG_MODE, e);
}

enum status log_reopen(struct err *e)
{
    return file.path ? log_file_reopen(&file, LOG_MODE, e) : ST_OK;
}
