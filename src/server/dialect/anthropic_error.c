/* anthropic_error: errors in the shape of the Messages API. */
#include <string.h>

#include "server/dialect/anthropic.h"
#include "server/http/json_out.h"

#define OVERLOADED 529 /* the API's own status for a server that has too much to do */

int anthropic_status(enum status code)
{
    switch (code) {
    case ST_ARGUMENT:
    case ST_TOO_LONG:
    case ST_NEVER_FITS:
    case ST_UNSUPPORTED:
        return 400;
    case ST_BUSY:
    case ST_NO_MEMORY:
    case ST_CANCELLED:
        return OVERLOADED;
    case ST_DEADLINE:
        return 504;
    default:
        return 500;
    }
}

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
    case OVERLOADED:
        return "overloaded_error";
    case 504:
        return "timeout_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

/* The API has no member for the field, so the message begins with it unless it names it anyway. */
void anthropic_error_body(struct buf *out, int status, const char *id, const struct err *e)
{
    struct buf text;
    buf_init(&text, ERR_FIELD + ERR_TEXT + 2);
    if (e->field[0] && !strstr(e->text, e->field))
        buf_addf(&text, "%s: ", e->field);
    buf_adds(&text, e->text);
    buf_adds(out, "{\"type\":\"error\",\"error\":{\"type\":");
    http_json_cstr(out, type_of(status));
    buf_adds(out, ",\"message\":");
    http_json_str(out, text.data, text.len);
    buf_adds(out, "},\"request_id\":");
    http_json_cstr(out, id);
    buf_adds(out, "}");
    buf_release(&text);
}

void anthropic_refuse(struct http_call *call, int status, const struct err *e)
{
    struct buf body;
    int retry = e->retry_after;
    if (!status)
        status = anthropic_status(e->code);
    bool later = status == 429 || status == 503 || status == OVERLOADED;
    if (!call->id[0])
        server_write_id(call->id, sizeof call->id, anthropic_ops.id_prefix);
    buf_init(&body, 4096);
    anthropic_error_body(&body, status, call->id, e);
    http_reply(call, status, &body, !later ? 0 : retry > 0 ? retry : 1);
    buf_release(&body);
}
