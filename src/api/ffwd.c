/*
 * ffwd: the public functions of include/ffwd.h, each a thin layer over text, chat and engine.
 *
 * What the header promises and the folders below do not: arrays the caller may free with one function whatever made
 * them, text with a NUL at its end, an end event that can be asked for again.
 */
#include "ffwd.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "model/model.h"
#include "text/text.h"

_Static_assert((int)FFWD_OK == (int)ST_OK && (int)FFWD_ARGUMENT == (int)ST_ARGUMENT &&
                   (int)FFWD_TOO_LONG == (int)ST_TOO_LONG && (int)FFWD_BUSY == (int)ST_BUSY &&
                   (int)FFWD_NEVER_FITS == (int)ST_NEVER_FITS && (int)FFWD_UNSUPPORTED == (int)ST_UNSUPPORTED &&
                   (int)FFWD_MODEL == (int)ST_MODEL && (int)FFWD_IO == (int)ST_IO &&
                   (int)FFWD_NO_MEMORY == (int)ST_NO_MEMORY && (int)FFWD_CANCELLED == (int)ST_CANCELLED &&
                   (int)FFWD_DEADLINE == (int)ST_DEADLINE && (int)FFWD_STEP_FAILED == (int)ST_STEP_FAILED &&
                   (int)FFWD_BUG == (int)ST_BUG,
               "the public codes are the status codes");
_Static_assert((int)FFWD_STOP == (int)FINISH_STOP && (int)FFWD_LENGTH == (int)FINISH_LENGTH &&
                   (int)FFWD_FAILED == (int)FINISH_ERROR && (int)FFWD_ABORTED == (int)FINISH_CANCELLED,
               "the public reasons are the engine's");
_Static_assert((int)FFWD_TRUSTED == (int)TOK_TRUSTED && (int)FFWD_BOS == (int)TOK_BOS,
               "the public flags are the tokenizer's");

struct ffwd_engine {
    struct api_model m;
    struct engine *engine;
};

struct ffwd_request {
    struct engine *engine;
    request_id id;
    struct event event; /* the one the last ffwd_event points into */
    char text[LIMIT_EVENT_BYTES + 1];
    int ended;
};

const char *ffwd_version(void)
{
    return FFWD_VERSION;
}

static int give_error(ffwd_error *out, const struct err *e)
{
    _Static_assert(sizeof out->field == sizeof e->field && sizeof out->text == sizeof e->text, "copied whole");
    if (out) {
        *out = (ffwd_error){.code = (int)e->code, .retry_after = e->retry_after};
        memcpy(out->field, e->field, sizeof out->field);
        memcpy(out->text, e->text, sizeof out->text);
    }
    return (int)e->code;
}

/* --- engines --------------------------------------------------------------------------------------------------------- */

void ffwd_options_init(ffwd_options *o)
{
    *o = (ffwd_options){0};
}

static enum status open_engine(ffwd_engine *en, const char *path, const ffwd_options *o, struct err *e)
{
    if (!path)
        return err_set(e, ST_ARGUMENT, "path", "the path of a model file is needed");
    if (o->threads < 0 || o->threads > LIMIT_THREADS)
        return err_set(e, ST_ARGUMENT, "threads", "threads must be from 0 to %d, not %d", LIMIT_THREADS, o->threads);
    const struct packed_store store = {.dir = o->packed_cache, .most = o->packed_cache_bytes};
    struct api_open how = {
        .path = path, .want = API_MODEL | API_TOK | API_CHAT, .threads = (uint32_t)o->threads, .store = &store};
    TRY(api_open(&en->m, &how, e));
    struct engine_config c = {.model = en->m.model,
                              .tok = en->m.tok,
                              .pool = en->m.pool,
                              .kv_format = o->kv_f32 ? KERN_KV_F32 : KERN_KV_F16,
                              .context = o->context,
                              .rows = o->rows,
                              .kv_budget = o->kv_budget,
                              .itl_ms = o->itl_ms,
                              .no_prefix_cache = o->no_prefix_cache != 0};
    return engine_new(&en->engine, &c, e);
}

