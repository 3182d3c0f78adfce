/* responses: the handlers of the Responses API. See responses.h. */
#include "server/dialect/responses.h"

#include <stdlib.h>
#include <string.h>

#include "server/http/json_in.h"

#define MOST_TRANSLATED (2 * ((size_t)LIMIT_BODY + LIMIT_RESPONSES_BYTES)) /* bytes of a conversation in chat's shape */

/* ---- what a request continues ---- */

static enum status find_previous(const struct responses_request *rq, struct responses_own *own, struct err *e)
{
    static const char field[] = "previous_response_id";
    const struct server_name owner = {own->owner, sizeof own->owner};
    if (!rq->previous.s)
        return ST_OK;
    if (own->store)
        own->before = server_responses_find(own->store, owner, rq->previous);
    own->lost = !own->before;
    if (own->lost)
        return err_set(e, ST_ARGUMENT, field, "there is no response '%.60s' here (any more); send its items as input",
                       rq->previous.s);
    if (own->before->turns >= LIMIT_RESPONSE_TURNS)
        return err_set(e, ST_TOO_LONG, field, "the conversation has %u responses already; send its items as input",
                       LIMIT_RESPONSE_TURNS);
    return ST_OK;
}

/* ---- the prompt ---- */

/* Of a translation, errors name places that the client does not know: those are checked before, so what is left is about
 * the conversation as a whole. */
static enum status render(const struct server *srv, const struct buf *conversation, struct reply_job *job, struct err *e)
{
    struct reply_prompt *p = &job->prompts[0];
    const struct chat_options o = {.max_bytes = srv->prompt_bytes};
    if (!srv->chat)
        return err_set(e, ST_UNSUPPORTED, "input", "this model cannot chat; use /v1/completions");
    enum status st = chat_prompt(srv->chat, conversation->data, conversation->len, &o, &p->ids, &p->n, e);
    if (st != ST_OK) {
        if (strncmp(e->field, "messages", 8) == 0)
            memcpy(e->field, "input", sizeof "input");
        return st;
    }
    p->from_tok = true;
    job->prompts_n = 1;
    return ST_OK;
}

/* From a body to a prompt, with what else job->own and *rq keep of it. */
static enum status write_prompt(const struct server *srv, struct text_view body, const struct responses_request *rq,
                                struct reply_job *job, struct buf *conversation, struct err *e)
{
    TRY(find_previous(rq, job->own, e));
    TRY(responses_take_input(job->root, body, job->own, e));
    TRY(responses_translate(rq, body, job->own, conversation, e));
    return render(srv, conversation, job, e);
}

/* ---- calls and shape ---- */

static enum status constrain_calls(const struct server *srv, struct text_view body, const struct openai_tools *tools,
                                   const struct format_shape *shape, struct reply_job *job, struct err *e)
{
    struct format_tool *list = calloc(tools->n, sizeof *list);
    if (!list)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory for %u tools", tools->n);
    const struct server_calls calls = openai_calls(tools, list, shape, "parameters");
    responses_list_tools(job->root, body, list);
    enum status st = server_constrain_calls(srv, &calls, job, e);
    free(list);
    return st;
}

static enum status constrain(const struct server *srv, struct text_view body, const struct responses_request *rq,
                             const struct buf *conversation, struct reply_job *job, struct err *e)
{
    const struct text_view request = {conversation->data, conversation->len};
    struct format_shape shape;
    TRY(server_recognise(srv, request, rq->tools.n != 0, job, &shape, e));
    TRY(openai_limit_thinking(srv, rq->effort, "reasoning.effort", job, e));
    if (rq->tools.n)
        TRY(constrain_calls(srv, body, &rq->tools, &shape, job, e));
    return rq->format.field ? server_constrain(srv, &rq->format, job, e) : ST_OK;
}

/* Items that no later request asks for are not needed once they are in the prompt. */
static void drop_input(struct responses_own *own)
{
    if (!own->keep || !own->store)
        buf_release(&own->input);
}

static enum status prepare(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct responses_request rq;
    struct buf conversation;
    buf_init(&conversation, MOST_TRANSLATED);
    job->fill = srv->fill;
    enum status st = responses_parse(job->root, body, job, &rq, e);
    if (st == ST_OK)
        st = write_prompt(srv, body, &rq, job, &conversation, e);
    if (st == ST_OK)
        st = constrain(srv, body, &rq, &conversation, job, e);
    if (st == ST_OK) {
        responses_name_items(job->root, job);
        server_fit_context(srv, job); /* max_output_tokens is an upper bound */
    }
    drop_input(job->own);
    buf_release(&conversation);
    return st;
}

