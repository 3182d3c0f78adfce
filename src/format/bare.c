/*
 * bare: arguments in Gemma's notation, {key:<|"|>text<|"|>,n:1,list:[true,{a:null}]}: keys without quotes, strings
 * between marks and without escapes. The opening brace has been read as the end of the name.
 */
#include <string.h>

#include "format/inside.h"

enum {
    BARE_FIRST, /* a key, or the end of the object */
    BARE_NEXT,  /* a key */
    BARE_VALUE, /* a value */
    BARE_ITEM,  /* a value, or the end of the array */
    BARE_QUOTE, /* inside a string's opening mark */
    BARE_TEXT,  /* in a string */
    BARE_WORD,  /* in a number, true, false or null */
    BARE_AFTER
};

void format_bare_enter(struct format_run *x)
{
    struct recogniser *r = x->r;
    format_json_clear(&r->json);
    r->json.depth = 1;
    r->json.arrays = 0;
    r->sub = BARE_FIRST;
    if (r->begun)
        format_give(x, RECOGNISER_ARGUMENTS, '{');
}

static bool in_array(const struct recogniser *r)
{
    return r->json.arrays >> r->json.depth & 1;
}

static bool open_in(struct format_run *x, bool array)
{
    struct recogniser_json *j = &x->r->json;
    if (j->depth == JSON_DEPTH)
        return false;
    j->depth++;
    j->arrays = (j->arrays & ~(1ull << j->depth)) | (uint64_t)array << j->depth;
    x->r->sub = array ? BARE_ITEM : BARE_FIRST;
    format_give(x, RECOGNISER_ARGUMENTS, array ? '[' : '{');
    x->r->held_n = 0;
    return true;
}

/* Ends an object or array; *done: it was the outermost. */
static bool close_in(struct format_run *x, unsigned char c, bool *done)
{
    struct recogniser *r = x->r;
    if ((c == ']') != in_array(r))
        return false;
    format_give(x, RECOGNISER_ARGUMENTS, c);
    *done = !--r->json.depth;
    r->sub = BARE_AFTER;
    r->held_n = 0;
    return true;
}

/* The key in held[0, n). Some templates put it between the strings' marks. */
static bool take_key(struct format_run *x, const char *quote, size_t n)
{
    struct recogniser *r = x->r;
    const char *key = r->held;
    size_t q = strlen(quote);
    if (n > 2 * q && !memcmp(key, quote, q) && !memcmp(key + n - q, quote, q))
        key += q, n -= 2 * q;
    if (!n || n > LIMIT_CALL_KEY || (r->json.depth == 1 && !format_key(r, key, n)))
        return false;
    format_give(x, RECOGNISER_ARGUMENTS, '"');
    for (size_t i = 0; i < n; i++)
        format_escape(x, (unsigned char)key[i]);
    format_arguments(x, "\": ", 3);
    r->sub = BARE_VALUE;
    r->held_n = 0;
    return true;
}

static bool key(struct format_run *x, const char *quote, unsigned char c, bool *done)
{
    struct recogniser *r = x->r;
    if (r->held_n == 1 && format_blank(c)) {
        r->held_n = 0;
        return true;
    }
    if (r->held_n == 1 && c == '}' && r->sub == BARE_FIRST)
        return close_in(x, c, done);
    if (c == ':')
        return take_key(x, quote, r->held_n - 1u);
    return !strchr("{}[],\n", c) && r->held_n <= LIMIT_CALL_KEY + 32;
}

static bool value(struct format_run *x, const char *quote, unsigned char c, bool *done)
{
    struct recogniser *r = x->r;
    if (format_blank(c)) {
        r->held_n = 0;
        return true;
    }
    if (c == '{' || c == '[')
        return open_in(x, c == '[');
    if (c == ']' && r->sub == BARE_ITEM)
        return close_in(x, c, done);
    r->sub = c == (unsigned char)*quote ? BARE_QUOTE : BARE_WORD;
    return !strchr(",:]}", c);
}

static bool text(struct format_run *x, const char *quote)
{
    struct recogniser *r = x->r;
    size_t n = r->held_n, q = strlen(quote);
    if (r->sub == BARE_QUOTE) {
        if (n == q) {
            format_give(x, RECOGNISER_ARGUMENTS, '"');
            r->sub = BARE_TEXT;
            r->held_n = 0;
        }
        return !memcmp(r->held, quote, n);
    }
    if (n == q && !memcmp(r->held, quote, q)) {
        format_give(x, RECOGNISER_ARGUMENTS, '"');
        r->sub = BARE_AFTER;
        r->held_n = 0;
        return true;
    }
    while (n && memcmp(r->held, quote, n)) {
        format_escape(x, (unsigned char)r->held[0]);
        memmove(r->held, r->held + 1, --n);
    }
    r->held_n = (uint16_t)n;
    return true;
}

/* A word ends where the next byte cannot be in it. What is no JSON is a string: models forget the marks. */
static bool end_word(struct format_run *x)
{
    struct recogniser *r = x->r;
    size_t n = r->held_n - 1u;
    format_back(x, 1);
    while (n && format_blank((unsigned char)r->held[n - 1]))
        n--;
    unsigned type;
    if (format_json_is(r->held, n, &type)) {
        format_arguments(x, r->held, n);
    } else {
        r->loose = true;
        format_give(x, RECOGNISER_ARGUMENTS, '"');
        for (size_t i = 0; i < n; i++)
            format_escape(x, (unsigned char)r->held[i]);
        format_give(x, RECOGNISER_ARGUMENTS, '"');
    }
    r->sub = BARE_AFTER;
    r->held_n = 0;
    return true;
}

static bool after(struct format_run *x, unsigned char c, bool *done)
{
    struct recogniser *r = x->r;
    if (c == '}' || c == ']')
        return close_in(x, c, done);
    r->held_n = 0;
    if (format_blank(c))
        return true;
    r->sub = in_array(r) ? BARE_VALUE : BARE_NEXT;
    format_arguments(x, ", ", 2);
    return c == ',';
}

void format_bare_take(struct format_run *x, const struct format_step *s, unsigned char c)
{
    struct recogniser *r = x->r;
    const char *quote = r->cfg.format->quote;
    bool fine, done = false;
    switch (r->sub) {
    case BARE_FIRST:
    case BARE_NEXT: fine = key(x, quote, c, &done); break;
    case BARE_VALUE:
    case BARE_ITEM: fine = value(x, quote, c, &done); break;
    case BARE_QUOTE:
    case BARE_TEXT: fine = text(x, quote); break;
    case BARE_WORD: fine = strchr(",]}", c) ? end_word(x) : r->held_n < 256; break;
    default: fine = after(x, c, &done); break;
    }
    if (!fine)
        format_fail(x);
    else if (done)
        format_follow(x, s->on);
}

enum recogniser_point format_bare_point(const struct recogniser *r)
{
    if (r->json.depth > 1)
        return RECOGNISER_VALUE;
    switch (r->sub) {
    case BARE_FIRST:
    case BARE_NEXT: return r->held_n ? RECOGNISER_KEY : RECOGNISER_ARGS;
    case BARE_VALUE: return RECOGNISER_KEYED;
    case BARE_AFTER: return RECOGNISER_VALUE_DONE;
    default: return RECOGNISER_VALUE;
    }
}
