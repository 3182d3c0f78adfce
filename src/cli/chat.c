/*
 * chat: a conversation in the terminal.
 *
 * Reads inputs (line.h) and takes each for a command (command.h) or a question (talk.h). Ctrl-C ends the reply that is
 * being written, or throws away what is being typed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/curve.h"
#include "cli/line.h"
#include "cli/reply.h"
#include "cli/sources.h"
#include "cli/talk.h"
#include "model/model.h"
#include "weights/weights.h"

struct options {
    const char *model, *system, *load, *draft_model;
    struct reply_options reply;
    uint32_t threads, ctx, kv;
    bool no_history, no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL_OR_DEFAULT(struct options),
    {"system", 0, OPT_STR, offsetof(struct options, system), 0, 0, "TEXT", "a system message before everything"},
    {"load", 0, OPT_STR, offsetof(struct options, load), 0, 0, "FILE",
     "go on with a conversation that /save wrote, or with any array of messages"},
    {"origin", 0, OPT_FLAG, offsetof(struct options, reply.colours), 0, 0, NULL,
     "colours of tokens by where they came from, as /origin switches them"},
    {"no-history", 0, OPT_FLAG, offsetof(struct options, no_history), 0, 0, NULL,
     "what is typed is not kept for the next time, and what was kept is not read"},
    REPLY_OPTS(struct options, reply),
    {"draft-model", 0, OPT_STR, offsetof(struct options, draft_model), 0, 0, "FILE",
     "a smaller model of the same vocabulary, which proposes tokens"},
    CLI_OPT_CTX(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
};
static const struct opt_verb verb = {
    "chat",
    "Talks with a model. A line is a question; one that ends with a backslash goes on in the next, and so does all that is "
    "between \"\"\" and \"\"\". Commands: /help, /clear (forget the conversation), /system [TEXT], /save [FILE], "
    "/load FILE, /undo, /retry, /params [NAME VALUE...] (sampling), /origin [on|off] (colours of tokens by where they came "
    "from), /quit. "
    "Ctrl-C ends the current reply, Ctrl-D leaves. On a terminal lines can be edited, and those of earlier times come back "
    "with the arrow keys. They may also come from a pipe; then the status is 1 if any of them failed.",
    "[-m FILE] [OPTIONS]", opts, sizeof opts / sizeof *opts};

/* One input. False: it failed, and that was told. */
static bool take(struct command_session *s, const struct line_text *in)
{
    struct err e = {0};
    if (in->n == 0)
        return true;
    if (!in->block && command_is(in->s, in->n))
        return command_run(s, in->s);
    enum status st = talk_ask(s->talk, in->s, in->n, s->how, &e);
    if (st != ST_OK)
        cli_fail(&e);
    return st == ST_OK || st == ST_CANCELLED;
}

/* Inputs until their end, /quit, or a stdout that nobody reads. */
static int converse(struct command_session *s, struct line *input)
{
    struct err e = {0};
    struct line_text in;
    bool failed = false;
    while (!s->quit && !cli_broken() && !cli_terminated()) {
        enum status st = line_read(input, &in, &e);
        if (st == ST_CANCELLED)
            fputc('\n', stderr);
        else if (st != ST_OK)
            return cli_fail(&e);
        else if (!in.s)
            break;
        else
            failed |= !take(s, &in);
        if (!cli_terminated())
            cli_rearm_signals();
    }
    /* Someone at the terminal has seen the failure and gone on; a script sees the status alone. */
    return cli_flush() || (failed && !isatty(STDIN_FILENO));
}

/* The conversation as the options have it begin. */
static enum status begin(struct command_session *s, const struct options *o, struct err *e)
{
    if (o->load)
        TRY(talk_load(s->talk, o->load, e));
    if (o->load && strlen(o->load) < sizeof s->file)
        memcpy(s->file, o->load, strlen(o->load) + 1);
    return o->system ? talk_set_system(s->talk, o->system, e) : ST_OK;
}

static int start(const struct api_model *m, const struct api_model *draft, struct options *o)
{
    struct engine_cost cost;
    struct engine *engine = NULL;
    struct talk t = {0};
    struct command_session s = {.talk = &t, .how = &o->reply};
    const struct line_config lines = {"> ", ". ", command_names(), o->no_history};
    const struct engine_config c = {.model = m->model,
                                    .tok = m->tok,
                                    .pool = m->pool,
                                    .kv_format = o->kv ? KERN_KV_F32 : KERN_KV_F16,
                                    .context = o->ctx,
                                    .rows = 1,
                                    .cost = &cost,
                                    .draft = draft->model};
    struct err e = {0};
    struct line *input = line_new(&lines);
    enum status st = input ? curve_choose(NULL, m, &cost, &e) : err_set(&e, ST_NO_MEMORY, "", "no memory for a line");
    if (st == ST_OK)
        st = engine_new(&engine, &c, &e);
    if (st == ST_OK)
        st = talk_init(&t, m, engine, &e);
    if (st == ST_OK)
        st = begin(&s, o, &e);
    int status = st == ST_OK ? converse(&s, input) : cli_fail(&e);
    talk_release(&t);
    engine_free(engine);
    line_free(input);
    return status;
}

static enum status check_template(const struct api_model *m, struct err *e)
{
    if (m->chat_err.code != ST_OK) {
        *e = m->chat_err;
        return e->code;
    }
    if (!chat_has_template(m->chat))
        return err_set(e, ST_UNSUPPORTED, "-m", "%s: the model has no chat template; `ffwd run --raw` continues text",
                       weights_path(m->weights));
    return ST_OK;
}

int verb_chat(int argc, char **argv)
{
    struct options o = {.reply = REPLY_DEFAULTS};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if ((status = reply_options_finish(&verb, &o.reply)))
        return status;
    struct api_model m, draft = {0};
    struct err e = {0};
    if (cli_load(&m, o.model, o.threads, API_MODEL | API_TOK | API_CHAT, o.no_packed_cache, &e) != ST_OK)
        return cli_fail(&e);
    cli_catch_signals();
    enum status st = check_template(&m, &e);
    if (st == ST_OK)
        st = sources_load_draft(&draft, o.draft_model, o.threads, o.no_packed_cache, &m, &e);
    status = st == ST_OK ? start(&m, &draft, &o) : cli_fail(&e);
    api_close(&draft);
    api_close(&m);
    return status;
}
