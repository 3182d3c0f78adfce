/*
 * gate: who may come in, decided from a request's head: the name it is for, the page it comes from, the key it brings.
 *
 * Without keys the address is all that protects a server, and browsers carry other people's pages to it. So it answers
 * only to names that nobody else can point at it (addresses, localhost, names the operator gave), which stops DNS
 * rebinding, and not to pages of other origins, which stops forms and scripts that need no reading of the reply. With
 * keys both are moot, since a page has none; names are then checked only where some were given.
 */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "server/http/http.h"
#include "server/keys.h"
#include "server/server.h"

struct server_gate {
    struct server_keys *keys;        /* owned; NULL = none are needed */
    char host[LIMIT_HOST + 1];       /* what the server was told to listen on */
    const char *const *hosts;        /* more names; "*" = any */
    size_t hosts_n;
    const char *const *origins;      /* pages that may use it; "*" = all */
    size_t origins_n;
    bool unix_socket;                /* no browser comes that way; set by who listens */
};

MUST_CHECK enum status server_gate_init(struct server_gate *g, const struct server_config *cfg, struct err *e);
void server_gate_release(struct server_gate *g);

/* The key in "Authorization: Bearer KEY", or that header as it is, or X-Api-Key; "" without one. */
const char *server_key_of(const struct http_call *call);

/* http_watch.admit, .over. */
bool server_admit(struct http_call *call, const char *method, const char *path);
void server_over(struct http_call *call, const char *how);

#endif
