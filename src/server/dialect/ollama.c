/* ollama: the handlers of /api/chat and /api/generate. See ollama.h. */
#include "server/dialect/ollama.h"

#include <stdio.h>
#include <string.h>

#include "server/http/json_in.h"
#include "server/infill.h"

#define MOST_TRANSLATED (2 * (size_t)LIMIT_BODY) /* bytes of a conversation in chat's shape */

/* A prompt that is no conversation: control tokens written in a raw one are meant, as in /v1/completions. */
static enum status encode_prompt(const struct server *srv, const struct ollama_request *rq, struct reply_job *job,
                                 struct err *e)
{
    const json_t *v = http_get(job->root, "prompt");
    const size_t n = json_string_length(v);
    struct reply_prompt *p = &job->prompts[0];
    if (json_string_length(http_get(job->root, "system")))
        return err_set(e, ST_UNSUPPORTED, "system", "system: this model has no chat template that could show it");
    if (rq->thinking == OLLAMA_ON)
        return err_set(e, ST_UNSUPPORTED, "think", "think: this prompt is not rendered and alone says whether to think");
    TRY(server_check_bytes(srv, n, "the prompt", "prompt", e));
    TRY(tok_encode(srv->tok, json_string_value(v), n, (rq->raw ? TOK_TRUSTED : 0) | TOK_BOS, &p->ids, &p->n, e));
    p->from_tok = true;
    job->prompts_n = 1;
    return ST_OK;
}

/* Prompt and suffix are the texts around what the reply fills in. */
static enum status encode_gap(const struct server *srv, const struct ollama_request *rq, struct reply_job *job,
                              struct err *e)
{
    const json_t *v = http_get(job->root, "prompt");
    const struct server_infill in = {
        .field = "suffix", .before = {json_string_value(v), json_string_length(v)}, .after = rq->suffix};
    if (rq->thinking == OLLAMA_ON)
        return err_set(e, ST_UNSUPPORTED, "think", "think: a reply that fills in a text cannot think first");
    TRY(server_infill(srv, &in, &job->prompts[0], e));
    job->prompts_n = 1;
    return ST_OK;
}

static enum status render(const struct server *srv, const struct ollama_request *rq, const struct buf *conversation,
                          struct reply_job *job, struct err *e)
{
    struct reply_prompt *p = &job->prompts[0];
    const struct chat_options o = {.hide_tools = rq->tools.hidden, .max_bytes = srv->prompt_bytes};
    if (!srv->chat)
        return err_set(e, ST_UNSUPPORTED, "messages", "this model cannot chat; use /api/generate with raw");
    enum status st = chat_prompt(srv->chat, conversation->data, conversation->len, &o, &p->ids, &p->n, e);
    if (st != ST_OK) {
        if (!rq->chat && strncmp(e->field, "messages", 8) == 0)
            memcpy(e->field, "prompt", sizeof "prompt");
        return st;
    }
    p->from_tok = true;
    job->prompts_n = 1;
    return ST_OK;
}

/* A model that is told not to think but opens its thinking all the same closes it at once. */
static enum status check_thinking(const struct server *srv, const struct ollama_request *rq, bool begun,
                                  struct reply_job *job, struct err *e)
{
    if (rq->thinking == OLLAMA_ON && !job->recognise.reasoning)
        return err_set(e, ST_UNSUPPORTED, "think", "think: this model does not think before it replies");
    if (rq->level && !chat_knows_effort(srv->chat))
        return err_set(e, ST_UNSUPPORTED, "think", "think: this model's template knows no levels, only true and false");
    if (begun && (rq->thinking == OLLAMA_ON || job->recognise.in_reasoning))
        return err_set(e, ST_ARGUMENT, "messages",
                       "a reply that thinks first cannot begin with the last message's text");
    if (rq->thinking == OLLAMA_OFF && job->recognise.in_reasoning)
        return server_limit_thinking(srv, 0, "think", job, e);
    return ST_OK;
}

