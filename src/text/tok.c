/*
 * tok: tokenizers and streams over the shim.
 *
 * Owns the border's C side for them: statuses, the numbers that are asked for all the time (kept here so that
 * tok_is_eos() in the decode loop is a search in a few ids, not a call into the shim), and the shapes of text.h.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ffwd_shim.h"
#include "text/shim.h"
#include "text/text.h"

struct tok {
    struct ffwd_tok *shim; /* owned */
    atomic_int refs;
    struct ffwd_tok_info info;
    struct tok_infill infill;
};

#define NO_INFILL {TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE}

_Static_assert(sizeof(struct text_view) == sizeof(struct ffwd_view), "views are handed over as they are");
_Static_assert(sizeof(tok_id) == sizeof(int32_t), "ids are handed over as they are");

enum status text_status(int32_t code, const struct ffwd_error *from, const char *field, struct err *e)
{
    static const enum status map[] = {
        [FFWD_OK] = ST_OK,
        [FFWD_ARGUMENT] = ST_ARGUMENT,
        [FFWD_TOO_LONG] = ST_TOO_LONG,
        [FFWD_UNSUPPORTED] = ST_UNSUPPORTED,
        [FFWD_MODEL] = ST_MODEL,
        [FFWD_BUG] = ST_BUG,
    };
    if (code == FFWD_OK)
        return ST_OK;
    enum status st = code > 0 && (size_t)code < sizeof map / sizeof *map ? map[code] : ST_BUG;
    return err_set(e, st, field, "%s", (const char *)from->text);
}

void tok_source_init(struct tok_source *src)
{
    *src = (struct tok_source){
        .bos = TOK_NONE, .eos = TOK_NONE, .unk = TOK_NONE, .eot = TOK_NONE, .eom = TOK_NONE, .pad = TOK_NONE,
        .infill = NO_INFILL, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1,
    };
}

static struct ffwd_view view(const char *s)
{
    return (struct ffwd_view){(const uint8_t *)s, s ? strlen(s) : 0};
}

/* Wraps a tokenizer of the shim, which it owns from here on, also when it fails. */
static enum status wrap(struct tok **out, struct ffwd_tok *shim, struct tok_infill infill, struct err *e)
{
    struct tok *t = calloc(1, sizeof *t);
    if (!t) {
        ffwd_tok_free(shim);
        return err_set(e, ST_NO_MEMORY, "tokenizer", "no memory for the tokenizer");
    }
    t->shim = shim;
    atomic_init(&t->refs, 1);
    ffwd_tok_about(shim, &t->info);
    t->infill = infill;
    text_find_infill(t, &t->infill);
    *out = t;
    return ST_OK;
}

enum status tok_new_gguf(struct tok **out, const struct tok_source *src, struct err *e)
{
    *out = NULL;
    if (src->n_tokens > LIMIT_VOCAB || src->n_merges > LIMIT_META_ARRAY)
        return err_set(e, ST_UNSUPPORTED, "tokenizer.ggml.tokens", "%zu tokens and %zu merges exceed this build's limits",
                       src->n_tokens, src->n_merges);
    struct ffwd_source s = {
        .model = view(src->model),
        .pre = view(src->pre),
        .name = view(src->name),
        .tokens = (const struct ffwd_view *)src->tokens,
        .scores = src->scores,
        .types = src->types,
        .n_tokens = src->n_tokens,
        .merges = (const struct ffwd_view *)src->merges,
        .n_merges = src->n_merges,
        .bos = src->bos, .eos = src->eos, .unk = src->unk, .eot = src->eot, .eom = src->eom, .pad = src->pad,
        .add_bos = src->add_bos, .add_eos = src->add_eos, .add_space_prefix = src->add_space_prefix,
    };
    struct ffwd_error failure;
    struct ffwd_tok *shim = NULL;
    TRY(text_status(ffwd_tok_from_gguf(&s, &shim, &failure), &failure, "tokenizer", e));
    return wrap(out, shim, src->infill, e);
}

enum status tok_new_json(struct tok **out, const char *json, size_t n, const tok_id *eos, size_t n_eos, struct err *e)
{
    struct ffwd_error failure;
    struct ffwd_tok *shim = NULL;
    *out = NULL;
    TRY(text_status(ffwd_tok_from_json((const uint8_t *)json, n, eos, n_eos, &shim, &failure), &failure,
                    "tokenizer.json", e));
    return wrap(out, shim, (struct tok_infill)NO_INFILL, e);
}

void tok_free(struct tok *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    ffwd_tok_free(t->shim);
    free(t);
}

struct tok *text_tok_retain(const struct tok *t)
{
    struct tok *held = (struct tok *)t; /* only its count of references changes */
    atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed);
    return held;
}

const struct ffwd_tok *text_shim_tok(const struct tok *t)
{
    return t ? t->shim : NULL;
}

/* ---- bytes to ids ---- */

