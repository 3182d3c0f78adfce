/*
 * chat: what of a request reaches the template, byte by byte.
 *
 * The text library is replaced by one whose rendering is the variables themselves, so that a test can read them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chat/chat.h"
#include "chat/cut.h"

/* ---- the text library's place ---- */

struct chat_template {
    bool typed; /* reads content only as a list of parts */
};

enum status chat_template_new(struct chat_template **out, const char *source, size_t n, struct err *e)
{
    if (memmem(source, n, "BROKEN", 6))
        return err_set(e, ST_MODEL, "", "line 1: broken");
    *out = calloc(1, sizeof **out);
    (*out)->typed = memmem(source, n, "TYPED", 5) != NULL;
    return ST_OK;
}

void chat_template_free(struct chat_template *c)
{
    free(c);
}

enum status chat_template_render(const struct chat_template *c, const struct tok *t, const char *vars, size_t n,
                                 int64_t unix_time, struct text_rendering *out, struct err *e)
{
    (void)t;
    (void)unix_time;
    if (memmem(vars, n, "RAISE", 5))
        return err_set(e, ST_ARGUMENT, "messages", "roles must alternate");
    bool show = !c->typed || memmem(vars, n, "\"content\":[", 11);
    *out = (struct text_rendering){.text = show ? strndup(vars, n) : strdup(""), .n = show ? n : 0};
    return ST_OK;
}

void text_rendering_release(struct text_rendering *r)
{
    free(r->text);
}

enum status tok_encode_rendering(const struct tok *t, const struct text_rendering *r, tok_id **ids, size_t *count,
                                 struct err *e)
{
    (void)t;
    (void)e;
    *count = r->n;
    *ids = calloc(r->n + 1, sizeof **ids);
    return ST_OK;
}

void tok_ids_free(tok_id *ids, size_t count)
{
    (void)count;
    free(ids);
}

/* ---- helpers ---- */

static struct chat *make(const char *source)
{
    struct chat *c;
    struct err e;
    assert_int_equal(chat_new(&c, NULL, source, source ? strlen(source) : 0, &e), ST_OK);
    return c;
}

static void check(const char *source, const char *request, const char *want)
{
    const struct chat_options o = {0};
    struct chat *c = make(source);
    struct buf out;
    struct err e = {0};
    buf_init(&out, 1 << 20);
    if (chat_variables(c, request, strlen(request), &o, &out, &e) != ST_OK)
        fail_msg("%s: %s", request, e.text);
    assert_string_equal(out.data, want);
    buf_release(&out);
    chat_free(c);
}

static void check_error(const char *source, const char *request, enum status code, const char *field)
{
    const struct chat_options o = {0};
    struct chat *c = make(source);
    struct buf out;
    struct err e = {0};
    buf_init(&out, 1 << 20);
    if (chat_variables(c, request, strlen(request), &o, &out, &e) != code)
        fail_msg("%s: %s, not %s", request, status_name(e.code), status_name(code));
    assert_string_equal(e.field, field);
    assert_true(strlen(e.text) > 0);
    buf_release(&out);
    chat_free(c);
}

#define PLAIN "{{ messages }}"
#define TAIL ",\"add_generation_prompt\":true}"

/* ---- cutting ---- */

static void test_cut(void **state)
{
    (void)state;
    const char *text = " { \"a\" : [1, {\"x\":\"]}\\\"\"} ,\"\"] , \"b\\u0063\":null, \"\":-1.5e3 } ";
    struct cut root = chat_cut_text(text, strlen(text)), key, v;
    struct cut_iter it = chat_cut_open(root);
    assert_int_equal(chat_cut_kind_of(root), CUT_OBJECT);
    assert_true(chat_cut_next(&it, &key, &v) && chat_cut_is(key, "a"));
    assert_int_equal(chat_cut_kind_of(v), CUT_ARRAY);
    assert_true(chat_cut_next(&it, &key, &v) && chat_cut_is(key, "bc") && chat_cut_kind_of(v) == CUT_NULL);
    assert_true(chat_cut_next(&it, &key, &v) && chat_cut_is(key, "") && v.n == 6);
    assert_false(chat_cut_next(&it, &key, &v));
    assert_false(it.bad);
    assert_int_equal(chat_cut_kind_of(chat_cut_member(root, "nothing")), CUT_NONE);
    assert_int_equal(chat_cut_depth(text, strlen(text)), 3);
}

