/*
 * pairs: arguments that are written as keys and values between tags.
 *
 * The tool's schema says what a value is: text where it may only be a string; otherwise the JSON that it spells, if that
 * is of a type the schema allows, and text if not. To know, a value is held back: up to HELD_VALUE bytes. A longer one
 * that began as an object or array goes on as such, and breaks the call if it is none; any other is text.
 */
#include <string.h>

#include "format/inside.h"

#define HELD_VALUE 768u

#define LITERAL 128u /* in r->types: a string comes as JSON, too */

enum { VALUE_NONE, VALUE_UNDECIDED, VALUE_TEXT, VALUE_JSON };

void format_key_take(struct format_run *x, const struct format_step *s)
{
    struct recogniser *r = x->r;
    const char *text = r->held;
    size_t n = r->held_n;
    for (const struct format_mark *m = s->on; m->text; m++) {
        size_t len = strlen(m->text);
        if (n < len || memcmp(text + n - len, m->text, len))
            continue;
        n -= len;
        bool first = !r->keys_n;
        if (!n || n > LIMIT_CALL_KEY || first + r->keys_n > LIMIT_CALL_KEYS || !format_key(r, text, n)) {
            format_fail(x);
            return;
        }
        memcpy(r->word, text, n);
        r->word_n = (uint16_t)n;
        format_arguments(x, first ? "{\"" : ", \"", first ? 2 : 3);
        for (size_t i = 0; i < n; i++)
            format_escape(x, (unsigned char)r->word[i]);
        format_arguments(x, "\": ", 3);
        format_follow(x, m);
        return;
    }
    if (n > LIMIT_CALL_KEY + 32)
        format_fail(x);
}

void format_value_enter(struct format_run *x, const struct format_step *s)
{
    struct recogniser *r = x->r;
    if (s->kind == STEP_VALUE)
        r->types = (uint8_t)format_tools_types(r->cfg.tools, r->tool, r->word, r->word_n);
    else
        r->types = s->kind == STEP_STRING ? TYPE_STRING : TYPE_ANY | LITERAL;
    r->value = VALUE_NONE;
    r->fresh = s->flags & STEP_LINES;
}

static void give_text(struct format_run *x, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        format_escape(x, (unsigned char)text[i]);
}

/* Bytes of a value that is JSON; false: it is not. */
static bool give_json(struct format_run *x, const char *text, size_t n)
{
    struct recogniser *r = x->r;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        enum json_step s = r->json.state == LEX_END ? (format_blank(c) ? JSON_MORE : JSON_BAD)
                                                    : format_json_take(&r->json, c);
        if (s == JSON_BAD)
            return false;
        if (s == JSON_CONTROL)
            format_escape(x, c);
        else
            format_give(x, RECOGNISER_ARGUMENTS, c);
    }
    return true;
}

/* The whole of a value is known. Python's words are JSON's, too. */
static void give_whole(struct format_run *x, const char *text, size_t n)
{
    static const char *const python[] = {"True", "False", "None"}, *const json[] = {"true", "false", "null"};
    struct recogniser *r = x->r;
    const char *value = text;
    size_t from = 0, to = n;
    while (from < to && format_blank((unsigned char)text[from]))
        from++;
    while (to > from && format_blank((unsigned char)text[to - 1]))
        to--;
    value += from;
    size_t value_n = to - from;
    for (int i = 0; i < 3; i++) {
        if (value_n == strlen(python[i]) && !memcmp(value, python[i], value_n))
            value = json[i], value_n = strlen(json[i]);
    }
    unsigned type = 0, allowed = r->types & LITERAL ? TYPE_ANY : r->types & ~(unsigned)TYPE_STRING;
    if (allowed & TYPE_NUMBER)
        allowed |= TYPE_INTEGER;
    if (format_json_is(value, value_n, &type) && type & allowed) {
        format_arguments(x, value, value_n);
        return;
    }
    format_give(x, RECOGNISER_ARGUMENTS, '"');
    give_text(x, text, n);
    format_give(x, RECOGNISER_ARGUMENTS, '"');
}

/* A value has become too long to be held: is it an object or array so far? What is held may end with part of the mark,
 * which begins with '<'. */
static void decide(struct format_run *x)
{
    struct recogniser *r = x->r;
    size_t i = 0;
    while (i < r->held_n && format_blank((unsigned char)r->held[i]))
        i++;
    char c = i < r->held_n ? r->held[i] : 0;
    bool json = (c == '{' && r->types & TYPE_OBJECT) || (c == '[' && r->types & TYPE_ARRAY);
    struct recogniser_json j;
    format_json_clear(&j);
    for (; i < r->held_n && json; i++) {
        unsigned char b = (unsigned char)r->held[i];
        json = j.state == LEX_END ? format_blank(b) || b == '<' : format_json_take(&j, b) != JSON_BAD;
        if (b == '<' && j.state == LEX_END)
            break;
    }
    r->value = json ? VALUE_JSON : VALUE_TEXT;
    format_json_clear(&r->json);
    if (!json)
        format_give(x, RECOGNISER_ARGUMENTS, '"');
}

/* How many of the last bytes held may be the beginning of what ends the value: the mark, after a line feed. */
static size_t ending(const char *text, size_t n, const char *mark, bool lines)
{
    size_t len = strlen(mark), most = n < len ? n : len;
    for (size_t k = most; k > 0; k--) {
        if (!memcmp(text + n - k, mark, k))
            return k + (lines && n > k && text[n - k - 1] == '\n');
    }
    return lines && n && text[n - 1] == '\n';
}

static bool give_value(struct format_run *x, size_t n)
{
    struct recogniser *r = x->r;
    if (r->value == VALUE_JSON && !give_json(x, r->held, n))
        return false;
    if (r->value == VALUE_TEXT)
        give_text(x, r->held, n);
    memmove(r->held, r->held + n, r->held_n - n);
    r->held_n -= (uint16_t)n;
    return true;
}

/* The mark has come; the value is the first n bytes held. */
static bool end_value(struct format_run *x, size_t n)
{
    struct recogniser *r = x->r;
    if (r->value == VALUE_UNDECIDED) {
        give_whole(x, r->held, n);
        return true;
    }
    if (!give_value(x, n))
        return false;
    if (r->value == VALUE_TEXT)
        format_give(x, RECOGNISER_ARGUMENTS, '"');
    return r->value == VALUE_TEXT || r->json.state == LEX_END;
}

void format_value_take(struct format_run *x, const struct format_step *s)
{
    struct recogniser *r = x->r;
    bool lines = s->flags & STEP_LINES;
    if (r->fresh && r->held[0] == '\n') {
        r->held_n = 0;
        r->fresh = false;
        return;
    }
    r->fresh = false;
    if (r->value == VALUE_NONE) {
        r->value = r->types == TYPE_STRING ? VALUE_TEXT : VALUE_UNDECIDED;
        if (r->value == VALUE_TEXT)
            format_give(x, RECOGNISER_ARGUMENTS, '"');
    }
    size_t len = strlen(s->on->text);
    if (r->held_n >= len && !memcmp(r->held + r->held_n - len, s->on->text, len)) {
        size_t n = r->held_n - len;
        n -= lines && n && r->held[n - 1] == '\n';
        if (end_value(x, n))
            format_follow(x, s->on);
        else
            format_fail(x);
        return;
    }
    if (r->value == VALUE_UNDECIDED && r->held_n == HELD_VALUE)
        decide(x);
    if (r->value != VALUE_UNDECIDED && !give_value(x, r->held_n - ending(r->held, r->held_n, s->on->text, lines)))
        format_fail(x);
}
