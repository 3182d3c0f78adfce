/*
 * chat: a conversation in the terminal.
 *
 * The conversation is kept as the JSON that a client would send, and each turn renders all of it, so what the model sees
 * is what the server would show it. Ctrl-C ends the reply that is being written, or throws away the line being typed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "cli/cli.h"
#include "cli/line.h"
#include "cli/reply.h"
#include "text/text.h"
#include "weights/weights.h"

struct options {
    const char *model, *system;
    struct reply_options reply;
    uint32_t threads, ctx, kv;
    bool no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"system", 0, OPT_STR, offsetof(struct options, system), 0, 0, "TEXT", "a system message before everything"},
    REPLY_OPTS(struct options, reply),
    CLI_OPT_CTX(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
};
static const struct opt_verb verb = {
    "chat",
    "Talks with a model, a line at a time. /reset forgets the conversation, /quit or Ctrl-D leaves, Ctrl-C ends the "
    "current reply. The lines may also come from a pipe.",
    "[-m FILE] [OPTIONS]", opts, sizeof opts / sizeof *opts};

struct talk {
    const struct api_model *m;
    const struct options *o;
    struct engine *engine;
    json_t *messages;
};

static enum status add_message(struct talk *t, const char *role, const char *text, size_t n, struct err *e)
{
    json_t *content = json_stringn(text, n);
    if (!content)
        return err_set(e, ST_ARGUMENT, role, "the text is not UTF-8");
    json_array_append_new(t->messages, json_pack("{s:s, s:o}", "role", role, "content", content));
    return ST_OK;
}

static enum status reset(struct talk *t, struct err *e)
{
    json_array_clear(t->messages);
    return t->o->system ? add_message(t, "system", t->o->system, strlen(t->o->system), e) : ST_OK;
}

static enum status prompt_ids(struct talk *t, tok_id **ids, size_t *n, struct err *e)
{
    struct chat_options co = {0};
    json_t *root = json_pack("{s:O}", "messages", t->messages);
    char *request = root ? json_dumps(root, JSON_COMPACT) : NULL;
    enum status st = request ? chat_prompt(t->m->chat, request, strlen(request), &co, ids, n, e)
                             : err_set(e, ST_NO_MEMORY, "", "no memory for the conversation");
    free(request);
    json_decref(root);
    return st;
}

/* One turn. What failed leaves the conversation as it was before the line. */
static enum status turn(struct talk *t, const char *text, size_t n, struct err *e)
{
    struct reply r = {0};
    tok_id *ids = NULL;
    size_t count = 0, before = json_array_size(t->messages);
    enum status st = add_message(t, "user", text, n, e);
    if (st == ST_OK)
        st = prompt_ids(t, &ids, &count, e);
    if (st == ST_OK) {
        st = reply_run(t->engine, t->m->tok, ids, count, &t->o->reply, true, &r, e);
        tok_ids_free(ids, count);
    }
    if (r.text.len)
        cli_write("\n", 1);
    if (st == ST_OK) {
        st = add_message(t, "assistant", r.text.data ? r.text.data : "", r.text.len, e);
        reply_print_figures(&r);
    }
    while (st != ST_OK && json_array_size(t->messages) > before)
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
    reply_release(&r);
    return st;
}

/* Lines until the end of the input, /quit, or a stdout that nobody reads. */
static int talk(struct talk *t, struct line *input)
{
    struct err e = {0};
    bool failed = false;
    if (reset(t, &e) != ST_OK)
        return cli_fail(&e);
    while (!cli_broken() && !cli_terminated()) {
        size_t n = 0;
        const char *text = line_read(input, &n);
        if (!text && !cli_interrupted())
            break;
        if (!text) {
            fputc('\n', stderr);
        } else if (n == 5 && memcmp(text, "/quit", n) == 0) {
            break;
        } else if (n == 6 && memcmp(text, "/reset", n) == 0) {
            (void)reset(t, &e);
            fputs("[the conversation is forgotten]\n", stderr);
        } else if (n && turn(t, text, n, &e) != ST_OK) {
            cli_fail(&e);
            failed = true;
        }
        if (!cli_terminated())
            cli_rearm_signals();
    }
    /* Someone at the terminal has seen the failure and gone on; a script sees the status alone. */
    return cli_flush() || (failed && !isatty(STDIN_FILENO));
}

static int start(const struct api_model *m, const struct options *o)
{
    struct engine_config c = {.model = m->model,
                              .tok = m->tok,
                              .pool = m->pool,
                              .kv_format = o->kv ? KERN_KV_F32 : KERN_KV_F16,
                              .context = o->ctx,
                              .rows = 1};
    struct talk t = {.m = m, .o = o, .messages = json_array()};
    struct err e = {0};
    struct line *input = line_new("> ");
    enum status st = input && t.messages ? engine_new(&t.engine, &c, &e)
                                         : err_set(&e, ST_NO_MEMORY, "", "no memory for a conversation");
    int status = st == ST_OK ? talk(&t, input) : cli_fail(&e);
    if (t.engine)
        engine_free(t.engine);
    line_free(input);
    json_decref(t.messages);
    return status;
}

int verb_chat(int argc, char **argv)
{
    struct options o = {.reply = REPLY_DEFAULTS};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if ((status = reply_options_finish(&verb, &o.reply)))
        return status;
    struct api_model m;
    struct err e = {0};
    if (cli_load(&m, o.model, o.threads, API_MODEL | API_TOK | API_CHAT, o.no_packed_cache, &e) != ST_OK)
        return cli_fail(&e);
    cli_catch_signals();
    if (m.chat_err.code != ST_OK) {
        status = cli_fail(&m.chat_err);
    } else if (!chat_has_template(m.chat)) {
        err_set(&e, ST_UNSUPPORTED, "-m", "%s: the model has no chat template; `ffwd run --raw` continues text",
                weights_path(m.weights));
        status = cli_fail(&e);
    } else {
        status = start(&m, &o);
    }
    api_close(&m);
    return status;
}
