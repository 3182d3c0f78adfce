/* reply: see reply.h. */
#include "cli/reply.h"

#include "cli/paint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS 8u
#define POLL_MS 50 /* how long an interrupt may go unnoticed */

/* --- options --------------------------------------------------------------------------------------------------------- */

/* "ID=BIAS" */
static bool parse_bias(const char *s, struct sample_bias *out)
{
    size_t digits = strspn(s, "0123456789");
    char *end;
    if (!digits || digits > 9 || s[digits] != '=' || !s[digits + 1] || strchr(" \t\n", s[digits + 1]))
        return false;
    out->id = (tok_id)strtoul(s, NULL, 10);
    out->bias = strtof(s + digits + 1, &end);
    return !*end;
}

int reply_options_finish(const struct opt_verb *v, struct reply_options *o)
{
    struct err e;
    struct sample_params *p = &o->sampling;
    for (uint32_t i = 0; i < o->biases.n; i++)
        if (!parse_bias(o->biases.item[i], &o->bias[i]))
            return opt_wrong(v, "--logit-bias must be ID=BIAS, not \"%s\"", o->biases.item[i]);
    p->order_n = 0;
    p->bias = o->bias;
    p->bias_n = o->biases.n;
    for (const char *s = o->order; s; s = *s ? s + 1 : NULL) {
        size_t n = strcspn(s, ";");
        if (sample_order_add(p, s, n, &e) != ST_OK)
            return opt_wrong(v, "%s", e.text);
        s += n;
    }
    if (!sources_parse(o->sources, &o->sources_off))
        return opt_wrong(v, SOURCES_WRONG, o->sources);
    return sample_check(p, INT32_MAX, &e) == ST_OK ? 0 : opt_wrong(v, "%s", e.text);
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

/* What was asked for; without -n never more than what the context still holds. */
static uint32_t max_tokens(const struct engine *en, const struct reply_options *o, size_t prompt_n)
{
    uint32_t context = engine_context(en);
    if (o->max_tokens != REPLY_NOT_GIVEN)
        return o->max_tokens;
    return prompt_n < context && context - prompt_n < REPLY_TOKENS ? context - (uint32_t)prompt_n : REPLY_TOKENS;
}

static void fill_request(const struct reply_options *o, const tok_id *prompt, size_t n, struct request_stop *stops,
                         struct request *rq)
{
    for (uint32_t i = 0; i < o->stops.n; i++)
        stops[i] = (struct request_stop){o->stops.item[i], strlen(o->stops.item[i])};
    *rq = (struct request){.prompt = prompt,
                           .prompt_n = (uint32_t)n,
                           .sampling = o->sampling,
                           .stops = stops,
                           .stops_n = o->stops.n,
                           .keep_special = o->keep_special,
                           .logprobs = o->logprobs ? o->logprobs + 1 : 0,
                           .fill = (enum fill_mode)o->fill,
                           .sources_off = o->sources_off};
    if (!o->asked)
        return;
    rq->grammar = o->asked->grammar;
    rq->rows = o->asked->rows;
    rq->keep_special = o->asked->keep_special;
}

static void add_logprobs(struct reply *r, const struct event *ev)
{
    json_t *top = json_array();
    for (uint32_t i = 0; i < ev->top_n; i++)
        json_array_append_new(top,
                              json_pack("{s:i, s:f}", "id", ev->top[i].id, "logprob", (double)ev->top[i].logprob));
    json_array_append_new(r->logprobs, json_pack("{s:i, s:f, s:o}", "id", ev->id, "logprob", (double)ev->logprob,
                                                 "top", top));
}

static void take_event(struct reply *r, const struct event *ev, const struct reply_options *o, bool stream)
{
    if (ev->kind == EVENT_TOKEN && ev->id >= 0) {
        if (r->ids.len == 0)
            r->first_s = cli_seconds();
        buf_add(&r->ids, &ev->id, sizeof ev->id);
        buf_add(&r->origins, &ev->origin, sizeof ev->origin);
        if (r->logprobs)
            add_logprobs(r, ev);
    }
    buf_add(&r->text, ev->text, ev->text_n);
    if (stream && o->listen)
        o->listen(o->listener, ev);
    else if (stream && ev->text_n)
        paint_write(ev->origin, ev->text, ev->text_n);
}

/* Until the last event was taken. Says goodbye to the engine early when nobody wants the rest. */
static void pump(struct engine *en, request_id id, const struct reply_options *o, struct reply *r, bool stream)
{
    struct event events[EVENTS];
    bool cancelled = false;
    for (;;) {
        if (!cancelled && (cli_interrupted() || cli_broken())) {
            engine_cancel(en, id);
            cancelled = true;
        }
        engine_wait(en, id, POLL_MS);
        for (size_t n = engine_take(en, id, events, EVENTS), i = 0; i < n; i++) {
            take_event(r, &events[i], o, stream);
            if (events[i].kind == EVENT_END)
                return;
        }
    }
}

/* With the sets of ids that the sampling asks for. */
static enum status submit(struct engine *en, const struct tok *tok, const struct reply_options *o, struct request *rq,
                          request_id *id, struct err *e)
{
    struct api_sets sets;
    enum status st = api_sets_init(&sets, tok, o->breakers.n ? o->breakers.item : NULL, o->breakers.n, &rq->sampling, e);
    if (st == ST_OK)
        st = engine_submit(en, rq, id, e);
    api_sets_release(&sets);
    return st;
}

enum status reply_run(struct engine *en, const struct tok *tok, const tok_id *prompt, size_t n,
                      const struct reply_options *o, bool stream, struct reply *r, struct err *e)
{
    struct request_stop stops[LIMIT_STOPS];
    struct request rq;
    request_id id;
    *r = (struct reply){.submitted_s = cli_seconds()};
    buf_init(&r->ids, (size_t)LIMIT_CONTEXT * sizeof(tok_id));
    buf_init(&r->text, CLI_LIMIT_TEXT);
    buf_init(&r->origins, LIMIT_CONTEXT);
    if (n > LIMIT_CONTEXT)
        return err_set(e, ST_TOO_LONG, "prompt", "the prompt has %zu tokens, but at most %u are possible", n,
                       LIMIT_CONTEXT);
    if (n == 0)
        return err_set(e, ST_ARGUMENT, "prompt", "the prompt is empty, and the model asks for no BOS token");
    if (o->logprobs)
        r->logprobs = json_array();
    r->prompt_n = (uint32_t)n;
    fill_request(o, prompt, n, stops, &rq);
    rq.max_tokens = max_tokens(en, o, n);
    TRY(submit(en, tok, o, &rq, &id, e));
    paint_begin(stream && o->colours);
    pump(en, id, o, r, stream);
    paint_end();
    engine_result(en, id, &r->result);
    engine_close(en, id);
    if (r->result.finish == FINISH_ERROR) {
        *e = r->result.err;
        return e->code == ST_OK ? ST_BUG : e->code;
    }
    if (r->ids.failed || r->text.failed)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the reply");
    return ST_OK;
}

void reply_release(struct reply *r)
{
    buf_release(&r->ids);
    buf_release(&r->text);
    buf_release(&r->origins);
    json_decref(r->logprobs);
    r->logprobs = NULL;
}

/* --- figures --------------------------------------------------------------------------------------------------------- */

static double per_second(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* The first token falls out of the prompt's last step, so decoding made one less. */
static double decode_rate(const struct request_usage *u)
{
    return u->completion_tokens > 1 ? per_second(u->completion_tokens - 1, u->decode_s) : 0;
}

static double prefill_rate(const struct request_usage *u)
{
    return per_second((double)u->prompt_tokens - u->cached_tokens, u->prefill_s);
}

void reply_print_figures(const struct reply *r)
{
    const struct request_usage *u = &r->result.usage;
    fprintf(stderr, "[%u prompt tokens at %.1f tok/s, %u tokens at %.1f tok/s", u->prompt_tokens, prefill_rate(u),
            u->completion_tokens, decode_rate(u));
    if (r->first_s > 0)
        fprintf(stderr, "; first token after %.3f s, %.3f s from the start", r->first_s - r->submitted_s, r->first_s);
    if (u->sampled < u->completion_tokens)
        fprintf(stderr, "; %u tokens in %u steps, %u of them sampled", u->completion_tokens, u->steps, u->sampled);
    fprintf(stderr, "; %s%s]\n", finish_name(r->result.finish), r->result.kv_exhausted ? ", memory ran out" : "");
}

json_t *reply_usage(const struct reply *r)
{
    const struct request_usage *u = &r->result.usage;
    return json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "prompt_tokens",
                     (int)u->prompt_tokens, "completion_tokens", (int)u->completion_tokens, "cached_tokens",
                     (int)u->cached_tokens, "steps", (int)u->steps, "load_seconds", r->load_s, "queue_seconds",
                     u->queue_s, "prefill_seconds", u->prefill_s, "decode_seconds", u->decode_s,
                     "first_token_seconds", r->first_s > 0 ? r->first_s - r->submitted_s : 0.0,
                     "first_token_seconds_from_start", r->first_s, "prefill_tokens_per_second", prefill_rate(u),
                     "decode_tokens_per_second", decode_rate(u), "peak_bytes", (json_int_t)mem_peak());
}
