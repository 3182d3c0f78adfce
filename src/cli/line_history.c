/* line_history: see line_history.h. */
#include "cli/line_history.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A relative XDG_STATE_HOME is ignored, as its specification says. */
bool line_history_path(char *out, size_t cap)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_xdg = xdg && xdg[0] == '/';
    if (!has_xdg && !(home && home[0] == '/'))
        return false;
    int n = snprintf(out, cap, "%s%s/ffwd/chat.history", has_xdg ? xdg : home, has_xdg ? "" : "/.local/state");
    return n > 0 && (size_t)n < cap;
}

/* --- loading --------------------------------------------------------------------------------------------------------- */

/* The last LINE_HISTORY_BYTES of the file, from a line's beginning on; *size is that of all of it. */
static enum status read_tail(int fd, const char *path, struct buf *out, size_t *size, struct err *e)
{
    struct stat sb;
    buf_init(out, LINE_HISTORY_BYTES);
    if (fstat(fd, &sb) != 0)
        return err_errno(e, ST_IO, path, "%s: cannot read", path);
    if (!S_ISREG(sb.st_mode))
        return err_set(e, ST_IO, path, "%s: not a file", path);
    *size = (size_t)sb.st_size;
    off_t from = *size > LINE_HISTORY_BYTES ? (off_t)(*size - LINE_HISTORY_BYTES) : 0;
    char *room = buf_reserve(out, LINE_HISTORY_BYTES);
    if (!room)
        return err_set(e, ST_NO_MEMORY, path, "%s: no memory", path);
    ssize_t n = pread(fd, room, LINE_HISTORY_BYTES, from);
    if (n < 0)
        return err_errno(e, ST_IO, path, "%s: cannot read", path);
    out->len = (size_t)n;
    const char *line = from && n ? memchr(out->data, '\n', out->len) : NULL;
    if (line)
        buf_drop(out, (size_t)(line - out->data) + 1);
    return ST_OK;
}

static void tell(const struct buf *text, line_history_sink *sink, void *user)
{
    for (const char *s = text->data, *end = s + text->len; s < end;) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((stop ? stop : end) - s);
        json_t *line = json_loadb(s, n, JSON_DECODE_ANY, NULL);
        if (json_is_string(line))
            sink(user, json_string_value(line));
        json_decref(line);
        s += n + (stop != NULL);
    }
}

static bool write_all(int fd, const char *s, size_t n)
{
    while (n) {
        ssize_t put = write(fd, s, n);
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            s += put;
            n -= (size_t)put;
        }
    }
    return true;
}

/* Puts `text` in place of the file, all at once. */
static enum status replace(const char *path, const struct buf *text, struct err *e)
{
    char beside[PATH_MAX];
    int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof beside)
        return err_set(e, ST_IO, path, "%s: the path is too long", path);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && write_all(fd, text->data, text->len);
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    if (ok && rename(beside, path) == 0)
        return ST_OK;
    err_errno(e, ST_IO, path, "%s: cannot shorten", path);
    if (fd >= 0)
        unlink(beside);
    return e->code;
}

enum status line_history_load(const char *path, line_history_sink *sink, void *user, struct err *e)
{
    struct buf tail;
    size_t size = 0;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe of that name must not hold it up */
    if (fd < 0)
        return errno == ENOENT ? ST_OK : err_errno(e, ST_IO, path, "%s: cannot open", path);
    enum status st = read_tail(fd, path, &tail, &size, e);
    close(fd);
    if (st == ST_OK && tail.len)
        tell(&tail, sink, user);
    if (st == ST_OK && size > 2 * (size_t)LINE_HISTORY_BYTES)
        st = replace(path, &tail, e);
    buf_release(&tail);
    return st;
}

/* --- adding ---------------------------------------------------------------------------------------------------------- */

/* The folders above the file; what cannot be made shows when the file is opened. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        (void)mkdir(folder, 0700);
    }
}

/* The last line was cut off, by a full disk or a crash: what is added would be lost with it. */
static bool ends_inside_line(int fd)
{
    struct stat sb;
    char last;
    return fstat(fd, &sb) == 0 && sb.st_size > 0 && pread(fd, &last, 1, sb.st_size - 1) == 1 && last != '\n';
}

static bool is_file(int fd)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return false;
    errno = EINVAL;
    return S_ISREG(sb.st_mode);
}

enum status line_history_add(const char *path, const char *text, size_t n, struct err *e)
{
    json_t *string = n <= LINE_HISTORY_LONGEST ? json_stringn(text, n) : NULL;
    char *line = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    if (!line)
        return ST_OK;
    size_t len = strlen(line);
    line[len] = '\n'; /* in place of the NUL: it is written by its length */
    make_folders(path);
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && is_file(fd) && (!ends_inside_line(fd) || write_all(fd, "\n", 1)) && write_all(fd, line, len + 1);
    if (!ok)
        err_errno(e, ST_IO, path, "%s: cannot keep what is typed", path);
    if (fd >= 0)
        close(fd);
    free(line);
    return ok ? ST_OK : e->code;
}