enum status tok_encode(const struct tok *t, const char *text, size_t n, unsigned flags, tok_id **ids, size_t *count,
                       struct err *e)
{
    struct ffwd_error failure;
    *ids = NULL;
    *count = 0;
    return text_status(ffwd_tok_encode(t->shim, (const uint8_t *)text, n, flags, ids, count, &failure), &failure, "text",
                       e);
}

enum status tok_encode_rendering(const struct tok *t, const struct text_rendering *r, tok_id **ids, size_t *count,
                                 struct err *e)
{
    struct ffwd_error failure;
    const char *text = r->marked ? r->marked : r->text;
    size_t n = r->marked ? r->marked_n : r->n;
    *ids = NULL;
    *count = 0;
    if (!r->guarded)
        return err_set(e, ST_BUG, "messages", "a rendering made without the tokenizer cannot be encoded");
    return text_status(ffwd_tok_encode_marked(t->shim, (const uint8_t *)text, n, r->brk, r->quote, ids, count, &failure),
                       &failure, "messages", e);
}

void tok_ids_free(tok_id *ids, size_t count)
{
    ffwd_ids_free(ids, count);
}

/* ---- ids to bytes ---- */

enum status tok_decode(const struct tok *t, const tok_id *ids, size_t count, bool special, char **text, size_t *n,
                       struct err *e)
{
    struct ffwd_error failure;
    uint8_t *out = NULL;
    *text = NULL;
    *n = 0;
    TRY(text_status(ffwd_tok_decode(t->shim, ids, count, special, &out, n, &failure), &failure, "ids", e));
    *text = (char *)out;
    return ST_OK;
}

void text_free(char *text, size_t n)
{
    if (text)
        ffwd_text_free((uint8_t *)text, n);
}

/* A `tok_stream` is the shim's stream itself; the name only exists here. */
static struct ffwd_stream *stream(struct tok_stream *s)
{
    return (struct ffwd_stream *)s;
}

enum status tok_stream_new(const struct tok *t, bool special, bool inner, struct tok_stream **out, struct err *e)
{
    struct ffwd_error failure;
    struct ffwd_stream *s = NULL;
    *out = NULL;
    TRY(text_status(ffwd_stream_new(t->shim, special, inner, &s, &failure), &failure, "stream", e));
    *out = (struct tok_stream *)s;
    return ST_OK;
}

void tok_stream_free(struct tok_stream *s)
{
    ffwd_stream_free(stream(s));
}

void tok_stream_clear(struct tok_stream *s)
{
    ffwd_stream_clear(stream(s));
}

size_t tok_stream_put(struct tok_stream *s, tok_id id, char *out, size_t cap)
{
    return ffwd_stream_step(stream(s), FFWD_STREAM_PUT, id, (uint8_t *)out, cap);
}

size_t tok_stream_more(struct tok_stream *s, char *out, size_t cap)
{
    return ffwd_stream_step(stream(s), FFWD_STREAM_MORE, 0, (uint8_t *)out, cap);
}

size_t tok_stream_flush(struct tok_stream *s, char *out, size_t cap)
{
    return ffwd_stream_step(stream(s), FFWD_STREAM_FLUSH, 0, (uint8_t *)out, cap);
}

/* ---- about ids ---- */

size_t tok_vocab(const struct tok *t)
{
    return t->info.vocab;
}

enum tok_kind tok_kind_of(const struct tok *t, tok_id id)
{
    return id < 0 || (size_t)id >= t->info.vocab ? TOK_UNUSED : (enum tok_kind)t->info.kinds[id];
}

bool tok_is_special(const struct tok *t, tok_id id)
{
    enum tok_kind kind = tok_kind_of(t, id);
    return kind == TOK_CONTROL || kind == TOK_UNKNOWN;
}

bool tok_is_eos(const struct tok *t, tok_id id)
{
    for (size_t i = 0; i < t->info.n_ends; i++)
        if (t->info.ends[i] == id)
            return true;
    return false;
}

const tok_id *tok_eos(const struct tok *t, size_t *n)
{
    *n = t->info.n_ends;
    return t->info.ends;
}

tok_id tok_bos(const struct tok *t)
{
    return t->info.bos;
}

tok_id tok_eos_main(const struct tok *t)
{
    return t->info.eos;
}

const struct tok_infill *tok_infill(const struct tok *t)
{
    return &t->infill;
}

bool tok_adds_bos(const struct tok *t)
{
    return t->info.add_bos && t->info.bos != TOK_NONE;
}

bool tok_adds_eos(const struct tok *t)
{
    return t->info.add_eos && t->info.eos != TOK_NONE;
}

tok_id tok_find_special(const struct tok *t, const char *text, size_t n)
{
    return ffwd_tok_find_special(t->shim, (const uint8_t *)text, n);
}

const char *tok_bytes(const struct tok *t, tok_id id, size_t *n)
{
    *n = 0;
    return (const char *)ffwd_tok_bytes(t->shim, id, n);
}
