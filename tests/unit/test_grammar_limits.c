/*
 * what a grammar may cost: the matcher's own limits, the cache's time and memory, its threads.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/base.h"
#include "text/shim.h"
#include "text/text.h"

#define VOCAB 258
#define WORDS ((VOCAB + 31) / 32)

static struct tok *tok;

/* The 256 bytes, in GPT-2's stand-ins, and an end. */
static struct tok *bytes_tok(void)
{
    static struct text_view tokens[VOCAB];
    static const struct text_view merges[] = {{"z z", 3}};
    static char store[VOCAB][4];
    static int32_t types[VOCAB];
    unsigned next = 256;
    struct tok_source src;
    struct tok *t;
    struct err e;
    for (unsigned b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        unsigned c = printable ? b : next++;
        store[b][0] = c < 128 ? (char)c : (char)(0xC0 | c >> 6);
        store[b][1] = c < 128 ? 0 : (char)(0x80 | (c & 63));
        tokens[b] = (struct text_view){store[b], strlen(store[b])};
        types[b] = TOK_NORMAL;
    }
    tokens[256] = (struct text_view){"<|end|>", 7};
    types[256] = TOK_CONTROL;
    tokens[257] = (struct text_view){"zz", 2};
    types[257] = TOK_NORMAL;
    tok_source_init(&src);
    src.model = "gpt2";
    src.pre = "llama-bpe";
    src.tokens = tokens;
    src.types = types;
    src.n_tokens = VOCAB;
    src.merges = merges;
    src.n_merges = 1;
    src.eos = 256;
    if (tok_new_gguf(&t, &src, &e) != ST_OK)
        fail_msg("%s", e.text);
    return t;
}

static int setup(void **state)
{
    (void)state;
    tok = bytes_tok();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tok_free(tok);
    return 0;
}

static struct grammar_source source(enum grammar_kind kind, const char *text)
{
    return (struct grammar_source){.kind = kind, .text = text, .n = strlen(text)};
}

/* --- the matcher's limits ------------------------------------------------------------------------------------------ */

/* Goes along a text. Returns how many bytes went before something failed, and how. */
static size_t go(struct matcher *m, const char *text, enum status *st, struct err *e)
{
    uint32_t mask[WORDS];
    struct matcher_next next;
    *st = matcher_mask(m, mask, &next, e);
    size_t i = 0;
    for (; text[i] && *st == ST_OK; i++) {
        tok_id id = (unsigned char)text[i];
        if (!(mask[id / 32] >> id % 32 & 1))
            fail_msg("'%c' at %zu is not in the mask", text[i], i);
        if (!matcher_consume(m, &id, 1)) {
            *st = matcher_error(m, e);
            return i;
        }
        *st = matcher_mask(m, mask, &next, e);
    }
    return i;
}

static char *optional_properties(unsigned n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_adds(&b, "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
    for (unsigned i = 0; i < n; i++)
        buf_addf(&b, "%s\"p%u\":{\"type\":\"integer\"}", i ? "," : "", i);
    buf_adds(&b, "}}");
    return b.data;
}

static char *many_refs(unsigned n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_adds(&b, "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"v\"],"
                 "\"properties\":{\"v\":{\"anyOf\":[");
    for (unsigned i = 0; i < n; i++)
        buf_addf(&b, "%s{\"$ref\":\"#/$defs/d%u\"}", i ? "," : "", i);
    buf_adds(&b, "]}},\"$defs\":{");
    for (unsigned i = 0; i < n; i++)
        buf_addf(&b,
                 "%s\"d%u\":{\"type\":\"object\",\"properties\":{\"k%u\":{\"type\":\"integer\"}},"
                 "\"required\":[\"k%u\"],\"additionalProperties\":false}",
                 i ? "," : "", i, i, i);
    buf_adds(&b, "}}");
    return b.data;
}

static char *many_rules(unsigned n)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_adds(&b, "start: \"x\" (");
    for (unsigned i = 0; i < n; i++)
        buf_addf(&b, "%sr%u", i ? "|" : "", i);
    buf_adds(&b, ")\n");
    for (unsigned i = 0; i < n; i++)
        buf_addf(&b, "r%u: \"a%u\"\n", i, i);
    return b.data;
}

