/* replay_lines: what a file of recorded conversations may hold; everything else names its line and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/replay_lines.h"

#define GOOD "{\"class\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"reply\":\"Hello\"}"
#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}"
#define LINE(more) "{\"class\":\"c\",\"messages\":[{}],\"reply\":\"r\"" more "}"

static enum status read_bytes(const char *text, size_t n, struct replay_lines *out, struct err *e)
{
    struct buf b;
    *e = (struct err){0};
    buf_init(&b, LIMIT_REPLAY_BYTES);
    assert_true(buf_add(&b, text, n));
    return replay_lines_init(out, &b, "f.jsonl", e);
}

/* Refused with all of these words, and nothing is left to release. */
static void refuses_bytes(const char *text, size_t n, const char *where, const char *why)
{
    struct replay_lines l;
    struct err e;
    assert_int_not_equal(read_bytes(text, n, &l, &e), ST_OK);
    assert_non_null(strstr(e.text, "f.jsonl"));
    if (!strstr(e.text, where) || !strstr(e.text, why))
        fail_msg("\"%s\" and \"%s\" were expected: %s", where, why, e.text);
    assert_true(l.n == 0 && !l.line && !l.text.data);
}

static void refuses(const char *text, const char *where, const char *why)
{
    refuses_bytes(text, strlen(text), where, why);
}

static void lines_are_read(void **state)
{
    (void)state;
    static const char text[] =
        GOOD "\n\n  \r\n" LINE(",\"tools\":[" TOOL "],\"tool_choice\":\"none\"") "\r\n"
        LINE(",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}") "\n"
        LINE(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}},"
             "\"chat_template_kwargs\":{\"a\":1}") "\n"
        "{\"class\":\"chat\",\"messages\":[{}],\"reply\":\"\\u00e9\\n\"}";
    struct replay_lines l;
    struct err e;
    assert_int_equal(read_bytes(text, sizeof text - 1, &l, &e), ST_OK);
    assert_int_equal(l.n, 5);
    assert_int_equal(l.classes, 2);
    assert_string_equal(l.cls[0], "chat");
    assert_string_equal(l.cls[1], "c");
    const uint32_t numbers[] = {1, 4, 5, 6, 7}, classes[] = {0, 1, 1, 1, 0};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(l.line[i].number, numbers[i]);
        assert_int_equal(l.line[i].cls, classes[i]);
        assert_int_equal(replay_line_hides_tools(&l.line[i]), i == 1);
    }
    assert_int_equal(l.line[0].n, strlen(GOOD));
    assert_memory_equal(l.line[0].json, GOOD, l.line[0].n);
    assert_int_equal(l.line[4].reply_n, 3);
    assert_memory_equal(l.line[4].reply, "\xc3\xa9\n", 3);
    replay_lines_release(&l);
    assert_true(l.n == 0 && !l.line && !l.text.data);
}

static void what_is_no_line_is_named(void **state)
{
    (void)state;
    refuses("", "", "empty");
    refuses("\n \n", "", "no conversation");
    refuses("nonsense", "line 1", "not JSON");
    refuses(GOOD "\n" GOOD GOOD, "line 2", "not JSON");
    refuses(GOOD "\n\n{\"class\":", "line 3", "not JSON");
    refuses("[]", "line 1", "not a JSON object");
    refuses("\"text\"", "line 1", "not JSON"); /* jansson wants an array or an object */
    refuses("{\"class\":\"c\",\"class\":\"c\",\"messages\":[{}],\"reply\":\"r\"}", "line 1", "not JSON");
    refuses("\xff\xfe", "line 1", "not JSON");
    refuses("{\"class\":\"c\",\"messages\":[{}],\"reply\":\"\\u0000\"}", "line 1", "not JSON");
    refuses_bytes("{}\0{}", 5, "line 1", "not JSON");
    refuses(LINE(",\"seed\":1"), "line 1", "\"seed\" is not a member");
}

