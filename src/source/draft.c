/*
 * draft: a smaller model of the same vocabulary says how a row may go on.
 *
 * All rows of a step are drafted together. Each has a sequence in the draft model's own KV (draft_rows.h); one forward
 * feeds what each has not seen yet, and rows that are up to date go on, one id of each a round, drawn as the target will
 * draw: by the request's own sampler, with the same key for the same output position. So where both models agree about a
 * distribution, they draw the same id from it at any temperature.
 *
 * A row drafts as long as that pays (draft_pay.h). One for which it does not is left alone for a while, twice as long each
 * time, and is not even fed: catching up is what costs most. Whether it catches up then is a question of the purse.
 */
#include "source/draft.h"

#include <math.h>
#include <stdlib.h>

#include "source/draft_pay.h"
#include "source/draft_rows.h"

#define STEADY DRAFT_DEPTH /* a row that is no further behind than this goes on; others catch up */
#define PAUSE 8u           /* ids of a row's first pause */
#define PAUSES 16u         /* it doubles this often */
#define SETTLED 4u         /* proposals of one row and step whose outcomes are told apart */
#define WARM_FEED 64u      /* ids fed and rounds run to see how long they take */
#define WARM_ROUNDS 3u

struct outcome {
    uint32_t at; /* length of the row when it was proposed */
    uint32_t offered, accepted;
};

/* What is remembered of a row. */
struct draft_row {
    struct draft_seq *seq; /* NULL: none yet, or beyond the context */
    struct draft_rate rate[DRAFT_DEPTH];
    struct outcome settled[SETTLED]; /* of this step, to be learnt from when it is known what came before them */
    uint32_t settled_n;
    double price, worth_ms; /* as asked last */
    uint32_t resume;        /* not looked at before so many ids are known */
    uint32_t pauses;        /* how often it was given up lately */
    bool trusted;           /* a draft of it paid, and none was given up since */
};

/* A row's part in one call. */
struct turn {
    const struct source_ask *ask;
    struct draft_row *row;
    uint32_t behind, feed; /* ids to catch up; ids of the next forward */
    uint32_t most, drawn;
    double chance;   /* that all that is tentative or drawn is accepted */
    double win;      /* milliseconds that the next id may save, less its price */
    bool on;         /* goes on after the next forward */
    uint32_t walked; /* ids the matcher was taken along */
    struct sample_state sample;
    tok_id id;
    enum status status;
};

struct draft {
    struct source source;
    const struct tok *tok;
    struct source_draft_tuning tuning;
    struct draft_rows rows;
    struct draft_times times;
    struct draft_purse purse;
    struct source_draft_counts counts;

    struct turn turns[LIMIT_ROWS];
    uint32_t n;
    double promised; /* of the purse, in this call */
    struct model_span spans[LIMIT_ROWS];
    struct turn *heads[LIMIT_ROWS];
    uint32_t at[LIMIT_ROWS], heads_n;
};

static double now_ms(const struct draft *d)
{
    return (d->tuning.clock ? d->tuning.clock(d->tuning.ctx) : clock_seconds()) * 1e3;
}

/* --- a row ----------------------------------------------------------------------------------------------------------- */

static void forget(struct draft_row *r)
{
    for (uint32_t i = 0; i < DRAFT_DEPTH; i++)
        source_draft_rate_begin(&r->rate[i]);
}

/* Begins a pause; what is known of the row's chances is forgotten, so that it is tried again behind it. */
static void give_up(struct draft_row *r, uint32_t known)
{
    forget(r);
    r->resume = known + (PAUSE << r->pauses);
    r->pauses += r->pauses < PAUSES;
    r->trusted = false;
}

static enum status draft_open(struct source *s, struct source_row *row, uint32_t longest, struct err *e)
{
    (void)s;
    (void)longest;
    struct draft_row *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a row's drafts");
    forget(r);
    row->state[SOURCE_DRAFT] = r;
    return ST_OK;
}

