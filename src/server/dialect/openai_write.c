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
    buf_addf(out, "\"%s\"", finish_name(p->result.finish));
    if (p->result.kv_exhausted)
        buf_adds(out, ",\"ffwd_detail\":\"kv_exhausted\"");
}

struct sums {
    uint64_t prompt, cached, completion, steps, heads;
    double queue, prefill, decode;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* A prompt counts once, whatever the number of its choices; times are those of the slowest part. */
static struct sums add_up(const struct reply *r)
{
    struct sums s = {0};
    for (uint32_t i = 0; i < r->parts_n; i++) {
        const struct request_usage *u = &r->parts[i].result.usage;
        if (i % r->job.n == 0) {
            s.prompt += u->prompt_tokens;
            s.cached += u->cached_tokens;
        }
        s.completion += u->completion_tokens;
        s.steps += u->steps;
        s.heads += u->head_positions;
        s.queue = larger(s.queue, u->queue_s);
        s.prefill = larger(s.prefill, u->prefill_s);
        s.decode = larger(s.decode, u->decode_s);
    }
    return s;
}

void openai_usage(const struct reply *r, struct buf *out)
{
    const struct sums s = add_up(r);
    buf_addf(out, "{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,",
             (unsigned long long)s.prompt, (unsigned long long)s.completion,
             (unsigned long long)(s.prompt + s.completion));
    buf_addf(out, "\"prompt_tokens_details\":{\"cached_tokens\":%llu},", (unsigned long long)s.cached);
    buf_addf(out, "\"ffwd\":{\"steps\":%llu,\"head_positions\":%llu,\"seed\":%llu,\"queue_s\":",
             (unsigned long long)s.steps, (unsigned long long)s.heads, (unsigned long long)r->job.sampling.seed);
    http_json_fixed(out, s.queue);
    buf_adds(out, ",\"prefill_s\":");
    http_json_fixed(out, s.prefill);
    buf_adds(out, ",\"decode_s\":");
    http_json_fixed(out, s.decode);
    buf_adds(out, "}}");
}

void openai_end_stream(const struct reply *r, const char *object, struct buf *out)
{
    if (r->job.include_usage) {
        buf_adds(out, "data: ");
        openai_head(r, object, out);
        buf_adds(out, "\"choices\":[],\"usage\":");
        openai_usage(r, out);
        buf_adds(out, "}\n\n");
    }
    buf_adds(out, "data: [DONE]\n\n");
}
