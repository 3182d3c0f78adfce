/* openai_write: what the replies of chat and completions share. */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_out.h"

uint32_t openai_chars(const char *s, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xC0) != 0x80;
    return count;
}

bool openai_has_logprob(const struct reply *r, const struct event *ev)
{
    if (!r->job.logprobs || ev->kind != EVENT_TOKEN || ev->id < 0)
        return false;
    return r->job.ignore_eos || !tok_is_eos(r->srv->tok, ev->id);
}

void openai_head(const struct reply *r, const char *object, struct buf *out)
{
    buf_adds(out, "{\"id\":");
    http_json_cstr(out, r->call->id);
    buf_adds(out, ",\"object\":");
    http_json_cstr(out, object);
    buf_adds(out, ",\"created\":");
    http_json_u64(out, (uint64_t)r->created);
    buf_adds(out, ",\"model\":");
    http_json_cstr(out, r->srv->model);
    buf_adds(out, ",");
}

void openai_finish(const struct reply_part *p, struct buf *out)
{
    bool called = p->calls && p->result.finish == FINISH_STOP;
    http_json_cstr(out, called ? "tool_calls" : finish_name(p->result.finish));
    if (p->result.kv_exhausted)
        buf_adds(out, ",\"ffwd_detail\":\"kv_exhausted\"");
}

void openai_progress(const struct reply *r, const struct reply_part *p, const struct event *ev, struct buf *out)
{
    buf_addf(out, ",\"prompt_progress\":{\"total\":%zu,\"cache\":%u,\"processed\":%u,\"time_ms\":",
             server_reply_prompt(r, p)->n, ev->cached, ev->fed);
    http_json_fixed(out, (double)ev->ms);
    buf_adds(out, "}");
}

/* The origins from `first` on, as a member of `ffwd`. */
static void write_origins(const char *member, const struct buf *origins, size_t first, struct buf *out)
{
    buf_addf(out, ",\"ffwd\":{\"%s\":[", member);
    for (size_t i = first; i < origins->len; i++) {
        signed char origin = (signed char)origins->data[i];
        buf_addf(out, i > first ? ",\"%s\"" : "\"%s\"", origin < 0 ? "sampled" : source_name((enum source_kind)origin));
    }
    buf_adds(out, "]}");
}

void openai_trace(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    if (!r->job.trace)
        return;
    write_origins("trace", &p->origins, 0, out);
}

void openai_origins(const struct reply *r, struct reply_part *p, struct buf *out)
{
    if (!r->job.trace || p->origins_told == p->origins.len)
        return;
    write_origins("origins", &p->origins, p->origins_told, out);
    p->origins_told = p->origins.len;
}

void openai_end_choice(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    openai_trace(r, p, out);
    buf_adds(out, "}]");
    if (p->index == 0 && !r->job.include_usage)
        openai_trace(r, p, out);
    buf_adds(out, "}\n\n");
}

void openai_end_stream(const struct reply *r, const char *object, struct buf *out)
{
    if (r->job.include_usage) {
        buf_adds(out, "data: ");
        openai_head(r, object, out);
        buf_adds(out, "\"choices\":[],\"usage\":");
        openai_usage(r, out);
        openai_trace(r, &r->parts[0], out);
        buf_adds(out, "}\n\n");
    }
    buf_adds(out, "data: [DONE]\n\n");
}