static void members_are_checked(void **state)
{
    (void)state;
    refuses("{\"messages\":[{}],\"reply\":\"r\"}", "line 1", "class must");
    refuses("{\"class\":\"\",\"messages\":[{}],\"reply\":\"r\"}", "line 1", "class must");
    refuses("{\"class\":7,\"messages\":[{}],\"reply\":\"r\"}", "line 1", "class must");
    refuses("{\"class\":\"c\",\"reply\":\"r\"}", "line 1", "messages must");
    refuses("{\"class\":\"c\",\"messages\":[],\"reply\":\"r\"}", "line 1", "messages must");
    refuses("{\"class\":\"c\",\"messages\":{},\"reply\":\"r\"}", "line 1", "messages must");
    refuses("{\"class\":\"c\",\"messages\":[{}]}", "line 1", "reply must");
    refuses("{\"class\":\"c\",\"messages\":[{}],\"reply\":\"\"}", "line 1", "reply must");
    refuses("{\"class\":\"c\",\"messages\":[{}],\"reply\":null}", "line 1", "reply must");
    refuses(GOOD "\n" LINE(",\"tools\":{}"), "line 2", "tools must be an array");
    refuses(LINE(",\"tools\":[1]"), "line 1", "tools must hold");
    refuses(LINE(",\"tools\":[{\"function\":{}}]"), "line 1", "tools must hold");
    refuses(LINE(",\"tools\":[{\"function\":{\"name\":\"\"}}]"), "line 1", "tools must hold");
    refuses(LINE(",\"tool_choice\":\"any\""), "line 1", "tool_choice must");
    refuses(LINE(",\"tool_choice\":{}"), "line 1", "tool_choice must");
    refuses(LINE(",\"tool_choice\":\"required\""), "line 1", "no tools");
    refuses(LINE(",\"tool_choice\":\"required\",\"tools\":[]"), "line 1", "no tools");
    refuses(LINE(",\"tools\":[" TOOL "],\"tool_choice\":{\"function\":{\"name\":\"g\"}}"), "line 1", "names a function");
    refuses(LINE(",\"response_format\":\"json\""), "line 1", "response_format must");
    refuses(LINE(",\"response_format\":{\"type\":\"xml\"}"), "line 1", "response_format must");
    refuses(LINE(",\"response_format\":{\"type\":\"json_schema\"}"), "line 1", "no json_schema.schema");
}

/* `n` times the piece, after `before`. */
static char *repeated(const char *before, const char *piece, size_t n)
{
    size_t head = strlen(before), one = strlen(piece);
    char *s = malloc(head + n * one + 1);
    assert_non_null(s);
    memcpy(s, before, head);
    for (size_t i = 0; i < n; i++)
        memcpy(s + head + i * one, piece, one);
    s[head + n * one] = '\0';
    return s;
}

static void limits_hold(void **state)
{
    (void)state;
    char *deep = repeated("{\"class\":", "[", LIMIT_JSON_DEPTH);
    refuses(deep, "line 1", "nested deeper");
    free(deep);
    char *shallow = repeated("{\"class\":", "[", LIMIT_JSON_DEPTH - 1);
    refuses(shallow, "line 1", "not JSON"); /* one level less is for the parser to judge */
    free(shallow);
    char *quoted = repeated("{\"class\":\"c\",\"messages\":[{}],\"reply\":\"\\\"", "[{", LIMIT_JSON_DEPTH);
    struct buf b;
    struct replay_lines l;
    struct err e = {0};
    buf_init(&b, LIMIT_REPLAY_BYTES);
    assert_true(buf_adds(&b, quoted) && buf_adds(&b, "\"}"));
    assert_int_equal(replay_lines_init(&l, &b, "f.jsonl", &e), ST_OK); /* brackets in a string are no nesting */
    replay_lines_release(&l);
    free(quoted);
    char *many = repeated("", "\n", LIMIT_REPLAY_LINES);
    refuses(many, "65537 lines", "more than 65536");
    free(many);
}

static void classes_are_bounded(void **state)
{
    (void)state;
    struct buf b;
    struct replay_lines l;
    struct err e;
    for (uint32_t extra = 0; extra < 2; extra++) {
        buf_init(&b, LIMIT_REPLAY_BYTES);
        for (uint32_t i = 0; i < LIMIT_REPLAY_CLASSES + extra; i++)
            assert_true(buf_addf(&b, "{\"class\":\"c%u\",\"messages\":[{}],\"reply\":\"r\"}\n", i));
        enum status st = replay_lines_init(&l, &b, "f.jsonl", &e);
        assert_int_equal(st, extra ? ST_TOO_LONG : ST_OK);
        if (!extra)
            assert_int_equal(l.classes, LIMIT_REPLAY_CLASSES);
        else
            assert_non_null(strstr(e.text, "line 33"));
        replay_lines_release(&l);
    }
    char name[70];
    memset(name, 'a', sizeof name);
    for (int n = 64; n < 66; n++) {
        buf_init(&b, LIMIT_REPLAY_BYTES);
        assert_true(buf_addf(&b, "{\"class\":\"%.*s\",\"messages\":[{}],\"reply\":\"r\"}", n, name));
        assert_int_equal(replay_lines_init(&l, &b, "f.jsonl", &e), n == 64 ? ST_OK : ST_ARGUMENT);
        replay_lines_release(&l);
    }
}

/* Cut anywhere: an error, never more. */
static void every_beginning_of_a_line_ends_well(void **state)
{
    (void)state;
    static const char text[] = LINE(",\"tools\":[" TOOL "],\"tool_choice\":\"auto\"");
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct replay_lines l;
        struct err e;
        assert_int_not_equal(read_bytes(text, n, &l, &e), ST_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_read),
        cmocka_unit_test(what_is_no_line_is_named),
        cmocka_unit_test(members_are_checked),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(classes_are_bounded),
        cmocka_unit_test(every_beginning_of_a_line_ends_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
