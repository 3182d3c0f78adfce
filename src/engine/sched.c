/* sched: see sched.h. */
#include "engine/sched.h"

#include <string.h>

#include "engine/emit.h"
#include "engine/inside.h"

double sched_rank(int32_t priority, double now)
{
    return now + priority * SCHED_PRIORITY_S;
}

/* --- admission ------------------------------------------------------------------------------------------------------- */

static bool preparing(const struct row *r)
{
    return row_due(r) > 1;
}

/* How many ids two rows begin with alike. */
static uint32_t alike(const struct row *a, const struct row *b)
{
    uint32_t n = a->n < b->n ? a->n : b->n, i = 0;
    if (a->plan.ns != b->plan.ns)
        return 0;
    while (i + KV_BLOCK <= n && !memcmp(a->ids + i, b->ids + i, KV_BLOCK * sizeof *a->ids))
        i += KV_BLOCK;
    while (i < n && a->ids[i] == b->ids[i])
        i++;
    return i;
}

/*
 * A row starts when the blocks of what it has to feed, and one more to go on with, are free, not counting those that
 * running rows will still need for what they have to feed, nor those of its prefix that running rows hold already.
 * (Sliding groups are sized so that they never run out first.) A row that would be alone always starts: a sequence of the
 * whole context fits the pool.
 */
static bool fits(const struct engine *en, const struct row *r, uint32_t shared)
{
    uint64_t owed = 0;
    for (uint32_t i = 0; i < en->rows.n; i++) {
        const struct row *o = en->rows.at[i];
        uint32_t all = kv_blocks(o->n), has = o->seq->room / KV_BLOCK;
        owed += all > has ? all - has : 0;
    }
    struct plan_room room = {.need = (uint64_t)kv_blocks(r->n) + !r->prompt_only - shared, .alone = !en->rows.n};
    for (uint32_t g = 0; g < en->net.kv_groups; g++) {
        uint64_t free = kv_pool_available(en->kv, g);
        room.free = free > owed ? free - owed : 0;
        room.all = en->kv_blocks[g];
        if (!en->net.kv_group[g].window && plan_admit(&room) != PLAN_RUN)
            return false;
    }
    return true;
}

/* Rows that wait for their readers hold blocks and a sequence for nothing; but a reader that only needs a moment is worth
 * waiting for, since a row that was put back has to find its prefix again, or feed it. */
static bool stalls_long(const struct engine *en, struct row *r)
{
    return r->stalled > 0 && en->now - r->stalled >= SCHED_STALL_S && !row_can_publish(r, en->now);
}

static bool any_stalls_long(const struct engine *en)
{
    for (uint32_t i = 0; i < en->rows.n; i++)
        if (stalls_long(en, en->rows.at[i]))
            return true;
    return false;
}

/* Puts back the row of the largest rank that waits for its reader; false when there is none. It cannot come in again
 * before its reader made room, so nothing goes round in circles. */
static bool make_way(struct engine *en)
{
    for (uint32_t i = en->rows.n; i-- > 0;)
        if (stalls_long(en, en->rows.at[i])) {
            row_put_back(en, en->rows.at[i]);
            return true;
        }
    return false;
}

/*
 * A running row is about to feed ids that r begins with, too: r waits until they are in the prefix cache instead of
 * feeding them again beside it. So n choices of a prompt, or agents with one system prompt that arrive together, cost one
 * prefill. The row that is followed is preparing and waits for no reader, so it goes on, or leaves; and it goes on at
 * least as soon as r would, since its rank is no larger.
 */
static bool leads(const struct row *o, const struct row *r, uint32_t cached, uint32_t common)
{
    uint32_t has = o->seq->len > cached ? o->seq->len : cached;
    bool goes_on = preparing(o) && o->rank <= r->rank && o->stalled <= 0;
    return goes_on && o->plan.publish.on && common / KV_BLOCK > has / KV_BLOCK;
}

static bool finds_leader(const struct engine *en, struct row *r, uint32_t cached)
{
    for (uint32_t i = 0; i < en->rows.n && r->plan.match.on; i++) {
        const struct row *o = en->rows.at[i];
        uint32_t common = leads(o, r, cached, UINT32_MAX) ? alike(r, o) : 0;
        r->follow = o->arrival;
        r->follow_n = common < r->n ? common : r->n - 1;
        if (leads(o, r, cached, r->follow_n))
            return true;
    }
    r->follow = UINT64_MAX;
    return false;
}

