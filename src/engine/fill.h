/*
 * fill: what sources add to rows.
 *
 * Two ways. Ids that are *certain* are chosen at once: they enter ids[], are said, and are fed like a prompt; nothing is
 * computed to find them. Ids that are *likely* stand behind the row for one step, as far as they are expected to pay, and
 * the judge decides. The engine asks sources again at the end of what they proposed until nobody knows more, so a short
 * forced piece does not hide the copy behind it.
 *
 * What likely ids cost and bring: an accepted id is worth what a row's id costs in a step of decoding rows alone; a
 * proposal is run as far as that, times its chance, exceeds what the cost model says the longer span takes.
 */
#ifndef ENGINE_FILL_H
#define ENGINE_FILL_H

#include "engine/step.h"

#define FILL_ROUNDS 8u      /* how often sources are asked behind each other in one step */
#define FILL_ALONE 8.0      /* a step of one row may take so many times longer with likely ids */
#define FILL_COMPANY 1.5    /* one of several rows, where it is beyond its budget anyway */
#define FILL_MARGIN 1.03    /* likely ids must be worth this many times what they cost */

/* Sources of the engine: those that the configuration can have. `given` (tests) replaces them; it may be NULL. */
MUST_CHECK enum status fill_sources(struct engine *en, const struct engine_config *cfg, struct source *const *given,
                                    struct err *e);
void fill_release(struct engine *en);

/* A row's share of them; by the thread that submits. */
MUST_CHECK enum status fill_open(struct engine *en, struct row *r, struct err *e);
void fill_close(struct engine *en, struct row *r); /* also when it was opened in part, or not at all */

/* Whether the template's rows were switched off for it, since what followed one was not as they say. */
bool fill_disarmed(const struct engine *en, const struct row *r);

/* Chooses what is certain of a running row, and says it. The row may end. */
void fill_certain(struct engine *en, struct row *r);

/* Asks what is likely for the rows of a step. */
void fill_propose(struct engine *en, struct step *st);

/* After sched_share(): keeps of what was proposed as much as pays, and adds it to r->take. */
void fill_fit(struct engine *en, struct step *st);

/* Proposals of a row that are not run: its blocks went to others, or it ends. */
void fill_drop(struct engine *en, struct row *r);

/* Tells sources what became of their proposals; ids[from, n) are new. */
void fill_settle(struct engine *en, struct row *r, uint32_t from);

/* Where likely id i of a row comes from. */
const struct row_piece *fill_piece(const struct row *r, uint32_t i);

/* Whether likely id i is taken without asking the sampler. */
bool fill_skips_head(const struct row *r, uint32_t i);

/* What may come behind ids[0, n): fills in next, mask and complete. Any thread that has the row. */
enum status row_look_ahead(struct row *r, struct err *e);

#endif
