/*
 * grammar_bare: the grammar of arguments in Gemma's notation.
 *
 * Of a schema types, anyOf by itself, references, properties, required, items, and lists of values are followed; numbers,
 * booleans and null are JSON of their schema; strings are text between their marks. Whatever else it says is noted as left
 * out.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/schema.h"

#define NESTED 6 /* objects and arrays followed into one another */

struct bare {
    struct lark *l;
    size_t rules; /* objects so far: each has rules of its own */
    size_t tool;
    unsigned left; /* parts of the schema that may still be looked at */
    const json_t *root;
    struct buf later; /* their text */
};

static void piece(struct lark *l, const char *text)
{
    format_lark_piece(l, text, strlen(text));
}

void format_lark_bare_shared(struct lark *l)
{
    const char *quote = l->format->quote;
    struct buf *out = l->out;
    buf_adds(out, "string:");
    piece(l, quote);
    buf_adds(out, " until\n");
    format_lark_until(l, "until", quote, quote);
    buf_adds(out, "value: string | scalar | list | object\nscalar: %json {\"type\":[\"number\",\"boolean\",\"null\"]}\n"
                  "list: \"[\" (value (\",\" value)*)? \"]\"\nobject: \"{\" pairs \"}\"\n"
                  "pairs: (pair (\",\" pair)*)?\npair: KEY \":\" value\nKEY: /[A-Za-z0-9_.-]{1,64}/\n");
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    int c = strcasecmp(*x, *y);
    return c ? c : strcmp(*x, *y);
}

/* The names of the properties in the order in which they are written; *n of them. The caller frees the list. */
static const char **names_of(const struct lark *l, json_t *properties, size_t *n)
{
    const char **names = malloc((json_object_size(properties) + 1) * sizeof *names), *name;
    json_t *v;
    *n = 0;
    json_object_foreach(properties, name, v) {
        if (names)
            names[(*n)++] = name;
    }
    if (names && l->shape->sorted)
        qsort(names, *n, sizeof *names, by_name);
    return names;
}

static enum status expression(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema,
                              int depth, struct err *e);

/* Swaps what lark functions write to. */
static struct buf *write_to(struct bare *b, struct buf *out)
{
    struct buf *old = b->l->out;
    b->l->out = out;
    return old;
}

static void literal(struct bare *b, struct buf *out, const char *text)
{
    struct buf *old = write_to(b, out);
    piece(b->l, text);
    write_to(b, old);
}

/* How a value of a list is written, between quotes if it is a string, or NULL: it cannot be. The caller frees it. */
static char *value_text(const struct bare *b, const json_t *v)
{
    if (!json_is_string(v))
        return json_is_real(v) || json_is_object(v) || json_is_array(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY);
    const char *text = json_string_value(v);
    return strlen(text) != json_string_length(v) || strstr(text, b->l->format->quote) ? NULL : strdup(text);
}

static bool one_of(struct bare *b, struct buf *out, const json_t *values)
{
    const json_t *v;
    size_t i;
    bool fine = true;
    struct buf all;
    buf_init(&all, LIMIT_GRAMMAR_TEXT);
    json_array_foreach(values, i, v) {
        char *text = value_text(b, v);
        bool string = json_is_string(v);
        buf_adds(&all, i ? " |" : "");
        if (string)
            literal(b, &all, b->l->format->quote);
        buf_adds(&all, " ");
        format_lark_string(&all, text ? text : "", text ? strlen(text) : 0);
        if (string)
            literal(b, &all, b->l->format->quote);
        fine &= text != NULL;
        free(text);
    }
    if (fine)
        buf_addf(out, " (%s)", all.data ? all.data : "");
    out->failed |= all.failed;
    buf_release(&all);
    return fine;
}

