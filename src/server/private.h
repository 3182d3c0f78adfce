/* What the files of server share and nobody else sees. */
#ifndef SERVER_PRIVATE_H
#define SERVER_PRIVATE_H

#include "server/http/http.h"
#include "server/limits.h"
#include "server/server.h"

struct server {
    struct http *http;
    struct engine *engine;
    const struct tok *tok;
    const struct chat *chat; /* NULL = none */
    char *model;             /* owned */
    bool strict_model;
    size_t prompt_bytes; /* a longer text cannot fit the context; encoding it to find out would take seconds */
    uint8_t *ends, *protect, *breakers; /* bitmaps of ids: that end a reply, those and newlines, with usual breakers */
    uint16_t port;
    int64_t started; /* unix time */
    char url[300];
};

extern const struct http_route server_routes[];

/* Replies to what http refuses before there is a handler. */
void server_refuse(struct http_call *call, int status, const struct err *e);

/* A random number below 2^bits, bits <= 64, from the system. */
uint64_t server_random(unsigned bits);

/* The server's bitmaps (sets.c). Release also after a failure. */
MUST_CHECK enum status server_sets_init(struct server *s, struct err *e);
void server_sets_release(struct server *s);

#endif