/* As long as what it found then is true: nothing has to be looked up or compared for that. */
static bool follows(const struct engine *en, const struct row *r)
{
    for (uint32_t i = 0; i < en->rows.n && r->follow != UINT64_MAX; i++)
        if (en->rows.at[i]->arrival == r->follow)
            return leads(en->rows.at[i], r, 0, r->follow_n);
    return false;
}

/* The longest prefix that is still there: whole blocks from the cache, then what lies in the one after them, from the
 * cache or from a row that is alive. */
static void reuse_prefix(struct engine *en, struct row *r)
{
    enum kv_miss miss = KV_MISS_UNKNOWN;
    if (r->plan.match.on) {
        miss = kv_tree_peek(en->tree, r->plan.ns, r->ids, r->n).miss;
        kv_tree_match(en->tree, r->plan.ns, r->ids, r->n, r->seq);
        for (uint32_t i = 0; i < en->rows.n; i++) {
            const struct row *o = en->rows.at[i];
            uint32_t n = o->plan.publish.on && o->seq->len > r->seq->len ? alike(r, o) : 0;
            kv_seq_borrow(r->seq, o->seq, n < r->n ? n : r->n - 1);
        }
    }
    if (r->admitted > 0)
        return; /* what a row that was put back finds of itself is no reuse to report */
    static const enum cache_miss names[] = {
        [KV_MISS_UNKNOWN] = MISS_UNKNOWN, [KV_MISS_NEW] = MISS_NEW, [KV_MISS_DIFFERS] = MISS_DIFFERS,
        [KV_MISS_EVICTED] = MISS_EVICTED};
    r->cached = r->seq->len;
    r->miss = !r->plan.match.on ? MISS_OFF : r->cached + 1 == r->prompt_n ? MISS_NONE : names[miss];
    if (r->plan.match.on) {
        stats_add(&en->stats, STAT_QUERIES, r->prompt_n);
        stats_add(&en->stats, STAT_HITS, r->cached);
    }
}

static void start(struct engine *en, struct row *r)
{
    row_list_remove(&en->line, r);
    r->seq = en->idle_seqs[--en->idle_n];
    r->state = ROW_RUNNING;
    reuse_prefix(en, r);
    if (r->admitted <= 0) {
        r->admitted = en->now;
        stats_time(&en->stats, STAT_QUEUE, en->now - r->submitted);
    }
    row_list_add(&en->rows, r);
    emit_progress(en, r);
}

/* What the prefix cache has for a waiting row. Looked up again only now and then: a long prompt takes a while, and what
 * is wrong by then only makes it start a little early or late. */
static struct kv_peek look_up(const struct engine *en, struct row *r)
{
    if (r->plan.match.on && (r->peeked <= 0 || en->now - r->peeked >= SCHED_PEEK_S)) {
        r->found = kv_tree_peek(en->tree, r->plan.ns, r->ids, r->n);
        r->peeked = en->now;
    }
    return r->found;
}

void sched_admit(struct engine *en)
{
    for (uint32_t i = 0; i < en->line.n;) {
        struct row *r = en->line.at[i];
        /* Put back while its reader slept, or it follows another: it does not hold up the others. */
        if (!row_can_publish(r, en->now) || r->telling || follows(en, r)) {
            i++;
            continue;
        }
        if (!en->idle_n && !any_stalls_long(en))
            break;
        struct kv_peek found = look_up(en, r);
        if (finds_leader(en, r, found.len)) {
            i++;
        } else if (en->idle_n && fits(en, r, found.live)) {
            start(en, r);
        } else if (make_way(en)) {
            i = 0;
        } else {
            break;
        }
    }
    row_count(en);
}

struct row *sched_victim(struct engine *en)
{
    for (uint32_t i = en->rows.n; i-- > 0;)
        if (stalls_long(en, en->rows.at[i]))
            return en->rows.at[i];
    return en->rows.n ? en->rows.at[en->rows.n - 1] : NULL;
}

/* --- the budget ------------------------------------------------------------------------------------------------------ */

/* The most one row may feed of its prompt in one step. What is told of each position has to fit its ring. */
static uint32_t most(const struct engine *en, const struct row *r)
{
    uint32_t n = row_due(r) < en->cfg.chunk ? row_due(r) : en->cfg.chunk;
    if (!r->prompt_logprobs)
        return n;
    uint32_t room = slot_room(r->slot) - 2; /* one cell for a chosen token, one for the end */
    return n < room ? n : room;
}

bool sched_decodes(const struct row *r)
{
    uint32_t due = row_due(r);
    return due == 1 || (r->seq->len >= r->prompt_n && due <= r->sure + 1);
}

/* Prompts share `left` evenly, so that a short one need not wait for a long one; what a short one leaves over goes to the
 * others in order of rank. */