/* Rules o<r>_<k>: the properties from the k-th on, where none has been written yet; p<r>_<k>: where some have. */
static enum status members(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema, int depth,
                           struct err *e)
{
    json_t *properties = json_object_get(schema, "properties");
    const struct format_place inside = {.up = at, .key = "properties"};
    size_t n, r = b->rules++;
    const char **names = names_of(b->l, properties, &n);
    if (!names)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory");
    json_t *required = format_schema_required(schema);
    buf_addf(out, " o%zu_0", r);
    enum status st = ST_OK;
    for (size_t k = 0; k < n && st == ST_OK; k++) {
        const struct format_place here = {.up = &inside, .key = names[k]};
        bool must = json_object_get(required, names[k]);
        struct buf value;
        buf_init(&value, LIMIT_GRAMMAR_TEXT);
        st = format_lark_check_key(b->l, b->tool, names[k], strlen(names[k]), e);
        if (st == ST_OK)
            st = expression(b, &value, &here, json_object_get(properties, names[k]), depth + 1, e);
        buf_addf(&b->later, "m%zu_%zu: ", r, k);
        format_lark_string(&b->later, names[k], strlen(names[k]));
        buf_addf(&b->later, " \":\"%s\n", value.data ? value.data : "");
        buf_addf(&b->later, "o%zu_%zu: m%zu_%zu p%zu_%zu", r, k, r, k, r, k + 1);
        if (!must)
            buf_addf(&b->later, " | o%zu_%zu", r, k + 1);
        buf_addf(&b->later, "\np%zu_%zu: \",\" m%zu_%zu p%zu_%zu", r, k, r, k, r, k + 1);
        if (!must)
            buf_addf(&b->later, " | p%zu_%zu", r, k + 1);
        buf_adds(&b->later, "\n");
        b->later.failed |= value.failed;
        buf_release(&value);
    }
    buf_addf(&b->later, "o%zu_%zu: \"\"\np%zu_%zu: \"\"\n", r, n, r, n);
    free(names);
    json_decref(required);
    return st;
}

/* Any value of some types, or any at all; what the schema says of them is left out. */
static void anything(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema, unsigned types)
{
    struct format_scan s = {.lark = b->l, .tool = b->tool, .root = b->root, .types = types, .left = b->left,
                            .untyped = types == TYPE_ANY};
    buf_adds(out, types == TYPE_STRING ? " string" : " value");
    format_left_out_free(&s, at, schema);
    b->left = s.left;
}

/* One of a list of values, if the schema is one. */
static bool listed(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema)
{
    struct format_scan s = {.lark = b->l, .tool = b->tool, .root = b->root, .listed = true};
    s.types = format_schema_types(b->root, schema, &b->left);
    json_t *values = format_schema_values(b->root, schema, s.types, &b->left);
    bool fine = values && one_of(b, out, values);
    json_decref(values);
    s.left = b->left;
    if (fine)
        format_left_out_free(&s, at, schema);
    b->left = s.left;
    return fine;
}

/* A value of one of several types, or of one of several schemas. */
static enum status either(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema, int depth,
                          struct err *e)
{
    json_t *types = json_object_get(schema, "type"), *list = types ? types : json_object_get(schema, "anyOf"), *v;
    const struct format_place any = {.up = at, .key = "anyOf"};
    size_t i;
    buf_adds(out, " (");
    json_array_foreach(list, i, v) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        const struct format_place branch = {.up = &any, .key = index};
        json_t *one = types ? json_copy((json_t *)schema) : json_incref(v);
        if (types)
            json_object_set(one, "type", v);
        buf_adds(out, i ? " |" : "");
        enum status st = expression(b, out, types ? at : &branch, one, depth + 1, e);
        json_decref(one);
        TRY(st);
    }
    buf_adds(out, ")");
    return ST_OK;
}

static enum status array(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema, int depth,
                         struct err *e)
{
    const struct format_place inside = {.up = at, .key = "items"};
    const json_t *items = json_object_get(schema, "items");
    struct format_scan s = {.lark = b->l, .tool = b->tool, .root = b->root};
    struct buf item;
    format_left_out_array(&s, at, schema);
    buf_init(&item, LIMIT_GRAMMAR_TEXT);
    enum status st = items ? expression(b, &item, &inside, items, depth + 1, e) : ST_OK;
    const char *one = item.data ? item.data : " value";
    buf_addf(out, " \"[\" (%s (\",\"%s)*)? \"]\"", one, one);
    out->failed |= item.failed;
    buf_release(&item);
    return st;
}

