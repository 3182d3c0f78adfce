/*
 * call: calls that are written as JSON: {"name": …, "arguments": {…}}, or the arguments alone.
 *
 * Arguments go on as they are written, but for line feeds and their like inside strings, which models forget to escape.
 * Where the arguments are a string that spells an object ("{\"a\": 1}"), they are what it spells.
 */
#include <string.h>

#include "format/inside.h"

/* ---- keys ---- */

bool format_key(struct recogniser *r, const char *key, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
    uint32_t known = r->keys_n < LIMIT_CALL_KEYS ? r->keys_n : LIMIT_CALL_KEYS;
    for (uint32_t i = 0; i < known; i++) {
        if (r->hashes[i] == h)
            return false;
    }
    if (r->keys_n < LIMIT_CALL_KEYS)
        r->hashes[r->keys_n] = h;
    else
        r->loose = true;
    r->keys_n++;
    r->key = r->cfg.tools ? format_tools_key(r->cfg.tools, (size_t)r->tool, key, n) : -1;
    if (r->key >= 0 && r->key < 64)
        r->keys |= 1ull << r->key;
    else
        r->other_keys++;
    return true;
}

void format_escape(struct format_run *x, unsigned char c)
{
    static const char from[] = "\"\\\n\t\r\b\f", to[] = "\"\\ntrbf", hex[] = "0123456789abcdef";
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        char pair[2] = {'\\', to[at - from]};
        format_arguments(x, pair, 2);
    } else if (c < 0x20) {
        char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        format_arguments(x, code, 6);
    } else {
        format_give(x, RECOGNISER_ARGUMENTS, c);
    }
}

/* ---- the arguments ---- */

void format_args_enter(struct recogniser *r)
{
    format_json_clear(&r->json);
    r->word_n = 0;
    r->value = 0;
}

/* A key at depth 1 comes byte by byte; its escapes are not undone, so a key that has some proves nothing. */
static void watch_key(struct recogniser *r, uint8_t before, unsigned char c)
{
    const struct recogniser_json *j = &r->json;
    if (j->depth != 1 || (before != LEX_KEY && j->state != LEX_KEY))
        return;
    if (before != LEX_KEY && before != LEX_KEY_ESCAPE && before != LEX_KEY_HEX) {
        r->word_n = 0; /* the opening quote */
        r->escaped = false;
        r->key = -1;
    } else if (j->state == LEX_COLON) {
        if (r->escaped || !format_key(r, r->word, r->word_n))
            r->loose = true;
    } else if (c == '\\' || r->word_n == sizeof r->word) {
        r->escaped = true;
    } else {
        r->word[r->word_n++] = (char)c;
    }
}

/* One byte of the arguments' text. */
static enum json_step args(struct format_run *x, unsigned char c)
{
    struct recogniser *r = x->r;
    uint8_t before = r->json.state;
    if (!r->json.depth) {
        if (format_blank(c))
            return JSON_MORE;
        if (c != '{')
            return JSON_BAD;
    }
    enum json_step s = format_json_take(&r->json, c);
    if (s == JSON_BAD)
        return s;
    watch_key(r, before, c);
    if (s == JSON_CONTROL)
        format_escape(x, c);
    else
        format_give(x, RECOGNISER_ARGUMENTS, c);
    return s;
}

static enum recogniser_point args_point(const struct recogniser *r)
{
    const struct recogniser_json *j = &r->json;
    if (!j->depth)
        return RECOGNISER_NAMED;
    if (j->depth > 1)
        return RECOGNISER_VALUE;
    switch (j->state) {
    case LEX_FIRST_KEY:
    case LEX_NEXT_KEY: return RECOGNISER_ARGS;
    case LEX_KEY:
    case LEX_KEY_ESCAPE:
    case LEX_KEY_HEX: return RECOGNISER_KEY;
    case LEX_COLON:
    case LEX_VALUE: return RECOGNISER_KEYED;
    case LEX_AFTER: return RECOGNISER_VALUE_DONE;
    default: return RECOGNISER_VALUE;
    }
}

enum recogniser_point format_args_point(const struct recogniser *r)
{
    return args_point(r);
}

/* ---- arguments in a string ---- */

enum { PLAIN, ESCAPE, HEX };