/* Every prefix of a text, in memory of exactly its size: nothing behind the end may be read (run under ASan). */
static void test_cut_prefixes(void **state)
{
    (void)state;
    const char *text = "{\"messages\":[{\"role\":\"us\\u0065r\",\"content\":[{\"type\":\"text\","
                       "\"text\":\"\\ud83d\\ude00\"}]},"
                       "{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"a\\\":1}\"}}]}],"
                       "\"tools\":[],\"chat_template_kwargs\":{\"a\":1}}";
    const struct chat_options o = {0};
    struct chat *c = make(PLAIN "tools");
    for (size_t n = 0; n <= strlen(text); n++) {
        struct err e = {0};
        struct buf out;
        char *copy = malloc(n + !n);
        memcpy(copy, text, n);
        buf_init(&out, 4096);
        enum status st = chat_variables(c, copy, n, &o, &out, &e);
        assert_true(n == strlen(text) ? st == ST_OK : st == ST_ARGUMENT || st == ST_UNSUPPORTED || st == ST_OK);
        buf_release(&out);
        free(copy);
    }
    chat_free(c);
}

static void test_unescape(void **state)
{
    (void)state;
    const char *text = "\"a\\n\\\"\\\\\\/\\u00e9\\ud83d\\ude00\\ud800x\\u0000\"";
    struct buf out;
    buf_init(&out, 100);
    chat_cut_unescape(chat_cut_text(text, strlen(text)), &out);
    assert_int_equal(out.len, 16);
    assert_memory_equal(out.data, "a\n\"\\/\xC3\xA9\xF0\x9F\x98\x80\xEF\xBF\xBDx\0", 16);
    buf_release(&out);
}

/* ---- variables ---- */

static void test_bytes_survive(void **state)
{
    (void)state;
    check(PLAIN "tools",
          "{\"temperature\":1,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
          "{\"maximum\":18446744073709551615,\"x\":0.1,\"y\":1.0e0}}}],"
          "\"messages\":[ {\"content\" : \"a\\u0000\\/b\", \"role\":\"user\",\"name\":\"n\"} ]}",
          "{\"messages\":[{\"content\":\"a\\u0000\\/b\",\"role\":\"user\",\"name\":\"n\"}],"
          "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
          "{\"maximum\":18446744073709551615,\"x\":0.1,\"y\":1.0e0}}}]" TAIL);
}

static void test_content(void **state)
{
    (void)state;
    const char *parts = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\\n\"},"
                        "{\"text\":\"b\",\"type\":\"t\\u0065xt\"}]}]}";
    check(PLAIN, parts, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\n\\nb\"}]" TAIL);
    check("TYPED", parts,
          "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\\n\"},"
          "{\"type\":\"text\",\"text\":\"b\"}]}]" TAIL);
    check("TYPED", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
          "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]" TAIL);
    check(PLAIN, "{\"messages\":[{\"role\":\"assistant\",\"content\":null},{\"role\":\"assistant\"}]}",
          "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"\"}]" TAIL);
}

static void test_roles(void **state)
{
    (void)state;
    const char *request = "{\"messages\":[{\"role\":\"developer\",\"content\":\"\"}]}";
    check(PLAIN, request, "{\"messages\":[{\"role\":\"system\",\"content\":\"\"}]" TAIL);
    check(PLAIN "'developer'", request, "{\"messages\":[{\"role\":\"developer\",\"content\":\"\"}]" TAIL);
}

static void test_arguments(void **state)
{
    (void)state;
    check(PLAIN "tools",
          "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
          "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 9223372036854775808}\"}},"
          "{\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"a\\\":\"}},"
          "{\"function\":{\"name\":\"h\",\"arguments\":\"[1]\"}}]}]}",
          "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":"
          "{\"name\":\"f\",\"arguments\":{\"a\": 9223372036854775808}}},"
          "{\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"a\\\":\"}},"
          "{\"function\":{\"name\":\"h\",\"arguments\":\"[1]\"}}],\"content\":\"\"}]" TAIL);
}

