/*
 * openai_constraint: what a reply has to look like, under all the names that clients give it: response_format, vLLM's
 * guided_* and structured_outputs, llama-server's grammar and json_schema, SGLang's regex and ebnf. One at a time.
 *
 * Schemas are handed on as the client wrote them: their bytes are cut out of the body.
 */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

/* Where a constraint may stand. An empty one of those marked asks for nothing, as with llama-server. */
struct place {
    const char *name, *shown;
    enum grammar_kind kind;
    bool empty_is_none;
};

static const struct place top[] = {
    {"guided_json", "guided_json", GRAMMAR_SCHEMA, false},
    {"guided_regex", "guided_regex", GRAMMAR_REGEX, false},
    {"guided_choice", "guided_choice", GRAMMAR_CHOICE, false},
    {"guided_grammar", "guided_grammar", GRAMMAR_GBNF, false},
    {"grammar", "grammar", GRAMMAR_GBNF, true},
    {"json_schema", "json_schema", GRAMMAR_SCHEMA, true},
    {"regex", "regex", GRAMMAR_REGEX, false},
    {"ebnf", "ebnf", GRAMMAR_GBNF, false},
    {NULL, NULL, GRAMMAR_JSON, false},
};

static const struct place structured[] = {
    {"json", "structured_outputs.json", GRAMMAR_SCHEMA, false},
    {"regex", "structured_outputs.regex", GRAMMAR_REGEX, false},
    {"choice", "structured_outputs.choice", GRAMMAR_CHOICE, false},
    {"grammar", "structured_outputs.grammar", GRAMMAR_GBNF, false},
    {NULL, NULL, GRAMMAR_JSON, false},
};

static enum status set(struct server_constraint *c, const char *field, enum grammar_kind kind, struct text_view text,
                       struct err *e)
{
    if (c->field)
        return err_set(e, ST_ARGUMENT, field, "%s and %s both say what the reply has to look like; only one of them can",
                       c->field, field);
    *c = (struct server_constraint){.field = field, .kind = kind, .text = text};
    return ST_OK;
}

static struct text_view bytes_of(struct cut v)
{
    return (struct text_view){v.s, v.n};
}

/* EBNF as llama.cpp and XGrammar write it has "::=" outside of strings, which end on their line; without it, it is
 * Lark. */
static enum grammar_kind grammar_kind(const char *s, size_t n)
{
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\\' && quoted)
            i++;
        else if (s[i] == '"' || s[i] == '\n')
            quoted = s[i] == '"' && !quoted;
        else if (!quoted && n - i >= 3 && memcmp(s + i, "::=", 3) == 0)
            return GRAMMAR_GBNF;
    }
    return GRAMMAR_LARK;
}

/* A schema as it is, or as the text of one. */
static enum status take_schema(const json_t *v, struct cut bytes, const char *shown, struct server_constraint *c,
                               struct err *e)
{
    if (json_is_string(v))
        return set(c, shown, GRAMMAR_SCHEMA, (struct text_view){json_string_value(v), json_string_length(v)}, e);
    if (!json_is_object(v) && !json_is_boolean(v))
        return http_wrong_type(v, shown, "a JSON Schema", e);
    return set(c, shown, GRAMMAR_SCHEMA, bytes_of(bytes), e);
}

static enum status take_choice(const json_t *v, struct cut bytes, const char *shown, struct server_constraint *c,
                               struct err *e)
{
    if (!json_is_array(v) || !json_array_size(v))
        return err_set(e, ST_ARGUMENT, shown, "%s must be an array of one string or more", shown);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_string(json_array_get(v, i)))
            return http_wrong_type(json_array_get(v, i), shown, "an array of strings", e);
    return set(c, shown, GRAMMAR_CHOICE, bytes_of(bytes), e);
}

static enum status take_text(const json_t *v, const struct place *p, struct server_constraint *c, struct err *e)
{
    if (!json_is_string(v))
        return http_wrong_type(v, p->shown, "a string", e);
    const struct text_view text = {json_string_value(v), json_string_length(v)};
    return set(c, p->shown, p->kind == GRAMMAR_GBNF ? grammar_kind(text.data, text.n) : p->kind, text, e);
}

