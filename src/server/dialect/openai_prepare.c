/* openai_prepare: what a request needs before the engine has it, at low priority where it takes long. */
#include "server/dialect/openai.h"

#define LONG_BODY (16u << 10) /* rendering and encoding less takes a few milliseconds */

void openai_run(size_t bytes, void (*fn)(void *ctx), void *ctx)
{
    if (bytes < LONG_BODY)
        fn(ctx);
    else
        nice_run(fn, ctx);
}

struct prepare {
    openai_preparer *fn;
    const struct server *srv;
    struct text_view body;
    struct reply_job *job;
    struct err *e;
    enum status st;
};

static void prepare(void *ctx)
{
    struct prepare *p = ctx;
    p->st = p->fn(p->srv, p->body, p->job, p->e);
}

enum status openai_prepare_bytes(size_t bytes, openai_preparer *fn, const struct server *srv, struct text_view body,
                                 struct reply_job *job, struct err *e)
{
    struct prepare p = {fn, srv, body, job, e, ST_OK};
    if (srv->facts && srv->facts->mute)
        return err_set(e, ST_UNSUPPORTED, "model", "this model makes vectors of texts and writes none; they are at "
                       "/v1/embeddings");
    openai_run(bytes, prepare, &p);
    return p.st;
}

enum status openai_prepare(openai_preparer *fn, const struct server *srv, struct text_view body, struct reply_job *job,
                           struct err *e)
{
    return openai_prepare_bytes(body.n, fn, srv, body, job, e);
}

void openai_serve(struct http_call *call, openai_preparer *fn, const struct reply_ops *ops)
{
    struct reply_job job;
    struct err e;
    server_job_init(&job);
    job.root = openai_body(call);
    if (!job.root)
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare(fn, call->app, body, &job, &e) == ST_OK)
        server_reply_run(call, &job, ops);
    else
        openai_refuse(call, 0, openai_length_code(&e, ops->prompt_field), &e);
    server_job_release(&job);
}
