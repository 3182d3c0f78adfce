/*
 * log_file: see log_file.h. Opening anew puts the new file under the old descriptor, so that no writer can meet a closed
 * one.
 */
#include "base/log_file.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static int open_file(const char *path, int mode)
{
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, mode);
}

enum status log_file_open(struct log_file *f, const char *path, const char *field, int mode, struct err *e)
{
    int fd = open_file(path, mode);
    if (fd < 0)
        return err_errno(e, ST_IO, field, "cannot open the log file '%.100s'", path);
    f->path = path;
    f->field = field;
    int before = atomic_exchange(&f->fd, fd);
    if (before >= 0)
        close(before);
    return ST_OK;
}

void log_file_close(struct log_file *f)
{
    int fd = atomic_exchange(&f->fd, -1);
    if (fd >= 0)
        close(fd);
}

enum status log_file_reopen(struct log_file *f, int mode, struct err *e)
{
    int fd = open_file(f->path, mode);
    if (fd < 0)
        return err_errno(e, ST_IO, f->field, "cannot open the log file '%.100s' again", f->path);
    enum status st = ST_OK;
    if (dup3(fd, atomic_load(&f->fd), O_CLOEXEC) < 0)
        st = err_errno(e, ST_IO, f->field, "cannot use the log file '%.100s'", f->path);
    close(fd);
    return st;
}

bool log_file_write(struct log_file *f, const char *text, size_t n)
{
    return write(atomic_load_explicit(&f->fd, memory_order_relaxed), text, n) == (ssize_t)n;
}