ffwd_engine *ffwd_open(const char *path, const ffwd_options *options, ffwd_error *err)
{
    struct err e = {0};
    ffwd_options o;
    ffwd_options_init(&o);
    ffwd_engine *en = calloc(1, sizeof *en);
    if (!en) {
        err_set(&e, ST_NO_MEMORY, "", "no memory for an engine");
    } else if (open_engine(en, path, options ? options : &o, &e) != ST_OK) {
        en->engine = NULL;
        ffwd_close(en);
        en = NULL;
    }
    give_error(err, &e);
    return en;
}

void ffwd_close(ffwd_engine *en)
{
    if (!en)
        return;
    if (en->engine)
        engine_free(en->engine);
    api_close(&en->m);
    free(en);
}

uint32_t ffwd_context(const ffwd_engine *en)
{
    return engine_context(en->engine);
}

uint32_t ffwd_vocab(const ffwd_engine *en)
{
    return model_info(en->m.model)->vocab;
}

int ffwd_is_eos(const ffwd_engine *en, int32_t id)
{
    return tok_is_eos(en->m.tok, id);
}

/* --- text and chat --------------------------------------------------------------------------------------------------- */

void ffwd_free(void *p)
{
    free(p);
}

/* Moves n bytes that the tokenizer's library owns into memory for free(), with a NUL behind them. */
static void *own(const void *data, size_t n)
{
    char *p = malloc(n + 1);
    if (p) {
        if (n)
            memcpy(p, data, n);
        p[n] = '\0';
    }
    return p;
}

/* The ids of a successful call go to the caller; `made` is given back in any case. */
static int give_ids(enum status st, tok_id *made, size_t n, int32_t **ids, size_t *count, struct err *e,
                    ffwd_error *err)
{
    *ids = st == ST_OK ? own(made, n * sizeof *made) : NULL;
    *count = *ids ? n : 0;
    if (st == ST_OK && !*ids)
        err_set(e, ST_NO_MEMORY, "", "no memory for %zu ids", n);
    if (made)
        tok_ids_free(made, n);
    return give_error(err, e);
}

int ffwd_encode(const ffwd_engine *en, const char *text, size_t n, unsigned flags, int32_t **ids, size_t *count,
                ffwd_error *err)
{
    struct err e = {0};
    tok_id *made = NULL;
    size_t made_n = 0;
    enum status st = flags & ~(unsigned)(FFWD_TRUSTED | FFWD_BOS)
                         ? err_set(&e, ST_ARGUMENT, "flags", "flags has bits that mean nothing: %#x", flags)
                         : tok_encode(en->m.tok, text, n, flags, &made, &made_n, &e);
    return give_ids(st, made, made_n, ids, count, &e, err);
}

/* An array of messages becomes the request that holds it; the bytes stay as they are. */
static enum status wrap_messages(const char *json, size_t n, struct buf *out, struct err *e)
{
    size_t at = 0;
    while (at < n && (json[at] == ' ' || json[at] == '\n' || json[at] == '\t' || json[at] == '\r'))
        at++;
    if (at == n || json[at] != '[')
        return ST_OK;
    if (buf_adds(out, "{\"messages\":") && buf_add(out, json, n) && buf_adds(out, "}"))
        return ST_OK;
    return err_set(e, ST_TOO_LONG, "messages", "the conversation has more than %u bytes", LIMIT_BODY);
}

int ffwd_chat_encode(const ffwd_engine *en, const char *json, size_t n, int32_t **ids, size_t *count,
                     ffwd_error *err)
{
    struct err e = {0};
    struct buf wrapped;
    struct chat_options co = {0};
    tok_id *made = NULL;
    size_t made_n = 0;
    buf_init(&wrapped, LIMIT_BODY);
    enum status st = ST_OK;
    if (en->m.chat_err.code != ST_OK) {
        e = en->m.chat_err;
        st = e.code;
    }
    if (st == ST_OK)
        st = wrap_messages(json, n, &wrapped, &e);
    if (st == ST_OK)
        st = chat_prompt(en->m.chat, wrapped.len ? wrapped.data : json, wrapped.len ? wrapped.len : n, &co, &made,
                         &made_n, &e);
    buf_release(&wrapped);
    return give_ids(st, made, made_n, ids, count, &e, err);
}

