/* gate: see gate.h. */
#include "server/gate.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/note.h"
#include "server/private.h"

enum status server_gate_init(struct server_gate *g, const struct server_config *cfg, struct err *e)
{
    *g = (struct server_gate){.hosts = cfg->hosts, .hosts_n = cfg->hosts_n, .origins = cfg->origins,
                              .origins_n = cfg->origins_n};
    snprintf(g->host, sizeof g->host, "%s", cfg->host ? cfg->host : "");
    return cfg->key_file ? server_keys_new(&g->keys, cfg->key_file, e) : ST_OK;
}

void server_gate_release(struct server_gate *g)
{
    server_keys_free(g->keys);
    g->keys = NULL;
}

static void refuse(struct http_call *call, int status, const struct err *e)
{
    call->refusal = status;
    call->refusal_err = *e;
}

/* ---- the name it is for ---- */

/* The name in a Host header, without port, brackets and the last dot. False: it is none. */
static bool take_name(const char *host, char *name, bool *bracketed)
{
    *bracketed = host[0] == '[';
    host += *bracketed;
    size_t n = strcspn(host, *bracketed ? "]" : ":");
    if (*bracketed && host[n] != ']')
        return false;
    const char *port = host + n + *bracketed;
    if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")]))
        return false;
    n -= n && !*bracketed && host[n - 1] == '.';
    if (!n || n > LIMIT_HOST)
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    return true;
}

static bool is_address(const char *name, bool bracketed)
{
    struct in6_addr a;
    return inet_pton(bracketed ? AF_INET6 : AF_INET, name, &a) == 1;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcasecmp(s + n - m, end) == 0;
}

static bool in_list(const char *const *list, size_t n, const char *s)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], "*") == 0 || strcasecmp(list[i], s) == 0)
            return true;
    return false;
}

/* A request without a Host header is of HTTP/1.0, which no browser speaks. */
static bool check_host(struct http_call *call, const struct server_gate *g)
{
    const char *host = http_header(call, MHD_HTTP_HEADER_HOST);
    char name[LIMIT_HOST + 1];
    bool bracketed;
    struct err e;
    if (!host || g->unix_socket || (g->keys && !g->hosts_n))
        return true;
    if (!take_name(host, name, &bracketed)) {
        (void)err_set(&e, ST_ARGUMENT, "", "the Host header holds no name");
        refuse(call, MHD_HTTP_BAD_REQUEST, &e);
        return false;
    }
    if (is_address(name, bracketed) || strcasecmp(name, "localhost") == 0 || ends_with(name, ".localhost") ||
        strcasecmp(name, g->host) == 0 || in_list(g->hosts, g->hosts_n, name))
        return true;
    (void)err_set(&e, ST_ARGUMENT, "", "this server does not answer to the name '%.100s'; --allow-host adds one", name);
    refuse(call, MHD_HTTP_FORBIDDEN, &e);
    return false;
}

/* ---- the page it comes from ---- */

/* Whether the origin is a web page of another server. Other schemes are those of programs on the user's own machine. */
static bool is_foreign(const char *origin, const char *host)
{
    const char *at;
    if (strncasecmp(origin, "http://", 7) == 0)
        at = origin + 7;
    else if (strncasecmp(origin, "https://", 8) == 0)
        at = origin + 8;
    else
        return strcasecmp(origin, "null") == 0;
    return !host || strcasecmp(at, host) != 0;
}

/* What the browser needs to hear to let the page read the reply, or to send the request at all. */
static void allow_origin(struct http_call *call, const struct server_gate *g, const char *origin)
{
    const bool all = in_list(g->origins, g->origins_n, "*");
    const char *headers = http_header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);
    http_add_header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, all ? "*" : origin);
    if (call->refusal != MHD_HTTP_NO_CONTENT) {
        http_add_header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
                        "X-Request-Id, Request-Id, Retry-After, x-ratelimit-limit-requests, "
                        "x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, "
                        "x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens");
        return;
    }
    http_add_header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, call->allow);
    http_add_header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
    if (headers)
        http_add_header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, headers);
}

