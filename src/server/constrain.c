/* constrain: see constrain.h. */
#include "server/constrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

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

/* ---- thinking ---- */

static tok_id special_id(const struct tok *t, const char *text)
{
    tok_id id = tok_find_special(t, text, strlen(text));
    return id != TOK_NONE && tok_is_special(t, id) ? id : TOK_NONE;
}

/* The ids of a line feed and the mark; none if they are not a few whose last is `shut`. */
static enum status encode_close(const struct server *s, const char *mark, tok_id shut, struct sample_limit *to,
                                struct err *e)
{
    char text[64];
    tok_id *ids;
    size_t n;
    snprintf(text, sizeof text, "\n%s", mark);
    TRY(tok_encode(s->tok, text, strlen(text), TOK_TRUSTED | TOK_INNER, &ids, &n, e));
    to->close_n = n && n <= SAMPLE_CLOSE && ids[n - 1] == shut ? (uint32_t)n : 0;
    memcpy(to->close, ids, to->close_n * sizeof *ids);
    tok_ids_free(ids, n);
    return ST_OK;
}

enum status server_limit_thinking(const struct server *s, uint32_t tokens, const char *field, struct reply_job *job,
                                  struct err *e)
{
    const struct recogniser_config *r = &job->recognise;
    if (!r->reasoning)
        return err_set(e, ST_UNSUPPORTED, field, "%s: this model does not think before it replies", field);
    const tok_id open = special_id(s->tok, r->reasoning->open), shut = special_id(s->tok, r->reasoning->close);
    struct sample_limit b = {.ids = tokens, .open = open, .inside = r->in_reasoning};
    if (shut != TOK_NONE && (open != TOK_NONE || b.inside))
        TRY(encode_close(s, r->reasoning->close, shut, &b, e));
    if (!b.close_n)
        return err_set(e, ST_UNSUPPORTED, field, "%s cannot be kept: %s, with which this model's thinking ends, is not a "
                       "token of its own", field, r->reasoning->close);
    job->thinking = b;
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
                                 size_t named, const struct reply_job *job, struct buf *lark, struct buf *left_out,
                                 struct err *e)
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
        .left_out = left_out,
    };
    return format_grammar(job->recognise.format, c->shape, &q, lark, e);
}

static void schema_field(const struct server_calls *c, size_t i, char field[ERR_FIELD])
{
    snprintf(field, ERR_FIELD, "tools[%zu].%s", i, c->schema_field);
}

/* A tool's schema by itself: what cannot be enforced is refused, or is in what the grammar has relaxed. */
static enum status check_schema(const struct server *s, const struct server_calls *c, size_t i, struct grammar **out,
                                struct err *e)
{
    char field[ERR_FIELD];
    struct err why = {0};
    const struct grammar_source src = {.kind = GRAMMAR_SCHEMA, .text = c->tools[i].schema, .n = c->tools[i].schema_n,
                                       .relax = !server_set_has(c->strict, i), .check = true};
    *out = NULL;
    if (!src.n || grammar_cache_get(s->grammars, out, &src, &why) == ST_OK)
        return ST_OK;
    schema_field(c, i, field);
    return about(field, &why, e);
}

/* Whether the grammar has calls of a tool. */
static bool callable(const struct server_calls *c, size_t i)
{
    return c->choice == FORMAT_NAMED ? i == c->named : !c->allowed || server_set_has(c->allowed, i);
}

/* The i-th of the allowed tools. */
static size_t allowed_at(const struct server_calls *c, size_t i)
{
    size_t at = 0;
    while (at < c->n && c->allowed && (!server_set_has(c->allowed, at) || i--))
        at++;
    return c->allowed ? at : i;
}

static void pointer_to(const struct server_calls *c, size_t i, char where[ERR_FIELD])
{
    snprintf(where, ERR_FIELD, "/tools/%zu/%s", i, c->schema_field);
    for (char *p = where; *p; p++)
        *p = (char)(*p == '.' ? '/' : *p);
}

#define LATEST 65536u /* bytes of the list in which an entry is looked for before it is added again */

/* An entry of the list: what format_grammar() and a schema's check leave out may be the same. */
static void add_entry(struct buf *list, const char *where, const char *pointer, size_t n)
{
    struct buf entry;
    buf_init(&entry, LIMIT_RELAXED);
    buf_addf(&entry, "\"%s", where);
    buf_add(&entry, pointer, n);
    buf_adds(&entry, "\"");
    list->failed |= entry.failed;
    size_t from = list->len > LATEST ? list->len - LATEST : 0;
    if (!entry.failed && !memmem(list->data + from, list->len - from, entry.data, entry.len)) {
        buf_adds(list, list->len > 1 ? "," : "");
        buf_add(list, entry.data, entry.len);
    }
    buf_release(&entry);
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
        add_entry(out, where, list + from, i - from);
        i++;
    }
}

