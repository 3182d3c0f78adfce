/*
 * server: reasoning and tool calls in replies, from the engine's events to what a client reads.
 *
 * The handler of this program stands in for the dialect's own: what is looked for in a reply is said in the request's
 * member `test`. So the replies are tested apart from how requests ask for them.
 */
#include "server/dialect/openai.h"
#include "server/http/json_out.h"
#include "server_fake.h"
#include "server_live.h"

#define CALL_F "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\\\"y\\u00e9\", \"n\": 1}}\n</tool_call>"
#define ARGS_F "{\"a\": \"x\\\"y\\u00e9\", \"n\": 1}"
#define CALL_G "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"
#define THOUGHT "<think>\nWhy \xC3\xA9t\xC3\xA9? \xF0\x9F\x98\x80\n</think>\n\n"

static const struct format_tool tools[] = {
    {"f", 1, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}", 77},
    {"g", 1, "", 0},
};

static bool asks(const json_t *root, const char *key)
{
    return json_is_true(json_object_get(json_object_get(root, "test"), key));
}

static void recognise(struct recogniser_config *cfg, const char *format, bool reasoning, struct format_tools *list)
{
    *cfg = (struct recogniser_config){.tools = list};
    cfg->format = format ? format_find(format, strlen(format)) : NULL;
    cfg->reasoning = reasoning ? format_find_reasoning("think", 5) : NULL;
    assert_true(!format || cfg->format);
}

void openai_chat(struct http_call *call)
{
    struct server *srv = call->app;
    struct reply_job job;
    struct err e = {0};
    server_job_init(&job);
    if ((job.root = openai_body(call)) == NULL)
        return;
    assert_int_equal(openai_parse_common(job.root, &job, &e), ST_OK);
    const struct chat_options o = {0};
    struct reply_prompt *p = &job.prompts[0];
    assert_int_equal(chat_prompt(srv->chat, call->body.data, call->body.len, &o, &p->ids, &p->n, &e), ST_OK);
    p->from_tok = true;
    job.prompts_n = 1;
    openai_name_messages(job.root, &job);
    assert_int_equal(format_tools_new(&job.tools, tools, 2, &e), ST_OK);
    recognise(&job.recognise, "hermes", !asks(job.root, "no_reasoning"), job.tools);
    job.recognises = !asks(job.root, "plain");
    job.one_call = asks(job.root, "one_call");
    job.trace = asks(job.root, "trace");
    job.logprobs = asks(job.root, "logprobs");
    server_reply_run(call, &job, &openai_chat_ops);
    server_job_release(&job);
}

/* ---- what a client makes of a reply ---- */

#define CALLS 8

struct outcome {
    struct buf content, reasoning;
    struct {
        char id[64], name[32];
        struct buf arguments;
    } call[CALLS];
    uint32_t calls;
    bool null_content;
    char finish[32];
};

static void outcome_init(struct outcome *o)
{
    *o = (struct outcome){0};
    buf_init(&o->content, 1 << 20);
    buf_init(&o->reasoning, 1 << 20);
    for (int i = 0; i < CALLS; i++)
        buf_init(&o->call[i].arguments, 1 << 20);
}

static void outcome_release(struct outcome *o)
{
    buf_release(&o->content);
    buf_release(&o->reasoning);
    for (int i = 0; i < CALLS; i++)
        buf_release(&o->call[i].arguments);
}

static void same_buf(const struct buf *a, const struct buf *b)
{
    if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len) != 0))
        fail_msg("'%s' and '%s'", a->data ? a->data : "", b->data ? b->data : "");
}

static void is(const struct buf *a, const char *s)
{
    if (a->len != strlen(s) || (a->len && memcmp(a->data, s, a->len) != 0))
        fail_msg("'%s' is not '%s'", a->data ? a->data : "", s);
}

