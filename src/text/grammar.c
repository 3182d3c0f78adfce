/*
 * grammar: compiled grammars and matchers over the shim.
 *
 * A grammar here is the shim's with a count of references: it goes from the cache to requests and back on any thread. A
 * matcher is the shim's own; the name only exists here.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ffwd_shim.h"
#include "text/shim.h"
#include "text/text.h"

struct grammar {
    struct ffwd_grammar *shim; /* owned */
    atomic_int refs;
    size_t after_n;
    char after[]; /* [after_n] */
};

_Static_assert((int)GRAMMAR_JSON == FFWD_GRAMMAR_JSON && (int)GRAMMAR_SCHEMA == FFWD_GRAMMAR_SCHEMA &&
                   (int)GRAMMAR_REGEX == FFWD_GRAMMAR_REGEX && (int)GRAMMAR_CHOICE == FFWD_GRAMMAR_CHOICE &&
                   (int)GRAMMAR_LARK == FFWD_GRAMMAR_LARK && (int)GRAMMAR_GBNF == FFWD_GRAMMAR_GBNF,
               "kinds are handed over as they are");

enum status text_prepare_grammars(const struct tok *t, struct err *e)
{
    struct ffwd_error failure;
    return text_status(ffwd_grammar_prepare(text_shim_tok(t), &failure), &failure, "grammar", e);
}

static enum status make_grammar(struct grammar **out, const struct tok *t, const struct grammar_source *src, bool here,
                                struct err *e)
{
    *out = NULL;
    if (src->n > TEXT_LIMIT_GRAMMAR || (src->after && src->after_n > TEXT_LIMIT_AFTER))
        return err_set(e, ST_TOO_LONG, "grammar", "%zu bytes of grammar exceed the limit of %u", src->n,
                       TEXT_LIMIT_GRAMMAR);
    struct ffwd_grammar_source s = {
        .kind = (uint32_t)src->kind,
        .text = {(const uint8_t *)src->text, src->n},
        .after = {(const uint8_t *)src->after, src->after ? src->after_n : 0},
        .relax = src->relax,
        .here = here,
    };
    struct grammar *g = calloc(1, sizeof *g + s.after.n);
    if (!g)
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for the grammar");
    struct ffwd_error failure;
    enum status st = text_status(ffwd_grammar_new(text_shim_tok(t), &s, &g->shim, &failure), &failure, "grammar", e);
    if (st != ST_OK) {
        free(g);
        return st;
    }
    atomic_init(&g->refs, 1);
    g->after_n = s.after.n;
    if (s.after.n)
        memcpy(g->after, src->after, s.after.n);
    *out = g;
    return ST_OK;
}

/* A schema in a rule that nothing leads to: it is checked like any other, and no matcher is built for it. */
static enum status check_schema(struct grammar **out, const struct tok *t, const struct grammar_source *src, bool here,
                                struct err *e)
{
    static const char before[] = "start: \"x\"\nunused: %json ";
    const size_t n = sizeof before - 1;
    char *text = malloc(n + src->n);
    if (!text)
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for the grammar");
    memcpy(text, before, n);
    memcpy(text + n, src->text, src->n);
    const struct grammar_source lark = {.kind = GRAMMAR_LARK, .text = text, .n = n + src->n, .relax = src->relax};
    enum status st = make_grammar(out, t, &lark, here, e);
    free(text);
    return st;
}

static enum status compile(struct grammar **out, const struct tok *t, const struct grammar_source *src, bool here,
                           struct err *e)
{
    *out = NULL;
    if (!src->check)
        return make_grammar(out, t, src, here, e);
    if (src->kind != GRAMMAR_SCHEMA || src->after || !src->n)
        return err_set(e, ST_BUG, "grammar", "only a schema by itself can be looked at");
    return check_schema(out, t, src, here, e);
}

enum status grammar_new(struct grammar **out, const struct tok *t, const struct grammar_source *src, struct err *e)
{
    return compile(out, t, src, false, e);
}

enum status text_grammar_here(struct grammar **out, const struct tok *t, const struct grammar_source *src, struct err *e)
{
    return compile(out, t, src, true, e);
}

size_t text_grammar_stack(void)
{
    return FFWD_GRAMMAR_STACK + (1u << 20); /* and what is called on the way there */
}

size_t text_grammar_bytes(const struct grammar *g)
{
    return sizeof *g + g->after_n + ffwd_grammar_bytes(g->shim);
}

void grammar_retain(struct grammar *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
}

void grammar_free(struct grammar *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    ffwd_grammar_free(g->shim);
    free(g);
}

const char *grammar_relaxed(const struct grammar *g, size_t *n)
{
    *n = 0;
    return (const char *)ffwd_grammar_relaxed(g->shim, n);
}

const char *grammar_after(const struct grammar *g, size_t *n)
{
    *n = g->after_n;
    return g->after_n ? g->after : NULL;
}

/* ---- matchers ---- */

static struct ffwd_matcher *matcher(struct matcher *m)
{
    return (struct ffwd_matcher *)m;
}

static enum status make(struct matcher **out, const struct grammar *g, bool compact, struct err *e)
{
    struct ffwd_error failure;
    struct ffwd_matcher *m = NULL;
    *out = NULL;
    TRY(text_status(ffwd_matcher_new(g->shim, compact, &m, &failure), &failure, "grammar", e));
    *out = (struct matcher *)m;
    return ST_OK;
}

enum status matcher_new(struct matcher **out, const struct grammar *g, struct err *e)
{
    return make(out, g, false, e);
}

enum status matcher_new_compact(struct matcher **out, const struct grammar *g, struct err *e)
{
    return make(out, g, true, e);
}

void matcher_free(struct matcher *m)
{
    ffwd_matcher_free(matcher(m));
}

size_t matcher_words(const struct matcher *m)
{
    return ffwd_matcher_words((const struct ffwd_matcher *)m);
}

enum status matcher_mask(struct matcher *m, uint32_t *mask, struct matcher_next *next, struct err *e)
{
    struct ffwd_error failure;
    struct ffwd_matcher_next n = {.only = TOK_NONE};
    enum status st = text_status(ffwd_matcher_mask(matcher(m), mask, &n, &failure), &failure, "grammar", e);
    *next = (struct matcher_next){.n = n.n, .only = n.only, .end = n.end, .all = n.all};
    return st;
}

uint32_t matcher_consume(struct matcher *m, const tok_id *ids, uint32_t n)
{
    return (uint32_t)ffwd_matcher_consume(matcher(m), ids, n);
}

enum status matcher_error(struct matcher *m, struct err *e)
{
    struct ffwd_error failure;
    return text_status(ffwd_matcher_error(matcher(m), &failure), &failure, "grammar", e);
}

void matcher_rollback(struct matcher *m, uint32_t n)
{
    ffwd_matcher_rollback(matcher(m), n);
}
