/* fill: see fill.h. */
#include "engine/fill.h"

#include <string.h>

#include "engine/emit.h"
#include "engine/inside.h"
#include "engine/sched.h"

/* --- sources --------------------------------------------------------------------------------------------------------- */

static enum status make(struct engine *en, enum source_kind k, const struct engine_config *cfg, struct err *e)
{
    const struct source_draft_config draft = {
        .model = cfg->draft, .pool = cfg->pool, .tok = cfg->tok, .vocab = en->net.vocab, .rows = en->cfg.rows,
        .context = en->cfg.context};
    switch (k) {
    case SOURCE_GRAMMAR:
        return source_grammar_new(&en->source[k], e);
    case SOURCE_LIKELY:
        return cfg->tok ? source_likely_new(&en->source[k], cfg->tok, e) : ST_OK;
    case SOURCE_TEMPLATE:
        return cfg->tok ? source_template_new(&en->source[k], cfg->tok, e) : ST_OK;
    case SOURCE_ECHO:
        return source_echo_new(&en->source[k], cfg->tok, e);
    case SOURCE_NGRAM:
        return source_ngram_new(&en->source[k], e);
    default:
        return cfg->draft ? source_draft_new(&en->source[k], &draft, e) : ST_OK;
    }
}

enum status fill_sources(struct engine *en, const struct engine_config *cfg, struct source *const *given,
                         struct err *e)
{
    en->given = given != NULL;
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        if (given)
            en->source[k] = given[k];
        else if (!(cfg->sources_off & 1u << k))
            TRY(make(en, (enum source_kind)k, cfg, e));
    }
    return ST_OK;
}

void fill_release(struct engine *en)
{
    for (unsigned k = 0; k < SOURCE_KINDS; k++)
        if (en->source[k])
            en->source[k]->ops->free(en->source[k]);
}

/* The source of that kind, if the row has it. */
static struct source *source_of(const struct engine *en, const struct row *r, unsigned k)
{
    return r->plan.source[k].on ? en->source[k] : NULL;
}

enum status fill_open(struct engine *en, struct row *r, struct err *e)
{
    r->view = (struct source_row){
        .ids = r->ids, .prompt_n = r->prompt_n, .known = r->prompt_n, .n = r->prompt_n,
        .matcher = r->matcher, .grammar = r->grammar, .next = &r->next, .rows = r->rows, .sampling = &r->sampling};
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        struct source *s = source_of(en, r, k);
        if (s && s->ops->open)
            TRY(s->ops->open(s, &r->view, r->prompt_n + r->max_tokens, e));
    }
    return ST_OK;
}

void fill_close(struct engine *en, struct row *r)
{
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        struct source *s = source_of(en, r, k);
        if (s && s->ops->close)
            s->ops->close(s, &r->view);
    }
}

bool fill_disarmed(const struct engine *en, const struct row *r)
{
    const struct source *s = source_of(en, r, SOURCE_TEMPLATE);
    return s && s->ops->disarmed && r->view.state[SOURCE_TEMPLATE] && s->ops->disarmed(s, &r->view);
}

/* --- proposals ------------------------------------------------------------------------------------------------------- */

/* The rules that every proposal is cut by: nothing ends a reply, nothing the grammar forbids, the room that is left. The
 * matcher, if there is one, goes along. */
static void clamp(const struct engine *en, struct row *r, struct source_proposal *p, uint32_t most)
{
    p->n = p->n < most ? p->n : most;
    for (uint32_t i = 0; i < p->n; i++)
        if ((uint32_t)p->id[i] >= en->net.vocab || engine_ends(en, p->id[i]))
            p->n = i;
    if (r->matcher && p->n)
        p->n = matcher_consume(r->matcher, p->id, p->n);
}

static void settle(struct source *s, const struct row *r, uint32_t ticket, uint32_t offered, uint32_t accepted)
{
    if (s->ops->settle)
        s->ops->settle(s, &r->view, ticket, offered, accepted);
}

/* A proposal of which nothing is compared. */
static void decline(struct source *s, const struct row *r, uint32_t ticket)
{
    settle(s, r, ticket, 0, 0);
}

static void set_view(struct row *r, uint32_t known, uint32_t n)
{
    r->view.known = known;
    r->view.n = n;
}

static void observe(struct engine *en, struct row *r, uint32_t from)
{
    set_view(r, r->n, r->n);
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        struct source *s = source_of(en, r, k);
        if (s && s->ops->observe)
            s->ops->observe(s, &r->view, from);
    }
}

/* --- what is certain ------------------------------------------------------------------------------------------------- */

