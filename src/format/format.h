/*
 * format: how models write reasoning and tool calls.
 *
 * A `format` is the shape in which a model's chat template writes tool calls: "<tool_call>\n{"name": …}\n</tool_call>"
 * and its like. A `recogniser` reads a reply of that format as it comes and says what is reasoning, content and calls. A
 * grammar makes a model write calls of just that shape. `template_rows` are the token runs that a template determines.
 *
 * Knows no protocol, tokenizer or model: bytes in, events out.
 * Threads: formats, tools and rows are immutable once made; a recogniser has one owner at a time.
 */
#ifndef FORMAT_FORMAT_H
#define FORMAT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* ---- formats ---- */

struct format;

/* The format of a name (`--tool-format`), or NULL. format_name_at() lists the names: NULL after the last. */
const struct format *format_find(const char *name, size_t n);
const char *format_name_at(size_t i);
const char *format_name(const struct format *f);

/* What the chat template in source[n] writes. A template without any tool calls is given Hermes' tags, which most models
 * have seen. NULL: it writes calls in a way of its own that is not known here; replies then stay text. */
const struct format *format_detect(const char *source, size_t n);

/* The text that a recogniser is fed has to contain control tokens by their spelling (tok_stream_new(…, special = true)):
 * this format's marks may be such. Without it, marks that are control tokens would be invisible. The same holds for the
 * tags of reasoning. End-of-turn ids are never fed. */
bool format_keeps_special(const struct format *f);

struct format_reasoning {
    const char *name;        /* "think", ... */
    const char *open, *close;
    bool keeps_special;
};

/* The tags in which the template writes reasoning, or NULL. */
const struct format_reasoning *format_detect_reasoning(const char *source, size_t n);
const struct format_reasoning *format_find_reasoning(const char *name, size_t n);

/* Whether a prompt that ends with tail[n] has opened reasoning, so that the reply begins inside it. */
bool format_opens_reasoning(const struct format_reasoning *g, const char *tail, size_t n);

/* ---- tools ---- */

/* The tools of a request: names, schemas, and what a recogniser has to know of the schemas. Reference-counted. */
struct format_tools;

struct format_tool {
    const char *name; /* [name_n] */
    size_t name_n;
    const char *schema; /* [schema_n] JSON Schema of the arguments; 0 bytes: any object */
    size_t schema_n;
};

/* ST_ARGUMENT names the tool ("tools[2].name"): an empty or repeated name, one with control characters or that is not
 * UTF-8, a schema that is not JSON. Copies everything. */
MUST_CHECK enum status format_tools_new(struct format_tools **out, const struct format_tool *tools, size_t n,
                                        struct err *e);
void format_tools_retain(struct format_tools *t);
void format_tools_free(struct format_tools *t); /* gives one reference back; NULL is fine */
size_t format_tools_n(const struct format_tools *t);
const struct format_tool *format_tools_at(const struct format_tools *t, size_t i);

/* Index of a tool or -1; of a tool's top-level property, in the schema's order, or -1. */
int format_tools_find(const struct format_tools *t, const char *name, size_t n);
int format_tools_key(const struct format_tools *t, size_t tool, const char *key, size_t n);

/* ---- recogniser ---- */

enum recogniser_kind {
    RECOGNISER_REASONING, /* text: without its tags and the white space next to them */
    RECOGNISER_CONTENT,   /* text: white space between content, reasoning and calls belongs to none */
    RECOGNISER_BEGIN,     /* a call begins: text is the tool's name, which is one of the tools */
    RECOGNISER_ARGUMENTS, /* text: more of its arguments, all together the text of a JSON object */
    RECOGNISER_END,       /* it is complete */
    RECOGNISER_BROKEN     /* it began, but is no call after all, or the reply ended in it. What has been given of it stands;
                             what follows is content. Who has not shown it yet takes the reply's bytes [from, at) as
                             content instead */
};

struct recogniser_event {
    enum recogniser_kind kind;
    const char *text; /* [n], valid during the call of the sink */
    size_t n;
    uint32_t call;     /* number of the call, from 0; of calls only */
    int32_t tool;      /* index of the tool; -1 without a list of tools */
    uint64_t from, at; /* BEGIN, END, BROKEN: offsets in the text that was fed: where the call began, which is its mark's
                          first byte, and the first byte behind what has been told */
};

typedef void recogniser_sink(void *user, const struct recogniser_event *ev);

struct recogniser_config {
    const struct format *format;              /* NULL: no calls are looked for */
    const struct format_reasoning *reasoning; /* NULL: no reasoning */
    const struct format_tools *tools;         /* borrowed; NULL: any name is a tool's */
    bool in_reasoning;                        /* the prompt opened it: format_opens_reasoning() */
};

