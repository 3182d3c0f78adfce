/*
 * grammar_pairs: the grammar of arguments that are written as keys and values between tags.
 *
 * Keys come in the schema's order, those that are not required may be left out. A value that may be a string is text up to
 * its closing tag, of a list of values one of them; other keywords of strings are not enforced in such a format, and
 * noted as left out. A value that may not be a string is JSON of its schema.
 */
#include <stdlib.h>
#include <string.h>

#include "format/schema.h"

/* The mark that ends a value. */
static const char *value_end(const struct format *f)
{
    for (const struct format_step *s = f->steps; s->kind; s++) {
        if (s->kind == STEP_VALUE || s->kind == STEP_STRING)
            return s->on->text;
    }
    return "";
}

void format_lark_pairs_shared(struct lark *l)
{
    format_lark_until(l, "until", value_end(l->format), l->shape->value_close);
}

static void piece(struct lark *l, const char *text)
{
    format_lark_piece(l, text, strlen(text));
}

/* key_open + KEY + key_close as one piece, so that one literal holds all of it. */
static void key_piece(struct lark *l, const struct format_key *k, const char *key_close)
{
    buf_clear(&l->piece);
    buf_adds(&l->piece, l->shape->key_open);
    buf_add(&l->piece, k->name, k->name_n);
    buf_adds(&l->piece, key_close);
    format_lark_piece(l, l->piece.data ? l->piece.data : "", l->piece.len);
}

/* How a value of a list is written, or NULL: it cannot be, so that it is read as what it is. The caller frees it. */
static char *value_text(const struct lark *l, unsigned types, const json_t *v)
{
    static const char *const words[] = {"True", "False", "None", "true", "false", "null"};
    bool python = l->shape->python_words, marked = *l->shape->key_close_other;
    if (json_is_boolean(v) || json_is_null(v))
        return strdup(words[(json_is_null(v) ? 2 : json_is_false(v)) + (python && !marked ? 0 : 3)]);
    if (!json_is_string(v))
        return json_is_integer(v) ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
    const char *text = json_string_value(v);
    unsigned type;
    bool other = types != TYPE_STRING && !marked && format_json_is(text, strlen(text), &type);
    for (int i = 0; i < 3 && types != TYPE_STRING && !marked; i++)
        other |= !strcmp(text, words[i]);
    return other || strlen(text) != json_string_length(v) || strstr(text, value_end(l->format)) ? NULL : strdup(text);
}

/* The alternatives among the values that are strings, or, if they are told apart, those that are not. */
static void one_of(struct lark *l, const struct format_key *k, const json_t *values, bool strings, bool others)
{
    const json_t *v;
    size_t i, n = 0;
    buf_adds(l->out, " (");
    json_array_foreach(values, i, v) {
        if (!(json_is_string(v) ? strings : others))
            continue;
        char *text = value_text(l, k->types, v);
        buf_adds(l->out, n++ ? " | " : "");
        format_lark_string(l->out, text ? text : "", text ? strlen(text) : 0);
        free(text);
    }
    buf_adds(l->out, ")");
    piece(l, l->shape->value_close);
}

static bool can_be_written(const struct lark *l, const struct format_key *k, const json_t *values)
{
    const json_t *v;
    size_t i;
    json_array_foreach(values, i, v) {
        char *text = value_text(l, k->types, v);
        if (!text)
            return false;
        free(text);
    }
    return true;
}

/* Python's words for booleans and null, where the template writes values as Python does. */
static bool python_words(const struct lark *l, const struct format_key *k)
{
    return l->shape->python_words && !(k->types & ~(unsigned)(TYPE_BOOLEAN | TYPE_NULL));
}

/* A value that is written as something else than JSON and not one of a list. */
static void free_value(struct lark *l, const struct format_key *k)
{
    if (!python_words(l, k)) {
        buf_adds(l->out, " until");
        return;
    }
    buf_adds(l->out, k->types == TYPE_BOOLEAN ? " (\"True\" | \"False\")"
                     : k->types == TYPE_NULL ? " \"None\"" : " (\"True\" | \"False\" | \"None\")");
    piece(l, l->shape->value_close);
}

static void json_value(struct lark *l, const struct format_keys *keys, const struct format_key *k)
{
    format_lark_json(l, k->schema, k->schema_n, keys->shared, k->refers ? keys->shared_n : 0);
    piece(l, l->shape->value_close);
}