/* Ids apart, which are made anew for each reply. */
static void same_outcome(const struct outcome *a, const struct outcome *b)
{
    same_buf(&a->content, &b->content);
    same_buf(&a->reasoning, &b->reasoning);
    assert_int_equal(a->calls, b->calls);
    for (uint32_t i = 0; i < a->calls; i++) {
        assert_string_equal(a->call[i].name, b->call[i].name);
        same_buf(&a->call[i].arguments, &b->call[i].arguments);
    }
    assert_string_equal(a->finish, b->finish);
}

static void add_string(struct buf *to, const json_t *v)
{
    if (json_is_string(v))
        buf_add(to, json_string_value(v), json_string_length(v));
}

/* A delta's calls have an index, a message's are all there. Id, type and name come once. */
static void add_calls(struct outcome *o, const json_t *list, bool delta)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *call = json_array_get(list, i), *index = json_object_get(call, "index");
        const json_t *function = json_object_get(call, "function"), *id = json_object_get(call, "id");
        assert_true(delta == json_is_integer(index));
        size_t at = delta ? (size_t)json_integer_value(index) : i;
        assert_true(at < CALLS && at <= o->calls);
        assert_true(json_is_string(id) == (at == o->calls));
        if (at == o->calls) {
            assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
            snprintf(o->call[at].id, sizeof o->call[at].id, "%s", json_string_value(id));
            snprintf(o->call[at].name, sizeof o->call[at].name, "%s",
                     json_string_value(json_object_get(function, "name")));
            o->calls++;
        }
        assert_true(json_is_string(json_object_get(function, "arguments")));
        add_string(&o->call[at].arguments, json_object_get(function, "arguments"));
    }
}

