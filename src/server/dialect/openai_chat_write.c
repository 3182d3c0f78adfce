/*
 * openai_chat_write: replies of /v1/chat/completions, streamed and whole.
 *
 * Where a reply may have reasoning or tool calls its text comes as pieces (chat.h); otherwise events are written as they
 * are. In a stream, what was given of a call that breaks stands; a whole reply shows it as content. Log-probabilities are
 * those of all tokens, whatever of the reply they spell: in a stream, each comes with the first chunk of its token's event,
 * which may hold older text.
 */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_out.h"

/* ---- logprobs ---- */

void openai_token(const struct reply *r, tok_id id, float logprob, struct buf *out)
{
    size_t n;
    const char *s = tok_bytes(r->srv->tok, id, &n);
    buf_adds(out, "\"token\":");
    http_json_str(out, s, n);
    buf_adds(out, ",\"logprob\":");
    http_json_fixed(out, logprob);
    buf_adds(out, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        buf_addf(out, i ? ",%u" : "%u", (unsigned)(unsigned char)s[i]);
    buf_adds(out, "]");
}

void openai_logprob(const struct reply *r, const struct event *ev, struct buf *out)
{
    buf_adds(out, "{");
    openai_token(r, ev->id, ev->logprob, out);
    buf_adds(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < ev->top_n; i++) {
        buf_adds(out, i ? ",{" : "{");
        openai_token(r, ev->top[i].id, ev->top[i].logprob, out);
        buf_adds(out, "}");
    }
    buf_adds(out, "]}");
}

/* ---- streamed ---- */

#define HEAD 255 /* bytes that a chunk's head seldom has more than */

/* Everything up to the delta. The head is made once: it is most of a chunk's bytes. */
static void open_chunk(struct reply *r, const struct reply_part *p, struct buf *out)
{
    if (!r->head.len) {
        (void)buf_reserve(&r->head, HEAD);
        buf_adds(&r->head, "data: ");
        openai_head(r, "chat.completion.chunk", &r->head);
        if (r->job.include_usage)
            buf_adds(&r->head, "\"usage\":null,");
        buf_adds(&r->head, "\"choices\":[{\"index\":");
    }
    buf_add(out, r->head.data, r->head.len);
    http_json_u64(out, p->index);
    buf_adds(out, ",\"delta\":{");
}

static void begin(struct reply *r, struct reply_part *p, struct buf *out)
{
    if (p->begun)
        return;
    p->begun = true;
    open_chunk(r, p, out);
    buf_adds(out, "\"role\":\"assistant\",\"content\":\"\",\"id\":");
    http_json_cstr(out, p->message_id);
    buf_adds(out, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n");
}

/* Ends the delta and its chunk; ev: the event whose log-probability it shows, or NULL. */
static void close_chunk(const struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    buf_adds(out, "},\"logprobs\":");
    if (ev && openai_has_logprob(r, ev)) {
        buf_adds(out, "{\"content\":[");
        openai_logprob(r, ev, out);
        buf_adds(out, "],\"refusal\":null}");
    } else {
        buf_adds(out, "null");
    }
    buf_adds(out, ",\"finish_reason\":null");
    openai_origins(r, p, out);
    buf_adds(out, "}]}\n\n");
}

static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    bool logprob = openai_has_logprob(r, ev);
    uint32_t n = p->assembly ? 0 : ev->text_n;
    if (p->assembly && !p->news)
        return;
    begin(r, p, out);
    if (!n && !logprob)
        return;
    open_chunk(r, p, out);
    buf_adds(out, "\"content\":");
    http_json_str(out, ev->text, n);
    close_chunk(r, p, ev, out);
}

/* The delta of a piece, if it has one. */
static bool write_delta(const struct reply_part *p, const struct chat_piece *piece, struct buf *out)
{
    switch (piece->kind) {
    case CHAT_CONTENT:
        buf_adds(out, "\"content\":");
        http_json_str(out, piece->text, piece->n);
        return true;
    case CHAT_REASONING:
        buf_adds(out, "\"reasoning_content\":");
        http_json_str(out, piece->text, piece->n);
        return true;
    case CHAT_CALL:
        buf_addf(out, "\"tool_calls\":[{\"index\":%u,\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":",
                 piece->call, p->call_id);
        http_json_str(out, piece->text, piece->n);
        buf_adds(out, ",\"arguments\":\"\"}}]");
        return true;
    case CHAT_ARGUMENTS:
        buf_addf(out, "\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", piece->call);
        http_json_str(out, piece->text, piece->n);
        buf_adds(out, "}}]");
        return true;
    default:
        return false;
    }
}

static void progress(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    open_chunk(r, p, out);
    buf_adds(out, "},\"logprobs\":null,\"finish_reason\":null}]");
    openai_progress(r, p, ev, out);
    buf_adds(out, "}\n\n");
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    begin(r, p, out);
    open_chunk(r, p, out);
    buf_adds(out, "},\"logprobs\":null,\"finish_reason\":");
    openai_finish(p, out);
    openai_end_choice(r, p, out);
}

static void end(struct reply *r, struct buf *out)
{
    openai_end_stream(r, "chat.completion.chunk", out);
}

/* ---- whole ---- */

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct buf *list = &p->lists[0];
    if (!p->assembly)
        buf_add(&p->text, ev->text, ev->text_n);
    if (!openai_has_logprob(r, ev))
        return;
    if (list->len)
        buf_adds(list, ",");
    openai_logprob(r, ev, list);
}