/* Notes what a schema says beyond what pair() makes of it. */
static void left_out(struct format_scan *s, const struct format_key *k, const struct format_place *at,
                     const json_t *schema, bool listed)
{
    const bool marked = *s->lark->shape->key_close_other;
    s->types = marked && k->types & TYPE_STRING ? TYPE_STRING : k->types;
    s->listed = listed;
    if (k->types & TYPE_STRING || python_words(s->lark, k))
        format_left_out_free(s, at, schema);
}

/* The alternatives of a pair. */
static void pair(struct format_scan *s, const struct format_keys *keys, const struct format_key *k,
                 const struct format_place *at, const json_t *schema)
{
    struct lark *l = s->lark;
    bool text = k->types & TYPE_STRING, marked = *l->shape->key_close_other, words = python_words(l, k);
    bool both = text && marked && k->types != TYPE_STRING;
    json_t *values = text || words ? format_schema_values(s->root, schema, k->types, &s->left) : NULL;
    bool listed = values && can_be_written(l, k, values);
    left_out(s, k, at, schema, listed);
    key_piece(l, k, marked && !text ? l->shape->key_close_other : l->shape->key_close);
    if (listed)
        one_of(l, k, values, true, !both);
    else if (text || words)
        free_value(l, k);
    else
        json_value(l, keys, k);
    if (both) {
        buf_adds(l->out, " |");
        key_piece(l, k, l->shape->key_close_other);
        if (listed)
            one_of(l, k, values, false, true);
        else
            json_value(l, keys, k);
    }
    json_decref(values);
}

/* A key that the schema does not name. */
static void other_key(struct lark *l, size_t tool, const struct format_keys *keys)
{
    buf_addf(l->out, "OTHER_%zu: /[A-Za-z0-9_.-]{1,64}/", tool);
    for (size_t k = 0; k < keys->n; k++) {
        buf_adds(l->out, " & ~/");
        format_lark_regex(l->out, keys->at[k].name, keys->at[k].name_n);
        buf_adds(l->out, "/");
    }
    buf_addf(l->out, "\nother_%zu:", tool);
    piece(l, l->shape->key_open);
    buf_addf(l->out, " OTHER_%zu", tool);
    piece(l, l->shape->key_close);
    buf_adds(l->out, " until\n");
}

static enum status pairs(struct lark *l, size_t tool, const json_t *root, struct err *e)
{
    const struct format_keys *keys = format_tools_keys(l->request->tools, tool);
    const char *ref = "";
    const json_t *object = format_schema_object(root, &ref);
    const struct format_place top = {.key = *ref == '#' ? ref + 1 : ref, .whole = true};
    const struct format_place properties = {.up = &top, .key = "properties"};
    struct format_scan s = {.lark = l, .tool = tool, .root = root, .left = LIMIT_TOOL_NODES};
    /* With keys of any name behind them, a key's literal must not begin like a longer one. */
    bool open = keys->open && !keys->n;
    format_left_out_object(&s, &top, object, open);
    buf_addf(l->out, "args_%zu:", tool);
    for (size_t k = 0; k < keys->n; k++)
        buf_addf(l->out, " pair_%zu_%zu%s", tool, k, keys->at[k].required ? "" : "?");
    buf_addf(l->out, open ? " other_%zu*\n" : keys->n ? "\n" : " \"\"\n", tool);
    for (size_t k = 0; k < keys->n; k++) {
        const struct format_place at = {.up = &properties, .key = keys->at[k].name};
        TRY(format_lark_check_key(l, tool, keys->at[k].name, keys->at[k].name_n, e));
        buf_addf(l->out, "pair_%zu_%zu:", tool, k);
        pair(&s, keys, &keys->at[k], &at, json_object_get(json_object_get(object, "properties"), keys->at[k].name));
        buf_adds(l->out, "\n");
    }
    if (open)
        other_key(l, tool, keys);
    return ST_OK;
}

enum status format_lark_pairs(struct lark *l, size_t tool, struct err *e)
{
    json_t *root = format_tools_schema(l->request->tools, tool);
    enum status st = pairs(l, tool, root, e);
    json_decref(root);
    return st;
}
