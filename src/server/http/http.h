/*
 * http: connections, bodies and replies on libmicrohttpd; knows no route and no protocol above HTTP.
 *
 * Each connection has a thread. A request whose body has arrived becomes a `http_call` and goes to its route's handler,
 * which must reply exactly once, by http_reply() or http_stream(). The handler may block in http_wait(), and so may the
 * function that fills a stream: both watch the client's socket, so a client that went away ends the wait. A client that
 * shuts only its sending side counts as gone (the two cannot be told apart before something is written).
 *
 * A call lives until its reply has been sent or the connection broke; `release` is called then, on the same thread.
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/base.h"
#include "server/limits.h"

struct http;
struct http_call;
struct http_keeper_slot;

typedef void http_handler(struct http_call *call);
typedef void http_sent(struct http_call *call, const char *data, size_t n);

enum http_route_flag {
    HTTP_WHILE_STOPPING = 1, /* answers after http_drain() too */
    HTTP_OPEN = 2            /* needs no key; for the app's admit */
};

struct http_route {
    const char *method; /* "GET" serves HEAD as well */
    const char *path;   /* one that ends in '/' also matches everything below it */
    http_handler *handle;
    unsigned flags; /* of enum http_route_flag */
};

/* What the app sees of every call, whatever its route. All but admit may be NULL. */
struct http_watch {
    /* The head is there, and call->route or call->refusal. It may refuse the call by setting call->refusal and
     * refusal_err. False: the connection is closed without a reply. */
    bool (*admit)(struct http_call *call, const char *method, const char *path);
    void (*came)(struct http_call *call); /* all of the body is there, if it was not refused */
    http_sent *sent; /* a piece of the reply's body */
    void (*over)(struct http_call *call, const char *how); /* before `release`; "" = the reply was sent in full */
};

struct http_config {
    int listen_fd; /* taken over, on failure too */
    bool shared;   /* listen_fd is also somebody else's, who goes on listening: it is closed, but not shut */
    const char *tls_cert, *tls_key; /* of HTTPS (tls.h); NULL = HTTP. Not copied */
    const struct http_route *routes; /* ends with path NULL; outlives the http */
    void (*refuse)(struct http_call *call, int status, const struct err *e); /* replies with an error */
    const struct http_watch *watch; /* outlives the http */
    void *app;
    int news_fd; /* a non-blocking eventfd, written when a call may have news that is http_call.handed_over */
    uint32_t idle_s, head_s, body_s; /* longest silence; time for a request's head, for its body */
};

MUST_CHECK enum status http_new(struct http **out, const struct http_config *cfg, struct err *e);

/*
 * The end comes in three moves, so that whoever watches from outside sees it coming. http_drain(): connections are still
 * taken (from a shared socket none: they wait for whoever listens next), but only routes with HTTP_WHILE_STOPPING answer,
 * every other request is a 503, and replies tell the client that the connection closes. http_idle(): whether no call is
 * under way any more. http_free(): waits that still go on end with HTTP_STOPPING, their clients have about a second to
 * take a last word, and h is freed.
 */
void http_drain(struct http *h);
bool http_stopping(const struct http *h); /* http_drain() was called */
bool http_idle(const struct http *h);
void http_free(struct http *h);

/* ---- a call ---- */

#define HTTP_FDS 40 /* descriptors of one wait: LIMIT_PARTS and a few */

#define HTTP_ENOUGH (32u << 10) /* bytes of http_call.out at which `fill` may stop, though there is more */

#define HTTP_MORE 16 /* headers that are added to one reply */

enum http_news { HTTP_READY, HTTP_GONE, HTTP_STOPPING, HTTP_QUIET, HTTP_LATER };

struct http_header_line {
    const char *name, *value; /* name NULL ends a list */
};

