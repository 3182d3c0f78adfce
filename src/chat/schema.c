/* schema: see schema.h. */
#include "chat/schema.h"

#include <string.h>

static const char *const TYPES[] = {"string", "number", "boolean", "array", "object"};

static enum chat_value type_value(struct cut type)
{
    for (int i = 0; i < CHAT_MIXED; i++)
        if (chat_cut_is(type, TYPES[i]))
            return (enum chat_value)i;
    return chat_cut_is(type, "integer") ? CHAT_NUMBER : CHAT_MIXED;
}

static enum chat_value value_of(struct cut v)
{
    switch (chat_cut_kind_of(v)) {
    case CUT_STRING: return CHAT_STRING;
    case CUT_NUMBER: return CHAT_NUMBER;
    case CUT_BOOL: return CHAT_BOOLEAN;
    case CUT_ARRAY: return CHAT_ARRAY;
    case CUT_OBJECT: return CHAT_OBJECT;
    default: return CHAT_MIXED;
    }
}

/* Members that make a schema more than its type says. */
static bool is_composed(struct cut schema)
{
    static const char *const words[] = {"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (chat_cut_member(schema, words[i]).n)
            return true;
    return false;
}

static void read_values(struct cut schema, struct chat_key *k)
{
    struct cut key, v, list = chat_cut_member(schema, "enum"), one = chat_cut_member(schema, "const");
    if (one.n) {
        k->values[0] = one;
        k->values_n = 1;
    } else if (chat_cut_kind_of(list) == CUT_ARRAY) {
        struct cut_iter it = chat_cut_open(list);
        while (chat_cut_next(&it, &key, &v)) {
            if (k->values_n == CHAT_SCHEMA_VALUES) {
                k->values_n = 0;
                break;
            }
            k->values[k->values_n++] = v;
        }
    }
    for (uint32_t i = 0; i < k->values_n; i++) {
        enum chat_value is = value_of(k->values[i]);
        k->value = i && is != k->value ? CHAT_MIXED : is;
        if (is == CHAT_ARRAY || is == CHAT_OBJECT) { /* there are many ways to write it */
            k->values_n = 0;
            k->value = CHAT_MIXED;
        }
    }
}

static void read_key(struct cut schema, struct chat_key *k)
{
    k->value = CHAT_MIXED;
    if (chat_cut_kind_of(schema) != CUT_OBJECT || is_composed(schema))
        return;
    k->value = type_value(chat_cut_member(schema, "type"));
    read_values(schema, k);
}

/* The name of a required key is compared as it is written, which is how both are written in practice. */
static bool is_required(struct cut required, struct cut name)
{
    struct cut key, v;
    struct cut_iter it = chat_cut_open(required);
    while (chat_cut_next(&it, &key, &v))
        if (v.n == name.n && !memcmp(v.s, name.s, v.n))
            return true;
    return false;
}

void chat_schema_read(struct cut schema, struct chat_schema *out)
{
    struct cut key, v;
    *out = (struct chat_schema){.whole = true};
    if (chat_cut_kind_of(schema) != CUT_OBJECT)
        return;
    struct cut more = chat_cut_member(schema, "additionalProperties");
    struct cut required = chat_cut_member(schema, "required");
    struct cut_iter it = chat_cut_open(chat_cut_member(schema, "properties"));
    bool composed = is_composed(schema);
    while (it.object && chat_cut_next(&it, &key, &v)) {
        if (out->keys_n == CHAT_SCHEMA_KEYS) {
            out->whole = false;
            break;
        }
        out->order[out->keys_n] = out->place[out->keys_n] = (uint8_t)out->keys_n;
        struct chat_key *k = &out->keys[out->keys_n++];
        *k = (struct chat_key){.name = key, .required = is_required(required, key)};
        read_key(v, k);
    }
    out->closed = !composed && more.n == 5 && !memcmp(more.s, "false", 5) &&
                  !chat_cut_member(schema, "patternProperties").n;
}

uint64_t chat_schema_next(const struct chat_schema *s, int at, bool *end)
{
    uint64_t set = 0;
    *end = true;
    for (uint32_t i = at < 0 ? 0 : s->place[at] + 1u; i < s->keys_n && *end; i++) {
        set |= 1ull << s->order[i];
        *end = !s->keys[s->order[i]].required;
    }
    return set;
}

bool chat_schema_fixed(const struct chat_schema *s)
{
    if (!s->closed || !s->whole)
        return false;
    for (uint32_t i = 0; i < s->keys_n; i++)
        if (!s->keys[i].required)
            return false;
    return true;
}