/* A reply's message, sent back as it came: reasoning reaches the template under its name, byte by byte. */
static void test_a_reply_sent_back(void **state)
{
    (void)state;
    check(PLAIN "tools",
          "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"a\\u00e9\\n\\u0000\","
          "\"tool_calls\":"
          "[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}],\"refusal\":null,"
          "\"id\":\"msg_1\"},{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":null,"
          "\"tool_calls\":null}]}",
          "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"a\\u00e9\\n\\u0000\","
          "\"tool_calls\":"
          "[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}],\"refusal\":null,"
          "\"id\":\"msg_1\"},{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":null,"
          "\"tool_calls\":null}]" TAIL);
}

/* A template that says nothing of tools: the model is told in the system's text, calls and results are text. */
#define F "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"a \\\"b\\\"\"}}"
#define TOLD \
    "You can call functions to answer. These are the functions, each as JSON:\\n<tools>\\n{\\\"name\\\":\\\"f\\\"," \
    "\\\"description\\\":\\\"a \\\\\\\"b\\\\\\\"\\\"}\\n</tools>\\nTo call one, write its name and its " \
    "arguments as JSON " \
    "between these tags:\\n<tool_call>\\n{\\\"name\\\": \\\"NAME\\\", \\\"arguments\\\": {\\\"KEY\\\": \\\"" \
    "VALUE\\\"}}\\n" \
    "</tool_call>"

static void test_told(void **state)
{
    (void)state;
    check(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[" F "]}",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"" TOLD "\"},{\"role\":\"user\",\"content\":\"a\"}]" TAIL);
    check(PLAIN, "{\"messages\":[{\"role\":\"system\",\"content\":\"s\\\"\"},{\"role\":\"user\",\"content\":\"a\"}],"
                 "\"tools\":[" F "]}",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"s\\\"\\n\\n" TOLD "\"},{\"role\":\"user\",\""
          "content\":\"a\"}]"
          TAIL);
    check(PLAIN, "{\"messages\":[{\"role\":\"developer\",\"content\":\"\"}],\"tools\":[" F "]}",
          "{\"messages\":[{\"role\":\"system\",\"content\":\"" TOLD "\"}]" TAIL);
    check(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[]}",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]" TAIL);
    /* TC1: arguments that are no JSON object stay what they are. */
    check(PLAIN, "{\"messages\":[{\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":"
          "\"{\\\"a\\\": 1}\"}},"
                 "{\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"a\"}}],\"role\":\"assistant\",\""
                 "content\":\"so\",\"id\":\"m\"},"
                 "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"4\\\"\"}]}",
          "{\"messages\":[{\"role\":\"assistant\",\"id\":\"m\",\"content\":\"so\\n<tool_call>\\n{\\\"name\\"
          "\": \\\"f\\\", "
          "\\\"arguments\\\": {\\\"a\\\": 1}}\\n</tool_call>\\n<tool_call>\\n{\\\"name\\\": \\\"g\\\", \\\""
          "arguments\\\": "
          "\\\"{\\\\\\\"a\\\"}\\n</tool_call>\"},{\"role\":\"user\",\"tool_call_id\":\"1\",\"content\":\""
          "<tool_response>\\n4\\\"\\n"
          "</tool_response>\"}]" TAIL);
    check_error(PLAIN, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", ST_ARGUMENT,
                "messages[0].tool_calls");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"tool\"}]}", ST_ARGUMENT, "messages[0].content");
}

