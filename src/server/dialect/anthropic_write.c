/*
 * anthropic_write: replies of /v1/messages, streamed and whole.
 *
 * A reply is a list of blocks: thinking, text, tool_use, in the order in which they come. Both ways of replying go through
 * the same three moves, open, add and close: a stream tells of each, a whole reply collects them as the JSON of its
 * `content` in the part's tool_calls. What a stream gave of a call that breaks stands; a whole reply shows it as text.
 */
#include <string.h>

#include "server/dialect/anthropic.h"
#include "server/dialect/openai.h"
#include "server/http/json_out.h"

enum block { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL };

/* ---- what both ways have in common ---- */

/* The prompt counts apart from what the cache had of it, as in the API. */
static void write_counts(const struct request_usage *u, struct buf *out)
{
    buf_addf(out, "\"input_tokens\":%u,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%u,"
             "\"output_tokens\":%u", u->prompt_tokens - u->cached_tokens, u->cached_tokens, u->completion_tokens);
}

static void write_usage(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    buf_adds(out, "\"usage\":{");
    write_counts(&p->result.usage, out);
    buf_adds(out, ",");
    openai_usage_ffwd(r, out);
    buf_adds(out, "}");
}

static const char *stop_reason(const struct reply *r, const struct reply_part *p)
{
    if (p->result.finish == FINISH_LENGTH)
        return r->job.max_tokens && !p->result.kv_exhausted ? "max_tokens" : "model_context_window_exceeded";
    if (p->result.stop[0])
        return "stop_sequence";
    return p->calls ? "tool_use" : "end_turn";
}

/* "stop_reason":…,"stop_sequence":… */
static void write_stop(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    buf_addf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(r, p));
    http_json_cstr(out, p->result.stop[0] ? p->result.stop : NULL);
    if (p->result.kv_exhausted)
        buf_adds(out, ",\"ffwd_detail\":\"kv_exhausted\"");
}

