/*
 * vector: what becomes of requests that want the vector of their prompt. After each forward the states that count are added
 * up, and those of the last step end in the vector.
 */
#ifndef ENGINE_VECTOR_H
#define ENGINE_VECTOR_H

#include "engine/step.h"

/* Whether the engine can do what a request wants of it: a vector, or a reply. */
MUST_CHECK enum status vector_check(const struct engine *en, const struct request *rq, struct err *e);

/* Room for the row's sum and vector; by the thread that submits. */
MUST_CHECK enum status vector_open(struct engine *en, struct row *r, struct err *e);

/* After the forward, before the commit. A row whose vector is not finite gets its status set. */
void vector_rows(struct engine *en, struct step *st);

#endif
