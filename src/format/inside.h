/*
 * inside: what the files of format/ share.
 *
 * A format is a table of steps. A recogniser stands at one step of an open call; each step reads a kind of text and ends
 * with one of a few marks, which name the next. So a format's file shows its calls as they are written, and one machine,
 * byte by byte, reads them all.
 */
#ifndef FORMAT_INSIDE_H
#define FORMAT_INSIDE_H

#include "format/format.h"

enum step_kind {
    STEP_NONE,
    STEP_MARKS,  /* one of the marks */
    STEP_NAME,   /* the tool's name, up to a mark */
    STEP_SKIP,   /* text that says nothing (an id), up to a mark */
    STEP_OBJECT, /* {"name": …, "arguments": {…}}; then the first mark's next */
    STEP_ARGS,   /* the arguments as a JSON object; then the first mark's next */
    STEP_KEY,    /* the name of an argument, up to a mark */
    STEP_VALUE,  /* its value, up to the first mark: text or JSON by the tool's schema */
    STEP_STRING, /* the same, text whatever the schema says */
    STEP_JSON,   /* the same, JSON */
    STEP_BARE    /* the arguments in Gemma's notation, after "{": {key:<|"|>text<|"|>,n:1}; then the first mark's next */
};

enum step_flags {
    STEP_WS = 1,    /* white space before a mark, around a name */
    STEP_FINAL = 2, /* where the reply ends here, the call is complete */
    STEP_SOFT = 4,  /* where no mark comes, the call is complete as well, and what comes is content */
    STEP_LINES = 8  /* a value stands on lines of its own: one line feed before and after is not part of it */
};

enum mark_flags {
    MARK_END = 1,  /* the call is complete */
    MARK_AGAIN = 2 /* the mark's last byte belongs to the next step */
};

#define STEP_OUT 255u /* next: back to content */
#define STEP_MARKS_N 3

struct format_mark {
    const char *text;
    uint8_t next, flags;
};

struct format_step {
    uint8_t kind, flags;
    uint8_t point; /* STEP_MARKS, STEP_SKIP behind the name: the recogniser_point that it stands for */
    struct format_mark on[STEP_MARKS_N + 1]; /* ends with text == NULL */
};

/* How a call is written by a grammar. */
enum format_form {
    FORM_OBJECT, /* {"name": NAME, "arguments": ARGUMENTS}: the name is in JSON */
    FORM_NAMED,  /* name and JSON arguments apart */
    FORM_PAIRS,  /* keys and values */
    FORM_BARE    /* Gemma's notation */
};

struct format {
    const char *name;
    enum format_form form;
    bool keeps_special;
    bool at_start;  /* a call comes first in a reply or after another one, not behind content */
    const struct format_mark *openers;
    const struct format_step *steps; /* STEP_NONE at the end */
    const char *quote;        /* FORM_BARE: what stands on both sides of a string */
    const char *const *marks; /* that may be control tokens, NULL at the end */
    struct format_shape shape;
    bool (*detect)(const char *source, size_t n);
};

extern const struct format format_hermes, format_qwen_xml, format_seed, format_llama3, format_mistral, format_mistral_args,
    format_gemma, format_functiongemma, format_glm, format_deepseek, format_deepseek_v31, format_deepseek_v32,
    format_deepseek_v4;

/* Whether source[n] contains the text. */
bool format_has(const char *source, size_t n, const char *text);

/* ---- json.c: whether bytes are JSON, one at a time ---- */

enum json_state {
    LEX_VALUE, /* a value is to come */
    LEX_FIRST_ITEM, LEX_FIRST_KEY, LEX_NEXT_KEY, LEX_COLON, LEX_AFTER,
    LEX_STRING, LEX_STRING_ESCAPE, LEX_STRING_HEX, LEX_KEY, LEX_KEY_ESCAPE, LEX_KEY_HEX,
    LEX_MINUS, LEX_ZERO, LEX_INTEGER, LEX_POINT, LEX_FRACTION, LEX_E, LEX_E_SIGN, LEX_EXPONENT,
    LEX_WORD, LEX_END
};

enum json_step {
    JSON_MORE,   /* taken */
    JSON_DONE,   /* taken, and the value is complete */
    JSON_BEFORE, /* not taken: the value, a number, was complete before it */
    JSON_CONTROL, /* taken, but a control character in a string, which JSON wants escaped */
    JSON_BAD
};

#define JSON_DEPTH 63u

void format_json_clear(struct recogniser_json *j);
enum json_step format_json_take(struct recogniser_json *j, unsigned char c);

/* Whether text[n] is one JSON value; *type: its format_type. */
bool format_json_is(const char *text, size_t n, unsigned *type);

bool format_blank(unsigned char c); /* space, tab, line feed, carriage return */

/* ---- tools.c ---- */

enum format_type {
    TYPE_STRING = 1,
    TYPE_NUMBER = 2,
    TYPE_INTEGER = 4,
    TYPE_BOOLEAN = 8,
    TYPE_NULL = 16,
    TYPE_OBJECT = 32,
    TYPE_ARRAY = 64,
    TYPE_ANY = 127
};

