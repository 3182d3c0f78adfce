/*
 * left_out: which keywords of a schema did not become grammar, where arguments are not written as JSON.
 *
 * Law: fail closed. The writers of grammars say where they leave values free, and what the schema says of those is
 * collected here. What is not understood counts as left out, so that too much is reported rather than too little.
 */
#include <stdio.h>
#include <string.h>

#include "format/schema.h"

#define LATEST 16384u /* bytes of the list in which an entry is looked for before it is added again */

static const struct keyword {
    const char *name;
    unsigned types; /* of values that it says something about */
} KEYWORDS[] = {
    {"$dynamicRef", TYPE_ANY},         {"$recursiveRef", TYPE_ANY},      {"$ref", TYPE_ANY},
    {"allOf", TYPE_ANY},               {"anyOf", TYPE_ANY},              {"const", TYPE_ANY},
    {"enum", TYPE_ANY},                {"if", TYPE_ANY},                 {"not", TYPE_ANY},
    {"oneOf", TYPE_ANY},               {"format", TYPE_STRING},          {"maxLength", TYPE_STRING},
    {"minLength", TYPE_STRING},        {"pattern", TYPE_STRING},         {"exclusiveMaximum", TYPE_NUMBER | TYPE_INTEGER},
    {"exclusiveMinimum", TYPE_NUMBER | TYPE_INTEGER},                    {"maximum", TYPE_NUMBER | TYPE_INTEGER},
    {"minimum", TYPE_NUMBER | TYPE_INTEGER},                             {"multipleOf", TYPE_NUMBER | TYPE_INTEGER},
    {"additionalItems", TYPE_ARRAY},   {"contains", TYPE_ARRAY},         {"items", TYPE_ARRAY},
    {"maxContains", TYPE_ARRAY},       {"maxItems", TYPE_ARRAY},         {"minContains", TYPE_ARRAY},
    {"minItems", TYPE_ARRAY},          {"prefixItems", TYPE_ARRAY},      {"unevaluatedItems", TYPE_ARRAY},
    {"uniqueItems", TYPE_ARRAY},       {"additionalProperties", TYPE_OBJECT}, {"dependencies", TYPE_OBJECT},
    {"dependentRequired", TYPE_OBJECT}, {"dependentSchemas", TYPE_OBJECT}, {"maxProperties", TYPE_OBJECT},
    {"minProperties", TYPE_OBJECT},    {"patternProperties", TYPE_OBJECT}, {"properties", TYPE_OBJECT},
    {"propertyNames", TYPE_OBJECT},    {"required", TYPE_OBJECT},        {"unevaluatedProperties", TYPE_OBJECT},
};

#define KEYWORDS_N (sizeof KEYWORDS / sizeof *KEYWORDS)

/* The value of a keyword that asks for something, or NULL. */
static const json_t *asks(const json_t *schema, const struct keyword *k, unsigned types)
{
    const json_t *v = k->types & types ? json_object_get(schema, k->name) : NULL;
    bool data = !strcmp(k->name, "const") || !strcmp(k->name, "not");
    if (!v || data)
        return v;
    bool nothing = json_is_true(v) || (json_is_object(v) && !json_object_size(v)) ||
                   (json_is_array(v) && !json_array_size(v)) || (json_is_integer(v) && !json_integer_value(v));
    if (!strcmp(k->name, "uniqueItems"))
        nothing = json_is_false(v);
    else if (json_is_integer(v) && strncmp(k->name, "min", 3))
        nothing = false; /* at most none is something */
    else if (!strcmp(k->name, "minimum"))
        nothing = false;
    return nothing ? NULL : v;
}

bool format_says_more(const json_t *schema, unsigned types, const char *but)
{
    for (size_t i = 0; i < KEYWORDS_N; i++) {
        if (strcmp(KEYWORDS[i].name, but) && asks(schema, &KEYWORDS[i], types))
            return true;
    }
    return false;
}

/* ---- telling ---- */

static void put_place(struct buf *out, const struct format_place *at)
{
    if (!at)
        return;
    if (at->whole) {
        buf_adds(out, at->key);
        return;
    }
    put_place(out, at->up);
    buf_adds(out, "/");
    for (const char *c = at->key; *c; c++) {
        if (*c == '~' || *c == '/')
            buf_adds(out, *c == '~' ? "~0" : "~1");
        else
            buf_add(out, c, 1);
    }
}

void format_left_out(const struct format_scan *s, const struct format_place *at, const char *keyword)
{
    struct buf *out = s->lark->request->left_out, pointer, entry;
    const struct format_place last = {.up = at, .key = keyword};
    if (!out || out->failed)
        return;
    buf_init(&pointer, out->limit);
    buf_init(&entry, out->limit);
    put_place(&pointer, keyword ? &last : at);
    buf_addf(&entry, "[%zu,", s->tool);
    format_lark_string(&entry, pointer.data ? pointer.data : "", pointer.len);
    buf_adds(&entry, "]");
    size_t from = out->len > LATEST ? out->len - LATEST : 0;
    bool known = !entry.failed && memmem(out->data + from, out->len - from, entry.data, entry.len);
    if (!known) {
        buf_adds(out, out->len > 1 ? "," : "");
        if (entry.len)
            buf_add(out, entry.data, entry.len);
        out->failed |= entry.failed || pointer.failed;
    }
    buf_release(&entry);
    buf_release(&pointer);
}

