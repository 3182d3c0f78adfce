/*
 * grammar_bare: the grammar of arguments in Gemma's notation.
 *
 * Of a schema properties, required, items, and lists of strings are followed; numbers, booleans and null are JSON of
 * their schema; strings are text between their marks. Values of more than one type are any value.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/inside.h"

#define NESTED 6 /* objects and arrays followed into one another */

struct bare {
    struct lark *l;
    size_t rules; /* objects so far: each has rules of its own */
    size_t tool;
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

static bool is_required(json_t *schema, const char *name)
{
    json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, v) {
        if (json_is_string(v) && !strcmp(json_string_value(v), name))
            return true;
    }
    return false;
}

static enum status expression(struct bare *b, struct buf *out, json_t *schema, int depth, struct err *e);

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

static void one_of(struct bare *b, struct buf *out, json_t *strings)
{
    json_t *v;
    size_t i;
    buf_adds(out, " (");
    json_array_foreach(strings, i, v) {
        buf_adds(out, i ? " |" : "");
        literal(b, out, b->l->format->quote);
        buf_adds(out, " ");
        format_lark_string(out, json_string_value(v), json_string_length(v));
        literal(b, out, b->l->format->quote);
    }
    buf_adds(out, ")");
}

static bool all_strings(json_t *list)
{
    json_t *v;
    size_t i;
    json_array_foreach(list, i, v) {
        if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
            return false;
    }
    return json_array_size(list) > 0;
}

/* Rules o<r>_<k>: the properties from the k-th on, where none has been written yet; p<r>_<k>: where some have. */
static enum status members(struct bare *b, struct buf *out, json_t *schema, int depth, struct err *e)
{
    json_t *properties = json_object_get(schema, "properties");
    size_t n, r = b->rules++;
    const char **names = names_of(b->l, properties, &n);
    if (!names)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory");
    buf_addf(out, " o%zu_0", r);
    enum status st = ST_OK;
    for (size_t k = 0; k < n && st == ST_OK; k++) {
        bool must = is_required(schema, names[k]);
        struct buf value;
        buf_init(&value, LIMIT_GRAMMAR_TEXT);
        st = format_lark_check_key(b->l, b->tool, names[k], strlen(names[k]), e);
        if (st == ST_OK)
            st = expression(b, &value, json_object_get(properties, names[k]), depth + 1, e);
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
    return st;
}

static enum status expression(struct bare *b, struct buf *out, json_t *schema, int depth, struct err *e)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    json_t *list = json_object_get(schema, "enum"), *items = json_object_get(schema, "items");
    if (!type || depth > NESTED) {
        buf_adds(out, list && all_strings(list) ? "" : " value");
        if (list && all_strings(list))
            one_of(b, out, list);
        return ST_OK;
    }
    if (!strcmp(type, "string")) {
        if (all_strings(list))
            one_of(b, out, list);
        else
            buf_adds(out, " string");
    } else if (!strcmp(type, "array")) {
        struct buf item;
        buf_init(&item, LIMIT_GRAMMAR_TEXT);
        enum status st = items ? expression(b, &item, items, depth + 1, e) : ST_OK;
        const char *one = item.data ? item.data : " value";
        buf_addf(out, " \"[\" (%s (\",\"%s)*)? \"]\"", one, one);
        buf_release(&item);
        return st;
    } else if (!strcmp(type, "object")) {
        if (!json_object_size(json_object_get(schema, "properties"))) {
            buf_adds(out, " object");
            return ST_OK;
        }
        buf_adds(out, " \"{\"");
        TRY(members(b, out, schema, depth, e));
        buf_adds(out, " \"}\"");
    } else {
        char *text = json_dumps(schema, JSON_COMPACT);
        struct buf *old = write_to(b, out);
        if (text)
            format_lark_json(b->l, text, strlen(text), false);
        write_to(b, old);
        free(text);
    }
    return ST_OK;
}

enum status format_lark_bare(struct lark *l, size_t tool, struct err *e)
{
    const struct format_tool *t = format_tools_at(l->request->tools, tool);
    json_t *schema = t->schema_n ? json_loadb(t->schema, t->schema_n, JSON_ALLOW_NUL, NULL) : NULL;
    struct bare b = {.l = l, .tool = tool, .rules = tool * 1000000};
    enum status st = ST_OK;
    buf_init(&b.later, LIMIT_GRAMMAR_TEXT);
    buf_addf(l->out, "args_%zu:", tool);
    if (json_object_size(json_object_get(schema, "properties")))
        st = members(&b, l->out, schema, 0, e);
    else
        buf_adds(l->out, " pairs");
    buf_adds(l->out, "\n");
    if (b.later.len)
        buf_add(l->out, b.later.data, b.later.len);
    l->out->failed |= b.later.failed;
    buf_release(&b.later);
    json_decref(schema);
    return st;
}
