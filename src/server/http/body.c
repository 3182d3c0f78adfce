/*
 * body: what arrives before a handler runs: the route, and the bytes of the request within their ceilings.
 *
 * A request that is refused early is still read to its end (up to LIMIT_DRAIN): closing a socket with unread bytes in it
 * resets the connection, and the client would see that instead of the refusal.
 */
#include <string.h>

#include "server/http/private.h"
#include "server/limits.h"

static bool path_matches(const struct http_route *r, const char *path)
{
    size_t n = strlen(r->path);
    if (r->path[n - 1] == '/' && n > 1)
        return strncmp(path, r->path, n) == 0 && path[n];
    return strcmp(path, r->path) == 0;
}

static bool method_matches(const struct http_route *r, const char *method)
{
    return strcmp(method, r->method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

void http_refuse(struct http_call *call, int status, enum status code, const char *text)
{
    call->refusal = status;
    (void)err_set(&call->refusal_err, code, "", "%s", text);
}

static bool same_path(const struct http_route *a, const struct http_route *b)
{
    return strcmp(a->path, b->path) == 0;
}

#define AND_OPTIONS ", OPTIONS"

/* What an address can be asked for, in the words of the header Allow; `first` is the first of its routes. */
static const char *methods_of(const struct http_route *first)
{
    bool get = false, del = false;
    for (const struct http_route *r = first; r->path; r++)
        if (same_path(r, first)) {
            get = get || strcmp(r->method, "GET") == 0;
            del = del || strcmp(r->method, "DELETE") == 0;
        }
    return get && del ? "GET, HEAD, DELETE" AND_OPTIONS : get ? "GET, HEAD" AND_OPTIONS : "POST" AND_OPTIONS;
}

static void refuse_method(struct http_call *call)
{
    const size_t n = strlen(call->allow) - strlen(AND_OPTIONS);
    http_refuse(call, MHD_HTTP_METHOD_NOT_ALLOWED, ST_ARGUMENT, "");
    (void)err_set(&call->refusal_err, ST_ARGUMENT, "", "this address takes %.*s only", (int)n, call->allow);
}

/* The first route whose path matches decides which address it is: /v1/responses/input_tokens is none of
 * /v1/responses/. */
void http_find_route(struct http_call *call, const char *method, const char *path)
{
    const struct http_route *r = call->http->cfg.routes, *first;
    call->path = path;
    call->path_rest = "";
    while (r->path && !path_matches(r, path))
        r++;
    if (!r->path) {
        http_refuse(call, MHD_HTTP_NOT_FOUND, ST_ARGUMENT, "there is nothing at this address");
        return;
    }
    call->allow = methods_of(r);
    for (first = r; r->path && !(same_path(r, first) && method_matches(r, method));)
        r++;
    if (strcmp(method, "OPTIONS") == 0) {
        http_refuse(call, MHD_HTTP_NO_CONTENT, ST_OK, "");
    } else if (!r->path) {
        refuse_method(call);
    } else {
        call->route = r;
        if (r->path[strlen(r->path) - 1] == '/')
            call->path_rest = path + strlen(r->path);
    }
}

static void refuse_length(struct http_call *call)
{
    http_refuse(call, MHD_HTTP_CONTENT_TOO_LARGE, ST_TOO_LONG, "");
    (void)err_set(&call->refusal_err, ST_TOO_LONG, "", "the body is longer than %u bytes", LIMIT_BODY);
}

/* The library has refused a length that is not a number; one too large for our type counts as the largest. */
static uint64_t announced_length(struct http_call *call)
{
    const char *s = MHD_lookup_connection_value(call->conn, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t n = 0;
    for (; s && *s >= '0' && *s <= '9'; s++) {
        if (n > (UINT64_MAX - 9) / 10)
            return UINT64_MAX;
        n = n * 10 + (uint64_t)(*s - '0');
    }
    return n;
}

void http_check_length(struct http_call *call)
{
    if (announced_length(call) > LIMIT_BODY)
        refuse_length(call);
}

bool http_refuse_at_once(struct http_call *call)
{
    if (!call->refusal || call->refusal == MHD_HTTP_NO_CONTENT)
        return false;
    /* A client that asks first has sent nothing yet; an absurd length is not worth reading; others may end anywhere. */
    return call->closes || announced_length(call) > LIMIT_DRAIN ||
           MHD_lookup_connection_value(call->conn, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) != NULL;
}

void http_drop_body(struct http_call *call)
{
    buf_release(&call->body);
    atomic_fetch_sub(&call->http->body_held, call->body_held);
    call->body_held = 0;
}

static enum status too_many(struct err *e)
{
    (void)err_set(e, ST_BUSY, "", "too many large requests are arriving at once");
    e->retry_after = 1;
    return e->code;
}

enum status http_hold(struct http_call *call, size_t n, struct err *e)
{
    call->held += n;
    return atomic_fetch_add(&call->http->body_held, n) + n <= LIMIT_BODIES ? ST_OK : too_many(e);
}

void http_end_hold(struct http_call *call)
{
    atomic_fetch_sub(&call->http->body_held, call->held);
    call->held = 0;
}

bool http_take_body(struct http_call *call, const char *data, size_t n)
{
    struct http *h = call->http;
    if (!call->refusal && n > LIMIT_BODY - call->body.len) {
        refuse_length(call);
    } else if (!call->refusal) {
        call->body_held += n;
        size_t held = atomic_fetch_add(&h->body_held, n);
        if (held + n <= LIMIT_BODIES && buf_add(&call->body, data, n))
            return true;
        call->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
        (void)too_many(&call->refusal_err);
    }
    http_drop_body(call);
    call->drained += n;
    return call->drained <= LIMIT_DRAIN;
}
