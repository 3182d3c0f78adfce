/*
 * grammars and matchers, over a small byte-level vocabulary in which tokens reach across the places that matter, and
 * over a real one where SMOLLM2 names a model.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "words.h"
#include "api/api.h"
#include "base/base.h"
#include "text/text.h"

#define MASK_WORDS ((WORDS_MOST + 31) / 32)

static struct words w;
static struct tok *small;
static tok_id end_id, tool_id, think_id;

static int setup(void **state)
{
    (void)state;
    struct tok_source src;
    struct err e;
    words_begin_bytes(&w);
    end_id = words_add(&w, "<|end|>", TOK_CONTROL);
    words_add(&w, "<|stop|>", TOK_CONTROL);
    tool_id = words_add(&w, "<|tool|>", TOK_CONTROL);
    think_id = words_add(&w, "</think>", TOK_USER_DEFINED);
    static const char *const pairs[][2] = {
        {"t", "r"}, {"u", "e"}, {"tr", "ue"}, {"{", "\""}, {"\"", ":"}, {"\"", "}"}, {"n", "a"}, {"m", "e"},
        {"na", "me"}, {">", "{"}, {">", "x"}, {">", "{\""}, {"]", "}"}, {"1", "2"}, {"12", "3"}, {"a", "b"},
        {"ab", "c"}, {"\xc4\x8a", "\xc4\x8a"}, {"\xc4\xa0", "\xc4\xa0"}, {"\"", ","},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        words_merge(&w, pairs[i][0], pairs[i][1]);
    src = words_source(&w, "llama-bpe");
    src.eos = end_id;
    src.eot = end_id + 1;
    return tok_new_gguf(&small, &src, &e) == ST_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tok_free(small);
    return 0;
}

static struct grammar_source source(enum grammar_kind kind, const char *text)
{
    return (struct grammar_source){.kind = kind, .text = text, .n = text ? strlen(text) : 0};
}

static struct grammar *compiled(enum grammar_kind kind, const char *text)
{
    struct grammar_source src = source(kind, text);
    struct grammar *g;
    struct err e = {0};
    if (grammar_new(&g, small, &src, &e) != ST_OK)
        fail_msg("%s: %s", text, e.text);
    return g;
}

static bool has(const uint32_t *mask, tok_id id)
{
    return mask[id / 32] >> id % 32 & 1;
}

enum fit { NO, PREFIX, COMPLETE, FINISHED }; /* FINISHED: and nothing may follow */

static enum fit fit_of(const struct tok *t, const struct grammar *g, const char *reply)
{
    struct matcher *m;
    struct matcher_next next;
    struct err e;
    tok_id *ids;
    size_t n;
    assert_int_equal(tok_encode(t, reply, strlen(reply), TOK_INNER, &ids, &n, &e), ST_OK);
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    uint32_t *mask = calloc(matcher_words(m), sizeof *mask);
    enum fit fit = NO;
    if (matcher_consume(m, ids, (uint32_t)n) == n) {
        assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
        fit = !next.end ? PREFIX : next.n == 0 ? FINISHED : COMPLETE;
        size_t eos_n;
        const tok_id *eos = tok_eos(t, &eos_n);
        for (size_t i = 0; i < eos_n; i++)
            assert_int_equal(has(mask, eos[i]), next.end);
    }
    free(mask);
    matcher_free(m);
    tok_ids_free(ids, n);
    return fit;
}

static void check(enum grammar_kind kind, const char *text, const char *reply, enum fit fit)
{
    struct grammar *g = compiled(kind, text);
    enum fit got = fit_of(small, g, reply);
    if (got != fit)
        fail_msg("%s with %s: %d, not %d", reply, text, got, fit);
    grammar_free(g);
}

/* --- kinds --------------------------------------------------------------------------------------------------------- */

