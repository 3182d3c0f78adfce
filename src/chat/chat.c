/*
 * chat: a template, what it can do, and the way from a request to prompt ids.
 *
 * What a template can do is found out once, at load: by its source where a word decides, by a trial rendering where
 * only behaviour tells.
 */
#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include "chat/private.h"

#define PROBE "ffwd probe text"

/* Whether `content`, a JSON value that holds PROBE, shows up in a rendering. */
static bool probe(const struct chat *c, const char *content)
{
    struct text_rendering r;
    struct err ignored;
    struct buf vars;
    bool seen = false;
    buf_init(&vars, 1024);
    buf_addf(&vars, "{\"messages\":[{\"role\":\"user\",\"content\":%s}],\"add_generation_prompt\":true}", content);
    if (!vars.failed && chat_template_render(c->tpl, c->tok, vars.data, vars.len, 0, &r, &ignored) == ST_OK) {
        seen = memmem(r.text, r.n, PROBE, sizeof PROBE - 1) != NULL;
        text_rendering_release(&r);
    }
    buf_release(&vars);
    return seen;
}

enum status chat_new(struct chat **out, const struct tok *tok, const char *source, size_t n, struct err *e)
{
    *out = NULL;
    struct chat *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the chat template");
    c->tok = tok;
    if (source) {
        enum status st = chat_template_new(&c->tpl, source, n, e);
        if (st != ST_OK) {
            free(c);
            return st;
        }
        c->knows_tools = memmem(source, n, "tools", 5) != NULL;
        c->tells_tools = memmem(source, n, "tool", 4) == NULL;
        c->format = format_detect(source, n);
        c->reasoning = format_detect_reasoning(source, n);
        c->knows_effort = memmem(source, n, "reasoning_effort", 16) != NULL;
        c->knows_developer = memmem(source, n, "developer", 9) != NULL;
        c->typed_content = !probe(c, "\"" PROBE "\"") && probe(c, "[{\"type\":\"text\",\"text\":\"" PROBE "\"}]");
    }
    *out = c;
    return ST_OK;
}

void chat_free(struct chat *c)
{
    if (!c)
        return;
    if (c->tpl)
        chat_template_free(c->tpl);
    free(c);
}

bool chat_has_template(const struct chat *c)
{
    return c->tpl != NULL;
}

bool chat_knows_tools(const struct chat *c)
{
    return c->knows_tools;
}

bool chat_knows_effort(const struct chat *c)
{
    return c->knows_effort;
}

/* The caller releases *r on success. */
static enum status render(const struct chat *c, const char *request, size_t n, const struct chat_options *o,
                          struct text_rendering *r, struct err *e)
{
    struct buf vars;
    if (!c->tpl)
        return err_set(e, ST_UNSUPPORTED, "messages",
                       "this model has no chat template, so it cannot take messages; send a plain prompt instead");
    buf_init(&vars, CHAT_LIMIT_VARIABLES);
    enum status st = chat_variables(c, request, n, o, &vars, e);
    if (st == ST_OK) {
        int64_t now = o->unix_time ? o->unix_time : clock_unix();
        st = chat_template_render(c->tpl, c->tok, vars.data, vars.len, now, r, e);
    }
    buf_release(&vars);
    if (st == ST_OK && o->max_bytes && r->n > o->max_bytes) {
        st = err_set(e, ST_NEVER_FITS, "messages", "the prompt has %zu bytes; at most %zu can fit the context", r->n,
                     o->max_bytes);
        text_rendering_release(r);
    }
    return st;
}

enum status chat_prompt(const struct chat *c, const char *request, size_t n, const struct chat_options *o,
                        tok_id **ids, size_t *count, struct err *e)
{
    struct text_rendering r;
    *ids = NULL;
    *count = 0;
    TRY(render(c, request, n, o, &r, e));
    enum status st = tok_encode_rendering(c->tok, &r, ids, count, e);
    text_rendering_release(&r);
    return st;
}

enum status chat_text(const struct chat *c, const char *request, size_t n, const struct chat_options *o,
                      struct buf *out, struct err *e)
{
    struct text_rendering r;
    TRY(render(c, request, n, o, &r, e));
    buf_add(out, r.text, r.n);
    text_rendering_release(&r);
    return out->failed ? err_set(e, ST_NO_MEMORY, "messages", "no memory for the prompt's text") : ST_OK;
}
