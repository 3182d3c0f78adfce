/* routes: every address of the server, and the handlers that belong to no dialect. */
#include "server/dialect/anthropic.h"
#include "server/dialect/native.h"
#include "server/dialect/ollama.h"
#include "server/dialect/openai.h"
#include "server/dialect/responses.h"
#include "server/dialect/vectors.h"
#include "server/http/json_out.h"
#include "server/private.h"

#include <string.h>

static void health(struct http_call *call)
{
    const struct server *srv = call->app;
    uint32_t running = 0, waiting = 0;
    struct buf body;
    engine_load(srv->engine, &running, &waiting);
    bool stopping = http_stopping(call->http);
    buf_init(&body, 4096);
    buf_addf(&body, "{\"status\":\"%s\",\"running\":%u,\"waiting\":%u}", stopping ? "stopping" : "ok", running, waiting);
    http_reply(call, stopping ? 503 : 200, &body, 0);
    buf_release(&body);
}

const struct http_route server_routes[] = {
    {"GET", "/", server_web, HTTP_OPEN},
    {"GET", "/web/", server_web, HTTP_OPEN},
    {"GET", "/openapi.json", server_description, HTTP_OPEN},
    {"GET", "/health", health, HTTP_WHILE_STOPPING | HTTP_OPEN},
    {"GET", "/metrics", server_metrics, HTTP_WHILE_STOPPING},
    {"GET", "/v1/ffwd/rows", server_rows, HTTP_WHILE_STOPPING},
    {"GET", "/v1/models", openai_models, 0},
    {"GET", "/v1/models/", openai_model, 0},
    {"POST", "/v1/chat/completions", openai_chat, 0},
    {"POST", "/v1/completions", openai_completions, 0},
    {"POST", "/v1/responses", responses_create, 0},
    {"POST", "/v1/responses/input_tokens", responses_input_tokens, 0},
    {"GET", "/v1/responses/", responses_get, 0},
    {"DELETE", "/v1/responses/", responses_delete, 0},
    {"POST", "/v1/messages", anthropic_messages, 0},
    {"POST", "/v1/messages/count_tokens", anthropic_count_tokens, 0},
    {"POST", "/v1/embeddings", openai_embeddings, 0},
    {"POST", "/embedding", native_embedding, 0},
    {"POST", "/embeddings", native_embedding, 0},
    {"POST", "/v1/rerank", native_rerank, 0},
    {"POST", "/rerank", native_rerank, 0},
    {"POST", "/v1/reranking", native_rerank, 0},
    {"POST", "/reranking", native_rerank, 0},
    {"POST", "/completion", native_completion, 0},
    {"POST", "/completions", native_completion, 0},
    {"POST", "/infill", native_infill, 0},
    {"GET", "/props", native_props, 0},
    {"GET", "/slots", native_slots, 0},
    {"POST", "/tokenize", native_tokenize, 0},
    {"POST", "/detokenize", native_detokenize, 0},
    {"POST", "/apply-template", native_apply_template, 0},
    {"POST", "/v1/chat/completions/input_tokens", native_count, 0},
    {"POST", "/v1/ffwd/count", native_count, 0},
    {"POST", "/v1/ffwd/explain", native_explain, 0},
    {"POST", "/api/chat", ollama_chat, 0},
    {"POST", "/api/generate", ollama_generate, 0},
    {"POST", "/api/embed", ollama_embed, 0},
    {"POST", "/api/embeddings", ollama_embeddings, 0},
    {"GET", "/api/tags", ollama_tags, 0},
    {"GET", "/api/ps", ollama_ps, 0},
    {"POST", "/api/show", ollama_show, 0},
    {"GET", "/api/version", ollama_version, 0},
    {NULL, NULL, NULL, 0},
};

static bool is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Before there is a handler, addresses tell Anthropic's and Ollama's clients from all others, and where there is no such
 * address the header that Anthropic's send. */
void server_refuse(struct http_call *call, int status, const struct err *e)
{
    if (is_below(call->path, "/v1/messages") || http_header(call, "anthropic-version"))
        anthropic_refuse(call, status, e);
    else if (is_below(call->path, "/api"))
        ollama_refuse(call, status, e);
    else
        openai_refuse(call, status, status == 401 ? "invalid_api_key" : status == 429 ? "rate_limit_exceeded" : NULL, e);
}