int ffwd_decode(const ffwd_engine *en, const int32_t *ids, size_t count, int special, char **text, size_t *n,
                ffwd_error *err)
{
    struct err e = {0};
    char *made = NULL;
    size_t made_n = 0;
    enum status st = tok_decode(en->m.tok, ids, count, special != 0, &made, &made_n, &e);
    *text = st == ST_OK ? own(made, made_n) : NULL;
    *n = *text ? made_n : 0;
    if (st == ST_OK && !*text)
        err_set(&e, ST_NO_MEMORY, "", "no memory for %zu bytes of text", made_n);
    if (made)
        text_free(made, made_n);
    return give_error(err, &e);
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

void ffwd_params_init(ffwd_params *p)
{
    struct sample_params d = sample_defaults();
    *p = (ffwd_params){.top_p = d.top_p,
                       .repeat_penalty = d.repetition_penalty,
                       .dry_base = d.dry_base,
                       .dry_allowed_length = d.dry_allowed,
                       .typical_p = d.typical_p,
                       .xtc_threshold = d.xtc_threshold,
                       .dynatemp_exponent = d.dynatemp_exponent,
                       .mirostat_tau = d.mirostat_tau,
                       .mirostat_eta = d.mirostat_eta};
}

_Static_assert(sizeof(ffwd_bias) == sizeof(struct sample_bias) &&
                   offsetof(ffwd_bias, bias) == offsetof(struct sample_bias, bias),
               "the public list of biases is the sampler's");

static enum status fill_sampling(struct sample_params *s, const ffwd_params *p, struct err *e)
{
    *s = sample_defaults();
    s->temperature = p->temperature;
    s->top_p = p->top_p;
    s->min_p = p->min_p;
    s->top_k = p->top_k;
    s->repetition_penalty = p->repeat_penalty;
    s->seed = p->seed;
    s->bias = (const struct sample_bias *)(const void *)p->logit_bias;
    s->bias_n = p->logit_bias_n > LIMIT_BIAS ? LIMIT_BIAS + 1 : (uint32_t)p->logit_bias_n; /* too many stay too many */
    s->presence_penalty = p->presence_penalty;
    s->frequency_penalty = p->frequency_penalty;
    s->penalty_last = p->penalty_last;
    s->dry_multiplier = p->dry_multiplier;
    s->dry_base = p->dry_base;
    s->dry_allowed = p->dry_allowed_length;
    s->dry_last = p->dry_last;
    s->top_n_sigma = p->top_n_sigma;
    s->typical_p = p->typical_p;
    s->xtc_probability = p->xtc_probability;
    s->xtc_threshold = p->xtc_threshold;
    s->dynatemp_range = p->dynatemp_range;
    s->dynatemp_exponent = p->dynatemp_exponent;
    s->mirostat = p->mirostat;
    s->mirostat_tau = p->mirostat_tau;
    s->mirostat_eta = p->mirostat_eta;
    s->min_tokens = p->min_tokens;
    for (size_t i = 0; i < p->samplers_n; i++)
        TRY(sample_order_add(s, p->samplers[i], strlen(p->samplers[i]), e));
    return ST_OK;
}

static enum status submit(ffwd_request *rq, const struct tok *tok, const ffwd_params *p, struct err *e)
{
    struct request_stop stops[LIMIT_STOPS];
    if (p->stop_n > LIMIT_STOPS)
        return err_set(e, ST_ARGUMENT, "stop", "at most %u stop texts are possible, not %zu", LIMIT_STOPS, p->stop_n);
    if (!p->prompt || p->prompt_n == 0)
        return err_set(e, ST_ARGUMENT, "prompt", "the prompt must have at least one id");
    if (p->prompt_n > LIMIT_CONTEXT)
        return err_set(e, ST_TOO_LONG, "prompt", "the prompt has %zu ids, but at most %u are possible", p->prompt_n,
                       LIMIT_CONTEXT);
    for (size_t i = 0; i < p->stop_n; i++)
        stops[i] = (struct request_stop){p->stop[i], strlen(p->stop[i])};
    struct request r = {.prompt = p->prompt,
                        .prompt_n = (uint32_t)p->prompt_n,
                        .max_tokens = p->max_tokens,
                        .stops = stops,
                        .stops_n = (uint32_t)p->stop_n,
                        .ignore_eos = p->ignore_eos != 0,
                        .keep_special = p->special != 0,
                        .logprobs = p->logprobs != 0,
                        .priority = p->priority,
                        .deadline_ms = p->deadline_ms,
                        .salt = p->cache_salt,
                        .salt_n = p->cache_salt ? p->cache_salt_n : 0};
    struct api_sets sets;
    TRY(fill_sampling(&r.sampling, p, e));
    enum status st = api_sets_init(&sets, tok, p->dry_breakers, p->dry_breakers_n, &r.sampling, e);
    if (st == ST_OK)
        st = engine_submit(rq->engine, &r, &rq->id, e);
    api_sets_release(&sets);
    return st;
}

ffwd_request *ffwd_start(ffwd_engine *en, const ffwd_params *p, ffwd_error *err)
{
    struct err e = {0};
    ffwd_request *rq = calloc(1, sizeof *rq);
    if (!rq) {
        err_set(&e, ST_NO_MEMORY, "", "no memory for a request");
    } else {
        rq->engine = en->engine;
        if (submit(rq, en->m.tok, p, &e) != ST_OK) {
            free(rq);
            rq = NULL;
        }
    }
    give_error(err, &e);
    return rq;
}

int ffwd_next(ffwd_request *rq, ffwd_event *ev, int timeout_ms)
{
    *ev = (ffwd_event){.kind = FFWD_END, .id = -1, .text = rq->text};
    rq->text[0] = '\0';
    if (rq->ended)
        return 1;
    while (!engine_take(rq->engine, rq->id, &rq->event, 1)) {
        if (timeout_ms == 0 || (!engine_wait(rq->engine, rq->id, timeout_ms) && timeout_ms > 0))
            return 0;
    }
    const struct event *got = &rq->event;
    memcpy(rq->text, got->text, got->text_n);
    rq->text[got->text_n] = '\0';
    ev->text_n = got->text_n;
    if (got->kind == EVENT_END) {
        rq->ended = 1;
        return 1;
    }
    ev->kind = got->id >= 0 ? FFWD_TOKEN : FFWD_TEXT;
    ev->id = got->id >= 0 ? got->id : -1;
    ev->logprob = got->logprob;
    return 1;
}

void ffwd_cancel(ffwd_request *rq)
{
    engine_cancel(rq->engine, rq->id);
}

/* The outcome is known once the end was taken, so a request given up early is read to its end first. */
static void take_result(ffwd_request *rq, ffwd_result *out)
{
    ffwd_event ev;
    struct request_result r;
    if (!rq->ended)
        engine_cancel(rq->engine, rq->id);
    while (!rq->ended)
        (void)ffwd_next(rq, &ev, -1);
    engine_result(rq->engine, rq->id, &r);
    *out = (ffwd_result){.finish = (int)r.finish,
                         .prompt_tokens = r.usage.prompt_tokens,
                         .completion_tokens = r.usage.completion_tokens,
                         .cached_tokens = r.usage.cached_tokens,
                         .prefill_seconds = r.usage.prefill_s,
                         .decode_seconds = r.usage.decode_s,
                         .kv_exhausted = r.kv_exhausted};
    give_error(&out->error, &r.err);
}

void ffwd_finish(ffwd_request *rq, ffwd_result *out)
{
    if (!rq)
        return;
    if (out)
        take_result(rq, out);
    engine_close(rq->engine, rq->id);
    free(rq);
}
