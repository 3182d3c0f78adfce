/*
 * schema: what formats have to find out about JSON Schemas: types of values, references, short lists of values.
 *
 * Schemas come from clients, and references may multiply what there is to look at. So whoever walks one brings a number
 * of parts that may still be looked at, and what is beyond it counts as unknown.
 */
#include <string.h>

#include "format/schema.h"

static const struct {
    const char *name;
    unsigned type;
} TYPES[] = {{"string", TYPE_STRING}, {"number", TYPE_NUMBER | TYPE_INTEGER}, {"integer", TYPE_INTEGER},
             {"boolean", TYPE_BOOLEAN}, {"null", TYPE_NULL}, {"object", TYPE_OBJECT}, {"array", TYPE_ARRAY}};

static unsigned named_type(const json_t *name)
{
    for (size_t i = 0; json_is_string(name) && i < sizeof TYPES / sizeof *TYPES; i++) {
        if (!strcmp(json_string_value(name), TYPES[i].name))
            return TYPES[i].type;
    }
    return json_is_string(name) ? TYPE_ANY : 0;
}

unsigned format_schema_type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_STRING: return TYPE_STRING;
    case JSON_INTEGER: return TYPE_INTEGER;
    case JSON_REAL: return TYPE_NUMBER | TYPE_INTEGER;
    case JSON_NULL: return TYPE_NULL;
    case JSON_OBJECT: return TYPE_OBJECT;
    case JSON_ARRAY: return TYPE_ARRAY;
    default: return TYPE_BOOLEAN;
    }
}

/* ---- references ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Undoes a URI's and a JSON pointer's escapes in one part, text[n]. */
static void decode(const char *text, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < n && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            c = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
            i += 2;
        } else if (c == '~' && i + 1 < n && (text[i + 1] == '0' || text[i + 1] == '1')) {
            c = text[++i] == '0' ? '~' : '/';
        }
        *out++ = c;
    }
    *out = 0;
}

static const json_t *child(const json_t *at, const char *part)
{
    if (!json_is_array(at))
        return json_object_get(at, part);
    size_t i = 0, n = strlen(part);
    if (!n || n > 6 || strspn(part, "0123456789") != n)
        return NULL;
    for (size_t k = 0; k < n; k++)
        i = i * 10 + (size_t)(part[k] - '0');
    return json_array_get(at, i);
}

/* A reference without the root's own $id. */
static const char *local(const json_t *root, const char *ref)
{
    const char *id = json_string_value(json_object_get(root, "$id"));
    size_t n = id ? strlen(id) : 0;
    if (n && id[n - 1] == '#')
        n--;
    return n && !strncmp(ref, id, n) && (!ref[n] || ref[n] == '#') ? ref + n : ref;
}

const json_t *format_schema_resolve(const json_t *root, const char *ref)
{
    const json_t *at = root;
    ref = local(root, ref);
    if (strlen(ref) > LIMIT_TOOL_REF || (*ref && *ref != '#'))
        return NULL;
    ref += *ref == '#';
    while (*ref == '/' && at) {
        char part[LIMIT_TOOL_REF + 1];
        size_t n = strcspn(++ref, "/");
        decode(ref, n, part);
        at = child(at, part);
        ref += n;
    }
    return *ref ? NULL : at;
}

const json_t *format_schema_object(const json_t *root, const char **ref)
{
    const json_t *at = root;
    for (int i = 0; i < FORMAT_REF_DEPTH; i++) {
        const char *to = json_string_value(json_object_get(at, "$ref"));
        const json_t *next = to && !format_says_more(at, TYPE_OBJECT, "$ref") ? format_schema_resolve(root, to) : NULL;
        if (!json_is_object(next))
            break;
        at = next;
        if (ref)
            *ref = local(root, to);
    }
    return at;
}

json_t *format_schema_required(const json_t *schema)
{
    json_t *set = json_object();
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, v) {
        if (json_is_string(v))
            json_object_set_new(set, json_string_value(v), json_true());
    }
    return set;
}

/* Whether the members of this keyword are schemas by names that mean nothing. */
static bool names_schemas(const char *keyword)
{
    static const char *const names[] = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(keyword, names[i]))
            return true;
    }
    return false;
}

static bool is_data(const char *keyword)
{
    static const char *const names[] = {"const", "enum", "default", "examples"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(keyword, names[i]))
            return true;
    }
    return false;
}

static bool into_definitions(const char *ref)
{
    return !strncmp(ref, "#/$defs/", 8) || !strncmp(ref, "#/definitions/", 14);
}

/* Whether a reference in v leads elsewhere than to definitions; with `to`, the root: makes them lead where
 * format_schema_rebase() says. `names`: v's members are schemas. */
