/* rows: GET /v1/ffwd/rows, a picture of the requests that run and wait. */
#include <stdlib.h>

#include "server/http/json_out.h"
#include "server/private.h"

#define ROWS (LIMIT_ROWS + LIMIT_QUEUE)
#define ROW_BYTES 1024u /* more than one row takes in JSON */

static void write_row(const struct engine_row_view *row, struct buf *out)
{
    buf_adds(out, "{\"id\":");
    http_json_cstr(out, row->name);
    buf_addf(out, ",\"state\":\"%s\",\"priority\":%d,\"prompt_tokens\":%u,\"cached_tokens\":%u,\"fed_tokens\":%u,",
             row->running ? "running" : "waiting", (int)row->priority, row->prompt_tokens, row->cached_tokens,
             row->fed_tokens);
    buf_addf(out, "\"completion_tokens\":%u,\"max_tokens\":%u,\"preemptions\":%u,\"reader_slow\":%s,\"age_s\":",
             row->completion_tokens, row->max_tokens, row->preemptions, row->reader_slow ? "true" : "false");
    http_json_fixed(out, row->age_s);
    buf_adds(out, "}");
}

void server_rows(struct http_call *call)
{
    const struct server *srv = call->app;
    struct engine_view v = {.rows = calloc(ROWS, sizeof *v.rows), .cap = ROWS};
    struct buf body;
    struct err e;
    buf_init(&body, ROWS * ROW_BYTES);
    enum status st = v.rows ? engine_look(srv->engine, &v, &e) : err_set(&e, ST_NO_MEMORY, "", "no memory for the rows");
    if (st != ST_OK) {
        server_refuse(call, 503, &e);
    } else {
        buf_adds(&body, "{\"rows\":[");
        for (uint32_t i = 0; i < v.n; i++) {
            if (i)
                buf_adds(&body, ",");
            write_row(&v.rows[i], &body);
        }
        buf_addf(&body, "],\"queued\":%u,\"kv\":{\"blocks\":%u,\"used\":%u,\"cached\":%u}}", v.queued, v.kv.blocks,
                 v.kv.used, v.kv.cached);
        http_reply(call, 200, &body, 0);
    }
    buf_release(&body);
    free(v.rows);
}
