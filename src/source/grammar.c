/*
 * grammar: ids that the row's grammar leaves no choice about.
 *
 * An id is forced when exactly one may come and the reply may not end there. The source walks along forced ids with the
 * row's own matcher and goes back, so what it says is what plain decoding would be masked to, id by id: the splits are
 * those of the tokenizer, since the matcher withholds bytes that a longer token could still take.
 */
#include <stdlib.h>

#include "source/source.h"

struct grammar_state {
    size_t words;
    uint32_t mask[]; /* [words] */
};

struct source_grammar {
    struct source source;
};

static enum status grammar_open(struct source *s, struct source_row *row, uint32_t longest, struct err *e)
{
    (void)s, (void)longest;
    if (!row->matcher)
        return ST_OK;
    size_t words = matcher_words(row->matcher);
    struct grammar_state *g = malloc(sizeof *g + words * sizeof *g->mask);
    if (!g)
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for a mask of %zu words", words);
    g->words = words;
    row->state[SOURCE_GRAMMAR] = g;
    return ST_OK;
}

static void grammar_close(struct source *s, struct source_row *row)
{
    (void)s;
    free(row->state[SOURCE_GRAMMAR]);
    row->state[SOURCE_GRAMMAR] = NULL;
}

static void walk(const struct source_row *row, struct grammar_state *g, uint32_t most, struct source_proposal *out)
{
    struct matcher_next next = row->n == row->known ? *row->next : (struct matcher_next){.n = 2};
    if (row->n != row->known && matcher_mask(row->matcher, g->mask, &next, NULL) != ST_OK)
        return;
    out->trust = SOURCE_ASSERT;
    while (out->n < most && next.n == 1 && !next.end && matcher_consume(row->matcher, &next.only, 1)) {
        out->chance[out->n] = 1;
        out->id[out->n++] = next.only;
        if (matcher_mask(row->matcher, g->mask, &next, NULL) != ST_OK)
            break;
    }
    matcher_rollback(row->matcher, out->n);
}

static void grammar_propose(struct source *s, const struct source_ask *asks, uint32_t n)
{
    (void)s;
    for (uint32_t i = 0; i < n; i++) {
        const struct source_row *row = asks[i].row;
        if (row->matcher && row->state[SOURCE_GRAMMAR])
            walk(row, row->state[SOURCE_GRAMMAR], asks[i].most, asks[i].out);
    }
}

static void grammar_free_source(struct source *s)
{
    free(s);
}

static const struct source_ops ops = {
    .kind = SOURCE_GRAMMAR,
    .open = grammar_open,
    .close = grammar_close,
    .propose = grammar_propose,
    .free = grammar_free_source,
};

enum status source_grammar_new(struct source **out, struct err *e)
{
    struct source_grammar *g = calloc(1, sizeof *g);
    *out = g ? &g->source : NULL;
    if (!g)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a source");
    g->source.ops = &ops;
    return ST_OK;
}