static const char *body_of(const char *reply)
{
    const char *body = strstr(reply, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

static json_t *load(const char *s, size_t n)
{
    json_error_t at;
    json_t *v = json_loadb(s, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &at);
    if (!v)
        fail_msg("%s in: %.*s", at.text, (int)n, s);
    return v;
}

static void read_choice(struct outcome *o, const json_t *choice, bool delta)
{
    const json_t *m = json_object_get(choice, delta ? "delta" : "message");
    const json_t *finish = json_object_get(choice, "finish_reason");
    o->null_content = json_is_null(json_object_get(m, "content"));
    add_string(&o->content, json_object_get(m, "content"));
    add_string(&o->reasoning, json_object_get(m, "reasoning_content"));
    add_calls(o, json_object_get(m, "tool_calls"), delta);
    if (json_is_string(finish))
        snprintf(o->finish, sizeof o->finish, "%s", json_string_value(finish));
}

static void read_whole(struct outcome *o, const char *reply)
{
    const char *body = body_of(reply);
    json_t *v = load(body, strlen(body));
    outcome_init(o);
    read_choice(o, json_array_get(json_object_get(v, "choices"), 0), false);
    json_decref(v);
}

/* Returns how many chunks brought something. */
static uint32_t read_stream(struct outcome *o, const char *reply)
{
    uint32_t chunks = 0;
    outcome_init(o);
    for (const char *s = strstr(reply, "data: "); s; s = strstr(s, "data: ")) {
        s += 6;
        const char *end = strstr(s, "\n\n");
        assert_non_null(end);
        if (strncmp(s, "[DONE]", 6) == 0)
            continue;
        json_t *v = load(s, (size_t)(end - s));
        read_choice(o, json_array_get(json_object_get(v, "choices"), 0), true);
        json_decref(v);
        chunks++;
    }
    return chunks;
}

/* The same both ways, `says` being the reply. The caller releases *whole. */
static void both(const struct live *l, const char *says, const char *test, const char *more, struct outcome *whole,
                 struct outcome *streamed)
{
    char extra[300];
    fake_reply = says;
    snprintf(extra, sizeof extra, "%s,\"test\":{%s}", more, test);
    char *s = chat(l, "say", extra);
    read_whole(whole, s);
    free(s);
    snprintf(extra, sizeof extra, "%s,\"stream\":true,\"test\":{%s}", more, test);
    s = chat(l, "say", extra);
    assert_non_null(strstr(s, "data: [DONE]\n\n"));
    (void)read_stream(streamed, s);
    free(s);
}

static void agree(const struct live *l, const char *says, const char *test, struct outcome *whole)
{
    struct outcome streamed;
    both(l, says, test, "", whole, &streamed);
    same_outcome(whole, &streamed);
    outcome_release(&streamed);
}

/* ---- replies ---- */

static void test_calls_and_reasoning(void **state)
{
    (void)state;
    struct live l;
    struct outcome o;
    start(&l, false);
    agree(&l, THOUGHT "Let me see.\n" CALL_F "\n" CALL_G, "", &o);
    is(&o.reasoning, "Why \xC3\xA9t\xC3\xA9? \xF0\x9F\x98\x80");
    is(&o.content, "Let me see.");
    assert_int_equal(o.calls, 2);
    assert_string_equal(o.call[0].name, "f");
    is(&o.call[0].arguments, ARGS_F);
    assert_string_equal(o.call[1].name, "g");
    is(&o.call[1].arguments, "{}");
    assert_string_equal(o.finish, "tool_calls");
    outcome_release(&o);
    agree(&l, CALL_G, "", &o);
    assert_true(o.calls == 1 && !o.content.len && !o.reasoning.len);
    outcome_release(&o);
    fake_reply = CALL_G;
    char *s = chat(&l, "say", "");
    assert_non_null(strstr(s, "\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_"));
    free(s);
    agree(&l, "Just text.", "", &o);
    is(&o.content, "Just text.");
    assert_true(!o.calls && strcmp(o.finish, "stop") == 0);
    outcome_release(&o);
    agree(&l, CALL_G, "\"plain\":true", &o); /* nothing is looked for */
    is(&o.content, CALL_G);
    assert_string_equal(o.finish, "stop");
    outcome_release(&o);
    stop(&l);
}

/* TC6: an id is never empty and never the same. */
static void test_tc6_ids(void **state)
{
    (void)state;
    struct live l;
    struct outcome o[4];
    start(&l, false);
    both(&l, CALL_F CALL_F, "", "", &o[0], &o[1]);
    both(&l, CALL_F, "", "", &o[2], &o[3]);
    const char *ids[] = {o[0].call[0].id, o[0].call[1].id, o[1].call[0].id, o[1].call[1].id,
                         o[2].call[0].id, o[3].call[0].id};
    for (int i = 0; i < 6; i++) {
        assert_true(strncmp(ids[i], "call_", 5) == 0 && strlen(ids[i]) == 29);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(ids[i], ids[k]);
    }
    for (int i = 0; i < 4; i++)
        outcome_release(&o[i]);
    stop(&l);
}

/* TC3, TC11, TC13: what is no call comes out as it was written, and nobody claims that there was one. */
static void test_tc3_tc11_tc13_broken_calls(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"y\"}}\n</tool_call>", /* TC3: quotes */
        "See:\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": oops}}\n</tool_call> so.", /* TC11 */
        "<tool_call>\n{\"name\": \"f\", \"arguments\": [1]}\n</tool_call>",
        "<tool_call>\n{\"name\": \"nobody\", \"arguments\": {}}\n</tool_call>", /* TC13 */
        "<function_call>f(1)</function_call>",
        "Look: <tool_call> and no more",
        "a <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ",
    };
    struct live l;
    start(&l, false);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct outcome whole, streamed;
        both(&l, texts[i], "", "", &whole, &streamed);
        is(&whole.content, texts[i]);
        assert_int_equal(whole.calls, 0);
        assert_string_equal(whole.finish, "stop");
        assert_string_equal(streamed.finish, "stop");
        assert_true(streamed.calls <= 1);
        if (!streamed.calls)
            is(&streamed.content, texts[i]);
        outcome_release(&whole);
        outcome_release(&streamed);
    }
    struct outcome o;
    fake_reply = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": x}}\n</tool_call>\n" CALL_G;
    char *s = chat(&l, "say", "");
    read_whole(&o, s);
    assert_true(o.calls == 1 && strcmp(o.call[0].name, "g") == 0 && strcmp(o.finish, "tool_calls") == 0);
    is(&o.content, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": x}}\n</tool_call>");
    outcome_release(&o);
    free(s);
    stop(&l);
}

