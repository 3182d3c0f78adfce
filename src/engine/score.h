/*
 * score: log-probabilities of the prompt, for rows that asked for them: every position of the span that is followed by
 * another prompt id gets a head, as many at a time as the step has room for logits, and each id becomes an EVENT_PROMPT.
 */
#ifndef ENGINE_SCORE_H
#define ENGINE_SCORE_H

#include "engine/step.h"

/* After judge(), whose logits are not needed any more. Returns how many positions were scored. A row whose logits are not
 * finite gets its status set. */
uint32_t score_prompts(struct engine *en, struct step *st);

#endif
