/* native_text: POST /tokenize, /detokenize, /apply-template and /v1/ffwd/count: text, ids and conversations. */
#include <stdlib.h>
#include <string.h>

#include "server/dialect/native.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

/* Replies with what was written, or with the error. */
static void finish(struct http_call *call, enum status st, struct buf *out, struct err *e)
{
    if (st == ST_OK && out->failed)
        st = err_set(e, ST_TOO_LONG, "", "the reply would have more than %zu bytes", out->limit);
    if (st == ST_OK)
        http_reply(call, 200, out, 0);
    else
        openai_refuse(call, 0, NULL, e);
    buf_release(out);
}

/* ---- /tokenize ---- */

/* A piece that is not whole characters is a list of bytes. */
static void write_piece(const struct server *srv, tok_id id, struct buf *out)
{
    size_t n;
    const char *s = tok_bytes(srv->tok, id, &n);
    buf_addf(out, "{\"id\":%d,\"piece\":", id);
    if (http_utf8_valid(s, n)) {
        http_json_str(out, s, n);
    } else {
        buf_adds(out, "[");
        for (size_t i = 0; i < n; i++)
            buf_addf(out, i ? ",%u" : "%u", (unsigned)(unsigned char)s[i]);
        buf_adds(out, "]");
    }
    buf_adds(out, "}");
}

static enum status tokenize(const struct server *srv, struct text_view body, struct reply_job *job, struct buf *out,
                            struct err *e)
{
    const json_t *root = job->root;
    const char *text = NULL;
    size_t n = 0, count = 0;
    bool bos = false, special = true, pieces = false;
    tok_id *ids;
    (void)body;
    TRY(http_get_string(root, "content", &text, &n, e));
    TRY(http_get_bool(root, "add_special", &bos, e));
    TRY(http_get_bool(root, "parse_special", &special, e));
    TRY(http_get_bool(root, "with_pieces", &pieces, e));
    if (!text)
        return err_set(e, ST_ARGUMENT, "content", "content is missing");
    if (n > LIMIT_TOKENIZE)
        return err_set(e, ST_TOO_LONG, "content", "content has more than %u bytes", LIMIT_TOKENIZE);
    TRY(tok_encode(srv->tok, text, n, (special ? TOK_TRUSTED : 0) | (bos ? TOK_BOS : 0), &ids, &count, e));
    buf_adds(out, "{\"tokens\":[");
    for (size_t i = 0; i < count && !out->failed; i++) {
        buf_adds(out, i ? "," : "");
        if (pieces)
            write_piece(srv, ids[i], out);
        else
            buf_addf(out, "%d", ids[i]);
    }
    buf_adds(out, "]}");
    tok_ids_free(ids, count);
    return ST_OK;
}

/* ---- /detokenize ---- */

static enum status detokenize(const struct server *srv, struct text_view body, struct reply_job *job, struct buf *out,
                              struct err *e)
{
    const json_t *list = http_get(job->root, "tokens");
    const size_t n = json_array_size(list);
    char *text;
    size_t text_n;
    (void)body;
    if (!json_is_array(list))
        return http_wrong_type(list, "tokens", "an array of token ids", e);
    tok_id *ids = calloc(n + 1, sizeof *ids);
    if (!ids)
        return err_set(e, ST_NO_MEMORY, "tokens", "no memory for %zu ids", n);
    enum status st = server_read_ids(srv, list, "tokens", ids, e);
    if (st == ST_OK)
        st = tok_decode(srv->tok, ids, n, true, &text, &text_n, e);
    free(ids);
    if (st != ST_OK)
        return st;
    buf_adds(out, "{\"content\":");
    http_json_str(out, text, text_n);
    buf_adds(out, "}");
    text_free(text, text_n);
    return ST_OK;
}

/* ---- conversations ---- */

