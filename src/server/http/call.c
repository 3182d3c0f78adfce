/* call: waiting for news and replying. See http.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "server/http/private.h"

int http_socket(const struct http_call *call)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(call->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

enum http_news http_wait(struct http_call *call, const int *fds, size_t n)
{
    struct pollfd p[HTTP_FDS + 2];
    if (n > HTTP_FDS)
        BUG("a wait on %zu descriptors", n);
    if (call->handed_over)
        return HTTP_LATER;
    if (call->overdue) {
        call->overdue = false;
        return HTTP_QUIET;
    }
    p[0] = (struct pollfd){.fd = http_socket(call), .events = POLLRDHUP};
    p[1] = (struct pollfd){.fd = call->http->stop_fd, .events = POLLIN};
    for (size_t i = 0; i < n; i++)
        p[i + 2] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    int ready;
    while ((ready = poll(p, (nfds_t)n + 2, call->quiet_ms ? call->quiet_ms : -1)) < 0)
        if (errno != EINTR)
            return HTTP_GONE;
    if (!ready)
        return HTTP_QUIET;
    if (p[0].revents)
        return HTTP_GONE;
    return p[1].revents ? HTTP_STOPPING : HTTP_READY;
}

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
    (void)MHD_add_response_header(r, name, value);
}

void http_add_header(struct http_call *call, const char *name, const char *value)
{
    if (call->more_n == HTTP_MORE)
        BUG("no room for the header %s", name);
    call->more[call->more_n++] = (struct http_header_line){name, value};
}

void http_peer(const struct http_call *call, char *to, size_t cap)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(call->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;
    char text[INET6_ADDRSTRLEN] = "unix";
    if (a && a->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, text, sizeof text);
    else if (a && a->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, text, sizeof text);
    snprintf(to, cap, "%s", text);
}

/* Takes the response over. What goes into a header is ours, or was looked at: an id, the origin of a page. The library
 * refuses line breaks. */
static void queue(struct http_call *call, int status, struct MHD_Response *r, const char *type)
{
    if (!r)
        return;
    if (type)
        add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (call->request_id || call->id[0])
        add_header(r, "X-Request-Id", call->request_id ? call->request_id : call->id);
    if (call->id[0])
        add_header(r, "Request-Id", call->id); /* what Anthropic's clients read */
    for (size_t i = 0; i < call->more_n; i++)
        add_header(r, call->more[i].name, call->more[i].value);
    if (call->allow && (status == MHD_HTTP_METHOD_NOT_ALLOWED || status == MHD_HTTP_NO_CONTENT))
        add_header(r, MHD_HTTP_HEADER_ALLOW, call->allow);
    if (http_stopping(call->http) || call->closes)
        add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    call->status = status;
    call->replied = MHD_queue_response(call->conn, (unsigned)status, r);
    MHD_destroy_response(r);
}

const char *http_header(const struct http_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->conn, MHD_HEADER_KIND, name);
}

const char *http_query(const struct http_call *call, const char *name)
{
    const char *v = NULL;
    size_t n;
    if (MHD_lookup_connection_value_n(call->conn, MHD_GET_ARGUMENT_KIND, name, strlen(name), &v, &n) != MHD_YES)
        return NULL;
    return v ? v : "";
}