enum status row_look_ahead(struct row *r, struct err *e)
{
    if (!r->matcher)
        return ST_OK;
    uint64_t began = clock_ns();
    enum status st = matcher_mask(r->matcher, r->mask, &r->next, e);
    r->grammar_s += (double)(clock_ns() - began) * 1e-9;
    r->complete = !st && !r->next.n && r->next.end;
    if (!st && !r->next.n && !r->next.end)
        st = err_set(e, ST_ARGUMENT, "grammar", "the grammar allows no token at output position %u", r->n - r->prompt_n);
    return st;
}

/* Whether ids of this source may be taken without the sampler. */
static bool asserts(const struct row *r, unsigned k)
{
    return r->plan.skip_head.on && (k == SOURCE_GRAMMAR || (k == SOURCE_TEMPLATE && r->fill == FILL_STRICT));
}

/* The recorded reply goes another way than what is certain. */
static enum status check_imposed(const struct row *r, const struct source_proposal *p, struct err *e)
{
    for (uint32_t i = 0; i < p->n && r->imposed; i++) {
        uint32_t at = r->n - r->prompt_n + i;
        if (at < r->imposed_n && r->imposed[at] != p->id[i])
            return err_set(e, ST_ARGUMENT, "imposed", "id %d at output position %u, but only %d is possible there",
                           (int)r->imposed[at], at, (int)p->id[i]);
    }
    return ST_OK;
}

static void take_certain(struct row *r, unsigned k, const struct source_proposal *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        r->choice[r->n % ROW_CHOICES] = (struct row_choice){.origin = (int8_t)k, .asserted = true};
        r->ids[r->n++] = p->id[i];
        sample_budget_take(&r->budget, p->id[i]);
    }
    r->by_source[k].proposed += p->n;
    r->sure += p->n;
}

/* One proposal of a source that may assert; how many ids it was. */
static uint32_t ask_certain(struct engine *en, struct row *r, unsigned k, uint32_t most)
{
    struct source *s = source_of(en, r, k);
    struct source_proposal *p = &en->proposal[0];
    uint32_t left = r->max_tokens - (r->n - r->prompt_n);
    most = most < left ? most : left;
    if (!s || !asserts(r, k) || !most || r->complete || r->status)
        return 0;
    p->n = p->sure = 0;
    set_view(r, r->n, r->n);
    const struct source_ask ask = {
        .row = &r->view, .most = most < SOURCE_SPAN ? most : SOURCE_SPAN, .chance = 1, .price = 0, .out = p};
    s->ops->propose(s, &ask, 1);
    if (!p->n)
        return 0;
    if (k == SOURCE_TEMPLATE && p->n > p->sure)
        p->n = p->sure;
    if (!p->n) {
        decline(s, r, p->ticket);
        return 0;
    }
    uint32_t from = r->n;
    clamp(en, r, p, most);
    r->status = check_imposed(r, p, &r->err);
    decline(s, r, p->ticket); /* nothing was compared, so there is nothing to learn from it */
    if (r->status || !p->n)
        return 0;
    take_certain(r, k, p);
    r->status = row_look_ahead(r, &r->err);
    observe(en, r, from);
    return p->n;
}

void fill_certain(struct engine *en, struct row *r)
{
    uint32_t added = 0, got, most = slot_room(r->slot) - 2;
    if (r->prompt_only || (r->prompt_logprobs && r->told < r->prompt_n))
        return; /* the prompt's events come first */
    /* What is fed behind others in one step, and what their reader can take at once. */
    most = r->sure >= ROW_FILL ? 0 : most < ROW_FILL - r->sure ? most : ROW_FILL - r->sure;
    most = r->fill == FILL_OFF ? 0 : most;
    do {
        got = ask_certain(en, r, SOURCE_GRAMMAR, most - added);
        added += got;
        uint32_t more = ask_certain(en, r, SOURCE_TEMPLATE, most - added);
        added += more;
        got += more;
    } while (got && added < most);
    if (added || r->status || r->complete)
        emit_chosen(en, r);
}

/* --- what is likely -------------------------------------------------------------------------------------------------- */

/* Rows that may go on beyond what they have: all but their last few ids are fed. */
static bool is_open(const struct row *r)
{
    return r->fill != FILL_OFF && !r->prompt_only && !r->complete && sched_decodes(r) &&
           r->likely < ROW_FILL && r->pieces < ROW_PIECES &&
           r->n - r->prompt_n + r->likely + 1 < r->max_tokens;
}

static float tail_chance(const struct row *r)
{
    return r->likely ? r->chance[r->likely - 1] : 1.0f;
}