static bool check_origin(struct http_call *call, const struct server_gate *g)
{
    const char *origin = http_header(call, MHD_HTTP_HEADER_ORIGIN);
    struct err e;
    if (g->origins_n)
        http_add_header(call, MHD_HTTP_HEADER_VARY, "Origin");
    if (!origin)
        return true;
    if (in_list(g->origins, g->origins_n, origin)) {
        allow_origin(call, g, origin);
        return true;
    }
    if (g->keys || !is_foreign(origin, http_header(call, MHD_HTTP_HEADER_HOST)))
        return true;
    (void)err_set(&e, ST_ARGUMENT, "", "pages of '%.100s' may not use this server; --cors adds an origin", origin);
    refuse(call, MHD_HTTP_FORBIDDEN, &e);
    return false;
}

/* ---- the key it brings ---- */

const char *server_key_of(const struct http_call *call)
{
    const char *s = http_header(call, "Authorization"), *other = http_header(call, "X-Api-Key");
    if (!s)
        return other ? other : "";
    if (strncasecmp(s, "bearer ", 7) == 0)
        s += 7;
    while (*s == ' ')
        s++;
    return s;
}

/* Under the names that OpenAI's API has for it. */
static void tell_limits(struct http_call *call, const struct server_gate *g, struct server_note *n)
{
    static const char *const names[2][3] = {
        {"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
        {"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
    };
    const struct server_key_left left = server_keys_left(g->keys, n->key);
    const struct server_key_limit *limits[2] = {&left.requests, &left.tokens};
    char (*to)[sizeof n->limits[0]] = n->limits;
    for (size_t i = 0; i < 2; i++) {
        if (!limits[i]->limit)
            continue;
        snprintf(to[0], sizeof to[0], "%u", limits[i]->limit);
        snprintf(to[1], sizeof to[1], "%u", limits[i]->left);
        snprintf(to[2], sizeof to[2], "%us", limits[i]->seconds);
        for (size_t k = 0; k < 3; k++)
            http_add_header(call, names[i][k], *to++);
    }
}

/* Limits are of POST alone, which everything that makes the engine work is. */
static void check_key(struct http_call *call, const struct server_gate *g, struct server_note *n)
{
    const char *key = server_key_of(call);
    struct err e;
    if (!g->keys || call->refusal == MHD_HTTP_NO_CONTENT || (call->route && call->route->flags & HTTP_OPEN))
        return;
    n->key = key[0] ? server_keys_find(g->keys, key, n->key_name) : NULL;
    if (!n->key) {
        (void)err_set(&e, ST_ARGUMENT, "", key[0] ? "this API key is not known here"
                                                  : "an API key is missing: send it as 'Authorization: Bearer KEY'");
        refuse(call, MHD_HTTP_UNAUTHORIZED, &e);
        http_add_header(call, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
        return;
    }
    if (call->refusal || strcmp(call->route->method, "POST") != 0)
        return;
    if (server_keys_enter(g->keys, n->key, &e) == ST_OK)
        n->entered = true;
    else
        refuse(call, MHD_HTTP_TOO_MANY_REQUESTS, &e);
    tell_limits(call, g, n);
}

/* ---- the watch ---- */

bool server_admit(struct http_call *call, const char *method, const char *path)
{
    const struct server *s = call->app;
    struct server_note *n = server_note_new(call, method, path);
    if (!n)
        return false;
    call->note = n;
    if (check_host(call, &s->gate) && check_origin(call, &s->gate))
        check_key(call, &s->gate, n);
    return true;
}

void server_over(struct http_call *call, const char *how)
{
    struct server *s = call->app;
    struct server_note *n = call->note;
    const bool watches = call->route && call->route->flags & HTTP_WHILE_STOPPING && call->status < 400;
    if (!n)
        return;
    if (!watches) /* what looks at the server all the time would be most of the log */
        server_request_log_write(s->log, call, how);
    if (n->key)
        server_keys_leave(s->gate.keys, n->key, n->entered, n->prompt + n->completion);
    server_note_free(n);
    call->note = NULL;
}
