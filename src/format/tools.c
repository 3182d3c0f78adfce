/*
 * tools: the tools of a request, and what formats have to know of their schemas: the top-level properties, in order, and
 * which types their values may have. Everything else of a schema is a grammar's matter.
 */
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/inside.h"

#define REF_DEPTH 8 /* $ref and unions followed into one another */

struct tool {
    struct format_tool tool;
    struct format_keys keys;
};

struct format_tools {
    atomic_uint refs;
    struct arena memory;
    struct tool *tools;
    size_t n;
};

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

static unsigned value_type(const json_t *v)
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

/* What "#/a/b" stands for in the schema, or NULL. */
static const json_t *resolve(const json_t *root, const char *ref)
{
    const json_t *at = root;
    if (*ref++ != '#')
        return NULL;
    while (*ref == '/' && at) {
        char part[128];
        size_t n = strcspn(++ref, "/");
        if (n >= sizeof part)
            return NULL;
        memcpy(part, ref, n);
        part[n] = 0;
        at = json_object_get(at, part);
        ref += n;
    }
    return *ref ? NULL : at;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth);

/* Of anyOf and oneOf: what any branch allows. Of allOf: what all allow. */
static unsigned types_of_branches(const json_t *root, const json_t *schema, int depth)
{
    unsigned types = TYPE_ANY;
    static const char *const unions[] = {"anyOf", "oneOf"};
    const json_t *branch;
    size_t i;
    for (int u = 0; u < 2; u++) {
        const json_t *branches = json_object_get(schema, unions[u]);
        unsigned any = 0;
        json_array_foreach(branches, i, branch)
            any |= types_of(root, branch, depth + 1);
        if (json_array_size(branches))
            types &= any;
    }
    json_array_foreach(json_object_get(schema, "allOf"), i, branch)
        types &= types_of(root, branch, depth + 1);
    return types;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth)
{
    if (!json_is_object(schema) || depth > REF_DEPTH)
        return TYPE_ANY;
    unsigned types = types_of_branches(root, schema, depth), some = 0;
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"), *v;
    size_t i;
    if (json_is_string(type))
        types &= named_type(type);
    json_array_foreach(type, i, v)
        some |= named_type(v);
    if (json_array_size(type))
        types &= some;
    some = 0;
    json_array_foreach(list, i, v)
        some |= value_type(v);
    if (json_array_size(list))
        types &= some;
    if ((v = json_object_get(schema, "const")))
        types &= value_type(v);
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    if (ref)
        types &= types_of(root, resolve(root, ref), depth + 1);
    return types ? types : TYPE_ANY;
}

/* A copy of a property's schema that stands alone: with the definitions of the whole where it refers to some. */
static char *own_schema(struct arena *a, const json_t *root, json_t *schema, size_t *n)
{
    static const char *const shared[] = {"$defs", "definitions"};
    json_t *own = json_is_object(schema) ? json_copy(schema) : json_is_false(schema) ? json_pack("{s:{}}", "not")
                                                                                     : json_object();
    char *text = own ? json_dumps(own, JSON_COMPACT) : NULL, *copy = NULL;
    bool refers = text && strstr(text, "\"$ref\"");
    for (int i = 0; i < 2 && refers; i++) {
        json_t *d = json_object_get(root, shared[i]);
        if (d && !json_object_get(own, shared[i]))
            json_object_set(own, shared[i], d);
    }
    if (refers) {
        free(text);
        text = json_dumps(own, JSON_COMPACT);
    }
    json_decref(own);
    if (text && (copy = arena_copy(a, text, strlen(text))))
        *n = strlen(text);
    free(text);
    return copy;
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *v;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, v) {
        if (json_is_string(v) && !strcmp(json_string_value(v), name))
            return true;
    }
    return false;
}

static enum status take_keys(struct arena *a, struct format_keys *out, const json_t *root, const char *field,
                             struct err *e)
{
    json_t *properties = json_object_get(root, "properties");
    const json_t *more = json_object_get(root, "additionalProperties");
    size_t n = json_object_size(properties), i = 0; /* (an unsaid "additional" is no invitation to make keys up) */
    *out = (struct format_keys){.open = n ? json_is_true(more) || json_is_object(more) : !json_is_false(more)};
    if (n > LIMIT_TOOL_KEYS)
        return err_set(e, ST_TOO_LONG, field, "has %zu properties; at most %u are allowed", n, LIMIT_TOOL_KEYS);
    if (!n)
        return ST_OK;
    struct format_key *keys = arena_try(a, n * sizeof *keys);
    if (!keys)
        return err_set(e, ST_TOO_LONG, field, "the schemas of the tools take more memory than is allowed");
    const char *name;
    json_t *schema;
    json_object_foreach(properties, name, schema) {
        struct format_key *k = &keys[i++];
        k->name_n = strlen(name);
        k->name = arena_copy(a, name, k->name_n);
        k->types = types_of(root, schema, 0);
        k->required = is_required(root, name);
        k->schema = own_schema(a, root, schema, &k->schema_n);
        if (!k->name || !k->schema)
            return err_set(e, ST_TOO_LONG, field, "the schemas of the tools take more memory than is allowed");
    }
    out->at = keys, out->n = n;
    return ST_OK;
}