static void test_kinds(void **state)
{
    (void)state;
    check(GRAMMAR_JSON, NULL, "{\"name\": [1, true, null, \"x\\n\"]}", FINISHED);
    check(GRAMMAR_JSON, NULL, "{\n  \"name\": {\n    \"a\": -1.5e3\n  }\n}", FINISHED);
    check(GRAMMAR_JSON, NULL, "{\"name\"", PREFIX);
    check(GRAMMAR_JSON, NULL, "[1]", NO);
    check(GRAMMAR_REGEX, "^\\d{3}-(a|b)+$", "123-ab", COMPLETE);
    check(GRAMMAR_REGEX, "\\d{3}", "123", FINISHED);
    check(GRAMMAR_REGEX, "\\d{3}", "12a", NO);
    check(GRAMMAR_REGEX, "a/b", "a/b", FINISHED);
    check(GRAMMAR_CHOICE, "[\"yes\",\"no\",\"yes please\"]", "yes", COMPLETE);
    check(GRAMMAR_CHOICE, "[\"yes\",\"no\",\"yes please\"]", "yes please", FINISHED);
    check(GRAMMAR_CHOICE, "[\"yes\",\"no\"]", "maybe", NO);
    check(GRAMMAR_CHOICE, "[\"\\\"\\\\/\\u007f\"]", "\"\\/\x7f", FINISHED);
    check(GRAMMAR_LARK, "start: \"a\" B+ # a comment with %json\nB: /b/\n", "abb", COMPLETE);
    check(GRAMMAR_LARK, "start: \"a\" %json {\"type\": \"boolean\"}\n", "atrue", FINISHED);
    check(GRAMMAR_LARK, "start: temperature_ \"temperature=\"\ntemperature_: \"a\" # temperature=1\n", "atemperature=",
          FINISHED);
    check(GRAMMAR_GBNF,
          "root ::= \"a\" [b-d]{2,3} x{0} # comment\n  | (\"\\x41\" [^a-z\\n])?\nx ::= \"x\"\n", "acd", COMPLETE);
    check(GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"x\"", "((x))", FINISHED);
    check(GRAMMAR_GBNF, "root ::= \"(\" root \")\" | \"x\"", "((x)x", NO);
    check(GRAMMAR_GBNF, "root ::= item ws\nitem ::= \"1\"\nws ::= ([ \\t] ws)?", "1 \t ", COMPLETE);
    check(GRAMMAR_GBNF, "root ::= v\nv ::= \"[\" (v (\",\" v)*)? \"]\" | [0-9]+", "[1,[],[22]]", FINISHED);
    check(GRAMMAR_SCHEMA, "true", "12", COMPLETE);
    check(GRAMMAR_SCHEMA, "{\"type\":\"integer\"}", "9223372036854775808", COMPLETE);
    /* SO4: patterns of schemas are unanchored, \d and \w included. */
    check(GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"\\\\d+\"}", "\"ab12 c\"", FINISHED);
    check(GRAMMAR_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^\\\\w+$\"}", "\"ab 12\"", NO);
}

/* White space is what a model likes (SO16: never forbidden), but not without end (SO9). */
static void test_white_space(void **state)
{
    (void)state;
    const char *schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],"
                         "\"additionalProperties\":false}";
    char long_gap[600];
    check(GRAMMAR_SCHEMA, schema, "{\"a\":1}", FINISHED);
    check(GRAMMAR_SCHEMA, schema, "{ \"a\" : 1 }", FINISHED);
    check(GRAMMAR_SCHEMA, schema, "{\n\t\"a\": 1\n}", FINISHED);
    check(GRAMMAR_SCHEMA, schema, "{\n\n    \"a\": 1\r\n}", FINISHED);
    check(GRAMMAR_SCHEMA, schema, "{\n\n\n", NO);
    snprintf(long_gap, sizeof long_gap, "{\n%500s", "");
    check(GRAMMAR_SCHEMA, schema, long_gap, NO);
    check(GRAMMAR_SCHEMA, schema, "{\"a\":1}\n", NO);
}

