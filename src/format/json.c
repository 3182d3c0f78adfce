/*
 * json: an incremental check of JSON (RFC 8259), one byte at a time, in a few words of memory.
 *
 * Knows of a value only where it stands in it: no tree, no copy. Strings are taken to be UTF-8.
 */
#include <string.h>

#include "format/inside.h"

bool format_blank(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

void format_json_clear(struct recogniser_json *j)
{
    *j = (struct recogniser_json){.state = LEX_VALUE};
}

static const char *const WORDS[] = {"true", "false", "null"};

static bool is_array(const struct recogniser_json *j)
{
    return j->arrays >> j->depth & 1;
}

static enum json_step open_in(struct recogniser_json *j, bool array)
{
    if (j->depth == JSON_DEPTH)
        return JSON_BAD;
    j->depth++;
    j->arrays &= ~(1ull << j->depth);
    j->arrays |= (uint64_t)array << j->depth;
    j->state = array ? LEX_FIRST_ITEM : LEX_FIRST_KEY;
    return JSON_MORE;
}

/* A value at this depth is complete. */
static enum json_step complete(struct recogniser_json *j)
{
    j->state = j->depth ? LEX_AFTER : LEX_END;
    return j->depth ? JSON_MORE : JSON_DONE;
}

static enum json_step close_in(struct recogniser_json *j, unsigned char c)
{
    if ((c == ']') != is_array(j))
        return JSON_BAD;
    j->depth--;
    return complete(j);
}

static enum json_step value(struct recogniser_json *j, unsigned char c)
{
    switch (c) {
    case '{': return open_in(j, false);
    case '[': return open_in(j, true);
    case '"': j->state = LEX_STRING; return JSON_MORE;
    case '-': j->state = LEX_MINUS; return JSON_MORE;
    case '0': j->state = LEX_ZERO; return JSON_MORE;
    default: break;
    }
    if (c >= '1' && c <= '9') {
        j->state = LEX_INTEGER;
        return JSON_MORE;
    }
    for (uint8_t i = 0; i < 3; i++) {
        if (c == (unsigned char)WORDS[i][0]) {
            j->word = i, j->hex = 1, j->state = LEX_WORD;
            return JSON_MORE;
        }
    }
    return JSON_BAD;
}

/* Strings and keys: `base` is LEX_STRING or LEX_KEY, the two behind it are their escapes. */
static enum json_step string(struct recogniser_json *j, unsigned char c, uint8_t base)
{
    if (j->state == base + 2) { /* \uXXXX */
        bool hex = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
        if (hex && --j->hex == 0)
            j->state = base;
        return hex ? JSON_MORE : JSON_BAD;
    }
    if (j->state == base + 1) {
        if (!strchr("\"\\/bfnrtu", c) || !c)
            return JSON_BAD;
        j->state = c == 'u' ? base + 2 : base;
        j->hex = 4;
        return JSON_MORE;
    }
    if (c == '\\') {
        j->state = base + 1;
    } else if (c == '"') {
        if (base == LEX_STRING)
            return complete(j);
        j->state = LEX_COLON;
    }
    return c < 0x20 ? JSON_CONTROL : JSON_MORE;
}

static enum json_step after(struct recogniser_json *j, unsigned char c)
{
    if (c == ',') {
        j->state = is_array(j) ? LEX_VALUE : LEX_NEXT_KEY;
        return JSON_MORE;
    }
    return c == '}' || c == ']' ? close_in(j, c) : JSON_BAD;
}

/* The byte ends a number. */
static enum json_step number_end(struct recogniser_json *j, unsigned char c)
{
    if (complete(j) == JSON_DONE)
        return JSON_BEFORE;
    return format_blank(c) ? JSON_MORE : after(j, c);
}

static enum json_step exponent(struct recogniser_json *j, unsigned char c, bool digit)
{
    bool sign = j->state == LEX_E && (c == '+' || c == '-');
    if (!digit && !sign)
        return j->state == LEX_EXPONENT ? number_end(j, c) : JSON_BAD;
    j->state = sign ? LEX_E_SIGN : LEX_EXPONENT;
    return JSON_MORE;
}

static enum json_step number(struct recogniser_json *j, unsigned char c)
{
    bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
    switch (j->state) {
    case LEX_MINUS:
        j->state = c == '0' ? LEX_ZERO : LEX_INTEGER;
        return digit ? JSON_MORE : JSON_BAD;
    case LEX_ZERO:
    case LEX_INTEGER:
        if (digit)
            return j->state == LEX_ZERO ? JSON_BAD : JSON_MORE;
        if (c != '.' && !e)
            return number_end(j, c);
        j->state = e ? LEX_E : LEX_POINT;
        return JSON_MORE;
    case LEX_POINT:
        j->state = LEX_FRACTION;
        return digit ? JSON_MORE : JSON_BAD;
    case LEX_FRACTION:
        if (!digit && !e)
            return number_end(j, c);
        j->state = e ? LEX_E : LEX_FRACTION;
        return JSON_MORE;
    default:
        return exponent(j, c, digit);
    }
}

enum json_step format_json_take(struct recogniser_json *j, unsigned char c)
{
    if (j->state >= LEX_STRING && j->state <= LEX_STRING_HEX)
        return string(j, c, LEX_STRING);
    if (j->state >= LEX_KEY && j->state <= LEX_KEY_HEX)
        return string(j, c, LEX_KEY);
    if (j->state >= LEX_MINUS && j->state <= LEX_EXPONENT)
        return number(j, c);
    if (j->state == LEX_WORD) {
        const char *w = WORDS[j->word];
        if (c != (unsigned char)w[j->hex])
            return JSON_BAD;
        return w[++j->hex] ? JSON_MORE : complete(j);
    }
    if (format_blank(c))
        return JSON_MORE;
    switch (j->state) {
    case LEX_VALUE:
        return value(j, c);
    case LEX_FIRST_ITEM:
        return c == ']' ? close_in(j, c) : value(j, c);
    case LEX_FIRST_KEY:
        if (c == '}')
            return close_in(j, c);
        /* fall through */
    case LEX_NEXT_KEY:
        j->state = LEX_KEY;
        return c == '"' ? JSON_MORE : JSON_BAD;
    case LEX_COLON:
        j->state = LEX_VALUE;
        return c == ':' ? JSON_MORE : JSON_BAD;
    case LEX_AFTER:
        return after(j, c);
    default:
        return JSON_BAD;
    }
}

static unsigned type_of(char c, bool fraction)
{
    switch (c) {
    case '{': return TYPE_OBJECT;
    case '[': return TYPE_ARRAY;
    case '"': return TYPE_STRING;
    case 'n': return TYPE_NULL;
    case 't':
    case 'f': return TYPE_BOOLEAN;
    default: return fraction ? TYPE_NUMBER : TYPE_INTEGER;
    }
}

bool format_json_is(const char *text, size_t n, unsigned *type)
{
    struct recogniser_json j;
    format_json_clear(&j);
    size_t i = 0;
    while (i < n && format_blank((unsigned char)text[i]))
        i++;
    bool number = i < n && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')), fraction = false;
    *type = i < n ? type_of(text[i], false) : 0;
    for (; i < n && j.state != LEX_END; i++) {
        fraction |= number && (text[i] == '.' || text[i] == 'e' || text[i] == 'E');
        enum json_step s = format_json_take(&j, (unsigned char)text[i]);
        if (s == JSON_BAD || s == JSON_CONTROL)
            return false;
    }
    if (j.state != LEX_END && (j.depth || format_json_take(&j, ' ') != JSON_BEFORE))
        return false;
    while (i < n && format_blank((unsigned char)text[i]))
        i++;
    if (number)
        *type = fraction ? TYPE_NUMBER : TYPE_INTEGER;
    return i == n;
}
