/* anthropic: the handlers of the Messages API. See anthropic.h. */
#include "server/dialect/anthropic.h"

#include <stdlib.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

#define MOST_TRANSLATED (2 * (size_t)LIMIT_BODY) /* bytes of a conversation in chat's shape */

/* ---- the prompt ---- */

/* Of a translation, errors name places that the client does not know: those are checked before, so what is left is about
 * the conversation as a whole. */
static enum status render(const struct server *srv, const struct anthropic_request *rq, const struct buf *conversation,
                          struct reply_job *job, struct err *e)
{
    struct reply_prompt *p = &job->prompts[0];
    const struct chat_options o = {.hide_tools = rq->hidden, .max_bytes = srv->prompt_bytes};
    if (!srv->chat)
        return err_set(e, ST_UNSUPPORTED, "messages", "this model cannot chat");
    enum status st = chat_prompt(srv->chat, conversation->data, conversation->len, &o, &p->ids, &p->n, e);
    if (st != ST_OK) {
        if (strncmp(e->field, "messages[", 9) == 0)
            memcpy(e->field, "messages", sizeof "messages");
        return st;
    }
    p->from_tok = true;
    job->prompts_n = 1;
    return ST_OK;
}

/* ---- thinking ---- */

/* A model that is told not to think but opens its thinking all the same closes it at once. */
static enum status limit_thinking(const struct server *srv, const struct anthropic_request *rq, bool begun,
                                  struct reply_job *job, struct err *e)
{
    if (begun && (rq->thinking >= THINKING_FREE || job->recognise.in_reasoning))
        return err_set(e, ST_ARGUMENT, "messages", "a reply that thinks first cannot begin with the last message's text");
    if (rq->thinking == THINKING_BUDGET)
        return server_limit_thinking(srv, rq->budget, "thinking.budget_tokens", job, e);
    if (rq->thinking == THINKING_OFF && job->recognise.in_reasoning)
        return server_limit_thinking(srv, 0, "thinking", job, e);
    return ST_OK;
}

/* ---- calls and shape ---- */

static enum status constrain_calls(const struct server *srv, struct text_view body, const struct anthropic_request *rq,
                                   const struct format_shape *shape, struct reply_job *job, struct err *e)
{
    struct format_tool *list = calloc(rq->tools, sizeof *list);
    if (!list)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory for %u tools", rq->tools);
    const struct server_calls calls = {
        .tools = list,
        .n = rq->tools,
        .strict = rq->strict,
        .choice = rq->choice,
        .named = rq->named,
        .parallel = rq->parallel,
        .shape = shape,
        .schema_field = "input_schema",
        .choice_field = "tool_choice",
    };
    anthropic_list_tools(job->root, body, list);
    enum status st = server_constrain_calls(srv, &calls, job, e);
    free(list);
    return st;
}

static enum status constrain(const struct server *srv, struct text_view body, const struct anthropic_request *rq,
                             const struct buf *conversation, const struct buf *begun, struct reply_job *job,
                             struct err *e)
{
    const struct text_view request = {conversation->data, conversation->len};
    const bool calls = rq->tools && !rq->hidden;
    struct format_shape shape;
    if (rq->format.field && begun->len)
        return err_set(e, ST_ARGUMENT, "messages", "output_config.format is about the whole reply, which cannot begin with "
                       "the last message's text then");
    TRY(render(srv, rq, conversation, job, e));
    TRY(server_recognise(srv, request, calls, job, &shape, e));
    TRY(limit_thinking(srv, rq, begun->len != 0, job, e));
    if (calls)
        TRY(constrain_calls(srv, body, rq, &shape, job, e));
    if (rq->format.field)
        TRY(server_constrain(srv, &rq->format, job, e));
    if (begun->len)
        TRY(server_prompt_append(srv, begun->data, begun->len, "messages", &job->prompts[0], e));
    return ST_OK;
}

static enum status prepare(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct anthropic_request rq;
    struct buf conversation, begun;
    buf_init(&conversation, MOST_TRANSLATED);
    buf_init(&begun, LIMIT_BODY);
    job->fill = srv->fill;
    enum status st = anthropic_parse(job->root, body, job, &rq, e);
    if (st == ST_OK)
        st = anthropic_translate(&rq, body, &conversation, &begun, e);
    if (st == ST_OK)
        st = constrain(srv, body, &rq, &conversation, &begun, job, e);
    if (st == ST_OK) {
        anthropic_name_messages(job->root, job);
        server_fit_context(srv, job); /* max_tokens is a ceiling that clients have to give */
    }
    buf_release(&conversation);
    buf_release(&begun);
    return st;
}

/* ---- the handlers ---- */

/* The body, parsed; NULL: refused. */
static json_t *parse_body(struct http_call *call)
{
    struct err e;
    json_t *root;
    bool other = false;
    if (http_json_parse(call->body.data, call->body.len, &root, &e) != ST_OK) {
        anthropic_refuse(call, 0, &e);
        return NULL;
    }
    if (openai_check_model(call->app, root, &other, &e) != ST_OK) {
        anthropic_refuse(call, other ? 404 : 0, &e);
        json_decref(root);
        return NULL;
    }
    return root;
}

void anthropic_messages(struct http_call *call)
{
    struct reply_job job;
    struct err e;
    server_job_init(&job);
    job.root = parse_body(call);
    if (!job.root)
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare(prepare, call->app, body, &job, &e) == ST_OK)
        server_reply_run(call, &job, &anthropic_ops);
    else
        anthropic_refuse(call, 0, &e);
    server_job_release(&job);
}

static enum status count(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct anthropic_request rq;
    struct buf conversation, begun;
    buf_init(&conversation, MOST_TRANSLATED);
    buf_init(&begun, LIMIT_BODY);
    enum status st = anthropic_parse_counted(job->root, body, &rq, e);
    if (st == ST_OK)
        st = anthropic_translate(&rq, body, &conversation, &begun, e);
    if (st == ST_OK)
        st = render(srv, &rq, &conversation, job, e);
    if (st == ST_OK && begun.len)
        st = server_prompt_append(srv, begun.data, begun.len, "messages", &job->prompts[0], e);
    buf_release(&conversation);
    buf_release(&begun);
    return st;
}

void anthropic_count_tokens(struct http_call *call)
{
    struct reply_job job;
    struct err e;
    server_job_init(&job);
    job.root = parse_body(call);
    if (!job.root)
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare(count, call->app, body, &job, &e) == ST_OK) {
        struct buf out;
        buf_init(&out, 100);
        buf_addf(&out, "{\"input_tokens\":%zu}", job.prompts[0].n);
        server_write_id(call->id, sizeof call->id, anthropic_ops.id_prefix);
        http_reply(call, 200, &out, 0);
        buf_release(&out);
    } else {
        anthropic_refuse(call, 0, &e);
    }
    server_job_release(&job);
}