static void reply(struct http_call *call, int status, const struct buf *body, const char *type, int retry_after)
{
    bool empty = !body || !body->len;
    if (body && body->failed)
        return; /* no memory for it; the connection is closed without a reply */
    struct MHD_Response *r = MHD_create_response_from_buffer(empty ? 0 : body->len, empty ? (void *)"" : body->data,
                                                             empty ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY);
    if (r && retry_after > 0) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", retry_after);
        add_header(r, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (!empty && call->http->cfg.watch->sent)
        call->http->cfg.watch->sent(call, body->data, body->len);
    queue(call, status, r, empty ? NULL : type);
    /* All of it is there, so only the client can be slow now, and it holds the reply's memory. */
    http_keeper_deadline(call->http->keeper, call->slot, call->http->cfg.body_s);
}

void http_reply(struct http_call *call, int status, const struct buf *body, int retry_after)
{
    reply(call, status, body, "application/json", retry_after);
}

void http_reply_as(struct http_call *call, int status, const struct buf *body, const char *type)
{
    reply(call, status, body, type, 0);
}

/* Whether the client named the tag among those it has. Tags are compared whole: a quote ends each. */
static bool has_already(const struct http_call *call, const char *etag)
{
    const char *tags = http_header(call, MHD_HTTP_HEADER_IF_NONE_MATCH);
    return tags && strstr(tags, etag) != NULL;
}

void http_reply_file(struct http_call *call, const struct http_file *f, const struct http_header_line *headers)
{
    const bool known = has_already(call, f->etag);
    struct MHD_Response *r = MHD_create_response_from_buffer(known ? 0 : f->n, (void *)f->data, MHD_RESPMEM_PERSISTENT);
    for (; r && headers->name; headers++)
        add_header(r, headers->name, headers->value);
    if (r) {
        add_header(r, MHD_HTTP_HEADER_ETAG, f->etag);
        add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache"); /* that is: ask whether it is still the same */
    }
    queue(call, known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, r, known ? NULL : f->type);
    http_keeper_deadline(call->http->keeper, call->slot, call->http->cfg.body_s);
}

/* What the socket had no room for, of a chunk that the library knows nothing of. */
static bool send_rest(struct http_call *call)
{
    struct pollfd p = {.fd = http_socket(call), .events = POLLOUT};
    if (call->rest.failed) /* it could not be kept, and the client has the chunk's beginning */
        return false;
    for (size_t at = 0; at < call->rest.len;) {
        const int ready = poll(&p, 1, (int)call->http->cfg.idle_s * 1000);
        const ssize_t n = send(p.fd, call->rest.data + at, call->rest.len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (!ready || (errno != EAGAIN && errno != EINTR))) {
            if (!ready)
                call->failure = "the client did not read in time";
            return false;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    buf_clear(&call->rest);
    return true;
}

/* The library counts a wait in here as silence of the client, so its timeout is off meanwhile; switching it on again
 * starts it anew, for the sending of what was found. */
static bool wait_for_more(struct http_call *call)
{
    bool ok = true;
    (void)MHD_set_connection_option(call->conn, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    if (call->shared)
        ok = http_streams_serve(call->http->streams, call) && send_rest(call);
    while (ok && !call->out.len && !call->ended)
        ok = call->fill(call, &call->ended) && !call->out.failed;
    (void)MHD_set_connection_option(call->conn, MHD_CONNECTION_OPTION_TIMEOUT, call->http->cfg.idle_s);
    return ok;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t max)
{
    struct http_call *call = cls;
    (void)pos;
    if (!call->out.len && !call->ended && !wait_for_more(call))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!call->out.len)
        return MHD_CONTENT_READER_END_OF_STREAM;
    const size_t left = call->out.len - call->out_at, n = left < max ? left : max;
    memcpy(to, call->out.data + call->out_at, n);
    if (call->http->cfg.watch->sent)
        call->http->cfg.watch->sent(call, to, n);
    call->out_at += n;
    if (n == left) {
        buf_drop(&call->out, call->out_at);
        call->out_at = 0;
    }
    return (ssize_t)n;
}

/* Whether the library will send the stream in chunks, and through nothing but the socket. Older versions of it send
 * none where the connection is to be closed. */
static bool may_share(const struct http_call *call)
{
    const char *connection = http_header(call, MHD_HTTP_HEADER_CONNECTION);
    return call->http_1_1 && !call->http->cfg.tls_cert && !http_stopping(call->http) &&
           (!connection || strcasecmp(connection, "keep-alive") == 0);
}

void http_stream(struct http_call *call, bool (*fill)(struct http_call *call, bool *end), const char *type)
{
    call->fill = fill;
    call->shared = may_share(call);
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 8192, read_stream, call, NULL);
    if (r) {
        add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        add_header(r, "X-Accel-Buffering", "no"); /* nginx would collect the events otherwise */
    }
    queue(call, MHD_HTTP_OK, r, type);
}

