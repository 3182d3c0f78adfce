/*
 * json: any bytes as JSON, to the server's reader, to the cutter (chat/cut.h) and to the writer, with jansson as the judge.
 *
 * What jansson reads, the cutter cuts into the same pieces, and a string that is written can be read again.
 */
#include <jansson.h>

#include "chat/cut.h"
#include "fuzz/kit/fuzz.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

static enum cut_kind kind_of(const json_t *v)
{
    static const enum cut_kind kinds[] = {
        [JSON_OBJECT] = CUT_OBJECT, [JSON_ARRAY] = CUT_ARRAY, [JSON_STRING] = CUT_STRING, [JSON_INTEGER] = CUT_NUMBER,
        [JSON_REAL] = CUT_NUMBER,   [JSON_TRUE] = CUT_BOOL,   [JSON_FALSE] = CUT_BOOL,    [JSON_NULL] = CUT_NULL,
    };
    return kinds[json_typeof(v)];
}

static void same_string(struct cut v, const char *s, size_t n)
{
    struct buf text;
    buf_init(&text, v.n * 3 + 16);
    chat_cut_unescape(v, &text);
    FUZZ_CHECK(!text.failed && text.len == n && (!n || memcmp(text.data, s, n) == 0), "%.*s", (int)v.n, v.s);
    if (!memchr(s, '\0', n))
        FUZZ_CHECK(chat_cut_is(v, s), "%.*s", (int)v.n, v.s);
    buf_release(&text);
}

/* Both hold the same; `want` has no name twice. */
static void same(struct cut v, const json_t *want)
{
    struct cut key, value;
    size_t n = 0;
    FUZZ_CHECK(chat_cut_kind_of(v) == kind_of(want), "%.*s", (int)v.n, v.s);
    if (json_is_string(want))
        same_string(v, json_string_value(want), json_string_length(want));
    struct cut_iter it = chat_cut_open(v);
    for (; chat_cut_next(&it, &key, &value); n++) {
        const json_t *item = json_array_get(want, n);
        if (json_is_object(want)) {
            char name[1000];
            struct buf text;
            buf_init(&text, sizeof name);
            chat_cut_unescape(key, &text);
            item = text.failed ? NULL : json_object_getn(want, text.len ? text.data : "", text.len);
            FUZZ_CHECK(text.failed || item, "there is no member %.*s", (int)key.n, key.s);
            buf_release(&text);
        }
        if (item)
            same(value, item);
    }
    FUZZ_CHECK(!it.bad && n == chat_cut_count(v), "%.*s", (int)v.n, v.s);
    FUZZ_CHECK(n == (json_is_object(want) ? json_object_size(want) : json_array_size(want)), "%.*s", (int)v.n, v.s);
}

static void check_write(const char *s, size_t n)
{
    struct buf json, want;
    buf_init(&json, 8 * n + 16);
    buf_init(&want, 4 * n + 16);
    http_json_str(&json, s, n);
    fuzz_utf8(s, n, &want);
    json_t *v = json_loadb(json.data, json.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    FUZZ_CHECK(!json.failed && json_is_string(v), "%s", json.data);
    FUZZ_CHECK(json_string_length(v) == want.len && (!want.len || memcmp(json_string_value(v), want.data, want.len) == 0),
               "%s", json.data);
    FUZZ_CHECK(http_utf8_valid(json_string_value(v), json_string_length(v)), "%s", json.data);
    json_decref(v);
    buf_release(&json);
    buf_release(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *s = (const char *)data;
    struct err e;
    json_t *v = json_loadb(s, n, JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    json_t *read = NULL;
    bool within = chat_cut_depth(s, n) <= LIMIT_JSON_DEPTH;
    enum status st = http_json_parse(s, n, &read, &e);
    FUZZ_CHECK((st == ST_OK) == (read != NULL), "%s", status_name(st));
    FUZZ_CHECK(st != ST_OK || (within && json_is_object(v)), "the server reads what jansson does not");
    FUZZ_CHECK(st != ST_ARGUMENT || !json_is_object(v), "the server does not read %.*s: %s", (int)n, s, e.text);
    if (v && within)
        same(chat_cut_text(s, n), v);
    check_write(s, n);
    json_decref(read);
    json_decref(v);
    return 0;
}
