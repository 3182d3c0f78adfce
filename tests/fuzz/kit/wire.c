/* wire: see wire.h. Names and types that begin with MHD_ are the library's, and mean what its manual says. */
#include "fuzz/kit/wire.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 8192 /* of a streamed reply, as the server asks for */
#define REPLY_MOST (256u << 20)

static struct {
    int socket;
    MHD_AccessHandlerCallback request;
    MHD_RequestCompletedCallback completed;
    size_t (*unescape)(void *cls, struct MHD_Connection *c, char *s);
    void *request_cls, *completed_cls, *unescape_cls;
} daemon_;

struct MHD_Connection {
    const struct wire_request *rq;
    char *path; /* decoded */
    struct wire_pair header[WIRE_HEADERS]; /* rq's, [rq->headers], each value in one block behind its name */
    struct MHD_Response *reply; /* the one that is queued */
    int status;
    union MHD_ConnectionInfo gone; /* a socket whose other end is closed */
};

struct MHD_Response {
    unsigned refs;
    char type[64];
    char *bytes; /* [n], a copy */
    size_t n;
    MHD_ContentReaderCallback read; /* or what gives the bytes */
    void *read_cls;
};

/* ---- the daemon ---- */

static void take_options(va_list more)
{
    for (enum MHD_OPTION o; (o = va_arg(more, enum MHD_OPTION)) != MHD_OPTION_END;) {
        switch (o) {
        case MHD_OPTION_LISTEN_SOCKET:
            daemon_.socket = va_arg(more, int);
            break;
        case MHD_OPTION_CONNECTION_LIMIT:
        case MHD_OPTION_CONNECTION_TIMEOUT:
            (void)va_arg(more, unsigned);
            break;
        case MHD_OPTION_CONNECTION_MEMORY_LIMIT:
        case MHD_OPTION_THREAD_STACK_SIZE:
            (void)va_arg(more, size_t);
            break;
        case MHD_OPTION_NOTIFY_COMPLETED:
            daemon_.completed = va_arg(more, MHD_RequestCompletedCallback);
            daemon_.completed_cls = va_arg(more, void *);
            break;
        case MHD_OPTION_UNESCAPE_CALLBACK:
            daemon_.unescape = va_arg(more, size_t (*)(void *, struct MHD_Connection *, char *));
            daemon_.unescape_cls = va_arg(more, void *);
            break;
        case MHD_OPTION_NOTIFY_CONNECTION:
            (void)va_arg(more, MHD_NotifyConnectionCallback);
            (void)va_arg(more, void *);
            break;
        case MHD_OPTION_ARRAY:
            (void)va_arg(more, struct MHD_OptionItem *);
            break;
        default:
            FUZZ_CHECK(false, "an option that is not known here: %d", (int)o);
        }
    }
}

struct MHD_Daemon *MHD_start_daemon(unsigned int flags, uint16_t port, MHD_AcceptPolicyCallback apc, void *apc_cls,
                                    MHD_AccessHandlerCallback dh, void *dh_cls, ...)
{
    va_list more;
    (void)flags;
    (void)port;
    (void)apc;
    (void)apc_cls;
    daemon_.request = dh;
    daemon_.request_cls = dh_cls;
    va_start(more, dh_cls);
    take_options(more);
    va_end(more);
    return (struct MHD_Daemon *)(void *)&daemon_;
}

MHD_socket MHD_quiesce_daemon(struct MHD_Daemon *d)
{
    (void)d;
    return daemon_.socket;
}

void MHD_stop_daemon(struct MHD_Daemon *d)
{
    (void)d;
}

enum MHD_Result MHD_is_feature_supported(enum MHD_FEATURE feature)
{
    (void)feature;
    return MHD_NO;
}

/* ---- a connection ---- */

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *c, enum MHD_ConnectionInfoType what, ...)
{
    return what == MHD_CONNECTION_INFO_CONNECTION_FD ? &c->gone : NULL;
}

enum MHD_Result MHD_set_connection_option(struct MHD_Connection *c, enum MHD_CONNECTION_OPTION option, ...)
{
    (void)c;
    (void)option;
    return MHD_YES;
}

static const char *find(const struct wire_pair *pairs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    return NULL;
}

const char *MHD_lookup_connection_value(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *name)
{
    FUZZ_CHECK(kind == MHD_HEADER_KIND, "%d", (int)kind);
    return find(c->rq->header, c->rq->headers, name);
}

static void copy_headers(struct MHD_Connection *c)
{
    for (size_t i = 0; i < c->rq->headers; i++) {
        const struct wire_pair *from = &c->rq->header[i];
        const size_t n = strlen(from->name) + 1, value_n = strlen(from->value) + 1;
        char *to = malloc(n + value_n);
        FUZZ_CHECK(to, "no memory");
        memcpy(to, from->name, n);
        memcpy(to + n, from->value, value_n);
        c->header[i] = (struct wire_pair){to, to + n};
    }
}

/* A request that names no host gets one: what is asked of it would not be reached otherwise. */
int MHD_get_connection_values_n(struct MHD_Connection *c, enum MHD_ValueKind kind, MHD_KeyValueIteratorN each, void *cls)
{
    static const char host[] = MHD_HTTP_HEADER_HOST "\0localhost";
    const size_t n = strlen(host);
    FUZZ_CHECK(kind == MHD_HEADER_KIND, "%d", (int)kind);
    for (size_t i = 0; i < c->rq->headers; i++) {
        const struct wire_pair *p = &c->header[i];
        each(cls, kind, p->name, strlen(p->name), p->value, strlen(p->value));
    }
    if (!find(c->rq->header, c->rq->headers, MHD_HTTP_HEADER_HOST))
        each(cls, kind, host, n, host + n + 1, sizeof host - n - 2);
    return (int)c->rq->headers;
}

