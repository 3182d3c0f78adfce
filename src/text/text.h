/*
 * text: between bytes and token ids. The C face of the text shim (shim/), which binds the field's libraries.
 *
 * Three things live here. A `tok` is a model's tokenizer: bytes to ids, ids to bytes, which ids are special, which end a
 * turn. A `tok_stream` turns the ids of one reply into whole characters as they arrive. A `chat_template` renders a
 * conversation the way the model's authors meant it.
 *
 * Trust. The same bytes `<|im_end|>` are a control token when the template wrote them and plain text when a client did.
 * So every text is encoded as trusted or untrusted, and a rendering remembers which of its bytes came from whom: a
 * client's text never becomes a control id. User-defined tokens (added words such as `<think>` in some models) are
 * ordinary words to the model and are matched in any text.
 *
 * Threads: `tok` and `chat_template` are immutable once made and may be used from any number of threads; a `tok_stream`
 * has one owner. Nothing here prints, and no failure of the libraries below comes out as anything but a status.
 */
#ifndef TEXT_TEXT_H
#define TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define TOK_NONE ((tok_id)-1) /* the model has no such token */

struct tok;
struct tok_stream;
struct chat_template;

/* ---- making a tokenizer ---- */

/* A string that belongs to someone else; need not end in NUL. */
struct text_view {
    const char *data;
    size_t n;
};

/* Control tokens between which a model fills in what is missing (prefix, suffix, middle), and those before the names of a
 * project and of its files. TOK_NONE: it has none. */
struct tok_infill {
    tok_id prefix, suffix, middle, repo, file;
};

/* A vocabulary as GGUF metadata holds it. Everything is read during tok_new_gguf() only. Absent numbers are TOK_NONE,
 * absent arrays NULL with count 0, absent flags -1 (the model kind's usual value is taken). */
struct tok_source {
    const char *model; /* tokenizer.ggml.model: "gpt2", "llama", "gemma4", ... */
    const char *pre;   /* tokenizer.ggml.pre, or NULL */
    const char *name;  /* general.name, or NULL: tells Phi-3, whose specials swallow the white space behind them */

    const struct text_view *tokens; /* [n_tokens] */
    const float *scores;            /* [n_tokens] or NULL */
    const int32_t *types;           /* [n_tokens] or NULL: 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte */
    size_t n_tokens;

    const struct text_view *merges; /* [n_merges] "left right", best first; NULL where scores decide */
    size_t n_merges;

    tok_id bos, eos, unk, eot, eom, pad; /* TOK_NONE where the file names none */
    struct tok_infill infill;            /* likewise: they are looked for by their usual names then */

    int add_bos, add_eos, add_space_prefix; /* 1, 0 or -1 = the file does not say */
};

/* Starts a source with everything absent. */
void tok_source_init(struct tok_source *src);

/* Builds a tokenizer. On failure *out is NULL: ST_UNSUPPORTED names a model kind or pre-tokenizer this build does not
 * know, ST_MODEL an inconsistent vocabulary. */
MUST_CHECK enum status tok_new_gguf(struct tok **out, const struct tok_source *src, struct err *e);

/* The same from the bytes of a tokenizer.json (BPE models). End-of-turn ids that only the model's other files know are
 * given in eos[n_eos]; eos may be NULL. */
MUST_CHECK enum status tok_new_json(struct tok **out, const char *json, size_t n, const tok_id *eos, size_t n_eos,
                                    struct err *e);

void tok_free(struct tok *t); /* NULL is fine */

/* ---- bytes to ids ---- */

enum tok_flags {
    TOK_PLAIN = 0,   /* untrusted: control tokens written in the text are plain text */
    TOK_TRUSTED = 1, /* control tokens written in the text are meant */
    TOK_BOS = 2,     /* prepend BOS if the model asks for it; EOS is never appended, for the model goes on */
    TOK_INNER = 4,   /* the text continues a text: no space is put before it */
};

/* Encodes n bytes; invalid UTF-8 counts as U+FFFD. On success *ids [count] belongs to the caller, who gives it back with
 * tok_ids_free(); on failure *ids is NULL and *count 0. Memory beyond the result stays within some megabytes however
 * long the text. */
