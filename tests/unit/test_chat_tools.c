/*
 * chat_tools: what a server asks for with each request, the memory of the latest sets of tools, and the shape of calls.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "calls.h"

#define HEAD "{% for m in messages %}<|im_start|>{{ m.role }}\n"
#define TAIL "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}" \
    "{# tools <think> </think> #}"
#define WITH(call) HEAD "{{ m.content }}{% for c in m.tool_calls %}" call "{% endfor %}" TAIL
#define HERMES \
    WITH("<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": " \
         "{{ c.function.arguments | tojson }}}\n</tool_call>")
#define COMPACT \
    WITH("<tool_call>{\"name\":\"{{ c.function.name }}\",\"arguments\":" \
         "{{ c.function.arguments | tojson(separators=(',', ':'), sort_keys=true) }}}</tool_call>")

static const struct chat_tools_options plain = {0};
static struct tok *tok;
static struct chat *chat;
static struct chat_tools_cache *cache;

static void open_source(const char *source)
{
    struct err e;
    assert_int_equal(chat_new(&chat, tok, source, strlen(source), &e), ST_OK);
    assert_int_equal(chat_tools_cache_new(&cache, chat, &e), ST_OK);
}

static int begin(void **state)
{
    (void)state;
    tok = calls_tok(NULL, 0);
    open_source(HERMES);
    return 0;
}

static int end(void **state)
{
    (void)state;
    chat_tools_cache_free(cache);
    chat_free(chat);
    tok_free(tok);
    return 0;
}

static const char *request(const char *name)
{
    static _Thread_local char text[1024];
    snprintf(text, sizeof text, "{\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"%s\","
             "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},"
             "\"required\":[\"city\"]}}}]}", name);
    return text;
}

static enum status get_for(const char *text, const char *prompt, struct chat_tools *out, struct err *e)
{
    tok_id *ids;
    size_t n;
    assert_int_equal(tok_encode(tok, prompt, strlen(prompt), TOK_TRUSTED, &ids, &n, e), ST_OK);
    enum status st = chat_tools_get(cache, text, strlen(text), &plain, ids, n, out, e);
    tok_ids_free(ids, n);
    return st;
}

static void test_remembered(void **state)
{
    (void)state;
    struct chat_tools a, b, c;
    struct err e;
    assert_int_equal(get_for(request("get_weather"), "<|im_start|>assistant\n", &a, &e), ST_OK);
    assert_int_equal(get_for(request("get_weather"), "<|im_start|>assistant\n", &b, &e), ST_OK);
    assert_int_equal(get_for(request("get_whether"), "<|im_start|>assistant\n", &c, &e), ST_OK);
    assert_true(a.rows && a.rows == b.rows && a.tools == b.tools && c.rows != a.rows);
    assert_string_equal(format_name(a.format), "hermes");
    assert_ptr_equal(template_rows_config(a.rows)->tools, a.tools);
    chat_tools_release(&a);
    chat_tools_release(&c);
    assert_true(template_rows_n(b.rows) > 0 && format_tools_n(b.tools) == 1);
    chat_tools_release(&b);
}

/* Rows of the same tools know whether this request's prompt has opened reasoning. */
static void test_reasoning_of_the_request(void **state)
{
    (void)state;
    struct chat_tools a, b;
    struct err e;
    assert_int_equal(get_for(request("get_weather"), "<|im_start|>assistant\n<think>\n", &a, &e), ST_OK);
    assert_int_equal(get_for(request("get_weather"), "<|im_start|>assistant\n", &b, &e), ST_OK);
    assert_true(a.in_reasoning && !b.in_reasoning && a.rows && b.rows);
    assert_true(template_rows_config(a.rows)->in_reasoning && !template_rows_config(b.rows)->in_reasoning);
    chat_tools_release(&a);
    chat_tools_release(&b);
}

