/*
 * metrics: GET /metrics, what Prometheus reads.
 *
 * Names are those of vLLM where it counts the same, with our own prefix, so that dashboards need one change. The text
 * format: https://prometheus.io/docs/instrumenting/exposition_formats/
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "server/http/json_out.h"
#include "server/private.h"

#define PREFIX "ffwd:"
#define METRICS_BYTES (256u << 10)

static void about(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void count(struct buf *out, const char *name, const char *type, const char *help, uint64_t v)
{
    about(out, name, type, help);
    buf_addf(out, "%s %" PRIu64 "\n", name, v);
}

/* A number in six decimals, whatever the locale. */
static void value(struct buf *out, double v)
{
    buf_adds(out, " ");
    http_json_fixed(out, v);
    buf_adds(out, "\n");
}

/* count[i] is what lies in one bucket; what is written is what lies below each bound. */
static void histogram(struct buf *out, const char *name, const char *help, const struct engine_histogram *h)
{
    uint64_t below = 0;
    about(out, name, "histogram", help);
    for (uint32_t i = 0; i < h->n; i++) {
        below += h->count[i];
        buf_addf(out, "%s_bucket{le=\"", name);
        http_json_fixed(out, h->bound[i]);
        buf_addf(out, "\"} %" PRIu64 "\n", below);
    }
    below += h->count[h->n];
    buf_addf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum", name, below, name);
    value(out, h->sum);
    buf_addf(out, "%s_count %" PRIu64 "\n", name, below);
}

/* What the scheduler plans with. */
static void costs(const struct engine_cost *c, struct buf *out)
{
    about(out, PREFIX "predicted_step_seconds", "gauge", "What a step of so many tokens is predicted to take at depth 0.");
    for (uint32_t i = 0; i < c->n; i++) {
        buf_addf(out, PREFIX "predicted_step_seconds{tokens=\"%u\"}", c->point[i].tokens);
        value(out, c->point[i].ms * 1e-3);
    }
    about(out, PREFIX "predicted_head_seconds", "gauge", "What the logits of a position are predicted to take.");
    buf_adds(out, PREFIX "predicted_head_seconds");
    value(out, c->head_ms * 1e-3);
    about(out, PREFIX "predicted_attention_seconds", "gauge",
          "What a million keys, over all layers, are predicted to take.");
    buf_adds(out, PREFIX "predicted_attention_seconds{phase=\"prefill\"}");
    value(out, c->attention_ms * 1e-3);
    buf_adds(out, PREFIX "predicted_attention_seconds{phase=\"decode\"}");
    value(out, c->decode_attention_ms * 1e-3);
}

static void load(const struct server *srv, struct buf *out)
{
    uint32_t running, waiting;
    struct engine_row_view row;
    struct engine_view v = {.rows = &row, .cap = 1};
    struct err e;
    engine_load(srv->engine, &running, &waiting);
    count(out, PREFIX "num_requests_running", "gauge", "Requests that run.", running);
    count(out, PREFIX "num_requests_waiting", "gauge", "Requests that wait to run.", waiting);
    if (engine_look(srv->engine, &v, &e) != ST_OK || !v.kv.blocks)
        return; /* better no sample than a wrong one */
    about(out, PREFIX "kv_cache_usage_perc", "gauge", "Part of the KV blocks that running requests hold, 0 to 1.");
    buf_adds(out, PREFIX "kv_cache_usage_perc");
    value(out, (double)v.kv.used / v.kv.blocks);
    costs(&v.cost, out);
}

static void finished(struct buf *out, const struct engine_stats *s)
{
    static const struct {
        const char *reason;
        enum finish finish;
    } all[] = {{"stop", FINISH_STOP}, {"length", FINISH_LENGTH}, {"abort", FINISH_CANCELLED}, {"error", FINISH_ERROR}};
    about(out, PREFIX "request_success_total", "counter", "Requests that ended, by the reason.");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_addf(out, PREFIX "request_success_total{finished_reason=\"%s\"} %" PRIu64 "\n", all[i].reason,
                 s->finished[all[i].finish]);
}