/* What chat is to read of a body, and how. */
static enum status look(const struct server *srv, const json_t *root, struct text_view body, struct chat_options *o,
                        struct buf *room, struct text_view *conversation, struct err *e)
{
    struct openai_tools tools;
    const char *effort;
    if (!srv->chat)
        return err_set(e, ST_UNSUPPORTED, "messages", "this model cannot chat");
    TRY(openai_parse_tools(root, &tools, e));
    TRY(openai_parse_effort(root, root, "reasoning_effort", "reasoning_effort", &effort, e));
    o->hide_tools = tools.hidden;
    return openai_tell_effort(effort, body, room, conversation, e);
}

static enum status write_text(const struct server *srv, struct text_view conversation, const struct chat_options *o,
                              struct buf *out, struct err *e)
{
    struct buf text;
    buf_init(&text, LIMIT_REPLY);
    enum status st = chat_text(srv->chat, conversation.data, conversation.n, o, &text, e);
    if (st == ST_OK) {
        buf_adds(out, "{\"prompt\":");
        http_json_str(out, text.data, text.len);
        buf_adds(out, "}");
    }
    buf_release(&text);
    return st;
}

static enum status apply_template(const struct server *srv, struct text_view body, struct reply_job *job,
                                  struct buf *out, struct err *e)
{
    struct chat_options o = {0};
    struct text_view conversation;
    struct buf room;
    buf_init(&room, OPENAI_CONVERSATION);
    enum status st = look(srv, job->root, body, &o, &room, &conversation, e);
    if (st == ST_OK)
        st = write_text(srv, conversation, &o, out, e);
    buf_release(&room);
    return st;
}

/* The prompt of a chat, which is all that is looked at of it. */
static enum status count_chat(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct reply_prompt *p = &job->prompts[0];
    struct chat_options o = {.max_bytes = srv->prompt_bytes};
    struct text_view conversation;
    struct buf room;
    buf_init(&room, OPENAI_CONVERSATION);
    enum status st = look(srv, job->root, body, &o, &room, &conversation, e);
    if (st == ST_OK)
        st = chat_prompt(srv->chat, conversation.data, conversation.n, &o, &p->ids, &p->n, e);
    buf_release(&room);
    p->from_tok = st == ST_OK;
    job->prompts_n = st == ST_OK;
    return st;
}

static enum status count(const struct server *srv, struct text_view body, struct reply_job *job, struct buf *out,
                         struct err *e)
{
    size_t n = 0;
    TRY(json_object_get(job->root, "messages") ? count_chat(srv, body, job, e)
                                               : openai_parse_prompt(srv, job->root, job, e));
    for (uint32_t i = 0; i < job->prompts_n; i++)
        n += job->prompts[i].n;
    buf_addf(out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu,\"context_length\":%u}", n,
             engine_context(srv->engine));
    return ST_OK;
}

/* ---- the handlers ---- */

typedef enum status maker(const struct server *srv, struct text_view body, struct reply_job *job, struct buf *out,
                          struct err *e);

struct answer {
    const struct http_call *call;
    maker *make;
    struct reply_job job;
    struct buf out;
    struct err e;
    enum status st;
};

static void run(void *ctx)
{
    struct answer *a = ctx;
    a->st = a->make(a->call->app, (struct text_view){a->call->body.data, a->call->body.len}, &a->job, &a->out, &a->e);
}

/* For texts and ids the model's name counts for as much as with chats. `most`: bytes of the answer. */
static void answer(struct http_call *call, maker *make, size_t most)
{
    struct answer a = {.call = call, .make = make};
    server_job_init(&a.job);
    a.job.root = openai_body(call);
    if (!a.job.root)
        return;
    buf_init(&a.out, most);
    openai_run(call->body.len, run, &a);
    finish(call, a.st, &a.out, &a.e);
    server_job_release(&a.job);
}

void native_tokenize(struct http_call *call)
{
    answer(call, tokenize, LIMIT_REPLY);
}

void native_detokenize(struct http_call *call)
{
    answer(call, detokenize, LIMIT_REPLY);
}

void native_apply_template(struct http_call *call)
{
    answer(call, apply_template, 2 * (size_t)LIMIT_REPLY); /* escapes may double a text */
}

void native_count(struct http_call *call)
{
    answer(call, count, 4096);
}
