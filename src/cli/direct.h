/*
 * direct: a model's forward pass without the engine, for the verbs that measure it (logits, bench, perplexity).
 *
 * Holds the KV pool, some sequences and the scratch of a step. Nothing is sampled or scheduled here.
 */
#ifndef CLI_DIRECT_H
#define CLI_DIRECT_H

#include "api/api.h"
#include "kv/kv.h"
#include "model/model.h"

struct direct {
    const struct model_info *info;
    struct pool *workers;
    struct kv_pool *kv;
    struct model_run *run;
    struct kv_seq *seq; /* [rows] */
    uint32_t rows;
    uint32_t step;      /* tokens one forward may hold */
    float *logits;      /* [heads][vocab] */
    uint32_t heads;
};

struct direct_config {
    uint32_t rows;
    uint32_t context; /* positions of each sequence */
    uint32_t step;    /* tokens of one forward, at most */
    uint32_t heads;   /* logits rows of one model_head(), at most */
    enum kern_kv format;
};

/* On failure *d is empty. `m` outlives it and must have been opened with API_MODEL. */
MUST_CHECK enum status direct_new(struct direct *d, const struct api_model *m, const struct direct_config *c,
                                  struct err *e);
void direct_free(struct direct *d); /* safe on an empty one */

/* Reserves, feeds and commits n ids of one sequence in forwards of at most `step` tokens. Afterwards the hidden states
 * of the last forward are there for model_head(); *last is how many it held. */
MUST_CHECK enum status direct_feed(struct direct *d, uint32_t row, const tok_id *ids, uint32_t n, uint32_t *last,
                                   struct err *e);

/* A pseudo-random id that depends on (stream, position) alone. */
tok_id direct_random_id(const struct direct *d, uint32_t stream, uint32_t position);

/* Each id is below the vocabulary size, or ST_ARGUMENT. */
MUST_CHECK enum status direct_check_ids(const struct model_info *info, const tok_id *ids, size_t n, struct err *e);

#endif
