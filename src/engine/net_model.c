/* The real network and the real tokenizer behind net.h. */
#include <stdlib.h>

#include "engine/net.h"

struct net_model {
    const struct model *model;
    struct model_run *run;
    bool rank;
};

static enum status model_prepare(void *ctx, struct pool *pool, uint32_t tokens, uint32_t context, struct err *e)
{
    struct net_model *n = ctx;
    return model_run_new(&n->run, n->model, pool, tokens, context, e);
}

static void model_forward_spans(void *ctx, const struct model_span *spans, uint32_t n)
{
    model_forward(((struct net_model *)ctx)->run, spans, n);
}

static void model_head_at(void *ctx, const uint32_t *at, uint32_t n, float *out, struct kern_top *top)
{
    model_head(((struct net_model *)ctx)->run, at, n, out, top);
}

static void model_pool_states(void *ctx, uint32_t at, uint32_t n, float *sum)
{
    model_pool(((struct net_model *)ctx)->run, at, n, sum);
}

static bool model_make(void *ctx, const float *sum, uint32_t n, float *out)
{
    const struct net_model *net = ctx;
    return model_vector(net->run, sum, n, net->rank, out);
}

static void model_release(void *ctx)
{
    struct net_model *n = ctx;
    if (n->run)
        model_run_free(n->run);
    free(n);
}

/* A reply continues its prompt, so a first space is kept (`inner`). Chat models with a SentencePiece vocabulary may
 * begin their replies with a word that has one, and then the reply begins with a space; after templates that end in a
 * line break (Gemma) they do not. */
static enum status words_open(const void *ctx, bool special, void **stream, struct err *e)
{
    struct tok_stream *s = NULL;
    enum status st = tok_stream_new(ctx, special, true, &s, e);
    *stream = s;
    return st;
}

static void words_close(void *s)
{
    tok_stream_free(s);
}

static void words_clear(void *s)
{
    tok_stream_clear(s);
}

static size_t words_put(void *s, tok_id id, char *out, size_t cap)
{
    return tok_stream_put(s, id, out, cap);
}

static size_t words_more(void *s, char *out, size_t cap)
{
    return tok_stream_more(s, out, cap);
}

static size_t words_flush(void *s, char *out, size_t cap)
{
    return tok_stream_flush(s, out, cap);
}

static bool words_ends(const void *ctx, tok_id id)
{
    return tok_is_eos(ctx, id);
}

/* What the configuration says of vectors, or else the model. */
static enum status choose_pooling(struct engine_net *net, const struct engine_config *cfg, struct err *e)
{
    const struct model_info *info = model_info(cfg->model);
    net->pooling = cfg->pooling ? cfg->pooling : info->pooling;
    if (!cfg->pooling && net->pooling == POOLING_RANK && !info->classes) /* it may still write */
        net->pooling = POOLING_NONE;
    net->whole = info->bidirectional;
    net->width = info->width;
    net->vector = net->pooling == POOLING_RANK ? info->classes : net->pooling ? info->vector : 0;
    if (net->pooling == POOLING_RANK && !info->classes)
        return err_set(e, ST_UNSUPPORTED, "pooling", "%s cannot rank: it has no tensor cls.output.weight", info->name);
    if (net->pooling == POOLING_RANK && net->whole)
        return err_set(e, ST_UNSUPPORTED, "pooling", "ranking by the first state is not supported yet");
    if (net->vector > LIMIT_VECTOR || (net->vector && net->width > LIMIT_VECTOR))
        return err_set(e, ST_UNSUPPORTED, "pooling", "vectors of %u numbers, of states of %u, are more than %u",
                       net->vector, net->width, LIMIT_VECTOR);
    return ST_OK;
}

enum status engine_net_model(struct engine_net *net, struct engine_words *words, const struct engine_config *cfg,
                             struct err *e)
{
    const struct model_info *info = model_info(cfg->model);
    *words = (struct engine_words){0};
    *net = (struct engine_net){
        .vocab = info->vocab,
        .context = info->context < LIMIT_CONTEXT ? info->context : LIMIT_CONTEXT,
        .kv_groups = info->kv_groups,
        .prepare = model_prepare,
        .forward = model_forward_spans,
        .head = model_head_at,
        .pool = model_pool_states,
        .make = model_make,
        .release = model_release,
    };
    TRY(choose_pooling(net, cfg, e));
    for (uint32_t g = 0; g < info->kv_groups && g < KV_GROUPS; g++)
        net->kv_group[g] = info->kv_group[g];
    TRY(kern_choose(&net->ops, e));
    engine_cost_guess(&net->cost, info, NULL);
    struct net_model *n = calloc(1, sizeof *n);
    if (!n)
        return err_set(e, ST_NO_MEMORY, "", "no memory for an engine");
    n->model = cfg->model;
    n->rank = net->pooling == POOLING_RANK;
    net->ctx = n;
    if (cfg->tok)
        *words = (struct engine_words){
            .ctx = cfg->tok,
            .open = words_open,
            .close = words_close,
            .clear = words_clear,
            .put = words_put,
            .more = words_more,
            .flush = words_flush,
            .ends = words_ends,
        };
    return ST_OK;
}

enum status engine_new(struct engine **out, const struct engine_config *cfg, struct err *e)
{
    struct engine_net net;
    struct engine_words words;
    *out = NULL;
    TRY(engine_net_model(&net, &words, cfg, e));
    return engine_new_net(out, cfg, &net, cfg->tok ? &words : NULL, NULL, e);
}