static enum status take_places(const json_t *o, struct cut object, const struct place *p, struct server_constraint *c,
                               struct err *e)
{
    for (; p->name; p++) {
        const json_t *v = http_get(o, p->name);
        if (!v || (p->empty_is_none && json_is_string(v) && !json_string_length(v)))
            continue;
        if (p->kind == GRAMMAR_SCHEMA)
            TRY(take_schema(v, chat_cut_member(object, p->name), p->shown, c, e));
        else if (p->kind == GRAMMAR_CHOICE)
            TRY(take_choice(v, chat_cut_member(object, p->name), p->shown, c, e));
        else
            TRY(take_text(v, p, c, e));
    }
    return ST_OK;
}

/* ---- structured_outputs ---- */

static enum status take_structured(const json_t *root, struct cut body, struct server_constraint *c, struct err *e)
{
    static const char field[] = "structured_outputs";
    const json_t *o = http_get(root, field), *v;
    const char *key;
    bool any = false;
    if (!o)
        return ST_OK;
    if (!json_is_object(o))
        return http_wrong_type(o, field, "an object", e);
    json_object_foreach((json_t *)o, key, v) {
        bool known = strcmp(key, "json_object") == 0 || strcmp(key, "disable_fallback") == 0;
        for (const struct place *p = structured; p->name; p++)
            known = known || strcmp(key, p->name) == 0;
        if (!known && !json_is_null(v) && !json_is_false(v))
            return err_set(e, ST_UNSUPPORTED, field, "structured_outputs.%.60s is not supported by this version", key);
    }
    TRY(take_places(o, chat_cut_member(body, field), structured, c, e));
    if (http_get_bool(o, "json_object", &any, e) != ST_OK)
        return http_wrong_type(http_get(o, "json_object"), "structured_outputs.json_object", "a boolean", e);
    return any ? set(c, "structured_outputs.json_object", GRAMMAR_JSON, (struct text_view){0}, e) : ST_OK;
}

/* ---- response_format ---- */

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* {"name", "schema", "strict"}: enforced whole, whatever strict says. */
static enum status take_json_schema(const json_t *format, struct cut bytes, struct server_constraint *c, struct err *e)
{
    static const char at[] = "response_format.json_schema", schema_at[] = "response_format.json_schema.schema";
    const json_t *o = http_get(format, "json_schema");
    const char *name = NULL;
    size_t n = 0;
    bool strict = false;
    if (!json_is_object(o))
        return http_wrong_type(o, at, "an object", e);
    if (http_get_string(o, "name", &name, &n, e) != ST_OK)
        return http_wrong_type(http_get(o, "name"), "response_format.json_schema.name", "a string", e);
    if (http_get_bool(o, "strict", &strict, e) != ST_OK)
        return http_wrong_type(http_get(o, "strict"), "response_format.json_schema.strict", "a boolean", e);
    const json_t *schema = http_get(o, "schema");
    if (!schema)
        return err_set(e, ST_ARGUMENT, schema_at, "%s is missing", schema_at);
    return take_schema(schema, chat_cut_member(chat_cut_member(bytes, "json_schema"), "schema"), schema_at, c, e);
}

static enum status take_format(const json_t *root, struct cut body, struct server_constraint *c, struct err *e)
{
    static const char field[] = "response_format";
    const json_t *v = http_get(root, field);
    if (!v)
        return ST_OK;
    if (!json_is_object(v))
        return http_wrong_type(v, field, "an object", e);
    const json_t *type = json_object_get(v, "type"), *schema = http_get(v, "schema");
    struct cut bytes = chat_cut_member(body, field);
    if (!json_is_string(type))
        return http_wrong_type(type, "response_format.type", "a string", e);
    if (is_string(type, "text"))
        return ST_OK;
    if (is_string(type, "json_schema"))
        return take_json_schema(v, bytes, c, e);
    if (!is_string(type, "json_object"))
        return err_set(e, ST_UNSUPPORTED, field, "response_format.type '%.40s' is not supported; 'text', 'json_object' "
                       "and 'json_schema' are", json_string_value(type));
    if (schema) /* llama-server's way to give one */
        return take_schema(schema, chat_cut_member(bytes, "schema"), "response_format.schema", c, e);
    return set(c, field, GRAMMAR_JSON, (struct text_view){0}, e);
}

enum status openai_parse_constraint(const json_t *root, struct text_view body, struct server_constraint *out,
                                    struct err *e)
{
    const struct cut bytes = chat_cut_text(body.data, body.n);
    *out = (struct server_constraint){0};
    TRY(take_format(root, bytes, out, e));
    TRY(take_structured(root, bytes, out, e));
    return take_places(root, bytes, top, out, e);
}
