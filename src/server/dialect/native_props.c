/*
 * native_props: GET /props and /slots, as llama-server's clients read them.
 *
 * A slot there is a row here: one of the requests that can run at a time. What is not so here (which slot a request had
 * before, what its prompt was) is not said. Rows are told in the order in which they are served.
 */
#include <stdlib.h>
#include <string.h>

#include "server/dialect/native.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_out.h"

#define ROW_BYTES 512u /* more than one slot takes in JSON */

/* ---- /props ---- */

static void write_token(const struct server *srv, const char *key, tok_id id, struct buf *out)
{
    size_t n = 0;
    const char *s = id == TOK_NONE ? "" : tok_bytes(srv->tok, id, &n);
    buf_addf(out, ",\"%s\":", key);
    http_json_str(out, s, n);
}

/* How /completion chooses tokens unless it is told; the seed is another each time, which is -1. */
static enum status write_usual(const struct server *srv, struct buf *out, struct err *e)
{
    struct reply_job job;
    server_job_init(&job);
    enum status st = openai_parse_sampling_over(NULL, native_usual_sampling(), &job, e);
    job.sampling.seed = UINT64_MAX;
    buf_addf(out, "{\"default_generation_settings\":{\"id\":0,\"n_ctx\":%u,\"speculative\":false,",
             engine_context(srv->engine));
    buf_adds(out, "\"is_processing\":false,\"params\":");
    native_write_settings(&job.sampling, 0, out);
    buf_adds(out, "}");
    server_job_release(&job);
    return st;
}

/* The file's name without its folders: where it lies is nobody's business. */
static const char *file_name(const struct server_facts *f)
{
    const char *slash = f && f->path ? strrchr(f->path, '/') : NULL;
    return slash ? slash + 1 : f && f->path ? f->path : "";
}

static enum status write_props(const struct server *srv, struct buf *out, struct err *e)
{
    const struct server_facts *f = srv->facts;
    TRY(write_usual(srv, out, e));
    buf_addf(out, ",\"total_slots\":%u,\"model_alias\":", engine_rows(srv->engine));
    http_json_cstr(out, srv->model);
    buf_adds(out, ",\"model_path\":");
    http_json_cstr(out, file_name(f));
    buf_addf(out, ",\"n_ctx_train\":%u,\"chat_template\":", f ? f->context : 0);
    http_json_str(out, f ? f->chat_template : NULL, f && f->chat_template ? f->chat_template_n : 0);
    write_token(srv, "bos_token", tok_bos(srv->tok), out);
    write_token(srv, "eos_token", tok_eos_main(srv->tok), out);
    buf_adds(out, ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":\"ffwd ");
    http_json_text(out, srv->version, strlen(srv->version));
    buf_adds(out, "\"}");
    return ST_OK;
}

void native_props(struct http_call *call)
{
    struct buf out;
    struct err e;
    buf_init(&out, LIMIT_REPLY);
    if (write_props(call->app, &out, &e) == ST_OK)
        http_reply(call, 200, &out, 0);
    else
        openai_refuse(call, 0, NULL, &e);
    buf_release(&out);
}

/* ---- /slots ---- */

/* NULL: nothing runs there. */
static void write_slot(const struct server *srv, uint32_t i, const struct engine_row_view *row, struct buf *out)
{
    buf_addf(out, "%s{\"id\":%u,\"id_task\":%d,\"n_ctx\":%u,\"speculative\":false,", i ? "," : "", i,
             row ? (int)i : -1, engine_context(srv->engine));
    buf_addf(out, "\"is_processing\":%s", row ? "true" : "false");
    if (row) {
        const long long left = row->max_tokens ? (long long)row->max_tokens - row->completion_tokens : -1;
        buf_addf(out, ",\"n_prompt_tokens\":%u,\"n_prompt_tokens_cache\":%u,\"n_prompt_tokens_processed\":%u",
                 row->prompt_tokens, row->cached_tokens,
                 row->fed_tokens < row->prompt_tokens ? row->fed_tokens : row->prompt_tokens);
        buf_addf(out, ",\"next_token\":{\"has_next_token\":true,\"n_remain\":%lld,\"n_decoded\":%u}", left,
                 row->completion_tokens);
    }
    buf_adds(out, "}");
}

static uint32_t write_slots(const struct server *srv, const struct engine_view *v, struct buf *out)
{
    const uint32_t rows = engine_rows(srv->engine);
    uint32_t busy = 0;
    buf_adds(out, "[");
    while (busy < v->n && busy < rows && v->rows[busy].running) {
        write_slot(srv, busy, &v->rows[busy], out);
        busy++;
    }
    for (uint32_t i = busy; i < rows; i++)
        write_slot(srv, i, NULL, out);
    buf_adds(out, "]");
    return rows - busy;
}

void native_slots(struct http_call *call)
{
    const struct server *srv = call->app;
    const char *must = http_query(call, "fail_on_no_slot");
    struct engine_view v = {.rows = calloc(LIMIT_ROWS, sizeof *v.rows), .cap = LIMIT_ROWS};
    struct buf out;
    struct err e;
    buf_init(&out, LIMIT_ROWS * ROW_BYTES);
    enum status st = v.rows ? engine_look(srv->engine, &v, &e)
                            : err_set(&e, ST_NO_MEMORY, "", "no memory for the rows");
    if (st == ST_OK && write_slots(srv, &v, &out) == 0 && must && strcmp(must, "1") == 0)
        st = err_set(&e, ST_BUSY, "", "no slot is free");
    if (st == ST_OK)
        http_reply(call, 200, &out, 0);
    else
        openai_refuse(call, 503, NULL, &e);
    buf_release(&out);
    free(v.rows);
}
