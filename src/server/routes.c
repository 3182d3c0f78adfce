/* routes: every address of the server, and the handlers that belong to no dialect. */
#include "server/dialect/anthropic.h"
#include "server/dialect/openai.h"
#include "server/http/json_out.h"
#include "server/private.h"

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
    {"GET", "/health", health, HTTP_WHILE_STOPPING | HTTP_OPEN},
    {"GET", "/metrics", server_metrics, HTTP_WHILE_STOPPING},
    {"GET", "/v1/ffwd/rows", server_rows, HTTP_WHILE_STOPPING},
    {"GET", "/v1/models", openai_models, 0},
    {"GET", "/v1/models/", openai_model, 0},
    {"POST", "/v1/chat/completions", openai_chat, 0},
    {"POST", "/v1/completions", openai_completions, 0},
    {"POST", "/v1/messages", anthropic_messages, 0},
    {"POST", "/v1/messages/count_tokens", anthropic_count_tokens, 0},
    {NULL, NULL, NULL, 0},
};

/* Before there is a handler, the header that Anthropic's clients send tells them from all others. */
void server_refuse(struct http_call *call, int status, const struct err *e)
{
    if (http_header(call, "anthropic-version"))
        anthropic_refuse(call, status, e);
    else
        openai_refuse(call, status, status == 401 ? "invalid_api_key" : status == 429 ? "rate_limit_exceeded" : NULL, e);
}
