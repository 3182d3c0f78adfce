/*
 * native_completion_write: replies of /completion, streamed and whole.
 *
 * One object a choice, in an array where there are several; in a stream, one for each token and a last one with `stop`,
 * which says what the reply was and what it cost. Streams end with it: no other mark follows.
 */
#include <string.h>

#include "server/dialect/native.h"
#include "server/http/json_out.h"

/* ---- settings ---- */

static void add_fixed(struct buf *out, const char *key, double v)
{
    buf_addf(out, ",\"%s\":", key);
    http_json_fixed(out, v);
}

/* A window; 0 is everything, which is -1 there. */
static void add_window(struct buf *out, const char *key, uint32_t n)
{
    buf_addf(out, ",\"%s\":%lld", key, n ? (long long)n : -1);
}

void native_write_settings(const struct sample_params *s, uint32_t max_tokens, struct buf *out)
{
    buf_addf(out, "{\"n_predict\":%lld,\"seed\":%lld", max_tokens ? (long long)max_tokens : -1, (long long)s->seed);
    add_fixed(out, "temperature", s->temperature);
    add_fixed(out, "dynatemp_range", s->dynatemp_range);
    add_fixed(out, "dynatemp_exponent", s->dynatemp_exponent);
    buf_addf(out, ",\"top_k\":%u", s->top_k);
    add_fixed(out, "top_p", s->top_p);
    add_fixed(out, "min_p", s->min_p);
    add_fixed(out, "typical_p", s->typical_p);
    add_fixed(out, "top_n_sigma", s->top_n_sigma);
    add_fixed(out, "xtc_probability", s->xtc_probability);
    add_fixed(out, "xtc_threshold", s->xtc_threshold);
    add_window(out, "repeat_last_n", s->penalty_last);
    add_fixed(out, "repeat_penalty", s->repetition_penalty);
    add_fixed(out, "presence_penalty", s->presence_penalty);
    add_fixed(out, "frequency_penalty", s->frequency_penalty);
    add_fixed(out, "dry_multiplier", s->dry_multiplier);
    add_fixed(out, "dry_base", s->dry_base);
    buf_addf(out, ",\"dry_allowed_length\":%u", s->dry_allowed);
    add_window(out, "dry_penalty_last_n", s->dry_last);
    buf_addf(out, ",\"mirostat\":%u", s->mirostat);
    add_fixed(out, "mirostat_tau", s->mirostat_tau);
    add_fixed(out, "mirostat_eta", s->mirostat_eta);
    buf_adds(out, "}");
}

/* ---- ids and their probabilities ---- */

/* Ids that only end the reply are not shown. */
static bool is_shown(const struct reply *r, tok_id id)
{
    return id >= 0 && (r->job.ignore_eos || !tok_is_eos(r->srv->tok, id));
}

static void write_probability(const struct reply *r, const struct event *ev, struct buf *out)
{
    buf_addf(out, "{\"id\":%d,", ev->id);
    openai_token(r, ev->id, ev->logprob, out);
    buf_adds(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < ev->top_n; i++) {
        buf_addf(out, i ? ",{\"id\":%d," : "{\"id\":%d,", ev->top[i].id);
        openai_token(r, ev->top[i].id, ev->top[i].logprob, out);
        buf_adds(out, "}");
    }
    buf_adds(out, "]}");
}

static void write_ids(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const tok_id *ids = (const tok_id *)(const void *)p->ids.data;
    bool first = true;
    for (size_t i = 0; i < p->ids.len / sizeof *ids; i++)
        if (is_shown(r, ids[i])) {
            buf_addf(out, first ? "%d" : ",%d", ids[i]);
            first = false;
        }
}

/* ---- what it was and what it cost ---- */

static const char *stop_type(const struct reply_part *p)
{
    if (p->result.finish == FINISH_LENGTH)
        return "limit";
    return p->result.stop[0] ? "word" : "eos";
}

/* n of something in so many seconds. */
static void write_speed(const char *what, uint32_t n, double s, struct buf *out)
{
    buf_addf(out, "\"%s_n\":%u,\"%s_ms\":", what, n, what);
    http_json_fixed(out, s * 1e3);
    buf_addf(out, ",\"%s_per_token_ms\":", what);
    http_json_fixed(out, n ? s * 1e3 / n : 0);
    buf_addf(out, ",\"%s_per_second\":", what);
    http_json_fixed(out, s > 0 ? n / s : 0);
}

static void write_timings(const struct request_usage *u, struct buf *out)
{
    buf_addf(out, "\"timings\":{\"cache_n\":%u,", u->cached_tokens);
    write_speed("prompt", u->prompt_tokens - u->cached_tokens, u->prefill_s, out);
    buf_adds(out, ",");
    write_speed("predicted", u->completion_tokens, u->decode_s, out);
    buf_adds(out, "}");
}

/* The prompt as the model read it. */
static void write_prompt(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const struct reply_prompt *prompt = server_reply_prompt(r, p);
    char *text = NULL;
    size_t n = 0;
    struct err e;
    out->failed |= tok_decode(r->srv->tok, prompt->ids, prompt->n, true, &text, &n, &e) != ST_OK;
    buf_adds(out, ",\"prompt\":");
    http_json_str(out, text, n);
    text_free(text, n);
}

