/* template: what a conversation looks like to the model. */
#include <stdio.h>

#include "chat/chat.h"
#include "cli/cli.h"
#include "weights/weights.h"

struct options {
    const char *model, *chat;
    bool no_generation;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"chat", 0, OPT_STR, offsetof(struct options, chat), 0, 0, "FILE",
     "the conversation: an array of messages, or an object with messages and, if wanted, tools and "
     "chat_template_kwargs; - is stdin"},
    {"no-generation", 0, OPT_FLAG, offsetof(struct options, no_generation), 0, 0, NULL,
     "do not open the assistant's turn at the end"},
};
static const struct opt_verb verb = {
    "template", "Prints a conversation as the model's chat template renders it, and nothing else.",
    "-m FILE --chat FILE.json", opts, sizeof opts / sizeof *opts};

/* A bare array of messages becomes the request that holds it; the bytes inside stay as they are. */
static enum status read_request(const char *path, struct buf *out, struct err *e)
{
    struct buf in;
    TRY(cli_read(path[0] == '-' && !path[1] ? NULL : path, LIMIT_BODY, &in, e));
    size_t at = 0;
    while (at < in.len && (in.data[at] == ' ' || in.data[at] == '\n' || in.data[at] == '\t' || in.data[at] == '\r'))
        at++;
    bool array = at < in.len && in.data[at] == '[';
    buf_init(out, (size_t)LIMIT_BODY + 64);
    bool ok = (!array || buf_adds(out, "{\"messages\":")) && buf_add(out, in.data, in.len) &&
              (!array || buf_adds(out, "}"));
    buf_release(&in);
    return ok ? ST_OK : err_set(e, ST_NO_MEMORY, path, "%s: no memory", path);
}

static enum status render(const struct api_model *m, const struct options *o, const struct buf *request,
                          struct text_rendering *out, struct err *e)
{
    struct weights_str source;
    struct chat_template *t = NULL;
    struct buf vars;
    struct chat_options co = {.no_generation = o->no_generation};
    if (m->chat_err.code != ST_OK) {
        *e = m->chat_err;
        return e->code;
    }
    if (!chat_has_template(m->chat) || !weights_string(m->weights, "tokenizer.chat_template", &source))
        return err_set(e, ST_UNSUPPORTED, "tokenizer.chat_template", "%s: the model has no chat template",
                       weights_path(m->weights));
    buf_init(&vars, TEXT_LIMIT_RENDERING);
    enum status st = chat_variables(m->chat, request->data, request->len, &co, &vars, e);
    if (st == ST_OK)
        st = chat_template_new(&t, source.s, source.n, e);
    if (st == ST_OK)
        st = chat_template_render(t, m->tok, vars.data, vars.len, clock_unix(), out, e);
    if (t)
        chat_template_free(t);
    buf_release(&vars);
    return st;
}

int verb_template(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model || !o.chat)
        return opt_wrong(&verb, "%s is missing", o.model ? "--chat FILE.json" : "-m FILE");
    struct api_model m;
    struct err e = {0}, why;
    struct buf request = {0};
    struct text_rendering r = {0};
    enum status st = cli_load(&m, o.model, 0, API_TOK | API_CHAT, true, &e);
    if (st != ST_OK)
        return cli_fail(&e);
    st = read_request(o.chat, &request, &e);
    if (st == ST_OK && (st = render(&m, &o, &request, &r, &why)) != ST_OK)
        err_set(&e, st, why.field, why.code == ST_ARGUMENT ? "%s: %s" : "%.0s%s", o.chat, why.text);
    if (st == ST_OK) {
        fwrite(r.text, 1, r.n, stdout);
        status = cli_flush();
        text_rendering_release(&r);
    } else {
        status = cli_fail(&e);
    }
    buf_release(&request);
    api_close(&m);
    return status;
}