static void draft_close(struct source *s, struct source_row *row)
{
    (void)s;
    struct draft_row *r = row->state[SOURCE_DRAFT];
    if (r)
        source_draft_give(r->seq);
    free(r);
    row->state[SOURCE_DRAFT] = NULL;
}

/* What an id saves that is accepted with this chance, less what computing it takes. Without a worth in milliseconds only
 * its sign is known: then any own time pays. */
static double win_of(const struct draft_row *r, double chance)
{
    double share = chance - r->price * DRAFT_MARGIN;
    if (share < 0)
        return -1;
    return r->worth_ms > 0 ? share * r->worth_ms : (double)INFINITY;
}

/* Whether a row is left out because of what became of its drafts, not of prices: `own_ms` is its share of a forward. */
static bool blamed(const struct draft_row *r, double own_ms)
{
    return win_of(r, source_draft_rate(&r->rate[0])) < own_ms && win_of(r, DRAFT_PRIOR) >= own_ms;
}

/* --- who takes part -------------------------------------------------------------------------------------------------- */

/* Whether the row may be drafted at all, now. */
static bool may_draft(const struct draft *d, const struct source_ask *ask)
{
    const struct source_row *row = ask->row;
    struct draft_row *r = row->state[SOURCE_DRAFT];
    if (row->n > d->rows.context) { /* for good */
        source_draft_give(r->seq);
        r->seq = NULL;
        return false;
    }
    if (!ask->most || !row->n || row->n < row->prompt_n || row->n - row->known > DRAFT_BACK - DRAFT_DEPTH ||
        row->known < r->resume)
        return false;
    double rate = source_draft_rate(&r->rate[0]);
    if (win_of(r, (double)ask->chance * rate) >= 0)
        return true;
    if (blamed(r, 0))
        give_up(r, row->known);
    return false;
}

/* Rows that go on pay from what they win. Those that have to catch up, or have yet to show something, do from the purse. */
static bool may_spend(struct draft *d, const struct draft_row *r, uint32_t behind)
{
    if (r->worth_ms <= 0)
        return true;
    if (r->trusted && behind <= STEADY)
        return source_draft_purse_goes_on(&d->purse, r->worth_ms);
    double ms = source_draft_feed_ms(&d->times, behind);
    if (source_draft_purse_has(&d->purse) - d->promised < ms)
        return false;
    d->promised += ms;
    return true;
}

static void consider(struct draft *d, const struct source_ask *ask)
{
    const struct source_row *row = ask->row;
    struct draft_row *r = row->state[SOURCE_DRAFT];
    if (!r || d->n == LIMIT_ROWS)
        return;
    r->price = (double)ask->price;
    r->worth_ms = ask->worth_ms;
    source_draft_purse_see(&d->purse, r->worth_ms);
    if (!may_draft(d, ask))
        return;
    uint32_t behind = r->seq ? source_draft_sync(r->seq, row) : row->n, most = d->rows.context - row->n + 1;
    if (!may_spend(d, r, behind) || (!r->seq && !(r->seq = source_draft_take(&d->rows))))
        return;
    struct turn *t = &d->turns[d->n];
    *t = (struct turn){.ask = ask, .row = r, .behind = source_draft_sync(r->seq, row), .chance = (double)ask->chance};
    t->most = ask->most < DRAFT_DEPTH ? ask->most : DRAFT_DEPTH;
    t->most = t->most < most ? t->most : most;
    t->win = win_of(r, t->chance * source_draft_rate(&r->rate[0]));
    sample_state_begin(&t->sample, row->sampling);
    uint32_t i = d->n++;
    for (struct turn moved = *t; i && d->turns[i - 1].behind > moved.behind; i--) { /* the least behind first */
        d->turns[i] = d->turns[i - 1];
        d->turns[i - 1] = moved;
    }
}

