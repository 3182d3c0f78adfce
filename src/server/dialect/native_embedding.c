/* native_embedding: POST /embedding and /embeddings, llama-server's own address of vectors. */
#include "server/dialect/vectors.h"
#include "server/http/json_in.h"

static const char *const known[] = {"model", "content", "input", "embd_normalize", "priority", "deadline_ms",
                                    "cache_salt", NULL};

static enum status parse(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e)
{
    int64_t norm = 2;
    const char *field = http_get(root, "content") ? "content" : "input";
    server_log_ignored("/embedding", root, known);
    if (http_get(root, "content") && http_get(root, "input"))
        return err_set(e, ST_ARGUMENT, "input", "input is content by another name; only one of them can be there");
    TRY(http_get_int(root, "embd_normalize", INT32_MIN, INT32_MAX, &norm, e));
    if (norm != 2)
        return err_set(e, ST_UNSUPPORTED, "embd_normalize", "embd_normalize can only be 2 in this version: vectors "
                       "have the length 1");
    return server_vectors_parse(srv, http_get(root, field), field, v, e);
}

/* A list of vectors for each text, though there is only one. */
static void write_reply(const struct http_call *call, const json_t *root, struct server_vectors *v, struct buf *out)
{
    (void)call;
    (void)root;
    buf_adds(out, "[");
    for (size_t i = 0; i < v->n && !out->failed; i++) {
        buf_addf(out, "%s{\"index\":%zu,\"embedding\":[", i ? "," : "", i);
        openai_write_vector(v, i, out);
        buf_adds(out, "]}");
    }
    buf_adds(out, "]");
}

void native_embedding(struct http_call *call)
{
    static const struct openai_vectors_ops ops = {.parse = parse, .write = write_reply, .refuse = openai_refuse_vectors};
    json_t *root = openai_body(call);
    if (root)
        openai_serve_vectors(call, root, &ops);
}
