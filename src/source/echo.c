/*
 * echo: copies of longer stretches of the row's own ids, prompt and output alike.
 *
 * The last GRAM ids are looked up in an index of the row: each place where they stood before is an anchor, and what
 * followed there may follow here. Anchors that match farther back speak for themselves: of those found, only the class of
 * the longest match is followed. They are followed in lockstep while all agree on the next id; where they differ the text
 * has branched, and the proposal ends. An anchor that comes to the end of the row has nothing more to say and drops out,
 * unless the match is as long as the way to the end: then the text is periodic, and the copy goes on in itself.
 *
 * How many ids are proposed, if any, is a matter of what such copies were worth so far: rate.h.
 */
#include <stdlib.h>

#include "source/index.h"
#include "source/rate.h"
#include "source/source.h"

enum {
    GRAM = 8,
    CANDIDATES = 24, /* anchors, the nearest */
    REACH = 64       /* ids before an anchor that are compared */
};

struct echo {
    struct source base;
    const struct tok *tok;
    struct source_rates rates;
};

struct echo_row {
    struct source_index index;
    struct source_rate rate;
    uint32_t asked; /* where the row was asked first since its ids were last observed; UINT32_MAX = nowhere */
};

struct anchors {
    uint32_t n;
    uint32_t at[CANDIDATES]; /* the ids copied begin there */
    bool periodic[CANDIDATES];
    uint32_t match; /* of the longest */
};

/* Those for what comes behind ids[0, n). */
static void find(const struct echo *s, const struct echo_row *st, const tok_id *ids, uint32_t n, struct anchors *a)
{
    uint32_t ends[CANDIDATES], match[CANDIDATES], least;
    const uint32_t found = source_index_find(&st->index, ids, n, ends, CANDIDATES);
    a->n = a->match = 0;
    for (uint32_t i = 0; i < found; i++) {
        match[i] = source_index_match(ids, ends[i], n, REACH);
        a->match = match[i] > a->match ? match[i] : a->match;
    }
    least = s->rates.from[source_rate_class(&s->rates, a->match)];
    for (uint32_t i = 0; i < found; i++) {
        if (match[i] < least)
            continue;
        a->at[a->n] = ends[i];
        a->periodic[a->n++] = match[i] >= n - ends[i];
    }
}

/* What all anchors say comes behind ids[0, n): up to `most` ids, before any that ends a turn. */
static uint32_t follow(const struct echo *s, const struct anchors *a, const tok_id *ids, uint32_t n, tok_id *out,
                       uint32_t most)
{
    for (uint32_t j = 0; j < most; j++) {
        bool any = false;
        for (uint32_t i = 0; i < a->n; i++) {
            const uint32_t at = a->at[i] + j;
            if (at >= n && !a->periodic[i])
                continue;
            const tok_id id = at < n ? ids[at] : out[at - n];
            if (any && id != out[j])
                return j;
            any = true;
            out[j] = id;
        }
        if (!any || (s->tok && tok_is_eos(s->tok, out[j])))
            return j;
    }
    return most;
}

static void propose(struct source *base, const struct source_ask *asks, uint32_t n)
{
    struct echo *s = (struct echo *)base;
    for (uint32_t i = 0; i < n; i++) {
        const struct source_row *row = asks[i].row;
        struct echo_row *st = row->state[SOURCE_ECHO];
        struct anchors a;
        source_index_extend(&st->index, row->ids, row->known);
        if (st->asked > row->n)
            st->asked = row->n;
        st->rate.price = asks[i].price;
        find(s, st, row->ids, row->n, &a);
        const uint32_t most = follow(s, &a, row->ids, row->n, asks[i].out->id, asks[i].most);
        source_rate_propose(&s->rates, &st->rate, a.match, most, &asks[i]);
    }
}

static void settle(struct source *base, const struct source_row *row, uint32_t ticket, uint32_t offered, uint32_t accepted)
{
    (void)base;
    struct echo_row *st = row->state[SOURCE_ECHO];
    source_rate_settle(&st->rate, ticket, offered, accepted);
}

/* Guesses each new id from those before it, as propose() would have. Not those before the place where the row was asked:
 * other sources knew them already, and what is easy for them says little of the rest. */
static void observe(struct source *base, const struct source_row *row, uint32_t from)
{
    struct echo *s = (struct echo *)base;
    struct echo_row *st = row->state[SOURCE_ECHO];
    for (uint32_t at = st->asked > from ? st->asked : from; at < row->known; at++) {
        struct anchors a;
        tok_id id;
        source_index_extend(&st->index, row->ids, at);
        find(s, st, row->ids, at, &a);
        source_rate_passed(&st->rate);
        if (follow(s, &a, row->ids, at, &id, 1))
            source_rate_guessed(&s->rates, &st->rate, a.match, id == row->ids[at]);
    }
    source_index_extend(&st->index, row->ids, row->known);
    st->asked = UINT32_MAX;
}

static void close_row(struct source *base, struct source_row *row)
{
    (void)base;
    struct echo_row *st = row->state[SOURCE_ECHO];
    if (st)
        source_index_release(&st->index);
    free(st);
    row->state[SOURCE_ECHO] = NULL;
}

static enum status open_row(struct source *base, struct source_row *row, uint32_t longest, struct err *e)
{
    struct echo_row *st = calloc(1, sizeof *st);
    row->state[SOURCE_ECHO] = st;
    if (!st)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a row's copies");
    enum status status = source_index_init(&st->index, GRAM, longest, LIMIT_ECHO, e);
    if (status != ST_OK) {
        close_row(base, row);
        return status;
    }
    source_rate_begin(&st->rate);
    st->asked = UINT32_MAX;
    source_index_extend(&st->index, row->ids, row->known);
    return ST_OK;
}

static void free_echo(struct source *base)
{
    free(base);
}

static const struct source_ops echo_source = {
    .kind = SOURCE_ECHO,
    .open = open_row,
    .close = close_row,
    .propose = propose,
    .settle = settle,
    .observe = observe,
    .free = free_echo,
};

enum status source_echo_new(struct source **out, const struct tok *t, struct err *e)
{
    struct echo *s = calloc(1, sizeof *s);
    *out = (struct source *)s;
    if (!s)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a source of copies");
    s->base.ops = &echo_source;
    s->tok = t;
    s->rates = (struct source_rates){.from = {GRAM, 12, 16, 24, 32, REACH},
                                     .prior = {0.5f, 0.65f, 0.75f, 0.85f, 0.9f, 0.95f}};
    return ST_OK;
}
