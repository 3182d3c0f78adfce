/* watched: see watched.h. */
#include "server/http/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LOOK_NS 1000000000u
#define PIECE 4096u

void http_watched_init(struct http_watched *w, const char *path, const char *field)
{
    *w = (struct http_watched){.path = path, .field = field};
}

bool http_watched_changed(struct http_watched *w)
{
    const struct stat *old = &w->read;
    const uint64_t now = clock_ns();
    struct stat s;
    if (now - w->looked < LOOK_NS)
        return false;
    w->looked = now;
    if (stat(w->path, &s) != 0)
        return false;
    return s.st_dev != old->st_dev || s.st_ino != old->st_ino || s.st_size != old->st_size ||
           s.st_ctim.tv_sec != old->st_ctim.tv_sec || s.st_ctim.tv_nsec != old->st_ctim.tv_nsec;
}

static enum status read_all(int fd, const struct http_watched *w, struct buf *out, struct err *e)
{
    for (;;) {
        char piece[PIECE];
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ST_IO, w->field, "cannot read '%.100s'", w->path);
        if (n == 0)
            return ST_OK;
        if (!buf_add(out, piece, (size_t)n))
            return err_set(e, ST_TOO_LONG, w->field, "'%.100s' has more than %zu bytes", w->path, out->limit);
    }
}

enum status http_watched_read(struct http_watched *w, struct buf *out, struct err *e)
{
    int fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    w->looked = clock_ns();
    if (fd < 0) {
        enum status failed = err_errno(e, ST_IO, w->field, "cannot open '%.100s'", w->path);
        (void)stat(w->path, &w->read);
        return failed;
    }
    enum status st = fstat(fd, &w->read) == 0 ? read_all(fd, w, out, e)
                                              : err_errno(e, ST_IO, w->field, "cannot look at '%.100s'", w->path);
    close(fd);
    return st;
}
