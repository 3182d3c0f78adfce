/*
 * response_store: finished replies of /v1/responses, to be shown again and to be continued.
 *
 * A response is the object that the client was sent, the items that its request brought and those that it produced. It
 * points at the response that it continues, so a conversation is a chain in which every turn is kept once, and several
 * may go on from the same turn. What a chain needs stays in memory when the store has let its name go, and counts until
 * then. Responses are told apart by owner (server_owner()): whoever has another key finds nothing.
 *
 * Everything has a ceiling (limits.h). When it is full what was not asked for longest goes first, and before all others
 * that of an owner who holds more than half, turns that have lost their names but are continued among it.
 * Threads: any. A response that was found is immutable until its finder drops it.
 */
#ifndef SERVER_RESPONSE_STORE_H
#define SERVER_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "server/limits.h"
#include "server/replay_store.h"
#include "text/text.h"

struct server_responses;

/* The last owner frees it: the store counts as one while it has its name, so does each finder, and each response that goes
 * on from it. */
struct server_response {
    struct server_response *before; /* owned; NULL: it continues nothing */
    struct text_view object, input, output; /* JSON; the latter two are arrays of items */
    struct server_response_item *items; /* owned; where those of `output` lie */
    struct server_response_account *account; /* its owner's */
    size_t items_n, bytes, chain_bytes; /* its own, and with all that it continues */
    uint32_t turns;                     /* of the chain that ends with it */
    unsigned owners;                    /* under the store's lock */
    char data[];                        /* what the views point into */
};

MUST_CHECK enum status server_responses_new(struct server_responses **out, struct err *e);
void server_responses_free(struct server_responses *st); /* all found responses were dropped; NULL is fine */

/* Keeps copies of `texts`, of which object, input, output are read. `before`, NULL or held by the caller, stays the
 * caller's. What exceeds a ceiling by itself, or finds no memory, is not kept. */
void server_responses_put(struct server_responses *st, struct server_name owner, struct server_name id,
                          struct server_response *before, const struct server_response *texts);

/* Held until server_responses_drop(); NULL: there is none. */
struct server_response *server_responses_find(struct server_responses *st, struct server_name owner,
                                              struct server_name id);
void server_responses_drop(struct server_responses *st, struct server_response *r); /* NULL is fine */

/* Forgets a response; false: there is none. */
bool server_responses_remove(struct server_responses *st, struct server_name owner, struct server_name id);

/* Appends the item of that id which one of the kept responses produced; false: there is none. */
bool server_responses_item(struct server_responses *st, struct server_name owner, struct server_name id, struct buf *out);

/* Responses that have their names, and bytes in memory. */
void server_responses_size(struct server_responses *st, size_t *responses, size_t *bytes);

#endif
