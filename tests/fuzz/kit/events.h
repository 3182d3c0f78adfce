/* events: an independent reader of replies: server-sent events, lines of JSON, and JSON. */
#ifndef TESTS_FUZZ_EVENTS_H
#define TESTS_FUZZ_EVENTS_H

#include <jansson.h>

#include "fuzz/kit/wire.h"

/* data: NULL for "[DONE]"; name: "" where the event has none. */
typedef void events_sink(void *user, const char *name, const json_t *data);

/* Tells the sink, which may be NULL, what a reply holds, one event or all of it; ends the program where the reply is not
 * what its Content-Type says. JSON that jansson cannot hold makes it tell nothing more: false. */
bool events_read(const struct wire_reply *r, events_sink *sink, void *user);

#endif
