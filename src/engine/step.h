/*
 * step: one ragged forward over the spans of all rows. step.c reads in the order of its seven parts.
 */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "engine/row.h"

#define FILL_HEADS 64u /* likely ids of all rows in one step that get a head */

struct step {
    struct row *rows[LIMIT_ROWS];  /* that take part, in order of rank */
    uint32_t n;
    struct model_span spans[LIMIT_ROWS];
    struct row *judged[LIMIT_ROWS]; /* rows that choose something */
    uint32_t judged_n;
    uint32_t at[LIMIT_ROWS + FILL_HEADS]; /* positions that get a head, counted over all spans: row after row */
    uint32_t heads_n;
    double spare_ms;               /* what is left of the budget when rows only decode */
    double worth_ms;               /* what an id of a row costs when rows only decode */
    double predicted_ms, budget_ms; /* sched.h */
    uint64_t score_ns;             /* of heads that score prompts */
    uint64_t propose_ns;           /* of asking sources */
};

/* A prompt position whose next id is scored. */
struct step_score {
    struct row *row;
    uint32_t at;           /* counted over all spans */
    tok_id id;
    enum status status;
    float logprob;
    struct sample_logprob top[LIMIT_LOGPROBS];
};

/* One step. False when no row had anything to do. */
bool step_run(struct engine *en);

#endif
