/*
 * rate: how far a source that copies may be trusted.
 *
 * What is copied stands behind ids that match: `match` of them before the place copied from and before the end of the row
 * are the same. Id j of a proposal, if it is ever compared, stands behind match + j ids that match, so its chance is that
 * of a match of this length: one table by length serves every position of a proposal.
 *
 * Nothing has to be offered to fill the table. Where a source was asked, it guesses the next id, and when that is known
 * the guess is counted, proposed or not. Behind a row's own counts stand those of all rows of the engine, and behind
 * those a prior, each with the weight of a few guesses; counts decay. So a row finds out within some dozen ids, and a new
 * one begins where others left off.
 *
 * Counts are averages, and a text may break off just where they say it goes on. So each row also has a credit, in ids: an
 * accepted id adds one, an offered one costs its price and some more, and nothing is proposed that the credit does not
 * pay for. It begins small, and grows a little with each id that comes and with each right guess that would have been
 * worth proposing. A proposal that costs more than it gives halves this growth, so the next wait is twice as long; one
 * that pays ends that, and right guesses do so slowly.
 *
 * Engine thread only.
 */
#ifndef SOURCE_RATE_H
#define SOURCE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "source/source.h"

#define SOURCE_RATE_CLASSES 6 /* of match lengths */

struct source_tally {
    float seen[SOURCE_RATE_CLASSES], right[SOURCE_RATE_CLASSES]; /* right <= seen; both decay */
};

/* Of one source, over all rows. */
struct source_rates {
    uint16_t from[SOURCE_RATE_CLASSES]; /* the shortest match of each class, ascending; shorter ones count as the first */
    float prior[SOURCE_RATE_CLASSES];
    struct source_tally all;
};

/* Of one row. */
struct source_rate {
    struct source_tally own;
    float credit;
    float price;     /* when last asked */
    float losses;    /* proposals in a row that cost more than they gave; each halves what adds to the credit */
};

void source_rate_begin(struct source_rate *r);

uint32_t source_rate_class(const struct source_rates *all, uint32_t match);
float source_rate_chance(const struct source_rates *all, const struct source_rate *r, uint32_t match);

/* ask->out->id[n] could be proposed: cuts n to what pays and fills in the rest, or leaves the proposal empty. */
void source_rate_propose(const struct source_rates *all, struct source_rate *r, uint32_t match, uint32_t n,
                         const struct source_ask *ask);

/* An id is known where the source was asked. */
void source_rate_passed(struct source_rate *r);

/* It had guessed that id behind `match` that match. */
void source_rate_guessed(struct source_rates *all, struct source_rate *r, uint32_t match, bool right);

void source_rate_settle(struct source_rate *r, uint32_t ticket, uint32_t offered, uint32_t accepted);

#endif
