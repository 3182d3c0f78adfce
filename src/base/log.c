/*
 * log: see log.h. A line is formatted first and written by one call, so that threads do not mix theirs. Opening the file
 * anew puts the new one under the old descriptor, so that no writer can meet a closed one.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int current = LOG_INFO;
static _Atomic int log_fd = -1; /* -1 = stderr */
static const char *log_path;    /* NULL = stderr */

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
    int fd = atomic_load_explicit(&log_fd, memory_order_relaxed);
    /* A line that cannot be written is lost: there is nobody left to tell. */
    if (fd < 0)
        fwrite(line, 1, n + 1, stderr);
    else if (write(fd, line, n + 1) < 0)
        errno = 0;
}

static int open_log(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

enum status log_open(const char *path, struct err *e)
{
    int fd = open_log(path);
    if (fd < 0)
        return err_errno(e, ST_IO, "log-file", "cannot open the log file '%.100s'", path);
    log_path = path;
    int before = atomic_exchange(&log_fd, fd);
    if (before >= 0)
        close(before);
    return ST_OK;
}

enum status log_reopen(struct err *e)
{
    if (!log_path)
        return ST_OK;
    int fd = open_log(log_path);
    if (fd < 0)
        return err_errno(e, ST_IO, "log-file", "cannot open the log file '%.100s' again", log_path);
    enum status st = ST_OK;
    if (dup3(fd, atomic_load(&log_fd), O_CLOEXEC) < 0)
        st = err_errno(e, ST_IO, "log-file", "cannot use the log file '%.100s'", log_path);
    close(fd);
    return st;
}
