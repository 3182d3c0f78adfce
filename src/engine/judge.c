/* judge: see judge.h. */
#include "engine/judge.h"

#include "engine/fill.h"
#include "engine/inside.h"

void judge_collect(struct engine *en, struct step *st)
{
    (void)en;
    uint32_t at = 0;
    st->heads_n = st->judged_n = 0;
    for (uint32_t i = 0; i < st->n; i++) {
        struct row *r = st->rows[i];
        uint32_t last = at + row_due(r) - 1; /* of what was known before */
        at += r->take;
        r->accepted = 0;
        r->wants_head = r->take == row_due(r) + r->likely && !r->prompt_only;
        if (!r->wants_head)
            continue;
        r->head = st->heads_n;
        st->judged[st->judged_n++] = r;
        for (uint32_t k = 0; k <= r->likely; k++)
            if (k == r->likely || !fill_skips_head(r, k)) {
                st->at[st->heads_n++] = last + k;
                r->heads++;
            }
    }
}

/* What comes at the end of ids[0, n + k): the sampler's choice, where nothing else decides. */
static enum status choose(struct row *r, struct sampler *s, const float *logits, const struct kern_top *top, uint32_t k,
                          tok_id *out)
{
    uint32_t at = r->n - r->prompt_n + k;
    if (!top->finite) /* also where it would not be asked: a broken step is not to look well */
        return err_set(&r->err, ST_STEP_FAILED, "", "the model gave a logit that is not finite at output position %u", at);
    bool only = r->matcher && r->next.n == 1 && !r->next.end;
    tok_id ends = only ? TOK_NONE : sample_budget_imposes(&r->budget, r->matcher ? r->mask : NULL);
    if (ends != TOK_NONE)
        *out = ends;
    else if (only && !sample_needs_dist(&r->sampling))
        *out = r->next.only;
    else
        TRY(sampler_choose_top(s, &r->sampling, &r->sample, logits, top, r->matcher ? r->mask : NULL, r->ids, r->n + k,
                               at, out, &r->err));
    if (!r->imposed || at >= r->imposed_n)
        return ST_OK;
    *out = r->imposed[at];
    if (r->matcher && !(r->mask[*out / 32] >> *out % 32 & 1))
        return err_set(&r->err, ST_ARGUMENT, "imposed", "id %d at output position %u is not possible in its grammar",
                       (int)*out, at);
    return ST_OK;
}

/* Decides about likely id k, or about the one behind all of them, by the next of the row's heads where it needs one. False
 * when the walk ends there. */
static bool decide(struct engine *en, struct row *r, struct sampler *s, uint32_t k, uint32_t *head)
{
    struct row_choice *c = &r->choice[(r->n + k) % ROW_CHOICES];
    bool fed = k < r->likely, known = fed && fill_skips_head(r, k);
    tok_id id = fed ? r->ids[r->n + k] : -1, chosen = id;
    if (!known) {
        const float *logits = en->logits + (size_t)*head * en->net.vocab;
        const struct kern_top *top = &en->tops[(*head)++];
        r->status = choose(r, s, logits, top, k, &chosen);
        if (r->status)
            return false;
        if (r->logprobs)
            sampler_logprobs(s, logits, top->value, chosen, &c->logprob, c->top, r->logprobs - 1);
    }
    bool same = fed && chosen == id;
    c->origin = same ? (int8_t)fill_piece(r, k)->kind : ORIGIN_SAMPLED;
    c->asserted = known;
    r->ids[r->n + k] = chosen;
    r->accepted += same;
    r->judged++;
    sample_budget_take(&r->budget, chosen);
    if (!r->ignore_eos && engine_ends(en, chosen))
        return false;
    if (!r->matcher)
        return same;
    if (!matcher_consume(r->matcher, &chosen, 1)) {
        r->judged--;
        r->accepted -= same;
        r->status = matcher_error(r->matcher, &r->err);
        if (!r->status)
            r->status = err_set(&r->err, ST_BUG, "grammar", "the grammar does not go on with id %d", (int)chosen);
        return false;
    }
    r->status = row_look_ahead(r, &r->err);
    return same && !r->status && !r->complete;
}

static void judge_one(void *ctx, uint32_t task, int worker)
{
    struct engine *en = ctx;
    struct row *r = en->step.judged[task];
    uint32_t k = 0, head = r->head;
    r->judged = 0;
    while (decide(en, r, en->samplers[worker], k, &head))
        k++;
}

/* Rows are independent, so they are tasks. */
void judge_rows(struct engine *en, struct step *st)
{
    pool_run(en->cfg.pool, judge_one, en, st->judged_n);
}
