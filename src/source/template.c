/*
 * template: tool calls as the chat template writes them.
 *
 * The rows (format.h) say which ids follow which, once a model has begun to call a tool; a recogniser that reads the reply
 * along proves that it has. It is fed with what is certain; for the tentative ids of a span a copy of it goes on. A row
 * that has fired goes on speaking for the ids it named, also when another source gave some of them or a budget cut it.
 *
 * Whoever calls in another way than its template shows is not asked again: when a call breaks off after a row has fired,
 * the source is silent for the rest of the request.
 *
 * What a row says is compared with the sampler. How often it was right is learnt by kind of row over all requests of the
 * engine; a row that disappoints a request in a row of times speaks less there.
 */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "source/source.h"

#define PRIOR_SEEN 20.0f  /* ids that a new engine believes to have seen, of each kind */
#define PRIOR_RIGHT 0.9f  /* how many of them right */
#define SEEN_MOST 512.0f  /* more are halved, so that old ones are forgotten */
#define MISSES_MOST 4u    /* proposals in a row of which not one id was right: no more in this request */

/* Determined ids and likely ones are told apart. */
struct rate {
    float seen, right;
};

struct template_source {
    struct source base;
    const struct tok *tok;
    struct rate rates[TEMPLATE_ROW_KINDS][2];
};

/* A place in a reply. Plain memory: a copy goes on by itself. */
struct place {
    struct recogniser r;
    const struct template_row *row; /* the last that fired; NULL: none */
    uint32_t from;                  /* ids before the first that it appends */
};

struct template_state {
    struct place sure, tentative;
    uint32_t fed; /* ids that `sure` has read, the prompt's included */
    uint32_t misses;
    bool fired, disarmed, special;
};

static void ignore(void *user, const struct recogniser_event *ev)
{
    (void)user;
    (void)ev;
}

/* Reads one id, ids[n - 1], and looks whether a row fires behind it. */
static void read_id(const struct template_source *t, const struct template_state *s, struct place *p,
                    const struct source_row *row, uint32_t n)
{
    struct recogniser_state at;
    size_t len = 0;
    tok_id id = row->ids[n - 1];
    bool shown = !tok_is_eos(t->tok, id) && (s->special || !tok_is_special(t->tok, id));
    const char *text = shown ? tok_bytes(t->tok, id, &len) : NULL;
    if (len)
        recogniser_feed(&p->r, text, len, ignore, NULL);
    recogniser_look(&p->r, &at);
    if (at.broken) {
        p->row = NULL;
        return;
    }
    const struct template_row *match = template_rows_match(row->rows, row->ids + row->prompt_n, n - row->prompt_n, &at);
    if (match) {
        p->row = match;
        p->from = n;
    } else if (p->row && (n - p->from > p->row->append_n || p->row->append[n - p->from - 1] != id)) {
        p->row = NULL;
    }
}

static void catch_up(struct template_source *t, const struct source_row *row, struct template_state *s)
{
    struct recogniser_state at;
    if (s->fed < row->prompt_n)
        s->fed = row->prompt_n;
    if (s->fed >= row->known)
        return;
    while (s->fed < row->known)
        read_id(t, s, &s->sure, row, ++s->fed);
    recogniser_look(&s->sure.r, &at);
    s->disarmed = s->disarmed || (at.broken && s->fired);
}

/* ---- rates ---- */

static float chance(const struct rate *r)
{
    return (r->right + PRIOR_SEEN * PRIOR_RIGHT) / (r->seen + PRIOR_SEEN);
}

static void learn(struct rate *r, uint32_t right, uint32_t wrong)
{
    r->seen += (float)(right + wrong);
    r->right += (float)right;
    if (r->seen > SEEN_MOST) {
        r->seen /= 2;
        r->right /= 2;
    }
}

/* A ticket says the row's kind and how many of the ids are determined. */
static uint32_t ticket_of(enum template_row_kind kind, uint32_t sure)
{
    return (uint32_t)kind | sure << 8;
}

/* ---- the source ---- */

