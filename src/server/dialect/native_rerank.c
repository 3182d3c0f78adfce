/* native_rerank: POST /v1/rerank, /rerank, /v1/reranking and /reranking: documents in the order of how well they answer. */
#include <stdio.h>
#include <stdlib.h>

#include "server/dialect/vectors.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"
#include "server/rerank.h"

static const char *const known[] = {"model", "query", "documents", "top_n", "return_documents", "priority", "deadline_ms",
                                    "cache_salt", NULL};

/* A document is a text, or an object that has one. */
static const json_t *text_of(const json_t *document)
{
    const json_t *text = json_is_object(document) ? http_get(document, "text") : document;
    return json_is_string(text) ? text : NULL;
}

static enum status add_document(const struct server *srv, const json_t *document, size_t i, struct text_view query,
                                struct server_vectors *v, struct err *e)
{
    const json_t *text = text_of(document);
    char field[ERR_FIELD];
    tok_id *ids;
    size_t n;
    snprintf(field, sizeof field, "documents[%zu]", i);
    if (!text)
        return http_wrong_type(document, field, "a string, or an object with the string `text`", e);
    const struct text_view view = {json_string_value(text), json_string_length(text)};
    TRY(server_check_bytes(srv, view.n, field, field, e));
    TRY(server_rerank_prompt(srv->rerank, srv->tok, query, view, field, &ids, &n, e));
    return server_vectors_take(srv, v, ids, n, field, e);
}

static enum status parse(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e)
{
    const json_t *documents = http_get(root, "documents");
    const size_t n = json_array_size(documents);
    struct text_view query = {NULL, 0};
    int64_t top = 0;
    server_log_ignored("/v1/rerank", root, known);
    if (!srv->rerank)
        return err_set(e, ST_UNSUPPORTED, "model", "the model's file has no template for reranking that this version can "
                       "use (tokenizer.chat_template.rerank)");
    TRY(http_get_string(root, "query", &query.data, &query.n, e));
    if (!query.n)
        return err_set(e, ST_ARGUMENT, "query", "query is missing or empty");
    TRY(server_check_bytes(srv, query.n, "query", "query", e));
    if (!json_is_array(documents) || !n)
        return err_set(e, ST_ARGUMENT, "documents", "documents must be a list of at least one");
    TRY(http_get_int(root, "top_n", 1, UINT32_MAX, &top, e));
    TRY(http_get_bool(root, "return_documents", &v->documents, e));
    v->most = (uint32_t)top;
    TRY(server_vectors_room(v, n, "documents", e));
    for (size_t i = 0; i < n; i++)
        TRY(add_document(srv, json_array_get(documents, i), i, query, v, e));
    return ST_OK;
}

/* ---- the reply ---- */

struct result {
    size_t index;
    float score;
};

/* The best first; of equal ones the first. */
static int compare(const void *a, const void *b)
{
    const struct result *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void write_result(const struct result *r, const json_t *documents, struct buf *out)
{
    buf_addf(out, "{\"index\":%zu,\"relevance_score\":", r->index);
    http_json_float(out, r->score);
    if (documents) {
        const json_t *text = text_of(json_array_get(documents, r->index));
        buf_adds(out, ",\"document\":{\"text\":");
        http_json_str(out, json_string_value(text), json_string_length(text));
        buf_adds(out, "}");
    }
    buf_adds(out, "}");
}

/* The first class is that of documents that answer. */
static void write_reply(const struct http_call *call, const json_t *root, struct server_vectors *v, struct buf *out)
{
    const struct server *srv = call->app;
    const json_t *documents = v->documents ? http_get(root, "documents") : NULL;
    const size_t n = v->most && v->most < v->n ? v->most : v->n;
    struct result *all = calloc(v->n, sizeof *all);
    if (!all) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < v->n; i++)
        all[i] = (struct result){i, v->numbers[i * v->size]};
    qsort(all, v->n, sizeof *all, compare);
    buf_adds(out, "{\"object\":\"list\",\"model\":");
    http_json_cstr(out, srv->model);
    buf_addf(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu},\"results\":[", (unsigned long long)v->tokens,
             (unsigned long long)v->tokens);
    for (size_t i = 0; i < n && !out->failed; i++) {
        buf_adds(out, i ? "," : "");
        write_result(&all[i], documents, out);
    }
    buf_adds(out, "]}");
    free(all);
}

void native_rerank(struct http_call *call)
{
    static const struct openai_vectors_ops ops = {
        .ranks = true, .parse = parse, .write = write_reply, .refuse = openai_refuse_vectors};
    json_t *root = openai_body(call);
    if (root)
        openai_serve_vectors(call, root, &ops);
}
