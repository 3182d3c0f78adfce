/* replay_constrain: see replay_constrain.h. */
#include "cli/replay_constrain.h"

#include <stdlib.h>
#include <string.h>

#define TAIL 64u     /* ids at the end of a prompt among which a template opens reasoning */
#define SPECIALS 32u /* control tokens that marks and tags are made of */

void replay_constrain_init(struct replay_constrain *c, const struct tok *tok, const char *source, size_t n)
{
    *c = (struct replay_constrain){
        .tok = tok, .format = format_detect(source, n), .reasoning = format_detect_reasoning(source, n)};
    if (c->format)
        format_shape_init(c->format, &c->shape);
}

static bool opens_reasoning(const struct replay_constrain *c, const struct replay_item *it)
{
    size_t n = it->prompt_n < TAIL ? it->prompt_n : TAIL, bytes;
    char *tail;
    if (!c->reasoning || tok_decode(c->tok, it->prompt + (it->prompt_n - n), n, true, &tail, &bytes, NULL) != ST_OK)
        return false;
    bool opens = format_opens_reasoning(c->reasoning, tail, bytes);
    text_free(tail, bytes);
    return opens;
}

/* --- response_format ------------------------------------------------------------------------------------------------- */

static enum status compile_format(const struct replay_constrain *c, const json_t *format, struct replay_item *it,
                                  struct err *e)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *outer = json_object_get(format, "json_schema");
    struct grammar_source src = {.kind = GRAMMAR_JSON};
    char *schema = NULL;
    if (strcmp(type, "text") == 0)
        return ST_OK;
    if (strcmp(type, "json_schema") == 0) {
        schema = json_dumps(json_object_get(outer, "schema"), JSON_COMPACT);
        if (!schema)
            return err_set(e, ST_NO_MEMORY, "response_format", "no memory for a schema");
        src = (struct grammar_source){.kind = GRAMMAR_SCHEMA, .text = schema, .n = strlen(schema),
                                      .relax = !json_is_true(json_object_get(outer, "strict"))};
    }
    if (opens_reasoning(c, it)) {
        src.after = c->reasoning->close;
        src.after_n = strlen(src.after);
    }
    enum status st = grammar_new(&it->grammar, c->tok, &src, e);
    free(schema);
    return st;
}

/* --- calls ----------------------------------------------------------------------------------------------------------- */

/* The line's tools, their schemas as JSON of their own. */
static enum status read_tools(const json_t *tools, struct format_tools **out, struct err *e)
{
    size_t n = json_array_size(tools);
    struct format_tool *all = calloc(n, sizeof *all);
    char **schemas = calloc(n, sizeof *schemas);
    enum status st = all && schemas ? ST_OK : err_set(e, ST_NO_MEMORY, "tools", "no memory for %zu tools", n);
    for (size_t i = 0; i < n && st == ST_OK; i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const json_t *name = json_object_get(function, "name"), *parameters = json_object_get(function, "parameters");
        schemas[i] = parameters ? json_dumps(parameters, JSON_COMPACT) : NULL;
        all[i] = (struct format_tool){.name = json_string_value(name), .name_n = json_string_length(name),
                                      .schema = schemas[i], .schema_n = schemas[i] ? strlen(schemas[i]) : 0};
    }
    if (st == ST_OK)
        st = format_tools_new(out, all, n, e);
    for (size_t i = 0; schemas && i < n; i++)
        free(schemas[i]);
    free(schemas);
    free(all);
    return st;
}

static void add_special(const struct replay_constrain *c, const char *text, struct format_special *to, size_t *n)
{
    tok_id id = tok_find_special(c->tok, text, strlen(text));
    if (id != TOK_NONE && tok_is_special(c->tok, id) && *n < SPECIALS)
        to[(*n)++] = (struct format_special){.text = text, .n = strlen(text), .id = id};
}

/* What tool_choice asks for. */
static void read_choice(const json_t *choice, const struct format_tools *tools, struct format_request *q)
{
    const char *word = json_string_value(choice);
    const json_t *name = json_object_get(json_object_get(choice, "function"), "name");
    q->choice = word && strcmp(word, "required") == 0 ? FORMAT_REQUIRED : FORMAT_AUTO;
    if (!name)
        return;
    q->choice = FORMAT_NAMED; /* the reader has seen that it is there */
    q->named = (size_t)format_tools_find(tools, json_string_value(name), json_string_length(name));
}

static enum status compile_calls(const struct replay_constrain *c, const struct format_tools *tools, const json_t *choice,
                                 struct replay_item *it, struct err *e)
{
    struct format_special specials[SPECIALS];
    size_t n = 0;
    const char *mark;
    for (size_t i = 0; (mark = format_mark_at(c->format, i)); i++)
        add_special(c, mark, specials, &n);
    if (c->reasoning) {
        add_special(c, c->reasoning->open, specials, &n);
        add_special(c, c->reasoning->close, specials, &n);
    }
    struct format_request q = {.tools = tools, .parallel = true, .reasoning = c->reasoning, .specials = specials,
                               .specials_n = n};
    q.thinking = !c->reasoning ? FORMAT_NO_REASONING : opens_reasoning(c, it) ? FORMAT_IN_REASONING : FORMAT_MAY_REASON;
    read_choice(choice, tools, &q);
    struct buf lark;
    buf_init(&lark, TEXT_LIMIT_GRAMMAR);
    enum status st = format_grammar(c->format, &c->shape, &q, &lark, e);
    if (st == ST_OK) {
        const struct grammar_source src = {.kind = GRAMMAR_LARK, .text = lark.data, .n = lark.len, .relax = true};
        st = grammar_new(&it->grammar, c->tok, &src, e);
    }
    buf_release(&lark);
    return st;
}

/* --- both ------------------------------------------------------------------------------------------------------------ */

/* Whether the grammar lets the reply come as it was recorded. */
static enum status check_reply(const struct replay_item *it, struct err *e)
{
    struct matcher *m;
    struct matcher_next next = {0};
    TRY(matcher_new(&m, it->grammar, e));
    uint32_t n = (uint32_t)it->reply_n - 1, went = matcher_consume(m, it->reply, n);
    uint32_t *mask = malloc(matcher_words(m) * sizeof *mask);
    enum status st = mask ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a mask");
    if (st == ST_OK && went == n)
        st = matcher_mask(m, mask, &next, e);
    if (st == ST_OK && went < n)
        st = err_set(e, ST_UNSUPPORTED, "reply", "the request does not allow the reply from its token %u on", went);
    else if (st == ST_OK && !next.end)
        st = err_set(e, ST_UNSUPPORTED, "reply", "the request does not allow the reply to end where it does");
    free(mask);
    matcher_free(m);
    return st;
}

enum status replay_constrain_item(const struct replay_constrain *c, struct replay_item *it, struct err *e)
{
    const json_t *format = json_object_get(it->line->root, "response_format");
    const json_t *tools = json_object_get(it->line->root, "tools");
    if (format) {
        TRY(compile_format(c, format, it, e));
    } else if (json_array_size(tools) && c->format && !replay_line_hides_tools(it->line)) {
        struct format_tools *some;
        TRY(read_tools(tools, &some, e));
        enum status st = compile_calls(c, some, json_object_get(it->line->root, "tool_choice"), it, e);
        format_tools_free(some);
        TRY(st);
    }
    return it->grammar ? check_reply(it, e) : ST_OK;
}
