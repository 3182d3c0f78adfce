/* request_log: see request_log.h. */
#include "server/request_log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/http/json_out.h"
#include "server/note.h"
#include "server/private.h"

#define LOG_MODE 0640 /* names of keys, and perhaps what people said */
#define LINE_BYTES (16 * LIMIT_LOG_CONTENT) /* a byte takes at most six in JSON, of two contents */

struct server_request_log {
    struct log_file file;
    bool content;
    atomic_bool full; /* the last line was not written; said once */
};

enum status server_request_log_new(struct server_request_log **out, const char *path, bool content, struct err *e)
{
    *out = NULL;
    struct server_request_log *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ST_NO_MEMORY, "log-requests", "no memory for the request log");
    l->file.fd = -1;
    l->content = content;
    enum status st = log_file_open(&l->file, path, "log-requests", LOG_MODE, e);
    if (st == ST_OK)
        *out = l;
    else
        free(l);
    return st;
}

void server_request_log_free(struct server_request_log *l)
{
    if (!l)
        return;
    log_file_close(&l->file);
    free(l);
}

enum status server_request_log_reopen(struct server_request_log *l, struct err *e)
{
    return log_file_reopen(&l->file, LOG_MODE, e);
}

/* ---- what was said ---- */

static void keep(struct server_note *n, struct buf *to, const char *data, size_t len)
{
    size_t room = LIMIT_LOG_CONTENT - to->len;
    n->cut = n->cut || len > room;
    buf_add(to, data, len < room ? len : room);
}

void server_keep_body(struct http_call *call)
{
    const struct server *s = call->app;
    struct server_note *n = call->note;
    if (s->log && s->log->content && call->body.len)
        keep(n, &n->body, call->body.data, call->body.len);
}

void server_keep_reply(struct http_call *call, const char *data, size_t n)
{
    const struct server *s = call->app;
    struct server_note *note = call->note;
    if (s->log && s->log->content)
        keep(note, &note->reply, data, n);
}

/* ---- the line ---- */

/* In UTC, with milliseconds. */
static void add_time(struct buf *out)
{
    struct timespec now;
    struct tm tm;
    char text[40];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    buf_addf(out, "{\"time\":\"%s.%03ldZ\"", text, now.tv_nsec / 1000000);
}

static void add_text(struct buf *out, const char *key, const char *s)
{
    buf_addf(out, ",\"%s\":", key);
    http_json_cstr(out, s && s[0] ? s : NULL);
}

static void add_seconds(struct buf *out, const char *key, double s)
{
    buf_addf(out, ",\"%s\":", key);
    http_json_fixed(out, s);
}

static void add_request(struct buf *out, const struct http_call *call, const struct server_note *n)
{
    char peer[64];
    http_peer(call, peer, sizeof peer);
    add_text(out, "trace_id", n->trace);
    add_text(out, "span_id", n->span);
    add_text(out, "parent_id", n->parent);
    add_text(out, "request_id", call->id);
    add_text(out, "client_request_id", n->request_id);
    add_text(out, "peer", peer);
    add_text(out, "key", n->key_name);
    add_text(out, "method", n->method);
    add_text(out, "path", n->path);
}

static void add_outcome(struct buf *out, const struct http_call *call, const struct server_note *n, const char *how)
{
    buf_addf(out, ",\"status\":%d,\"stream\":%s", call->status, call->fill ? "true" : "false");
    add_seconds(out, "seconds", (double)(clock_ns() - n->began) * 1e-9);
    add_seconds(out, "queue_seconds", n->queue_s);
    add_seconds(out, "prefill_seconds", n->prefill_s);
    add_seconds(out, "decode_seconds", n->decode_s);
    buf_addf(out, ",\"prompt_tokens\":%llu,\"cached_tokens\":%llu,\"completion_tokens\":%llu",
             (unsigned long long)n->prompt, (unsigned long long)n->cached, (unsigned long long)n->completion);
    add_text(out, "finish", n->finish);
    add_text(out, "failure", how);
}

static void add_content(struct buf *out, const struct server_note *n)
{
    buf_adds(out, ",\"request\":");
    http_json_str(out, n->body.data ? n->body.data : "", n->body.len);
    buf_adds(out, ",\"reply\":");
    http_json_str(out, n->reply.data ? n->reply.data : "", n->reply.len);
    buf_addf(out, ",\"cut\":%s", n->cut ? "true" : "false");
}

void server_request_log_write(struct server_request_log *l, const struct http_call *call, const char *how)
{
    const struct server_note *n = call->note;
    struct buf line;
    if (!l || !n)
        return;
    buf_init(&line, LINE_BYTES);
    add_time(&line);
    add_request(&line, call, n);
    add_outcome(&line, call, n, how);
    if (l->content)
        add_content(&line, n);
    buf_adds(&line, "}\n");
    const bool ok = !line.failed && log_file_write(&l->file, line.data, line.len);
    if (!ok && !atomic_exchange(&l->full, true))
        log_line(LOG_ERROR, "a line of the request log could not be written");
    else if (ok)
        atomic_store(&l->full, false);
    buf_release(&line);
}
