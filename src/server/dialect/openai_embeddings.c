/* openai_embeddings: POST /v1/embeddings. */
#include <string.h>

#include "server/dialect/vectors.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "base64 is of little-endian floats");

static const char *const known[] = {"model", "input", "encoding_format", "dimensions", "user", "priority",
                                    "deadline_ms", "cache_salt", NULL};

static enum status parse_format(const json_t *root, struct server_vectors *v, struct err *e)
{
    const char *format = "float";
    size_t n = strlen(format);
    TRY(http_get_string(root, "encoding_format", &format, &n, e));
    v->base64 = n == 6 && memcmp(format, "base64", 6) == 0;
    if (!v->base64 && !(n == 5 && memcmp(format, "float", 5) == 0))
        return err_set(e, ST_ARGUMENT, "encoding_format", "encoding_format must be 'float' or 'base64', not '%.40s'",
                       format);
    return ST_OK;
}

static enum status parse(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e)
{
    const char *user;
    size_t n;
    server_log_ignored("/v1/embeddings", root, known);
    TRY(http_get_string(root, "user", &user, &n, e));
    TRY(parse_format(root, v, e));
    TRY(openai_parse_dimensions(srv, root, v, e));
    return server_vectors_parse(srv, http_get(root, "input"), "input", v, e);
}

static void write_reply(const struct http_call *call, const json_t *root, struct server_vectors *v, struct buf *out)
{
    const struct server *srv = call->app;
    (void)root;
    buf_adds(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < v->n && !out->failed; i++) {
        buf_addf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        if (v->base64)
            http_json_base64(out, v->numbers + i * v->size, v->size * sizeof *v->numbers);
        else
            openai_write_vector(v, i, out);
        buf_adds(out, "}");
    }
    buf_adds(out, "],\"model\":");
    http_json_cstr(out, srv->model);
    buf_addf(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}", (unsigned long long)v->tokens,
             (unsigned long long)v->tokens);
}

void openai_embeddings(struct http_call *call)
{
    static const struct openai_vectors_ops ops = {.parse = parse, .write = write_reply, .refuse = openai_refuse_vectors};
    json_t *root = openai_body(call);
    if (root)
        openai_serve_vectors(call, root, &ops);
}
