/*
 * keeper: ends connections that take too long to say what they want.
 *
 * The HTTP library closes a connection that is silent; one that sends a byte now and then would hold its place for ever.
 * So every connection has a deadline for the head of its next request, another for its body and for taking a whole
 * reply, and one thread shuts the sockets of those who miss it; the connection's own thread then sees the end and cleans
 * up. While a request is worked on or its reply streams there is no deadline: a stream that is not read at all stalls,
 * and the library's timeout ends it.
 *
 * Invariant: a slot's descriptor is open as long as the slot is taken (the library tells us before it closes), so the
 * keeper never shuts somebody else's.
 */
#ifndef SERVER_HTTP_KEEPER_H
#define SERVER_HTTP_KEEPER_H

#include <stdint.h>

#include "base/base.h"

struct http_keeper;
struct http_keeper_slot;

MUST_CHECK enum status http_keeper_new(struct http_keeper **out, struct err *e);
void http_keeper_free(struct http_keeper *k);

/* NULL when all places are taken. */
struct http_keeper_slot *http_keeper_take(struct http_keeper *k, int fd);
void http_keeper_give(struct http_keeper *k, struct http_keeper_slot *s); /* NULL is fine */

/* The socket is shut `seconds` from now unless this is called again; 0 = no deadline. NULL is fine. */
void http_keeper_deadline(struct http_keeper *k, struct http_keeper_slot *s, uint32_t seconds);

#endif
