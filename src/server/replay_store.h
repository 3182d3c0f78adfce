/*
 * replay_store: the ids of finished replies, to be found again by name.
 *
 * A record is a prompt with its reply, and is kept under a few names: ids that we gave out, keys and sessions that the
 * client chose. Names are told apart by owner (server_owner()): whoever has another key or salt finds nothing. One name
 * may stand for many records; which of them fits is the caller's question.
 *
 * Everything has a ceiling (limits.h). When it is full what was not asked for longest goes first, and who holds more than
 * half makes room at its own expense. A record that was found stays whole until its finder drops it, also when the store
 * has let it go meanwhile.
 * Threads: any; the lock is held for look-ups and bookkeeping, never while ids are copied or compared.
 */
#ifndef SERVER_REPLAY_STORE_H
#define SERVER_REPLAY_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"
#include "chat/chat.h"
#include "server/limits.h"

struct server_replay;

#define SERVER_REPLAY_NAMES (4 + LIMIT_REPLAY_CALLS) /* of one record: reply, message, cache key, session, tool calls */

/* The last owner frees it: the store counts as one, each finder as one more. Immutable otherwise. */
struct server_record {
    struct chat_record ids;
    unsigned owners; /* under the store's lock */
};

struct server_name {
    const char *s; /* bytes */
    size_t n;
};

MUST_CHECK enum status server_replay_new(struct server_replay **out, struct err *e);
void server_replay_free(struct server_replay *st); /* all found records were dropped; NULL is fine */

/* Keeps copies of ids and names; empty names are left out. What exceeds a ceiling by itself, or finds no memory, is not
 * kept: a later turn is then encoded as it always is. */
void server_replay_put(struct server_replay *st, struct server_name salt, const struct server_name *names, size_t n,
                       const struct chat_record *record);

/* Adds to out[*count..cap) the records of that name which are not there yet, the latest first. */
void server_replay_find(struct server_replay *st, struct server_name salt, struct server_name name,
                        struct server_record **out, size_t *count, size_t cap);
void server_replay_drop(struct server_replay *st, struct server_record **found, size_t count);

/* Records and ids kept now. */
void server_replay_size(struct server_replay *st, size_t *records, size_t *ids);

#endif
