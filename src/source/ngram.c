/*
 * ngram: what followed the last few ids when they came before.
 *
 * The last three ids are looked up, else two, else one, and what followed their latest occurrence is proposed, up to SPAN
 * ids. The prompt holds the earlier turns of a conversation, so their words are found too. A table for each length keeps
 * the latest end of the grams that share a slot; an older one is forgotten, which costs a proposal and nothing else, and
 * keeps the tables small for any length of text. What is found is compared id by id.
 *
 * The match is then followed backwards, and what such guesses were worth decides: rate.h.
 */
#include <stdlib.h>
#include <string.h>

#include "source/index.h"
#include "source/rate.h"
#include "source/source.h"

enum {
    LONGEST = 3,
    SPAN = 10,
    REACH = 8 /* ids before an occurrence that are compared */
};

struct ngram {
    struct source base;
    struct source_rates rates;
};

struct ngram_row {
    struct source_rate rate;
    uint32_t asked; /* where the row was asked first since its ids were last observed; UINT32_MAX = nowhere */
    uint32_t next;  /* the end to be entered next: the id behind it is not known yet */
    uint32_t mask;
    uint32_t last[]; /* [LONGEST][mask + 1] the latest end of a gram that falls there, 0 = none */
};

static uint32_t *slot_of(struct ngram_row *st, const tok_id *ids, uint32_t end, uint32_t k)
{
    const size_t at = source_index_hash(ids + end - k, k) & st->mask;
    return &st->last[(k - 1) * ((size_t)st->mask + 1) + at];
}

static void extend(struct ngram_row *st, const tok_id *ids, uint32_t n)
{
    for (; st->next < n; st->next++)
        for (uint32_t k = 1; k <= LONGEST && k <= st->next; k++)
            *slot_of(st, ids, st->next, k) = st->next;
}

/* Where what may come behind ids[0, n) stood before; 0 = nowhere. */
static uint32_t find(struct ngram_row *st, const tok_id *ids, uint32_t n, uint32_t *match)
{
    for (uint32_t k = n < LONGEST ? n : LONGEST; k > 0; k--) {
        const uint32_t end = *slot_of(st, ids, n, k);
        *match = end ? source_index_match(ids, end, n, REACH) : 0;
        if (*match >= k)
            return end;
    }
    return 0;
}

/* What followed there, up to the end of the row; on from its own beginning where the match shows a period. */
static uint32_t copy(const struct source_row *row, uint32_t at, uint32_t match, const struct source_ask *ask)
{
    const bool periodic = match >= row->n - at;
    tok_id *id = ask->out->id;
    uint32_t j = 0;
    for (; j < SPAN && j < ask->most && (periodic || at + j < row->n); j++)
        id[j] = at + j < row->n ? row->ids[at + j] : id[at + j - row->n];
    return j;
}

static void propose(struct source *base, const struct source_ask *asks, uint32_t n)
{
    struct ngram *s = (struct ngram *)base;
    for (uint32_t i = 0; i < n; i++) {
        const struct source_row *row = asks[i].row;
        struct ngram_row *st = row->state[SOURCE_NGRAM];
        uint32_t match;
        extend(st, row->ids, row->known);
        if (st->asked > row->n)
            st->asked = row->n;
        st->rate.price = asks[i].price;
        const uint32_t at = find(st, row->ids, row->n, &match);
        if (at)
            source_rate_propose(&s->rates, &st->rate, match, copy(row, at, match, &asks[i]), &asks[i]);
    }
}

static void settle(struct source *base, const struct source_row *row, uint32_t ticket, uint32_t offered, uint32_t accepted)
{
    (void)base;
    struct ngram_row *st = row->state[SOURCE_NGRAM];
    source_rate_settle(&st->rate, ticket, offered, accepted);
}

/* As echo's: guesses what it was asked for. */
static void observe(struct source *base, const struct source_row *row, uint32_t from)
{
    struct ngram *s = (struct ngram *)base;
    struct ngram_row *st = row->state[SOURCE_NGRAM];
    for (uint32_t at = st->asked > from ? st->asked : from; at < row->known; at++) {
        uint32_t match;
        extend(st, row->ids, at);
        const uint32_t end = find(st, row->ids, at, &match);
        source_rate_passed(&st->rate);
        if (end)
            source_rate_guessed(&s->rates, &st->rate, match, row->ids[end] == row->ids[at]);
    }
    extend(st, row->ids, row->known);
    st->asked = UINT32_MAX;
}

static void close_row(struct source *base, struct source_row *row)
{
    (void)base;
    free(row->state[SOURCE_NGRAM]);
    row->state[SOURCE_NGRAM] = NULL;
}

static enum status open_row(struct source *base, struct source_row *row, uint32_t longest, struct err *e)
{
    uint32_t slots = 16;
    (void)base;
    while (slots < longest && slots < LIMIT_NGRAM)
        slots *= 2;
    struct ngram_row *st = calloc(1, sizeof *st + LONGEST * slots * sizeof *st->last);
    row->state[SOURCE_NGRAM] = st;
    if (!st)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a row's n-grams");
    source_rate_begin(&st->rate);
    st->asked = UINT32_MAX;
    st->next = 1;
    st->mask = slots - 1;
    extend(st, row->ids, row->known);
    return ST_OK;
}

static void free_ngram(struct source *base)
{
    free(base);
}

static const struct source_ops ngram_source = {
    .kind = SOURCE_NGRAM,
    .open = open_row,
    .close = close_row,
    .propose = propose,
    .settle = settle,
    .observe = observe,
    .free = free_ngram,
};

enum status source_ngram_new(struct source **out, struct err *e)
{
    struct ngram *s = calloc(1, sizeof *s);
    *out = (struct source *)s;
    if (!s)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a source of n-grams");
    s->base.ops = &ngram_source;
    s->rates = (struct source_rates){.from = {1, 2, 3, 4, 6, REACH},
                                     .prior = {0.15f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f}};
    return ST_OK;
}
