/*
 * step: one ragged forward over the spans of all rows. step.c reads in the order of its seven parts.
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "engine/row.h"

#define STEP_PREFILL_BESIDE 256u /* prompt ids a step feeds while other rows decode: their streams stay steady */

struct step {
    struct row *rows[LIMIT_ROWS];  /* that take part, in order of arrival */
    uint32_t n;
    struct model_span spans[LIMIT_ROWS];
    struct row *heads[LIMIT_ROWS]; /* rows whose last position gets a head */
    uint32_t at[LIMIT_ROWS];       /* that position, counted over all spans */
    uint32_t heads_n;
};

/* One step. False when no row had anything to do. */
bool step_run(struct engine *en);

#endif
