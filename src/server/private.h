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
    uint16_t port;
    int64_t started; /* unix time */
    char url[300];
};

extern const struct http_route server_routes[];

/* Replies to what http refuses before there is a handler. */
void server_refuse(struct http_call *call, int status, const struct err *e);

/* A random number below 2^bits, bits <= 64, from the system. */
uint64_t server_random(unsigned bits);

#endif
