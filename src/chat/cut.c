/* cut: see cut.h. */
#include "chat/cut.h"

#include <stdint.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && is_space(*p))
        p++;
    return p;
}

/* p stands on a quote; returns the place behind the closing one, or NULL. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '"')
            return p + 1;
    }
    return NULL;
}

/* Returns the place behind the value that begins at p, or NULL. */
static const char *skip_value(const char *p, const char *end)
{
    if (p >= end)
        return NULL;
    if (*p == '"')
        return skip_string(p, end);
    if (*p != '{' && *p != '[') {
        const char *from = p;
        while (p < end && *p != ',' && *p != ']' && *p != '}' && *p != ':' && *p != '"' && !is_space(*p))
            p++;
        return p > from ? p : NULL;
    }
    size_t depth = 0;
    while (p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
            if (!p)
                return NULL;
            continue;
        }
        if (*p == '{' || *p == '[')
            depth++;
        else if ((*p == '}' || *p == ']') && --depth == 0)
            return p + 1;
        p++;
    }
    return NULL;
}

struct cut chat_cut_text(const char *s, size_t n)
{
    const char *end = s + n, *p = skip_space(s, end);
    while (end > p && is_space(end[-1]))
        end--;
    return (struct cut){p, (size_t)(end - p)};
}

enum cut_kind chat_cut_kind_of(struct cut v)
{
    if (!v.n)
        return CUT_NONE;
    switch (v.s[0]) {
    case '{':
        return CUT_OBJECT;
    case '[':
        return CUT_ARRAY;
    case '"':
        return v.n >= 2 ? CUT_STRING : CUT_NONE;
    case 't':
    case 'f':
        return CUT_BOOL;
    case 'n':
        return CUT_NULL;
    default:
        return CUT_NUMBER;
    }
}

const char *chat_cut_kind_name(struct cut v)
{
    static const char *const names[] = {"nothing", "an object", "an array", "a string", "a number", "a boolean", "null"};
    return names[chat_cut_kind_of(v)];
}

struct cut_iter chat_cut_open(struct cut v)
{
    enum cut_kind k = chat_cut_kind_of(v);
    struct cut_iter it = {.object = k == CUT_OBJECT, .first = true};
    if (k == CUT_OBJECT || k == CUT_ARRAY) {
        it.p = v.s + 1;
        it.end = v.s + v.n;
    }
    return it;
}

static bool stop(struct cut_iter *it, bool bad)
{
    it->bad = bad;
    it->p = it->end = NULL;
    return false;
}

bool chat_cut_next(struct cut_iter *it, struct cut *key, struct cut *value)
{
    *key = *value = (struct cut){0};
    if (!it->p)
        return false;
    const char *p = skip_space(it->p, it->end);
    if (p >= it->end)
        return stop(it, true);
    if (*p == (it->object ? '}' : ']'))
        return stop(it, false);
    if (!it->first) {
        if (*p != ',')
            return stop(it, true);
        p = skip_space(p + 1, it->end);
    }
    it->first = false;
    if (it->object) {
        const char *q = p < it->end && *p == '"' ? skip_string(p, it->end) : NULL;
        if (!q)
            return stop(it, true);
        *key = (struct cut){p, (size_t)(q - p)};
        p = skip_space(q, it->end);
        if (p >= it->end || *p != ':')
            return stop(it, true);
        p = skip_space(p + 1, it->end);
    }
    const char *q = skip_value(p, it->end);
    if (!q)
        return stop(it, true);
    *value = (struct cut){p, (size_t)(q - p)};
    it->p = q;
    return true;
}

struct cut chat_cut_member(struct cut object, const char *name)
{
    struct cut key, value;
    struct cut_iter it = chat_cut_open(object);
    if (it.object)
        while (chat_cut_next(&it, &key, &value))
            if (chat_cut_is(key, name))
                return value;
    return (struct cut){0};
}

size_t chat_cut_count(struct cut v)
{
    struct cut_iter it = chat_cut_open(v);
    struct cut key, value;
    size_t n = 0;
    while (chat_cut_next(&it, &key, &value))
        n++;
    return n;
}

void chat_cut_put(const char *name, struct cut v, struct buf *out)
{
    if (chat_cut_kind_of(v) == CUT_NONE || chat_cut_kind_of(v) == CUT_NULL)
        return;
    buf_addf(out, ",\"%s\":", name);
    buf_add(out, v.s, v.n);
}

static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* One character behind a backslash at *p, which moves past it; returns how many bytes were put into out. */
static size_t unescape_one(const char **p, const char *end, char out[4])
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char c = *(*p)++;
    if (c != 'u') {
        const char *at = c ? strchr(from, c) : NULL;
        out[0] = at ? to[at - from] : c;
        return 1;
    }
    int v = hex4(*p, end);
    if (v < 0)
        return put_utf8(0xFFFD, out);
    *p += 4;
    uint32_t code = (uint32_t)v;
    if (code >= 0xD800 && code < 0xDC00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        int low = hex4(*p + 2, end);
        if (low >= 0xDC00 && low < 0xE000) {
            *p += 6;
            return put_utf8(0x10000 + ((code - 0xD800) << 10) + ((uint32_t)low - 0xDC00), out);
        }
    }
    return put_utf8(code >= 0xD800 && code < 0xE000 ? 0xFFFD : code, out);
}

/* Calls fn with the unescaped pieces of a string; stops when it returns false. */
static bool walk_string(struct cut v, bool (*fn)(void *ctx, const char *s, size_t n), void *ctx)
{
    if (chat_cut_kind_of(v) != CUT_STRING)
        return false;
    const char *p = v.s + 1, *end = v.s + v.n - 1;
    while (p < end) {
        const char *q = memchr(p, '\\', (size_t)(end - p));
        if (!q || q + 1 >= end)
            return fn(ctx, p, (size_t)(end - p));
        if (q > p && !fn(ctx, p, (size_t)(q - p)))
            return false;
        char one[4];
        p = q + 1;
        size_t n = unescape_one(&p, end, one);
        if (!fn(ctx, one, n))
            return false;
    }
    return true;
}

static bool match(void *ctx, const char *s, size_t n)
{
    struct cut *rest = ctx;
    if (n > rest->n || memcmp(rest->s, s, n) != 0)
        return false;
    rest->s += n;
    rest->n -= n;
    return true;
}

bool chat_cut_is(struct cut string, const char *text)
{
    struct cut rest = {text, strlen(text)};
    return walk_string(string, match, &rest) && rest.n == 0;
}

static bool append(void *ctx, const char *s, size_t n)
{
    return buf_add(ctx, s, n);
}

void chat_cut_unescape(struct cut string, struct buf *out)
{
    (void)walk_string(string, append, out);
}

size_t chat_cut_depth(const char *s, size_t n)
{
    size_t depth = 0, deepest = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"') {
            const char *q = skip_string(s + i, s + n);
            if (!q)
                break;
            i = (size_t)(q - s) - 1;
        } else if (s[i] == '{' || s[i] == '[') {
            if (++depth > deepest)
                deepest = depth;
        } else if ((s[i] == '}' || s[i] == ']') && depth) {
            depth--;
        }
    }
    return deepest;
}
