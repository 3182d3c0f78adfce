/*
 * responses_write: replies of /v1/responses, streamed and whole.
 *
 * A reply is a list of items: reasoning, message, function_call, in the order in which they come. Each is opened, added to
 * and closed; a stream tells of all three, and both ways collect closed items as the JSON of the response's `output` in the
 * part's tool_calls. Of the item that is open, the text is in the part's `text`, a call's arguments in its `reasoning`,
 * since calls are told apart from text that merely looks like one only at their end: what a stream gave of a call that
 * breaks stands, as an incomplete item; a whole reply shows it as text.
 *
 * Log-probabilities are those of the tokens that spell messages. They wait in lists[0] for the text that they come with;
 * lists[1] has those of the message that is open.
 */
#include <string.h>

#include "server/dialect/responses.h"
#include "server/http/json_out.h"

enum item { ITEM_NONE, ITEM_MESSAGE, ITEM_REASONING, ITEM_CALL };

/* ---- what the response says of its request ---- */

/* Without the white space between its parts: an event is one line. */
static void put_compact(struct cut v, struct buf *out)
{
    bool quoted = false;
    size_t from = 0;
    for (size_t i = 0; i < v.n; i++) {
        const char c = v.s[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
            buf_add(out, v.s + from, i - from);
            from = i + 1;
        }
    }
    buf_add(out, v.s + from, v.n - from);
}

enum status responses_echo(struct text_view body, struct buf *echo, struct err *e)
{
    /* What is shown of a field that the request does not have. */
    static const char *const shown[][2] = {
        {"background", "false"}, {"instructions", "null"}, {"max_output_tokens", "null"}, {"max_tool_calls", "null"},
        {"metadata", "{}"}, {"parallel_tool_calls", "true"}, {"previous_response_id", "null"},
        {"prompt_cache_key", "null"}, {"reasoning", "{\"effort\":null,\"summary\":null}"}, {"safety_identifier", "null"},
        {"store", "true"}, {"temperature", "1.0"}, {"text", "{\"format\":{\"type\":\"text\"}}"},
        {"tool_choice", "\"auto\""}, {"tools", "[]"}, {"top_logprobs", "0"}, {"top_p", "1.0"},
        {"truncation", "\"disabled\""}, {"user", "null"},
    };
    const struct cut root = chat_cut_text(body.data, body.n);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const struct cut v = chat_cut_member(root, shown[i][0]);
        buf_addf(echo, "\"%s\":", shown[i][0]);
        if (chat_cut_kind_of(v) == CUT_NONE || chat_cut_kind_of(v) == CUT_NULL)
            buf_adds(echo, shown[i][1]);
        else
            put_compact(v, echo);
        buf_adds(echo, ",");
        if (echo->failed)
            return err_set(e, ST_TOO_LONG, shown[i][0], "%s: a response repeats at most %zu bytes of its request",
                           shown[i][0], echo->limit);
    }
    buf_adds(echo, "\"service_tier\":\"default\",");
    return echo->failed ? err_set(e, ST_TOO_LONG, "", "a response repeats at most %zu bytes of its request", echo->limit)
                        : ST_OK;
}

/* ---- the response ---- */

static struct responses_own *own_of(const struct reply *r)
{
    return r->job.own;
}

static void write_usage(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const struct request_usage *u = &p->result.usage;
    buf_addf(out, "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,\"cache_write_tokens\":0},"
             "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},\"total_tokens\":%llu,",
             u->prompt_tokens, u->cached_tokens, u->completion_tokens, own_of(r)->thought_ids,
             (unsigned long long)u->prompt_tokens + u->completion_tokens);
    openai_usage_ffwd(r, out);
    buf_adds(out, "}");
}

