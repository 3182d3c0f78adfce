/* The text shim's C border, made by cbindgen from shim/src: do not edit. Only src/text/ includes it. */

#ifndef FFWD_SHIM_H
#define FFWD_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Why something failed; the C side maps these to its own statuses.
 */
#define FFWD_OK 0

#define FFWD_ARGUMENT 1

#define FFWD_TOO_LONG 2

#define FFWD_UNSUPPORTED 3

#define FFWD_MODEL 4

#define FFWD_BUG 5

/*
 Room for one sentence, NUL included; longer ones are cut at a character.
 */
#define FFWD_ERROR_TEXT 256

#define FFWD_GRAMMAR_JSON 0

#define FFWD_GRAMMAR_SCHEMA 1

#define FFWD_GRAMMAR_REGEX 2

#define FFWD_GRAMMAR_CHOICE 3

#define FFWD_GRAMMAR_LARK 4

#define FFWD_GRAMMAR_GBNF 5

/*
 Bytes of stack that compiling may take.
 */
#define FFWD_GRAMMAR_STACK (64 << 20)

/*
 What the calls of a stream do before they hand out text.
 */
#define FFWD_STREAM_PUT 0

#define FFWD_STREAM_MORE 1

#define FFWD_STREAM_FLUSH 2

/*
 Compiling recurses as deep as a schema does; this much stack is enough for all that the limits let through.
 */
#define STACK (64 << 20)

/*
 Strings and keys of one request. Each is looked at once for every way of marking.
 */
#define FFWD_LIMIT_STRINGS (1 << 16)

/*
 Template instructions of one rendering, and bytes of its text and of a template's source.
 */
#define FFWD_LIMIT_FUEL 40000000

#define FFWD_LIMIT_RENDERING (64 << 20)

#define FFWD_LIMIT_SOURCE (1 << 20)

/*
 A compiled grammar, counted by references.
 */
struct ffwd_grammar;

/*
 One reply on its way along a grammar.
 */
struct ffwd_matcher;

/*
 A stream of one reply; it must not outlive its tokenizer.
 */
struct ffwd_stream;

/*
 A compiled template.
 */
struct ffwd_template;

/*
 A tokenizer, and what grammars need of it once there is one.
 */
struct ffwd_tok;

struct ffwd_error {
    uint8_t text[FFWD_ERROR_TEXT];
};

/*
 A string of the caller's.
 */
struct ffwd_view {
    const uint8_t *data;
    size_t n;
};

/*
 `after.data` NULL: none. `here`: on the calling thread, which has FFWD_GRAMMAR_STACK bytes of stack left.
 */
struct ffwd_grammar_source {
    uint32_t kind;
    struct ffwd_view text;
    struct ffwd_view after;
    bool relax;
    bool here;
};

/*
 What may come next.
 */
struct ffwd_matcher_next {
    uint32_t n;
    int32_t only;
    bool end;
    bool all;
};

/*
 GGUF pieces; -1 stands for an absent id or flag.
 */
struct ffwd_source {
    struct ffwd_view model;
    struct ffwd_view pre;
    struct ffwd_view name;
    const struct ffwd_view *tokens;
    const float *scores;
    const int32_t *types;
    size_t n_tokens;
    const struct ffwd_view *merges;
    size_t n_merges;
    int32_t bos;
    int32_t eos;
    int32_t unk;
    int32_t eot;
    int32_t eom;
    int32_t pad;
    int32_t add_bos;
    int32_t add_eos;
    int32_t add_space_prefix;
};

/*
 Numbers about a tokenizer, all at once.
 */
struct ffwd_tok_info {
    size_t vocab;
    size_t longest;
    int32_t bos;
    int32_t eos;
    int32_t unk;
    int32_t pad;
    bool add_bos;
    bool add_eos;
    const int32_t *ends;
    size_t n_ends;
    const uint8_t *kinds;
};

/*
 A rendering; each text has a NUL behind its n bytes and is given back with `ffwd_text_free`.
 */
struct ffwd_rendering {
    uint8_t *text;
    size_t n;
    uint8_t *marked;
    size_t marked_n;
    uint32_t brk;
    uint32_t quote;
};

/*
 The versions this archive was built from.
 */
const char *ffwd_shim_versions(void);

/*
 Builds what all grammars of a tokenizer share, so that the first of them does not wait for it.

 # Safety
 `t` is a live tokenizer.
 */
int32_t ffwd_grammar_prepare(const struct ffwd_tok *t, struct ffwd_error *err);

/*
 # Safety
 `src` and what it points to is readable; `out` is writable.
 */
int32_t ffwd_grammar_new(const struct ffwd_tok *t,
                         const struct ffwd_grammar_source *src,
                         struct ffwd_grammar **out,
                         struct ffwd_error *err);

/*
 # Safety
 `g` came from `ffwd_grammar_new` and is not used again; matchers made of it may be. NULL is fine.
 */
void ffwd_grammar_free(struct ffwd_grammar *g);

/*
 # Safety
 `g` is a live grammar, `n` writable; the text lives as long as g.
 */
const uint8_t *ffwd_grammar_relaxed(const struct ffwd_grammar *g, size_t *n);

/*
 Bytes of memory that a grammar holds, about.

 # Safety
 `g` is a live grammar.
 */
size_t ffwd_grammar_bytes(const struct ffwd_grammar *g);

/*
 A compact one is over bytes; NULL where the grammar is not JSON.

 # Safety
 `g` is a live grammar; `out` is writable.
 */