/* The same where content is a list of parts. */
static void test_told_in_parts(void **state)
{
    (void)state;
    check("TYPED", "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"tool\",\"content\":"
          "[]}],\"tools\":[" F "]}",
          "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"s\"},{\"type\":\""
          "text\",\"text\":\""
          TOLD "\"}]},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"<tool_response>\\n\"},"
          "{\"type\":\"text\","
          "\"text\":\"\\n</tool_response>\"}]}]" TAIL);
    check("TYPED", "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":"
          "{\"name\":\"f\"}}]}],"
                   "\"tools\":[" F "]}",
          "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"" TOLD "\"}]},{\""
          "role\":\"assistant\","
          "\"content\":[{\"type\":\"text\",\"text\":\"<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\""
          "arguments\\\": {}}\\n</tool_call>"
          "\"}]}]" TAIL);
}

static void test_kwargs(void **state)
{
    (void)state;
    check(PLAIN,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
          "\"chat_template_kwargs\":{\"enable_thinking\":false,\"add_generation_prompt\":false}}",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
          "\"enable_thinking\":false,\"add_generation_prompt\":false}");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"chat_template_kwargs\":{\""
           "messages\":1}}",
                ST_ARGUMENT, "chat_template_kwargs");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"chat_template_kwargs\":[]}", ST_ARGUMENT,
                "chat_template_kwargs");
}

static void test_errors(void **state)
{
    (void)state;
    check_error(PLAIN, "{}", ST_ARGUMENT, "messages");
    check_error(PLAIN, "[]", ST_ARGUMENT, "");
    check_error(PLAIN, "{\"messages\":[]}", ST_ARGUMENT, "messages");
    check_error(PLAIN, "{\"messages\":{}}", ST_ARGUMENT, "messages");
    check_error(PLAIN, "{\"messages\":[1]}", ST_ARGUMENT, "messages[0]");
    check_error(PLAIN, "{\"messages\":[{\"content\":\"\"}]}", ST_ARGUMENT, "messages[0].role");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"king\",\"content\":\"\"}]}", ST_ARGUMENT, "messages[0].role");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"user\"}]}", ST_ARGUMENT, "messages[0].content");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", ST_ARGUMENT, "messages[0].content");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", ST_ARGUMENT,
                "messages[0].content[0]");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", ST_UNSUPPORTED,
                "messages[0].content[0]");
    check_error(PLAIN, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[1]}]}", ST_ARGUMENT,
                "messages[0].tool_calls");
    check_error(PLAIN "tools", "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[{\"type\":\"x\"}]}",
                ST_UNSUPPORTED, "tools[0]");
    check_error(PLAIN "tool",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[{\"type\":\"function\","
                "\"function\":{\"name\":\"f\"}}]}",
                ST_UNSUPPORTED, "tools");
}

static void test_prompt(void **state)
{
    (void)state;
    const char *request = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    const char *raises = "{\"messages\":[{\"role\":\"user\",\"content\":\"RAISE\"}]}";
    const struct chat_options o = {0};
    struct err e;
    tok_id *ids;
    size_t n;
    struct chat *c = make(PLAIN);
    assert_int_equal(chat_prompt(c, request, strlen(request), &o, &ids, &n, &e), ST_OK);
    tok_ids_free(ids, n);
    const struct chat_options short_one = {.max_bytes = 2};
    assert_int_equal(chat_prompt(c, request, strlen(request), &short_one, &ids, &n, &e), ST_NEVER_FITS);
    assert_string_equal(e.field, "messages");
    assert_int_equal(chat_prompt(c, raises, strlen(raises), &o, &ids, &n, &e), ST_ARGUMENT);
    assert_string_equal(e.text, "roles must alternate");
    chat_free(c);
    c = make(NULL);
    assert_false(chat_has_template(c));
    assert_int_equal(chat_prompt(c, request, strlen(request), &o, &ids, &n, &e), ST_UNSUPPORTED);
    assert_null(ids);
    chat_free(c);
    assert_int_equal(chat_new(&c, NULL, "BROKEN", 6, &e), ST_MODEL);
    assert_null(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),      cmocka_unit_test(test_cut_prefixes), cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_bytes_survive), cmocka_unit_test(test_content), cmocka_unit_test(test_roles),
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_kwargs),      cmocka_unit_test(test_errors),
        cmocka_unit_test(test_told),      cmocka_unit_test(test_told_in_parts),
        cmocka_unit_test(test_prompt),   cmocka_unit_test(test_a_reply_sent_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