/* A schema in a grammar may fix its separators: then there is no other white space. */
static void test_separators(void **state)
{
    (void)state;
    const char *text = "start: \"<\" args \">\"\n"
                       "args: %json {\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},"
                       "\"c\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}},\"required\":[\"a\",\"c\"],"
                       "\"additionalProperties\":false,\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":"
                       "{\"d\":{\"type\":\"integer\"}}}},\"x-guidance\":{\"whitespace_flexible\":false,"
                       "\"item_separator\":\", \",\"key_separator\":\": \"}}\n";
    check(GRAMMAR_LARK, text, "<{\"a\": \"b\", \"c\": [{\"d\": 1}, {}]}>", FINISHED);
    static const char *const others[] = {
        "<{ \"a\"", "<{\n\"a\"", "<{\"a\":\"", "<{\"a\" :", "<{\"a\":  \"", "<{\"a\": \n \"", "<{\"a\": \n",
        "<{\"a\": \"b\",\"", "<{\"a\": \"b\",  \"", "<{\"a\": \"b\" ,", "<{\"a\": \"b\", \"c\": [ ",
        "<{\"a\": \"b\", \"c\": [{\"d\":1", "<{\"a\": \"b\", \"c\": [{},{", "<{\"a\": \"b\", \"c\": []\n",
        "<{\"a\": \"b\", \"c\": []} ",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check(GRAMMAR_LARK, text, others[i], NO);
}

/* --- what is refused ----------------------------------------------------------------------------------------------- */

static void refused(enum grammar_kind kind, const char *text, enum status st, const char *says)
{
    struct grammar_source src = source(kind, text);
    struct grammar *g = (struct grammar *)&src;
    struct err e = {0};
    enum status got = grammar_new(&g, small, &src, &e);
    if (got != st || !strstr(e.text, says))
        fail_msg("%s: %s: %s", text, status_name(got), e.text);
    assert_null(g);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *says;
        enum status st;
    } schemas[] = {
        {"{\"properties\":{\"a\":{\"not\":{\"type\":\"null\"}}}}", "/properties/a/not", ST_UNSUPPORTED},
        {"{\"items\":{\"uniqueItems\":true}}", "/items/uniqueItems", ST_UNSUPPORTED},
        {"{\"$defs\":{\"x/y\":{\"contains\":{}}},\"$ref\":\"#/$defs/x~1y\"}", "/$defs/x~1y/contains", ST_UNSUPPORTED},
        {"{\"if\":{},\"then\":{\"type\":\"null\"}}", "/if", ST_UNSUPPORTED},
        {"{\"propertyNames\":{\"maxLength\":3}}", "/propertyNames", ST_UNSUPPORTED},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "/dependentRequired", ST_UNSUPPORTED},
        {"{\"allOf\":[{}],\"unevaluatedProperties\":false}", "/unevaluatedProperties", ST_UNSUPPORTED},
        {"{\"type\":\"string\",\"format\":\"iri\"}", "/format", ST_UNSUPPORTED},
        {"{\"pattern\":\"(?=a)b\"}", "/pattern", ST_UNSUPPORTED},
        {"{\"pattern\":\"[a&&b]\"}", "/pattern", ST_UNSUPPORTED},
        {"{\"patternProperties\":{\"(?!a)\":true}}", "/patternProperties/(?!a)", ST_UNSUPPORTED},
        {"{\"anyOf\":[{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}]}", "/anyOf/0/oneOf", ST_UNSUPPORTED},
        {"{\"properties\":{\"a\":true,\"b\":true},\"minProperties\":1}", "/minProperties", ST_UNSUPPORTED},
        {"{\"minProperties\":2}", "/minProperties", ST_UNSUPPORTED},
        {"{\"const\":9007199254740993}", "/const", ST_UNSUPPORTED},
        {"{\"$ref\":\"http://example.com/x\"}", "/$ref", ST_UNSUPPORTED},
        {"{\"$dynamicRef\":\"#x\"}", "/$dynamicRef", ST_UNSUPPORTED},
        {"{\"multipleOf\":0.00000001}", "/multipleOf", ST_UNSUPPORTED},
        {"{\"$ref\":\"#/none\"}", "/$ref", ST_ARGUMENT},
        {"{\"type\":\"strin\"}", "/type", ST_ARGUMENT},
        {"{\"minLength\":\"1\"}", "/minLength", ST_ARGUMENT},
        {"{\"multipleOf\":0}", "/multipleOf", ST_ARGUMENT},
        {"{\"properties\":{\"a\":3}}", "/properties/a", ST_ARGUMENT},
        {"{\"minItems\":3000000000}", "/minItems", ST_TOO_LONG},
        {"false", "nothing can match", ST_ARGUMENT},
        {"{\"enum\":[]}", "nothing can match", ST_ARGUMENT},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "nothing can match", ST_ARGUMENT},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "nothing can match", ST_ARGUMENT},
        {"{\"$ref\":\"#\"}", "nothing can match", ST_ARGUMENT},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "never end", ST_ARGUMENT},
        {"{", "not valid JSON", ST_ARGUMENT},
        {"[]", "expected a schema", ST_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        refused(GRAMMAR_SCHEMA, schemas[i].schema, schemas[i].st, schemas[i].says);
    refused(GRAMMAR_REGEX, "(", ST_UNSUPPORTED, "");
    refused(GRAMMAR_REGEX, "a(?=b)", ST_UNSUPPORTED, "");
    refused(GRAMMAR_REGEX, "", ST_ARGUMENT, "empty");
    refused(GRAMMAR_REGEX, "a\\", ST_ARGUMENT, "escape");
    refused(GRAMMAR_REGEX, "[a\\", ST_ARGUMENT, "escape");
    refused(GRAMMAR_SCHEMA, "{\"pattern\":\"a\\\\\"}", ST_UNSUPPORTED, "/pattern");
    refused(GRAMMAR_CHOICE, "[]", ST_ARGUMENT, "array");
    refused(GRAMMAR_CHOICE, "[1]", ST_ARGUMENT, "array");
    refused(GRAMMAR_LARK, "start: nothing\n", ST_ARGUMENT, "nothing");
    refused(GRAMMAR_LARK, "start: \"a\" <|end|>\n", ST_ARGUMENT, "<|end|>");
    refused(GRAMMAR_LARK, "start: %json {\"not\":{}}\n", ST_UNSUPPORTED, "/not");
    refused(GRAMMAR_LARK, "start[temperature=0.0]: \"a\"\n", ST_UNSUPPORTED, "line 1: temperature=");
    refused(GRAMMAR_LARK, "start: a\na[capture, temperature = 1]: /b+/\n", ST_UNSUPPORTED, "line 2: temperature=");
    refused(GRAMMAR_LARK, "start[max_tokens=3]: /b+/\n", ST_UNSUPPORTED, "max_tokens=");
    refused(GRAMMAR_LARK, "start[stop=\"c\"]: /b+/\n", ST_UNSUPPORTED, "stop=");
    refused(GRAMMAR_GBNF, "root ::= \"a\" b\n", ST_ARGUMENT, "line 1, column 14");
    refused(GRAMMAR_GBNF, "\nroot ::= \"a", ST_ARGUMENT, "line 2, column 12");
    refused(GRAMMAR_GBNF, "x ::= \"a\"", ST_ARGUMENT, "root");
}

