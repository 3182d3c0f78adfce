/* replay_ask: what a recorded conversation asks for, taken from its line as the server takes it from a request. */
#ifndef CLI_REPLAY_ASK_H
#define CLI_REPLAY_ASK_H

#include "cli/replay_run.h"
#include "server/server.h"

/* Fills in prompt, grammar and rows of an item whose reply is there. ST_UNSUPPORTED (field "reply"): the reply is not one
 * that could have come under its grammar; the text says from which token on. */
MUST_CHECK enum status replay_ask(const struct server *s, struct replay_item *it, struct err *e);

#endif
