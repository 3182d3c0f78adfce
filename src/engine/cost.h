/*
 * cost: how long a step will take, learnt from how long steps took. The formula stands at struct engine_cost.
 *
 * Two things are measured apart: the forward pass, which teaches the points and the attention term, and the heads with
 * the choosing, which teach head_ms. Each observation moves what took part in the prediction towards the measured ratio,
 * as far as it took part (a multiplicative least-mean-squares step).
 */
#ifndef ENGINE_COST_H
#define ENGINE_COST_H

#include "engine/engine.h"

struct cost {
    struct engine_cost curve;
    uint32_t seen[ENGINE_COST_POINTS], seen_head, seen_attention; /* observations that moved it */
};

/* Begins with a curve that engine_cost_check() accepts. */
void cost_begin(struct cost *c, const struct engine_cost *curve);

double cost_body_ms(const struct engine_cost *c, uint32_t tokens);
double cost_ms(const struct engine_cost *c, uint32_t tokens, uint32_t heads, double keys);

void cost_saw_forward(struct cost *c, uint32_t tokens, double keys, double ms);
void cost_saw_heads(struct cost *c, uint32_t heads, double ms);

/* Keys that n ids fed at position `len` look at, added up over the layers of a group. */
double cost_keys(const struct kv_shape *group, uint32_t len, uint32_t n);

#endif
