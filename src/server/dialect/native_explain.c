/* native_explain: POST /v1/ffwd/explain: how a request would be served, and why, without running it; what `ffwd
 * explain` says. */
#include "server/dialect/native.h"
#include "server/http/json_in.h"

static void write_explained(const struct request *rq, const struct plan *p, const char *relaxed, struct buf *out)
{
    buf_addf(out, "{\"prompt_tokens\":%u,\"max_tokens\":%u,\"constrained\":%s,", rq->prompt_n, rq->max_tokens,
             rq->grammar ? "true" : "false");
    buf_adds(out, "\"relaxed\":");
    buf_adds(out, relaxed);
    buf_addf(out, ",\"template_rows\":%zu,\"fill\":\"%s\",", rq->rows ? template_rows_n(rq->rows) : 0,
             server_fill_name(rq->fill));
    openai_plan(p, out);
    buf_adds(out, "}");
}

static enum status explain(const struct server *srv, struct text_view body, struct buf *out, struct err *e)
{
    struct server_asked *asked;
    struct plan p;
    TRY(server_ask(srv, body.data, body.n, &asked, e));
    const struct request *rq = server_asked_request(asked);
    enum status st = engine_plan(srv->engine, rq, &p, e);
    if (st == ST_OK)
        write_explained(rq, &p, server_asked_relaxed(asked), out);
    server_asked_free(asked);
    return st;
}

struct explaining {
    const struct http_call *call;
    struct buf out;
    struct err e;
    enum status st;
};

static void explain_call(void *ctx)
{
    struct explaining *x = ctx;
    x->st = explain(x->call->app, (struct text_view){x->call->body.data, x->call->body.len}, &x->out, &x->e);
}

void native_explain(struct http_call *call)
{
    struct explaining x = {.call = call};
    json_t *root = openai_body(call);
    if (!root)
        return;
    json_decref(root); /* it names this model; the rest is read as for the command line */
    buf_init(&x.out, LIMIT_RELAXED + (1u << 16));
    openai_run(call->body.len, explain_call, &x);
    if (x.st == ST_OK)
        http_reply(call, 200, &x.out, 0);
    else
        openai_refuse(call, 0, x.e.code == ST_NEVER_FITS ? "context_length_exceeded" : NULL, &x.e);
    buf_release(&x.out);
}
