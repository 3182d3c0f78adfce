/* log: see log.h. A line is formatted first and written by one call, so that threads do not mix theirs. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static _Atomic int current = LOG_INFO;

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
    fwrite(line, 1, n + 1, stderr);
}
