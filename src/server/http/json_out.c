/* json_out: see json_out.h. */
#include "server/http/json_out.h"

#include <math.h>
#include <string.h>

size_t http_utf8_char(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (!n)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC2 ? 2 : 0;
    if (!len || len > n || p[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) ||
        (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return len;
}

bool http_utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = http_utf8_char(s + i, n - i);
        if (!len)
            return false;
        i += len;
    }
    return true;
}

static void escape(struct buf *b, unsigned char c)
{
    switch (c) {
    case '"':
        buf_adds(b, "\\\"");
        break;
    case '\\':
        buf_adds(b, "\\\\");
        break;
    case '\n':
        buf_adds(b, "\\n");
        break;
    case '\r':
        buf_adds(b, "\\r");
        break;
    case '\t':
        buf_adds(b, "\\t");
        break;
    default:
        buf_addf(b, "\\u%04x", c);
    }
}

void http_json_text(struct buf *b, const char *s, size_t n)
{
    size_t from = 0; /* s[from, i) is copied as it is */
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t len = http_utf8_char(s + i, n - i);
        if (len && c >= 0x20 && c != '"' && c != '\\') {
            i += len;
            continue;
        }
        buf_add(b, s + from, i - from);
        if (len)
            escape(b, c);
        else
            buf_adds(b, "\xEF\xBF\xBD");
        from = ++i;
    }
    if (n > from)
        buf_add(b, s + from, n - from);
}

void http_json_str(struct buf *b, const char *s, size_t n)
{
    buf_adds(b, "\"");
    http_json_text(b, s, n);
    buf_adds(b, "\"");
}

void http_json_cstr(struct buf *b, const char *s)
{
    if (s)
        http_json_str(b, s, strlen(s));
    else
        buf_adds(b, "null");
}

/* At least so many: printf() takes much longer. */
static void add_digits(struct buf *b, uint64_t v, size_t least)
{
    char digits[20];
    size_t at = sizeof digits;
    for (; v || sizeof digits - at < least; v /= 10)
        digits[--at] = (char)('0' + v % 10);
    buf_add(b, digits + at, sizeof digits - at);
}

void http_json_u64(struct buf *b, uint64_t v)
{
    add_digits(b, v, 1);
}

/* printf's %f would write the locale's decimal point, and the program that embeds us may have set one. */
void http_json_fixed(struct buf *b, double v)
{
    if (!isfinite(v) || fabs(v) > 1e12)
        v = -9999.0;
    uint64_t micro = (uint64_t)(fabs(v) * 1e6 + 0.5);
    if (v < 0 && micro)
        buf_adds(b, "-");
    add_digits(b, micro / 1000000, 1);
    buf_adds(b, ".");
    add_digits(b, micro % 1000000, 6);
}
