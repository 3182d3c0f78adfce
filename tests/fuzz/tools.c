/*
 * tools: any name and JSON Schema of a tool, in every format: what a recogniser, template rows and a grammar make of it.
 *
 * The first byte chooses the format, the second how calls are asked for; then the name up to a newline, and the schema.
 */
#include <jansson.h>

#include "chat/schema.h"
#include "format/format.h"
#include "fuzz/kit/fuzz.h"

#define GRAMMAR_MOST (1u << 20)

static void check_schema(struct fuzz schema)
{
    struct chat_schema s;
    bool end;
    chat_schema_read(chat_cut_text(schema.at, schema.n), &s);
    FUZZ_CHECK(s.keys_n <= CHAT_SCHEMA_KEYS, "%u keys", s.keys_n);
    for (uint32_t i = 0; i < s.keys_n; i++) {
        FUZZ_CHECK(s.order[i] < s.keys_n && s.place[s.order[i]] == i, "key %u is out of order", i);
        FUZZ_CHECK(s.keys[i].values_n <= CHAT_SCHEMA_VALUES, "%u values", s.keys[i].values_n);
        uint64_t next = chat_schema_next(&s, (int)i, &end);
        FUZZ_CHECK(end || next, "nothing follows key %u", i);
    }
    (void)chat_schema_next(&s, -1, &end);
    (void)chat_schema_fixed(&s);
}

static void check_grammar(const struct format *f, const struct format_tools *tools, uint8_t how)
{
    struct format_shape shape;
    struct buf lark, left;
    struct err e;
    buf_init(&lark, GRAMMAR_MOST);
    buf_init(&left, GRAMMAR_MOST);
    format_shape_init(f, &shape);
    const struct format_request q = {
        .tools = tools,
        .choice = how % 3 == 0 ? FORMAT_AUTO : how % 3 == 1 ? FORMAT_REQUIRED : FORMAT_NAMED,
        .parallel = how & 4,
        .thinking = how & 8 ? FORMAT_MAY_REASON : FORMAT_NO_REASONING,
        .reasoning = how & 8 ? format_find_reasoning("think", 5) : NULL,
        .left_out = &left,
    };
    enum status st = format_grammar(f, &shape, &q, &lark, &e);
    FUZZ_CHECK(st == ST_OK || (e.code == st && e.text[0]), "no reason");
    if (st == ST_OK && left.len) {
        json_t *v = json_loadb(left.data, left.len, JSON_ALLOW_NUL, NULL);
        FUZZ_CHECK(json_is_array(v), "%.*s", (int)left.len, left.data);
        json_decref(v);
    }
    FUZZ_CHECK(st != ST_OK || (lark.len && !lark.failed), "an empty grammar");
    buf_release(&lark);
    buf_release(&left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n};
    struct format_tools *tools;
    struct err e;
    size_t formats = 0;
    while (format_name_at(formats))
        formats++;
    const char *format = format_name_at(fuzz_byte(&f) % formats);
    uint8_t how = fuzz_byte(&f);
    struct fuzz name = fuzz_until(&f, '\n');
    const struct format_tool tool = {name.at, name.n, f.at, f.n};
    check_schema(f);
    if (format_tools_new(&tools, &tool, 1, &e) != ST_OK) {
        FUZZ_CHECK(!tools && e.field[0], "no reason");
        return 0;
    }
    FUZZ_CHECK(format_tools_n(tools) == 1 && format_tools_find(tools, name.at, name.n) == 0, "it is not found");
    FUZZ_CHECK(format_tools_key(tools, 0, "no such key", 11) < (int)LIMIT_TOOL_KEYS, "too many keys");
    check_grammar(format_find(format, strlen(format)), tools, how);
    format_tools_free(tools);
    return 0;
}