static enum json_step utf8(struct format_run *x, uint32_t c)
{
    unsigned char b[4];
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = n - 1; i > 0; i--, c >>= 6)
        b[i] = 0x80 | (c & 0x3f);
    b[0] = lead[n] | (unsigned char)c;
    enum json_step s = JSON_MORE;
    for (int i = 0; i < n && (s == JSON_MORE || s == JSON_CONTROL); i++)
        s = args(x, b[i]);
    return s;
}

/* A \uXXXX is complete: half a pair waits for the other half. */
static enum json_step code_unit(struct format_run *x)
{
    struct recogniser *r = x->r;
    uint32_t c = r->code, high = r->high;
    bool low = c >= 0xdc00 && c < 0xe000;
    r->value = PLAIN;
    r->high = 0;
    if (high != 0)
        return low ? utf8(x, 0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00)) : JSON_BAD;
    if (low)
        return JSON_BAD;
    if (c >= 0xd800 && c < 0xdc00) {
        r->high = (uint16_t)c;
        return JSON_MORE;
    }
    return utf8(x, c);
}

/* A byte inside the string. JSON_DONE: the string has ended, and the object in it is complete. */
static enum json_step quoted(struct format_run *x, unsigned char c)
{
    struct recogniser *r = x->r;
    if (r->value == HEX) {
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return JSON_BAD;
        r->code = (uint16_t)(r->code << 4 | digit);
        return --r->types ? JSON_MORE : code_unit(x);
    }
    if (r->value == ESCAPE) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *at = c ? strchr(from, c) : NULL;
        if (c == 'u') {
            r->value = HEX, r->types = 4, r->code = 0;
            return JSON_MORE;
        }
        r->value = PLAIN;
        return at && !r->high ? args(x, (unsigned char)to[at - from]) : JSON_BAD;
    }
    if (c == '\\') {
        r->value = ESCAPE;
        return JSON_MORE;
    }
    if (r->high)
        return JSON_BAD;
    if (c == '"')
        return r->json.state == LEX_END ? JSON_DONE : JSON_BAD;
    return r->json.state == LEX_END ? (format_blank(c) ? JSON_MORE : JSON_BAD) : args(x, c);
}

/* ---- the object around ---- */

enum {
    OBJECT_OPEN,
    OBJECT_FIRST, /* a key or nothing */
    OBJECT_NEXT,  /* a key */
    OBJECT_KEY,
    OBJECT_COLON,
    OBJECT_NAME_QUOTE,
    OBJECT_NAME,
    OBJECT_NAME_ESCAPE,
    OBJECT_ARGS,
    OBJECT_QUOTED,
    OBJECT_OTHER,
    OBJECT_AFTER
};

enum { SEEN_NAME = 1, SEEN_ARGS = 2, SEEN_ID = 4, SEEN_TYPE = 8 };

static const struct {
    const char *name;
    uint8_t bit;
} KEYS[] = {{"name", SEEN_NAME}, {"arguments", SEEN_ARGS}, {"parameters", SEEN_ARGS}, {"id", SEEN_ID}, {"type", SEEN_TYPE}};

void format_object_enter(struct recogniser *r)
{
    r->sub = OBJECT_OPEN;
    r->seen = 0;
    r->word_n = 0;
}

/* The key in `word` is complete: its bit, or 0 if it is none of a call, came before, or its arguments before the name. */
static uint8_t object_key(struct recogniser *r)
{
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        if (strlen(KEYS[i].name) != r->word_n || memcmp(KEYS[i].name, r->word, r->word_n))
            continue;
        if (r->seen & KEYS[i].bit || (KEYS[i].bit == SEEN_ARGS && !r->begun))
            return 0;
        r->seen |= KEYS[i].bit;
        return KEYS[i].bit;
    }
    return 0;
}

