/* openai_error: errors in the shape of the OpenAI API. */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_out.h"

int openai_status(enum status code)
{
    switch (code) {
    case ST_ARGUMENT:
    case ST_TOO_LONG:
    case ST_NEVER_FITS:
    case ST_UNSUPPORTED:
        return 400;
    case ST_BUSY:
        return 429;
    case ST_NO_MEMORY:
    case ST_CANCELLED:
        return 503;
    case ST_DEADLINE:
        return 504;
    default:
        return 500;
    }
}

static const char *type_of(int status)
{
    if (status == 429)
        return "rate_limit_error";
    if (status >= 500)
        return status == 503 ? "overloaded_error" : "server_error";
    return "invalid_request_error";
}

/* NULL where the API has none. */
static const char *code_of(int status, enum status code)
{
    if (status == 404 || status == 405 || code == ST_ARGUMENT || code == ST_OK)
        return NULL;
    return code == ST_BUSY ? "queue_full" : status_name(code);
}

void openai_error_body(struct buf *out, int status, const char *code, const struct err *e)
{
    buf_adds(out, "{\"error\":{\"message\":");
    http_json_cstr(out, e->text);
    buf_adds(out, ",\"type\":");
    http_json_cstr(out, type_of(status));
    buf_adds(out, ",\"param\":");
    http_json_cstr(out, e->field[0] ? e->field : NULL);
    buf_adds(out, ",\"code\":");
    http_json_cstr(out, code ? code : code_of(status, e->code));
    buf_adds(out, "}}");
}

void openai_refuse(struct http_call *call, int status, const char *code, const struct err *e)
{
    struct buf body;
    int retry = e->retry_after;
    if (!status)
        status = openai_status(e->code);
    if ((status == 429 || status == 503) && retry <= 0)
        retry = 1;
    buf_init(&body, 4096);
    openai_error_body(&body, status, code, e);
    http_reply(call, status, &body, status == 429 || status == 503 ? retry : 0);
    buf_release(&body);
}

const char *openai_length_code(const struct err *e, const char *field)
{
    return e->code == ST_NEVER_FITS && strcmp(e->field, field) == 0 ? "context_length_exceeded" : NULL;
}

void openai_refuse_reply(struct http_call *call, const struct err *e, bool submitting)
{
    const struct reply *r = call->data;
    struct err named = *e;
    bool length = submitting && (e->code == ST_TOO_LONG || e->code == ST_NEVER_FITS);
    if (length && r && (!e->field[0] || e->code == ST_TOO_LONG))
        (void)err_set(&named, e->code, r->ops->prompt_field, "%s", e->text);
    openai_refuse(call, 0, length ? "context_length_exceeded" : NULL, &named);
}

void openai_broken(struct reply *r, struct buf *out)
{
    r->call->failure = status_name(r->err.code);
    buf_adds(out, "data: ");
    openai_error_body(out, openai_status(r->err.code), NULL, &r->err);
    buf_adds(out, "\n\n");
}