/* "status":… and what explains it. */
static void write_status(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const bool failed = r->err.code != ST_OK, cut = p->result.finish == FINISH_LENGTH;
    if (!p->ended || failed)
        buf_addf(out, "\"status\":\"%s\",\"completed_at\":null,", failed ? "failed" : "in_progress");
    else if (cut) /* the API's time is that of complete ones only */
        buf_adds(out, "\"status\":\"incomplete\",\"completed_at\":null,");
    else
        buf_addf(out, "\"status\":\"completed\",\"completed_at\":%lld,", (long long)clock_unix());
    buf_adds(out, "\"error\":");
    if (failed) {
        buf_adds(out, "{\"code\":\"server_error\",\"message\":");
        http_json_cstr(out, r->err.text);
        buf_adds(out, "}");
    } else {
        buf_adds(out, "null");
    }
    buf_addf(out, ",\"incomplete_details\":%s,",
             p->ended && !failed && cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    if (p->result.kv_exhausted)
        buf_adds(out, "\"ffwd_detail\":\"kv_exhausted\",");
}

/* The response as it stands now: under way, or ended in one way or another. */
static void write_response(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const struct responses_own *own = own_of(r);
    const bool done = p->ended && r->err.code == ST_OK;
    buf_addf(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,", r->call->id, (long long)r->created);
    write_status(r, p, out);
    buf_adds(out, "\"model\":");
    http_json_cstr(out, r->srv->model);
    buf_adds(out, ",");
    buf_add(out, own->echo.data, own->echo.len);
    buf_adds(out, "\"output\":[");
    if (p->ended || r->err.code != ST_OK)
        buf_add(out, p->tool_calls.data, p->tool_calls.len);
    buf_adds(out, "],\"usage\":");
    if (done)
        write_usage(r, p, out);
    else
        buf_adds(out, "null");
    if (done)
        openai_trace(r, p, out);
    buf_adds(out, "}");
}

/* Keeps the response that ends `out`, from `at` on. */
static void keep(const struct reply *r, const struct reply_part *p, const struct buf *out, size_t at)
{
    const struct responses_own *own = own_of(r);
    struct buf output;
    if (!own->keep || !own->store || out->failed || own->input.failed)
        return;
    buf_init(&output, LIMIT_REPLY);
    buf_addf(&output, "[");
    buf_add(&output, p->tool_calls.data, p->tool_calls.len);
    buf_adds(&output, "]");
    const struct server_response texts = {
        .object = {out->data + at, out->len - at},
        .input = {own->input.data, own->input.len},
        .output = {output.data, output.len},
    };
    const struct server_name owner = {own->owner, sizeof own->owner}, id = {r->call->id, strlen(r->call->id)};
    if (!output.failed)
        server_responses_put(own->store, owner, id, own->before, &texts);
    buf_release(&output);
}

/* ---- events ---- */

static void event(const struct reply *r, const char *name, struct buf *out)
{
    buf_addf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", name, name,
             (unsigned long long)own_of(r)->events++);
}

static void end_event(struct buf *out)
{
    buf_adds(out, "}\n\n");
}

static void response_event(const struct reply *r, const struct reply_part *p, const char *name, struct buf *out)
{
    event(r, name, out);
    buf_adds(out, ",\"response\":");
    write_response(r, p, out);
    end_event(out);
}

static void begin(struct reply *r, struct reply_part *p, struct buf *out)
{
    if (p->begun)
        return;
    p->begun = true;
    response_event(r, p, "response.created", out);
    response_event(r, p, "response.in_progress", out);
}

/* An event about the item that is open, up to the place of its part in it. */
static void item_event(const struct reply *r, const struct reply_part *p, const char *name, struct buf *out)
{
    event(r, name, out);
    buf_addf(out, ",\"output_index\":%u,\"item_id\":\"%s\"", p->blocks - 1, own_of(r)->item_id);
    if (p->block != ITEM_CALL)
        buf_adds(out, ",\"content_index\":0");
}

static void delta(const struct reply *r, const struct reply_part *p, const char *name, const char *s, size_t n,
                  struct buf *out)
{
    item_event(r, p, name, out);
    buf_adds(out, ",\"delta\":");
    http_json_str(out, s, n);
    if (p->block == ITEM_MESSAGE) {
        buf_adds(out, ",\"logprobs\":[");
        buf_add(out, p->lists[0].data, p->lists[0].len);
        buf_adds(out, "]");
    }
    end_event(out);
}

/* ---- items ---- */

/* The part of a message or of reasoning, with the text so far. */
static void write_part(const struct reply_part *p, struct buf *out)
{
    if (p->block == ITEM_MESSAGE) {
        buf_adds(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[");
        buf_add(out, p->lists[1].data, p->lists[1].len);
        buf_adds(out, "],\"text\":");
    } else {
        buf_adds(out, "{\"type\":\"reasoning_text\",\"text\":");
    }
    http_json_str(out, p->text.data, p->text.len);
    buf_adds(out, "}");
}

/* The item that is open, with what it has so far. */
static void write_item(const struct reply *r, const struct reply_part *p, const char *status, struct buf *out)
{
    const struct responses_own *own = own_of(r);
    static const char *const types[] = {"", "message", "reasoning", "function_call"};
    buf_addf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\",", own->item_id, types[p->block], status);
    if (p->block == ITEM_CALL) {
        buf_addf(out, "\"call_id\":\"%s\",\"name\":", p->call_id);
        http_json_cstr(out, own->name);
        buf_adds(out, ",\"arguments\":");
        http_json_str(out, p->reasoning.data, p->reasoning.len);
        buf_adds(out, "}");
        return;
    }
    buf_adds(out, p->block == ITEM_MESSAGE ? "\"role\":\"assistant\",\"content\":[" : "\"summary\":[],\"content\":[");
    if (p->text.len)
        write_part(p, out);
    buf_adds(out, "]");
    if (p->block == ITEM_REASONING && own->encrypted)
        buf_addf(out, ",\"encrypted_content\":\"%s\"", r->call->id); /* names the reply: there is nothing to hide */
    buf_adds(out, "}");
}

static void open_streamed(struct reply *r, struct reply_part *p, struct buf *out)
{
    begin(r, p, out);
    event(r, "response.output_item.added", out);
    buf_addf(out, ",\"output_index\":%u,\"item\":", p->blocks - 1);
    write_item(r, p, "in_progress", out);
    end_event(out);
    if (p->block == ITEM_CALL)
        return;
    item_event(r, p, "response.content_part.added", out);
    buf_adds(out, ",\"part\":");
    write_part(p, out);
    end_event(out);
}

/* "text":… or "arguments":…, and with them what else an event says of something that is complete. */
static void text_done(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    static const char *const names[] = {"", "response.output_text.done", "response.reasoning_text.done",
                                        "response.function_call_arguments.done"};
    const struct buf *text = p->block == ITEM_CALL ? &p->reasoning : &p->text;
    item_event(r, p, names[p->block], out);
    buf_adds(out, p->block == ITEM_CALL ? ",\"arguments\":" : ",\"text\":");
    http_json_str(out, text->data, text->len);
    if (p->block == ITEM_CALL) {
        buf_adds(out, ",\"name\":");
        http_json_cstr(out, own_of(r)->name);
    } else if (p->block == ITEM_MESSAGE) {
        buf_adds(out, ",\"logprobs\":[");
        buf_add(out, p->lists[1].data, p->lists[1].len);
        buf_adds(out, "]");
    }
    end_event(out);
}

static void close_streamed(const struct reply *r, const struct reply_part *p, const char *status, struct buf *out)
{
    text_done(r, p, out);
    if (p->block != ITEM_CALL) {
        item_event(r, p, "response.content_part.done", out);
        buf_adds(out, ",\"part\":");
        write_part(p, out);
        end_event(out);
    }
    event(r, "response.output_item.done", out);
    buf_addf(out, ",\"output_index\":%u,\"item\":", p->blocks - 1);
    write_item(r, p, status, out);
    end_event(out);
}

/* Moves the log-probabilities that wait to those of the open message. */
static void take_logprobs(struct reply_part *p)
{
    struct buf *waiting = &p->lists[0], *open = &p->lists[1];
    buf_adds(open, open->len && waiting->len ? "," : "");
    buf_add(open, waiting->data, waiting->len);
    open->failed = open->failed || waiting->failed;
    buf_clear(waiting);
}

/* Ends the item that is open, if one is; what it held is in the output then. */
static void close_item(struct reply *r, struct reply_part *p, const char *status, struct buf *out)
{
    struct buf *output = &p->tool_calls;
    if (p->block == ITEM_NONE)
        return;
    if (p->block == ITEM_MESSAGE)
        take_logprobs(p);
    if (r->job.stream)
        close_streamed(r, p, status, out);
    buf_adds(output, output->len ? "," : "");
    write_item(r, p, status, output);
    output->failed = output->failed || p->text.failed || p->reasoning.failed || p->lists[1].failed;
    buf_clear(&p->lists[1]);
    buf_clear(p->block == ITEM_CALL ? &p->reasoning : &p->text);
    p->block = ITEM_NONE;
}

static void open_item(struct reply *r, struct reply_part *p, enum item kind, struct buf *out)
{
    static const char *const prefixes[] = {"", "msg_", "rs_", "fc_"};
    struct responses_own *own = own_of(r);
    if (kind != ITEM_MESSAGE) /* what waits is of the ids that spell its beginning, and no message's */
        buf_clear(&p->lists[0]);
    close_item(r, p, "completed", out);
    p->block = (int)kind;
    p->blocks++;
    if (kind == ITEM_MESSAGE && !own->messages++)
        memcpy(own->item_id, p->message_id, sizeof own->item_id);
    else
        server_write_id(own->item_id, sizeof own->item_id, prefixes[kind]);
    if (r->job.stream)
        open_streamed(r, p, out);
}

/* Text of a message or of reasoning, in the item that is open or in a new one. */
static void add_text(struct reply *r, struct reply_part *p, enum item kind, const char *s, size_t n, struct buf *out)
{
    if (!n)
        return;
    if (p->block != (int)kind)
        open_item(r, p, kind, out);
    buf_add(&p->text, s, n);
    if (r->job.stream)
        delta(r, p, kind == ITEM_MESSAGE ? "response.output_text.delta" : "response.reasoning_text.delta", s, n, out);
    if (kind == ITEM_MESSAGE)
        take_logprobs(p);
}

/* ---- calls ---- */

/* A whole reply goes on with what it has open until the call is complete: then it is known to be one. */
static void begin_call(struct reply *r, struct reply_part *p, const struct chat_piece *given, struct buf *out)
{
    struct responses_own *own = own_of(r);
    size_t n = given->n < sizeof own->name - 1 ? given->n : sizeof own->name - 1;
    memcpy(own->name, given->text, n);
    own->name[n] = 0;
    if (r->job.stream)
        open_item(r, p, ITEM_CALL, out);
}

static void end_call(struct reply *r, struct reply_part *p, const char *status, struct buf *out)
{
    if (!r->job.stream)
        open_item(r, p, ITEM_CALL, out);
    close_item(r, p, status, out);
}

static void break_call(struct reply *r, struct reply_part *p, struct buf *out)
{
    if (r->job.stream)
        close_item(r, p, "incomplete", out);
    else
        buf_clear(&p->reasoning);
}

/* ---- reply_ops ---- */

/* The log-probability of an event waits for the next text. */
static void note_logprob(const struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct buf *waiting = &p->lists[0];
    if (!ev || !openai_has_logprob(r, ev))
        return;
    buf_adds(waiting, waiting->len ? "," : "");
    openai_logprob(r, ev, waiting);
}

static void piece(struct reply *r, struct reply_part *p, const struct chat_piece *given, struct buf *out)
{
    switch (given->kind) {
    case CHAT_CONTENT:
        note_logprob(r, p, p->news);
        add_text(r, p, ITEM_MESSAGE, given->text, given->n, out);
        break;
    case CHAT_REASONING:
        own_of(r)->thought = true;
        add_text(r, p, ITEM_REASONING, given->text, given->n, out);
        break;
    case CHAT_CALL:
        begin_call(r, p, given, out);
        break;
    case CHAT_ARGUMENTS:
        buf_add(&p->reasoning, given->text, given->n);
        if (r->job.stream)
            delta(r, p, "response.function_call_arguments.delta", given->text, given->n, out);
        break;
    case CHAT_CALL_END:
        end_call(r, p, "completed", out);
        break;
    case CHAT_CALL_BROKEN:
        break_call(r, p, out);
    }
    own_of(r)->told = true;
    p->news = NULL;
}

/* Counts an event's id once it is known what it spelled: text that may become a mark comes later than its ids. */
static void count_thought(struct responses_own *own, const struct event *ev)
{
    own->silent_ids += ev->kind == EVENT_TOKEN && ev->id >= 0;
    if (own->thought)
        own->thought_ids += own->silent_ids;
    if (own->told)
        own->silent_ids = 0;
    own->told = own->thought = false;
}

/* An event, after its pieces. Of those without any, the log-probability waits where a message may go on. */
static void take(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    count_thought(own_of(r), ev);
    if (!p->assembly || (p->news && p->block != ITEM_REASONING && p->block != ITEM_CALL))
        note_logprob(r, p, ev);
    if (!p->assembly)
        add_text(r, p, ITEM_MESSAGE, ev->text, ev->text_n, out);
}

static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    begin(r, p, out);
    take(r, p, ev, out);
}

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    take(r, p, ev, NULL);
}