MUST_CHECK enum status tok_encode(const struct tok *t, const char *text, size_t n, unsigned flags, tok_id **ids,
                                  size_t *count, struct err *e);
void tok_ids_free(tok_id *ids, size_t count);

/* ---- ids to bytes ---- */

/* The text of count ids, invalid bytes replaced by U+FFFD; control tokens appear only if `special`. *text (n bytes and a
 * NUL) belongs to the caller, who gives it back with text_free(). An id outside the vocabulary is ST_ARGUMENT. */
MUST_CHECK enum status tok_decode(const struct tok *t, const tok_id *ids, size_t count, bool special, char **text,
                                  size_t *n, struct err *e);
void text_free(char *text, size_t n);

/* A stream of one reply: gives out only whole characters, and all calls together give what tok_decode() gives for all
 * ids. `special` as there; `inner` says that the ids continue a text (a prompt), so a first space is kept. Allocates
 * here and never again unless a token is longer than any in the vocabulary. */
MUST_CHECK enum status tok_stream_new(const struct tok *t, bool special, bool inner, struct tok_stream **out,
                                      struct err *e);
void tok_stream_free(struct tok_stream *s);
void tok_stream_clear(struct tok_stream *s); /* ready for another reply */

/* Takes one id. Returns how many bytes were written to out, at most cap; what did not fit (only whole characters are
 * split off) stays inside and comes first next time: call tok_stream_more() until it returns 0. Unknown ids give
 * nothing. cap must be at least 4. */
size_t tok_stream_put(struct tok_stream *s, tok_id id, char *out, size_t cap);
size_t tok_stream_more(struct tok_stream *s, char *out, size_t cap);

/* The reply has ended: an unfinished character comes out as U+FFFD. Call until it returns 0. */
size_t tok_stream_flush(struct tok_stream *s, char *out, size_t cap);

/* ---- about ids ---- */

enum tok_kind { TOK_NORMAL = 1, TOK_UNKNOWN, TOK_CONTROL, TOK_USER_DEFINED, TOK_UNUSED, TOK_BYTE };

size_t tok_vocab(const struct tok *t);                      /* ids are 0 .. tok_vocab() - 1 */
enum tok_kind tok_kind_of(const struct tok *t, tok_id id);  /* TOK_UNUSED outside the vocabulary */
bool tok_is_special(const struct tok *t, tok_id id);        /* control or unknown: hidden in replies */
bool tok_is_eos(const struct tok *t, tok_id id);            /* ends a reply: EOS is a set */
const tok_id *tok_eos(const struct tok *t, size_t *n);      /* that set, ascending; lives as long as t */
tok_id tok_bos(const struct tok *t);                        /* or TOK_NONE */
tok_id tok_eos_main(const struct tok *t);                   /* the EOS the file names first, or TOK_NONE */
bool tok_adds_bos(const struct tok *t);
const struct tok_infill *tok_infill(const struct tok *t);   /* lives as long as t */
bool tok_adds_eos(const struct tok *t); /* what the file says; no function here appends it */

/* The id whose piece is exactly these bytes and which is control or user-defined, or TOK_NONE. */
tok_id tok_find_special(const struct tok *t, const char *text, size_t n);

/* The bytes id stands for (for control tokens their spelling); lives as long as t, not NUL-terminated, may be half a
 * character. *n is 0 outside the vocabulary. The leading space of a first word is included. */
const char *tok_bytes(const struct tok *t, tok_id id, size_t *n);

/* ---- sets of ids ---- */

/* A bitmap of the vocabulary, empty: bit id % 8 of byte id / 8. NULL without memory. */
uint8_t *tok_set_new(const struct tok *t);
void tok_set_free(uint8_t *set); /* NULL is fine */

void tok_set_add_eos(uint8_t *set, const struct tok *t);
void tok_set_add_text(uint8_t *set, const struct tok *t, const char *text, size_t n); /* ids that stand for just that */

/* Ids whose bytes contain one of the parts. */
void tok_set_add_containing(uint8_t *set, const struct tok *t, const struct text_view *parts, size_t parts_n);

/* ---- chat templates ---- */