/* How much each row feeds in the first forward. Rows whose blocks have run out give theirs back: they may be another's. */
static void share_out(struct draft *d)
{
    uint32_t left = DRAFT_FEED;
    double budget = d->n ? d->turns[0].ask->budget_ms : 0;
    while (budget > 0 && left > STEADY * d->n && source_draft_feed_ms(&d->times, left) > budget)
        left /= 2;
    for (uint32_t i = 0; i < d->n; i++) {
        struct turn *t = &d->turns[i];
        t->feed = t->behind < left ? t->behind : left;
        if (t->feed && !source_draft_reserve(t->row->seq, t->feed)) {
            source_draft_give(t->row->seq);
            t->row->seq = NULL;
            give_up(t->row, t->ask->row->known);
            t->feed = 0;
        }
        left -= t->feed;
        t->on = t->feed && t->feed == t->behind;
    }
}

/* Leaves out rows, the least promising first, until what the others may win is worth the forward. Rows that catch up are
 * paid for. True when any row goes on. */
static bool weigh(struct draft *d, bool first)
{
    for (;;) {
        uint32_t rows = 0, ids = 0;
        double win = 0;
        struct turn *worst = NULL;
        for (uint32_t i = 0; i < d->n; i++) {
            struct turn *t = &d->turns[i];
            if (!t->on || (first && t->behind > STEADY))
                continue;
            rows++;
            ids += t->feed;
            win += t->win;
            worst = !worst || t->win < worst->win ? t : worst;
        }
        double ms = rows ? source_draft_round_ms(&d->times, ids) * DRAFT_MARGIN : 0;
        if (!rows || (worst->win >= 0 && win >= ms))
            return rows > 0;
        if (first && blamed(worst->row, ms / rows))
            give_up(worst->row, worst->ask->row->known);
        worst->on = false;
        worst->feed = 0;
    }
}

/* --- drawing --------------------------------------------------------------------------------------------------------- */

static void draw_one(void *ctx, uint32_t task, int worker)
{
    struct draft *d = ctx;
    struct turn *t = d->heads[task];
    const struct source_row *row = t->ask->row;
    uint32_t n = row->n + t->drawn, *mask = NULL;
    struct matcher_next next;
    t->status = ST_OK;
    if (row->matcher) {
        mask = d->rows.masks + task * sample_mask_words(d->rows.vocab);
        t->status = matcher_words(row->matcher) > sample_mask_words(d->rows.vocab) ? ST_ARGUMENT
                                                                                   : matcher_mask(row->matcher, mask,
                                                                                                  &next, NULL);
    }
    if (!t->status)
        t->status = sampler_choose_top(d->rows.samplers[worker], row->sampling, &t->sample,
                                       d->rows.logits + (size_t)task * d->rows.vocab, &d->rows.tops[task], mask,
                                       t->row->seq->ids, n, n - row->prompt_n, &t->id, NULL);
}

/* Takes the id that was drawn into the proposal, and decides what the next one would be worth. */
static void take_drawn(struct draft *d, struct turn *t)
{
    const struct source_row *row = t->ask->row;
    struct source_proposal *out = t->ask->out;
    t->on = false;
    t->feed = 0;
    if (t->status) { /* not finite: nothing to be had from this row */
        give_up(t->row, row->known);
        return;
    }
    if (d->tok && tok_is_eos(d->tok, t->id))
        return;
    if (row->matcher) {
        if (!matcher_consume(row->matcher, &t->id, 1)) { /* the target cannot choose it either */
            source_draft_rate_learn(&t->row->rate[t->drawn], false);
            return;
        }
        t->walked++;
    }
    double rate = source_draft_rate(&t->row->rate[t->drawn]);
    t->row->seq->ids[row->n + t->drawn] = t->id;
    out->id[t->drawn] = t->id;
    out->chance[t->drawn++] = (float)rate;
    t->chance *= rate;
    d->counts.drawn++;
    if (t->drawn == t->most)
        return;
    t->win = win_of(t->row, t->chance * source_draft_rate(&t->row->rate[t->drawn]));
    t->on = t->win >= 0 && source_draft_reserve(t->row->seq, 1);
    t->feed = t->on;
}

