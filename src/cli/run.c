/* run: one prompt, one answer. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "cli/asked.h"
#include "cli/cli.h"
#include "cli/curve.h"
#include "cli/reply.h"
#include "cli/sources.h"
#include "model/model.h"
#include "text/text.h"
#include "weights/weights.h"

struct options {
    const char *model, *prompt, *system, *draft_model;
    struct reply_options reply;
    struct asked_options asked;
    uint32_t threads, ctx, kv;
    bool raw, json, trace, plan, no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL_OR_DEFAULT(struct options),
    {"prompt", 'p', OPT_STR, offsetof(struct options, prompt), 0, 0, "TEXT", "the prompt (default: all of stdin)"},
    {"system", 0, OPT_STR, offsetof(struct options, system), 0, 0, "TEXT", "a system message before it"},
    {"raw", 0, OPT_FLAG, offsetof(struct options, raw), 0, 0, NULL,
     "no chat template: continue TEXT, in which control tokens are meant; BOS as the model's metadata says"},
    REPLY_OPTS(struct options, reply),
    ASKED_OPTS(struct options, asked),
    {"draft-model", 0, OPT_STR, offsetof(struct options, draft_model), 0, 0, "FILE",
     "a smaller model of the same vocabulary, which proposes tokens"},
    {"trace", 0, OPT_FLAG, offsetof(struct options, trace), 0, 0, NULL, "with --json: where each token came from"},
    {"plan", 0, OPT_FLAG, offsetof(struct options, plan), 0, 0, NULL, "with --json: how the request was served, and why"},
    {"logprobs", 0, OPT_U32, offsetof(struct options, reply.logprobs), 1, 20, "K",
     "with --json: log-probabilities of each token and of the K likeliest"},
    CLI_OPT_CTX(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "run",
    "Answers one prompt: the text goes to stdout as it comes, a line of figures to stderr. SIGINT ends the answer early. "
    "On a terminal tokens that no sampler had to choose are coloured by where they came from, unless NO_COLOR is set. "
    "JSON: {prompt_ids, ids, text, finish_reason, usage, ffwd: {trace, plan}}; finish_detail \"kv_exhausted\" where memory "
    "for the context ran out before it was full.",
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

/* What is asked, and what it is taken for. All owned. */
struct asking {
    struct server *server;
    struct server_asked *asked; /* points into body; NULL = neither a chat nor constrained */
    struct buf body;
    struct ids own;             /* the prompt, where `asked` is not to be followed */
};

static void release_asking(struct asking *a)
{
    server_asked_free(a->asked);
    server_stop(a->server, 0);
    buf_release(&a->body);
    if (a->own.id)
        tok_ids_free(a->own.id, a->own.n);
}

/* The body of a request without its closing brace. */
static enum status write_messages(const struct options *o, const char *text, size_t n, struct buf *body, struct err *e)
{
    json_t *messages = json_array(), *root = json_pack("{s:O}", "messages", messages);
    enum status st = ST_OK;
    if (o->system)
        st = add_message(messages, "system", "--system", o->system, strlen(o->system), e);
    if (st == ST_OK)
        st = add_message(messages, "user", "-p", text, n, e);
    char *request = st == ST_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    if (st == ST_OK && !request)
        st = err_set(e, ST_NO_MEMORY, "-p", "-p: no memory for the conversation");
    if (st == ST_OK)
        buf_add(body, request, strlen(request) - 1);
    free(request);
    json_decref(messages);
    json_decref(root);
    return st;
}

/* Takes the conversation, or a text that is continued, as the server would. */
static enum status ask(const struct api_model *m, const struct options *o, const char *text, size_t n, bool chat,
                       struct asking *a, struct err *e)
{
    if (chat)
        TRY(write_messages(o, text, n, &a->body, e));
    else
        buf_adds(&a->body, "{\"prompt\":[0]"); /* the real one is `own` */
    TRY(asked_add(&o->asked, &a->body, e));
    buf_adds(&a->body, "}");
    if (a->body.failed)
        return err_set(e, ST_NO_MEMORY, "-p", "-p: no memory for the request");
    TRY(asked_server(&a->server, m, NULL, e));
    return server_ask(a->server, a->body.data, a->body.len, &a->asked, e);
}

static enum status take_text(const struct api_model *m, const struct options *o, const char *text, size_t n,
                             struct asking *a, struct err *e)
{
    bool chat = !o->raw && chat_has_template(m->chat);
    if (!o->raw && m->chat_err.code != ST_OK) {
        *e = m->chat_err;
        return e->code;
    }
    if (!chat && o->system)
        return err_set(e, ST_UNSUPPORTED, "--system", "--system: %s has no chat template", weights_path(m->weights));
    if (!chat && o->asked.tools)
        return err_set(e, ST_UNSUPPORTED, "--tools", "--tools needs a chat template");
    if (chat || asked_any(&o->asked))
        TRY(ask(m, o, text, n, chat, a, e));
    if (chat)
        return ST_OK;
    if (!o->raw)
        fputs("ffwd: the model has no chat template, so the text is continued as it is\n", stderr);
    return tok_encode(m->tok, text, n, (o->raw ? TOK_TRUSTED : TOK_PLAIN) | TOK_BOS, &a->own.id, &a->own.n, e);
}

