/*
 * vectors: the texts of one request on their way through the engine, each to its vector.
 *
 * Each text is a request of the engine, so those of one client take their turns beside everybody else's; a few are under
 * way at a time. A text that is too long, or one that fails, fails all of them. Knows the engine and http, no dialect.
 */
#ifndef SERVER_VECTORS_H
#define SERVER_VECTORS_H

#include <jansson.h>

#include "server/private.h"
#include "server/reply.h"

struct server_vectors {
    struct reply_prompt *texts; /* [n], owned, of ids alone */
    size_t n;
    uint64_t tokens;   /* of all texts, */
    uint64_t encoded;  /* and before some were cut */
    bool cut;          /* texts that are too long are cut, down to `window` ids where that is not 0 */
    uint32_t window;
    int32_t priority;
    uint32_t deadline_ms;    /* from the request's arrival to its end; 0 = none */
    char salt[LIMIT_SALT]; /* [salt_n], what the request names */
    size_t salt_n;
    uint32_t size;     /* numbers of a vector */
    float *numbers;    /* [n][size], owned, once server_vectors_run() is done */

    /* the dialect's */
    bool base64, documents;
    uint32_t most; /* numbers, or results, that are told; 0 = all */
};

void server_vectors_init(struct server_vectors *v);
void server_vectors_release(struct server_vectors *v);

/* Whether there is room for n more texts. Errors name `field`. */
MUST_CHECK enum status server_vectors_room(const struct server_vectors *v, size_t n, const char *field, struct err *e);

/* Adds a text, with what the model puts around one; control tokens written in it are plain text. Errors name `field`. */
MUST_CHECK enum status server_vectors_add(const struct server *s, struct server_vectors *v, const char *text, size_t n,
                                          const char *field, struct err *e);

/* Adds ids from tok_encode() or its like, which it takes, also on failure. */
MUST_CHECK enum status server_vectors_take(const struct server *s, struct server_vectors *v, tok_id *ids, size_t n,
                                           const char *field, struct err *e);

/* A text, a list of texts, of ids, or of lists of ids: the member `field`. Ids are taken as they are. */
MUST_CHECK enum status server_vectors_parse(const struct server *s, const json_t *value, const char *field,
                                            struct server_vectors *v, struct err *e);

/* The vector of each text; the caller has seen to it that all of them are no more than LIMIT_REPLY bytes. False: nothing
 * more is to be sent, as the client is gone; otherwise *e has ST_OK or says what failed. */
bool server_vectors_run(struct http_call *call, struct server_vectors *v, struct err *e);

/* Shortens vectors to their first `size` numbers, and those to length 1. */
void server_vectors_shorten(struct server_vectors *v, uint32_t size);

#endif
