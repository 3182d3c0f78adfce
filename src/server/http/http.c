/* http: the library's daemon and the life of a call. See http.h. */
#include "server/http/http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/http/private.h"
#include "server/http/tls.h"
#include "server/limits.h"

#define LAST_WORD_NS 1000000000u /* how long http_free() waits for the last replies to be taken */

static enum MHD_Result begin_call(struct http *h, struct MHD_Connection *conn, const char *target, const char *method,
                                  const char *version, void **con_cls)
{
    struct http_call *call = calloc(1, sizeof *call);
    if (!call)
        return MHD_NO;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    call->http = h;
    call->conn = conn;
    call->app = h->cfg.app;
    call->slot = info ? info->socket_context : NULL;
    call->replied = MHD_NO;
    call->http_1_1 = strncmp(version, "HTTP/1.", 7) == 0 && version[7] > '0';
    buf_init(&call->body, LIMIT_BODY);
    buf_init(&call->out, LIMIT_REPLY);
    buf_init(&call->rest, HTTP_CHUNK);
    *con_cls = call;
    atomic_fetch_add(&h->under_way, 1);
    http_keeper_deadline(h->keeper, call->slot, h->cfg.body_s);
    const char *path = http_take_target(call, target);
    http_find_route(call, method, path);
    http_check_length(call);
    http_check_head(call);
    if (!h->cfg.watch->admit(call, method, path))
        return MHD_NO;
    if (!http_refuse_at_once(call))
        return MHD_YES;
    h->cfg.refuse(call, call->refusal, &call->refusal_err);
    return call->replied;
}