/* Every beginning of a reply is one that a limit may leave: TC4, TC14. */
static void test_tc4_tc14_cut_at_every_byte(void **state)
{
    (void)state;
    static const char text[] = THOUGHT "Let me\n" CALL_F "\n" CALL_G "!";
    struct live l;
    start(&l, false);
    for (size_t n = 1; n < sizeof text - 1; n++) {
        struct outcome whole, streamed;
        char more[40];
        snprintf(more, sizeof more, ",\"max_tokens\":%zu", n);
        both(&l, text, "", more, &whole, &streamed);
        assert_string_equal(whole.finish, "length");
        assert_string_equal(streamed.finish, "length");
        same_buf(&whole.reasoning, &streamed.reasoning);
        assert_true(whole.calls <= streamed.calls && streamed.calls <= whole.calls + 1);
        for (uint32_t i = 0; i < whole.calls; i++) {
            is(&whole.call[i].arguments, i ? "{}" : ARGS_F);
            same_buf(&whole.call[i].arguments, &streamed.call[i].arguments);
        }
        outcome_release(&whole);
        outcome_release(&streamed);
    }
    stop(&l);
}

/* TC10: a second call is text. */
static void test_tc10_one_call(void **state)
{
    (void)state;
    struct live l;
    struct outcome o;
    start(&l, false);
    agree(&l, "So:\n" CALL_F "\n" CALL_G, "\"one_call\":true", &o);
    assert_int_equal(o.calls, 1);
    is(&o.call[0].arguments, ARGS_F);
    is(&o.content, "So:\n" CALL_G);
    assert_string_equal(o.finish, "tool_calls");
    outcome_release(&o);
    agree(&l, CALL_G "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ", "\"one_call\":true", &o);
    assert_int_equal(o.calls, 1);
    is(&o.content, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ");
    outcome_release(&o);
    stop(&l);
}

/* Text comes when it is certain, whatever its tokens; marks that are control tokens are seen, other control tokens are
 * not, and the same characters as plain text are text. */
static void test_held_back_text_and_control_tokens(void **state)
{
    (void)state;
    static const char text[] = "\4\nWhy\3?\n\5\n\n\3Let <|x|> me\3\n\1\n"
                               "{\"name\":\3 \"f\", \"arguments\": {\"n\": 1}}\n\2\3";
    struct live l;
    start(&l, false);
    fake_special[1] = "<tool_call>", fake_special[2] = "</tool_call>", fake_special[3] = "<|x|>";
    fake_special[4] = "<think>", fake_special[5] = "</think>";
    for (fake_holds = 0; fake_holds < 60; fake_holds++) {
        struct outcome o;
        agree(&l, text, "", &o);
        assert_true(last_request.keep_special);
        is(&o.reasoning, "Why?");
        is(&o.content, "Let <|x|> me");
        assert_int_equal(o.calls, 1);
        is(&o.call[0].arguments, "{\"n\": 1}");
        assert_string_equal(o.finish, "tool_calls");
        outcome_release(&o);
    }
    fake_holds = 0;
    memset(fake_special, 0, sizeof fake_special);
    expect(chat(&l, "hi", ",\"test\":{\"no_reasoning\":true}"), 200, "Hello, ");
    assert_false(last_request.keep_special); /* Hermes' tags are no control tokens */
    stop(&l);
}

/* All tokens have their log-probability, calls' too; a stream tells each once. */
static void test_logprobs(void **state)
{
    (void)state;
    static const char text[] = THOUGHT "A\n" CALL_G;
    struct live l;
    start(&l, false);
    fake_reply = text;
    for (int stream = 0; stream < 2; stream++) {
        char *s = chat(&l, "say",
                       stream ? ",\"test\":{\"logprobs\":true},\"stream\":true" : ",\"test\":{\"logprobs\":true}");
        size_t n = 0;
        for (const char *at = s; (at = strstr(at, "\"token\":")) != NULL; at++)
            n++;
        assert_int_equal(n, sizeof text - 1);
        struct outcome o;
        if (stream)
            assert_true(read_stream(&o, s) <= sizeof text + 3);
        else
            read_whole(&o, s);
        is(&o.content, "A");
        outcome_release(&o);
        free(s);
    }
    stop(&l);
}

static void test_trace(void **state)
{
    (void)state;
    static const char want[] = "\"ffwd\":{\"trace\":[\"sampled\",\"grammar\",\"sampled\"]}";
    struct live l;
    char beside[200], in_choice[200], streamed[300];
    snprintf(in_choice, sizeof in_choice, "\"finish_reason\":\"stop\",%s}]", want);
    snprintf(beside, sizeof beside, "}},%s}", want);
    snprintf(streamed, sizeof streamed, "\"finish_reason\":\"stop\",%s}],%s}\n\n", want, want);
    start(&l, false);
    fake_reply = "a{b";
    expect(chat(&l, "say", ",\"test\":{\"trace\":true}"), 200, in_choice);
    expect(chat(&l, "say", ",\"test\":{\"trace\":true}"), 200, beside);
    expect(chat(&l, "say", ",\"stream\":true,\"test\":{\"trace\":true,\"plain\":true}"), 200, streamed);
    char *s = chat(&l, "say", ",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"test\":{\"trace\":true}");
    assert_non_null(strstr(s, in_choice));
    assert_non_null(strstr(s, beside));
    assert_null(strstr(s, streamed));
    free(s);
    s = chat(&l, "say", "");
    assert_null(strstr(s, "trace"));
    free(s);
    stop(&l);
}

/* The next turn of an agent names its calls, and nothing else: their reply's ids are used again. */
static void test_replay_by_call_id(void **state)
{
    (void)state;
    struct live l;
    struct outcome o;
    start(&l, false);
    for (int stream = 0; stream < 2; stream++) {
        fake_reply = CALL_G CALL_G;
        char *s = chat(&l, "say", stream ? ",\"stream\":true" : "");
        if (stream)
            (void)read_stream(&o, s);
        else
            read_whole(&o, s);
        free(s);
        assert_int_equal(o.calls, 2);
        static const char *const how[] = {"{\"role\":\"tool\",\"content\":\"1\",\"tool_call_id\":\"%s\"}",
                                          "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\","
                                          "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}"};
        for (int i = 0; i < 4; i++) {
            char named[300];
            struct buf body;
            buf_init(&body, 4096);
            snprintf(named, sizeof named, how[i % 2], i < 2 ? o.call[i].id : "call_of_nobody");
            buf_adds(&body, "{\"messages\":[{\"role\":\"user\",\"content\":");
            http_json_cstr(&body, "say" CALL_G CALL_G " and on");
            buf_addf(&body, "},%s]}", named);
            s = post(&l, "/v1/chat/completions", body.data);
            char want[40];
            snprintf(want, sizeof want, "\"replayed_ids\":%zu,", i < 2 ? strlen(CALL_G CALL_G) : 0);
            expect(s, 200, want);
            buf_release(&body);
        }
        outcome_release(&o);
    }
    stop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_and_reasoning),
        cmocka_unit_test(test_tc6_ids),
        cmocka_unit_test(test_tc3_tc11_tc13_broken_calls),
        cmocka_unit_test(test_tc4_tc14_cut_at_every_byte),
        cmocka_unit_test(test_tc10_one_call),
        cmocka_unit_test(test_held_back_text_and_control_tokens),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_replay_by_call_id),
    };
    fake_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