static void collect_piece(struct reply_part *p, const struct chat_piece *piece)
{
    struct buf *calls = &p->tool_calls;
    switch (piece->kind) {
    case CHAT_CONTENT:
        buf_add(&p->text, piece->text, piece->n);
        break;
    case CHAT_REASONING:
        buf_add(&p->reasoning, piece->text, piece->n);
        break;
    case CHAT_CALL:
        p->call_at = calls->len;
        buf_addf(calls, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", calls->len ? "," : "",
                 p->call_id);
        http_json_str(calls, piece->text, piece->n);
        buf_adds(calls, ",\"arguments\":\"");
        break;
    case CHAT_ARGUMENTS:
        http_json_text(calls, piece->text, piece->n);
        break;
    case CHAT_CALL_END:
        buf_adds(calls, "\"}}");
        break;
    case CHAT_CALL_BROKEN:
        calls->len = p->call_at;
    }
}

static void piece(struct reply *r, struct reply_part *p, const struct chat_piece *given, struct buf *out)
{
    if (!r->job.stream) {
        collect_piece(p, given);
    } else if (given->kind != CHAT_CALL_END && given->kind != CHAT_CALL_BROKEN) {
        begin(r, p, out);
        open_chunk(r, p, out);
        write_delta(p, given, out);
        close_chunk(r, p, p->news, out);
        p->news = NULL;
    }
}

/* The message of a choice: content is null where there is nothing but calls. */
static void write_message(const struct reply_part *p, struct buf *out)
{
    buf_adds(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (p->tool_calls.len && !p->text.len)
        buf_adds(out, "null");
    else
        http_json_str(out, p->text.data, p->text.len);
    if (p->reasoning.len) {
        buf_adds(out, ",\"reasoning_content\":");
        http_json_str(out, p->reasoning.data, p->reasoning.len);
    }
    if (p->tool_calls.len) {
        buf_adds(out, ",\"tool_calls\":[");
        buf_add(out, p->tool_calls.data, p->tool_calls.len);
        buf_adds(out, "]");
    }
    buf_adds(out, ",\"refusal\":null,\"id\":");
    http_json_cstr(out, p->message_id);
    buf_adds(out, "}");
}

static void write_choice(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    buf_adds(out, "{\"index\":");
    http_json_u64(out, p->index);
    buf_adds(out, ",");
    write_message(p, out);
    buf_adds(out, ",\"logprobs\":");
    if (r->job.logprobs) {
        buf_adds(out, "{\"content\":[");
        buf_add(out, p->lists[0].data, p->lists[0].len);
        buf_adds(out, "],\"refusal\":null}");
    } else {
        buf_adds(out, "null");
    }
    buf_adds(out, ",\"finish_reason\":");
    openai_finish(p, out);
    openai_trace(r, p, out);
    buf_adds(out, "}");
}

static void whole(struct reply *r, struct buf *out)
{
    openai_head(r, "chat.completion", out);
    buf_adds(out, "\"choices\":[");
    for (uint32_t i = 0; i < r->parts_n; i++) {
        if (i)
            buf_adds(out, ",");
        write_choice(r, &r->parts[i], out);
    }
    buf_adds(out, "],\"usage\":");
    openai_usage(r, out);
    openai_trace(r, &r->parts[0], out);
    buf_adds(out, "}");
}

const struct reply_ops openai_chat_ops = {
    .id_prefix = "chatcmpl-",
    .message_prefix = "msg_",
    .call_prefix = "call_",
    .prompt_field = "messages",
    .quiet = server_reply_comment,
    .chunk = chunk,
    .progress = progress,
    .part_end = part_end,
    .end = end,
    .broken = openai_broken,
    .collect = collect,
    .piece = piece,
    .whole = whole,
    .refuse = openai_refuse_reply,
};