static void test_relax(void **state)
{
    (void)state;
    struct grammar_source src = source(
        GRAMMAR_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"not\":{\"const\":\"x\"}},"
                        "\"b\":{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]},"
                        "\"c\":{\"type\":\"object\",\"properties\":{\"d\":true},\"maxProperties\":1}},"
                        "\"required\":[\"a\",\"b\"],\"additionalProperties\":false}");
    struct grammar *g;
    struct err e;
    size_t n;
    src.relax = true;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_OK);
    const char *left = grammar_relaxed(g, &n);
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)n, left);
    assert_non_null(strstr(text, "\"/properties/a/not\""));
    assert_non_null(strstr(text, "\"/properties/b/oneOf\""));
    assert_non_null(strstr(text, "\"/properties/c/maxProperties\""));
    assert_int_equal(fit_of(small, g, "{\"a\":\"x\",\"b\":1}"), FINISHED);
    assert_int_equal(fit_of(small, g, "{\"a\":\"x\",\"b\":\"\"}"), NO);
    grammar_free(g);
    g = compiled(GRAMMAR_JSON, NULL);
    left = grammar_relaxed(g, &n);
    assert_true(n == 2 && memcmp(left, "[]", 2) == 0);
    grammar_free(g);
}

/* --- the free part ------------------------------------------------------------------------------------------------- */

static struct grammar *behind(enum grammar_kind kind, const char *text, const char *after)
{
    struct grammar_source src = source(kind, text);
    struct grammar *g;
    struct err e = {0};
    src.after = after;
    src.after_n = strlen(after);
    if (grammar_new(&g, small, &src, &e) != ST_OK)
        fail_msg("%s", e.text);
    return g;
}

