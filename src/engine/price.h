/* price: what a step costs, as the engine's users give and see it. */
#ifndef ENGINE_PRICE_H
#define ENGINE_PRICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "model/model.h"

#define ENGINE_COST_POINTS 16u
/*
 * Predicted milliseconds of a step: the points interpolated at its number of ids (proportional beyond the last), plus
 * head_ms for each position that gets a head and is sampled, plus attention_ms for each million keys that ids of longer
 * spans look at, counted over all layers, and decode_attention_ms for each million that spans of one id look at. The
 * points ascend in tokens.
 */
struct engine_cost {
    uint32_t n;
    struct engine_cost_point {
        uint32_t tokens;
        double ms;
    } point[ENGINE_COST_POINTS];
    double head_ms, attention_ms, decode_attention_ms;
    bool frozen; /* real steps do not change it */
};

/* What a machine can do at best, all threads together. */
struct engine_machine {
    double bytes_per_s; /* read from memory */
    double macs_per_s;  /* int8 multiply-accumulates */
};

/* A first guess: weights are read once a step, and every id takes its products. `machine` NULL = a modest one. */
void engine_cost_guess(struct engine_cost *c, const struct model_info *info, const struct engine_machine *machine);

/* Keys that n ids fed at position `len` look at, added up over all layers. */
double engine_cost_keys(const struct model_info *info, uint32_t len, uint32_t n);

/* ST_ARGUMENT unless the points ascend and everything is positive and finite. */
MUST_CHECK enum status engine_cost_check(const struct engine_cost *c, struct err *e);

#endif
