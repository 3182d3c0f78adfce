/* direct: see direct.h. */
#include "cli/direct.h"

#include <stdlib.h>
#include <string.h>

static enum status open_kv(struct direct *d, const struct direct_config *c, struct err *e)
{
    struct kv_config k = {.format = c->format, .groups = d->info->kv_groups, .rows = c->rows, .span = c->step};
    memcpy(k.group, d->info->kv_group, sizeof k.group);
    k.context = (uint32_t)mem_round(c->context, KV_BLOCK);
    size_t positions = mem_mul(k.context, c->rows);
    if (positions > UINT32_MAX)
        return err_set(e, ST_NEVER_FITS, "", "%u sequences of %u tokens are more than one pool can hold", c->rows,
                       c->context);
    k.positions = (uint32_t)positions;
    TRY(kv_pool_new(&d->kv, &k, e));
    d->seq = calloc(c->rows, sizeof *d->seq);
    if (!d->seq)
        return err_set(e, ST_NO_MEMORY, "", "no memory for %u sequences", c->rows);
    for (; d->rows < c->rows; d->rows++)
        TRY(kv_seq_init(&d->seq[d->rows], d->kv, e));
    return ST_OK;
}

static enum status open_all(struct direct *d, const struct api_model *m, const struct direct_config *c, struct err *e)
{
    d->info = model_info(m->model);
    d->workers = m->pool;
    d->step = c->step;
    d->heads = c->heads;
    TRY(open_kv(d, c, e));
    TRY(model_run_new(&d->run, m->model, m->pool, c->step, (uint32_t)mem_round(c->context, KV_BLOCK), e));
    d->logits = mem_map(mem_mul(mem_mul(c->heads, d->info->vocab), sizeof *d->logits));
    if (!d->logits)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the logits of %u positions", c->heads);
    return ST_OK;
}

enum status direct_new(struct direct *d, const struct api_model *m, const struct direct_config *c, struct err *e)
{
    *d = (struct direct){0};
    if (model_info(m->model)->bidirectional)
        return err_set(e, ST_UNSUPPORTED, "model", "%s makes vectors of texts and writes none; `ffwd serve` has its "
                       "vectors at /v1/embeddings", model_info(m->model)->name);
    home_thread(home_here()); /* this thread is worker 0 */
    enum status st = open_all(d, m, c, e);
    if (st != ST_OK)
        direct_free(d);
    return st;
}

void direct_free(struct direct *d)
{
    if (d->logits)
        mem_unmap(d->logits, (size_t)d->heads * d->info->vocab * sizeof *d->logits);
    if (d->run)
        model_run_free(d->run);
    for (uint32_t i = 0; i < d->rows; i++)
        kv_seq_release(&d->seq[i]);
    free(d->seq);
    if (d->kv)
        kv_pool_free(d->kv);
    *d = (struct direct){0};
}

enum status direct_feed(struct direct *d, uint32_t row, const tok_id *ids, uint32_t n, uint32_t *last, struct err *e)
{
    struct kv_seq *seq = &d->seq[row];
    *last = 0;
    for (uint32_t at = 0; at < n; at += *last) {
        *last = n - at < d->step ? n - at : d->step;
        struct model_span span = {.seq = seq, .ids = ids + at, .n = *last};
        TRY(kv_seq_reserve(seq, span.n, e));
        model_forward(d->run, &span, 1);
        kv_seq_commit(seq, span.n);
    }
    return ST_OK;
}

tok_id direct_random_id(const struct direct *d, uint32_t stream, uint32_t position)
{
    uint32_t out[4];
    rng_philox(stream, position, 0, out);
    return (tok_id)(out[0] % d->info->vocab);
}

enum status direct_check_ids(const struct model_info *info, const tok_id *ids, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if ((uint32_t)ids[i] >= info->vocab)
            return err_set(e, ST_ARGUMENT, "--ids", "--ids: %d is not below the vocabulary size %u", ids[i],
                           info->vocab);
    }
    return ST_OK;
}