static void test_after(void **state)
{
    (void)state;
    struct matcher *m;
    struct matcher_next next;
    struct err e;
    uint32_t mask[MASK_WORDS];
    tok_id id;
    /* Plain text that ends inside tokens: `>{` may come, `>x` may not. */
    struct grammar *g = behind(GRAMMAR_JSON, NULL, "<t>");
    assert_int_equal(fit_of(small, g, "a{]<t<t>{\"name\":1}"), FINISHED);
    assert_int_equal(fit_of(small, g, "<t><t>"), NO);
    assert_int_equal(fit_of(small, g, "thinking <t>\n\n{\"a\":2}"), FINISHED);
    assert_int_equal(fit_of(small, g, "<t>x"), NO);
    assert_int_equal(fit_of(small, g, "<t"), PREFIX);
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(next.all && !next.end && next.n == 2 && !has(mask, end_id) && has(mask, 'x'));
    id = '<';
    assert_int_equal(matcher_consume(m, &id, 1), 1);
    id = 't';
    assert_int_equal(matcher_consume(m, &id, 1), 1);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    tok_id brace = TOK_NONE, x = TOK_NONE;
    for (size_t i = 0; i < tok_vocab(small); i++) {
        size_t n;
        const char *b = tok_bytes(small, (tok_id)i, &n);
        if (n == 2 && memcmp(b, ">{", 2) == 0)
            brace = (tok_id)i;
        if (n == 2 && memcmp(b, ">x", 2) == 0)
            x = (tok_id)i;
    }
    assert_true(!next.all && has(mask, brace) && !has(mask, x) && has(mask, 'x'));
    assert_int_equal(matcher_consume(m, &x, 1), 0);
    assert_int_equal(matcher_consume(m, &brace, 1), 1);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(!next.all && has(mask, '"') && !has(mask, 'x'));
    matcher_rollback(m, 1);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(has(mask, brace) && !has(mask, x));
    matcher_free(m);
    grammar_free(g);

    /* A control token, and a user-defined one. */
    g = behind(GRAMMAR_REGEX, "\\d\\d", "<|tool|>");
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(!next.all && has(mask, tool_id) && has(mask, think_id) && !has(mask, end_id));
    tok_id ids[] = {'x', tool_id, '1'};
    assert_int_equal(matcher_consume(m, ids, 3), 3);
    assert_int_equal(matcher_consume(m, ids, 1), 0);
    matcher_rollback(m, 2);
    assert_int_equal(matcher_consume(m, ids, 1), 1);
    matcher_free(m);
    grammar_free(g);
    g = behind(GRAMMAR_CHOICE, "[\"abc\"]", "</think>");
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    tok_id more[] = {'x', think_id};
    assert_int_equal(matcher_consume(m, more, 2), 2);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_int_equal(next.n, 1);
    matcher_free(m);
    grammar_free(g);

    struct grammar_source src = source(GRAMMAR_JSON, NULL);
    src.after = "<|end|>";
    src.after_n = 7;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_ARGUMENT);
    src.after_n = 0;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_ARGUMENT);
}

/* --- going back and forth ------------------------------------------------------------------------------------------ */

static tok_id some(const uint32_t *mask, uint64_t key, uint32_t at)
{
    uint32_t out[4], n = 0, pick;
    for (size_t i = 0; i < MASK_WORDS; i++)
        n += (uint32_t)__builtin_popcount(mask[i]);
    rng_philox(key, at, 0, out);
    pick = out[0] % n;
    for (tok_id id = 0;; id++)
        if (has(mask, id) && pick-- == 0)
            return id;
}

/* From every position back to every earlier one: the masks are those of the way there. SO11: any depth, back and forth. */
static void test_rollback(void **state)
{
    (void)state;
    enum { LONG = 40 };
    static uint32_t masks[LONG + 1][MASK_WORDS];
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},"
        "\"true\":{\"type\":\"integer\"}}}",
        "{\"type\":\"array\",\"items\":{\"enum\":[\"abc\",\"name\",true,null,[1,2]]},\"minItems\":4}",
        "{\"anyOf\":[{\"type\":\"string\",\"format\":\"date\"},{\"type\":\"object\"}]}",
    };
    for (size_t s = 0; s < sizeof schemas / sizeof *schemas; s++) {
        struct grammar *g = s == 1 ? behind(GRAMMAR_SCHEMA, schemas[s], "a") : compiled(GRAMMAR_SCHEMA, schemas[s]);
        struct matcher *m;
        struct matcher_next next;
        struct err e;
        tok_id ids[LONG];
        uint32_t n = 0, again[MASK_WORDS] = {0};
        assert_int_equal(matcher_new(&m, g, &e), ST_OK);
        for (; n < LONG; n++) {
            assert_int_equal(matcher_mask(m, masks[n], &next, &e), ST_OK);
            if (next.n == 0)
                break;
            do
                ids[n] = some(masks[n], s, n * 7 + (uint32_t)next.end);
            while (tok_is_eos(small, ids[n]) && next.n > 0 && (s += 100));
            s %= 100;
            assert_int_equal(matcher_consume(m, &ids[n], 1), 1);
        }
        if (n == LONG)
            assert_int_equal(matcher_mask(m, masks[n], &next, &e), ST_OK);
        for (uint32_t back = 0; back <= n; back++) {
            matcher_rollback(m, back);
            assert_int_equal(matcher_mask(m, again, &next, &e), ST_OK);
            assert_memory_equal(again, masks[n - back], sizeof again);
            assert_int_equal(matcher_consume(m, ids + n - back, back), back);
            assert_int_equal(matcher_mask(m, again, &next, &e), ST_OK);
            assert_memory_equal(again, masks[n], sizeof again);
        }
        matcher_rollback(m, n + 10); /* no further than the start */
        assert_int_equal(matcher_mask(m, again, &next, &e), ST_OK);
        assert_memory_equal(again, masks[0], sizeof again);
        matcher_free(m);
        grammar_free(g);
    }
}

