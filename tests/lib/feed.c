/* feed: see feed.h. */
#include "feed.h"

#include <stdlib.h>
#include <string.h>

enum status feed_open(struct feed *f, const char *path, int threads, enum kern_kv format, uint32_t context,
                      struct err *e)
{
    memset(f, 0, sizeof *f);
    TRY(kern_choose(&f->ops, e));
    TRY(pool_new(&f->pool, threads, e));
    TRY(weights_open(&f->w, path, e));
    struct model_options o = {.pool = f->pool, .ops = f->ops};
    TRY(model_new(&f->model, f->w, &o, e));
    const struct model_info *in = model_info(f->model);
    struct kv_config cfg = {.format = format, .groups = in->kv_groups, .positions = context, .rows = 1, .context = context};
    memcpy(cfg.group, in->kv_group, sizeof cfg.group);
    TRY(kv_pool_new(&f->kv, &cfg, e));
    return model_run_new(&f->run, f->model, f->pool, LIMIT_SPAN, context, e);
}

void feed_release(struct feed *f)
{
    model_run_free(f->run);
    kv_pool_free(f->kv);
    model_free(f->model);
    weights_free(f->w);
    pool_free(f->pool);
    memset(f, 0, sizeof *f);
}

/* One step of m ids, to be committed when its states were looked at. */
static void step(struct feed *f, struct kv_seq *seq, const tok_id *ids, uint32_t m)
{
    struct err e;
    if (kv_seq_reserve(seq, m, &e))
        BUG("%s", e.text);
    struct model_span span = {seq, ids, m};
    model_forward(f->run, &span, 1);
}

void feed_logits(struct feed *f, const tok_id *ids, uint32_t n, uint32_t chunk, float *logits)
{
    struct kv_seq seq;
    struct err e;
    uint32_t vocab = model_info(f->model)->vocab;
    if (kv_seq_init(&seq, f->kv, &e))
        BUG("%s", e.text);
    for (uint32_t at = 0; at < n; at += chunk) {
        uint32_t m = n - at < chunk ? n - at : chunk;
        step(f, &seq, ids + at, m);
        for (uint32_t i = 0; i < m; i++)
            model_head(f->run, &i, 1, logits + (size_t)(at + i) * vocab, NULL);
        kv_seq_commit(&seq, m);
    }
    kv_seq_release(&seq);
}

void feed_vector(struct feed *f, const tok_id *ids, uint32_t n, uint32_t chunk, bool rank, float *out)
{
    struct kv_seq seq;
    struct err e;
    float *sum = calloc(model_info(f->model)->width, sizeof *sum);
    if (!sum || kv_seq_init(&seq, f->kv, &e))
        BUG("no memory for a vector");
    for (uint32_t at = 0; at < n; at += chunk) {
        uint32_t m = n - at < chunk ? n - at : chunk;
        step(f, &seq, ids + at, m);
        if (!rank)
            model_pool(f->run, 0, m, sum);
        else if (at + m == n)
            model_pool(f->run, m - 1, 1, sum);
        kv_seq_commit(&seq, m);
    }
    if (!model_vector(f->run, sum, rank ? 1 : n, rank, out))
        BUG("a vector that is not finite");
    kv_seq_release(&seq);
    free(sum);
}
