/*
 * judge: each row's sampler goes over the positions of its span that something is chosen at, with the row's grammar, and
 * stops at the first id that differs from what was fed. That id is chosen too; after a full accept it is the one behind.
 */
#ifndef ENGINE_JUDGE_H
#define ENGINE_JUDGE_H

#include "engine/step.h"

/* Fills in r->wants_head and r->head of all rows of the step, and its list of positions that get a head. */
void judge_collect(struct engine *en, struct step *st);

/* Chooses r->judged ids, which stand in ids[n, n + judged); the first r->accepted of them were likely. After a failure
 * (r->status) those before it count. */
void judge_rows(struct engine *en, struct step *st);

#endif
