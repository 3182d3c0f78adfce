/*
 * net: what the engine needs of a network and of a tokenizer, as structs of functions.
 *
 * engine_new() fills them from model/ and text/ (net_model.c). Tests fill them with a small deterministic network, so
 * that scheduling can be driven through thousands of cases without weights.
 */
#ifndef ENGINE_NET_H
#define ENGINE_NET_H

#include "engine/engine.h"

struct engine_net {
    void *ctx;
    uint32_t vocab, context; /* ids; positions the network was made for */
    uint32_t kv_groups;
    struct kv_shape kv_group[KV_GROUPS];
    bool whole;                 /* it makes vectors and does not write: each request is one span */
    enum model_pooling pooling; /* of vectors: NONE = it makes none */
    uint32_t width, vector;     /* floats of a sum of states, and of what comes of it; 0 = it makes none */
    const struct kern_ops *ops; /* for sampling */
    struct engine_cost cost;    /* a guess, where the configuration has no better one */

    /* Scratch for steps of up to `tokens` ids; called once, before the others. */
    enum status (*prepare)(void *ctx, struct pool *pool, uint32_t tokens, uint32_t context, struct err *e);
    void (*forward)(void *ctx, const struct model_span *spans, uint32_t n); /* as model_forward() */
    /* as model_head() */
    void (*head)(void *ctx, const uint32_t *at, uint32_t n, float *out, struct kern_top *top);
    void (*pool)(void *ctx, uint32_t at, uint32_t n, float *sum);      /* as model_pool() */
    bool (*make)(void *ctx, const float *sum, uint32_t n, float *out); /* as model_vector() */
    void (*release)(void *ctx);
};

/* A stream of text as in text.h. `open` may be called from any thread, a stream belongs to whoever owns its request. */
struct engine_words {
    const void *ctx;
    enum status (*open)(const void *ctx, bool special, void **stream, struct err *e);
    void (*close)(void *stream);
    void (*clear)(void *stream);
    size_t (*put)(void *stream, tok_id id, char *out, size_t cap);
    size_t (*more)(void *stream, char *out, size_t cap);
    size_t (*flush)(void *stream, char *out, size_t cap);
    bool (*ends)(const void *ctx, tok_id id);
};

/* The network and the tokenizer of cfg->model and cfg->tok (without one, *words is zeroed). net->ctx goes to the engine,
 * or back with net->release(). */
MUST_CHECK enum status engine_net_model(struct engine_net *net, struct engine_words *words,
                                        const struct engine_config *cfg, struct err *e);

/* What only tests change. */
struct engine_tuning {
    uint32_t stall_ms;  /* how long a full ring may stay unread; 0 = ENGINE_STALL_MS */
    uint32_t positions; /* of the KV pool, even fewer than the context; 0 = as planned */
    struct source *const *source; /* [SOURCE_KINDS] in place of the usual ones; the engine frees them. NULL = the usual */
    bool manual;        /* no engine thread: whoever made the engine calls engine_turn() */
    double (*clock)(void *ctx); /* seconds; NULL = clock_seconds() */
    void *clock_ctx;
};

/* One turn of the engine's loop: commands, admission, a step. False when there was nothing to do. Manual engines only. */
bool engine_turn(struct engine *en);

/* Aborts with a sentence when blocks, references and rows do not add up. Manual engines only. */
void engine_verify(const struct engine *en);

/* How long the last step was predicted to take, and may. */
void engine_last_step(const struct engine *en, double *predicted_ms, double *budget_ms);

/* As engine_new(), but cfg->model is not looked at, and cfg->tok only by sources. `words` NULL = ids only. The engine owns
 * net->ctx from the call on, also when it fails. */
MUST_CHECK enum status engine_new_net(struct engine **out, const struct engine_config *cfg, const struct engine_net *net,
                                      const struct engine_words *words, const struct engine_tuning *tuning,
                                      struct err *e);

/* KV blocks of group 0 that no row holds, to be looked at while the engine idles. */
uint32_t engine_kv_available(const struct engine *en);

#endif
