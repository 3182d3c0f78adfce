/*
 * tools: the tools of a request, and what formats have to know of their schemas: the top-level properties, in order, and
 * which types their values may have (schema.c). Everything else of a schema is a grammar's matter.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/schema.h"

struct tool {
    struct format_tool tool;
    struct format_keys keys;
};

/* Where taking the properties of one tool stands. */
struct taking {
    const char *name;
    json_t *schema, *required;
    unsigned left; /* of LIMIT_TOOL_NODES */
    bool elsewhere;
};

struct format_tools {
    atomic_uint refs;
    struct arena memory;
    struct tool *tools;
    size_t n;
};

/* ---- what properties need of the schema around them ---- */

static enum status no_room(const char *field, struct err *e)
{
    return err_set(e, ST_TOO_LONG, field, "the schemas of the tools take more memory than is allowed");
}

/* Members without the braces around them. */
static bool add_members(struct arena *a, struct format_keys *out, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL, *copy = NULL;
    size_t n = text ? strlen(text) : 0;
    if (n >= 2 && (copy = arena_copy(a, text + 1, n - 2)))
        out->shared_n = n - 2;
    out->shared = copy;
    free(text);
    return copy;
}

/* What references lead to: the definitions, or, where some lead elsewhere, the whole as a definition. */
static bool take_shared(struct arena *a, struct format_keys *out, const json_t *root, bool elsewhere)
{
    static const char *const names[] = {"$defs", "definitions"};
    json_t *object = elsewhere ? json_pack("{s:{s:o}}", names[0], FORMAT_SCHEMA_ROOT, format_schema_rebase(root, root))
                               : json_object();
    for (int i = 0; i < 2 && !elsewhere; i++) {
        json_t *d = json_object_get(root, names[i]);
        if (d)
            json_object_set(object, names[i], d);
    }
    bool fine = add_members(a, out, object);
    json_decref(object);
    return fine;
}

/* A copy of a property's schema, an object; what it refers to is left to keys->shared. */
static bool own_schema(struct arena *a, struct format_key *k, const json_t *root, json_t *schema, bool elsewhere)
{
    json_t *own = json_is_object(schema) ? json_copy(schema) : json_is_false(schema) ? json_pack("{s:{}}", "not")
                                                                                     : json_object();
    char *text = own ? json_dumps(own, JSON_COMPACT) : NULL, *copy = NULL;
    k->refers = text && strstr(text, "\"$ref\"");
    if (k->refers) {
        json_t *whole = own;
        own = elsewhere ? format_schema_rebase(root, whole) : json_incref(whole);
        json_decref(whole);
        json_object_del(own, "$defs");
        json_object_del(own, "definitions");
        free(text);
        text = own ? json_dumps(own, JSON_COMPACT) : NULL;
    }
    json_decref(own);
    if (text && (copy = arena_copy(a, text, strlen(text))))
        k->schema_n = strlen(text);
    k->schema = copy;
    free(text);
    return copy;
}

static bool take_key(struct arena *a, struct format_keys *out, struct format_key *k, const json_t *root,
                     struct taking *at)
{
    k->name_n = strlen(at->name);
    k->name = arena_copy(a, at->name, k->name_n);
    k->types = format_schema_types(root, at->schema, &at->left);
    k->required = json_object_get(at->required, at->name);
    return k->name && own_schema(a, k, root, at->schema, at->elsewhere) &&
           (!k->refers || out->shared || take_shared(a, out, root, at->elsewhere));
}

static enum status take_keys(struct arena *a, struct format_keys *out, const json_t *root, const char *field,
                             struct err *e)
{
    const json_t *object = format_schema_object(root, NULL);
    json_t *properties = json_object_get(object, "properties");
    const json_t *more = json_object_get(object, "additionalProperties");
    size_t n = json_object_size(properties), i = 0; /* (an unsaid "additional" is no invitation to make keys up) */
    *out = (struct format_keys){.open = n ? json_is_true(more) || json_is_object(more) : !json_is_false(more)};
    if (n > LIMIT_TOOL_KEYS)
        return err_set(e, ST_TOO_LONG, field, "has %zu properties; at most %u are allowed", n, LIMIT_TOOL_KEYS);
    if (!n)
        return ST_OK;
    struct format_key *keys = arena_try(a, n * sizeof *keys);
    if (!keys)
        return no_room(field, e);
    struct taking at = {.required = format_schema_required(object), .left = LIMIT_TOOL_NODES,
                                   .elsewhere = format_schema_elsewhere(root)};
    bool fine = true;
    json_object_foreach(properties, at.name, at.schema) {
        fine = fine && take_key(a, out, &keys[i++], root, &at);
    }
    json_decref(at.required);
    out->at = keys, out->n = n;
    return fine ? ST_OK : no_room(field, e);
}

static json_t *read_schema(const struct format_tool *t, json_error_t *bad)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *root = json_loadb(t->schema, t->schema_n, flags, bad);
    if (!root) /* integers beyond 64 bits, as limits of unsigned numbers */
        root = json_loadb(t->schema, t->schema_n, flags | JSON_DECODE_INT_AS_REAL, bad);
    return root;
}

static enum status take_schema(struct format_tools *t, struct tool *tool, const char *field, struct err *e)
{
    tool->keys = (struct format_keys){.open = true};
    if (!tool->tool.schema_n)
        return ST_OK;
    json_error_t bad;
    json_t *root = read_schema(&tool->tool, &bad);
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
        return no_room(field, e);
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

json_t *format_tools_schema(const struct format_tools *t, size_t tool)
{
    json_error_t bad;
    return t->tools[tool].tool.schema_n ? read_schema(&t->tools[tool].tool, &bad) : NULL;
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
