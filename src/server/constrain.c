/* constrain: see constrain.h. */
#include "server/constrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what replies hold ---- */

enum status server_recognise(const struct server *s, struct text_view request, bool calls, struct reply_job *job,
                             struct format_shape *shape, struct err *e)
{
    const struct reply_prompt *p = &job->prompts[0];
    const struct chat_tools_options o = {.format = s->format, .no_calls = !calls};
    struct chat_tools t;
    TRY(chat_tools_get(s->tools, request.data, request.n, &o, p->ids, p->n, &t, e));
    job->recognise = (struct recogniser_config){.format = t.format, .reasoning = t.reasoning, .tools = t.tools,
                                                .in_reasoning = t.in_reasoning};
    job->recognises = t.format || t.reasoning;
    job->tools = t.tools; /* the references are the job's now */
    job->rows = t.rows;
    *shape = t.shape;
    return ST_OK;
}

/* ---- one constraint ---- */

/* Names the part: a place in a schema ("/properties/a/not: …") continues the name of the field. */
static enum status about(const char *field, const struct err *why, struct err *e)
{
    char text[ERR_TEXT];
    snprintf(text, sizeof text, "%s", why->text);
    enum status code = why->code;
    int retry = why->retry_after;
    (void)err_set(e, code, field, text[0] == '/' ? "%s%s" : "%s: %s", field, text);
    e->retry_after = retry;
    return code;
}

enum status server_constrain(const struct server *s, const struct server_constraint *c, struct reply_job *job,
                             struct err *e)
{
    const struct recogniser_config *r = &job->recognise;
    struct grammar_source src = {.kind = c->kind, .text = c->text.data, .n = c->text.n};
    struct err why = {0};
    if (r->in_reasoning) {
        src.after = r->reasoning->close;
        src.after_n = strlen(src.after);
    }
    return grammar_cache_get(s->grammars, &job->grammar, &src, &why) == ST_OK ? ST_OK : about(c->field, &why, e);
}

/* ---- calls ---- */

#define SPECIALS 32u /* control tokens that marks and tags are made of; a format has fewer */

static void add_special(const struct tok *t, const char *text, struct format_special *to, size_t *n)
{
    tok_id id = tok_find_special(t, text, strlen(text));
    if (id != TOK_NONE && tok_is_special(t, id) && *n < SPECIALS)
        to[(*n)++] = (struct format_special){.text = text, .n = strlen(text), .id = id};
}

static enum status write_grammar(const struct server *s, const struct server_calls *c, struct format_tools *tools,
                                 size_t named, const struct reply_job *job, struct buf *lark, struct err *e)
{
    const struct format_reasoning *reasoning = job->recognise.reasoning;
    struct format_special specials[SPECIALS];
    size_t n = 0;
    const char *mark;
    for (size_t i = 0; (mark = format_mark_at(job->recognise.format, i)); i++)
        add_special(s->tok, mark, specials, &n);
    if (reasoning) {
        add_special(s->tok, reasoning->open, specials, &n);
        add_special(s->tok, reasoning->close, specials, &n);
    }
    const struct format_request q = {
        .tools = tools,
        .choice = c->choice,
        .named = named,
        .parallel = c->parallel,
        .thinking = !reasoning                     ? FORMAT_NO_REASONING
                    : job->recognise.in_reasoning ? FORMAT_IN_REASONING
                                                   : FORMAT_MAY_REASON,
        .reasoning = reasoning,
        .specials = specials,
        .specials_n = n,
    };
    return format_grammar(job->recognise.format, c->shape, &q, lark, e);
}

static void schema_field(const struct server_calls *c, size_t i, char field[ERR_FIELD])
{
    snprintf(field, ERR_FIELD, "tools[%zu].%s", i, c->schema_field);
}

/* A tool's schema by itself: what cannot be enforced is refused, or is in what the grammar has relaxed. */
static enum status compile_schema(const struct server *s, const struct server_calls *c, size_t i, bool relax,
                                  struct grammar **out, struct err *e)
{
    char field[ERR_FIELD];
    struct err why = {0};
    const struct grammar_source src = {.kind = GRAMMAR_SCHEMA, .text = c->tools[i].schema, .n = c->tools[i].schema_n,
                                       .relax = relax};
    *out = NULL;
    if (!src.n || grammar_cache_get(s->grammars, out, &src, &why) == ST_OK)
        return ST_OK;
    schema_field(c, i, field);
    return about(field, &why, e);
}

static enum status check_strict(const struct server *s, const struct server_calls *c, struct err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        struct grammar *g;
        if (!server_set_has(c->strict, i))
            continue;
        TRY(compile_schema(s, c, i, false, &g, e));
        grammar_free(g);
    }
    return ST_OK;
}

/* Appends a JSON array of pointers to one under way, each with `where` before it. Pointers hold no control characters
 * but what JSON escapes, so an entry ends at the first quote without a backslash. */