static enum status take_prompt(const struct api_model *m, const struct options *o, struct asking *a, struct err *e)
{
    struct buf in = {0};
    buf_init(&a->body, LIMIT_BODY);
    if (!o->prompt)
        TRY(cli_read(NULL, CLI_LIMIT_TEXT, &in, e));
    enum status st = take_text(m, o, o->prompt ? o->prompt : in.data, o->prompt ? strlen(o->prompt) : in.len, a, e);
    buf_release(&in);
    return st;
}

/* The prompt's ids; they live as long as `a`. */
static struct ids prompt_of(const struct asking *a)
{
    if (a->own.id || !a->asked)
        return a->own;
    const struct request *rq = server_asked_request(a->asked);
    return (struct ids){(tok_id *)(uintptr_t)rq->prompt, rq->prompt_n};
}

/* --- the answer ------------------------------------------------------------------------------------------------------ */

static json_t *trace_of(const struct reply *r)
{
    json_t *list = json_array();
    const int8_t *at = (const int8_t *)r->origins.data;
    for (size_t i = 0; i < r->origins.len; i++)
        json_array_append_new(list, json_string(at[i] == ORIGIN_SAMPLED ? "sampled"
                                                                        : source_name((enum source_kind)at[i])));
    return list;
}

static int print_json(const struct reply *r, const struct ids *prompt, const struct options *o, const char *relaxed)
{
    json_t *root = json_pack("{s:o, s:o, s:o, s:s, s:o}", "prompt_ids", cli_json_ids(prompt->id, prompt->n), "ids",
                             cli_json_ids((const tok_id *)(const void *)r->ids.data, r->ids.len / sizeof(tok_id)),
                             "text", json_stringn(r->text.data ? r->text.data : "", r->text.len), "finish_reason",
                             finish_name(r->result.finish), "usage", reply_usage(r));
    json_t *usage = json_object_get(root, "usage"), *ffwd = json_object();
    json_object_set_new(usage, "ffwd", sources_usage(&r->result.usage, relaxed));
    if (o->trace)
        json_object_set_new(ffwd, "trace", trace_of(r));
    if (o->plan)
        json_object_set_new(ffwd, "plan", sources_plan(&r->result.plan));
    if (o->trace || o->plan)
        json_object_set(root, "ffwd", ffwd);
    json_decref(ffwd);
    if (root && r->result.kv_exhausted)
        json_object_set_new(root, "finish_detail", json_string("kv_exhausted"));
    if (root && r->logprobs)
        json_object_set(root, "logprobs", r->logprobs);
    return cli_print_json(root);
}

static int finish(const struct reply *r, const struct ids *prompt, const struct options *o, const char *relaxed)
{
    if (o->json)
        return print_json(r, prompt, o, relaxed);
    if (r->text.len == 0 || r->text.data[r->text.len - 1] != '\n')
        putchar('\n');
    int status = cli_flush();
    if (status == 0)
        reply_print_figures(r);
    return status;
}

static int answer(const struct api_model *m, const struct api_model *draft, const struct options *o,
                  const struct asking *a, double load_s)
{
    struct engine *engine;
    struct engine_cost cost;
    struct engine_config c = {.model = m->model,
                              .tok = m->tok,
                              .pool = m->pool,
                              .kv_format = o->kv ? KERN_KV_F32 : KERN_KV_F16,
                              .context = o->ctx,
                              .rows = 1,
                              .cost = &cost,
                              .draft = draft->model};
    struct reply r = {0};
    struct err e = {0};
    if (curve_choose(NULL, m, &cost, &e) != ST_OK || engine_new(&engine, &c, &e) != ST_OK)
        return cli_fail(&e);
    struct reply_options how = o->reply;
    const struct ids prompt = prompt_of(a);
    how.asked = a->asked ? server_asked_request(a->asked) : NULL;
    how.colours = true;
    enum status st = reply_run(engine, m->tok, prompt.id, prompt.n, &how, !o->json, &r, &e);
    r.load_s = load_s;
    int status = st == ST_OK ? finish(&r, &prompt, o, a->asked ? server_asked_relaxed(a->asked) : NULL) : cli_fail(&e);
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
    if ((status = asked_options_check(&verb, &o.asked)))
        return status;
    if ((o.trace || o.plan) && !o.json)
        return opt_wrong(&verb, "--trace and --plan need --json");
    struct api_model m, draft;
    struct asking a = {0};
    struct err e = {0};
    if (cli_load(&m, o.model, o.threads, API_MODEL | API_TOK | API_CHAT, o.no_packed_cache, &e) != ST_OK)
        return cli_fail(&e);
    enum status st = sources_load_draft(&draft, o.draft_model, o.threads, o.no_packed_cache, &m, &e);
    double load_s = cli_seconds();
    cli_catch_signals();
    if (st == ST_OK)
        st = take_prompt(&m, &o, &a, &e);
    status = st == ST_OK ? answer(&m, &draft, &o, &a, load_s) : cli_fail(&e);
    release_asking(&a);
    api_close(&draft);
    api_close(&m);
    return status;
}
