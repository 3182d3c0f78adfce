/* said: a reply with reasoning comes apart, however it is cut; what is shown of it goes to stdout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "calls.h"
#include "cli/paint.h"
#include "cli/said.h"

#define THINKS CALLS_TURN "{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n{# <think> </think> #}"
#define REQUEST "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"

/* The message of a reply that comes in events of `step` bytes, the tags being tokens of their own. */
static json_t *message_of(const char *template, const char *prompt, const char *reply, size_t step)
{
    struct tok *tok = calls_tok(NULL, 0);
    struct chat *chat;
    struct chat_tools_cache *formats;
    struct said s;
    struct reply_options how = {0};
    struct err e;
    tok_id *ids;
    size_t n;
    assert_int_equal(chat_new(&chat, tok, template, strlen(template), &e), ST_OK);
    assert_int_equal(chat_tools_cache_new(&formats, chat, &e), ST_OK);
    assert_int_equal(tok_encode(tok, prompt, strlen(prompt), TOK_TRUSTED, &ids, &n, &e), ST_OK);
    assert_int_equal(said_init(&s, tok, formats, REQUEST, strlen(REQUEST), ids, n, &e), ST_OK);
    said_listen(&s, &how);
    assert_true(said_nothing(&s));
    paint_begin(false);
    while (*reply) {
        bool open = strncmp(reply, "<think>", 7) == 0, shut = strncmp(reply, "</think>", 8) == 0;
        size_t m = open ? 7 : shut ? 8 : strcspn(reply, "<") < step ? strcspn(reply, "<") : step;
        struct event ev = {.kind = EVENT_TOKEN, .id = open ? CALLS_THINK : shut ? CALLS_THINK + 1 : reply[0]};
        memcpy(ev.text, reply, m);
        ev.text_n = (uint32_t)m;
        how.listen(how.listener, &ev);
        reply += m;
    }
    how.listen(how.listener, &(struct event){.kind = EVENT_END});
    json_t *message = said_message(&s);
    said_release(&s);
    tok_ids_free(ids, n);
    chat_tools_cache_free(formats);
    chat_free(chat);
    tok_free(tok);
    return message;
}

static void check(const char *template, const char *prompt, const char *reply, const char *reasoning, const char *answer)
{
    for (size_t step = 1; step < 6; step++) {
        json_t *m = message_of(template, prompt, reply, step);
        const char *thought = json_string_value(json_object_get(m, "reasoning_content"));
        assert_string_equal(json_string_value(json_object_get(m, "role")), "assistant");
        assert_string_equal(json_string_value(json_object_get(m, "content")), answer);
        assert_string_equal(thought ? thought : "none", reasoning);
        json_decref(m);
    }
}

static void reasoning_comes_apart(void **state)
{
    (void)state;
    check(THINKS, "x", "<think>one two</think>three", "one two", "three");
    check(THINKS, "x<think>", "one two</think>three", "one two", "three");
    check(THINKS, "x<think>", "one two", "one two", "");
    check(THINKS, "x", "no thoughts", "none", "no thoughts");
    check(THINKS, "x", "", "none", "");
}

static void a_template_without_reasoning_has_none(void **state)
{
    (void)state;
    check(CALLS_TURN "{{ m.content }}{% endfor %}", "x", "<think>one</think>two", "none", "<think>one</think>two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasoning_comes_apart),
        cmocka_unit_test(a_template_without_reasoning_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
