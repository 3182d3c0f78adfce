/*
 * cli/hist, cli/stream, cli/ask: the parts of the load driver that need no server. The whole is tests/cli and tests/load.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/ask.h"
#include "cli/hist.h"
#include "cli/stream.h"

/* --- hist ------------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void percentiles_are_near(void **state)
{
    (void)state;
    enum { N = 5000 };
    static struct hist h;
    static uint64_t us[N];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t four[4];
        rng_philox(7, i, 0, four);
        us[i] = (uint64_t)four[0] >> (four[1] % 32); /* from 0 to 2^32, each power of two alike */
        hist_add(&h, us[i]);
    }
    qsort(us, N, sizeof *us, compare);
    for (int i = 1; i <= 1000; i++) {
        double q = i / 1000.0;
        double truth = (double)us[(int)ceil(q * N) - 1] / 1e3, got = hist_quantile(&h, q);
        if (fabs(got - truth) > truth * 0.02 + 1e-9)
            fail_msg("at %g: %g ms, not %g ms", q, got, truth);
    }
    assert_true(hist_quantile(&h, 1) == (double)us[N - 1] / 1e3);
}

static void odd_histograms(void **state)
{
    (void)state;
    static struct hist empty, one, huge;
    assert_true(isnan(hist_quantile(&empty, 0.5)));
    hist_add(&one, 1234567);
    assert_true(hist_quantile(&one, 0.01) == 1234.567 && hist_quantile(&one, 1) == 1234.567);
    hist_add(&huge, UINT64_MAX);
    hist_add(&huge, UINT64_C(1) << HIST_TOP);
    hist_add(&huge, 0);
    assert_int_equal(huge.n, 3);
    assert_true(hist_quantile(&huge, 0.3) == 0);
    assert_true(hist_quantile(&huge, 1) == (double)UINT64_MAX / 1e3);
}

static void fairness(void **state)
{
    (void)state;
    uint64_t alike[] = {5, 5, 5, 5}, one[] = {0, 0, 9, 0}, none[] = {0, 0}, two[] = {1, 3};
    assert_true(hist_jain(alike, 4) == 1);
    assert_true(hist_jain(one, 4) == 0.25);
    assert_true(hist_jain(none, 2) == 1);
    assert_true(fabs(hist_jain(two, 2) - 0.8) < 1e-12);
}

/* --- stream ----------------------------------------------------------------------------------------------------------- */

#define CHAT \
    ": a comment\n\n" \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n" \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n" \
    "event: x\nid: 3\ndata:{\"choices\":[{\"delta\":{\"reasoning_content\":\"h\\u0000m\"}}]}\n\n" \
    "data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0}]}}]}\n\n" \
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" \
    "data: {\"choices\":[],\n" \
    "data: \"usage\":{\"prompt_tokens\":31,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":30}}}\n\n" \
    "data: [DONE]\n\n"