/* ---- the handlers ---- */

/* The body and job->own; false: refused. */
static bool begin(struct http_call *call, struct reply_job *job)
{
    const struct server *srv = call->app;
    struct err e;
    server_job_init(job);
    job->root = openai_body(call);
    if (!job->root)
        return false;
    if (responses_own_new(job, &e) != ST_OK) {
        openai_refuse(call, 0, NULL, &e);
        server_job_release(job);
        return false;
    }
    struct responses_own *own = job->own;
    own->store = srv->responses;
    (void)server_owner(call, (struct server_name){0}, own->owner);
    return true;
}

static void refuse(struct http_call *call, const struct reply_job *job, const struct err *e)
{
    const struct responses_own *own = job->own;
    openai_refuse(call, 0, own->lost ? "previous_response_not_found" : openai_length_code(e, "input"), e);
}

/* How much there is to render. What earlier responses add is found on the way, so whoever names one counts as long. */
static size_t to_render(const struct reply_job *job, struct text_view body)
{
    return http_get(job->root, "previous_response_id") || responses_refers(job->root) ? SIZE_MAX : body.n;
}

/* What the reply keeps of the request outlives the body, and counts as one until the reply is sent. */
static void run(struct http_call *call, struct reply_job *job)
{
    const struct responses_own *own = job->own;
    struct err e;
    if (http_hold(call, own->echo.len + own->input.len, &e) == ST_OK)
        server_reply_run(call, job, &responses_ops);
    else
        openai_refuse(call, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, &e);
}

void responses_create(struct http_call *call)
{
    struct reply_job job;
    struct err e;
    if (!begin(call, &job))
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare_bytes(to_render(&job, body), prepare, call->app, body, &job, &e) == ST_OK)
        run(call, &job);
    else
        refuse(call, &job, &e);
    server_job_release(&job);
}

static enum status count(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct responses_request rq;
    struct buf conversation;
    TRY(responses_parse_counted(job->root, body, job, &rq, e));
    buf_init(&conversation, MOST_TRANSLATED);
    enum status st = write_prompt(srv, body, &rq, job, &conversation, e);
    buf_release(&conversation);
    return st;
}

void responses_input_tokens(struct http_call *call)
{
    struct reply_job job;
    struct err e;
    if (!begin(call, &job))
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare_bytes(to_render(&job, body), count, call->app, body, &job, &e) == ST_OK) {
        struct buf out;
        buf_init(&out, 100);
        buf_addf(&out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", job.prompts[0].n);
        http_reply(call, 200, &out, 0);
        buf_release(&out);
    } else {
        refuse(call, &job, &e);
    }
    server_job_release(&job);
}

static void not_found(struct http_call *call, struct server_name id)
{
    struct err e;
    (void)err_set(&e, ST_ARGUMENT, "response_id", "there is no response '%.60s' here (any more)", id.s);
    openai_refuse(call, 404, NULL, &e);
}

void responses_get(struct http_call *call)
{
    struct server *srv = call->app;
    char key[SERVER_OWNER];
    const struct server_name owner = {key, server_owner(call, (struct server_name){0}, key)};
    const struct server_name id = {call->path_rest, strlen(call->path_rest)};
    const char *stream = http_query(call, "stream");
    if (stream && strcmp(stream, "false") != 0) {
        struct err e;
        (void)err_set(&e, ST_UNSUPPORTED, "stream", "a response that is kept cannot be streamed");
        openai_refuse(call, 0, NULL, &e);
        return;
    }
    struct server_response *r = server_responses_find(srv->responses, owner, id);
    if (!r) {
        not_found(call, id);
        return;
    }
    struct buf out;
    buf_init(&out, LIMIT_RESPONSES_BYTES);
    buf_add(&out, r->object.data, r->object.n);
    server_responses_drop(srv->responses, r);
    http_reply(call, 200, &out, 0);
    buf_release(&out);
}

void responses_delete(struct http_call *call)
{
    struct server *srv = call->app;
    char key[SERVER_OWNER];
    const struct server_name owner = {key, server_owner(call, (struct server_name){0}, key)};
    const struct server_name id = {call->path_rest, strlen(call->path_rest)};
    if (!server_responses_remove(srv->responses, owner, id)) {
        not_found(call, id);
        return;
    }
    struct buf out;
    buf_init(&out, 200);
    buf_addf(&out, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}", id.s); /* it is one of ours */
    http_reply(call, 200, &out, 0);
    buf_release(&out);
}