static bool references(json_t *v, bool names, const json_t *to)
{
    bool elsewhere = false;
    const char *key;
    json_t *child;
    size_t i;
    json_array_foreach(v, i, child) {
        elsewhere |= references(child, false, to);
    }
    json_object_foreach(v, key, child) {
        const char *ref = json_string_value(child);
        if (!names && is_data(key))
            continue;
        if (names || !ref || strcmp(key, "$ref")) {
            elsewhere |= references(child, !names && names_schemas(key), to);
            continue;
        }
        elsewhere |= !into_definitions(ref);
        if (to && (ref = local(to, ref)) && (!*ref || !strcmp(ref, "#") || !strncmp(ref, "#/", 2)))
            json_object_set_new(v, key, json_sprintf("#/$defs/" FORMAT_SCHEMA_ROOT "%s", *ref ? ref + 1 : ""));
    }
    return elsewhere;
}

bool format_schema_elsewhere(const json_t *root)
{
    return references((json_t *)root, false, NULL); /* (which changes nothing then) */
}

json_t *format_schema_rebase(const json_t *root, const json_t *part)
{
    json_t *copy = json_deep_copy(part);
    references(copy, false, root);
    if (part == root)
        json_object_del(copy, "$id");
    return copy;
}

/* ---- types ---- */

static unsigned types_of(const json_t *root, const json_t *schema, int depth, unsigned *left);

/* Of anyOf and oneOf: what any branch allows. Of allOf: what all allow. */
static unsigned types_of_branches(const json_t *root, const json_t *schema, int depth, unsigned *left)
{
    unsigned types = TYPE_ANY;
    static const char *const unions[] = {"anyOf", "oneOf"};
    const json_t *branch;
    size_t i;
    for (int u = 0; u < 2; u++) {
        const json_t *branches = json_object_get(schema, unions[u]);
        unsigned any = 0;
        json_array_foreach(branches, i, branch) {
            any |= types_of(root, branch, depth + 1, left);
            if (any == TYPE_ANY)
                break;
        }
        if (json_array_size(branches))
            types &= any;
    }
    json_array_foreach(json_object_get(schema, "allOf"), i, branch) {
        if (!*left)
            break;
        types &= types_of(root, branch, depth + 1, left);
    }
    return types;
}

/* Takes n parts off what may be looked at; false: there are not so many. */
static bool spend(unsigned *left, size_t n)
{
    bool fine = n <= *left;
    *left = fine ? *left - (unsigned)n : 0;
    return fine;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth, unsigned *left)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"), *v;
    if (!json_is_object(schema) || depth > FORMAT_REF_DEPTH ||
        !spend(left, 1 + json_array_size(type) + json_array_size(list)))
        return TYPE_ANY;
    unsigned types = types_of_branches(root, schema, depth, left), some = 0;
    size_t i;
    if (json_is_string(type))
        types &= named_type(type);
    json_array_foreach(type, i, v) {
        some |= named_type(v);
    }
    if (json_array_size(type))
        types &= some;
    some = 0;
    json_array_foreach(list, i, v) {
        some |= format_schema_type_of(v);
    }
    if (json_array_size(list))
        types &= some;
    if ((v = json_object_get(schema, "const")))
        types &= format_schema_type_of(v);
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref)
        types &= types_of(root, format_schema_resolve(root, ref), depth + 1, left);
    return types ? types : TYPE_ANY;
}

unsigned format_schema_types(const json_t *root, const json_t *schema, unsigned *left)
{
    return types_of(root, schema, 0, left);
}

/* ---- values ---- */

static bool gather(const json_t *root, const json_t *schema, int depth, unsigned *left, json_t *out);

/* Of each branch of a union; of allOf only a single one can be. */
static bool gather_branches(const json_t *root, const json_t *branches, int depth, unsigned *left, json_t *out)
{
    const json_t *branch;
    size_t i;
    json_array_foreach(branches, i, branch) {
        if (!gather(root, branch, depth + 1, left, out))
            return false;
    }
    return json_array_size(branches);
}

static bool gather(const json_t *root, const json_t *schema, int depth, unsigned *left, json_t *out)
{
    static const char *const says[] = {"const", "enum", "anyOf", "oneOf", "allOf", "$ref"};
    json_t *v = NULL, *at;
    size_t which = 0, n = 0;
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        if ((at = json_object_get(schema, says[i])))
            v = at, which = i, n++;
    }
    if (n != 1 || depth > FORMAT_REF_DEPTH || !spend(left, 1 + json_array_size(v)))
        return false;
    if (which == 0)
        return json_array_append(out, v) == 0;
    if (which == 1)
        return json_array_size(v) && json_array_extend(out, v) == 0;
    if (which == 5)
        return json_is_string(v) && gather(root, format_schema_resolve(root, json_string_value(v)), depth + 1, left, out);
    return (which < 4 || json_array_size(v) == 1) && gather_branches(root, v, depth, left, out);
}

json_t *format_schema_values(const json_t *root, const json_t *schema, unsigned types, unsigned *left)
{
    json_t *out = json_array();
    bool fine = gather(root, schema, 0, left, out);
    for (size_t i = json_array_size(out); i-- > 0 && fine;) {
        if (!(format_schema_type_of(json_array_get(out, i)) & types))
            json_array_remove(out, i);
    }
    if (fine && json_array_size(out))
        return out;
    json_decref(out);
    return NULL;
}
