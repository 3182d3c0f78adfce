/* routes: every address of the server, and the handlers that belong to no dialect. */
#include "server/dialect/anthropic.h"
#include "server/dialect/native.h"
#include "server/dialect/ollama.h"
#include "server/dialect/openai.h"
#include "server/dialect/responses.h"
#include "server/http/json_out.h"
#include "server/private.h"

#include <string.h>

static void health(struct http_call *call)
{
    const struct server *srv = call->app;
    uint32_t running = 0, waiting = 0;
    struct buf body;
    engine_load(srv->engine, &running, &waiting);
    bool stopping = http_stopping(srv->http);
    buf_init(&body, 4096);
    buf_addf(&body, "{\"status\":\"%s\",\"running\":%u,\"waiting\":%u}", stopping ? "stopping" : "ok", running, waiting);
    http_reply(call, stopping ? 503 : 200, &body, 0);
    buf_release(&body);
}

const struct http_route server_routes[] = {
    {"GET", "/", server_web, false},
    {"GET", "/web/", server_web, false},
    {"GET", "/health", health, true},
    {"GET", "/metrics", server_metrics, true},
    {"GET", "/v1/ffwd/rows", server_rows, true},
    {"GET", "/v1/models", openai_models, false},
    {"GET", "/v1/models/", openai_model, false},
    {"POST", "/v1/chat/completions", openai_chat, false},
    {"POST", "/v1/completions", openai_completions, false},
    {"POST", "/v1/responses", responses_create, false},
    {"POST", "/v1/responses/input_tokens", responses_input_tokens, false},
    {"GET", "/v1/responses/", responses_get, false},
    {"DELETE", "/v1/responses/", responses_delete, false},
    {"POST", "/v1/messages", anthropic_messages, false},
    {"POST", "/v1/messages/count_tokens", anthropic_count_tokens, false},
    {"POST", "/completion", native_completion, false},
    {"POST", "/completions", native_completion, false},
    {"GET", "/props", native_props, false},
    {"GET", "/slots", native_slots, false},
    {"POST", "/tokenize", native_tokenize, false},
    {"POST", "/detokenize", native_detokenize, false},
    {"POST", "/apply-template", native_apply_template, false},
    {"POST", "/v1/chat/completions/input_tokens", native_count, false},
    {"POST", "/v1/ffwd/count", native_count, false},
    {"POST", "/v1/ffwd/explain", native_explain, false},
    {"POST", "/api/chat", ollama_chat, false},
    {"POST", "/api/generate", ollama_generate, false},
    {"GET", "/api/tags", ollama_tags, false},
    {"GET", "/api/ps", ollama_ps, false},
    {"POST", "/api/show", ollama_show, false},
    {"GET", "/api/version", ollama_version, false},
    {NULL, NULL, NULL, false},
};

/* Before there is a handler, the header that Anthropic's clients send tells them from all others, and Ollama's addresses
 * theirs. */
void server_refuse(struct http_call *call, int status, const struct err *e)
{
    if (http_header(call, "anthropic-version"))
        anthropic_refuse(call, status, e);
    else if (strncmp(call->path, "/api/", 5) == 0)
        ollama_refuse(call, status, e);
    else
        openai_refuse(call, status, NULL, e);
}
