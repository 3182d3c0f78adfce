/*
 * keys: the API keys of a file, and what each may use.
 *
 * A line is a key and, behind it, any of
 *
 *     name=NAME       how logs call it
 *     rpm=N           requests a minute
 *     tpm=N           tokens a minute, of prompts and replies
 *     concurrent=N    requests at the same time
 *
 * with blanks between; what begins with '#' is a comment. Instead of the key its SHA-256 may stand there, as
 * "sha256:" and 64 hexadecimal digits, so that the file is no secret. Only hashes are kept in memory, and every one of
 * them is compared to its end, so time tells nothing about them.
 *
 * The file is read again when it changes; one that is wrong changes nothing and is logged. A key that is still there
 * keeps its counts. Limits per minute are buckets: they hold a minute's worth and fill up evenly. A request starts when
 * there are tokens left at all and is charged when it is over, so a bucket can be in debt, which is paid back by waiting.
 *
 * Threads: any. One lock, held for a pass over the table.
 */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "base/base.h"
#include "server/limits.h"

struct server_keys;
struct server_key;

/* `path` outlives *out. ST_IO, or ST_ARGUMENT with the line that is wrong, or when there is no key in the file. */
MUST_CHECK enum status server_keys_new(struct server_keys **out, const char *path, struct err *e);
void server_keys_free(struct server_keys *k); /* NULL is fine */

/* Reads the file again now. On failure the keys stay. */
MUST_CHECK enum status server_keys_reload(struct server_keys *k, struct err *e);

/* Whose key this is, and its name, to[LIMIT_KEY_NAME + 1]. Valid until server_keys_leave(). NULL: nobody's. */
struct server_key *server_keys_find(struct server_keys *k, const char *key, char *name);

/* One more request of the key. ST_BUSY with retry_after when that is beyond a limit. */
MUST_CHECK enum status server_keys_enter(struct server_keys *k, struct server_key *key, struct err *e);

/* What a key may still use of its limits per minute, and after how many seconds all of it is there again. */
struct server_key_left {
    struct server_key_limit {
        uint32_t limit; /* 0 = there is none */
        uint32_t left;
        uint32_t seconds;
    } requests, tokens;
};
struct server_key_left server_keys_left(struct server_keys *k, struct server_key *key);

/* Gives up what find gave; `entered`: after server_keys_enter(), with the tokens that the request took. */
void server_keys_leave(struct server_keys *k, struct server_key *key, bool entered, uint64_t tokens);

#endif
