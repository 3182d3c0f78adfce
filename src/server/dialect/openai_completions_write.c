/* openai_completions_write: replies of /v1/completions, streamed and whole. */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_out.h"

/* ---- logprobs: four parallel lists ---- */

enum list { LIST_TOKENS, LIST_LOGPROBS, LIST_TOP, LIST_OFFSETS };
_Static_assert(LIST_OFFSETS < REPLY_LISTS, "one buffer for each list");
static const char *const list_names[REPLY_LISTS] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};

/* A token as a string. One that is not whole characters is spelled "bytes:\xe2\x82", as the API does: the names in
 * top_logprobs must stay different. */
static void write_name(const struct reply *r, tok_id id, struct buf *out)
{
    size_t n;
    const char *s = tok_bytes(r->srv->tok, id, &n);
    if (http_utf8_valid(s, n)) {
        http_json_str(out, s, n);
        return;
    }
    buf_adds(out, "\"bytes:");
    for (size_t i = 0; i < n; i++)
        buf_addf(out, "\\\\x%02x", (unsigned)(unsigned char)s[i]);
    buf_adds(out, "\"");
}

static bool same_name(const struct reply *r, tok_id a, tok_id b)
{
    size_t na, nb;
    const char *sa = tok_bytes(r->srv->tok, a, &na), *sb = tok_bytes(r->srv->tok, b, &nb);
    return na == nb && (!na || memcmp(sa, sb, na) == 0);
}

static bool named_before(const struct reply *r, const struct event *ev, uint32_t i, tok_id id)
{
    for (uint32_t j = 0; j < i; j++)
        if (same_name(r, ev->top[j].id, id))
            return true;
    return false;
}

/* The likeliest tokens, and the chosen one if it is not among them. */
static void write_top(const struct reply *r, const struct event *ev, struct buf *out)
{
    bool first = true;
    buf_adds(out, "{");
    for (uint32_t i = 0; i <= ev->top_n; i++) {
        tok_id id = i < ev->top_n ? ev->top[i].id : ev->id;
        if (named_before(r, ev, i, id))
            continue;
        if (!first)
            buf_adds(out, ",");
        first = false;
        write_name(r, id, out);
        buf_adds(out, ":");
        http_json_fixed(out, i < ev->top_n ? ev->top[i].logprob : ev->logprob);
    }
    buf_adds(out, "}");
}

static void add_logprob(const struct reply *r, struct reply_part *p, const struct event *ev)
{
    for (int i = 0; i < REPLY_LISTS; i++)
        if (p->lists[i].len)
            buf_adds(&p->lists[i], ",");
    write_name(r, ev->id, &p->lists[LIST_TOKENS]);
    http_json_fixed(&p->lists[LIST_LOGPROBS], ev->logprob);
    write_top(r, ev, &p->lists[LIST_TOP]);
    http_json_u64(&p->lists[LIST_OFFSETS], p->chars);
}

static void write_lists(const struct reply_part *p, struct buf *out)
{
    for (int i = 0; i < REPLY_LISTS; i++) {
        buf_addf(out, "%s\"%s\":[", i ? "," : "{", list_names[i]);
        buf_add(out, p->lists[i].data, p->lists[i].len);
        buf_adds(out, "]");
    }
    buf_adds(out, "}");
}

/* ---- streamed ---- */

static void open_chunk(struct reply *r, const struct reply_part *p, struct buf *out)
{
    if (!r->head.len) {
        buf_adds(&r->head, "data: ");
        openai_head(r, "text_completion", &r->head);
        if (r->job.include_usage)
            buf_adds(&r->head, "\"usage\":null,");
        buf_adds(&r->head, "\"choices\":[{\"index\":");
    }
    buf_add(out, r->head.data, r->head.len);
    http_json_u64(out, p->index);
    buf_adds(out, ",\"text\":");
}

static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    bool logprob = openai_has_logprob(r, ev);
    if (logprob)
        add_logprob(r, p, ev);
    p->chars += openai_chars(ev->text, ev->text_n);
    if (!ev->text_n && !logprob)
        return;
    open_chunk(r, p, out);
    http_json_str(out, ev->text, ev->text_n);
    buf_adds(out, ",\"logprobs\":");
    if (logprob) {
        write_lists(p, out);
        for (int i = 0; i < REPLY_LISTS; i++)
            buf_clear(&p->lists[i]);
    } else {
        buf_adds(out, "null");
    }
    buf_adds(out, ",\"finish_reason\":null}]}\n\n");
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    open_chunk(r, p, out);
    buf_adds(out, "\"\",\"logprobs\":null,\"finish_reason\":");
    openai_finish(p, out);
    buf_adds(out, "}]}\n\n");
}

static void end(struct reply *r, struct buf *out)
{
    openai_end_stream(r, "text_completion", out);
}

/* ---- whole ---- */

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    if (openai_has_logprob(r, ev))
        add_logprob(r, p, ev);
    p->chars += openai_chars(ev->text, ev->text_n);
    buf_add(&p->text, ev->text, ev->text_n);
}

static void whole(struct reply *r, struct buf *out)
{
    openai_head(r, "text_completion", out);
    buf_adds(out, "\"choices\":[");
    for (uint32_t i = 0; i < r->parts_n; i++) {
        const struct reply_part *p = &r->parts[i];
        buf_adds(out, i ? ",{\"index\":" : "{\"index\":");
        http_json_u64(out, p->index);
        buf_adds(out, ",\"text\":");
        http_json_str(out, p->text.data, p->text.len);
        buf_adds(out, ",\"logprobs\":");
        if (r->job.logprobs)
            write_lists(p, out);
        else
            buf_adds(out, "null");
        buf_adds(out, ",\"finish_reason\":");
        openai_finish(p, out);
        buf_adds(out, "}");
    }
    buf_adds(out, "],\"usage\":");
    openai_usage(r, out);
    buf_adds(out, "}");
}

const struct reply_ops openai_completions_ops = {
    .id_prefix = "cmpl-",
    .prompt_field = "prompt",
    .chunk = chunk,
    .part_end = part_end,
    .end = end,
    .broken = openai_broken,
    .collect = collect,
    .whole = whole,
    .refuse = openai_refuse_reply,
};
