/*
 * likely_json: the white space of a JSON text. Private to source.
 *
 * `source_json` follows a JSON text byte by byte, tells what means something from the white space between, and learns how
 * this text writes that: for each place where white space may stand, a fixed string, or a line break and an indentation
 * of so many units. From this it says what white space is to be expected before a byte. It does not check the text: a
 * grammar does.
 *
 * A place that has not come yet is taken to look like the place most like it: the items of an array stand on lines of
 * their own if those of objects do.
 */
#ifndef SOURCE_LIKELY_JSON_H
#define SOURCE_LIKELY_JSON_H

#include <stdbool.h>
#include <stdint.h>

enum {
    JSON_DEPTH = 64, /* containers in each other; a text with more is not followed any further */
    JSON_GAP = 80,   /* bytes of white space in one place; longer ones are not learnt */
    JSON_HEAD = 8
};

/* Where white space may stand. Arrays differ by what they hold: short ones of numbers often stay on one line. */
enum json_place {
    JSON_TOP,       /* before everything */
    JSON_EMPTY,     /* between the brackets of an empty container */
    JSON_BEFORE_COLON,
    JSON_BEFORE_COMMA,
    JSON_VALUE,     /* behind ':' */
    JSON_OPEN,      /* behind '{', '[' of plain values, '[' of containers */
    JSON_ITEM = JSON_OPEN + 3,  /* behind ',', likewise */
    JSON_CLOSE = JSON_ITEM + 3, /* before '}', ']', likewise */
    JSON_PLACES = JSON_CLOSE + 3
};

struct json_spot {
    char head[JSON_HEAD];
    uint8_t n;
    bool lines; /* the head ends with a line break, and an indentation follows */
    bool known; /* has come in this text or in an earlier one */
    bool seen;  /* in this one */
};

struct json_style {
    struct json_spot spot[JSON_PLACES];
    uint8_t base, unit; /* an indentation is base + unit * depth times blank */
    char blank;
};

struct source_json {
    struct json_style style;
    uint64_t objects;  /* bit d: the container at depth d + 1 is an object */
    uint8_t depth;
    uint8_t came;      /* what stood last, outside strings */
    bool in_string, is_key, escaped;
    bool in_scalar;    /* in a number or a word, as far as one can tell */
    bool held;         /* the last value was a container */
    bool lost;         /* nothing is known about this text any more */
    char gap[JSON_GAP]; /* white space since the last byte that was none */
    uint8_t gap_n;     /* JSON_GAP: too much */
};

void source_json_style_init(struct json_style *s);

/* A text that is written as earlier ones were, or as most are. One that is a whole reply begins without white space. */
void source_json_begin(struct source_json *j, const struct json_style *earlier, bool behind_text);

/* The next byte. False: it is white space that means nothing. */
bool source_json_put(struct source_json *j, char b);

/* White space may stand before b. */
bool source_json_parts(const struct source_json *j, char b);

/* The white space that is still to come before b, into out[JSON_GAP]; how much. UINT32_MAX: what has come is not its
 * beginning. *seen: this text has shown it. */
uint32_t source_json_gap(const struct source_json *j, char b, char *out, bool *seen);

/* b could follow here without regard to grammar, given that white space may have ended a number. */
bool source_json_fits(const struct source_json *j, char b);

/* What this text taught, for later ones. */
void source_json_pass_on(const struct source_json *j, struct json_style *earlier, bool behind_text);

#endif
