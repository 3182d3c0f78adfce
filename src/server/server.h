/*
 * server: the HTTP side of ffwd.
 *
 * One server serves one engine and one model. Each connection has a thread, which parses, renders, encodes, submits and
 * then waits on the request's events and on the client's socket at once, so a client that goes away is noticed whether
 * its request runs or still waits. The engine never waits for a connection.
 *
 * `http/` knows sockets, bodies and JSON; `dialect/` knows what a protocol's fields mean and how its replies look;
 * `reply.c` joins a parsed request to the engine. Only this folder knows HTTP statuses.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "text/text.h"

struct server;

/* What clients may be told of the model's file. */
struct server_facts {
    const char *architecture;  /* as the file names it: "llama" */
    const char *weights;       /* the type that most of them have: "Q4_1" */
    const char *chat_template; /* [chat_template_n] its source, or NULL */
    size_t chat_template_n;
    const char *rerank_template; /* [rerank_template_n] or NULL; see rerank.h */
    size_t rerank_template_n;
    bool mute, matryoshka;     /* it makes vectors and has no replies; vectors may be shortened */
    const char *path;
    uint64_t parameters, bytes;
    int64_t modified; /* unix time */
    uint32_t layers, width, ffn, heads, kv_heads, vocab;
    uint32_t context; /* positions it was trained for */
};

/* Lists, names of files, engine, tok, chat and facts outlive the server; other strings are copied. */
struct server_config {
    bool silent;            /* it does not listen: server_ask() is all it is for, and `engine` may be NULL */
    const char *host;       /* address or name to listen on; NULL = 127.0.0.1 */
    uint16_t port;          /* 0 = any free one */
    const char *unix_path;  /* instead of both: a UNIX socket of this name, */
    uint32_t unix_mode;     /* its permissions, as for chmod() */
    int inherited;          /* instead of all three: a socket that listens already, taken over; 0 = none */
    const char *key_file;   /* API keys (keys.h), of which every request needs one; NULL = none is needed, */
    bool without_keys;      /* even where other machines can reach the server */
    const char *const *hosts; /* more names that requests may be for (gate.h); "*" = any */
    size_t hosts_n;
    const char *const *origins; /* web pages that may use it: "https://example.com"; "*" = all */
    size_t origins_n;
    const char *tls_cert, *tls_key; /* HTTPS with these, PEM files (http/tls.h); NULL = HTTP */
    const char *request_log; /* a file for a line of JSON for each request (request_log.h); NULL = none */
    bool log_content;        /* with what was said */
    struct engine *engine;
    const struct tok *tok;
    const struct chat *chat; /* NULL = chat requests are refused as unsupported */
    const char *model;      /* the name shown to clients */
    const struct server_facts *facts; /* NULL = nothing is known */
    bool strict_model;      /* a request that names another model is a 404 */
    bool no_web;            /* there is no page at / */
    bool cache_per_key;     /* requests with different Authorization headers never share a prefix */
    bool no_replay;         /* ids of replies are not kept: later turns are encoded as any text */
    uint32_t deadline_s;    /* seconds any request may take, its own deadline can only be shorter; 0 = no limit */
    uint32_t quiet_s;       /* a stream without news says after so many seconds that it is there; 0 = it does not */
    const char *tool_format; /* the name of a format of calls instead of what the template tells; NULL = none */
    bool warm_grammars;     /* prepare for constrained replies at once, so that the first does not wait for that */
    enum fill_mode fill;     /* of requests that name none */
    const char *version, *isa; /* shown in the metrics; not copied; NULL = "" */
    uint32_t idle_s;        /* seconds a client may be silent where it should send or read; 0 = 30 */
    uint32_t request_s;     /* seconds for the head of a request, and again for its body; 0 = 60 and 120 */
};

/* Listens and returns. ST_IO in one sentence when the address is taken or cannot be had. SIGPIPE is ignored in the whole
 * process from here on. On failure *out is NULL. */
MUST_CHECK enum status server_start(struct server **out, const struct server_config *cfg, struct err *e);

/* Reads again what may change while serving, the API keys and the certificate, and opens the request log anew. What is
 * wrong is logged and stays as it was. One thread only. */
void server_reload(struct server *s);

/* ---- requests without a connection ---- */

/*
 * A request of /v1/chat/completions (if it has messages) or /v1/completions, body[n], as the server would give it to the
 * engine: prompt, sampling, stop strings, grammar, template rows, tools. Nothing is run. What the request wants wrongly
 * fails as it does over HTTP. `body` outlives *out, which is given back with server_asked_free().
 */
struct server_asked;
MUST_CHECK enum status server_ask(const struct server *s, const char *body, size_t n, struct server_asked **out,
                                  struct err *e);
const struct request *server_asked_request(const struct server_asked *a); /* lives as long as a */
const char *server_fill_name(enum fill_mode m);            /* "lossless", "off", "strict" */
const char *server_asked_relaxed(const struct server_asked *a); /* JSON array: keywords that are not enforced */
void server_asked_free(struct server_asked *a);                 /* NULL is fine */

/* ---- serving ---- */

/* The port it listens on, and "http://host:port"; 0 and "unix:/path" of a UNIX socket. */
uint16_t server_port(const struct server *s);
const char *server_url(const struct server *s);

/* From now on GET /health answers 503 with status "stopping", every new request is refused with 503, and those under way
 * or queued go on. Connections are still taken, so that the refusal is seen, but not from a socket that was inherited:
 * there they wait for the next server. Any thread, but not two at once. */
void server_drain(struct server *s);

/* No request is under way: all that came in is answered. */
bool server_idle(const struct server *s);

/* server_drain(), then up to grace_s seconds for the requests under way; those that are left end with an error (an event
 * of their stream, or a 503) within about a second, and s is freed. NULL is fine. Not from a signal handler. */
void server_stop(struct server *s, uint32_t grace_s);

#endif