enum MHD_Result MHD_lookup_connection_value_n(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *name,
                                              size_t name_n, const char **value, size_t *n)
{
    FUZZ_CHECK(kind == MHD_GET_ARGUMENT_KIND && strlen(name) == name_n, "%d", (int)kind);
    *value = find(c->rq->query, c->rq->queries, name);
    *n = *value ? strlen(*value) : 0;
    return *value ? MHD_YES : MHD_NO;
}

/* ---- replies ---- */

static struct MHD_Response *new_response(void)
{
    struct MHD_Response *r = calloc(1, sizeof *r);
    FUZZ_CHECK(r, "no memory");
    r->refs = 1;
    return r;
}

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *buffer, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *r = new_response();
    FUZZ_CHECK(mode != MHD_RESPMEM_MUST_FREE, "the buffer is freed");
    r->bytes = fuzz_copy(buffer, size);
    r->n = size;
    return r;
}

struct MHD_Response *MHD_create_response_from_callback(uint64_t size, size_t block, MHD_ContentReaderCallback read,
                                                       void *cls, MHD_ContentReaderFreeCallback done)
{
    struct MHD_Response *r = new_response();
    FUZZ_CHECK(size == MHD_SIZE_UNKNOWN && block == PIECE && !done, "another kind of stream");
    r->read = read;
    r->read_cls = cls;
    return r;
}

/* The library refuses line breaks; a value that has one is never sent. */
enum MHD_Result MHD_add_response_header(struct MHD_Response *r, const char *name, const char *value)
{
    if (strpbrk(name, " \t\r\n") || strpbrk(value, "\r\n") || !*value)
        return MHD_NO;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_TYPE) == 0)
        snprintf(r->type, sizeof r->type, "%s", value);
    return MHD_YES;
}

void MHD_destroy_response(struct MHD_Response *r)
{
    if (--r->refs)
        return;
    free(r->bytes);
    free(r);
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *c, unsigned int status, struct MHD_Response *r)
{
    FUZZ_CHECK(!c->reply && status >= 200 && status < 600, "a second reply, or status %u", status);
    c->status = (int)status;
    c->reply = r;
    r->refs++;
    return MHD_YES;
}

/* ---- a request ---- */

static void read_stream(struct MHD_Response *r, size_t piece, struct wire_reply *out)
{
    char bytes[PIECE];
    size_t most = piece && piece < PIECE ? piece : PIECE;
    for (;;) {
        ssize_t n = r->read(r->read_cls, out->body.len, bytes, most);
        if (n == MHD_CONTENT_READER_END_OF_STREAM || n == MHD_CONTENT_READER_END_WITH_ERROR) {
            out->broken = n == MHD_CONTENT_READER_END_WITH_ERROR;
            return;
        }
        FUZZ_CHECK(n > 0 && (size_t)n <= most, "a piece of %zd bytes", n);
        FUZZ_CHECK(buf_add(&out->body, bytes, (size_t)n), "the reply is too long");
    }
}

static void take_reply(struct MHD_Connection *c, struct wire_reply *out)
{
    struct MHD_Response *r = c->reply;
    out->status = c->status;
    out->streamed = r->read != NULL;
    memcpy(out->type, r->type, sizeof out->type);
    if (r->read)
        read_stream(r, c->rq->piece, out);
    else
        buf_add(&out->body, r->bytes, r->n);
}

/* One call of the handler; false: the connection is to be closed. */
static bool call(struct MHD_Connection *c, const char *data, size_t n, void **con_cls)
{
    char *copy = n ? fuzz_copy(data, n) : NULL;
    size_t left = n;
    enum MHD_Result ok =
        daemon_.request(daemon_.request_cls, c, c->path, c->rq->method, "HTTP/1.1", copy, &left, con_cls);
    free(copy);
    FUZZ_CHECK(!ok || !left, "%zu bytes of the body were not taken", left);
    return ok == MHD_YES;
}

void wire_ask(const struct wire_request *rq, struct wire_reply *out)
{
    int pair[2];
    void *con_cls = NULL;
    struct MHD_Connection c = {.rq = rq, .path = fuzz_copy(rq->path, strlen(rq->path) + 1)};
    *out = (struct wire_reply){0};
    buf_init(&out->body, REPLY_MOST);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no sockets");
    close(pair[1]);
    c.gone.connect_fd = pair[0];
    (void)daemon_.unescape(daemon_.unescape_cls, &c, c.path);
    copy_headers(&c);
    bool ok = call(&c, NULL, 0, &con_cls);
    for (size_t at = 0, n; ok && !c.reply && at < rq->n; at += n) {
        n = rq->piece && rq->piece < rq->n - at ? rq->piece : rq->n - at;
        ok = call(&c, rq->body + at, n, &con_cls);
    }
    if (ok && !c.reply)
        ok = call(&c, NULL, 0, &con_cls);
    if (ok && c.reply)
        take_reply(&c, out);
    enum MHD_RequestTerminationCode how =
        out->status && !out->broken ? MHD_REQUEST_TERMINATED_COMPLETED_OK : MHD_REQUEST_TERMINATED_WITH_ERROR;
    daemon_.completed(daemon_.completed_cls, &c, &con_cls, how);
    if (c.reply)
        MHD_destroy_response(c.reply);
    for (size_t i = 0; i < rq->headers; i++)
        free((char *)c.header[i].name);
    free(c.path);
    close(pair[0]);
}

void wire_release(struct wire_reply *r)
{
    buf_release(&r->body);
}