/* What does not fit is not taken, whatever it is, and changes nothing. */
static void test_consume(void **state)
{
    (void)state;
    struct grammar *g = compiled(GRAMMAR_CHOICE, "[\"name\",\"true\"]");
    struct matcher *m;
    struct matcher_next next;
    struct err e;
    uint32_t mask[MASK_WORDS];
    tok_id bad[] = {-1, 100000, (tok_id)w.n, 'x', 0};
    bad[4] = end_id;
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(matcher_consume(m, &bad[i], 1), 0);
    tok_id ids[] = {'n', 'a', 'x'};
    assert_int_equal(matcher_consume(m, ids, 3), 2);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_int_equal(next.n, 1);
    size_t n;
    assert_string_equal(w.store[next.only], "me");
    assert_int_equal(matcher_consume(m, &next.only, 1), 1);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(next.n == 0 && next.end && has(mask, end_id) && has(mask, end_id + 1));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(matcher_consume(m, &bad[i], 1), 0);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(next.n == 0 && next.end);
    (void)tok_eos(small, &n);
    matcher_free(m);
    grammar_free(g);
}

/* --- splits -------------------------------------------------------------------------------------------------------- */

static const char *const corpus[] = {
    "{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\",\"unit\":\"celsius\"}}",
    "{\"name\": \"search\", \"arguments\": {\"query\": \"na\xc3\xafve caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac\", \"n\": 123}}",
    "[\n  {\n    \"id\": 12,\n    \"tags\": [\"a\", \"b\"],\n    \"ok\": true\n  }\n]",
    "{\"a\":[[],[[]],{}],\"b\":null,\"c\":-1.25e-10}",
    "{\"text\": \"line\\nline\\t\\\"quoted\\\" \\\\ \xf0\x9f\x98\x80\"}",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
};

/* A text that is determined comes out in the tokenizer's own ids, each of them forced. */
static void canonical(const struct tok *t)
{
    for (size_t i = 0; i < sizeof corpus / sizeof *corpus; i++) {
        char quoted[512];
        size_t q = 0, count;
        struct grammar *g;
        struct matcher *m;
        struct matcher_next next;
        struct err e;
        tok_id *ids;
        quoted[q++] = '[';
        quoted[q++] = '"';
        for (const char *p = corpus[i]; *p; p++) {
            if (*p == '"' || *p == '\\')
                quoted[q++] = '\\';
            if (*p == '\n')
                quoted[q++] = '\\';
            quoted[q++] = *p == '\n' ? 'n' : *p;
        }
        memcpy(quoted + q, "\"]", 3);
        struct grammar_source src = source(GRAMMAR_CHOICE, quoted);
        assert_int_equal(grammar_new(&g, t, &src, &e), ST_OK);
        assert_int_equal(matcher_new(&m, g, &e), ST_OK);
        assert_int_equal(tok_encode(t, corpus[i], strlen(corpus[i]), TOK_INNER, &ids, &count, &e), ST_OK);
        uint32_t *mask = calloc(matcher_words(m), sizeof *mask);
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
            assert_int_equal(next.n, 1);
            assert_int_equal(next.only, ids[k]);
            assert_int_equal(matcher_consume(m, &next.only, 1), 1);
        }
        assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
        assert_true(next.n == 0 && next.end);
        free(mask);
        tok_ids_free(ids, count);
        matcher_free(m);
        grammar_free(g);
    }
}