static void share(struct engine *en, struct step *st, uint32_t left)
{
    uint32_t prompts = 0;
    for (uint32_t i = 0; i < st->n; i++)
        if (!sched_decodes(st->rows[i])) {
            st->rows[i]->take = 0;
            prompts++;
        }
    for (int pass = 0; pass < 2 && prompts; pass++) {
        uint32_t even = pass ? left : left / prompts;
        for (uint32_t i = 0; i < st->n; i++) {
            struct row *r = st->rows[i];
            if (sched_decodes(r))
                continue;
            uint32_t more = most(en, r) - r->take;
            more = more < even ? more : even;
            more = more < left ? more : left;
            r->take += more;
            left -= more;
        }
    }
}

struct cost_work sched_work(const struct engine *en, const struct step *st)
{
    struct cost_work w = {0};
    for (uint32_t i = 0; i < st->n; i++) {
        const struct row *r = st->rows[i];
        if (r->prompt_logprobs && r->seq->len < r->prompt_n)
            w.heads += r->take;
        else if (!r->prompt_only)
            w.heads += r->take == row_due(r);
        cost_add(&w, en->net.kv_group, en->net.kv_groups, r->seq->len, r->take);
    }
    return w;
}

static double predict(const struct engine *en, const struct step *st)
{
    const struct cost_work w = sched_work(en, st);
    return cost_ms(&en->cost.curve, &w);
}

double sched_budget_ms(const struct engine *en, bool decoding)
{
    return decoding ? (double)en->cfg.itl_ms / (1 + en->cost.late) : SCHED_PREFILL_MS;
}

/* Spans that cannot be cut, in order of rank: the first, and what the budget holds besides. */
static void share_whole(struct engine *en, struct step *st)
{
    uint32_t left = en->step_tokens;
    for (uint32_t i = 0; i < st->n; i++)
        st->rows[i]->take = 0;
    st->budget_ms = SCHED_PREFILL_MS;
    for (uint32_t i = 0; i < st->n && row_due(st->rows[i]) <= left; i++) {
        struct row *r = st->rows[i];
        r->take = row_due(r);
        if (i && predict(en, st) > st->budget_ms) {
            r->take = 0;
            break;
        }
        left -= r->take;
    }
    st->predicted_ms = predict(en, st);
}

/* One id of each row that decodes, then the others it is certain of, which have to be computed anyway, as far as the
 * budget goes but a few at least. Returns their sum. */
static uint32_t share_decoding(struct engine *en, struct step *st, uint32_t *rows)
{
    uint32_t taken = 0, least = SCHED_LEAST_PREFILL;
    for (uint32_t i = 0; i < st->n; i++) {
        st->rows[i]->take = sched_decodes(st->rows[i]);
        taken += st->rows[i]->take;
    }
    *rows = taken;
    st->budget_ms = sched_budget_ms(en, taken > 0);
    double asked = (double)st->propose_ns * 1e-6, left = st->budget_ms - asked;
    if (!en->manual) /* (the clock of tests knows nothing of it) */
        st->budget_ms = left > st->budget_ms / 4 ? left : st->budget_ms / 4;
    share(en, st, least); /* what prompts have at least stays theirs */
    uint32_t theirs = 0;
    for (uint32_t i = 0; i < st->n; i++)
        theirs += sched_decodes(st->rows[i]) ? 0 : st->rows[i]->take;
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (!sched_decodes(r) || row_due(r) == 1)
            continue;
        uint32_t more = row_due(r) - 1, room = en->step_tokens - taken - theirs;
        more = more < room ? more : room;
        r->take = 1 + more;
        while (more > least && predict(en, st) > st->budget_ms)
            r->take = 1 + (more /= 2);
        taken += more;
        least = 0;
    }
    return taken;
}

void sched_share(struct engine *en, struct step *st)
{
    if (en->net.whole) {
        share_whole(en, st);
        return;
    }
    uint32_t decoding, taken = share_decoding(en, st, &decoding);
    /* hi does not fit, lo is what is taken at least */
    uint32_t lo = SCHED_LEAST_PREFILL, hi = en->step_tokens - taken;
    lo = lo < hi ? lo : hi;
    share(en, st, hi);
    st->predicted_ms = predict(en, st);
    if (st->predicted_ms <= st->budget_ms || lo == hi || decoding == st->n)
        return;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        share(en, st, mid);
        if (predict(en, st) <= st->budget_ms)
            lo = mid;
        else
            hi = mid;
    }
    share(en, st, lo);
    st->predicted_ms = predict(en, st);
}