struct format_key {
    const char *name;
    size_t name_n;
    unsigned types; /* format_type bits its value may have */
    bool required;
    bool refers;        /* its schema needs what is shared */
    const char *schema; /* [schema_n] JSON of its own schema, an object */
    size_t schema_n;
};

struct format_keys {
    const struct format_key *at; /* [n], in the schema's order */
    size_t n;
    bool open; /* other keys may come */
    const char *shared; /* [shared_n] members to be added to the schema of a key that refers */
    size_t shared_n;
};

const struct format_keys *format_tools_keys(const struct format_tools *t, size_t tool);

/* Types of the value of a key; TYPE_ANY without tools or for a key that the schema does not name. */
unsigned format_tools_types(const struct format_tools *t, int tool, const char *key, size_t n);

/* ---- lark.c: writing grammars ---- */

/* Text in a grammar: literals, the ids of control tokens, and ids of calls. */
struct lark {
    struct buf *out;
    struct buf piece; /* scratch */
    const struct format *format;
    const struct format_shape *shape;
    const struct format_request *request;
};

void format_lark_string(struct buf *out, const char *text, size_t n); /* "…", with escapes */
void format_lark_regex(struct buf *out, const char *text, size_t n);  /* the inside of /…/ that matches just this */

/* What matches text[n]: literals, control tokens and ids of calls, each with a space before it. */
void format_lark_piece(struct lark *l, const char *text, size_t n);

/* The control token that text[n] begins with, or NULL. */
const struct format_special *format_lark_special(const struct lark *l, const char *text, size_t n);

/* A rule `name`: text that does not contain `mark`, then `ending`, whose part of `mark` it therefore ends with. */
void format_lark_until(struct lark *l, const char *name, const char *mark, const char *ending);

/* {schema} and more[more_n], members that count instead of its own, with the shape's separators and without white space. */
void format_lark_json(struct lark *l, const char *schema, size_t n, const char *more, size_t more_n);

/* grammar_pairs.c, grammar_bare.c: the arguments of a tool: a rule args_<tool>. ST_ARGUMENT: a key that cannot be
 * written. */
MUST_CHECK enum status format_lark_pairs(struct lark *l, size_t tool, struct err *e);
MUST_CHECK enum status format_lark_bare(struct lark *l, size_t tool, struct err *e);

/* ST_ARGUMENT: a name of an argument that the format cannot write. */
MUST_CHECK enum status format_lark_check_key(const struct lark *l, size_t tool, const char *key, size_t n,
                                             struct err *e);

/* Rules that those share, once for a grammar. */
void format_lark_pairs_shared(struct lark *l);
void format_lark_bare_shared(struct lark *l);

/* ---- quotes.c: whether content quotes ---- */

void format_quotes_clear(struct recogniser_quotes *q);
void format_quotes_take(struct recogniser_quotes *q, unsigned char c);
bool format_quotes_open(const struct recogniser_quotes *q);

/* ---- recogniser.c: what the readers of calls build on ---- */

/* One call of recogniser_feed(). Text for the sink is collected in `out`; bytes that turned out to be something else than
 * they were held back for are read again from `again`. While that has unread bytes, all of r->held came from it. */
struct format_run {
    struct recogniser *r;
    recogniser_sink *sink;
    void *user;
    enum recogniser_kind kind;
    size_t out_n, again_n, again_at;
    char out[256], again[RECOGNISER_HELD];
};

void format_give(struct format_run *x, enum recogniser_kind kind, unsigned char c); /* one byte of text */
void format_arguments(struct format_run *x, const char *text, size_t n);
void format_back(struct format_run *x, size_t n); /* the last n bytes of held are read again */

/* The open call's name is known; false: it is no tool's. */
bool format_begin(struct format_run *x, const char *name, size_t n);
void format_follow(struct format_run *x, const struct format_mark *m); /* a mark is complete */
void format_fail(struct format_run *x);                                /* this is no call */

/* Compares text[n] with the marks: the one that it is, or NULL; *part: it may become one. */
const struct format_mark *format_marked(const struct format_mark *marks, const char *text, size_t n, bool *part);

/* ---- call.c, pairs.c, bare.c: a byte of a step, which is the last of r->held ---- */

void format_object_enter(struct recogniser *r);
void format_object_take(struct format_run *x, const struct format_step *s, unsigned char c);
void format_args_enter(struct recogniser *r);
void format_args_take(struct format_run *x, const struct format_step *s, unsigned char c);
enum recogniser_point format_object_point(const struct recogniser *r);
enum recogniser_point format_args_point(const struct recogniser *r);

/* Notes a key of the open call; false: it has been there before. */
bool format_key(struct recogniser *r, const char *key, size_t n);
void format_escape(struct format_run *x, unsigned char c); /* a byte of a JSON string */

void format_key_take(struct format_run *x, const struct format_step *s);
void format_value_enter(struct format_run *x, const struct format_step *s);
void format_value_take(struct format_run *x, const struct format_step *s);

void format_bare_enter(struct format_run *x);
void format_bare_take(struct format_run *x, const struct format_step *s, unsigned char c);
enum recogniser_point format_bare_point(const struct recogniser *r);

#endif