static enum status take_schema(struct format_tools *t, struct tool *tool, const char *field, struct err *e)
{
    tool->keys = (struct format_keys){.open = true};
    if (!tool->tool.schema_n)
        return ST_OK;
    json_error_t bad;
    const char *text = tool->tool.schema;
    size_t n = tool->tool.schema_n, flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *root = json_loadb(text, n, flags, &bad);
    if (!root) /* integers beyond 64 bits, as limits of unsigned numbers */
        root = json_loadb(text, n, flags | JSON_DECODE_INT_AS_REAL, &bad);
    if (!root)
        return err_set(e, ST_ARGUMENT, field, "not JSON: %s", bad.text);
    enum status s = json_is_object(root) || json_is_boolean(root)
                        ? take_keys(&t->memory, &tool->keys, root, field, e)
                        : err_set(e, ST_ARGUMENT, field, "expected a JSON Schema, which is an object");
    if (s == ST_OK && (!json_is_object(root) || !json_object_size(root)))
        tool->tool.schema_n = 0;
    json_decref(root);
    return s;
}

/* Bytes of one UTF-8 character at s, or 0. */
static size_t character(const unsigned char *s, size_t n)
{
    size_t k = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 4;
    if (k > n || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < k; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return k;
}

static enum status check_name(const struct format_tool *t, const char *field, struct err *e)
{
    if (!t->name_n || t->name_n > LIMIT_TOOL_NAME)
        return err_set(e, ST_ARGUMENT, field, "expected 1 to %u bytes", LIMIT_TOOL_NAME);
    for (size_t i = 0; i < t->name_n;) {
        const unsigned char *c = (const unsigned char *)t->name + i;
        size_t k = character(c, t->name_n - i);
        if (!k)
            return err_set(e, ST_ARGUMENT, field, "is not UTF-8");
        if (*c < 0x20 || *c == 0x7f)
            return err_set(e, ST_ARGUMENT, field, "has a control character");
        i += k;
    }
    if (format_blank((unsigned char)t->name[0]) || format_blank((unsigned char)t->name[t->name_n - 1]))
        return err_set(e, ST_ARGUMENT, field, "begins or ends with white space");
    return ST_OK;
}

static enum status take_tool(struct format_tools *t, size_t i, const struct format_tool *src, struct err *e)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "tools[%zu].name", i);
    TRY(check_name(src, field, e));
    if (format_tools_find(t, src->name, src->name_n) >= 0)
        return err_set(e, ST_ARGUMENT, field, "two tools have the name %.*s", (int)src->name_n, src->name);
    struct tool *tool = &t->tools[i];
    tool->tool = *src;
    tool->tool.name = arena_copy(&t->memory, src->name, src->name_n);
    tool->tool.schema = src->schema_n ? arena_copy(&t->memory, src->schema, src->schema_n) : "";
    snprintf(field, sizeof field, "tools[%zu].parameters", i);
    if (!tool->tool.name || !tool->tool.schema)
        return err_set(e, ST_TOO_LONG, field, "the schemas of the tools take more memory than is allowed");
    TRY(take_schema(t, tool, field, e));
    t->n = i + 1;
    return ST_OK;
}

enum status format_tools_new(struct format_tools **out, const struct format_tool *tools, size_t n, struct err *e)
{
    *out = NULL;
    if (n > LIMIT_TOOLS)
        return err_set(e, ST_TOO_LONG, "tools", "%zu tools; at most %u are allowed", n, LIMIT_TOOLS);
    struct format_tools *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory");
    atomic_init(&t->refs, 1);
    arena_init(&t->memory, LIMIT_TOOLS_MEMORY);
    t->tools = arena_alloc(&t->memory, (n + !n) * sizeof *t->tools);
    enum status s = ST_OK;
    for (size_t i = 0; i < n && s == ST_OK; i++)
        s = take_tool(t, i, &tools[i], e);
    if (s == ST_OK)
        *out = t;
    else
        format_tools_free(t);
    return s;
}

void format_tools_retain(struct format_tools *t)
{
    atomic_fetch_add(&t->refs, 1);
}

void format_tools_free(struct format_tools *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    arena_release(&t->memory);
    free(t);
}

size_t format_tools_n(const struct format_tools *t)
{
    return t->n;
}

const struct format_tool *format_tools_at(const struct format_tools *t, size_t i)
{
    return &t->tools[i].tool;
}

int format_tools_find(const struct format_tools *t, const char *name, size_t n)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct format_tool *tool = &t->tools[i].tool;
        if (tool->name_n == n && !memcmp(tool->name, name, n))
            return (int)i;
    }
    return -1;
}

const struct format_keys *format_tools_keys(const struct format_tools *t, size_t tool)
{
    return &t->tools[tool].keys;
}

int format_tools_key(const struct format_tools *t, size_t tool, const char *key, size_t n)
{
    const struct format_keys *keys = &t->tools[tool].keys;
    for (size_t i = 0; i < keys->n; i++) {
        if (keys->at[i].name_n == n && !memcmp(keys->at[i].name, key, n))
            return (int)i;
    }
    return -1;
}

unsigned format_tools_types(const struct format_tools *t, int tool, const char *key, size_t n)
{
    int k = t && tool >= 0 ? format_tools_key(t, (size_t)tool, key, n) : -1;
    return k < 0 ? TYPE_ANY : t->tools[tool].keys.at[k].types;
}