int32_t ffwd_matcher_new(const struct ffwd_grammar *g, bool compact, struct ffwd_matcher **out, struct ffwd_error *err);

/*
 # Safety
 `m` came from `ffwd_matcher_new`. NULL is fine.
 */
void ffwd_matcher_free(struct ffwd_matcher *m);

/*
 # Safety
 `m` is a live matcher.
 */
size_t ffwd_matcher_words(const struct ffwd_matcher *m);

/*
 # Safety
 `m` is a live matcher; `mask` has `ffwd_matcher_words()` writable words; `next` is writable.
 */
int32_t ffwd_matcher_mask(struct ffwd_matcher *m,
                          uint32_t *mask,
                          struct ffwd_matcher_next *next,
                          struct ffwd_error *err);

/*
 # Safety
 `m` is a live matcher; `ids` has n readable ids.
 */
size_t ffwd_matcher_consume(struct ffwd_matcher *m, const int32_t *ids, size_t n);

/*
 Why it cannot go on; FFWD_OK where it can.

 # Safety
 `m` is a live matcher.
 */
int32_t ffwd_matcher_error(struct ffwd_matcher *m, struct ffwd_error *err);

/*
 # Safety
 `m` is a live matcher.
 */
void ffwd_matcher_rollback(struct ffwd_matcher *m, size_t n);

/*
 # Safety
 `src` and everything it points to is readable; `out` is writable.
 */
int32_t ffwd_tok_from_gguf(const struct ffwd_source *src, struct ffwd_tok **out, struct ffwd_error *err);

/*
 # Safety
 `json` has n readable bytes, `ends` n_ends readable ids; `out` is writable.
 */
int32_t ffwd_tok_from_json(const uint8_t *json,
                           size_t n,
                           const int32_t *ends,
                           size_t n_ends,
                           struct ffwd_tok **out,
                           struct ffwd_error *err);

/*
 # Safety
 `t` came from this library and is not used again. NULL is fine.
 */
void ffwd_tok_free(struct ffwd_tok *t);

/*
 # Safety
 `text` has n readable bytes; `ids` and `count` are writable.
 */
int32_t ffwd_tok_encode(const struct ffwd_tok *t,
                        const uint8_t *text,
                        size_t n,
                        uint32_t flags,
                        int32_t **ids,
                        size_t *count,
                        struct ffwd_error *err);

/*
 Encodes a rendering's marked text; without marks brk and quote are 0.

 # Safety
 As `ffwd_tok_encode`.
 */
int32_t ffwd_tok_encode_marked(const struct ffwd_tok *t,
                               const uint8_t *text,
                               size_t n,
                               uint32_t brk,
                               uint32_t quote,
                               int32_t **ids,
                               size_t *count,
                               struct ffwd_error *err);

/*
 # Safety
 `ids` and `count` came from an encode.
 */
void ffwd_ids_free(int32_t *ids, size_t count);

/*
 # Safety
 `ids` has count readable ids; `text` and `n` are writable.
 */
int32_t ffwd_tok_decode(const struct ffwd_tok *t,
                        const int32_t *ids,
                        size_t count,
                        bool special,
                        uint8_t **text,
                        size_t *n,
                        struct ffwd_error *err);

/*
 Gives back a text of n bytes and its NUL.

 # Safety
 `text` and `n` came from this library.
 */
void ffwd_text_free(uint8_t *text, size_t n);

/*
 # Safety
 `t` outlives the stream; `out` is writable.
 */
int32_t ffwd_stream_new(const struct ffwd_tok *t,
                        bool special,
                        bool inner,
                        struct ffwd_stream **out,
                        struct ffwd_error *err);

/*
 # Safety
 `s` came from `ffwd_stream_new`. NULL is fine.
 */
void ffwd_stream_free(struct ffwd_stream *s);

/*
 # Safety
 `s` is a live stream.
 */
void ffwd_stream_clear(struct ffwd_stream *s);

/*
 # Safety
 `s` is a live stream; `out` has cap writable bytes.
 */
size_t ffwd_stream_step(struct ffwd_stream *s, uint32_t what, int32_t id, uint8_t *out, size_t cap);

/*
 # Safety
 `out` is writable; its pointers live as long as t.
 */
void ffwd_tok_about(const struct ffwd_tok *t, struct ffwd_tok_info *out);

/*
 # Safety
 `n` is writable; the bytes live as long as t.
 */
const uint8_t *ffwd_tok_bytes(const struct ffwd_tok *t, int32_t id, size_t *n);

/*
 # Safety
 `text` has n readable bytes.
 */
int32_t ffwd_tok_find_special(const struct ffwd_tok *t, const uint8_t *text, size_t n);

/*
 # Safety
 `source` has n readable bytes; `out` is writable.
 */
int32_t ffwd_template_new(const uint8_t *source, size_t n, struct ffwd_template **out, struct ffwd_error *err);

/*
 # Safety
 `t` came from `ffwd_template_new`. NULL is fine.
 */
void ffwd_template_free(struct ffwd_template *t);

/*
 # Safety
 `vars` has n readable bytes; `tok` is NULL or live; `out` is writable.
 */
int32_t ffwd_template_render(const struct ffwd_template *t,
                             const struct ffwd_tok *tok,
                             const uint8_t *vars,
                             size_t n,
                             int64_t unix_time,
                             int32_t ahead_of_utc,
                             struct ffwd_rendering *out,
                             struct ffwd_error *err);

#endif /* FFWD_SHIM_H */