/* Compiles n bytes of template source. ST_MODEL with the line if it does not parse. */
MUST_CHECK enum status chat_template_new(struct chat_template **out, const char *source, size_t n, struct err *e);
void chat_template_free(struct chat_template *c);

/* What rendering gave. `text` (n bytes and a NUL) is the prompt as transformers would render it. `marked` is the same
 * text with marks in it that keep client text from becoming control tokens; only tok_encode_rendering() reads it. */
struct text_rendering {
    char *text;
    size_t n;
    char *marked; /* NULL when no mark was needed */
    size_t marked_n;
    uint32_t brk, quote; /* the mark code points; they occur nowhere in the request */
    bool guarded;        /* made with a tokenizer: its control tokens are told apart, so it may be encoded */
};

/* Renders with the variables of a JSON object: `messages`, `tools`, `add_generation_prompt` and whatever else the
 * template knows. All of it counts as the client's. `bos_token`, `eos_token` and their like are taken from t, whatever
 * the object says; t may be NULL (a rendering to look at: no marks, the object's own tokens). `unix_time` is what
 * strftime_now() sees, in local time (TZ) as in transformers. Missing variables are undefined as in Jinja; JSON null is
 * None.
 *
 * ST_ARGUMENT carries the template's own words where it raises, says what is wrong with the JSON, or names the control
 * token when client text cannot be told from the template's. ST_TOO_LONG: the fuel or size limit below. On success the
 * caller releases *out with text_rendering_release(); on failure it is empty. */
MUST_CHECK enum status chat_template_render(const struct chat_template *c, const struct tok *t, const char *vars,
                                            size_t n, int64_t unix_time, struct text_rendering *out, struct err *e);
void text_rendering_release(struct text_rendering *r);

#define TEXT_LIMIT_TEMPLATE (1u << 20)    /* bytes of a template's source */
#define TEXT_LIMIT_STRINGS (1u << 16)     /* strings and keys in the variables, if t is given */
#define TEXT_LIMIT_FUEL 40000000u         /* template instructions of one rendering */
#define TEXT_LIMIT_RENDERING (64u << 20)  /* bytes of one rendering */

/* Encodes a rendering: the template's control tokens become ids, the client's do not. BOS is added if the model asks
 * for it and the rendering does not already begin with it; EOS never is. A rendering made without a
 * tokenizer is ST_BUG. *ids as in tok_encode(). */
MUST_CHECK enum status tok_encode_rendering(const struct tok *t, const struct text_rendering *r, tok_id **ids,
                                            size_t *count, struct err *e);

/* ---- constrained decoding ---- */

/* A `grammar` says what a reply may look like; a `matcher` walks along one reply and knows which ids may come next.
 * A grammar is compiled for one tokenizer, immutable, reference-counted, usable from any thread; a matcher has one owner
 * at a time.
 *
 * The end. A grammar knows nothing of end tokens: a matcher says whether the reply may end where it is, and the
 * mask then has all ids that end a reply. They are never consumed. Control tokens are not text: they come only where a
 * grammar names them. Splits are canonical: where bytes are determined, only the ids that the tokenizer itself would give
 * are possible. */
struct grammar;
struct matcher;

enum grammar_kind {
    GRAMMAR_JSON,   /* any JSON object; no text */
    GRAMMAR_SCHEMA, /* a JSON Schema, draft 2020-12 */
    GRAMMAR_REGEX,  /* of the whole reply */
    GRAMMAR_CHOICE, /* a JSON array of strings */
    GRAMMAR_LARK,   /* llguidance's dialect of Lark */
    GRAMMAR_GBNF    /* llama.cpp's notation */
};

struct grammar_source {
    enum grammar_kind kind;
    const char *text; /* [n] bytes */
    size_t n;
    const char *after; /* [after_n] the reply is free until this text has come (the end of reasoning), which may be the
                          text of a control token; NULL: not free at all */
    size_t after_n;
    bool relax; /* keywords of a schema that cannot be enforced are left out and reported, not refused */
    bool check; /* a schema is only looked at: errors and grammar_relaxed() are all that is to be had of it, for less */
};

/* Compiles. ST_ARGUMENT: not well-formed, or nothing can match it; ST_UNSUPPORTED: a keyword or construct that cannot be
 * enforced, named with its JSON pointer; ST_TOO_LONG: beyond a limit below. */
