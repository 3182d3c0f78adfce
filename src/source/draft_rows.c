/* draft_rows: see draft_rows.h. */
#include "source/draft_rows.h"

#include <stdlib.h>
#include <string.h>

/* The most positions that all rows may hold together within `bytes`; less than a context: none. */
static uint32_t positions_within(struct kv_config *kv, size_t bytes)
{
    uint32_t lo = 0, hi = kv_blocks(kv->context) * kv->rows; /* in blocks: lo fits */
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        kv->positions = mid * KV_BLOCK;
        if (kv_config_bytes(kv) <= bytes)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo < kv_blocks(kv->context) ? 0 : lo * KV_BLOCK;
}

static enum status make_kv(struct draft_rows *r, const struct model_info *in, size_t bytes, struct err *e)
{
    struct kv_config kv = {.format = KERN_KV_F16, .groups = in->kv_groups, .rows = r->n, .context = r->context,
                           .span = DRAFT_FEED, .back = DRAFT_BACK};
    memcpy(kv.group, in->kv_group, sizeof kv.group);
    bytes = bytes && bytes < LIMIT_DRAFT_KV ? bytes : LIMIT_DRAFT_KV;
    kv.positions = positions_within(&kv, bytes);
    if (!kv.positions)
        return err_set(e, ST_NEVER_FITS, "draft", "keys and values of the draft model for %u ids exceed %zu bytes",
                       r->context, bytes);
    return kv_pool_new(&r->kv, &kv, e);
}

static enum status make_samplers(struct draft_rows *r, struct err *e)
{
    const struct kern_ops *ops;
    TRY(kern_choose(&ops, e));
    r->samplers = calloc((size_t)pool_size(r->pool), sizeof *r->samplers);
    if (!r->samplers)
        return err_set(e, ST_NO_MEMORY, "draft", "no memory for samplers");
    for (int i = 0; i < pool_size(r->pool); i++)
        TRY(sampler_new(&r->samplers[i], r->vocab, ops, e));
    return ST_OK;
}

static size_t stride(const struct draft_rows *r)
{
    return (size_t)r->context + DRAFT_DEPTH;
}

enum status source_draft_rows_init(struct draft_rows *r, const struct source_draft_config *cfg, struct err *e)
{
    const struct model_info *in = model_info(cfg->model);
    *r = (struct draft_rows){.pool = cfg->pool, .vocab = in->vocab};
    if (in->vocab != cfg->vocab)
        return err_set(e, ST_ARGUMENT, "draft", "the draft model %s has %u token ids, the target %u", in->name, in->vocab,
                       cfg->vocab);
    if (!cfg->rows || cfg->rows > LIMIT_ROWS || !cfg->context || cfg->context > LIMIT_CONTEXT)
        return err_set(e, ST_ARGUMENT, "draft", "drafts are for 1 to %u rows of 1 to %u ids", LIMIT_ROWS, LIMIT_CONTEXT);
    r->n = cfg->rows;
    r->context = cfg->context < in->context ? cfg->context : in->context;
    TRY(make_kv(r, in, cfg->kv_bytes, e));
    TRY(model_run_new(&r->run, cfg->model, cfg->pool, DRAFT_FEED, r->context, e));
    TRY(make_samplers(r, e));
    r->masks = calloc(r->n * sample_mask_words(r->vocab), sizeof *r->masks);
    r->tops = calloc(r->n, sizeof *r->tops);
    r->logits = mem_map((size_t)r->n * r->vocab * sizeof *r->logits);
    r->ids = mem_map_sparse(r->n * stride(r) * sizeof *r->ids);
    r->seqs = calloc(r->n, sizeof *r->seqs);
    if (!r->tops || !r->logits || !r->masks || !r->ids || !r->seqs)
        return err_set(e, ST_NO_MEMORY, "draft", "no memory for the drafts of %u rows", r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        r->seqs[i].ids = r->ids + i * stride(r);
        TRY(kv_seq_init(&r->seqs[i].kv, r->kv, e));
    }
    return ST_OK;
}

void source_draft_rows_release(struct draft_rows *r)
{
    for (uint32_t i = 0; r->seqs && i < r->n; i++)
        kv_seq_release(&r->seqs[i].kv);
    for (int i = 0; r->samplers && i < pool_size(r->pool); i++)
        sampler_free(r->samplers[i]);
    free(r->seqs);
    free(r->samplers);
    free(r->masks);
    free(r->tops);
    if (r->logits)
        mem_unmap(r->logits, (size_t)r->n * r->vocab * sizeof *r->logits);
    if (r->ids)
        mem_unmap(r->ids, r->n * stride(r) * sizeof *r->ids);
    model_run_free(r->run);
    kv_pool_free(r->kv);
    *r = (struct draft_rows){0};
}

struct draft_seq *source_draft_take(struct draft_rows *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (!r->seqs[i].taken) {
            r->seqs[i].taken = true;
            return &r->seqs[i];
        }
    return NULL;
}

void source_draft_give(struct draft_seq *s)
{
    if (!s)
        return;
    kv_seq_clear(&s->kv);
    s->sure = 0;
    s->taken = false;
}

uint32_t source_draft_sync(struct draft_seq *s, const struct source_row *row)
{
    uint32_t most = s->kv.len < row->n ? s->kv.len : row->n - 1, same = s->sure < most ? s->sure : most;
    while (same < most && s->ids[same] == row->ids[same])
        same++;
    if (!kv_seq_cut(&s->kv, same)) {
        kv_seq_clear(&s->kv); /* a window is lost: from the beginning */
        same = 0;
    }
    memcpy(s->ids + same, row->ids + same, (row->n - same) * sizeof *s->ids);
    s->sure = same < row->known ? same : row->known;
    return row->n - same;
}

bool source_draft_reserve(struct draft_seq *s, uint32_t n)
{
    return kv_seq_reserve(&s->kv, n, NULL) == ST_OK;
}

void source_draft_forward(struct draft_rows *r, const struct model_span *spans, uint32_t n)
{
    model_forward(r->run, spans, n);
    for (uint32_t i = 0; i < n; i++)
        kv_seq_commit(spans[i].seq, spans[i].n);
}
