/* asked: see asked.h. */
#include "cli/asked.h"

#include <string.h>

#include "cli/cli.h"
#include "text/text.h"

bool asked_any(const struct asked_options *o)
{
    return o->schema || o->regex || o->grammar || o->tools;
}

int asked_options_check(const struct opt_verb *v, const struct asked_options *o)
{
    if (!!o->schema + !!o->regex + !!o->grammar + !!o->tools > 1)
        return opt_wrong(v, "--schema, --regex, --grammar and --tools exclude each other");
    if (o->tool_choice && !o->tools)
        return opt_wrong(v, "--tool-choice needs --tools");
    return 0;
}

/* The bytes of a JSON file go into the body as they are. */
static enum status add_json(const char *path, const char *before, const char *after, size_t limit, struct buf *body,
                            struct err *e)
{
    struct buf text;
    json_error_t why;
    TRY(cli_read(path, limit, &text, e));
    json_t *ok = json_loadb(text.data, text.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    enum status st = ok ? ST_OK : err_set(e, ST_ARGUMENT, path, "%.100s: line %d: %.100s", path, why.line, why.text);
    json_decref(ok);
    buf_adds(body, before);
    buf_add(body, text.data, text.len);
    buf_adds(body, after);
    buf_release(&text);
    return st;
}

static enum status add_string(const char *key, const char *s, size_t n, struct buf *body, struct err *e)
{
    json_t *v = json_stringn(s, n);
    char *quoted = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
    json_decref(v);
    if (!quoted)
        return err_set(e, ST_ARGUMENT, key, "%s: the text is not UTF-8", key);
    buf_addf(body, ",\"%s\":", key);
    buf_adds(body, quoted);
    free(quoted);
    return ST_OK;
}

static enum status add_choice(const char *choice, struct buf *body, struct err *e)
{
    static const char *const words[] = {"auto", "none", "required"};
    for (size_t i = 0; choice && i < sizeof words / sizeof *words; i++)
        if (strcmp(choice, words[i]) == 0)
            return add_string("tool_choice", choice, strlen(choice), body, e);
    if (!choice)
        return ST_OK;
    json_t *v = json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", choice);
    char *text = v ? json_dumps(v, 0) : NULL;
    json_decref(v);
    if (!text)
        return err_set(e, ST_ARGUMENT, "--tool-choice", "--tool-choice: the name is not UTF-8");
    buf_adds(body, ",\"tool_choice\":");
    buf_adds(body, text);
    free(text);
    return ST_OK;
}

enum status asked_add(const struct asked_options *o, struct buf *body, struct err *e)
{
    struct buf text;
    if (o->schema)
        TRY(add_json(o->schema, ",\"json_schema\":", "", TEXT_LIMIT_GRAMMAR, body, e));
    if (o->regex)
        TRY(add_string("guided_regex", o->regex, strlen(o->regex), body, e));
    if (o->grammar) {
        TRY(cli_read(o->grammar, TEXT_LIMIT_GRAMMAR, &text, e));
        enum status st = add_string("guided_grammar", text.data, text.len, body, e);
        buf_release(&text);
        TRY(st);
    }
    if (o->tools)
        TRY(add_json(o->tools, ",\"tools\":", "", LIMIT_BODY / 2, body, e));
    TRY(add_choice(o->tool_choice, body, e));
    return body->failed ? err_set(e, ST_NO_MEMORY, "", "no memory for the request") : ST_OK;
}

enum status asked_server(struct server **out, const struct api_model *m, struct engine *en, struct err *e)
{
    const struct server_config c = {.silent = true, .engine = en, .tok = m->tok,
                                    .chat = m->chat_err.code == ST_OK ? m->chat : NULL};
    return server_start(out, &c, e);
}
