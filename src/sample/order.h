/*
 * order: the candidates of one position in their total order (logit descending, id ascending), sorted only as far as
 * somebody looks.
 *
 * A counting pass puts every id into one of ORDER_BUCKETS ranges of logits; buckets are then gathered and sorted from
 * the top, a few at a time. The mapping from logit to bucket is monotone, so everything in a later bucket comes later.
 */
#ifndef SAMPLE_ORDER_H
#define SAMPLE_ORDER_H

#include <stdint.h>

#include "base/base.h"

#define ORDER_BUCKETS 1024u
#define ORDER_NOTHING (-104.0f) /* exp of anything below is 0 in f32 */

struct order {
    const float *logits; /* [vocab], finite or, if banned, -inf */
    uint32_t vocab;
    float max, spread;   /* the largest logit; the highest temperature anybody will look at */
    float base, temperature; /* of the weights */
    float scale;         /* logits below max × scale = bucket */
    uint32_t n;          /* keys[0, n) are final */
    uint32_t want;       /* how many the next look beyond n should add */
    uint32_t bucket;     /* the next one to gather */
    uint64_t *keys;      /* [vocab] owned by the sampler: order-preserving logit bits above, id below */
    uint64_t *scratch;   /* [vocab] */
    float *weight;       /* [vocab]: exp((logit - base) / temperature) of keys[i], 1 above base */
    uint32_t count[ORDER_BUCKETS];
};

/* Weights begin with base max and temperature 1. */
void order_begin(struct order *o, const float *logits, float max, float spread);

/* Another base and temperature, for the weights there are and those to come. */
void order_weigh(struct order *o, float base, float temperature);

/* Makes candidates [0, n) available; fewer when the vocabulary ends there. Returns how many there are. */
uint32_t order_reach(struct order *o, uint32_t n);

/* The exponent of the weight of candidate i. */
static inline float order_exponent(const struct order *o, uint32_t i)
{
    return (o->logits[(uint32_t)o->keys[i]] - o->base) / o->temperature;
}

static inline tok_id order_id(const struct order *o, uint32_t i)
{
    return (tok_id)(uint32_t)o->keys[i];
}

#endif