/* What the whole request cost is said once, with the last of its choices. */
static bool is_last(const struct reply *r, const struct reply_part *p)
{
    bool all = true;
    for (uint32_t i = 0; i < r->parts_n; i++)
        all = all && r->parts[i].ended;
    return all && (r->job.stream || p->index + 1 == r->parts_n);
}

/* Everything behind "stop":true, to the end of the object. */
static void write_end(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    const struct request_usage *u = &p->result.usage;
    const bool cut = p->result.finish == FINISH_LENGTH &&
                     (!r->job.max_tokens || u->completion_tokens < r->job.max_tokens);
    buf_adds(out, ",\"model\":");
    http_json_cstr(out, r->srv->model);
    buf_addf(out, ",\"tokens_predicted\":%u,\"tokens_evaluated\":%u,\"tokens_cached\":%u,\"generation_settings\":",
             u->completion_tokens, u->prompt_tokens, u->cached_tokens);
    native_write_settings(&r->job.sampling, r->job.max_tokens, out);
    write_prompt(r, p, out);
    buf_addf(out, ",\"truncated\":%s,\"stop_type\":\"%s\",\"stopping_word\":", cut ? "true" : "false", stop_type(p));
    http_json_cstr(out, p->result.stop);
    buf_adds(out, ",");
    write_timings(u, out);
    if (is_last(r, p)) {
        buf_adds(out, ",\"usage\":{");
        openai_usage_ffwd(r, out);
        buf_adds(out, "}");
    }
    openai_trace(r, p, out);
    buf_adds(out, "}");
}

/* ---- streamed ---- */

static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    const bool id = ev->kind == EVENT_TOKEN && is_shown(r, ev->id);
    if (!id && !ev->text_n)
        return;
    buf_addf(out, "data: {\"index\":%u,\"content\":", p->index);
    http_json_str(out, ev->text, ev->text_n);
    buf_adds(out, ",\"tokens\":[");
    if (id)
        buf_addf(out, "%d", ev->id);
    buf_addf(out, "],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":%zu,\"tokens_evaluated\":%zu",
             p->ids.len / sizeof(tok_id), server_reply_prompt(r, p)->n);
    if (id && r->job.logprobs) {
        buf_adds(out, ",\"completion_probabilities\":[");
        write_probability(r, ev, out);
        buf_adds(out, "]");
    }
    openai_origins(r, p, out);
    buf_adds(out, "}\n\n");
}

static void progress(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    buf_addf(out, "data: {\"index\":%u,\"content\":\"\",\"tokens\":[],\"stop\":false,\"id_slot\":-1,"
             "\"tokens_predicted\":0,\"tokens_evaluated\":%zu", p->index, server_reply_prompt(r, p)->n);
    openai_progress(r, p, ev, out);
    buf_adds(out, "}\n\n");
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    buf_addf(out, "data: {\"index\":%u,\"content\":\"\",\"tokens\":[],\"id_slot\":-1,\"stop\":true", p->index);
    write_end(r, p, out);
    buf_adds(out, "\n\n");
}

static void end(struct reply *r, struct buf *out)
{
    (void)r;
    (void)out;
}

/* ---- whole ---- */

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct buf *list = &p->lists[0];
    buf_add(&p->text, ev->text, ev->text_n);
    if (!r->job.logprobs || ev->kind != EVENT_TOKEN || !is_shown(r, ev->id))
        return;
    buf_adds(list, list->len ? "," : "");
    write_probability(r, ev, list);
}

static void write_choice(const struct reply *r, const struct reply_part *p, struct buf *out)
{
    buf_addf(out, "{\"index\":%u,\"content\":", p->index);
    http_json_str(out, p->text.data, p->text.len);
    buf_adds(out, ",\"tokens\":[");
    if (r->job.tells_ids)
        write_ids(r, p, out);
    buf_adds(out, "]");
    if (r->job.logprobs) {
        buf_adds(out, ",\"completion_probabilities\":[");
        buf_add(out, p->lists[0].data, p->lists[0].len);
        buf_adds(out, "]");
    }
    buf_adds(out, ",\"id_slot\":-1,\"stop\":true");
    write_end(r, p, out);
}

static void whole(struct reply *r, struct buf *out)
{
    buf_adds(out, r->parts_n > 1 ? "[" : "");
    for (uint32_t i = 0; i < r->parts_n; i++) {
        buf_adds(out, i ? "," : "");
        write_choice(r, &r->parts[i], out);
    }
    buf_adds(out, r->parts_n > 1 ? "]" : "");
}

const struct reply_ops native_completion_ops = {
    .id_prefix = "cmpl-",
    .prompt_field = "prompt",
    .quiet = server_reply_comment,
    .chunk = chunk,
    .progress = progress,
    .part_end = part_end,
    .end = end,
    .broken = openai_broken,
    .collect = collect,
    .whole = whole,
    .refuse = openai_refuse_reply,
};