/* What each source did, of requests that ended. */
static void sources(struct buf *out, const struct engine_stats *s)
{
    static const struct {
        const char *name, *help;
        size_t at; /* of the count, in struct source_counts */
    } all[] = {
        {PREFIX "source_proposed_tokens_total", "Tokens that a source put into a step or took at once.",
         offsetof(struct source_counts, proposed)},
        {PREFIX "source_accepted_tokens_total", "Of those proposed, tokens that became part of a reply.",
         offsetof(struct source_counts, accepted)},
        {PREFIX "source_rejected_tokens_total", "Of those proposed, tokens in whose place another was chosen.",
         offsetof(struct source_counts, rejected)},
        {PREFIX "source_asserted_tokens_total", "Of those accepted, tokens taken without asking the sampler.",
         offsetof(struct source_counts, asserted)},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        about(out, all[i].name, "counter", all[i].help);
        for (int k = 0; k < SOURCE_KINDS; k++) {
            uint64_t v;
            memcpy(&v, (const char *)&s->by_source[k] + all[i].at, sizeof v);
            buf_addf(out, "%s{source=\"%s\"} %" PRIu64 "\n", all[i].name, source_name((enum source_kind)k), v);
        }
    }
}

static void counters(struct buf *out, const struct engine_stats *s)
{
    count(out, PREFIX "prompt_tokens_total", "counter", "Prompt tokens of requests that got their first token.",
          s->prompt_tokens);
    count(out, PREFIX "generation_tokens_total", "counter", "Tokens chosen.", s->completion_tokens);
    count(out, PREFIX "prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.",
          s->cache_queries);
    count(out, PREFIX "prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", s->cache_hits);
    count(out, PREFIX "num_preemptions_total", "counter", "Times a running request gave its KV blocks back.",
          s->preemptions);
    finished(out, s);
    count(out, PREFIX "requests_refused_total", "counter", "Requests refused because the queue was full.", s->refused);
    count(out, PREFIX "steps_total", "counter", "Forward passes.", s->steps);
    sources(out, s);
}

static void engine_seconds(struct buf *out, const struct engine_stats *s)
{
    const struct {
        const char *part;
        double seconds;
    } all[] = {{"forward", s->forward_s}, {"head", s->head_s}, {"sample", s->sample_s}, {"propose", s->propose_s},
               {"other", s->other_s}};
    about(out, PREFIX "engine_seconds_total", "counter", "Where the engine's time went, apart from waiting.");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buf_addf(out, PREFIX "engine_seconds_total{part=\"%s\"}", all[i].part);
        value(out, all[i].seconds);
    }
}

static void histograms(struct buf *out, const struct engine_stats *s)
{
    histogram(out, PREFIX "request_queue_time_seconds", "From arrival to the first step.", &s->queue);
    histogram(out, PREFIX "time_to_first_token_seconds", "From arrival to the first token.", &s->ttft);
    histogram(out, PREFIX "inter_token_latency_seconds", "Between two tokens of a request.", &s->itl);
    histogram(out, PREFIX "e2e_request_latency_seconds", "From arrival to the end.", &s->e2e);
    histogram(out, PREFIX "step_time_seconds", "One forward pass with all that belongs to it.", &s->step);
}

void server_metrics(struct http_call *call)
{
    const struct server *srv = call->app;
    struct engine_stats s;
    struct buf out;
    engine_stats(srv->engine, &s);
    buf_init(&out, METRICS_BYTES);
    load(srv, &out);
    counters(&out, &s);
    engine_seconds(&out, &s);
    histograms(&out, &s);
    count(&out, "process_start_time_seconds", "gauge", "When the server started, in unix time.", (uint64_t)srv->started);
    about(&out, PREFIX "build_info", "gauge", "The version, and the instruction set in use.");
    buf_addf(&out, PREFIX "build_info{version=\"%s\",isa=\"%s\"} 1\n", srv->version, srv->isa);
    http_reply_as(call, 200, &out, "text/plain; version=0.0.4; charset=utf-8");
    buf_release(&out);
}
