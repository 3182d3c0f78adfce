/*
 * assemble: pieces of replies, whatever they are cut into.
 *
 * Outcomes are compared as transcripts: "content:Let me see|call 0:f|arguments:{}|end|".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "chat/chat.h"
#include "server_fake_text.h"

#define CALL_F "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"y\xC3\xA9\", \"n\": 1}}\n</tool_call>"
#define CALL_G "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
#define BROKEN "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\xC3\xA9\" oops}}\n</tool_call>"
#define TOLD_F "call 0:f|arguments:{\"a\": \"x\\\"y\xC3\xA9\", \"n\": 1}|end|"

static const struct format_tool tools[] = {
    {"f", 1, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}", 77},
    {"g", 1, "", 0},
};

static struct chat_assembly_config config(const char *format, struct format_tools *list)
{
    struct chat_assembly_config c = {.most = 1 << 20};
    c.recognise.tools = list;
    c.recognise.format = format_find(format, strlen(format));
    c.recognise.reasoning = format_find_reasoning("think", 5);
    assert_true(c.recognise.format && c.recognise.reasoning);
    return c;
}

struct transcript {
    struct buf text;
    enum chat_piece_kind last;
    bool any;
};

static bool whole_characters(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : c < 0x80 ? 1 : n + 1;
        for (size_t k = 1; k < length && i + k < n; k++)
            if (((unsigned char)s[i + k] & 0xC0) != 0x80)
                return false;
        if ((i += length) > n)
            return false;
    }
    return true;
}

static void note(void *user, const struct chat_piece *p)
{
    static const char *const names[] = {"content", "reasoning", "call", "arguments", "end|", "broken|"};
    struct transcript *t = user;
    bool text = p->kind == CHAT_CONTENT || p->kind == CHAT_REASONING || p->kind == CHAT_ARGUMENTS;
    bool on = t->any && t->last == p->kind && text;
    assert_true(whole_characters(p->text, p->n));
    assert_true(text == (p->n && p->kind != CHAT_CALL));
    if (!on && t->text.len && t->text.data[t->text.len - 1] != '|')
        buf_adds(&t->text, "|");
    if (p->kind == CHAT_CALL)
        buf_addf(&t->text, "call %u:", p->call);
    else if (!on)
        buf_addf(&t->text, text ? "%s:" : "%s", names[p->kind]);
    buf_add(&t->text, p->text ? p->text : "", p->n);
    t->last = p->kind;
    t->any = true;
}

/* Reads text[n] in pieces that end at the positions in cuts[], ascending, then at n. The caller releases t->text. */
static void read_cut(struct transcript *t, const struct chat_assembly_config *cfg, const char *text, size_t n,
                     const size_t *cuts, size_t cuts_n)
{
    struct chat_assembly *a;
    struct err e = {0};
    *t = (struct transcript){0};
    buf_init(&t->text, 1 << 20);
    assert_int_equal(chat_assembly_new(&a, cfg, &e), ST_OK);
    size_t from = 0;
    for (size_t i = 0; i <= cuts_n; i++) {
        size_t to = i < cuts_n ? cuts[i] : n;
        chat_assembly_put(a, -1, text + from, to - from, note, t);
        from = to;
    }
    chat_assembly_end(a, note, t);
    assert_true(chat_assembly_held(a) <= n);
    chat_assembly_free(a);
    if (t->text.len && t->text.data[t->text.len - 1] != '|')
        buf_adds(&t->text, "|");
}

static void check_one(const struct chat_assembly_config *cfg, const char *text, const size_t *cuts, size_t cuts_n,
                      const char *want)
{
    struct transcript t;
    read_cut(&t, cfg, text, strlen(text), cuts, cuts_n);
    if (!t.text.data || strcmp(t.text.data, want) != 0)
        fail_msg("%s gives '%s', not '%s'", text, t.text.data ? t.text.data : "", want);
    buf_release(&t.text);
}

/* However it is cut: in one piece, in two, in pieces of one to eight bytes. */
static void check(const struct chat_assembly_config *cfg, const char *text, const char *want)
{
    size_t n = strlen(text), every[1000];
    assert_true(n < 1000);
    check_one(cfg, text, NULL, 0, want);
    for (size_t at = 0; at < n; at++)
        check_one(cfg, text, &at, 1, want);
    for (size_t step = 1; step < 9; step++) {
        size_t count = 0;
        for (size_t at = step; at < n; at += step)
            every[count++] = at;
        check_one(cfg, text, every, count, want);
    }
}