/* ---- free values ---- */

static void scan(struct format_scan *s, const struct format_place *at, const json_t *schema, int depth);

/* Whether the branches are texts, each another one. */
static bool distinct(const json_t *branches)
{
    json_t *seen = json_object();
    const json_t *branch;
    size_t i;
    json_array_foreach(branches, i, branch) {
        const char *text = json_string_value(json_object_get(branch, "const"));
        if (!text || json_object_get(seen, text))
            break;
        json_object_set_new(seen, text, json_true());
    }
    bool all = json_object_size(seen) == json_array_size(branches);
    json_decref(seen);
    return all;
}

/* Whether no value fits two branches. */
static bool disjoint(struct format_scan *s, const json_t *branches)
{
    if (s->listed && distinct(branches))
        return true;
    unsigned seen = 0, types;
    const json_t *branch;
    size_t i;
    json_array_foreach(branches, i, branch) {
        types = format_schema_types(s->root, branch, &s->left);
        if (types & seen)
            return false;
        seen |= types;
    }
    return true;
}

static void scan_branches(struct format_scan *s, const struct format_place *at, const json_t *branches, int depth)
{
    const json_t *branch;
    size_t i;
    json_array_foreach(branches, i, branch) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        const struct format_place here = {.up = at, .key = index};
        scan(s, &here, branch, depth + 1);
    }
}

static void scan_keyword(struct format_scan *s, const struct format_place *at, const char *name, const json_t *v, int depth)
{
    const struct format_place here = {.up = at, .key = name};
    bool one_of = !strcmp(name, "oneOf"), ref = !strcmp(name, "$ref");
    if (s->listed && (!strcmp(name, "const") || !strcmp(name, "enum")))
        return;
    if (!strcmp(name, "anyOf") || !strcmp(name, "allOf") || (one_of && disjoint(s, v))) {
        scan_branches(s, &here, v, depth);
        return;
    }
    const char *to = ref ? json_string_value(v) : NULL;
    const json_t *target = to ? format_schema_resolve(s->root, to) : NULL;
    const char *pointer = target ? strchr(to, '#') : NULL;
    const struct format_place there = {.key = pointer ? pointer + 1 : "", .whole = true};
    if (target)
        scan(s, &there, target, depth + 1);
    else
        format_left_out(s, at, name);
}

static void scan(struct format_scan *s, const struct format_place *at, const json_t *schema, int depth)
{
    const json_t *v;
    if (json_is_true(schema))
        return;
    if (!json_is_object(schema) || depth > FORMAT_REF_DEPTH || !s->left) {
        format_left_out(s, at, NULL);
        return;
    }
    s->left--;
    if (s->untyped && !s->listed && json_object_get(schema, "type"))
        format_left_out(s, at, "type");
    for (size_t i = 0; i < KEYWORDS_N; i++) {
        if ((v = asks(schema, &KEYWORDS[i], s->types)))
            scan_keyword(s, at, KEYWORDS[i].name, v, depth);
    }
}

void format_left_out_free(struct format_scan *s, const struct format_place *at, const json_t *schema)
{
    if (s->lark->request->left_out)
        scan(s, at, schema, 0);
}

/* ---- objects and arrays ---- */

static bool all_there(const json_t *required, const json_t *properties)
{
    const json_t *v;
    size_t i;
    json_array_foreach(required, i, v) {
        if (!json_object_get(properties, json_string_value(v)))
            return false;
    }
    return true;
}

void format_left_out_object(struct format_scan *s, const struct format_place *at, const json_t *schema, bool open)
{
    const json_t *properties = json_object_get(schema, "properties"), *v;
    for (size_t i = 0; i < KEYWORDS_N; i++) {
        const char *name = KEYWORDS[i].name;
        if (!(v = asks(schema, &KEYWORDS[i], TYPE_OBJECT)) || !strcmp(name, "properties"))
            continue;
        bool others = !strcmp(name, "additionalProperties") || !strcmp(name, "unevaluatedProperties");
        if ((others && !open) || (!strcmp(name, "required") && all_there(v, properties)))
            continue;
        format_left_out(s, at, name);
    }
}

void format_left_out_array(struct format_scan *s, const struct format_place *at, const json_t *schema)
{
    for (size_t i = 0; i < KEYWORDS_N; i++) {
        if (strcmp(KEYWORDS[i].name, "items") && asks(schema, &KEYWORDS[i], TYPE_ARRAY))
            format_left_out(s, at, KEYWORDS[i].name);
    }
}
