/*
 * replay_constrain: the grammar that a recorded conversation's reply stood under, as a server makes it from the request:
 * from `response_format`, or else from `tools` and `tool_choice` in the shape in which the chat template writes calls.
 */
#ifndef CLI_REPLAY_CONSTRAIN_H
#define CLI_REPLAY_CONSTRAIN_H

#include "cli/replay_run.h"
#include "format/format.h"
#include "text/text.h"

struct replay_constrain {
    const struct tok *tok;
    const struct format *format;              /* NULL: calls are written in a way that is not known; none is constrained */
    const struct format_reasoning *reasoning; /* NULL = none */
    struct format_shape shape;
};

/* What the chat template in source[n] writes. */
void replay_constrain_init(struct replay_constrain *c, const struct tok *tok, const char *source, size_t n);

/* Fills in it->grammar of an item whose ids are there; NULL where the reply is free. ST_UNSUPPORTED: the reply is not one
 * that could have come under its grammar; the text says from which token on. */
MUST_CHECK enum status replay_constrain_item(const struct replay_constrain *c, struct replay_item *it, struct err *e);

#endif
