/* score: see score.h. */
#include "engine/score.h"

#include "engine/inside.h"

static void score_one(void *ctx, uint32_t task, int worker)
{
    struct engine *en = ctx;
    struct step_score *c = &en->scores[task];
    const float *logits = en->logits + (size_t)task * en->net.vocab;
    c->status = en->tops[task].finite ? ST_OK : ST_STEP_FAILED;
    if (!c->status)
        sampler_logprobs(en->samplers[worker], logits, en->tops[task].value, c->id, &c->logprob, c->top,
                         c->row->logprobs - 1);
}

static void tell(struct engine *en, struct row *r, const struct step_score *c)
{
    struct event *ev = slot_next(r->slot);
    ev->kind = EVENT_PROMPT;
    ev->id = r->ids[r->told++];
    ev->text_n = 0;
    ev->logprob = c ? c->logprob : 0;
    ev->top_n = c ? r->logprobs - 1 : 0;
    for (uint32_t i = 0; i < ev->top_n; i++)
        ev->top[i] = (struct event_logprob){c->top[i].id, c->top[i].logprob};
    slot_publish(r->slot);
    engine_news(en, r->slot);
}

static void flush(struct engine *en, uint32_t n)
{
    uint32_t at[LIMIT_ROWS];
    for (uint32_t i = 0; i < n; i++)
        at[i] = en->scores[i].at;
    if (!n)
        return;
    uint64_t began = clock_ns();
    en->net.head(en->net.ctx, at, n, en->logits, en->tops);
    en->step.score_ns += clock_ns() - began;
    pool_run(en->cfg.pool, score_one, en, n);
    for (uint32_t i = 0; i < n; i++) {
        struct step_score *c = &en->scores[i];
        if (c->status && !c->row->status)
            c->row->status = err_set(&c->row->err, c->status, "", "the model gave a logit that is not finite at prompt "
                                     "position %u", c->row->told);
        if (!c->row->status)
            tell(en, c->row, c);
    }
}

uint32_t score_prompts(struct engine *en, struct step *st)
{
    uint32_t n = 0, all = 0, at = 0;
    st->score_ns = 0;
    for (uint32_t i = 0; i < st->n; at += st->rows[i++]->take) {
        struct row *r = st->rows[i];
        if (!r->prompt_logprobs)
            continue;
        if (!r->told)
            tell(en, r, NULL);
        for (uint32_t k = 0; k < r->take; k++) {
            uint32_t next = r->seq->len + k + 1;
            if (next < r->told || next >= r->prompt_n) /* told before it was put back; or not of the prompt */
                continue;
            en->scores[n++] = (struct step_score){.row = r, .at = at + k, .id = r->ids[next]};
            r->heads++;
            all++;
            if (n == en->cfg.rows) {
                flush(en, n);
                n = 0;
            }
        }
    }
    flush(en, n);
    return all;
}