static int make_tools(void **state)
{
    struct err e = {0};
    struct format_tools *list;
    fake_init();
    if (format_tools_new(&list, tools, 2, &e) != ST_OK)
        return -1;
    *state = list;
    return 0;
}

static int free_tools(void **state)
{
    format_tools_free(*state);
    return 0;
}

static void test_every_chunking(void **state)
{
    struct chat_assembly_config c = config("hermes", *state);
    for (int take_back = 0; take_back < 2; take_back++) {
        c.take_back = take_back;
        check(&c, "<think>\nWhy \xC3\xA9?\n</think>\n\nSo:\n\n" CALL_F "\n" CALL_G "\nand \xF0\x9F\x98\x80",
              "reasoning:Why \xC3\xA9?|content:So:|" TOLD_F "call 1:g|arguments:{}|end|content:and \xF0\x9F\x98\x80|");
        check(&c, "Just \xF0\x9F\x98\x80 text.\n", "content:Just \xF0\x9F\x98\x80 text.\n|");
        check(&c, "<think>\nCut off", "reasoning:Cut off|");
    }
    c = config("mistral", *state);
    check(&c, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
          "call 0:f|arguments:{\"n\": 1}|end|call 1:g|arguments:{}|end|");
    c = config("llama3", *state);
    check(&c, "{\"name\": \"f\", \"parameters\": {\"a\": \"\xC3\xA9\"}}", "call 0:f|arguments:{\"a\": \"\xC3\xA9\"}|end|");
}

/* A broken call is content as it was written, with the white space that stood between it and other content, and the next
 * one has its number; where it was shown already it stands. */
static void test_broken_calls(void **state)
{
    struct chat_assembly_config c = config("hermes", *state);
    c.take_back = true;
    check(&c, "a\n\n " BROKEN "\n" CALL_G "z",
          "content:a|call 0:f|arguments:{\"a\": \"\xC3\xA9\" |broken|content:\n\n " BROKEN
          "|call 0:g|arguments:{}|end|content:z|");
    check(&c, CALL_F "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\xF0\x9F\x98\x80",
          TOLD_F "call 1:f|arguments:{\"a\": \"\xF0\x9F\x98\x80|broken|"
          "content:<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"\xF0\x9F\x98\x80|");
    c.take_back = false;
    check(&c, "a\n\n " BROKEN "\n" CALL_G "z",
          "content:a|call 0:f|arguments:{\"a\": \"\xC3\xA9\" |broken|content:oops}}\n</tool_call>|"
          "call 1:g|arguments:{}|end|content:z|");
}

static void test_one_call(void **state)
{
    struct chat_assembly_config c = config("hermes", *state);
    c.one_call = true;
    check(&c, CALL_F "\n" CALL_G, TOLD_F "content:" CALL_G "|");
    check(&c, "a\n" CALL_F "\n" CALL_G "\n" BROKEN "b",
          "content:a|" TOLD_F "content:\n" CALL_G "\n" BROKEN "b|");
    c.take_back = true;
    check(&c, BROKEN CALL_F, "call 0:f|arguments:{\"a\": \"\xC3\xA9\" |broken|content:" BROKEN "|" TOLD_F);
}

/* What a broken call was written as is kept up to a ceiling, and who asks learns that it was not enough. */
static void test_more_than_may_be_kept(void **state)
{
    struct chat_assembly_config c = config("hermes", *state);
    struct transcript t = {0};
    struct chat_assembly *a;
    struct err e = {0};
    c.take_back = true;
    c.most = 4096;
    buf_init(&t.text, 1 << 20);
    assert_int_equal(chat_assembly_new(&a, &c, &e), ST_OK);
    for (int i = 0; i < 9000; i++)
        chat_assembly_put(a, -1, "x", 1, note, &t);
    assert_true(chat_assembly_held(a) <= 4096); /* plain text is not kept */
    const char *begin = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"";
    chat_assembly_put(a, -1, begin, strlen(begin), note, &t);
    for (int i = 0; i < 5000; i++)
        chat_assembly_put(a, -1, "x", 1, note, &t);
    assert_true(chat_assembly_held(a) == SIZE_MAX);
    chat_assembly_end(a, note, &t);
    chat_assembly_free(a);
    buf_release(&t.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chunking),
        cmocka_unit_test(test_broken_calls),
        cmocka_unit_test(test_one_call),
        cmocka_unit_test(test_more_than_may_be_kept),
    };
    return cmocka_run_group_tests(tests, make_tools, free_tools);
}
