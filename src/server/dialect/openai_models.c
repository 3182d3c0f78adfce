/* openai_models: GET /v1/models and /v1/models/{id}. */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_out.h"

static void write_model(const struct server *srv, struct buf *out)
{
    buf_adds(out, "{\"id\":");
    http_json_cstr(out, srv->model);
    buf_adds(out, ",\"object\":\"model\",\"created\":");
    http_json_u64(out, (uint64_t)srv->started);
    buf_addf(out, ",\"owned_by\":\"ffwd\",\"context_length\":%u}", engine_context(srv->engine));
}

void openai_models(struct http_call *call)
{
    struct buf body;
    buf_init(&body, 1u << 16);
    buf_adds(&body, "{\"object\":\"list\",\"data\":[");
    write_model(call->app, &body);
    buf_adds(&body, "]}");
    http_reply(call, 200, &body, 0);
    buf_release(&body);
}

void openai_model(struct http_call *call)
{
    const struct server *srv = call->app;
    struct buf body;
    struct err e;
    if (strcmp(call->path_rest, srv->model) != 0) {
        (void)err_set(&e, ST_ARGUMENT, "model", "there is no model '%.80s' here, only '%.80s'", call->path_rest,
                      srv->model);
        openai_refuse(call, 404, "model_not_found", &e);
        return;
    }
    buf_init(&body, 1u << 16);
    write_model(srv, &body);
    http_reply(call, 200, &body, 0);
    buf_release(&body);
}
