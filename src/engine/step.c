/*
 * step: see step.h. What a row feeds is everything between its KV and its last id (row.h); the parts below decide how
 * much of that goes into this step and what happens to the result.
 */
#include "engine/step.h"

#include "engine/emit.h"
#include "engine/fill.h"
#include "engine/inside.h"
#include "engine/judge.h"
#include "engine/sched.h"
#include "engine/score.h"
#include "engine/vector.h"

/* 1. Collect: the rows whose readers can take what a step publishes, and have taken what the last one did. True when a row
 * began to wait for its reader: its blocks may let another one start. */
static bool collect(struct engine *en, struct step *st)
{
    bool stalls = false;
    st->n = 0;
    for (uint32_t i = 0; i < en->rows.n; i++) {
        struct row *r = en->rows.at[i];
        bool waited = r->stalled > 0;
        r->take = 0;
        if (row_can_publish(r, en->now) && !r->telling)
            st->rows[st->n++] = r;
        stalls |= r->stalled > 0 && !waited;
    }
    return stalls;
}

/* What is certain is chosen, what is likely is put behind the rows. True when rows ended. */
static bool propose(struct engine *en, struct step *st)
{
    uint64_t began = clock_ns();
    uint32_t n = 0, before = en->rows.n;
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        fill_certain(en, r);
        if (r->state == ROW_RUNNING && !r->telling)
            st->rows[n++] = r;
    }
    st->n = n;
    fill_propose(en, st);
    st->propose_ns = clock_ns() - began;
    stats_add(&en->stats, STAT_PROPOSE_NS, st->propose_ns);
    return en->rows.n != before;
}

/* Room for what r feeds. When blocks have run out, rows give theirs up, those of the largest rank first; the last row
 * standing ends. */
static void reserve(struct engine *en, struct row *r)
{
    enum status st;
    while (r->take && (st = kv_seq_reserve(r->seq, r->take, NULL)) != ST_OK) {
        if (st != ST_BUSY)
            BUG("a row of %u ids outgrew its context", r->n);
        if (r->likely) { /* nobody gives blocks up for guesses */
            r->take -= r->likely;
            fill_drop(en, r);
            continue;
        }
        if (en->rows.n == 1) {
            row_end(en, r, FINISH_LENGTH, NULL, NULL);
            return;
        }
        row_put_back(en, sched_victim(en));
    }
}

/* 2. Fit: how long each span is (sched.h), and room for it. True when rows ended or went back to the line. */
static bool fit(struct engine *en, struct step *st)
{
    uint32_t before = en->rows.n;
    sched_share(en, st);
    fill_fit(en, st);
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (r->state == ROW_RUNNING)
            reserve(en, r);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < st->n; i++)
        if (st->rows[i]->take)
            st->rows[n++] = st->rows[i];
    st->n = n;
    return en->rows.n != before;
}

/* 3. Forward, once over all spans. */
static void forward(struct engine *en, struct step *st)
{
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        st->spans[i] = (struct model_span){.seq = r->seq, .ids = r->ids + r->seq->len, .n = r->take};
        r->status = ST_OK;
        r->judged = r->accepted = 0;
    }
    en->net.forward(en->net.ctx, st->spans, st->n);
}

/* 4. Head, where the next id is not known. */
static void head(struct engine *en, struct step *st)
{
    judge_collect(en, st);
    if (st->heads_n)
        en->net.head(en->net.ctx, st->at, st->heads_n, en->logits, en->tops);
}

/* What a row has fed and keeps: of the likely ids, those that were chosen, also of a row that failed behind them. */
static uint32_t kept(const struct row *r)
{
    return r->take - r->likely + r->accepted;
}

/* 6. Commit: what was fed belongs to the sequences now, and full blocks to the prefix cache, unless the row failed. */
static void commit(struct engine *en, struct step *st)
{
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        bool keep = r->plan.publish.on && !r->status;
        uint32_t before = r->seq->len, from = r->n, n = kept(r);
        r->n += r->judged;
        if (r->wants_head)
            r->sure = 0;
        if (keep)
            kv_tree_publish(en->tree, r->plan.ns, r->ids, r->seq, before + n);
        kv_seq_commit(r->seq, n);
        if (r->prefilled <= 0 && r->seq->len >= r->prompt_n)
            r->prefilled = engine_clock(en);
        if (keep && before < r->prompt_n && r->seq->len >= r->prompt_n)
            kv_tree_mark(en->tree, r->seq);
        fill_settle(en, r, from);
        r->steps++;
        if (!r->counted && r->seq->len >= r->prompt_n) {
            r->counted = true;
            stats_add(&en->stats, STAT_PROMPT, r->prompt_n);
            stats_add(&en->stats, STAT_CACHED, r->cached);
        }
    }
}

/* 7. Publish: events out, ended rows leave. */
static void publish(struct engine *en, struct step *st)
{
    en->now = engine_clock(en);
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (!r->status)
            emit_progress(en, r);
        if (r->wants_head || r->status)
            emit_chosen(en, r);
        else if (r->prompt_only && r->seq->len == r->prompt_n)
            row_end(en, r, r->vector ? FINISH_STOP : FINISH_LENGTH, NULL, NULL);
    }
}

/* Where the time went; and what it teaches about the next step. */
static void account(struct engine *en, const struct step *st, const uint64_t at[4], uint32_t scored)
{
    uint64_t score_ns = st->score_ns < at[3] - at[2] ? st->score_ns : at[3] - at[2];
    struct cost_work w = {0};
    for (uint32_t i = 0; i < st->n; i++)
        cost_add(&w, en->net.kv_group, en->net.kv_groups, st->spans[i].seq->len, st->spans[i].n);
    cost_saw_forward(&en->cost, &w, (double)(at[1] - at[0]) * 1e-6);
    cost_saw_heads(&en->cost, st->heads_n + scored, (double)(at[3] - at[1]) * 1e-6);
    stats_add(&en->stats, STAT_STEPS, 1);
    stats_add(&en->stats, STAT_FORWARD_NS, at[1] - at[0]);
    stats_add(&en->stats, STAT_HEAD_NS, at[2] - at[1] + score_ns);
    stats_add(&en->stats, STAT_SAMPLE_NS, at[3] - at[2] - score_ns);
    stats_time(&en->stats, STAT_STEP, (double)(at[3] - at[0]) * 1e-9);
}

bool step_run(struct engine *en)
{
    struct step *st = &en->step;
    bool stalls = collect(en, st), changed = propose(en, st);
    changed |= fit(en, st);
    if (!st->n)
        return stalls || changed;
    uint64_t at[4] = {clock_ns()};
    forward(en, st);
    at[1] = clock_ns();
    head(en, st);
    at[2] = clock_ns();
    judge_rows(en, st);
    uint32_t scored = score_prompts(en, st);
    at[3] = clock_ns();
    vector_rows(en, st);
    account(en, st, at, scored);
    commit(en, st);
    publish(en, st);
    return true;
}