static void look(const struct draft *d)
{
    for (uint32_t i = 0; d->tuning.see && i < d->heads_n; i++) {
        const struct turn *t = d->heads[i];
        d->tuning.see(d->tuning.ctx, t->ask->row, t->row->seq->ids, t->ask->row->n + t->drawn,
                      d->rows.logits + (size_t)i * d->rows.vocab);
    }
}

/* One forward over what each row feeds; rows that go on draw. */
static void run_round(struct draft *d)
{
    uint32_t n = 0, ids = 0, steady = 0;
    double begin = now_ms(d);
    d->heads_n = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        struct turn *t = &d->turns[i];
        struct draft_seq *s = t->row->seq;
        if (!t->feed)
            continue;
        d->spans[n++] = (struct model_span){.seq = &s->kv, .ids = s->ids + s->kv.len, .n = t->feed};
        ids += t->feed;
        steady += t->on;
        if (t->on) {
            d->at[d->heads_n] = ids - 1;
            d->heads[d->heads_n++] = t;
        }
    }
    source_draft_forward(&d->rows, d->spans, n);
    double fed = now_ms(d);
    if (d->heads_n) {
        model_head(d->rows.run, d->at, d->heads_n, d->rows.logits, d->rows.tops);
        look(d);
        pool_run(d->rows.pool, draw_one, d, d->heads_n);
    }
    for (uint32_t i = 0; i < d->n; i++)
        d->turns[i].feed = 0;
    for (uint32_t i = 0; i < d->heads_n; i++)
        take_drawn(d, d->heads[i]);
    double end = now_ms(d);
    source_draft_times_feed(&d->times, ids, fed - begin);
    if (steady == n)
        source_draft_times_round(&d->times, ids, end - begin);
    d->counts.fed += ids;
    d->counts.forwards++;
    d->counts.ms += end - begin;
    source_draft_purse_earn(&d->purse, begin - end, 0);
}

static void draft_propose(struct source *s, const struct source_ask *asks, uint32_t n)
{
    struct draft *d = (struct draft *)s;
    d->n = 0;
    d->promised = 0;
    for (uint32_t i = 0; i < n; i++)
        consider(d, &asks[i]);
    share_out(d);
    bool any = weigh(d, true);
    for (uint32_t i = 0; i < d->n; i++)
        any |= d->turns[i].feed > 0;
    if (!any)
        source_draft_times_rest(&d->times);
    while (any) {
        run_round(d);
        any = weigh(d, false);
    }
    for (uint32_t i = 0; i < d->n; i++) {
        const struct turn *t = &d->turns[i];
        if (t->walked)
            matcher_rollback(t->ask->row->matcher, t->walked);
        t->ask->out->trust = SOURCE_VERIFY;
        t->ask->out->n = t->drawn;
        t->ask->out->ticket = t->ask->row->n;
    }
}

/* --- what became of it ----------------------------------------------------------------------------------------------- */

static void draft_settle(struct source *s, const struct source_row *row, uint32_t ticket, uint32_t offered,
                         uint32_t accepted)
{
    (void)s;
    struct draft_row *r = row->state[SOURCE_DRAFT];
    if (r && offered && r->settled_n < SETTLED)
        r->settled[r->settled_n++] = (struct outcome){ticket, offered, accepted};
}

static void learn(struct draft *d, struct draft_row *r, const struct outcome *o)
{
    for (uint32_t i = 0; i < o->offered && i <= o->accepted && i < DRAFT_DEPTH; i++)
        source_draft_rate_learn(&r->rate[i], i < o->accepted);
    double saved = (double)o->accepted - o->offered * r->price; /* in ids' worth */
    if (o->accepted && saved >= 0) {
        r->trusted = true;
        r->pauses /= 2;
    }
    source_draft_purse_earn(&d->purse, saved * r->worth_ms, r->worth_ms);
}

