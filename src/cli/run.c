/* run: one prompt, one answer. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "cli/cli.h"
#include "cli/reply.h"
#include "model/model.h"
#include "text/text.h"
#include "weights/weights.h"

struct options {
    const char *model, *prompt, *system;
    struct reply_options reply;
    uint32_t threads, ctx, kv;
    bool raw, json;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"prompt", 'p', OPT_STR, offsetof(struct options, prompt), 0, 0, "TEXT", "the prompt (default: all of stdin)"},
    {"system", 0, OPT_STR, offsetof(struct options, system), 0, 0, "TEXT", "a system message before it"},
    {"raw", 0, OPT_FLAG, offsetof(struct options, raw), 0, 0, NULL,
     "no chat template: continue TEXT, in which control tokens are meant; BOS as the model's metadata says"},
    REPLY_OPTS(struct options, reply),
    {"logprobs", 0, OPT_U32, offsetof(struct options, reply.logprobs), 1, 20, "K",
     "with --json: log-probabilities of each token and of the K likeliest"},
    CLI_OPT_CTX(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "run",
    "Answers one prompt: the text goes to stdout as it comes, a line of figures to stderr. SIGINT ends the answer early. "
    "JSON: {prompt_ids, ids, text, finish_reason, usage}; finish_detail \"kv_exhausted\" where memory for the context "
    "ran out before it was full.",
    "[-m FILE] -p TEXT [OPTIONS]", opts, sizeof opts / sizeof *opts};

struct ids {
    tok_id *id;
    size_t n;
};

/* --- the prompt ------------------------------------------------------------------------------------------------------ */

static enum status add_message(json_t *messages, const char *role, const char *option, const char *text, size_t n,
                               struct err *e)
{
    json_t *content = json_stringn(text, n);
    if (!content)
        return err_set(e, ST_ARGUMENT, option, "%s: the text is not UTF-8", option);
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content));
    return ST_OK;
}

static enum status chat_ids(const struct api_model *m, const struct options *o, const char *text, size_t n,
                            struct ids *out, struct err *e)
{
    json_t *messages = json_array(), *root = json_pack("{s:O}", "messages", messages);
    struct chat_options co = {0};
    enum status st = ST_OK;
    if (o->system)
        st = add_message(messages, "system", "--system", o->system, strlen(o->system), e);
    if (st == ST_OK)
        st = add_message(messages, "user", "-p", text, n, e);
    char *request = st == ST_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    if (st == ST_OK && !request)
        st = err_set(e, ST_NO_MEMORY, "-p", "-p: no memory for the conversation");
    if (st == ST_OK)
        st = chat_prompt(m->chat, request, strlen(request), &co, &out->id, &out->n, e);
    free(request);
    json_decref(messages);
    json_decref(root);
    return st;
}

static enum status prompt_ids(const struct api_model *m, const struct options *o, struct ids *out, struct err *e)
{
    struct buf in = {0};
    if (!o->prompt)
        TRY(cli_read(NULL, CLI_LIMIT_TEXT, &in, e));
    const char *text = o->prompt ? o->prompt : in.data;
    size_t n = o->prompt ? strlen(o->prompt) : in.len;
    enum status st;
    if (o->raw) {
        st = tok_encode(m->tok, text, n, TOK_TRUSTED | TOK_BOS, &out->id, &out->n, e);
    } else if (m->chat_err.code != ST_OK) {
        *e = m->chat_err;
        st = e->code;
    } else if (chat_has_template(m->chat)) {
        st = chat_ids(m, o, text, n, out, e);
    } else if (o->system) {
        st = err_set(e, ST_UNSUPPORTED, "--system", "--system: %s has no chat template", weights_path(m->weights));
    } else {
        fputs("ffwd: the model has no chat template, so the text is continued as it is\n", stderr);
        st = tok_encode(m->tok, text, n, TOK_PLAIN | TOK_BOS, &out->id, &out->n, e);
    }
    buf_release(&in);
    return st;
}

/* --- the answer ------------------------------------------------------------------------------------------------------ */

static int print_json(const struct reply *r, const struct ids *prompt)
{
    json_t *root = json_pack("{s:o, s:o, s:o, s:s, s:o}", "prompt_ids", cli_json_ids(prompt->id, prompt->n), "ids",
                             cli_json_ids((const tok_id *)(const void *)r->ids.data, r->ids.len / sizeof(tok_id)),
                             "text", json_stringn(r->text.data ? r->text.data : "", r->text.len), "finish_reason",
                             finish_name(r->result.finish), "usage", reply_usage(r));
    if (root && r->result.kv_exhausted)
        json_object_set_new(root, "finish_detail", json_string("kv_exhausted"));
    if (root && r->logprobs)
        json_object_set(root, "logprobs", r->logprobs);
    return cli_print_json(root);
}

static int finish(const struct reply *r, const struct ids *prompt, const struct options *o)
{
    if (o->json)
        return print_json(r, prompt);
    if (r->text.len == 0 || r->text.data[r->text.len - 1] != '\n')
        putchar('\n');
    int status = cli_flush();
    if (status == 0)
        reply_print_figures(r);
    return status;
}

static int answer(const struct api_model *m, const struct options *o, const struct ids *prompt, double load_s)
{
    struct engine *engine;
    struct engine_config c = {.model = m->model,
                              .tok = m->tok,
                              .pool = m->pool,
                              .kv_format = o->kv ? KERN_KV_F32 : KERN_KV_F16,
                              .context = o->ctx,
                              .rows = 1};
    struct reply r = {0};
    struct err e = {0};
    if (engine_new(&engine, &c, &e) != ST_OK)
        return cli_fail(&e);
    enum status st = reply_run(engine, m->tok, prompt->id, prompt->n, &o->reply, !o->json, &r, &e);
    r.load_s = load_s;
    int status = st == ST_OK ? finish(&r, prompt, o) : cli_fail(&e);
    reply_release(&r);
    engine_free(engine);
    return status;
}

int verb_run(int argc, char **argv)
{
    struct options o = {.reply = REPLY_DEFAULTS};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if ((status = reply_options_finish(&verb, &o.reply)))
        return status;
    if (!o.prompt && isatty(STDIN_FILENO))
        return opt_wrong(&verb, "-p TEXT is missing");
    if (o.raw && o.system)
        return opt_wrong(&verb, "--raw and --system exclude each other");
    if (o.reply.logprobs && !o.json)
        return opt_wrong(&verb, "--logprobs needs --json");
    struct api_model m;
    struct ids prompt = {0};
    struct err e = {0};
    if (cli_load(&m, o.model, o.threads, API_MODEL | API_TOK | API_CHAT, &e) != ST_OK)
        return cli_fail(&e);
    double load_s = cli_seconds();
    cli_catch_signals();
    status = prompt_ids(&m, &o, &prompt, &e) == ST_OK ? answer(&m, &o, &prompt, load_s) : cli_fail(&e);
    if (prompt.id)
        tok_ids_free(prompt.id, prompt.n);
    api_close(&m);
    return status;
}
