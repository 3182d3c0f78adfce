/* vector: see vector.h. */
#include "engine/vector.h"

#include <string.h>

#include "engine/inside.h"

enum status vector_check(const struct engine *en, const struct request *rq, struct err *e)
{
    if (!rq->vector && en->net.whole)
        return err_set(e, ST_UNSUPPORTED, "model", "this model makes vectors of texts and writes none; they are at "
                       "/v1/embeddings");
    if (rq->vector && !en->net.vector)
        return err_set(e, ST_UNSUPPORTED, "model", "this model was not made for vectors; `--pooling mean` or `--pooling "
                       "last` lets it make some");
    if (rq->vector && (rq->prompt_logprobs || rq->max_tokens))
        return err_set(e, ST_ARGUMENT, "vector", "a request for a vector has no reply and no log-probabilities");
    return ST_OK;
}

enum status vector_open(struct engine *en, struct row *r, struct err *e)
{
    r->sum = arena_try(&r->arena, en->net.width * sizeof *r->sum);
    r->vector = arena_try(&r->arena, en->net.vector * sizeof *r->vector);
    return r->sum && r->vector ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a vector of %u", en->net.vector);
}

/* The positions whose states count: [*from, *to). */
static void counted(const struct engine *en, const struct row *r, uint32_t *from, uint32_t *to)
{
    const enum model_pooling p = en->net.pooling;
    *from = p == POOLING_LAST || p == POOLING_RANK ? r->prompt_n - 1 : 0;
    *to = p == POOLING_CLS ? 1 : r->prompt_n;
}

/* The row's span, whose first id is the step's `at`. */
static void take_states(struct engine *en, struct row *r, uint32_t at)
{
    uint32_t from, to, fed = r->seq->len, end = fed + r->take;
    counted(en, r, &from, &to);
    uint32_t lo = from > fed ? from : fed, hi = to < end ? to : end;
    if (fed <= from) /* also after it was put back */
        memset(r->sum, 0, en->net.width * sizeof *r->sum);
    if (lo < hi)
        en->net.pool(en->net.ctx, at + (lo - fed), hi - lo, r->sum);
    if (end == r->prompt_n && !en->net.make(en->net.ctx, r->sum, to - from, r->vector))
        r->status = err_set(&r->err, ST_STEP_FAILED, "", "the model gave a vector that is not finite");
}

void vector_rows(struct engine *en, struct step *st)
{
    for (uint32_t i = 0, at = 0; i < st->n; at += st->rows[i++]->take)
        if (st->rows[i]->vector)
            take_states(en, st->rows[i], at);
}
