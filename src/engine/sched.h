/*
 * sched: who runs, who waits, and how much each row feeds.
 *
 * Order: every request has a rank, its time of arrival plus SCHED_PRIORITY_S for each step of priority; the smallest rank
 * goes first. So among equals it is first come, first served; a priority is a head start of that many seconds; and
 * nobody starves, since whoever waits long enough has a smaller rank than all that arrive. Whatever has to be taken away
 * (blocks, when they run out) is taken from the largest rank, so the smallest always makes progress.
 *
 * Budget: while rows decode a step may take `itl`; rows with one id to feed always go, prompts are cut to fit what is left,
 * never below SCHED_LEAST_PREFILL ids in all. Without rows that decode it may take SCHED_PREFILL_MS, so that a request
 * that arrives or is cancelled is seen soon. Times are predicted by cost.h; on a machine whose steps end later than
 * predicted now and then, less is planned.
 */
#ifndef ENGINE_SCHED_H
#define ENGINE_SCHED_H

#include "engine/cost.h"
#include "engine/row.h"
#include "engine/step.h"

#define SCHED_PRIORITY_S 5.0    /* seconds of waiting that one step of priority is worth */
#define SCHED_STALL_S 0.25      /* how long a row waits for its reader before others may have its blocks */
#define SCHED_PEEK_S 0.1
#define SCHED_ITL_MS 50u        /* where the configuration names none */
#define SCHED_PREFILL_MS 200.0
#define SCHED_LEAST_PREFILL 4u

/* A request comes in at `now`. */
double sched_rank(int32_t priority, double now);

/* Lets waiting rows start while there are sequences and blocks for them. */
void sched_admit(struct engine *en);

/* What the step does with the rows' r->take ids, none of them likely. */
struct cost_work sched_work(const struct engine *en, const struct step *st);

/* A row whose prompt is fed, or all but one id of it: it goes into each step, with what it is certain of as
 * far as the budget goes. */
bool sched_decodes(const struct row *r);

/* The row whose blocks go first when they run out: one that cannot run anyway, otherwise the one of the largest rank. */
struct row *sched_victim(struct engine *en);

/* How long a step may take. */
double sched_budget_ms(const struct engine *en, bool decoding);

/* Sets `take` of every row of the step within the budget; st->predicted_ms and st->budget_ms say how it came out. */
void sched_share(struct engine *en, struct step *st);

#endif
