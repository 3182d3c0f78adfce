/* ollama_error: errors as Ollama's clients read them: a status and a sentence. */
#include <string.h>

#include "server/dialect/ollama.h"
#include "server/http/json_out.h"

void ollama_error_body(struct buf *out, const struct err *e)
{
    struct buf text;
    buf_init(&text, ERR_FIELD + ERR_TEXT + 2);
    if (e->field[0] && !strstr(e->text, e->field))
        buf_addf(&text, "%s: ", e->field);
    buf_adds(&text, e->text);
    buf_adds(out, "{\"error\":");
    http_json_str(out, text.data, text.len);
    buf_adds(out, "}");
    buf_release(&text);
}

void ollama_refuse(struct http_call *call, int status, const struct err *e)
{
    struct buf body;
    if (!status)
        status = e->code == ST_BUSY ? 503 : openai_status(e->code); /* a full queue is 503 there */
    bool later = status == 429 || status == 503;
    buf_init(&body, 4096);
    ollama_error_body(&body, e);
    http_reply(call, status, &body, !later ? 0 : e->retry_after > 0 ? e->retry_after : 1);
    buf_release(&body);
}
