/*
 * ollama_embed: POST /api/embed and, for older clients, POST /api/embeddings.
 *
 * A text that is too long is cut, as with Ollama, unless `truncate` is false. An empty input is how a client says that the
 * model should be there: the reply has no vectors.
 */
#include "server/dialect/ollama.h"
#include "server/dialect/vectors.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

static const char *const known[] = {"model", "truncate", "dimensions", "options", "keep_alive", "priority", "deadline_ms",
                                    "cache_salt", NULL};
static const char *const known_embed[] = {"input", NULL}, *const known_embeddings[] = {"prompt", NULL};

static bool is_empty(const json_t *v)
{
    return !v || (json_is_string(v) && !json_string_length(v)) || (json_is_array(v) && !json_array_size(v));
}

static enum status parse_member(const struct server *srv, const json_t *root, const char *field, struct server_vectors *v,
                                struct err *e)
{
    v->cut = true;
    TRY(http_get_bool(root, "truncate", &v->cut, e));
    TRY(ollama_parse_loading(root, &v->window, e));
    TRY(openai_parse_dimensions(srv, root, v, e));
    return is_empty(http_get(root, field)) ? ST_OK : server_vectors_parse(srv, http_get(root, field), field, v, e);
}

static enum status parse_embed(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e)
{
    server_log_ignored_beside("/api/embed", root, known, known_embed);
    return parse_member(srv, root, "input", v, e);
}

static enum status parse_embeddings(const struct server *srv, const json_t *root, struct server_vectors *v, struct err *e)
{
    server_log_ignored_beside("/api/embeddings", root, known, known_embeddings);
    const json_t *prompt = http_get(root, "prompt");
    return prompt && !json_is_string(prompt) ? http_wrong_type(prompt, "prompt", "a string", e)
                                             : parse_member(srv, root, "prompt", v, e);
}

static void write_embed(const struct http_call *call, const json_t *root, struct server_vectors *v, struct buf *out)
{
    const struct server *srv = call->app;
    (void)root;
    buf_adds(out, "{\"model\":");
    http_json_cstr(out, srv->model);
    buf_adds(out, ",\"embeddings\":[");
    for (size_t i = 0; i < v->n && !out->failed; i++) {
        buf_adds(out, i ? "," : "");
        openai_write_vector(v, i, out);
    }
    buf_addf(out, "],\"total_duration\":%llu,\"load_duration\":0,\"prompt_eval_count\":%llu}",
             (unsigned long long)(clock_ns() - call->arrived), (unsigned long long)v->tokens);
}

static void write_embeddings(const struct http_call *call, const json_t *root, struct server_vectors *v, struct buf *out)
{
    (void)call;
    (void)root;
    buf_adds(out, "{\"embedding\":");
    if (v->n)
        openai_write_vector(v, 0, out);
    else
        buf_adds(out, "[]");
    buf_adds(out, "}");
}

static void refuse(struct http_call *call, const struct err *e)
{
    ollama_refuse(call, 0, e);
}

static void serve(struct http_call *call, const struct openai_vectors_ops *ops)
{
    json_t *root = ollama_body(call);
    if (root)
        openai_serve_vectors(call, root, ops);
}

void ollama_embed(struct http_call *call)
{
    static const struct openai_vectors_ops ops = {.parse = parse_embed, .write = write_embed, .refuse = refuse};
    serve(call, &ops);
}

void ollama_embeddings(struct http_call *call)
{
    static const struct openai_vectors_ops ops = {.parse = parse_embeddings, .write = write_embeddings, .refuse = refuse};
    serve(call, &ops);
}