/* The request is complete. The client's silence is no fault from here to the reply, so the library's timeout is off. */
static enum MHD_Result finish_call(struct http_call *call)
{
    struct http *h = call->http;
    struct err e;
    http_keeper_deadline(h->keeper, call->slot, 0);
    (void)MHD_set_connection_option(call->conn, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    call->complete = true;
    call->arrived = clock_ns();
    if (h->cfg.watch->came)
        h->cfg.watch->came(call);
    if (http_stopping(h) && !(call->route && call->route->flags & HTTP_WHILE_STOPPING)) {
        (void)err_set(&e, ST_CANCELLED, "", "the server is stopping");
        h->cfg.refuse(call, MHD_HTTP_SERVICE_UNAVAILABLE, &e);
    } else if (call->refusal == MHD_HTTP_NO_CONTENT) {
        http_reply(call, call->refusal, NULL, 0);
    } else if (call->refusal) {
        h->cfg.refuse(call, call->refusal, &call->refusal_err);
    } else {
        call->route->handle(call);
    }
    (void)MHD_set_connection_option(call->conn, MHD_CONNECTION_OPTION_TIMEOUT, h->cfg.idle_s);
    return call->replied;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_n, void **con_cls)
{
    struct http_call *call = *con_cls;
    if (!call)
        return begin_call(cls, conn, url, method, version, con_cls);
    if (*upload_n) {
        bool ok = http_take_body(call, upload, *upload_n);
        *upload_n = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    return finish_call(call);
}

static const char *how_it_ended(const struct http_call *call, enum MHD_RequestTerminationCode why)
{
    if (call->failure)
        return call->failure;
    switch (why) {
    case MHD_REQUEST_TERMINATED_COMPLETED_OK:
        return "";
    case MHD_REQUEST_TERMINATED_TIMEOUT_REACHED:
        return "the client did not read in time";
    case MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN:
        return "the server stopped";
    case MHD_REQUEST_TERMINATED_WITH_ERROR:
        return call->status ? "the connection broke" : "no reply could be made, or the client left";
    default:
        return "the client left";
    }
}

/* One line for a request that is over. Nothing in it comes from the client. What watches the server has none. */
static void log_call(const struct http_call *call, enum MHD_RequestTerminationCode why)
{
    const struct http_route *r = call->route;
    if (!call->complete || (r && r->flags & HTTP_WHILE_STOPPING))
        return;
    const char *end = how_it_ended(call, why);
    log_line(LOG_INFO, "%s %s %d %s %.3f s%s%s", r ? r->method : "-", r ? r->path : "-", call->status,
             call->id[0] ? call->id : "-", (double)(clock_ns() - call->arrived) * 1e-9, *end ? ", " : "", end);
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **con_cls, enum MHD_RequestTerminationCode why)
{
    struct http *h = cls;
    struct http_call *call = *con_cls;
    (void)conn;
    if (!call)
        return;
    *con_cls = NULL;
    log_call(call, why);
    if (h->cfg.watch->over)
        h->cfg.watch->over(call, how_it_ended(call, why));
    if (call->release)
        call->release(call);
    http_drop_body(call);
    http_end_hold(call);
    buf_release(&call->out);
    buf_release(&call->rest);
    http_keeper_deadline(h->keeper, call->slot, h->cfg.head_s);
    atomic_fetch_sub(&h->under_way, 1);
    free(call);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http *h = cls;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        http_keeper_give(h->keeper, *socket_context);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_keeper_slot *slot = info ? http_keeper_take(h->keeper, info->connect_fd) : NULL;
    if (!slot && info)
        shutdown(info->connect_fd, SHUT_RDWR); /* nobody would watch it */
    http_keeper_deadline(h->keeper, slot, h->cfg.head_s);
    *socket_context = slot;
}

/* What HTTPS needs; what GnuTLS calls normal still has versions that are too old. */
static const struct MHD_OptionItem tls_options[] = {
    {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)http_tls_choose},
    {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"},
    {MHD_OPTION_END, 0, NULL},
};

static struct MHD_Daemon *start_daemon(struct http *h)
{
    static const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    const unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC;
    const bool tls = h->cfg.tls_cert != NULL;
    return MHD_start_daemon(flags | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, h,
                            MHD_OPTION_LISTEN_SOCKET, h->cfg.listen_fd,
                            MHD_OPTION_CONNECTION_LIMIT, LIMIT_CONNECTIONS,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->cfg.idle_s,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIMIT_CONNECTION_MEMORY,
                            MHD_OPTION_UNESCAPE_CALLBACK, http_unescape, h,
                            MHD_OPTION_THREAD_STACK_SIZE, (size_t)LIMIT_CONNECTION_STACK,
                            MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                            MHD_OPTION_ARRAY, tls ? tls_options : none, MHD_OPTION_END);
}

static enum status start(struct http *h, struct err *e)
{
    enum status st = http_keeper_new(&h->keeper, e);
    if (st == ST_OK)
        st = http_streams_new(&h->streams, h->stop_fd, h->cfg.news_fd, h->cfg.watch->sent, e);
    if (st == ST_OK && h->cfg.tls_cert)
        st = MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) == MHD_YES
                 ? http_tls_load(h->cfg.tls_cert, h->cfg.tls_key, e)
                 : err_set(e, ST_UNSUPPORTED, "tls-cert", "this system's libmicrohttpd was built without TLS");
    if (st != ST_OK)
        close(h->cfg.listen_fd);
    else if (!(h->daemon = start_daemon(h))) /* the library closes the socket even if it fails */
        st = err_set(e, ST_IO, "", "cannot start the threads of the HTTP server");
    return st;
}

/* Ends all waits, now and later. */
static void ring_stop(const struct http *h)
{
    const uint64_t one = 1;
    if (write(h->stop_fd, &one, sizeof one) != (ssize_t)sizeof one)
        log_line(LOG_ERROR, "cannot wake the connections that wait");
}

enum status http_new(struct http **out, const struct http_config *cfg, struct err *e)
{
    enum status st;
    *out = NULL;
    struct http *h = calloc(1, sizeof *h);
    if (!h) {
        close(cfg->listen_fd);
        return err_set(e, ST_NO_MEMORY, "", "no memory for the server");
    }
    h->cfg = *cfg;
    atomic_init(&h->stopping, false);
    atomic_init(&h->under_way, 0);
    atomic_init(&h->body_held, 0);
    h->quiet_fd = -1;
    h->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->stop_fd < 0) {
        st = err_errno(e, ST_IO, "", "cannot start the server");
        close(cfg->listen_fd);
        free(h);
        return st;
    }
    st = start(h, e);
    if (st != ST_OK) {
        ring_stop(h);
        http_streams_free(h->streams);
        http_tls_release();
        http_keeper_free(h->keeper);
        close(h->stop_fd);
        free(h);
        return st;
    }
    *out = h;
    return ST_OK;
}

static void take_no_more(struct http *h)
{
    if (h->quiet_fd < 0)
        h->quiet_fd = MHD_quiesce_daemon(h->daemon);
}

void http_drain(struct http *h)
{
    if (h->cfg.shared)
        take_no_more(h);
    atomic_store(&h->stopping, true);
}

bool http_stopping(const struct http *h)
{
    return atomic_load(&h->stopping);
}

bool http_idle(const struct http *h)
{
    return atomic_load(&h->under_way) == 0;
}

/* Ends all waits and gives their clients time for a last word. */
static void end_waits(struct http *h)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    const uint64_t until = clock_ns() + LAST_WORD_NS;
    ring_stop(h);
    while (!http_idle(h) && clock_ns() < until)
        nanosleep(&nap, NULL);
}

void http_free(struct http *h)
{
    if (!h)
        return;
    http_drain(h);
    end_waits(h);
    take_no_more(h);
    if (h->quiet_fd >= 0 && !h->cfg.shared)
        shutdown(h->quiet_fd, SHUT_RDWR); /* refuses them at once; closed when no thread can be looking at it any more */
    end_waits(h); /* whoever got in until then has had an answer */
    MHD_stop_daemon(h->daemon);
    if (h->quiet_fd >= 0)
        close(h->quiet_fd);
    http_streams_free(h->streams);
    http_tls_release();
    http_keeper_free(h->keeper);
    close(h->stop_fd);
    free(h);
}
