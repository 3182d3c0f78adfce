/*
 * server: reasoning_effort of /v1/chat/completions, over real sockets with fakes below (server_fake.h), and what chat
 * reads where it is given. That of /v1/responses, which has the same code, is in test_responses.c.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

/* ---- what templates are told ---- */

static enum status say_effort(const char *body, struct buf *room, struct text_view *to, struct err *e)
{
    const char *effort, *text = json(body);
    json_t *root;
    assert_int_equal(http_json_parse(text, strlen(text), &root, e), ST_OK);
    enum status st = openai_parse_effort(root, root, "reasoning_effort", "reasoning_effort", &effort, e);
    if (st == ST_OK)
        st = openai_tell_effort(effort, (struct text_view){text, strlen(text)}, room, to, e);
    json_decref(root);
    return st;
}

static void check_told(const char *body, const char *want)
{
    struct text_view to;
    struct err e = {0};
    struct buf room;
    buf_init(&room, 4096);
    assert_int_equal(say_effort(body, &room, &to, &e), ST_OK);
    want = json(want);
    if (to.n != strlen(want) || memcmp(to.data, want, to.n) != 0)
        fail_msg("%.*s, not %s", (int)to.n, to.data, want);
    buf_release(&room);
}

#define M "'messages':[{'role':'user','content':'\\u0041'}]"

static void test_told(void **state)
{
    (void)state;
    check_told("{" M ",'n':1}", "{" M ",'n':1}");
    check_told("{" M ",'reasoning_effort':null}", "{" M ",'reasoning_effort':null}");
    check_told("{'n':1,'tools':[ 1.0 ]," M ",'reasoning_effort':'low'}",
               "{" M ",'tools':[ 1.0 ],'chat_template_kwargs':{'enable_thinking':true,'thinking':true,"
               "'reasoning_effort':'low'}}");
    check_told("{" M ",'chat_template_kwargs':{'x' : 1.0},'reasoning_effort':'none'}",
               "{" M ",'chat_template_kwargs':{'x' : 1.0,'enable_thinking':false,'thinking':false,"
               "'reasoning_effort':'none'}}");
    check_told("{" M ",'chat_template_kwargs':{ },'reasoning_effort':'minimal'}",
               "{" M ",'chat_template_kwargs':{'enable_thinking':false,'thinking':false,'reasoning_effort':'minimal'}}");
    check_told("{'reasoning_effort':'max'}",
               "{'messages':null,'chat_template_kwargs':{'enable_thinking':true,'thinking':true,"
               "'reasoning_effort':'max'}}");
}

static void test_wrong(void **state)
{
    static const struct {
        const char *body, *field;
    } cases[] = {
        {"{'reasoning_effort':'some'}", "reasoning_effort"},
        {"{'reasoning_effort':'lowest'}", "reasoning_effort"},
        {"{'reasoning_effort':'low\\u0000'}", "reasoning_effort"},
        {"{'reasoning_effort':1}", "reasoning_effort"},
        {"{'reasoning_effort':'low','chat_template_kwargs':{'enable_thinking':true}}", "reasoning_effort"},
        {"{'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':'low'}}", "reasoning_effort"},
        {"{'reasoning_effort':'low','chat_template_kwargs':[]}", "chat_template_kwargs"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_view to;
        struct err e = {0};
        struct buf room;
        buf_init(&room, 4096);
        assert_int_equal(say_effort(cases[i].body, &room, &to, &e), ST_ARGUMENT);
        assert_string_equal(e.field, cases[i].field);
        buf_release(&room);
    }
}

/* ---- what becomes of it ---- */

static void start_template(struct live *l, const char *source)
{
    struct err e = {0};
    assert_int_equal(chat_new(&l->chat, NULL, source, strlen(source), &e), ST_OK);
    struct server_config cfg = config(l);
    start_with(l, &cfg);
}

#define THINKER "<think> </think>"

static void effort(const struct live *l, const char *word, int status, const char *part)
{
    char more[100];
    snprintf(more, sizeof more, ",'max_tokens':500,'reasoning_effort':'%s'", word);
    expect(chat(l, "hi there", json(more)), status, json(part));
}

static void check_budget(const struct live *l, int budget, unsigned ids, bool limited)
{
    char more[100];
    snprintf(more, sizeof more, ",\"max_tokens\":9,\"thinking_budget_tokens\":%d", budget);
    expect(chat(l, "hi there", more), 200, "Hello");
    assert_int_equal(last_request.thinking.ids, ids);
    assert_int_equal(last_request.thinking.close_n != 0, limited);
}

static void test_models_that_do_not_think(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    effort(&l, "none", 200, "Hello");
    effort(&l, "minimal", 200, "Hello");
    effort(&l, "low", 400, "'param':'reasoning_effort'");
    effort(&l, "max", 400, "does not think");
    check_budget(&l, 0, 0, false);
    expect(chat(&l, "hi there", ",\"thinking_budget_tokens\":5"), 400, "does not think");
    expect(chat(&l, "hi there", ",\"reasoning_format\":\"auto\""), 200, "Hello");
    expect(chat(&l, "hi there", ",\"reasoning_format\":\"none\""), 400, "\"param\":\"reasoning_format\"");
    expect(post(&l, "/apply-template", json("{" M ",'reasoning_effort':'low'}")), 200, "{\"prompt\":");
    expect(post(&l, "/v1/ffwd/count", json("{" M ",'reasoning_effort':'so'}")), 400, "reasoning_effort must be");
    stop(&l);
}

static void test_models_that_think(void **state)
{
    static const struct {
        const char *word;
        unsigned ids;
    } cases[] = {{"minimal", 256}, {"low", 1024}, {"medium", 4096}, {"high", 16384}, {"xhigh", 0}, {"max", 0}};
    struct live l;
    (void)state;
    start_template(&l, THINKER);
    effort(&l, "low", 400, "reasoning_effort cannot be kept"); /* its end is no token */
    effort(&l, "max", 200, "Hello");
    stop(&l);

    fake_special[4] = "<think>", fake_special[5] = "</think>";
    start_template(&l, THINKER);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        effort(&l, cases[i].word, 200, "Hello");
        assert_int_equal(last_request.thinking.ids, cases[i].ids);
        assert_true(!last_request.thinking.close_n == !cases[i].ids);
    }
    effort(&l, "none", 200, "Hello");
    assert_int_equal(last_request.thinking.close_n, 0); /* the template was told, and the prompt opens nothing */
    check_budget(&l, 100, 100, true);
    check_budget(&l, 0, 0, true);
    check_budget(&l, -1, 0, false);
    const char *both = json(",'max_tokens':9,'thinking_budget_tokens':7,'reasoning_effort':'low'");
    expect(chat(&l, "hi there", both), 400, "\"param\":\"thinking_budget_tokens\"");
    both = json(",'max_tokens':9,'thinking_budget_tokens':-1,'reasoning_effort':'low'");
    expect(chat(&l, "hi there", both), 200, "Hello");
    assert_int_equal(last_request.thinking.ids, 1024);
    expect(chat(&l, "hi there", ",\"thinking_budget_tokens\":-2"), 400, "\"param\":\"thinking_budget_tokens\"");
    stop(&l);

    start_template(&l, THINKER " {{ reasoning_effort }}");
    effort(&l, "low", 200, "Hello");
    assert_int_equal(last_request.thinking.close_n, 0); /* the template limits it */
    stop(&l);
    memset(fake_special, 0, sizeof fake_special);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_models_that_do_not_think),
        cmocka_unit_test(test_models_that_think),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