static void append(struct row *r, unsigned k, const struct source_proposal *p, uint32_t n)
{
    float chance = tail_chance(r);
    bool certain = p->trust == SOURCE_ASSERT && k == SOURCE_GRAMMAR;
    r->piece[r->pieces++] = (struct row_piece){
        .kind = (enum source_kind)k,
        .trust = certain && r->plan.skip_head.on && !r->imposed ? SOURCE_ASSERT : SOURCE_VERIFY,
        .at = r->n + r->likely, .n = n, .ticket = p->ticket};
    for (uint32_t i = 0; i < n; i++) {
        if (!certain)
            chance *= p->chance[i];
        r->chance[r->likely] = chance;
        r->ids[r->n + r->likely++] = p->id[i];
    }
}

/* Asks one source about all rows that nobody has answered in this round. */
static void ask_all(struct engine *en, struct step *st, unsigned k, float price, bool *answered)
{
    struct source_ask *asks = en->asks;
    struct row *rows[LIMIT_ROWS];
    uint32_t at[LIMIT_ROWS], n = 0;
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (answered[i] || !source_of(en, r, k) || !is_open(r))
            continue;
        uint32_t room = ROW_FILL - r->likely, left = r->max_tokens - (r->n - r->prompt_n) - r->likely - 1;
        set_view(r, r->n, r->n + r->likely);
        en->proposal[n].n = en->proposal[n].sure = 0;
        asks[n] = (struct source_ask){.row = &r->view, .most = room < left ? room : left, .chance = tail_chance(r),
                                      .price = price, .worth_ms = st->worth_ms, .budget_ms = st->spare_ms,
                                      .out = &en->proposal[n]};
        rows[n] = r;
        at[n++] = i;
    }
    if (!n)
        return;
    en->source[k]->ops->propose(en->source[k], asks, n);
    for (uint32_t i = 0; i < n; i++) {
        struct source_proposal *p = &en->proposal[i];
        if (!p->n)
            continue;
        clamp(en, rows[i], p, asks[i].most);
        if (p->n) {
            append(rows[i], k, p, p->n);
            answered[at[i]] = true;
        } else {
            decline(en->source[k], rows[i], p->ticket);
        }
    }
}

/* What the step costs with what rows have now, and what an id is worth. */
static double prices(const struct engine *en, struct step *st, struct cost_work *all)
{
    struct cost_work plain = {0};
    uint32_t n = 0;
    *all = (struct cost_work){0};
    for (uint32_t i = 0; i < st->n; i++) {
        const struct row *r = st->rows[i];
        if (!sched_decodes(r))
            continue;
        n++;
        cost_add(&plain, en->net.kv_group, en->net.kv_groups, r->n - 1, 1);
        cost_add(all, en->net.kv_group, en->net.kv_groups, r->seq->len, row_due(r));
    }
    plain.heads = all->heads = n;
    st->worth_ms = n ? cost_ms(&en->cost.curve, &plain) / n : 0;
    return cost_ms(&en->cost.curve, all);
}

void fill_propose(struct engine *en, struct step *st)
{
    struct cost_work all;
    double base = prices(en, st, &all);
    if (st->worth_ms <= 0)
        return;
    double spare = (all.heads > 1 ? sched_budget_ms(en, true) : SCHED_PREFILL_MS) - base;
    st->spare_ms = spare > 1e-3 ? spare : 1e-3;
    all.tokens++, all.heads++;
    float price = (float)(FILL_MARGIN * (cost_ms(&en->cost.curve, &all) - base) / st->worth_ms);
    bool some = true;
    for (uint32_t round = 0; round < FILL_ROUNDS && some; round++) {
        bool answered[LIMIT_ROWS];
        some = false;
        for (uint32_t i = 0; i < st->n; i++) /* who had nothing to say in one round has nothing in the next */
            answered[i] = round && st->rows[i]->pieces < round;
        for (unsigned k = 0; k < SOURCE_KINDS; k++)
            if (en->source[k])
                ask_all(en, st, k, price, answered);
        for (uint32_t i = 0; i < st->n; i++)
            some |= st->rows[i]->pieces > round;
    }
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (r->likely && r->matcher)
            matcher_rollback(r->matcher, r->likely);
    }
}

/* --- what pays ------------------------------------------------------------------------------------------------------- */

const struct row_piece *fill_piece(const struct row *r, uint32_t i)
{
    const struct row_piece *p = r->piece;
    while (r->n + i >= p->at + p->n)
        p++;
    return p;
}

bool fill_skips_head(const struct row *r, uint32_t i)
{
    return fill_piece(r, i)->trust == SOURCE_ASSERT;
}

/* What the row's span would add to the work of the step, with k likely ids. */
static void add_span(const struct engine *en, const struct row *r, uint32_t k, uint32_t heads, struct cost_work *w)
{
    w->heads += heads;
    cost_add(w, en->net.kv_group, en->net.kv_groups, r->seq->len, row_due(r) + k);
}

