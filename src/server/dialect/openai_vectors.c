/* openai_vectors: what all addresses of vectors have in common. See vectors.h. */
#include <string.h>

#include "server/dialect/vectors.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

#define FLOAT_BYTES 16u /* of a number in a list, at most: "-1.23456789e-05," */
#define BASE64_BYTES 6u /* of one in base64, rounded up */

struct parse {
    const struct openai_vectors_ops *ops;
    const struct server *srv;
    const json_t *root;
    struct server_vectors *v;
    struct err *e;
    enum status st;
};

static void parse(void *ctx)
{
    struct parse *p = ctx;
    p->st = p->ops->parse(p->srv, p->root, p->v, p->e);
}

/* A model that ranks makes no vectors that could be compared, and the other way round. */
static enum status check_kind(const struct server *srv, bool ranks, struct err *e)
{
    const bool can = engine_pooling(srv->engine) == POOLING_RANK;
    if (ranks && !can)
        return err_set(e, ST_UNSUPPORTED, "model", "this model does not rank documents; one whose file says pooling type "
                       "rank, and has the tensor cls.output.weight, does");
    if (!ranks && can)
        return err_set(e, ST_UNSUPPORTED, "model", "this model ranks documents (/v1/rerank) and makes no vectors; "
                       "`--pooling last` would let it make some");
    return ST_OK;
}

/* priority, deadline_ms and cache_salt, which no API of vectors has. */
static enum status parse_service(const json_t *root, struct server_vectors *v, struct err *e)
{
    struct server_name salt = {0};
    TRY(openai_parse_service(root, &v->priority, &v->deadline_ms, &salt, e));
    if (salt.n)
        memcpy(v->salt, salt.s, salt.n);
    v->salt_n = salt.n;
    return ST_OK;
}

static enum status prepare(struct http_call *call, const json_t *root, const struct openai_vectors_ops *ops,
                           struct server_vectors *v, struct err *e)
{
    struct parse p = {.ops = ops, .srv = call->app, .root = root, .v = v, .e = e};
    TRY(check_kind(p.srv, ops->ranks, e));
    TRY(parse_service(root, v, e));
    openai_run(call->body.len, parse, &p);
    return p.st;
}

/* What the work comes to is found out before it begins: the reply has to have room, and so has what is kept until then. */
static enum status reserve(struct http_call *call, const struct openai_vectors_ops *ops, const struct server_vectors *v,
                           struct err *e)
{
    const struct server *srv = call->app;
    const size_t size = engine_vector_size(srv->engine), kept = size * sizeof *v->numbers;
    const size_t numbers = ops->ranks ? 0 : v->most ? v->most : size;
    const size_t told = numbers * (v->base64 ? BASE64_BYTES : FLOAT_BYTES);
    if (mem_mul(v->n, told > kept ? told : kept) > LIMIT_REPLY)
        return err_set(e, ST_TOO_LONG, "", "the vectors of %zu texts can be more than the %u bytes of one reply; send "
                       "fewer at a time", v->n, LIMIT_REPLY);
    return http_hold(call, v->n * kept + v->tokens * sizeof(tok_id) + (v->documents ? call->body.len : 0), e);
}

struct writing {
    const struct http_call *call;
    const json_t *root;
    const struct openai_vectors_ops *ops;
    struct server_vectors *v;
    struct buf *out;
};

static void write_reply(void *ctx)
{
    struct writing *w = ctx;
    if (w->v->most && !w->ops->ranks)
        server_vectors_shorten(w->v, w->v->most);
    w->ops->write(w->call, w->root, w->v, w->out);
}

static void reply(struct http_call *call, const json_t *root, const struct openai_vectors_ops *ops,
                  struct server_vectors *v)
{
    struct buf out;
    struct writing w = {call, root, ops, v, &out};
    buf_init(&out, LIMIT_REPLY);
    openai_run(v->n * v->size * sizeof *v->numbers, write_reply, &w);
    if (out.failed) {
        struct err e;
        (void)err_set(&e, ST_TOO_LONG, "", "the reply would have more than %u bytes", LIMIT_REPLY);
        ops->refuse(call, &e);
    } else {
        http_reply(call, 200, &out, 0);
    }
    buf_release(&out);
}

void openai_serve_vectors(struct http_call *call, json_t *root, const struct openai_vectors_ops *ops)
{
    struct server_vectors v;
    struct err e;
    server_vectors_init(&v);
    enum status st = prepare(call, root, ops, &v, &e);
    bool there = true;
    if (st == ST_OK)
        st = reserve(call, ops, &v, &e);
    if (!v.documents) {
        json_decref(root);
        root = NULL;
    }
    if (st == ST_OK) {
        http_drop_body(call);
        there = server_vectors_run(call, &v, &e);
        st = e.code;
    }
    if (there && st == ST_OK)
        reply(call, root, ops, &v);
    else if (there)
        ops->refuse(call, &e);
    server_vectors_release(&v);
    json_decref(root);
}

void openai_refuse_vectors(struct http_call *call, const struct err *e)
{
    openai_refuse(call, 0, e->code == ST_NEVER_FITS ? "context_length_exceeded" : NULL, e);
}

enum status openai_parse_dimensions(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e)
{
    const uint32_t size = engine_vector_size(srv->engine);
    int64_t dimensions = 0;
    TRY(http_get_int(root, "dimensions", 1, UINT32_MAX, &dimensions, e));
    if (!size) /* the engine will say why */
        return ST_OK;
    if (dimensions > size)
        return err_set(e, ST_ARGUMENT, "dimensions", "dimensions is %lld, but this model's vectors have %u numbers",
                       (long long)dimensions, size);
    if (dimensions && dimensions < size && !(srv->facts && srv->facts->matryoshka))
        return err_set(e, ST_UNSUPPORTED, "dimensions", "this model was not made for shorter vectors: dimensions can only "
                       "be %u", size);
    v->most = dimensions < size ? (uint32_t)dimensions : 0;
    return ST_OK;
}

void openai_write_vector(const struct server_vectors *v, size_t i, struct buf *out)
{
    const float *x = v->numbers + i * v->size;
    buf_adds(out, "[");
    for (uint32_t k = 0; k < v->size && !out->failed; k++) {
        buf_adds(out, k ? "," : "");
        http_json_float(out, x[k]);
    }
    buf_adds(out, "]");
}
