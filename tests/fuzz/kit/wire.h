/*
 * wire: stands in for libmicrohttpd below a real server, so that a request takes microseconds and no socket.
 *
 * The server is started as always; a request then goes through its routes, gate, limits and handlers, and its reply comes
 * back as bytes. Clients here have always gone away: a wait for one ends at once.
 */
#ifndef TESTS_FUZZ_WIRE_H
#define TESTS_FUZZ_WIRE_H

#include "fuzz/kit/fuzz.h"

#define WIRE_HEADERS 16

struct wire_pair {
    const char *name, *value;
};

struct wire_request {
    const char *method, *path; /* without the query */
    struct wire_pair header[WIRE_HEADERS], query[WIRE_HEADERS]; /* [headers], [queries] */
    size_t headers, queries;
    const char *body; /* [n] */
    size_t n;
    size_t piece; /* bytes of it, and of a streamed reply, that come at a time; 0 = all */
};

struct wire_reply {
    int status; /* 0: the connection was closed without one */
    char type[64];
    struct buf body;
    bool streamed;
    bool broken; /* the stream was broken off */
};

/* Ends the program where the server does what the library does not allow. wire_release() is due. */
void wire_ask(const struct wire_request *rq, struct wire_reply *out);
void wire_release(struct wire_reply *r);

#endif
