/*
 * lark: the pieces of a grammar in llguidance's dialect of Lark.
 *
 * Names, keys and schemas are a client's. They get into a grammar as JSON-escaped literals, as regular expressions with
 * everything escaped that has a meaning, or as JSON, which ends where it ends; so none can become grammar.
 */
#include <string.h>

#include "format/inside.h"

void format_lark_string(struct buf *out, const char *text, size_t n)
{
    buf_adds(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_addf(out, "\\u%04x", c);
        else
            buf_add(out, text + i, 1);
    }
    buf_adds(out, "\"");
}

void format_lark_regex(struct buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            buf_addf(out, "\\x%02x", c);
        else if (strchr("\\.+*?()|[]{}^$#&-~/", c))
            buf_addf(out, "\\%c", c);
        else
            buf_add(out, text + i, 1);
    }
}

const struct format_special *format_lark_special(const struct lark *l, const char *text, size_t n)
{
    const struct format_special *best = NULL;
    for (size_t i = 0; i < l->request->specials_n; i++) {
        const struct format_special *s = &l->request->specials[i];
        if (s->n && s->n <= n && !memcmp(s->text, text, s->n) && (!best || s->n > best->n))
            best = s;
    }
    return best;
}

void format_lark_piece(struct lark *l, const char *text, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i <= n;) {
        const struct format_special *s = i < n ? format_lark_special(l, text + i, n - i) : NULL;
        bool id = i < n && text[i] == *FORMAT_ID;
        if (i < n && !s && !id) {
            i++;
            continue;
        }
        if (i > from) {
            buf_adds(l->out, " ");
            format_lark_string(l->out, text + from, i - from);
        }
        if (s)
            buf_addf(l->out, " <[%d]>", s->id);
        else if (id)
            buf_adds(l->out, " /[a-zA-Z0-9]{9}/");
        i += s ? s->n : 1;
        from = i;
    }
}

/* Where a control token or an id of a call begins in text[n]; n: nowhere. */
static size_t plain(const struct lark *l, const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] != *FORMAT_ID && !format_lark_special(l, text + i, n - i))
        i++;
    return i;
}

void format_lark_until(struct lark *l, const char *name, const char *mark, const char *ending)
{
    struct buf *out = l->out;
    char upper[32];
    size_t k = 0;
    for (; name[k] && k + 1 < sizeof upper; k++)
        upper[k] = name[k] >= 'a' && name[k] <= 'z' ? (char)(name[k] - 32) : name[k];
    upper[k] = 0;
    const char *found = strstr(ending, mark);
    size_t first = found ? (size_t)(found - ending) + strlen(mark) : strlen(ending), n = plain(l, ending, first);
    buf_addf(out, "%s_FREE: /(?s:.*)/ & ~/(?s:.*)", upper);
    format_lark_regex(out, mark, strlen(mark));
    buf_addf(out, "(?s:.*)/\n%s: %s_FREE", upper, upper);
    if (n) {
        buf_adds(out, " ");
        format_lark_string(out, ending, n);
    }
    if (n == first) { /* the text of the mark itself ends it, at once */
        buf_addf(out, "\n%s_end[lazy]: %s\n%s: %s_end", name, upper, name, name);
    } else {
        buf_addf(out, "\n%s: %s", name, upper);
    }
    format_lark_piece(l, ending + n, strlen(ending) - n);
    buf_adds(out, "\n");
}

void format_lark_json(struct lark *l, const char *schema, size_t n, const char *more, size_t more_n)
{
    struct buf *out = l->out;
    while (n && format_blank((unsigned char)schema[n - 1]))
        n--;
    size_t from = 0;
    while (from < n && format_blank((unsigned char)schema[from]))
        from++;
    size_t first = from + 1;
    while (first < n && format_blank((unsigned char)schema[first]))
        first++;
    bool some = first < n && schema[from] == '{' && schema[first] != '}';
    buf_adds(out, " %json ");
    if (some)
        buf_add(out, schema + from, n - from - 1);
    else
        buf_adds(out, "{");
    if (more_n) {
        buf_adds(out, some ? "," : "");
        buf_add(out, more, more_n);
    }
    buf_addf(out, "%s\"x-guidance\":{\"whitespace_flexible\":false,\"item_separator\":", some || more_n ? "," : "");
    format_lark_string(out, l->shape->item_sep, strlen(l->shape->item_sep));
    buf_adds(out, ",\"key_separator\":");
    format_lark_string(out, l->shape->key_sep, strlen(l->shape->key_sep));
    buf_adds(out, "}}");
}