/* A proposal behind tentative ids that were refused was never compared: only now it is known which. */
static void draft_observe(struct source *s, const struct source_row *row, uint32_t from)
{
    struct draft *d = (struct draft *)s;
    struct draft_row *r = row->state[SOURCE_DRAFT];
    if (!r)
        return;
    for (uint32_t i = 0; i < r->settled_n; i++)
        if (row->known > r->settled[i].at)
            learn(d, r, &r->settled[i]);
    r->settled_n = 0;
    source_draft_purse_work(&d->purse, row->known - from, r->worth_ms);
}

/* --- the source ------------------------------------------------------------------------------------------------------ */

static void draft_free(struct source *s)
{
    struct draft *d = (struct draft *)s;
    source_draft_rows_release(&d->rows);
    free(d);
}

/* How long forwards take, before anything depends on it; the first ones also read the weights in. */
static void warm(struct draft *d)
{
    struct draft_seq *s = source_draft_take(&d->rows);
    uint32_t context = d->rows.context, feed = context < WARM_FEED ? context : WARM_FEED;
    for (uint32_t i = 0; i < context && i < WARM_FEED + WARM_ROUNDS; i++)
        s->ids[i] = (tok_id)(i % d->rows.vocab);
    d->times = (struct draft_times){0};
    for (uint32_t i = 0; i < 2 + WARM_ROUNDS; i++) {
        bool feeds = i < 2;
        if (feeds)
            kv_seq_clear(&s->kv);
        struct model_span span = {.seq = &s->kv, .ids = s->ids + s->kv.len, .n = feeds ? feed : 1};
        if (!source_draft_reserve(s, span.n))
            break;
        double begin = now_ms(d);
        source_draft_forward(&d->rows, &span, 1);
        if (feeds && i) {
            source_draft_times_feed(&d->times, feed, now_ms(d) - begin);
        } else if (!feeds) {
            model_head(d->rows.run, &(uint32_t){0}, 1, d->rows.logits, NULL);
            source_draft_times_round(&d->times, 1, now_ms(d) - begin);
        }
    }
    source_draft_give(s);
}

static const struct source_ops draft_ops = {
    .kind = SOURCE_DRAFT,
    .open = draft_open,
    .close = draft_close,
    .propose = draft_propose,
    .settle = draft_settle,
    .observe = draft_observe,
    .free = draft_free,
};

enum status source_draft_new(struct source **out, const struct source_draft_config *cfg, struct err *e)
{
    *out = NULL;
    if (model_info(cfg->model)->bidirectional)
        return err_set(e, ST_UNSUPPORTED, "draft", "the draft model makes vectors of texts and writes none");
    struct draft *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(e, ST_NO_MEMORY, "draft", "no memory for a draft model");
    d->source.ops = &draft_ops;
    d->tok = cfg->tok;
    enum status st = source_draft_rows_init(&d->rows, cfg, e);
    if (st) {
        draft_free(&d->source);
        return st;
    }
    warm(d);
    d->counts.kv_bytes = kv_pool_bytes(d->rows.kv);
    *out = &d->source;
    return ST_OK;
}

struct source_draft_counts source_draft_counts(const struct source *s)
{
    return ((const struct draft *)s)->counts;
}

void source_draft_tune(struct source *s, const struct source_draft_tuning *tuning)
{
    struct draft *d = (struct draft *)s;
    d->tuning = *tuning;
    warm(d);
}

uint32_t source_draft_verify(const struct source *s)
{
    const struct draft *d = (const struct draft *)s;
    struct kv_seq seqs[LIMIT_ROWS];
    uint32_t taken = 0;
    for (uint32_t i = 0; i < d->rows.n; i++) {
        const struct draft_seq *q = &d->rows.seqs[i];
        seqs[i] = q->kv;
        taken += q->taken;
        if (!q->taken && q->kv.room)
            BUG("a draft sequence that nobody has holds %u positions", q->kv.room);
    }
    kv_verify(d->rows.kv, seqs, d->rows.n);
    return taken;
}