/* Feeds text in pieces of `piece` bytes. */
static enum status feed(struct stream *s, const char *text, size_t n, size_t piece, uint32_t *with_text, struct err *e)
{
    *with_text = 0;
    for (size_t i = 0; i < n; i += piece) {
        uint32_t more;
        enum status st = stream_feed(s, text + i, n - i < piece ? n - i : piece, &more, e);
        *with_text += more;
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

static void expect_chat(struct stream *s, const char *text, size_t n, size_t piece)
{
    struct err e = {0};
    uint32_t with_text;
    stream_clear(s);
    assert_int_equal(feed(s, text, n, piece, &with_text, &e), ST_OK);
    assert_int_equal(with_text, 3);
    assert_int_equal(s->chunks, 3);
    assert_true(s->done && s->finished && s->has_usage);
    assert_int_equal(s->tokens_in, 31);
    assert_int_equal(s->tokens_cached, 30);
    assert_int_equal(s->tokens_out, 4);
    assert_int_equal(stream_end(s, &e), ST_OK);
}

static void pieces_of_any_size(void **state)
{
    (void)state;
    struct stream s;
    char other[2 * sizeof CHAT];
    stream_init(&s);
    for (int form = 0; form < 3; form++) {
        size_t n = 0;
        for (const char *p = CHAT; *p; p++) {
            if (*p == '\n' && form == 1)
                other[n++] = '\r'; /* CR LF */
            other[n++] = *p == '\n' && form == 2 ? '\r' : *p;
        }
        for (size_t piece = 1; piece < 40; piece++)
            expect_chat(&s, other, n, piece);
        expect_chat(&s, other, n, n);
    }
    stream_release(&s);
}

static void completion_chunks(void **state)
{
    (void)state;
    static const char text[] = "data: {\"choices\":[{\"text\":\"a\"},"
                               "{\"text\":\"b\",\"finish_reason\":\"length\"}]}\r\n\r\n";
    struct stream s;
    struct err e = {0};
    uint32_t with_text;
    stream_init(&s);
    assert_int_equal(stream_end(&s, &e), ST_IO);
    assert_int_equal(feed(&s, text, sizeof text - 1, 9, &with_text, &e), ST_OK);
    assert_int_equal(with_text, 2);
    assert_false(s.done || s.has_usage);
    assert_int_equal(stream_end(&s, &e), ST_OK); /* it said why it ended, which is enough */
    stream_release(&s);
}

static void expect_broken(struct stream *s, const char *text, enum status st, const char *words)
{
    struct err e = {0};
    uint32_t with_text;
    stream_clear(s);
    assert_int_equal(feed(s, text, strlen(text), 7, &with_text, &e), st);
    if (!strstr(e.text, words))
        fail_msg("the text is: %s", e.text);
}

static void broken_streams(void **state)
{
    (void)state;
    struct stream s;
    struct err e = {0};
    uint32_t with_text;
    stream_init(&s);
    expect_broken(&s, "data: {\"choices\":[\n\n", ST_ARGUMENT, "{\"choices\":[");
    expect_broken(&s, "data: [1]\n\n", ST_ARGUMENT, "not a JSON object");
    expect_broken(&s, "data: {\"error\":{\"message\":\"the weights melted\"}}\n\n", ST_STEP_FAILED, "the weights melted");
    expect_broken(&s, "data: {\"error\":\"melted\"}\n\n", ST_STEP_FAILED, "melted");
    expect_broken(&s, "data: {\"error\":{}}\n\n", ST_STEP_FAILED, "does not say why");
    stream_clear(&s);
    assert_int_equal(feed(&s, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DO", 43, 5, &with_text, &e), ST_OK);
    assert_int_equal(with_text, 1);
    assert_int_equal(stream_end(&s, &e), ST_IO);
    stream_release(&s);
}

/* One event may be LIMIT_LOAD_EVENT bytes long, in one line or in many, and no longer. */
static void events_have_a_ceiling(void **state)
{
    (void)state;
    struct stream s;
    struct err e = {0};
    uint32_t with_text;
    size_t most = LIMIT_LOAD_EVENT;
    char *text = malloc(most + 16);
    assert_non_null(text);
    memset(text, ' ', most + 16);
    memcpy(text, "data: {}", 8);
    stream_init(&s);
    text[most] = text[most + 1] = '\n';
    assert_int_equal(stream_feed(&s, text, most + 2, &with_text, &e), ST_OK);
    text[most] = ' ';
    text[most + 1] = text[most + 2] = '\n';
    assert_int_equal(stream_feed(&s, text, most + 3, &with_text, &e), ST_TOO_LONG);
    assert_true(s.line.cap <= 2 * most + 16);
    stream_clear(&s);
    enum status st = ST_OK;
    for (int i = 0; i < 1100 && st == ST_OK; i++) {
        memset(text, ' ', 1000);
        memcpy(text, "data: ", 6);
        text[999] = '\n';
        st = stream_feed(&s, text, 1000, &with_text, &e);
    }
    assert_int_equal(st, ST_TOO_LONG);
    free(text);
    stream_release(&s);
}

static void error_texts(void **state)
{
    (void)state;
    char text[64];
    static const char *const cases[][2] = {{"{\"error\":{\"message\":\"full\"}}", "full"}, {"{\"error\":\"full\"}", "full"},
                                           {"{\"detail\":1}", "{\"detail\":1}"}, {"<html>no", "<html>no"}, {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stream_error_text(cases[i][0], strlen(cases[i][0]), text, sizeof text);
        assert_string_equal(text, cases[i][1]);
    }
    char exact[3] = {'a', 'b', 'c'}; /* no NUL follows */
    stream_error_text(exact, 3, text, sizeof text);
    assert_string_equal(text, "abc");
}

/* --- ask -------------------------------------------------------------------------------------------------------------- */

static uint32_t words_in(const char *s)
{
    uint32_t n = *s != '\0';
    for (; *s; s++)
        n += *s == ' ';
    return n;
}

static const char *field(json_t *root, const char *key, size_t message)
{
    json_t *messages = json_object_get(root, "messages");
    return json_string_value(json_object_get(messages ? json_array_get(messages, message) : root, key));
}

static json_t *body_of(const struct ask *a, uint32_t client, uint32_t turn)
{
    struct buf b;
    struct err e = {0};
    buf_init(&b, LIMIT_LOAD_BODY);
    assert_int_equal(ask_body(a, client, turn, ask_words(a, client, turn), &b, &e), ST_OK);
    json_t *root = json_loads(b.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    buf_release(&b);
    return root;
}

static void prompts_differ(void **state)
{
    (void)state;
    struct ask a = {.model = "a \"b\"", .seed = 3, .words = 40, .max_tokens = 7};
    char seen[200][64];
    for (uint32_t i = 0; i < 200; i++) {
        json_t *root = body_of(&a, i / 10, i % 10), *again = body_of(&a, i / 10, i % 10);
        assert_true(json_equal(root, again));
        assert_string_equal(field(root, "content", 0) ? json_string_value(json_object_get(root, "model")) : "", "a \"b\"");
        assert_int_equal(words_in(field(root, "content", 0)), 40);
        snprintf(seen[i], sizeof seen[i], "%s", field(root, "content", 0));
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(seen[k], seen[i]);
        json_decref(root);
        json_decref(again);
    }
}

static void shared_prefixes(void **state)
{
    (void)state;
    struct ask chat = {.model = "m", .words = 5, .shared = 30, .max_tokens = 1}, text = chat;
    text.completion = true;
    json_t *a = body_of(&chat, 0, 0), *b = body_of(&chat, 1, 4), *c = body_of(&text, 0, 0), *d = body_of(&text, 2, 0);
    const char *system = field(a, "content", 0);
    assert_string_equal(field(a, "role", 0), "system");
    assert_int_equal(words_in(system), 30);
    assert_string_equal(system, field(b, "content", 0));
    assert_string_not_equal(field(a, "content", 1), field(b, "content", 1));
    assert_int_equal(words_in(field(c, "prompt", 0)), 35);
    assert_memory_equal(field(c, "prompt", 0), system, strlen(system));
    assert_memory_equal(field(d, "prompt", 0), system, strlen(system));
    assert_string_not_equal(field(c, "prompt", 0), field(d, "prompt", 0));
    json_decref(a), json_decref(b), json_decref(c), json_decref(d);
}

static void lengths_spread(void **state)
{
    (void)state;
    struct ask a = {.model = "m", .words = 40, .spread = 50, .max_tokens = 1};
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t n = ask_words(&a, i % 8, i / 8);
        low = n < low ? n : low;
        high = n > high ? n : high;
    }
    assert_int_equal(low, 20);
    assert_int_equal(high, 60);
    a.spread = 0;
    assert_int_equal(ask_words(&a, 3, 9), 40);
    a.words = 1;
    a.spread = 100;
    for (uint32_t i = 0; i < 50; i++)
        assert_in_range(ask_words(&a, i, 0), 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_near), cmocka_unit_test(odd_histograms),
        cmocka_unit_test(fairness),             cmocka_unit_test(pieces_of_any_size),
        cmocka_unit_test(completion_chunks),    cmocka_unit_test(broken_streams),
        cmocka_unit_test(events_have_a_ceiling), cmocka_unit_test(error_texts),
        cmocka_unit_test(prompts_differ),       cmocka_unit_test(shared_prefixes),
        cmocka_unit_test(lengths_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
