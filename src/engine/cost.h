/*
 * cost: how long a step will take, learnt from how long steps took. The formula stands at struct engine_cost.
 *
 * The curve begins as a guess. What is learnt are factors on it, one for each point and one for each of the two attention
 * terms, by normalised least mean squares: each step, the error of the prediction is shared out over the parts of the
 * prediction in proportion to their squares, and a tenth of it is corrected. Points that were never near a step take the
 * factor of those that were; points that have not been near one for long drift towards it, so that a mistake about
 * steps that are avoided because of it does not last. Factors are bounded.
 */
#ifndef ENGINE_COST_H
#define ENGINE_COST_H

#include "engine/engine.h"

/* What a step does. */
struct cost_work {
    uint32_t tokens, heads;
    double keys;        /* looked at by ids of spans of several, over all layers */
    double decode_keys; /* by spans of one id */
};

struct cost {
    struct engine_cost curve;  /* what is predicted now */
    struct engine_cost guess;  /* what it began with */
    double factor[ENGINE_COST_POINTS], weight[ENGINE_COST_POINTS]; /* weight: how much was observed near the point */
    double keys_factor, decode_factor, head_factor;
    double heads_seen;
    double late;               /* how much longer than predicted late steps take, as a share */
};

/* Begins with a curve that engine_cost_check() accepts. */
void cost_begin(struct cost *c, const struct engine_cost *curve);

double cost_ms(const struct engine_cost *c, const struct cost_work *w);

/* `w` took so long: its forward pass, and all its heads with the choosing. */
void cost_saw_forward(struct cost *c, const struct cost_work *w, double ms);
void cost_saw_heads(struct cost *c, uint32_t heads, double ms);

/* Keys that n ids fed at position `len` look at, added up over the layers of a group. */
double cost_keys(const struct kv_shape *group, uint32_t len, uint32_t n);

/* Adds a span of n ids at position `len` to w. */
void cost_add(struct cost_work *w, const struct kv_shape *groups, uint32_t groups_n, uint32_t len, uint32_t n);

#endif
