/* err: filling and naming errors. See err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy_bounded(char *dst, size_t cap, const char *src)
{
    size_t n = src ? strnlen(src, cap - 1) : 0;
    if (n)
        memcpy(dst, src, n);
    dst[n] = 0;
}

/* A cut in the middle of a UTF-8 sequence would make the text unprintable as JSON: drop the torn tail. */
static void trim_utf8(char *s)
{
    size_t n = strlen(s), back = 0;
    while (back < n && back < 4 && ((unsigned char)s[n - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back >= n)
        return;
    unsigned char lead = (unsigned char)s[n - 1 - back];
    size_t need = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (need > back)
        s[n - 1 - back] = 0;
}

static void fill(struct err *e, enum status code, const char *field, const char *fmt, va_list ap)
{
    if (!e)
        return;
    e->code = code;
    e->retry_after = 0;
    copy_bounded(e->field, sizeof e->field, field);
    trim_utf8(e->field);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    trim_utf8(e->text);
}

enum status err_set(struct err *e, enum status code, const char *field, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill(e, code, field, fmt, ap);
    va_end(ap);
    return code;
}

enum status err_errno(struct err *e, enum status code, const char *field, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    fill(e, code, field, fmt, ap);
    va_end(ap);
    if (e) {
        size_t n = strlen(e->text);
        snprintf(e->text + n, sizeof e->text - n, ": %s", strerror(saved));
        trim_utf8(e->text);
    }
    return code;
}

const char *status_name(enum status code)
{
    static const char *const names[ST_COUNT] = {
        [ST_OK] = "ok",
        [ST_ARGUMENT] = "argument",
        [ST_TOO_LONG] = "too_long",
        [ST_BUSY] = "busy",
        [ST_NEVER_FITS] = "never_fits",
        [ST_UNSUPPORTED] = "unsupported",
        [ST_MODEL] = "model",
        [ST_IO] = "io",
        [ST_NO_MEMORY] = "no_memory",
        [ST_CANCELLED] = "cancelled",
        [ST_DEADLINE] = "deadline",
        [ST_STEP_FAILED] = "step_failed",
        [ST_BUG] = "bug",
    };
    return (unsigned)code < ST_COUNT ? names[code] : "unknown";
}

void bug_abort(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "ffwd: bug at %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}
