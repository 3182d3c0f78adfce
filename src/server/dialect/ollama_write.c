/*
 * ollama_write: replies of /api/chat and /api/generate: one JSON object, or one a line until the one that is `done`.
 *
 * Both have the same members but for the text: a message there, `response` and `thinking` here. The arguments of a call
 * are an object, so a stream tells of a call when it is complete. What it all cost is in the last object, in counts and
 * nanoseconds, and in full under usage.ffwd.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/dialect/ollama.h"
#include "server/http/json_out.h"

/* A time that no calendar has, which a file's may be, is the first of all. */
void ollama_write_time(int64_t unix_time, struct buf *out)
{
    char text[40];
    struct tm tm;
    const time_t t = (time_t)unix_time;
    const bool known = gmtime_r(&t, &tm) && strftime(text, sizeof text, "\"%Y-%m-%dT%H:%M:%SZ\"", &tm);
    buf_adds(out, known ? text : "\"1970-01-01T00:00:00Z\"");
}

/* {"model":…,"created_at":…, */
static void write_head(const struct server *srv, int64_t created, struct buf *out)
{
    buf_adds(out, "{\"model\":");
    http_json_cstr(out, srv->model);
    buf_adds(out, ",\"created_at\":");
    ollama_write_time(created, out);
    buf_adds(out, ",");
}

static bool is_chat(const struct reply *r)
{
    return r->ops == &ollama_chat_ops;
}

/* ---- text, thinking, calls ---- */

/* What a chunk, or the whole reply, says: parts that are empty are left out, but for the text. */
struct says {
    const char *text, *thinking, *calls; /* calls: JSON, without the brackets */
    size_t text_n, thinking_n, calls_n;
};

static void write_says(const struct reply *r, const struct says *s, struct buf *out)
{
    buf_adds(out, is_chat(r) ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"response\":");
    http_json_str(out, s->text, s->text_n);
    if (s->thinking_n) {
        buf_adds(out, ",\"thinking\":");
        http_json_str(out, s->thinking, s->thinking_n);
    }
    if (s->calls_n) {
        buf_adds(out, ",\"tool_calls\":[");
        buf_add(out, s->calls, s->calls_n);
        buf_adds(out, "]");
    }
    buf_adds(out, is_chat(r) ? "}" : "");
}

/* Arguments as the model wrote them, but in one line, as a chunk is. Strings have no line breaks: these are white space. */
static void put_arguments(const char *s, size_t n, struct buf *out)
{
    size_t at = out->len;
    buf_add(out, s, n);
    for (; at < out->len; at++)
        if (out->data[at] == '\n' || out->data[at] == '\r')
            out->data[at] = ' ';
}

/* A piece of a call goes into the part's list of them. True: a call is complete. */
static bool add_call(struct reply_part *p, const struct chat_piece *piece)
{
    struct buf *calls = &p->tool_calls;
    switch (piece->kind) {
    case CHAT_CALL:
        p->call_at = calls->len;
        buf_addf(calls, "%s{\"id\":\"%s\",\"function\":{\"index\":%u,\"name\":", calls->len ? "," : "", p->call_id,
                 piece->call);
        http_json_str(calls, piece->text, piece->n);
        buf_adds(calls, ",\"arguments\":");
        return false;
    case CHAT_ARGUMENTS: /* all together a JSON object */
        put_arguments(piece->text, piece->n, calls);
        return false;
    case CHAT_CALL_END:
        buf_adds(calls, "}}");
        return true;
    case CHAT_CALL_BROKEN:
        calls->len = p->call_at;
        return false;
    default:
        return false;
    }
}

/* ---- the end ---- */

static unsigned long long nanoseconds(double s)
{
    return s > 0 ? (unsigned long long)(s * 1e9) : 0;
}

/* "done":true and what comes with it. */
static void write_done(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const struct request_usage *u = &p->result.usage;
    buf_addf(out, ",\"done\":true,\"done_reason\":\"%s\"", finish_name(p->result.finish));
    if (p->result.kv_exhausted)
        buf_adds(out, ",\"ffwd_detail\":\"kv_exhausted\"");
    buf_addf(out, ",\"total_duration\":%llu,\"load_duration\":0,",
             (unsigned long long)(clock_ns() - r->call->arrived));
    buf_addf(out, "\"prompt_eval_count\":%u,\"prompt_eval_duration\":%llu,", u->prompt_tokens,
             nanoseconds(u->prefill_s));
    buf_addf(out, "\"eval_count\":%u,\"eval_duration\":%llu,\"usage\":{", u->completion_tokens,
             nanoseconds(u->decode_s));
    openai_usage_ffwd(r, out);
    buf_adds(out, "}");
    openai_trace(r, p, out);
    buf_adds(out, "}");
}

/* ---- streamed ---- */