/* SO10, SO14: forced ids are those of the tokenizer, and all are taken. */
static void test_canonical(void **state)
{
    (void)state;
    canonical(small);
    if (getenv("SMOLLM2")) {
        struct api_model model;
        struct api_open o = {.path = getenv("SMOLLM2"), .want = API_TOK};
        struct err e;
        assert_int_equal(api_open(&model, &o, &e), ST_OK);
        canonical(model.tok);
        api_close(&model);
    }
}

static void test_compact(void **state)
{
    (void)state;
    struct matcher *m;
    struct matcher_next next;
    struct err e;
    uint32_t mask[8];
    const char *text = "{\"name\":[1,true]}";
    tok_id ids[32];
    struct grammar *g = compiled(GRAMMAR_JSON, NULL);
    assert_int_equal(matcher_new_compact(&m, g, &e), ST_OK);
    assert_int_equal(matcher_words(m), 8);
    for (size_t i = 0; text[i]; i++)
        ids[i] = (unsigned char)text[i];
    assert_int_equal(matcher_consume(m, ids, (uint32_t)strlen(text)), strlen(text));
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(next.end && next.n == 0);
    matcher_rollback(m, (uint32_t)strlen(text) - 1);
    tok_id space = ' ';
    assert_int_equal(matcher_consume(m, &space, 1), 0);
    matcher_free(m);
    grammar_free(g);
    g = compiled(GRAMMAR_REGEX, "a");
    assert_int_equal(matcher_new_compact(&m, g, &e), ST_OK);
    assert_null(m);
    grammar_free(g);
}

/* --- limits and the cache ------------------------------------------------------------------------------------------ */

/* Looking at a schema finds what compiling it finds. */
static void test_check(void **state)
{
    (void)state;
    struct grammar *g;
    struct err e;
    struct grammar_source src = source(GRAMMAR_SCHEMA, " {\"properties\":{\"a\":{\"not\":{\"type\":\"null\"}}}} ");
    src.check = true;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_UNSUPPORTED);
    assert_int_equal(strncmp(e.text, "/properties/a/not: ", 19), 0);
    static const char *const wrong[] = {"{\"type\":\"strin\"}", "{\"properties\":[]}", "{\"$ref\":\"#/x\"}", "{"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        src = source(GRAMMAR_SCHEMA, wrong[i]);
        src.check = true;
        assert_int_equal(grammar_new(&g, small, &src, &e), ST_ARGUMENT);
        assert_null(g);
    }
    src = source(GRAMMAR_SCHEMA, "{\"type\":\"object\",\"required\":[\"a\"]}");
    src.check = true;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_OK);
    grammar_free(g);
    src.kind = GRAMMAR_REGEX;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_BUG);
}

static void test_limits(void **state)
{
    (void)state;
    struct grammar *g;
    struct err e;
    struct grammar_source src = source(GRAMMAR_LARK, NULL);
    char *big = malloc(TEXT_LIMIT_GRAMMAR + 2);
    memset(big, ' ', TEXT_LIMIT_GRAMMAR + 1);
    memcpy(big, "start: \"a\"\n", 11);
    src.text = big;
    src.n = TEXT_LIMIT_GRAMMAR;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_OK);
    grammar_free(g);
    src.n++;
    assert_int_equal(grammar_new(&g, small, &src, &e), ST_TOO_LONG);
    /* As deep as JSON is read at all, through the recursion of everything that compiles it; and deeper. */
    for (int deep = 50; deep <= 400; deep *= 8) {
        struct buf b;
        buf_init(&b, 1 << 16);
        for (int i = 0; i < deep; i++)
            buf_adds(&b, "{\"anyOf\":[");
        buf_adds(&b, "true");
        for (int i = 0; i < deep; i++)
            buf_adds(&b, "]}");
        src = (struct grammar_source){.kind = GRAMMAR_SCHEMA, .text = b.data, .n = b.len};
        enum status st = grammar_new(&g, small, &src, &e);
        assert_int_equal(st, deep == 50 ? ST_OK : ST_ARGUMENT);
        grammar_free(g);
        buf_release(&b);
    }
    /* Counts that would make a naive compiler write everything out. */
    uint64_t t0 = clock_ns();
    check(GRAMMAR_SCHEMA, "{\"type\":\"array\",\"minItems\":1000000,\"items\":{\"type\":\"null\"}}", "[null,", PREFIX);
    check(GRAMMAR_SCHEMA, "{\"type\":\"string\",\"minLength\":100000,\"maxLength\":900000}", "\"name", PREFIX);
    check(GRAMMAR_SCHEMA, "{\"type\":\"array\",\"maxItems\":4000000000}", "[1]", FINISHED);
    check(GRAMMAR_REGEX, "(a{1,100000}b){1,1000}", "aab", COMPLETE);
    assert_true(clock_ns() - t0 < 60000000000u);
    free(big);
}