static void add_relaxed(const struct grammar *g, const char *where, struct buf *out)
{
    size_t n, i = 0;
    const char *list = grammar_relaxed(g, &n);
    while (i < n) {
        if (list[i++] != '"')
            continue;
        size_t from = i;
        while (i < n && list[i] != '"')
            i += list[i] == '\\' ? 2 : 1;
        i = i < n ? i : n;
        buf_adds(out, out->len > 1 ? ",\"" : "\"");
        buf_adds(out, where);
        buf_add(out, list + from, i - from);
        buf_adds(out, "\"");
        i++;
    }
}

/* Asks each tool's schema by itself, since the grammar of all cannot say which one it was. */
static enum status list_relaxed(const struct server *s, const struct server_calls *c, struct reply_job *job,
                                struct err *e)
{
    struct buf list;
    enum status st = ST_OK;
    buf_init(&list, LIMIT_RELAXED);
    buf_adds(&list, "[");
    for (size_t i = 0; i < c->n && st == ST_OK; i++) {
        char where[ERR_FIELD];
        struct grammar *g = NULL;
        if (server_set_has(c->strict, i))
            continue;
        st = compile_schema(s, c, i, true, &g, e);
        if (!g)
            continue;
        snprintf(where, sizeof where, "/tools/%zu/%s", i, c->schema_field);
        for (char *p = where; *p; p++)
            *p = (char)(*p == '.' ? '/' : *p);
        add_relaxed(g, where, &list);
        grammar_free(g);
    }
    buf_adds(&list, "]");
    if (st == ST_OK && list.failed)
        st = err_set(e, ST_TOO_LONG, "tools", "what cannot be enforced in the tools' schemas has more than %u bytes of "
                     "names", LIMIT_RELAXED);
    if (st == ST_OK)
        job->relaxed = list.data;
    else
        buf_release(&list);
    return st;
}

static enum status compile_calls(const struct server *s, const struct server_calls *c, const struct buf *lark,
                                 struct reply_job *job, struct err *e)
{
    bool relax = false;
    size_t n;
    struct err why = {0};
    for (size_t i = 0; i < c->n; i++)
        relax = relax || !server_set_has(c->strict, i);
    TRY(check_strict(s, c, e));
    const struct grammar_source src = {.kind = GRAMMAR_LARK, .text = lark->data, .n = lark->len, .relax = relax};
    if (grammar_cache_get(s->grammars, &job->grammar, &src, &why) != ST_OK) {
        /* A tool that does not compile by itself is the better answer. */
        for (size_t i = 0; i < c->n; i++) {
            struct grammar *g;
            TRY(compile_schema(s, c, i, true, &g, e));
            grammar_free(g);
        }
        return about("tools", &why, e);
    }
    (void)grammar_relaxed(job->grammar, &n);
    return n > 2 ? list_relaxed(s, c, job, e) : ST_OK;
}

/* The tools that may be called, as a list of their own; *named becomes the named one's place in it. */
static enum status allowed_tools(const struct server_calls *c, struct format_tools **out, size_t *named, struct err *e)
{
    size_t n = 0;
    struct format_tool *some = calloc(c->n, sizeof *some);
    if (!some)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory for %zu tools", c->n);
    for (size_t i = 0; i < c->n; i++) {
        if (i == c->named)
            *named = n;
        if (server_set_has(c->allowed, i))
            some[n++] = c->tools[i];
    }
    enum status st = format_tools_new(out, some, n, e);
    free(some);
    return st;
}

static enum status make_grammar(const struct server *s, const struct server_calls *c, struct reply_job *job,
                                struct err *e)
{
    struct buf lark;
    struct format_tools *some = NULL;
    size_t named = c->named;
    if (c->allowed)
        TRY(allowed_tools(c, &some, &named, e));
    buf_init(&lark, LIMIT_GRAMMAR_TEXT);
    enum status st = write_grammar(s, c, some ? some : job->tools, named, job, &lark, e);
    if (st == ST_OK)
        st = compile_calls(s, c, &lark, job, e);
    buf_release(&lark);
    format_tools_free(some);
    return st;
}

static enum status no_format(const struct server_calls *c, struct err *e)
{
    if (c->choice != FORMAT_AUTO)
        return err_set(e, ST_UNSUPPORTED, c->choice_field, "%s: this model's chat template writes tool calls in no way "
                       "that is known here, so none can be forced", c->choice_field);
    for (size_t i = 0; i < c->n; i++) {
        char field[ERR_FIELD];
        if (!server_set_has(c->strict, i))
            continue;
        schema_field(c, i, field);
        return err_set(e, ST_UNSUPPORTED, field, "%s cannot be enforced: this model's chat template writes tool calls in "
                       "no way that is known here", field);
    }
    return ST_OK;
}

enum status server_constrain_calls(const struct server *s, const struct server_calls *calls, struct reply_job *job,
                                   struct err *e)
{
    if (!job->recognise.format)
        return no_format(calls, e);
    job->one_call = !calls->parallel;
    return make_grammar(s, calls, job, e);
}