/* Ends the last item. False: there was no room for it. */
static bool close_output(struct reply *r, struct reply_part *p, struct buf *out)
{
    close_item(r, p, p->result.finish == FINISH_LENGTH ? "incomplete" : "completed", out);
    return !p->tool_calls.failed;
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    begin(r, p, out);
    if (!close_output(r, p, out)) {
        (void)err_set(&r->err, ST_TOO_LONG, "", "the reply is longer than %u bytes", LIMIT_REPLY);
        return;
    }
    event(r, p->result.finish == FINISH_LENGTH ? "response.incomplete" : "response.completed", out);
    buf_adds(out, ",\"response\":");
    const size_t at = out->len;
    write_response(r, p, out);
    keep(r, p, out, at);
    end_event(out);
}

static void end(struct reply *r, struct buf *out)
{
    (void)r;
    (void)out; /* the one part's end is the stream's */
}

static void whole(struct reply *r, struct buf *out)
{
    struct reply_part *p = &r->parts[0];
    out->failed = !close_output(r, p, NULL) || out->failed;
    write_response(r, p, out);
    keep(r, p, out, 0);
}

/* The events that every stream begins with, in one that failed before it told anything: they are of a time when it had
 * not. */
static void begin_late(struct reply *r, struct reply_part *p, struct buf *out)
{
    const struct err why = r->err;
    r->err.code = ST_OK;
    begin(r, p, out);
    r->err = why;
}

/* Of what has begun, only the items that are complete are shown again. */
static void broken(struct reply *r, struct buf *out)
{
    struct reply_part *p = &r->parts[0];
    r->call->failure = status_name(r->err.code);
    if (p->tool_calls.failed)
        buf_clear(&p->tool_calls);
    begin_late(r, p, out);
    response_event(r, p, "response.failed", out);
}

const struct reply_ops responses_ops = {
    .id_prefix = "resp_",
    .message_prefix = "msg_",
    .call_prefix = "call_",
    .prompt_field = "input",
    .quiet = server_reply_comment,
    .chunk = chunk,
    .part_end = part_end,
    .end = end,
    .broken = broken,
    .collect = collect,
    .piece = piece,
    .whole = whole,
    .refuse = openai_refuse_reply,
};