static enum status object(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema, int depth,
                          struct err *e)
{
    struct format_scan s = {.lark = b->l, .tool = b->tool, .root = b->root};
    bool some = json_object_size(json_object_get(schema, "properties"));
    bool open = !some && !json_is_false(json_object_get(schema, "additionalProperties"));
    format_left_out_object(&s, at, schema, open);
    if (some)
        return members(b, out, at, schema, depth, e);
    buf_adds(out, open ? " pairs" : " \"\"");
    return ST_OK;
}

/* A number, boolean or null. References in its schema would need the whole. */
static void scalar(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema)
{
    char *text = json_dumps(schema, JSON_COMPACT);
    struct buf *old = write_to(b, out);
    if (text && strstr(text, "\"$ref\"")) {
        struct format_scan s = {.lark = b->l, .tool = b->tool, .root = b->root, .left = b->left,
                                .types = TYPE_ANY & ~(unsigned)(TYPE_STRING | TYPE_ARRAY | TYPE_OBJECT)};
        format_left_out_free(&s, at, schema);
        b->left = s.left;
        free(text);
        json_t *type = json_pack("{s:O}", "type", json_object_get(schema, "type"));
        text = json_dumps(type, JSON_COMPACT);
        json_decref(type);
    }
    if (text)
        format_lark_json(b->l, text, strlen(text), NULL, 0);
    write_to(b, old);
    free(text);
}

/* A reference by itself is what it refers to; *ref: the last one, or as it was. */
static const json_t *followed(const struct bare *b, const json_t *schema, const char **ref)
{
    for (int i = 0; i < FORMAT_REF_DEPTH; i++) {
        const char *to = json_string_value(json_object_get(schema, "$ref"));
        if (!to || json_object_get(schema, "type") || format_says_more(schema, TYPE_ANY, "$ref"))
            break;
        const json_t *next = format_schema_resolve(b->root, to);
        if (!next)
            break;
        schema = next;
        *ref = strchr(to, '#');
    }
    return schema;
}

static enum status expression(struct bare *b, struct buf *out, const struct format_place *at, const json_t *schema,
                              int depth, struct err *e)
{
    const char *ref = NULL;
    schema = followed(b, schema, &ref);
    const struct format_place there = {.key = ref ? ref + 1 : "", .whole = true};
    at = ref ? &there : at;
    if (out->failed || b->later.failed)
        return err_set(e, ST_TOO_LONG, "tools", "the grammar of the tools takes more than %u bytes", LIMIT_GRAMMAR_TEXT);
    if (listed(b, out, at, schema))
        return ST_OK;
    const json_t *types = json_object_get(schema, "type");
    const char *type = json_string_value(types);
    bool union_of = types ? json_array_size(types) > 0
                          : json_array_size(json_object_get(schema, "anyOf")) &&
                                !format_says_more(schema, TYPE_ANY, "anyOf");
    if (depth > NESTED || !b->left || (!type && !union_of)) {
        anything(b, out, at, schema, TYPE_ANY);
        return ST_OK;
    }
    b->left--;
    if (union_of)
        return either(b, out, at, schema, depth, e);
    if (!strcmp(type, "string"))
        anything(b, out, at, schema, TYPE_STRING);
    else if (!strcmp(type, "array"))
        return array(b, out, at, schema, depth, e);
    else if (!strcmp(type, "object")) {
        buf_adds(out, " \"{\"");
        TRY(object(b, out, at, schema, depth, e));
        buf_adds(out, " \"}\"");
    } else {
        scalar(b, out, at, schema);
    }
    return ST_OK;
}

enum status format_lark_bare(struct lark *l, size_t tool, struct err *e)
{
    json_t *root = format_tools_schema(l->request->tools, tool);
    struct bare b = {.l = l, .tool = tool, .rules = tool * 1000000, .left = LIMIT_TOOL_NODES, .root = root};
    const char *ref = "";
    const json_t *schema = format_schema_object(root, &ref);
    const struct format_place top = {.key = *ref == '#' ? ref + 1 : ref, .whole = true};
    buf_init(&b.later, LIMIT_GRAMMAR_TEXT);
    buf_addf(l->out, "args_%zu:", tool);
    enum status st = object(&b, l->out, &top, schema, 0, e);
    buf_adds(l->out, "\n");
    if (b.later.len)
        buf_add(l->out, b.later.data, b.later.len);
    l->out->failed |= b.later.failed;
    buf_release(&b.later);
    json_decref(root);
    return st;
}