/* Where a reply stands, as a proof: what this says is certain, and whatever is not certain says so. */
enum recogniser_place {
    RECOGNISER_AT_REASONING,
    RECOGNISER_AT_START,   /* nothing yet but white space or closed reasoning */
    RECOGNISER_AT_TEXT,    /* in content, outside everything that quotes */
    RECOGNISER_AT_QUOTED,  /* in content, in a code fence, backticks or quotation marks */
    RECOGNISER_AT_BETWEEN, /* after a complete call, nothing but white space since */
    RECOGNISER_AT_CALL,    /* in a call: `point` */
    RECOGNISER_AT_UNSURE   /* text was held back that may be several things, or something broke */
};

enum recogniser_point {
    RECOGNISER_OPENING,      /* its mark has begun or is complete, the name has not begun */
    RECOGNISER_NAME,         /* in the name, perhaps at its first byte */
    RECOGNISER_NAMED,        /* the name is complete, the arguments have not begun */
    RECOGNISER_ARGS,         /* in the arguments, before a key, after an opening brace or a separator */
    RECOGNISER_KEY,          /* in a key of the arguments, perhaps at its first byte */
    RECOGNISER_KEYED,        /* the key is complete, its value has not begun */
    RECOGNISER_VALUE,        /* in a value that is not lexically complete, or that could go on (a number) */
    RECOGNISER_VALUE_DONE,   /* the value is lexically complete */
    RECOGNISER_CLOSING,      /* the arguments are complete, the call is not */
    RECOGNISER_POINTS
};

struct recogniser_state {
    enum recogniser_place place;
    enum recogniser_point point; /* AT_CALL only, as are the next four */
    bool opening;                /* the mark itself is only partly there */
    int32_t tool;                /* from NAMED on; -1: not known */
    int32_t key;                 /* from KEYED to VALUE_DONE: index of the property; -1: not one of the schema */
    uint64_t keys;               /* bit i: property i of the tool has been written, the current one included */
    uint32_t other_keys;         /* keys written that are not among the first 64 properties */
    uint32_t calls;              /* complete calls so far */
    bool broken;                 /* some call of this reply was none */
};

#define RECOGNISER_HELD 1024u /* bytes that are held back at most */

/* Plain memory: a copy is a second recogniser at the same place. Everything in it is the recogniser's own. */
struct recogniser {
    struct recogniser_config cfg;
    uint64_t fed;   /* bytes, those in `held` included */
    uint64_t from;  /* where the open call began */
    uint32_t begun_n, calls; /* calls that began, and that were completed */
    uint8_t phase, place;    /* place: of content, AT_START, AT_TEXT or AT_BETWEEN */
    uint8_t step, sub;       /* in the format's table of steps, and within one */
    bool begun;              /* the open call has been told: BEGIN */
    bool trim;               /* white space that comes next belongs to nothing */
    bool loose;              /* the open call is quoted or otherwise doubtful */
    bool broken, escaped, fresh;
    uint8_t seen, value, types;
    uint16_t code, high; /* of an escape in a string that is being decoded */
    struct recogniser_json {
        uint8_t state, depth, hex, word;
        uint64_t arrays; /* bit d: what is open at depth d is an array */
    } json, other;
    struct recogniser_quotes {
        uint8_t fence, fence_n, ticks, run, run_byte, indent, line, last, utf;
        bool quote, curly, single, closing;
    } quotes;
    int32_t tool, key;
    uint64_t keys;
    uint32_t other_keys, keys_n;
    uint16_t blank;  /* bytes of white space that `held` begins with, before a mark may have begun */
    uint16_t mark;   /* in `held`: where what is being matched begins */
    uint16_t held_n, word_n;
    char word[LIMIT_CALL_KEY];        /* a key, as far as it has come */
    uint64_t hashes[LIMIT_CALL_KEYS]; /* of the open call's keys: [min(keys_n, LIMIT_CALL_KEYS)] */
    char held[RECOGNISER_HELD];
};

void recogniser_init(struct recogniser *r, const struct recogniser_config *cfg);
void recogniser_clear(struct recogniser *r); /* ready for another reply with the same config */

/* Takes the next n bytes of the reply (see format_keeps_special()). However the reply is cut, the sink is told the same,
 * pieces of one kind joined. Never fails and never allocates; the sink may not touch r. */
void recogniser_feed(struct recogniser *r, const char *text, size_t n, recogniser_sink *sink, void *user);

/* The reply has ended: what was held back comes out, and a call that is open is complete or broken. */
void recogniser_end(struct recogniser *r, recogniser_sink *sink, void *user);

void recogniser_look(const struct recogniser *r, struct recogniser_state *out);

/* ---- grammar ---- */

#define FORMAT_PIECE 96u

/* How a template writes calls, byte by byte: found by rendering; format_shape_init() gives what the format's own
 * documentation shows. A call is

 *     before + open + NAME + named + ARGUMENTS + close, then, while there are more, between + open + …, then after

 * and ARGUMENTS are a JSON object with these separators, or, in formats of keys and values, for each argument

 *     key_open + KEY + key_close + VALUE + value_close

 * (key_close_other: where the value is no string, if that differs). FORMAT_ID in a piece stands for an id of the call, of
 * nine letters or digits. */