struct caller {
    struct grammar_cache *c;
    struct grammar *g;
    enum status st;
};

static void *call(void *arg)
{
    struct caller *k = arg;
    struct grammar_source src = source(GRAMMAR_SCHEMA, "{\"properties\":{\"a\":{\"format\":\"ipv6\"}}}");
    struct err e;
    k->st = grammar_cache_get(k->c, &k->g, &src, &e);
    return NULL;
}

static void test_cache(void **state)
{
    (void)state;
    enum { CALLERS = 6 };
    struct grammar_cache *c;
    struct grammar *g, *first, *again;
    struct err e;
    pthread_t threads[CALLERS];
    struct caller callers[CALLERS];
    assert_int_equal(grammar_cache_new(&c, small, &e), ST_OK);
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.c = c};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].st, ST_OK);
        assert_ptr_equal(callers[i].g, callers[0].g); /* one compilation for all */
    }
    first = callers[0].g;
    struct grammar_source src = source(GRAMMAR_SCHEMA, "{\"not\":{}}");
    assert_int_equal(grammar_cache_get(c, &g, &src, &e), ST_UNSUPPORTED);
    assert_null(g);
    assert_non_null(strstr(e.text, "/not"));
    src.relax = true; /* another source */
    assert_int_equal(grammar_cache_get(c, &g, &src, &e), ST_OK);
    grammar_free(g);
    /* More than are kept: the one used last stays, the oldest goes. */
    src = source(GRAMMAR_REGEX, "first");
    assert_int_equal(grammar_cache_get(c, &again, &src, &e), ST_OK);
    for (unsigned i = 0; i < TEXT_LIMIT_GRAMMARS + 3; i++) {
        char text[32];
        snprintf(text, sizeof text, "a{%u}", i + 1);
        struct grammar_source other = source(GRAMMAR_REGEX, text);
        assert_int_equal(grammar_cache_get(c, &g, &other, &e), ST_OK);
        grammar_free(g);
        assert_int_equal(grammar_cache_get(c, &g, &src, &e), ST_OK);
        assert_ptr_equal(g, again);
        grammar_free(g);
    }
    /* Schemas that are only looked at push out none of them. */
    for (unsigned i = 0; i < TEXT_LIMIT_CHECKS + 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"maxLength\":%u,\"not\":{}}", i);
        struct grammar_source look = source(GRAMMAR_SCHEMA, text);
        look.check = look.relax = true;
        size_t n;
        assert_int_equal(grammar_cache_get(c, &g, &look, &e), ST_OK);
        const char *relaxed = grammar_relaxed(g, &n); /* no NUL behind it */
        assert_int_equal(n, 8);
        assert_memory_equal(relaxed, "[\"/not\"]", n);
        grammar_free(g);
    }
    assert_int_equal(grammar_cache_get(c, &g, &src, &e), ST_OK);
    assert_ptr_equal(g, again);
    grammar_free(g);
    call(&callers[0]);
    assert_ptr_not_equal(callers[0].g, first); /* compiled anew; the first is still held */
    grammar_free(callers[0].g);
    for (size_t i = 0; i < CALLERS; i++)
        grammar_free(first);
    src.n = TEXT_LIMIT_GRAMMAR + 1;
    assert_int_equal(grammar_cache_get(c, &g, &src, &e), ST_TOO_LONG);
    grammar_cache_free(c);
    assert_int_equal(fit_of(small, again, "first"), FINISHED); /* outlives the cache */
    grammar_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),    cmocka_unit_test(test_white_space), cmocka_unit_test(test_separators),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_relax),    cmocka_unit_test(test_after),       cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_consume),  cmocka_unit_test(test_canonical),   cmocka_unit_test(test_compact),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_check),       cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