/* More sets than are remembered: the ones in use stay whole. */
static void test_forgotten(void **state)
{
    (void)state;
    struct chat_tools kept, t;
    struct err e;
    char name[32];
    assert_int_equal(get_for(request("kept"), "x", &kept, &e), ST_OK);
    const struct template_rows *rows = kept.rows;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "tool_%d", i);
        assert_int_equal(get_for(request(name), "x", &t, &e), ST_OK);
        chat_tools_release(&t);
    }
    assert_int_equal(get_for(request("kept"), "x", &t, &e), ST_OK);
    assert_true(t.rows && t.rows != rows && template_rows_n(rows) == template_rows_n(t.rows));
    chat_tools_release(&t);
    chat_tools_release(&kept);
}

static void test_without(void **state)
{
    (void)state;
    const struct chat_tools_options none = {.no_calls = true, .no_reasoning = true};
    struct chat_tools t;
    struct err e;
    assert_int_equal(get_for("{\"messages\":[]}", "x", &t, &e), ST_OK);
    assert_true(t.format && !t.tools && !t.rows && t.why[0]);
    chat_tools_release(&t);
    assert_int_equal(chat_tools_get(cache, "{\"tools\":[]}", 12, &none, NULL, 0, &t, &e), ST_OK);
    assert_true(!t.format && !t.reasoning && !t.rows && t.why[0]);
    chat_tools_release(&t);
    /* Names that no reply could be told apart by are the client's mistake. */
    assert_int_equal(get_for(request("a\\u0001b"), "x", &t, &e), ST_ARGUMENT);
}

static void *ask_often(void *arg)
{
    char name[32];
    for (int i = 0; i < 12; i++) {
        struct chat_tools t;
        struct err e;
        snprintf(name, sizeof name, "shared_%d", i % 5);
        if (get_for(request(name), "x", &t, &e) != ST_OK || !t.rows)
            return arg;
        chat_tools_release(&t);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    void *bad;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, threads), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
}

/* ---- shapes ---- */

static bool shape_of(const char *source, struct format_shape *s)
{
    struct chat *c;
    struct err e;
    size_t n = strlen(source);
    assert_int_equal(chat_new(&c, tok, source, n, &e), ST_OK);
    bool known = chat_shape(c, format_detect(source, n), format_detect_reasoning(source, n), NULL, 0, s);
    chat_free(c);
    return known;
}

static void test_shape_read(void **state)
{
    (void)state;
    struct format_shape s;
    assert_true(shape_of(HERMES, &s));
    assert_string_equal(s.item_sep, ", ");
    assert_false(s.sorted);
    assert_true(shape_of(COMPACT, &s));
    assert_string_equal(s.open, "<tool_call>{\"name\":\"");
    assert_string_equal(s.named, "\",\"arguments\":");
    assert_string_equal(s.close, "}</tool_call>");
    assert_string_equal(s.item_sep, ",");
    assert_string_equal(s.key_sep, ":");
    assert_true(s.sorted);
}

static void test_shape_of_pairs(void **state)
{
    (void)state;
    struct format_shape s;
    assert_true(shape_of(WITH("<tool_call><function={{ c.function.name }}>"
                              "{% for k, v in c.function.arguments | items %}<parameter={{ k }}> {{ v }} </parameter>"
                              "{% endfor %}</function></tool_call>"), &s));
    assert_string_equal(s.named, ">");
    assert_string_equal(s.key_close, "> ");
    assert_string_equal(s.value_close, " </parameter>");
    assert_string_equal(s.close, "</function></tool_call>");
    assert_true(s.python_words);
}

static void test_shape_assumed(void **state)
{
    (void)state;
    struct format_shape s, own;
    const char *source = HEAD "{{ m.content }}<|im_end|>\n{% endfor %}"; /* knows no calls */
    assert_false(shape_of(source, &s));
    format_shape_init(format_detect(source, strlen(source)), &own);
    assert_memory_equal(&s, &own, sizeof s);
    assert_string_equal(s.open, "<tool_call>\n{\"name\": \"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remembered),
        cmocka_unit_test(test_reasoning_of_the_request),
        cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_shape_read),
        cmocka_unit_test(test_shape_of_pairs),
        cmocka_unit_test(test_shape_assumed),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