#define FORMAT_ID "\x01"
struct format_shape {
    char before[FORMAT_PIECE], open[FORMAT_PIECE], named[FORMAT_PIECE], close[FORMAT_PIECE], between[FORMAT_PIECE],
        after[FORMAT_PIECE];
    char key_open[FORMAT_PIECE], key_close[FORMAT_PIECE], key_close_other[FORMAT_PIECE], value_close[FORMAT_PIECE];
    char item_sep[8], key_sep[8]; /* of JSON: ", " and ": ", or "," and ":" */
    char thought[FORMAT_PIECE];   /* between the end of reasoning and what follows: "\n\n" */
    bool python_words;            /* booleans and null as text are True, False, None */
    bool sorted;                  /* keys come in alphabetical order, not the schema's */
};

void format_shape_init(const struct format *f, struct format_shape *s);

enum format_choice { FORMAT_AUTO, FORMAT_REQUIRED, FORMAT_NAMED };

/* A control token of the model that marks or tags may be made of. */
struct format_special {
    const char *text; /* [n] its spelling */
    size_t n;
    tok_id id;
};

/* The reply has none, it may open it, or the prompt has opened it. */
enum format_thinking { FORMAT_NO_REASONING, FORMAT_MAY_REASON, FORMAT_IN_REASONING };

struct format_request {
    const struct format_tools *tools;
    enum format_choice choice;
    size_t named;  /* FORMAT_NAMED: index of the tool */
    bool parallel; /* more than one call is allowed */
    enum format_thinking thinking;
    const struct format_reasoning *reasoning; /* NULL with FORMAT_NO_REASONING only */
    const struct format_special *specials;    /* [specials_n] */
    size_t specials_n;
    struct buf *left_out; /* NULL, or empty: see format_grammar() */
};

/* The i-th mark of the format that may be a control token in some vocabularies: what to look up for `specials`. NULL
 * after the last. */
const char *format_mark_at(const struct format *f, size_t i);

/* Writes a grammar in llguidance's dialect of Lark to the empty buffer `lark`. FORMAT_AUTO: free text, in which a call's
 * opening mark opens a call and nothing else; otherwise nothing but a call, after reasoning if there is any. Schemas that
 * are written as JSON are taken as they are. In formats of other notations not all keywords can become grammar: those that
 * did not go into left_out, a JSON array of [tool, "/pointer/in/its/schema"]. ST_ARGUMENT names the tool whose name or key
 * this format cannot spell; ST_TOO_LONG: beyond lark->limit. */
MUST_CHECK enum status format_grammar(const struct format *f, const struct format_shape *s,
                                      const struct format_request *q, struct buf *lark, struct err *e);

/* ---- what a template determines ---- */

enum template_row_kind {
    TEMPLATE_SCAFFOLD, /* from the model's decision to call to the name */
    TEMPLATE_NAME,     /* the rest of a name, and what follows it */
    TEMPLATE_KEY,      /* a key and what follows up to its value */
    TEMPLATE_AFTER,    /* from the end of a value to the next */
    TEMPLATE_CLOSE,    /* from the end of the last value to the end of the call */
    TEMPLATE_VALUE,    /* the rest of a value that can only be one of a few */
    TEMPLATE_ROW_KINDS
};

/* A row: behind the ids `trigger` come the ids `append`, where the reply's recogniser stands at one of `points`. */
struct template_row {
    enum template_row_kind kind;
    uint32_t points; /* bit RECOGNISER_…: in an open call; see recogniser_point */
    bool at_text;    /* also where no call has begun: AT_START, AT_TEXT, AT_BETWEEN */
    int32_t tool, key; /* the state's have to be these; -1: any */
    uint64_t keys, absent; /* at least the one properties have been written, and none of the others */
    const tok_id *trigger, *append; /* [trigger_n], [append_n], in the rows' own memory */
    uint32_t trigger_n, append_n, sure_n; /* sure_n of append are determined; the rest if keys keep to the schema */
};

/* The rows of one template and set of tools, and what a recogniser needs to check them. Reference-counted. */
struct template_rows;

MUST_CHECK enum status template_rows_new(struct template_rows **out, const struct recogniser_config *cfg,
                                         struct err *e); /* retains cfg->tools */
void template_rows_retain(struct template_rows *rows);
void template_rows_free(struct template_rows *rows); /* gives one reference back; NULL is fine */

/* Copies a row and its ids; only before the rows are shared. ST_TOO_LONG beyond LIMIT_TEMPLATE_ROWS or
 * LIMIT_TEMPLATE_IDS in all, ST_ARGUMENT: no trigger or nothing to append. */
MUST_CHECK enum status template_rows_add(struct template_rows *rows, const struct template_row *row, struct err *e);

size_t template_rows_n(const struct template_rows *rows);
const struct template_row *template_rows_at(const struct template_rows *rows, size_t i);
const struct recogniser_config *template_rows_config(const struct template_rows *rows);

/* The row with the longest trigger that ids[n] end with and that `state` permits; NULL: none. Several such rows that
 * append different ids are doubt, and so none. */
const struct template_row *template_rows_match(const struct template_rows *rows, const tok_id *ids, size_t n,
                                               const struct recogniser_state *state);

#endif