MUST_CHECK enum status grammar_new(struct grammar **out, const struct tok *t, const struct grammar_source *src,
                                   struct err *e);
void grammar_retain(struct grammar *g);
void grammar_free(struct grammar *g); /* gives one reference back; NULL is fine */

/* A JSON array of what relax left out, ["/properties/a/not", ...]; lives as long as g. */
const char *grammar_relaxed(const struct grammar *g, size_t *n);

/* The text that it begins after, or NULL; lives as long as g. */
const char *grammar_after(const struct grammar *g, size_t *n);

/* Makes compiled grammars of a tokenizer on threads of its own, at low priority, and keeps the latest by content. */
struct grammar_cache;
MUST_CHECK enum status grammar_cache_new(struct grammar_cache **out, const struct tok *t, struct err *e);
void grammar_cache_free(struct grammar_cache *c); /* waits at most a second for what still compiles */

/* One reference to the compiled source. Waits for it: errors as grammar_new(), ST_TOO_LONG when it takes more than
 * TEXT_LIMIT_GRAMMAR_MS of a processor's time, and ST_BUSY when too many wait, too many are beyond that limit and still
 * compile, or the caller has waited for TEXT_LIMIT_GRAMMAR_WAIT_MS. */
MUST_CHECK enum status grammar_cache_get(struct grammar_cache *c, struct grammar **out,
                                         const struct grammar_source *src, struct err *e);

MUST_CHECK enum status matcher_new(struct matcher **out, const struct grammar *g, struct err *e);

/* A matcher of the same JSON without white space between its parts, over bytes: its ids are 0 .. 255. *out is NULL where
 * g does not stand for JSON. */
MUST_CHECK enum status matcher_new_compact(struct matcher **out, const struct grammar *g, struct err *e);
void matcher_free(struct matcher *m); /* NULL is fine */

/* What may come next. */
struct matcher_next {
    uint32_t n;   /* ids, those that end a reply not counted; 2 stands for two or more */
    tok_id only;  /* where n == 1 */
    bool end;     /* the reply may end here; it must, where n == 0 */
    bool all;     /* every id but control tokens may come: the mask need not be looked at */
};

/* Words of a mask: bit id % 32 of word id / 32. */
size_t matcher_words(const struct matcher *m);

/* mask [matcher_words()]: the ids that may come next, with all that end a reply where next->end. A failure is final at
 * this place: ST_TOO_LONG for a limit of the matcher (the grammar is too ambiguous), ST_ARGUMENT where nothing fits. */
MUST_CHECK enum status matcher_mask(struct matcher *m, uint32_t *mask, struct matcher_next *next, struct err *e);

/* Goes along ids[n], which must not end a reply. Returns how many were possible; it stands behind those. */
uint32_t matcher_consume(struct matcher *m, const tok_id *ids, uint32_t n);

/* After a consume that refused what a mask allowed: the limit that the matcher ran into, as matcher_mask() would say it;
 * ST_OK if there is none. */
MUST_CHECK enum status matcher_error(struct matcher *m, struct err *e);

/* Goes n ids back, also from where a limit was met: that leaves nothing behind. */
void matcher_rollback(struct matcher *m, uint32_t n);

#define TEXT_LIMIT_GRAMMAR (1u << 20)      /* bytes of a grammar's source */
#define TEXT_LIMIT_AFTER 256u              /* bytes of the text after which it begins */
#define TEXT_LIMIT_GRAMMAR_MS 5000u        /* milliseconds of a processor's time for compiling one */
#define TEXT_LIMIT_GRAMMAR_WAIT_MS 30000u  /* milliseconds that a caller waits for that */
#define TEXT_LIMIT_GRAMMARS 64u            /* compiled grammars that are kept */
#define TEXT_LIMIT_GRAMMAR_BYTES (256u << 20) /* memory of all that are kept, about */
#define TEXT_LIMIT_CHECKS 256u             /* schemas kept that were only looked at */
#define TEXT_LIMIT_GRAMMARS_WAITING 64u    /* sources that wait to be compiled */

/* Versions of the libraries underneath, for `ffwd info`; a static string. */
const char *text_versions(void);

#endif
