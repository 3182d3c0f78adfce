/* note: see note.h. */
#include "server/note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/private.h"

/* What goes into a header and a log again is short and of few characters; anything else counts as no id. */
static bool is_id(const char *s)
{
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
    size_t n = strspn(s, allowed);
    return n && n <= LIMIT_REQUEST_ID && !s[n];
}

/* Copies n lower-case hexadecimal digits that are not all 0, and returns what follows them; NULL: that is not there. */
static const char *take_hex(const char *s, size_t n, char *to)
{
    if (strspn(s, "0123456789abcdef") < n || strspn(s, "0") >= n)
        return NULL;
    memcpy(to, s, n);
    to[n] = '\0';
    return s + n;
}

/* "00-<32 digits>-<16 digits>-<2 digits>", as in https://www.w3.org/TR/trace-context/; later versions may go on. */
static bool take_trace(const char *s, struct server_note *n)
{
    const bool first = strncmp(s, "00-", 3) == 0;
    if (strspn(s, "0123456789abcdef") != 2 || s[2] != '-' || strncmp(s, "ff", 2) == 0)
        return false;
    s = take_hex(s + 3, NOTE_TRACE - 1, n->trace);
    s = s && *s == '-' ? take_hex(s + 1, NOTE_SPAN - 1, n->parent) : NULL;
    return s && *s == '-' && strspn(s + 1, "0123456789abcdef") == 2 && (!s[3] || (!first && s[3] == '-'));
}

static void name_trace(const struct http_call *call, struct server_note *n)
{
    const char *given = http_header(call, "traceparent");
    if (!given || !take_trace(given, n)) {
        n->parent[0] = '\0';
        snprintf(n->trace, sizeof n->trace, "%016llx%016llx", (unsigned long long)server_random(64) | 1,
                 (unsigned long long)server_random(64));
    }
    snprintf(n->span, sizeof n->span, "%016llx", (unsigned long long)server_random(64) | 1);
}

struct server_note *server_note_new(struct http_call *call, const char *method, const char *path)
{
    const struct server *s = call->app;
    struct server_note *n = calloc(1, sizeof *n);
    const char *id = http_header(call, "X-Request-Id");
    if (!n)
        return NULL;
    n->began = clock_ns();
    snprintf(n->method, sizeof n->method, "%s", method);
    snprintf(n->path, sizeof n->path, "%s", path);
    if (id && is_id(id)) {
        snprintf(n->request_id, sizeof n->request_id, "%s", id);
        call->request_id = n->request_id;
    }
    server_write_id(call->id, sizeof call->id, "req_"); /* a handler may have a better one */
    if (s->log) /* nobody else reads it, and three random numbers are three system calls */
        name_trace(call, n);
    buf_init(&n->body, LIMIT_LOG_CONTENT);
    buf_init(&n->reply, LIMIT_LOG_CONTENT);
    return n;
}

void server_note_free(struct server_note *n)
{
    if (!n)
        return;
    buf_release(&n->body);
    buf_release(&n->reply);
    free(n);
}

void server_note_prompt(struct http_call *call, uint64_t tokens)
{
    struct server_note *n = call->note;
    if (n)
        n->prompt += tokens;
}

void server_note_token(struct http_call *call)
{
    struct server_note *n = call->note;
    if (n)
        n->completion++;
}

void server_note_end(struct http_call *call, const struct request_result *r)
{
    struct server_note *n = call->note;
    if (!n)
        return;
    n->cached += r->usage.cached_tokens;
    n->queue_s += r->usage.queue_s;
    n->prefill_s += r->usage.prefill_s;
    n->decode_s += r->usage.decode_s;
    n->finish = finish_name(r->finish);
}