/* ev: the event whose log-probability the chunk shows, or NULL. */
static void write_chunk(struct reply *r, struct reply_part *p, const struct says *s, const struct event *ev,
                        struct buf *out)
{
    if (!r->head.len)
        write_head(r->srv, r->created, &r->head);
    buf_add(out, r->head.data, r->head.len);
    write_says(r, s, out);
    if (ev && openai_has_logprob(r, ev)) {
        buf_adds(out, ",\"logprobs\":[");
        openai_logprob(r, ev, out);
        buf_adds(out, "]");
    }
    openai_origins(r, p, out);
    buf_adds(out, ",\"done\":false}\n");
}

static void piece_streamed(struct reply *r, struct reply_part *p, const struct chat_piece *given, struct buf *out)
{
    struct says s = {.text = ""};
    if (given->kind == CHAT_CONTENT) {
        s.text = given->text;
        s.text_n = given->n;
    } else if (given->kind == CHAT_REASONING) {
        s.thinking = given->text;
        s.thinking_n = given->n;
    } else if (add_call(p, given)) {
        s.calls = p->tool_calls.data;
        s.calls_n = p->tool_calls.len;
    } else {
        return;
    }
    write_chunk(r, p, &s, p->news, out);
    p->news = NULL;
    if (s.calls_n)
        buf_clear(&p->tool_calls);
}

static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    const struct says s = {.text = ev->text, .text_n = p->assembly ? 0 : ev->text_n};
    if (p->assembly && !p->news)
        return;
    if (s.text_n || openai_has_logprob(r, ev))
        write_chunk(r, p, &s, ev, out);
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    write_head(r->srv, r->created, out);
    write_says(r, &(struct says){.text = ""}, out);
    write_done(r, p, out);
    buf_adds(out, "\n");
}

/* The last part's end was the end. */
static void end(struct reply *r, struct buf *out)
{
    (void)r;
    (void)out;
}

static void broken(struct reply *r, struct buf *out)
{
    r->call->failure = status_name(r->err.code);
    ollama_error_body(out, &r->err);
    buf_adds(out, "\n");
}

/* Lines of JSON have no comments: a chunk that adds nothing says that the stream is still there. */
static void quiet(struct reply *r, struct buf *out)
{
    write_chunk(r, &r->parts[0], &(struct says){.text = ""}, NULL, out);
}

/* ---- whole ---- */

static void piece(struct reply *r, struct reply_part *p, const struct chat_piece *given, struct buf *out)
{
    if (r->job.stream)
        piece_streamed(r, p, given, out);
    else if (given->kind == CHAT_CONTENT)
        buf_add(&p->text, given->text, given->n);
    else if (given->kind == CHAT_REASONING)
        buf_add(&p->reasoning, given->text, given->n);
    else
        (void)add_call(p, given);
}

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct buf *list = &p->lists[0];
    if (!p->assembly)
        buf_add(&p->text, ev->text, ev->text_n);
    if (!openai_has_logprob(r, ev))
        return;
    buf_adds(list, list->len ? "," : "");
    openai_logprob(r, ev, list);
}

static void whole(struct reply *r, struct buf *out)
{
    const struct reply_part *p = &r->parts[0];
    const struct says s = {
        .text = p->text.data,
        .text_n = p->text.len,
        .thinking = p->reasoning.data,
        .thinking_n = p->reasoning.len,
        .calls = p->tool_calls.data,
        .calls_n = p->tool_calls.len,
    };
    write_head(r->srv, r->created, out);
    write_says(r, &s, out);
    if (r->job.logprobs) {
        buf_adds(out, ",\"logprobs\":[");
        buf_add(out, p->lists[0].data, p->lists[0].len);
        buf_adds(out, "]");
    }
    write_done(r, p, out);
}

static void refuse(struct http_call *call, const struct err *e, bool submitting)
{
    (void)submitting;
    ollama_refuse(call, 0, e);
}

#define OLLAMA_OPS(FIELD)                     \
    {                                         \
        .id_prefix = "ollama-",               \
        .call_prefix = "call_",               \
        .prompt_field = FIELD,                \
        .stream_type = "application/x-ndjson", \
        .whole_calls = true,                  \
        .chunk = chunk,                       \
        .part_end = part_end,                 \
        .end = end,                           \
        .broken = broken,                     \
        .quiet = quiet,                       \
        .collect = collect,                   \
        .piece = piece,                       \
        .whole = whole,                       \
        .refuse = refuse,                     \
    }
const struct reply_ops ollama_chat_ops = OLLAMA_OPS("messages"), ollama_generate_ops = OLLAMA_OPS("prompt");

/* ---- without a reply ---- */

void ollama_write_loaded(const struct server *srv, bool chat, struct buf *out)
{
    write_head(srv, clock_unix(), out);
    buf_adds(out, chat ? "\"message\":{\"role\":\"assistant\",\"content\":\"\"}" : "\"response\":\"\"");
    buf_adds(out, ",\"done\":true,\"done_reason\":\"load\"}");
}