static enum status take_turns(const struct server *srv, const struct ollama_request *rq,
                              const struct buf *conversation, const struct buf *begun, struct reply_job *job,
                              struct err *e)
{
    const struct text_view request = {conversation->data, conversation->len};
    struct format_shape shape;
    TRY(render(srv, rq, conversation, job, e));
    TRY(server_recognise(srv, request, rq->tools.n != 0, job, &shape, e));
    TRY(check_thinking(srv, rq, begun->len != 0, job, e));
    if (rq->tools.n)
        TRY(openai_constrain_calls(srv, job->root, request, &rq->tools, &shape, job, e));
    return begun->len ? server_prompt_append(srv, begun->data, begun->len, "messages", &job->prompts[0], e) : ST_OK;
}

static enum status prepare_turns(const struct server *srv, struct text_view body, const struct ollama_request *rq,
                                 struct reply_job *job, struct err *e)
{
    struct buf conversation, begun;
    buf_init(&conversation, MOST_TRANSLATED);
    buf_init(&begun, LIMIT_BODY);
    enum status st = ollama_translate(rq, body, &conversation, &begun, e);
    if (st == ST_OK)
        st = take_turns(srv, rq, &conversation, &begun, job, e);
    buf_release(&conversation);
    buf_release(&begun);
    return st;
}

/* The reply ends where the window does. One that is larger than the server's is the server's, as with Ollama, where a
 * model has no more context than it was made with. */
static enum status limit_window(const struct server *srv, const struct ollama_request *rq, struct reply_job *job,
                                struct err *e)
{
    const size_t n = job->prompts[0].n;
    if (rq->window && rq->window < engine_context(srv->engine)) {
        if (n >= rq->window)
            return err_set(e, ST_TOO_LONG, "options.num_ctx", "the prompt has %zu tokens, but options.num_ctx is %u", n,
                           rq->window);
        const uint32_t room = rq->window - (uint32_t)n;
        if (!job->max_tokens || job->max_tokens > room)
            job->max_tokens = room;
    }
    server_fit_context(srv, job);
    return ST_OK;
}

/* Without a prompt if the request asks for nothing but that the model be there. */
static enum status prepare(const struct server *srv, struct text_view body, bool chat, struct reply_job *job,
                           struct err *e)
{
    struct ollama_request rq;
    job->fill = srv->fill;
    TRY(ollama_parse(job->root, body, chat, job, &rq, e));
    if (rq.nothing)
        return ST_OK;
    const bool prompt = rq.raw || (!chat && !(srv->chat && chat_has_template(srv->chat)));
    if (rq.suffix.n)
        TRY(encode_gap(srv, &rq, job, e));
    else
        TRY(prompt ? encode_prompt(srv, &rq, job, e) : prepare_turns(srv, body, &rq, job, e));
    if (rq.format.field)
        TRY(server_constrain(srv, &rq.format, job, e));
    if (chat)
        openai_name_messages(job->root, job);
    return limit_window(srv, &rq, job, e);
}

static enum status prepare_chat(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    return prepare(srv, body, true, job, e);
}

static enum status prepare_generate(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    return prepare(srv, body, false, job, e);
}

static void reply_loaded(struct http_call *call, bool chat)
{
    struct buf out;
    buf_init(&out, 4096);
    ollama_write_loaded(call->app, chat, &out);
    http_reply(call, 200, &out, 0);
    buf_release(&out);
}

static void serve(struct http_call *call, bool chat)
{
    struct reply_job job;
    struct err e;
    server_job_init(&job);
    job.root = ollama_body(call);
    if (!job.root)
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare(chat ? prepare_chat : prepare_generate, call->app, body, &job, &e) != ST_OK)
        ollama_refuse(call, 0, &e);
    else if (!job.prompts_n)
        reply_loaded(call, chat);
    else
        server_reply_run(call, &job, chat ? &ollama_chat_ops : &ollama_generate_ops);
    server_job_release(&job);
}

void ollama_chat(struct http_call *call)
{
    serve(call, true);
}

void ollama_generate(struct http_call *call)
{
    serve(call, false);
}