static void write_head(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    buf_adds(out, "\"id\":");
    http_json_cstr(out, p->message_id);
    buf_adds(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    http_json_cstr(out, r->srv->model);
}

/* ---- events ---- */

static void event(struct buf *out, const char *name)
{
    buf_addf(out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void end_event(struct buf *out)
{
    buf_adds(out, "}\n\n");
}

static void begin(struct reply *r, struct reply_part *p, struct buf *out)
{
    if (p->begun)
        return;
    p->begun = true;
    /* What the cache had is known at the end; message_delta says so. */
    const struct request_usage u = {.prompt_tokens = (uint32_t)server_reply_prompt(r, p)->n};
    event(out, "message_start");
    buf_adds(out, ",\"message\":{");
    write_head(r, p, out);
    buf_adds(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{");
    write_counts(&u, out);
    buf_adds(out, "}}");
    end_event(out);
    event(out, "ping");
    end_event(out);
}

static void delta(const struct reply_part *p, const char *type, const char *member, const char *s, size_t n,
                  struct buf *out)
{
    event(out, "content_block_delta");
    buf_addf(out, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", p->blocks - 1, type, member);
    http_json_str(out, s, n);
    buf_adds(out, "}");
    end_event(out);
}

/* ---- blocks ---- */

static void open_streamed(const struct reply_part *p, enum block kind, const struct chat_piece *piece, struct buf *out)
{
    event(out, "content_block_start");
    buf_addf(out, ",\"index\":%u,\"content_block\":", p->blocks - 1);
    if (kind == BLOCK_CALL) {
        buf_addf(out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", p->call_id);
        http_json_str(out, piece->text, piece->n);
        buf_adds(out, ",\"input\":{}}");
    } else {
        buf_adds(out, kind == BLOCK_TEXT ? "{\"type\":\"text\",\"text\":\"\"}"
                                         : "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    }
    end_event(out);
}

static void open_whole(struct reply_part *p, enum block kind, const struct chat_piece *piece)
{
    struct buf *list = &p->tool_calls;
    buf_adds(list, list->len ? "," : "");
    if (kind == BLOCK_CALL) {
        buf_addf(list, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", p->call_id);
        http_json_str(list, piece->text, piece->n);
        buf_adds(list, ",\"input\":");
    } else {
        buf_adds(list, kind == BLOCK_TEXT ? "{\"type\":\"text\",\"text\":\"" : "{\"type\":\"thinking\",\"thinking\":\"");
    }
}

static void close_streamed(const struct reply_part *p, struct buf *out)
{
    if (p->block == BLOCK_THINKING)
        delta(p, "signature_delta", "signature", p->message_id, strlen(p->message_id), out);
    event(out, "content_block_stop");
    buf_addf(out, ",\"index\":%u", p->blocks - 1);
    end_event(out);
}

static void close_whole(struct reply_part *p)
{
    struct buf *list = &p->tool_calls;
    if (p->block == BLOCK_THINKING)
        buf_addf(list, "\",\"signature\":\"%s\"}", p->message_id);
    else
        buf_adds(list, p->block == BLOCK_TEXT ? "\"}" : "}");
}

/* Ends the block that is open, if one is. */
static void close_block(struct reply *r, struct reply_part *p, struct buf *out)
{
    if (p->block == BLOCK_NONE)
        return;
    if (r->job.stream)
        close_streamed(p, out);
    else
        close_whole(p);
    p->block = BLOCK_NONE;
}

/* `piece` is needed of calls alone. */
static void open_block(struct reply *r, struct reply_part *p, enum block kind, const struct chat_piece *piece,
                       struct buf *out)
{
    close_block(r, p, out);
    p->block = (int)kind;
    p->blocks++;
    if (r->job.stream) {
        begin(r, p, out);
        open_streamed(p, kind, piece, out);
    } else {
        open_whole(p, kind, piece);
    }
}

/* Text of a block that is not a call's, in the one that is open or in a new one. */
static void add_text(struct reply *r, struct reply_part *p, enum block kind, const char *s, size_t n, struct buf *out)
{
    if (!n)
        return;
    if (p->block != (int)kind)
        open_block(r, p, kind, NULL, out);
    if (!r->job.stream)
        http_json_text(&p->tool_calls, s, n);
    else if (kind == BLOCK_TEXT)
        delta(p, "text_delta", "text", s, n, out);
    else
        delta(p, "thinking_delta", "thinking", s, n, out);
}

/* ---- reply_ops ---- */

static void piece(struct reply *r, struct reply_part *p, const struct chat_piece *given, struct buf *out)
{
    switch (given->kind) {
    case CHAT_CONTENT:
        add_text(r, p, BLOCK_TEXT, given->text, given->n, out);
        break;
    case CHAT_REASONING:
        add_text(r, p, BLOCK_THINKING, given->text, given->n, out);
        break;
    case CHAT_CALL:
        p->call_at = p->tool_calls.len;
        p->before_call = p->block;
        open_block(r, p, BLOCK_CALL, given, out);
        break;
    case CHAT_ARGUMENTS: /* all together a JSON object, which a whole reply has as it is */
        if (r->job.stream)
            delta(p, "input_json_delta", "partial_json", given->text, given->n, out);
        else
            buf_add(&p->tool_calls, given->text, given->n);
        break;
    case CHAT_CALL_END:
        close_block(r, p, out);
        break;
    case CHAT_CALL_BROKEN:
        if (r->job.stream) {
            close_block(r, p, out);
        } else {
            p->tool_calls.len = p->call_at;
            p->block = p->before_call; /* its text goes on */
        }
    }
}

/* Without an assembly all text is text. */
static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    begin(r, p, out);
    if (!p->assembly)
        add_text(r, p, BLOCK_TEXT, ev->text, ev->text_n, out);
}

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    if (!p->assembly)
        add_text(r, p, BLOCK_TEXT, ev->text, ev->text_n, NULL);
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    begin(r, p, out);
    close_block(r, p, out);
    event(out, "message_delta");
    buf_adds(out, ",\"delta\":{");
    write_stop(r, p, out);
    buf_adds(out, "},");
    write_usage(r, p, out);
    openai_trace(r, p, out);
    end_event(out);
}

static void end(struct reply *r, struct buf *out)
{
    (void)r;
    event(out, "message_stop");
    end_event(out);
}

static void whole(struct reply *r, struct buf *out)
{
    struct reply_part *p = &r->parts[0];
    close_block(r, p, out);
    buf_adds(out, "{");
    write_head(r, p, out);
    buf_adds(out, ",\"content\":[");
    buf_add(out, p->tool_calls.data, p->tool_calls.len);
    buf_adds(out, "],");
    write_stop(r, p, out);
    buf_adds(out, ",");
    write_usage(r, p, out);
    openai_trace(r, p, out);
    buf_adds(out, "}");
    out->failed = out->failed || p->tool_calls.failed;
}

static void broken(struct reply *r, struct buf *out)
{
    r->call->failure = status_name(r->err.code);
    buf_adds(out, "event: error\ndata: ");
    anthropic_error_body(out, anthropic_status(r->err.code), r->call->id, &r->err);
    buf_adds(out, "\n\n");
}

static void refuse(struct http_call *call, const struct err *e, bool submitting)
{
    (void)submitting;
    anthropic_refuse(call, 0, e);
}

const struct reply_ops anthropic_ops = {
    .id_prefix = "req_",
    .message_prefix = "msg_",
    .call_prefix = "toolu_",
    .prompt_field = "messages",
    .quiet = server_reply_comment,
    .chunk = chunk,
    .part_end = part_end,
    .end = end,
    .broken = broken,
    .collect = collect,
    .piece = piece,
    .whole = whole,
    .refuse = refuse,
};