/* Asks each tool's schema by itself, since the grammar of all cannot say which one it was. */
static enum status add_relaxed_of_each(const struct server *s, const struct server_calls *c, struct buf *list,
                                        struct err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        char where[ERR_FIELD];
        struct grammar *g;
        if (!callable(c, i))
            continue;
        TRY(check_schema(s, c, i, &g, e));
        pointer_to(c, i, where);
        if (g)
            add_relaxed(g, where, list);
        grammar_free(g);
    }
    return ST_OK;
}

/* What the model's notation of calls cannot express, [[tool, pointer], …]: refused of a strict tool. */
static enum status add_left_out(const struct server_calls *c, const struct reply_job *job, const json_t *left_out,
                                struct buf *list, struct err *e)
{
    const json_t *one;
    size_t k;
    json_array_foreach(left_out, k, one) {
        size_t i = allowed_at(c, (size_t)json_integer_value(json_array_get(one, 0)));
        const json_t *pointer = json_array_get(one, 1);
        char field[ERR_FIELD], where[ERR_FIELD];
        schema_field(c, i, field);
        if (server_set_has(c->strict, i))
            return err_set(e, ST_UNSUPPORTED, field, "%s%.400s cannot be enforced in this model's way of writing calls "
                           "(%s)", field, json_string_value(pointer), format_name(job->recognise.format));
        pointer_to(c, i, where);
        char *text = json_dumps(pointer, JSON_ENCODE_ANY);
        if (text)
            add_entry(list, where, text + 1, strlen(text) - 2);
        free(text);
    }
    return ST_OK;
}

/* A tool that cannot be compiled by itself is the better answer than that all of them cannot. */
static enum status name_culprit(const struct server *s, const struct server_calls *c, const struct err *why, struct err *e)
{
    for (size_t i = 0; i < c->n && why->code != ST_BUSY; i++) {
        struct grammar *g = NULL;
        if (callable(c, i))
            TRY(check_schema(s, c, i, &g, e));
        grammar_free(g);
    }
    return about("tools", why, e);
}

static enum status compile_calls(const struct server *s, const struct server_calls *c, const struct buf *lark,
                                 const json_t *left_out, struct reply_job *job, struct err *e)
{
    struct grammar_source src = {.kind = GRAMMAR_LARK, .text = lark->data, .n = lark->len};
    struct buf list;
    struct err why = {0};
    size_t n;
    for (size_t i = 0; i < c->n; i++)
        src.relax = src.relax || (callable(c, i) && !server_set_has(c->strict, i));
    buf_init(&list, LIMIT_RELAXED);
    buf_adds(&list, "[");
    enum status st = add_left_out(c, job, left_out, &list, e);
    if (st == ST_OK && grammar_cache_get(s->grammars, &job->grammar, &src, &why) != ST_OK)
        st = name_culprit(s, c, &why, e);
    if (st == ST_OK && grammar_relaxed(job->grammar, &n) && n > 2)
        st = add_relaxed_of_each(s, c, &list, e);
    buf_adds(&list, "]");
    if (st == ST_OK && list.failed)
        st = err_set(e, ST_TOO_LONG, "tools", "what cannot be enforced in the tools' schemas has more than %u bytes of "
                     "names", LIMIT_RELAXED);
    if (st == ST_OK && list.len > 2)
        job->relaxed = list.data;
    else
        buf_release(&list);
    return st;
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
    struct buf lark, left_out;
    struct format_tools *some = NULL;
    size_t named = c->named;
    if (c->allowed)
        TRY(allowed_tools(c, &some, &named, e));
    buf_init(&lark, LIMIT_GRAMMAR_TEXT);
    buf_init(&left_out, LIMIT_RELAXED);
    enum status st = write_grammar(s, c, some ? some : job->tools, named, job, &lark, &left_out, e);
    json_t *list = st == ST_OK && !left_out.failed ? json_loadb(left_out.data, left_out.len, JSON_ALLOW_NUL, NULL) : NULL;
    if (st == ST_OK && !list)
        st = err_set(e, ST_TOO_LONG, "tools", "what cannot be enforced in the tools' schemas has more than %u bytes of "
                     "names", LIMIT_RELAXED);
    if (st == ST_OK)
        st = compile_calls(s, c, &lark, list, job, e);
    json_decref(list);
    buf_release(&left_out);
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
