/*
 * grammar_pairs: the grammar of arguments that are written as keys and values between tags.
 *
 * Keys come in the schema's order, those that are not required may be left out. A value that may be a string is text up to
 * its closing tag, of a list of strings one of them; other keywords of strings are not enforced in such a format, for they
 * are about JSON. A value that may not be a string is JSON of its schema.
 */
#include <jansson.h>
#include <string.h>

#include "format/inside.h"

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

/* A list of strings that are the only values, or NULL. The caller drops its reference. */
static json_t *strings_of(const struct lark *l, const struct format_key *k)
{
    json_t *schema = json_loadb(k->schema, k->schema_n, JSON_ALLOW_NUL, NULL), *v;
    json_t *constant = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    json_t *out = constant ? json_pack("[O]", constant) : json_incref(list);
    size_t i;
    bool fine = json_array_size(out) > 0;
    json_array_foreach(out, i, v) {
        fine &= json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v) &&
                !strstr(json_string_value(v), value_end(l->format));
    }
    json_decref(schema);
    if (fine)
        return out;
    json_decref(out);
    return NULL;
}

static void one_of(struct lark *l, const json_t *strings)
{
    const json_t *v;
    size_t i;
    buf_adds(l->out, " (");
    json_array_foreach(strings, i, v) {
        buf_adds(l->out, i ? " | " : "");
        format_lark_string(l->out, json_string_value(v), json_string_length(v));
    }
    buf_adds(l->out, ")");
    piece(l, l->shape->value_close);
}

/* Python's words for booleans and null, where the template writes values as Python does. */
static bool python_words(struct lark *l, const struct format_key *k)
{
    if (!l->shape->python_words || k->types & ~(unsigned)(TYPE_BOOLEAN | TYPE_NULL))
        return false;
    buf_adds(l->out, k->types == TYPE_BOOLEAN ? " (\"True\" | \"False\")"
                     : k->types == TYPE_NULL ? " \"None\"" : " (\"True\" | \"False\" | \"None\")");
    piece(l, l->shape->value_close);
    return true;
}

static void json_value(struct lark *l, const struct format_key *k)
{
    format_lark_json(l, k->schema, k->schema_n, false);
    piece(l, l->shape->value_close);
}

/* The alternatives of a pair. */
static void pair(struct lark *l, const struct format_key *k)
{
    const struct format_shape *s = l->shape;
    bool text = k->types & TYPE_STRING, marked = *s->key_close_other;
    json_t *strings = text ? strings_of(l, k) : NULL;
    if (text) {
        key_piece(l, k, s->key_close);
        if (strings)
            one_of(l, strings);
        else
            buf_adds(l->out, " until");
    }
    if (!strings && (!text || (marked && k->types != TYPE_STRING))) {
        if (text)
            buf_adds(l->out, " |");
        key_piece(l, k, marked ? s->key_close_other : s->key_close);
        if (!python_words(l, k))
            json_value(l, k);
    }
    json_decref(strings);
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

enum status format_lark_pairs(struct lark *l, size_t tool, struct err *e)
{
    const struct format_keys *keys = format_tools_keys(l->request->tools, tool);
    /* With keys of any name behind them, a key's literal must not begin like a longer one. */
    bool open = keys->open && !keys->n;
    buf_addf(l->out, "args_%zu:", tool);
    for (size_t k = 0; k < keys->n; k++)
        buf_addf(l->out, " pair_%zu_%zu%s", tool, k, keys->at[k].required ? "" : "?");
    buf_addf(l->out, open ? " other_%zu*\n" : keys->n ? "\n" : " \"\"\n", tool);
    for (size_t k = 0; k < keys->n; k++) {
        TRY(format_lark_check_key(l, tool, keys->at[k].name, keys->at[k].name_n, e));
        buf_addf(l->out, "pair_%zu_%zu:", tool, k);
        pair(l, &keys->at[k]);
        buf_adds(l->out, "\n");
    }
    if (open)
        other_key(l, tool, keys);
    return ST_OK;
}