struct http_call {
    struct http *http;
    struct MHD_Connection *conn;
    struct http_keeper_slot *slot;
    void *app;                      /* http_config.app */
    const struct http_route *route; /* NULL: `refusal` says why */
    const char *path;               /* of the request, without the query */
    const char *path_rest;          /* what follows a route path that ends in '/', else "" */
    struct buf body;                /* the handler may release it early */
    char target_host[LIMIT_HOST + 8]; /* of an address with a host in it, port included; "" = it has none */
    bool closes;                    /* the connection ends with the reply */
    size_t body_held;               /* bytes counted against LIMIT_BODIES, */
    size_t held;                    /* and those of http_hold() */
    uint64_t drained;               /* bytes read and thrown away */
    int refusal;                    /* HTTP status decided before the body ended, 0 = none */
    struct err refusal_err;
    const char *allow;              /* for 405 and OPTIONS */
    enum MHD_Result replied;        /* MHD_YES once a reply is queued */
    bool http_1_1;                  /* what the request is, or a later 1.x, which counts as that */
    bool complete;                  /* all of the request has come */
    const char *failure;            /* why a stream ended early, for the log; NULL = it did not */
    int status;                     /* of the reply, once it is queued */
    uint64_t arrived;               /* clock_ns() when the request was complete */
    char id[40];                    /* of the reply; goes into Request-Id when not empty, */
    const char *request_id;         /* and into X-Request-Id unless this does */
    struct http_header_line more[HTTP_MORE]; /* of the reply; what they point to lives until it is queued */
    size_t more_n;
    void *note;                     /* the app's, from admit to over */

    /* the handler's */
    void *data;
    void (*release)(struct http_call *call);

    /* a stream's */
    struct buf out; /* what is to be sent; empty once all of it was */
    size_t out_at;  /* how much of it was */
    bool (*fill)(struct http_call *call, bool *end);
    bool ended;
    int quiet_ms; /* a wait of so long ends with HTTP_QUIET; 0 = none does */

    /* a stream's that streams.h may send */
    bool shared;      /* it is such a one */
    bool handed_over; /* `fill` has to see to it that all its news rings http_config.news_fd, and may not wait */
    bool overdue;     /* the next wait is over at once: it has been quiet for quiet_ms */
    struct buf rest;  /* of a chunk of which some was sent */
};

/* Waits until one of fds[n] is readable, the client is gone, http_free() was called, or call->quiet_ms are over.
 * n <= HTTP_FDS. HTTP_LATER, at once: the call is handed over, nobody may wait, and `fill`, which asked, will be called
 * again. */
enum http_news http_wait(struct http_call *call, const int *fds, size_t n);

/* Queues a whole JSON reply; retry_after > 0 becomes a header. */
void http_reply(struct http_call *call, int status, const struct buf *body, int retry_after);

/* The same with another Content-Type. */
void http_reply_as(struct http_call *call, int status, const struct buf *body, const char *type);

/* What lives as long as the program. A client that has it already, by its entity tag, gets 304 and no body. */
struct http_file {
    const void *data;
    size_t n;
    const char *type, *etag; /* the tag with its quotes */
};
void http_reply_file(struct http_call *call, const struct http_file *f, const struct http_header_line *headers);

/* A header of the request, or NULL. */
const char *http_header(const struct http_call *call, const char *name);

/* Whom the request is for, "name" or "name:port": its address says it before the header Host does. NULL = nobody says. */
const char *http_host(const struct http_call *call);

/* One more header of the reply; beyond HTTP_MORE it is a bug. */
void http_add_header(struct http_call *call, const char *name, const char *value);

/* The client's address, or "unix". */
void http_peer(const struct http_call *call, char *to, size_t cap);

/* A parameter of the address behind its '?', or NULL; "" where it has no value. */
const char *http_query(const struct http_call *call, const char *name);

/* Queues a reply of that Content-Type which comes bit by bit: first what is in call->out, then what `fill` appends to
 * it whenever it is empty, until it sets *end. `fill` blocks in http_wait() until there is something, unless that says
 * HTTP_LATER; it may run on another thread than the handler (streams.h). False breaks the connection off. */
void http_stream(struct http_call *call, bool (*fill)(struct http_call *call, bool *end), const char *type);

/* Gives the body's memory back before the reply is there. */
void http_drop_body(struct http_call *call);

/* Counts n bytes that a handler keeps, of the body or made from it, against LIMIT_BODIES until the call ends; ST_BUSY: they
 * are too many, and count all the same. */
MUST_CHECK enum status http_hold(struct http_call *call, size_t n, struct err *e);

#endif
