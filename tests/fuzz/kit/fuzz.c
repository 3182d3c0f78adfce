/* fuzz: see fuzz.h. */
#include "fuzz/kit/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(const void *bytes, size_t n)
{
    static char path[40];
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n, "no file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* Bytes of the character that s[n] begins with, n > 0, or 0: the table 3-7 of the Unicode standard. */
static size_t character(const unsigned char *s, size_t n)
{
    static const struct {
        unsigned char first, last, second_first, second_last, bytes;
    } table[] = {
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (*s < table[i].first || *s > table[i].last)
            continue;
        size_t bytes = table[i].bytes;
        bool ok = bytes <= n && (bytes < 2 || (s[1] >= table[i].second_first && s[1] <= table[i].second_last));
        for (size_t k = 2; k < bytes && ok; k++)
            ok = (s[k] & 0xC0) == 0x80;
        return ok ? bytes : 0;
    }
    return 0;
}

void fuzz_utf8(const char *s, size_t n, struct buf *out)
{
    for (size_t at = 0; at < n;) {
        size_t bytes = character((const unsigned char *)s + at, n - at);
        if (bytes)
            buf_add(out, s + at, bytes);
        else
            buf_adds(out, "\xEF\xBF\xBD");
        at += bytes ? bytes : 1;
    }
}

void fuzz_same(const struct buf *a, const struct buf *b, const char *what)
{
    FUZZ_CHECK(a->len == b->len && (!a->len || memcmp(a->data, b->data, a->len) == 0), "%s: '%.*s' and '%.*s'", what,
               (int)a->len, a->len ? a->data : "", (int)b->len, b->len ? b->data : "");
}
