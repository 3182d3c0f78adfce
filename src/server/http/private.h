/* What the files of server/http share and nobody else sees. */
#ifndef SERVER_HTTP_PRIVATE_H
#define SERVER_HTTP_PRIVATE_H

#include <stdatomic.h>

#include "server/http/http.h"
#include "server/http/keeper.h"
#include "server/http/streams.h"

struct http {
    struct http_config cfg;
    struct MHD_Daemon *daemon;
    struct http_keeper *keeper;
    struct http_streams *streams;
    int stop_fd;             /* eventfd; readable once waits are to end */
    int quiet_fd;            /* the listening socket once no connection is taken from it any more; -1 before */
    atomic_bool stopping;    /* http_drain() was called */
    atomic_uint under_way;   /* calls that began and have not ended */
    atomic_size_t body_held; /* bytes of all bodies and of what is kept of them, at most about LIMIT_BODIES */
};

/* The connection's, or -1. */
int http_socket(const struct http_call *call);

/* Decides that the call is refused. */
void http_refuse(struct http_call *call, int status, enum status code, const char *text);

/* ---- the head (head.c) ---- */

/* Refuses a head that another reader could take for something else. */
void http_check_head(struct http_call *call);

/* The path of a request's target, which may be a whole address ("http://host/path"). */
const char *http_take_target(struct http_call *call, const char *target);

/* Of what stands behind a '%' in addresses; for the library. */
size_t http_unescape(void *cls, struct MHD_Connection *conn, char *s);

/* ---- the route and the body (body.c) ---- */

/* Finds the route, or says in refusal, refusal_err and allow why there is none. */
void http_find_route(struct http_call *call, const char *method, const char *path);

/* Collects n bytes of body. False: the connection is to be closed. */
bool http_take_body(struct http_call *call, const char *data, size_t n);

/* Gives back what http_hold() counted. */
void http_end_hold(struct http_call *call);

/* Refuses an announced length that is too long before any of the body is there. */
void http_check_length(struct http_call *call);

/* Whether a call that is refused gets its reply now, its body unread. */
bool http_refuse_at_once(struct http_call *call);

#endif