/* How many of a row's likely ids pay, given the work `rest` of all other rows; and their heads. */
static uint32_t most_gain(const struct engine *en, const struct step *st, const struct row *r,
                          const struct cost_work *rest, uint32_t most, uint32_t *heads, double limit_ms)
{
    struct cost_work w = *rest;
    uint32_t best = 0, best_heads = 0, some = 0;
    double worth = 0, gain = 0;
    add_span(en, r, 0, 1, &w);
    double base = cost_ms(&en->cost.curve, &w), before = base;
    for (uint32_t k = 1; k <= r->likely && k <= most; k++) {
        bool skip = fill_skips_head(r, k - 1);
        some += !skip;
        if (some > *heads)
            break;
        w = *rest;
        add_span(en, r, k, 1 + some, &w);
        double now = cost_ms(&en->cost.curve, &w);
        /* An id that will be fed anyway, if it comes to it, is worth no more than its feeding. */
        worth += (double)r->chance[k - 1] * (skip ? now - before : st->worth_ms);
        before = now;
        if (now > limit_ms)
            break;
        double g = worth - FILL_MARGIN * (now - base);
        if (g > gain) {
            gain = g;
            best = k;
            best_heads = some;
        }
    }
    *heads = best_heads;
    return best;
}

/* Cuts the row's proposals after k ids; those behind were never run. */
static void cut(struct engine *en, struct row *r, uint32_t k)
{
    r->likely = k;
    while (r->pieces && r->piece[r->pieces - 1].at >= r->n + k) {
        const struct row_piece *p = &r->piece[--r->pieces];
        decline(en->source[p->kind], r, p->ticket);
    }
    if (r->pieces) {
        struct row_piece *p = &r->piece[r->pieces - 1];
        p->n = r->n + k - p->at;
    }
}

void fill_drop(struct engine *en, struct row *r)
{
    set_view(r, r->n, r->n);
    cut(en, r, 0);
}

/* Rows wait for each other's likely ids, so these stay within the step's budget, or half as much again as the step takes
 * without them where that is more already; a row that is alone waits for itself only. */
static double limit_ms(const struct step *st)
{
    uint32_t decoding = 0;
    for (uint32_t i = 0; i < st->n; i++)
        decoding += sched_decodes(st->rows[i]);
    bool alone = decoding <= 1;
    double least = alone ? SCHED_PREFILL_MS : st->budget_ms, most = st->predicted_ms * (alone ? FILL_ALONE : FILL_COMPANY);
    return most > least ? most : least;
}

void fill_fit(struct engine *en, struct step *st)
{
    uint32_t heads = FILL_HEADS, rows = 0;
    for (uint32_t i = 0; i < st->n; i++)
        rows += st->rows[i]->likely > 0;
    if (!rows)
        return;
    double limit = limit_ms(st);
    struct cost_work all = sched_work(en, st);
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (!r->likely)
            continue;
        struct cost_work rest = all, own = {0};
        cost_add(&own, en->net.kv_group, en->net.kv_groups, r->seq->len, r->take);
        rest.tokens -= own.tokens, rest.keys -= own.keys, rest.decode_keys -= own.decode_keys, rest.heads--;
        uint32_t got = heads / rows--, room = en->step_tokens - all.tokens; /* of heads everybody gets a fair share */
        uint32_t k = r->take == row_due(r) ? most_gain(en, st, r, &rest, room, &got, limit) : 0;
        set_view(r, r->n, r->n);
        cut(en, r, k);
        if (!k)
            continue;
        heads -= got;
        r->take += k;
        all = rest;
        add_span(en, r, k, 1 + got, &all);
    }
    st->predicted_ms = cost_ms(&en->cost.curve, &all);
    st->budget_ms = limit;
}

/* --- what became of it ----------------------------------------------------------------------------------------------- */

void fill_settle(struct engine *en, struct row *r, uint32_t from)
{
    set_view(r, from, from);
    for (uint32_t i = 0; i < r->pieces; i++) {
        const struct row_piece *p = &r->piece[i];
        uint32_t end = from + r->accepted, accepted = end > p->at ? end - p->at : 0;
        accepted = accepted < p->n ? accepted : p->n;
        r->by_source[p->kind].proposed += p->n;
        r->by_source[p->kind].rejected += p->n - accepted;
        /* Behind the first difference nothing was decided. */
        settle(en->source[p->kind], r, p->ticket, from + r->accepted < p->at ? 0 : p->n, accepted);
    }
    r->likely = r->pieces = 0;
    if (r->n > from)
        observe(en, r, from);
}
