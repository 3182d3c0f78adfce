/*
 * openai_usage: what a reply cost, and why.
 *
 * The API's own counts, and under `ffwd` the rest: how many tokens a sampler chose and how many each source had, how
 * many ids came from earlier turns, where a prompt left what is cached, which keywords of tools' schemas are not enforced.
 * queue_s, prefill_s and decode_s stay beside `seconds` for those who read them.
 */
#include "server/dialect/openai.h"
#include "server/http/json_out.h"

struct sums {
    uint64_t prompt, cached, completion, sampled, steps, heads, replayed, preemptions;
    struct source_counts by_source[SOURCE_KINDS];
    bool disarmed;
    double queue, prefill, decode, grammar;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void add_sources(struct source_counts *to, const struct source_counts *from)
{
    for (int k = 0; k < SOURCE_KINDS; k++) {
        to[k].proposed += from[k].proposed;
        to[k].accepted += from[k].accepted;
        to[k].rejected += from[k].rejected;
        to[k].asserted += from[k].asserted;
    }
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
            s.replayed += server_reply_prompt(r, &r->parts[i])->replayed;
        }
        s.completion += u->completion_tokens;
        s.sampled += u->sampled;
        s.steps += u->steps;
        s.heads += u->head_positions;
        s.preemptions += u->preemptions;
        s.disarmed = s.disarmed || u->disarmed;
        add_sources(s.by_source, u->by_source);
        s.queue = larger(s.queue, u->queue_s);
        s.prefill = larger(s.prefill, u->prefill_s);
        s.decode = larger(s.decode, u->decode_s);
        s.grammar = larger(s.grammar, u->grammar_s);
    }
    return s;
}

/* Here and below without printf(), which takes much longer. */
static void add_key(struct buf *out, const char *key, const char *end)
{
    buf_adds(out, "\"");
    buf_adds(out, key);
    buf_adds(out, end);
    buf_adds(out, "\":");
}

static void add_count(struct buf *out, const char *key, uint64_t v)
{
    add_key(out, key, "");
    http_json_u64(out, v);
    buf_adds(out, ",");
}

/* The keys are the times' names with `end` after them. */
static void add_times(struct buf *out, const struct sums *s, const char *end)
{
    add_key(out, "queue", end);
    http_json_fixed(out, s->queue);
    buf_adds(out, ",");
    add_key(out, "prefill", end);
    http_json_fixed(out, s->prefill);
    buf_adds(out, ",");
    add_key(out, "decode", end);
    http_json_fixed(out, s->decode);
}

/* Of the first prompt: where what was cached ends, and why. */
static void add_miss(struct buf *out, const struct request_usage *u)
{
    buf_adds(out, "\"cache_miss\":");
    if (u->miss == MISS_NONE)
        buf_adds(out, "null,");
    else
        buf_addf(out, "{\"at\":%u,\"cause\":\"%s\"},", u->cached_tokens, cache_miss_name(u->miss));
}

static void add_feature(struct buf *out, const char *key, const struct plan_feature *f)
{
    buf_addf(out, "\"%s\":{\"on\":%s,\"why\":", key, f->on ? "true" : "false");
    http_json_cstr(out, f->why);
    buf_adds(out, "}");
}

void openai_plan(const struct plan *p, struct buf *out)
{
    buf_adds(out, "\"plan\":{\"prefix_cache\":{");
    add_feature(out, "match", &p->match);
    buf_adds(out, ",");
    add_feature(out, "publish", &p->publish);
    buf_adds(out, "},\"sources\":{");
    for (int k = 0; k < SOURCE_KINDS; k++) {
        buf_adds(out, k ? "," : "");
        add_feature(out, source_name((enum source_kind)k), &p->source[k]);
    }
    buf_adds(out, "},");
    add_feature(out, "skip_head", &p->skip_head);
    buf_adds(out, "}");
}

/* A source that had nothing to say is an empty object. */
static void add_by_source(struct buf *out, const struct source_counts *counts)
{
    buf_adds(out, "\"by_source\":{");
    for (int k = 0; k < SOURCE_KINDS; k++) {
        const struct source_counts *c = &counts[k];
        buf_adds(out, k ? "," : "");
        add_key(out, source_name((enum source_kind)k), "");
        buf_adds(out, "{");
        if (c->proposed || c->accepted)
            buf_addf(out, "\"proposed\":%llu,\"accepted\":%llu,\"rejected\":%llu,\"asserted\":%llu",
                     (unsigned long long)c->proposed, (unsigned long long)c->accepted, (unsigned long long)c->rejected,
                     (unsigned long long)c->asserted);
        buf_adds(out, "}");
    }
    buf_adds(out, "},");
}

void openai_usage_ffwd(const struct reply *r, struct buf *out)
{
    const struct sums s = add_up(r);
    const struct request_result *first = &r->parts[0].result;
    buf_adds(out, "\"ffwd\":{");
    add_count(out, "sampled", s.sampled);
    add_count(out, "steps", s.steps);
    add_count(out, "head_positions", s.heads);
    add_count(out, "replayed_ids", s.replayed);
    buf_adds(out, "\"relaxed\":");
    buf_adds(out, r->job.relaxed ? r->job.relaxed : "[]");
    buf_adds(out, ",");
    add_by_source(out, s.by_source);
    buf_adds(out, s.disarmed ? "\"disarmed\":true," : "\"disarmed\":false,");
    add_miss(out, &first->usage);
    add_count(out, "preemptions", s.preemptions);
    buf_addf(out, "\"seed\":%lld,", (long long)r->job.sampling.seed); /* as it can be sent back */
    add_times(out, &s, "_s");
    buf_adds(out, ",\"seconds\":{");
    add_times(out, &s, "");
    buf_adds(out, ",\"grammar\":");
    http_json_fixed(out, s.grammar);
    buf_adds(out, "}");
    if (r->job.plan) {
        buf_adds(out, ",");
        openai_plan(&first->plan, out);
    }
    buf_adds(out, "}");
}

void openai_usage(const struct reply *r, struct buf *out)
{
    const struct sums s = add_up(r);
    buf_adds(out, "{");
    add_count(out, "prompt_tokens", s.prompt);
    add_count(out, "completion_tokens", s.completion);
    add_count(out, "total_tokens", s.prompt + s.completion);
    buf_adds(out, "\"prompt_tokens_details\":{\"cached_tokens\":");
    http_json_u64(out, s.cached);
    buf_adds(out, "},");
    openai_usage_ffwd(r, out);
    buf_adds(out, "}");
}