static enum status template_open(struct source *s, struct source_row *row, uint32_t longest, struct err *e)
{
    (void)s;
    (void)longest;
    if (!row->rows || !template_rows_n(row->rows))
        return ST_OK;
    const struct recogniser_config *cfg = template_rows_config(row->rows);
    struct template_state *st = calloc(1, sizeof *st);
    if (!st)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory to follow the tool calls of a reply");
    st->special = (cfg->format && format_keeps_special(cfg->format)) || (cfg->reasoning && cfg->reasoning->keeps_special);
    recogniser_init(&st->sure.r, cfg);
    row->state[SOURCE_TEMPLATE] = st;
    return ST_OK;
}

static void template_close(struct source *s, struct source_row *row)
{
    (void)s;
    free(row->state[SOURCE_TEMPLATE]);
    row->state[SOURCE_TEMPLATE] = NULL;
}

/* The ids that the row at `p` still has to say, as far as they pay. */
static void offer(const struct template_source *t, const struct source_ask *ask, const struct place *p)
{
    struct source_proposal *out = ask->out;
    uint32_t said = ask->row->n - p->from, n = p->row->append_n - said;
    uint32_t sure = p->row->sure_n > said ? p->row->sure_n - said : 0;
    float all = ask->chance;
    n = n < ask->most ? n : ask->most;
    n = n < SOURCE_SPAN ? n : SOURCE_SPAN;
    for (uint32_t i = 0; i < n; i++) {
        float c = chance(&t->rates[p->row->kind][i >= sure]);
        all *= c;
        if (all < ask->price)
            break;
        out->id[i] = p->row->append[said + i];
        out->chance[i] = c;
        out->n = i + 1;
    }
    out->trust = SOURCE_VERIFY;
    out->sure = sure < out->n ? sure : out->n;
    out->ticket = ticket_of(p->row->kind, out->sure);
}

static void template_propose(struct source *s, const struct source_ask *asks, uint32_t n)
{
    struct template_source *t = (struct template_source *)s;
    for (uint32_t i = 0; i < n; i++) {
        const struct source_row *row = asks[i].row;
        struct template_state *st = row->state[SOURCE_TEMPLATE];
        if (!st || st->misses >= MISSES_MOST || !asks[i].most)
            continue;
        catch_up(t, row, st);
        if (st->disarmed)
            continue;
        const struct place *p = &st->sure;
        if (row->n > row->known) {
            st->tentative = st->sure;
            for (uint32_t at = row->known + 1; at <= row->n; at++)
                read_id(t, st, &st->tentative, row, at);
            p = &st->tentative;
        }
        if (p->row && row->n - p->from < p->row->append_n)
            offer(t, &asks[i], p);
    }
}

static void template_settle(struct source *s, const struct source_row *row, uint32_t ticket, uint32_t offered,
                            uint32_t accepted)
{
    struct template_source *t = (struct template_source *)s;
    struct template_state *st = row->state[SOURCE_TEMPLATE];
    struct rate *rates = t->rates[(ticket & 255u) % TEMPLATE_ROW_KINDS];
    uint32_t sure = ticket >> 8, head = accepted < sure ? accepted : sure;
    if (!st || !offered)
        return;
    learn(&rates[0], head, head == accepted && accepted < offered && accepted < sure);
    learn(&rates[1], accepted - head, accepted < offered && accepted >= sure);
    st->fired = st->fired || accepted;
    st->misses = accepted ? 0 : st->misses + 1;
}

static void template_observe(struct source *s, const struct source_row *row, uint32_t from)
{
    struct template_state *st = row->state[SOURCE_TEMPLATE];
    (void)from;
    if (st)
        catch_up((struct template_source *)s, row, st);
}

static bool template_disarmed(const struct source *s, const struct source_row *row)
{
    (void)s;
    const struct template_state *st = row->state[SOURCE_TEMPLATE];
    return st && st->disarmed;
}

static void template_free(struct source *s)
{
    free(s);
}

static const struct source_ops template_ops = {
    .kind = SOURCE_TEMPLATE,
    .open = template_open,
    .close = template_close,
    .propose = template_propose,
    .settle = template_settle,
    .observe = template_observe,
    .disarmed = template_disarmed,
    .free = template_free,
};

enum status source_template_new(struct source **out, const struct tok *t, struct err *e)
{
    struct template_source *s = calloc(1, sizeof *s);
    *out = s ? &s->base : NULL;
    if (!s)
        return err_set(e, ST_NO_MEMORY, "", "no memory for what proposes tool calls");
    s->base.ops = &template_ops;
    s->tok = t;
    return ST_OK;
}
