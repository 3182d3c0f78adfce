/* What the files of server share and nobody else sees. */
#ifndef SERVER_PRIVATE_H
#define SERVER_PRIVATE_H

#include <pthread.h>
#include <sys/stat.h>

#include "format/format.h"
#include "server/gate.h"
#include "server/http/http.h"
#include "server/limits.h"
#include "server/replay_store.h"
#include "server/request_log.h"
#include "server/response_store.h"
#include "server/server.h"

struct server {
    struct http *http;
    struct server_gate gate;
    struct server_request_log *log; /* owned; NULL = none */
    struct engine *engine;
    const struct tok *tok;
    const struct chat *chat; /* NULL = none */
    struct server_replay *replay; /* owned; NULL = none */
    struct server_responses *responses; /* owned; NULL = none */
    struct grammar_cache *grammars; /* owned */
    pthread_t warmer;       /* compiles a first grammar; */
    bool warms;             /* it was started */
    struct chat_tools_cache *tools; /* owned; NULL = no chat */
    struct chat_template *rerank; /* owned; NULL = there is none, or none that can be used */
    const struct format *format; /* in which the model writes calls, whatever its template says; NULL = as that says */
    enum fill_mode fill;     /* of requests that name none */
    char *model;             /* owned */
    const struct server_facts *facts; /* NULL = nothing is known */
    const char *version, *isa;
    bool strict_model, cache_per_key, no_web, tls;
    uint32_t deadline_s;     /* 0 = none */
    uint32_t quiet_s;        /* 0 = streams may be silent for ever */
    size_t prompt_bytes; /* a longer text cannot fit the context; encoding it to find out would take seconds. 0: unknown */
    uint8_t *ends, *protect, *breakers; /* bitmaps of ids: that end a reply, those and newlines, with usual breakers */
    uint16_t port;          /* 0 = a UNIX socket */
    char *unix_path;        /* owned; the socket's file, which is ours to remove; NULL = none. It is the one that */
    struct stat unix_file;  /* was made here: another server may have put its own there since */
    int64_t started; /* unix time */
    char url[300];
};

extern const struct http_route server_routes[];

/* Opens, or takes over, the socket that cfg names, and says in s where that is (address.c). */
MUST_CHECK enum status server_listen(struct server *s, const struct server_config *cfg, int *fd, struct err *e);

/* Replies to what http refuses before there is a handler. */
void server_refuse(struct http_call *call, int status, const struct err *e);

/* GET / and /web/ (web.c). */
http_handler server_web;

/* GET /openapi.json (description.c). */
http_handler server_description;

/* GET /metrics and /v1/ffwd/rows. */
http_handler server_metrics, server_rows;

/* The namespace of a request's cached prefixes and kept replies: the salt it names (at most LIMIT_SALT bytes), and with
 * cache_per_key the key it came with. `to` has room for LIMIT_SALT bytes; returns how many were written. */
size_t server_salt(const struct http_call *call, struct server_name asked, char *to);

/* Who may find what a request leaves behind: SERVER_OWNER bytes of key and salt, whatever cache_per_key says. */
#define SERVER_OWNER 32u
size_t server_owner(const struct http_call *call, struct server_name asked, char *to);

/* A random number below 2^bits, bits <= 64, from the system. */
uint64_t server_random(unsigned bits);

/* Makes up an id of 24 hexadecimal digits behind the prefix. */
void server_write_id(char *to, size_t cap, const char *prefix);

/* The server's bitmaps (sets.c). Release also after a failure. */
MUST_CHECK enum status server_sets_init(struct server *s, struct err *e);
void server_sets_release(struct server *s);

#endif