static void refused(enum grammar_kind kind, const char *text, const char *says)
{
    struct grammar_source src = source(kind, text);
    struct grammar *g;
    struct err e = {0};
    assert_int_equal(grammar_new(&g, tok, &src, &e), ST_TOO_LONG);
    assert_string_equal(e.field, "grammar");
    if (!strstr(e.text, says))
        fail_msg("%s", e.text);
}

/* Limits that every reply would run into with its first token are found by compiling. */
static void test_refused(void **state)
{
    (void)state;
    char *text = optional_properties(1500);
    refused(GRAMMAR_SCHEMA, text, "max is 2000");
    free(text);
    text = many_rules(15000);
    refused(GRAMMAR_LARK, text, "max is 2000");
    free(text);
    refused(GRAMMAR_GBNF, "root ::= (\"a\"{1000}){1000}", "too many");
}

/* Others end the reply that runs into them, and say so. What was only tried leaves nothing behind. */
static void test_met(void **state)
{
    (void)state;
    char *text = many_refs(3000);
    struct grammar_source src = source(GRAMMAR_SCHEMA, text);
    struct grammar *g;
    struct matcher *m;
    struct matcher_next next;
    struct err e = {0};
    enum status st;
    uint32_t before[WORDS], after[WORDS];
    const tok_id colon = ':', no = 'n', space = ' ';
    assert_int_equal(grammar_new(&g, tok, &src, &e), ST_OK);
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    assert_int_equal(go(m, "{\"v\"", &st, &e), 4);
    assert_int_equal(st, ST_OK);
    assert_int_equal(matcher_error(m, &e), ST_OK);
    assert_int_equal(matcher_mask(m, before, &next, &e), ST_OK);
    assert_int_equal(matcher_consume(m, &no, 1), 0);
    assert_int_equal(matcher_error(m, &e), ST_OK); /* an id that does not fit is no limit */
    assert_int_equal(matcher_consume(m, &colon, 1), 0);
    matcher_rollback(m, 0);
    assert_int_equal(matcher_mask(m, after, &next, &e), ST_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(matcher_consume(m, &colon, 1), 0);
    assert_int_equal(matcher_consume(m, &space, 1), 1); /* another way, with nothing asked between */
    assert_int_equal(matcher_consume(m, &colon, 1), 0);
    matcher_rollback(m, 3);
    assert_int_equal(go(m, "v\"", &st, &e), 2);
    assert_int_equal(st, ST_OK);
    assert_int_equal(matcher_mask(m, after, &next, &e), ST_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(go(m, ":{\"k3\":1}}", &st, &e), 0);
    assert_int_equal(st, ST_TOO_LONG);
    assert_string_equal(e.field, "grammar");
    assert_non_null(strstr(e.text, "max is 2000"));
    matcher_free(m);
    grammar_free(g);
    free(text);
}

/* The same where a token ends the free part and goes on into the grammar. */
static void test_met_behind(void **state)
{
    (void)state;
    struct buf b;
    struct grammar *g;
    struct matcher *m;
    struct matcher_next next;
    struct err e = {0};
    uint32_t mask[WORDS];
    const tok_id both = 257, ids[] = {'a', 'z', 'y'};
    char *rules = many_rules(15000);
    buf_init(&b, 1 << 20);
    buf_addf(&b, "start: \"y\" | z\nz: \"z\"%s", strchr(rules, '(') - 1);
    struct grammar_source src = {.kind = GRAMMAR_LARK, .text = b.data, .n = b.len, .after = "z", .after_n = 1};
    if (grammar_new(&g, tok, &src, &e) != ST_OK)
        fail_msg("%s", e.text);
    assert_int_equal(matcher_new(&m, g, &e), ST_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
        assert_int_equal(matcher_consume(m, &both, 1), 0);
        assert_int_equal(matcher_error(m, &e), ST_TOO_LONG);
        assert_int_equal(matcher_consume(m, ids, i < 2 ? 1 : 3), i < 2 ? 1 : 3);
    }
    assert_int_equal(matcher_error(m, &e), ST_OK);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_true(next.n == 0 && next.end);
    matcher_rollback(m, 1);
    assert_int_equal(matcher_mask(m, mask, &next, &e), ST_OK);
    assert_int_equal(matcher_consume(m, &ids[2], 1), 1);
    matcher_free(m);
    grammar_free(g);
    buf_release(&b);
    free(rules);
}

/* --- the cache ------------------------------------------------------------------------------------------------------ */

static atomic_bool go_on;
static atomic_int slow_ones, asleep;

static enum status compile(struct grammar **out, const struct tok *t, const struct grammar_source *src, struct err *e)
{
    bool slow = src->n > 4 && memcmp(src->text, "slow", 4) == 0, sleeps = src->n > 4 && memcmp(src->text, "long", 4) == 0;
    slow_ones += slow;
    asleep += sleeps;
    while (slow && !go_on)
        continue; /* takes a processor's time */
    while (sleeps && !go_on)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    enum status st = text_grammar_here(out, t, src, e);
    slow_ones -= slow;
    asleep -= sleeps;
    return st;
}

static struct grammar_cache *cache(const struct tok *t, unsigned cpu_ms, unsigned wait_ms, size_t bytes)
{
    struct grammar_cache *c;
    struct err e;
    assert_int_equal(grammar_cache_new(&c, t, &e), ST_OK);
    text_cache_set(c, compile, cpu_ms, wait_ms, bytes);
    go_on = false;
    return c;
}

static enum status get(struct grammar_cache *c, const char *text, struct grammar **out, struct err *e)
{
    struct grammar_source src = source(GRAMMAR_REGEX, text);
    struct grammar *g = NULL;
    enum status st = grammar_cache_get(c, &g, &src, e);
    if (out)
        *out = g;
    else
        grammar_free(g);
    return st;
}

static void until_zero(const atomic_int *n)
{
    for (int i = 0; i < 4000 && *n; i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(*n, 0);
}

/* Each of them leaves room for others until no thread is left; then new sources are refused, however many come. */
static void test_late(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct grammar_cache *c = cache(tok, 30, 60000, 1u << 30);
    struct err e = {0};
    char text[32];
    for (int i = 0; i < THREADS; i++) {
        snprintf(text, sizeof text, "fast%d", i);
        assert_int_equal(get(c, text, NULL, &e), ST_OK);
        snprintf(text, sizeof text, "slow%d", i);
        assert_int_equal(get(c, text, NULL, &e), ST_TOO_LONG);
        assert_string_equal(e.field, "grammar");
        assert_int_equal(get(c, text, NULL, &e), ST_TOO_LONG);
        assert_int_equal(slow_ones, i + 1);
    }
    for (int i = 0; i < 3 * THREADS; i++) {
        snprintf(text, sizeof text, i % 2 ? "slower%d" : "faster%d", i);
        e.retry_after = 0;
        assert_int_equal(get(c, text, NULL, &e), ST_BUSY);
        assert_true(e.retry_after > 0);
    }
    assert_int_equal(slow_ones, THREADS);
    assert_int_equal(get(c, "fast0", NULL, &e), ST_OK);
    assert_int_equal(get(c, "slow0", NULL, &e), ST_TOO_LONG);
    go_on = true;
    until_zero(&slow_ones);
    for (int i = 0; i < 4000 && get(c, "faster0", NULL, &e) == ST_BUSY; i++)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(get(c, "faster0", NULL, &e), ST_OK);
    assert_int_equal(get(c, "slow0", NULL, &e), ST_OK); /* what came of it late is kept */
    grammar_cache_free(c);
}

/* Who frees the cache does not wait for what cannot be stopped; that frees what it holds when it ends. */
static void test_left_behind(void **state)
{
    (void)state;
    struct tok *own = bytes_tok();
    struct grammar_cache *c = cache(own, 30, 60000, 1u << 30);
    struct err e = {0};
    assert_int_equal(get(c, "fast", NULL, &e), ST_OK);
    assert_int_equal(get(c, "slow1", NULL, &e), ST_TOO_LONG);
    assert_int_equal(get(c, "slow2", NULL, &e), ST_TOO_LONG);
    grammar_cache_free(c);
    tok_free(own);
    assert_int_equal(slow_ones, 2);
    go_on = true;
    until_zero(&slow_ones);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* for those who look after leaks: the threads end now */
}

/* A thread that gets no processor is not slow; who waits for it is told to come again. */
static void test_waiting(void **state)
{
    (void)state;
    struct grammar_cache *c = cache(tok, 30, 200, 1u << 30);
    struct err e = {0};
    assert_int_equal(get(c, "long1", NULL, &e), ST_BUSY);
    assert_int_equal(asleep, 1);
    assert_int_equal(get(c, "long1", NULL, &e), ST_BUSY);
    assert_int_equal(asleep, 1);
    assert_int_equal(get(c, "fast", NULL, &e), ST_OK);
    assert_int_equal(get(c, "long2", NULL, &e), ST_BUSY);
    assert_int_equal(get(c, "faster", NULL, &e), ST_BUSY); /* in the queue */
    go_on = true;
    until_zero(&asleep);
    for (int i = 0; i < 100 && get(c, "faster", NULL, &e) == ST_BUSY; i++)
        continue;
    assert_int_equal(get(c, "faster", NULL, &e), ST_OK);
    assert_int_equal(get(c, "long1", NULL, &e), ST_OK);
    grammar_cache_free(c);
}

/* What is kept is bounded by memory, too. */
static void test_bytes(void **state)
{
    (void)state;
    struct grammar_cache *c = cache(tok, 5000, 60000, 1u << 30);
    struct grammar *small, *large, *g;
    struct err e = {0};
    const char *much = "(abc|x[a-z]{1,50}){1,40}";
    assert_int_equal(get(c, "a", &small, &e), ST_OK);
    assert_int_equal(get(c, much, &large, &e), ST_OK);
    size_t a = text_grammar_bytes(small), b = text_grammar_bytes(large);
    assert_true(a > 1000 && b > a + 1000);
    assert_int_equal(get(c, "a", &g, &e), ST_OK);
    assert_ptr_equal(g, small);
    grammar_free(g);
    grammar_cache_free(c);
    c = cache(tok, 5000, 60000, b + 5 * a / 2); /* for it and two others */
    for (int round = 0; round < 2; round++) {
        struct grammar *first;
        assert_int_equal(get(c, "a", &first, &e), ST_OK);
        assert_int_equal(get(c, "b", NULL, &e), ST_OK);
        assert_int_equal(get(c, much, NULL, &e), ST_OK);
        assert_int_equal(get(c, "a", &g, &e), ST_OK);
        assert_ptr_equal(g, first);
        grammar_free(g);
        assert_int_equal(get(c, "c", NULL, &e), ST_OK); /* b goes */
        assert_int_equal(get(c, "a", &g, &e), ST_OK);
        assert_ptr_equal(g, first);
        grammar_free(g);
        assert_int_equal(get(c, "(abc|y[a-z]{1,50}){1,40}", NULL, &e), ST_OK); /* the other goes */
        assert_int_equal(get(c, "d", NULL, &e), ST_OK);
        assert_int_equal(get(c, "e", NULL, &e), ST_OK);
        assert_int_equal(get(c, "f", NULL, &e), ST_OK);
        assert_int_equal(get(c, "a", &g, &e), ST_OK);
        assert_ptr_not_equal(g, first);
        grammar_free(g);
        grammar_free(first);
    }
    grammar_cache_free(c);
    c = cache(tok, 5000, 60000, 1); /* nothing is kept, everything is had */
    assert_int_equal(get(c, "a", &g, &e), ST_OK);
    struct grammar *again;
    assert_int_equal(get(c, "a", &again, &e), ST_OK);
    assert_ptr_not_equal(g, again);
    grammar_free(g);
    grammar_free(again);
    grammar_cache_free(c);
    grammar_free(small);
    grammar_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_met),         cmocka_unit_test(test_met_behind),
        cmocka_unit_test(test_late),        cmocka_unit_test(test_left_behind), cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