/* A byte of white space, or one of those between keys and values. */
static bool object_between(struct recogniser *r, unsigned char c)
{
    switch (r->sub) {
    case OBJECT_OPEN:
        r->sub = OBJECT_FIRST;
        return c == '{';
    case OBJECT_FIRST:
    case OBJECT_NEXT:
        r->sub = OBJECT_KEY;
        r->word_n = 0;
        return c == '"';
    case OBJECT_NAME_QUOTE:
        r->sub = OBJECT_NAME;
        r->word_n = 0;
        return c == '"';
    case OBJECT_AFTER:
        r->sub = OBJECT_NEXT;
        return c == ',';
    default: { /* OBJECT_COLON: the key's bit is in `types` */
        static const uint8_t next[] = {[SEEN_NAME] = OBJECT_NAME_QUOTE, [SEEN_ARGS] = OBJECT_ARGS,
                                       [SEEN_ID] = OBJECT_OTHER, [SEEN_TYPE] = OBJECT_OTHER};
        r->sub = next[r->types];
        format_json_clear(&r->other);
        if (r->sub == OBJECT_ARGS)
            format_args_enter(r);
        return c == ':';
    }
    }
}

static bool object_word(struct format_run *x, unsigned char c)
{
    struct recogniser *r = x->r;
    if (r->sub == OBJECT_NAME_ESCAPE) {
        r->sub = OBJECT_NAME;
        if (c != '"' && c != '\\' && c != '/')
            return false;
    } else if (c == '"') {
        if (r->sub == OBJECT_NAME) {
            r->sub = OBJECT_AFTER;
            return format_begin(x, r->word, r->word_n);
        }
        r->sub = OBJECT_COLON;
        r->types = object_key(r);
        return r->types != 0;
    } else if (c == '\\' && r->sub == OBJECT_NAME) {
        r->sub = OBJECT_NAME_ESCAPE;
        return true;
    }
    if (c < 0x20 || (c == '\\' && r->sub == OBJECT_KEY) || r->word_n == sizeof r->word)
        return false;
    r->word[r->word_n++] = (char)c;
    return true;
}

static bool object_args(struct format_run *x, unsigned char c)
{
    struct recogniser *r = x->r;
    if (r->sub == OBJECT_ARGS && !r->json.depth && c == '"') {
        r->sub = OBJECT_QUOTED;
        r->loose = true;
        r->value = PLAIN;
        r->high = 0;
        return true;
    }
    enum json_step s = r->sub == OBJECT_QUOTED ? quoted(x, c) : args(x, c);
    if (s == JSON_DONE && (r->sub == OBJECT_ARGS || c == '"'))
        r->sub = OBJECT_AFTER;
    return s != JSON_BAD;
}

static bool object_other(struct format_run *x, unsigned char c)
{
    enum json_step s = format_json_take(&x->r->other, c);
    if (s == JSON_DONE || s == JSON_BEFORE)
        x->r->sub = OBJECT_AFTER;
    if (s == JSON_BEFORE)
        format_back(x, 1);
    return s != JSON_BAD && s != JSON_CONTROL;
}

void format_object_take(struct format_run *x, const struct format_step *s, unsigned char c)
{
    struct recogniser *r = x->r;
    bool fine;
    if (c == '}' && r->sub == OBJECT_AFTER && r->begun) {
        if (!(r->seen & SEEN_ARGS))
            format_arguments(x, "{}", 2);
        format_follow(x, s->on);
        return;
    }
    if (r->sub == OBJECT_ARGS || r->sub == OBJECT_QUOTED)
        fine = object_args(x, c);
    else if (r->sub == OBJECT_KEY || r->sub == OBJECT_NAME || r->sub == OBJECT_NAME_ESCAPE)
        fine = object_word(x, c);
    else if (r->sub == OBJECT_OTHER)
        fine = object_other(x, c);
    else
        fine = format_blank(c) || object_between(r, c);
    if (!fine)
        format_fail(x);
    else if (r->begun)
        r->held_n = 0;
}

enum recogniser_point format_object_point(const struct recogniser *r)
{
    if (r->sub == OBJECT_NAME || r->sub == OBJECT_NAME_ESCAPE)
        return RECOGNISER_NAME;
    if (!r->begun)
        return RECOGNISER_OPENING;
    if (r->sub == OBJECT_ARGS || r->sub == OBJECT_QUOTED)
        return args_point(r);
    return r->seen & SEEN_ARGS && r->sub >= OBJECT_OTHER ? RECOGNISER_CLOSING : RECOGNISER_NAMED;
}

void format_args_take(struct format_run *x, const struct format_step *s, unsigned char c)
{
    enum json_step step = args(x, c);
    if (step == JSON_BAD)
        format_fail(x);
    else if (step == JSON_DONE)
        format_follow(x, s->on);
    else
        x->r->held_n = 0;
}
