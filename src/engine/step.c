/*
 * step: see step.h. What a row feeds is everything between its KV and its last id (row.h); the parts below decide how
 * much of that goes into this step and what happens to the result.
 */
#include "engine/step.h"

#include "engine/emit.h"
#include "engine/inside.h"

static uint32_t due(const struct row *r)
{
    return r->n - r->seq->len;
}

/* 1. Collect: the rows whose readers can take what a step publishes, and have taken what the last one did. */
static void collect(struct engine *en, struct step *st)
{
    st->n = 0;
    for (uint32_t i = 0; i < en->rows.n; i++) {
        struct row *r = en->rows.at[i];
        r->take = 0;
        if (row_can_publish(r, en->now) && !r->telling)
            st->rows[st->n++] = r;
    }
}

/* Prompts share what is left evenly, so that a short one need not wait for a long one; what a short one leaves over goes
 * to the others in order of arrival. */
static void share_prefill(struct engine *en, struct step *st, uint32_t left)
{
    uint32_t preparing = 0;
    for (uint32_t i = 0; i < st->n; i++)
        preparing += due(st->rows[i]) > 1;
    if (!preparing)
        return;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t share = pass ? left : left / preparing;
        for (uint32_t i = 0; i < st->n; i++) {
            struct row *r = st->rows[i];
            if (due(r) <= 1)
                continue;
            uint32_t more = due(r) < en->cfg.chunk ? due(r) - r->take : en->cfg.chunk - r->take;
            more = more < share ? more : share;
            more = more < left ? more : left;
            r->take += more;
            left -= more;
        }
    }
}

/* Room for what r feeds. When blocks have run out, rows give theirs up, youngest first; the last row standing ends. */
static void reserve(struct engine *en, struct row *r)
{
    enum status st;
    while (r->take && (st = kv_seq_reserve(r->seq, r->take, NULL)) != ST_OK) {
        if (st != ST_BUSY)
            BUG("a row of %u ids outgrew its context", r->n);
        if (en->rows.n == 1) {
            row_end(en, r, FINISH_LENGTH, NULL, NULL);
            return;
        }
        row_put_back(en, row_victim(en));
    }
}

/* 2. Fit: how long each span is. Rows with one id to feed always go; prompts get the rest of the step, or a small part
 * of it while others decode. True when rows ended or went back to the line. */
static bool fit(struct engine *en, struct step *st)
{
    uint32_t decoding = 0, before = en->rows.n;
    for (uint32_t i = 0; i < st->n; i++)
        if (due(st->rows[i]) == 1) {
            st->rows[i]->take = 1;
            decoding++;
        }
    uint32_t left = en->step_tokens - decoding;
    if (decoding && left > STEP_PREFILL_BESIDE)
        left = STEP_PREFILL_BESIDE;
    share_prefill(en, st, left);
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
    }
    en->net.forward(en->net.ctx, st->spans, st->n);
}

/* 4. Head, where the next id is not known: at the last position of spans that reach their row's end. */
static void head(struct engine *en, struct step *st)
{
    uint32_t at = 0;
    st->heads_n = 0;
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        at += r->take;
        r->wants_head = r->take == due(r);
        if (!r->wants_head)
            continue;
        st->heads[st->heads_n] = r;
        st->at[st->heads_n++] = at - 1;
        r->heads++;
    }
    if (st->heads_n)
        en->net.head(en->net.ctx, st->at, st->heads_n, en->logits);
}

static void judge_one(void *ctx, uint32_t task, int worker)
{
    struct engine *en = ctx;
    struct row *r = en->step.heads[task];
    struct sampler *s = en->samplers[worker];
    const float *logits = en->logits + (size_t)task * en->net.vocab;
    r->status = sampler_choose(s, &r->sampling, &r->sample, logits, r->ids, r->n, r->n - r->prompt_n, &r->chosen,
                               &r->err);
    if (!r->status && r->logprobs)
        sampler_logprobs(s, logits, r->chosen, &r->logprob, r->top, r->logprobs - 1);
}

/* 5. Judge: each row's sampler chooses. Rows are independent, so they are tasks. */
static void judge(struct engine *en, struct step *st)
{
    pool_run(en->cfg.pool, judge_one, en, st->heads_n);
}

/* 6. Commit: what was fed belongs to the sequences now, and full blocks to the prefix cache, unless the row failed. */
static void commit(struct engine *en, struct step *st)
{
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        if (en->tree && !(r->wants_head && r->status))
            kv_tree_publish(en->tree, ENGINE_NAMESPACE, r->ids, r->seq, r->seq->len + r->take);
        kv_seq_commit(r->seq, r->take);
        if (en->tree && r->seq->len == r->prompt_n)
            kv_tree_mark(en->tree, r->seq);
        r->steps++;
    }
}

/* 7. Publish: events out, ended rows leave. */
static void publish(struct engine *en, struct step *st)
{
    en->now = clock_seconds();
    for (uint32_t i = 0; i < st->heads_n; i++)
        emit_chosen(en, st->heads[i]);
}

bool step_run(struct engine *en)
{
    struct step *st = &en->step;
    collect(en, st);
    bool changed = fit(en, st);
    if (!st->n)
        return changed;
    forward(en, st);
    head(en, st);
    judge(en, st);
    commit(en, st);
    publish(en, st);
    return true;
}
