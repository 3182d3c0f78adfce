/*
 * server: text, ids and conversations by themselves, what would become of a request, and llama-server's /completion,
 * /props and /slots, over real sockets with fakes below (server_fake.h): a token is a byte.
 */
#include "server_fake.h"
#include "server_live.h"

#include "server/dialect/native.h"
#include "server/http/json_in.h"

/* The text with its single quotes doubled: cases are easier to read so. Good until eight calls later. */
static const char *json(const char *s)
{
    static char texts[8][4096];
    static unsigned next;
    char *to = texts[next++ % 8];
    size_t n = strlen(s);
    assert_true(n < sizeof texts[0]);
    for (size_t i = 0; i <= n; i++)
        to[i] = (char)(s[i] == '\'' ? '"' : s[i]);
    return to;
}

/* Frees `reply`. */
static void said(char *reply, int status, const char *part)
{
    expect(reply, status, json(part));
}

static void ask(const struct live *l, const char *path, const char *body, int status, const char *part)
{
    said(post(l, path, json(body)), status, part);
}

/* ---- text, ids, conversations ---- */

static void test_tokenize(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/tokenize", "{'content':'Az'}", 200, "\r\n\r\n{'tokens':[65,122]}");
    ask(&l, "/tokenize", "{'content':''}", 200, "{'tokens':[]}");
    ask(&l, "/tokenize", "{'content':'A\xC3\xA9','with_pieces':true,'add_special':true,'parse_special':false}", 200,
        "{'tokens':[{'id':65,'piece':'A'},{'id':195,'piece':[195]},{'id':169,'piece':[169]}]}");
    ask(&l, "/tokenize", "{}", 400, "'param':'content'");
    ask(&l, "/tokenize", "{'content':[65]}", 400, "'param':'content'");
    ask(&l, "/tokenize", "{'content':'A','with_pieces':1}", 400, "'param':'with_pieces'");
    ask(&l, "/detokenize", "{'tokens':[65,34,122]}", 200, "{'content':'A\\'z'}");
    ask(&l, "/detokenize", "{'tokens':[]}", 200, "{'content':''}");
    ask(&l, "/detokenize", "{'tokens':[255]}", 200, "{'content':'\xEF\xBF\xBD'}");
    ask(&l, "/detokenize", "{'tokens':[65,256]}", 400, "number 1 is no id of the vocabulary of 256");
    ask(&l, "/detokenize", "{'tokens':[-1]}", 400, "'param':'tokens'");
    ask(&l, "/detokenize", "{'tokens':[1.0]}", 400, "'param':'tokens'");
    ask(&l, "/detokenize", "{'tokens':'A'}", 400, "'param':'tokens'");
    stop(&l);
}

static void test_a_text_that_is_too_long(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    char *body = malloc(LIMIT_TOKENIZE + 100);
    size_t n = strlen("{\"content\":\"");
    memcpy(body, "{\"content\":\"", n);
    memset(body + n, 'a', LIMIT_TOKENIZE + 1);
    memcpy(body + n + LIMIT_TOKENIZE + 1, "\"}", 3);
    said(post(&l, "/tokenize", body), 400, "'param':'content','code':'too_long'");
    free(body);
    stop(&l);
}

#define HI "'messages':[{'role':'user','content':'hi there'}]"

static void test_conversations(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/apply-template", "{" HI "}", 200, "{'prompt':'hi there'}");
    ask(&l, "/apply-template", "{'messages':[]}", 400, "'param':'messages'");
    ask(&l, "/apply-template", "{" HI ",'tool_choice':'any'}", 400, "'param':'tool_choice'");
    const char *addresses[] = {"/v1/ffwd/count", "/v1/chat/completions/input_tokens"};
    for (int i = 0; i < 2; i++) {
        ask(&l, addresses[i], "{" HI "}", 200,
            "{'object':'response.input_tokens','input_tokens':8,'context_length':3}");
        ask(&l, addresses[i], "{'prompt':['abc',\"de\"]}", 200, "'input_tokens':5,");
        ask(&l, addresses[i], "{'prompt':[1,2,3,4]}", 200, "'input_tokens':4,");
        ask(&l, addresses[i], "{'model':'x'}", 400, "'param':'prompt'");
    }
    stop(&l);
}

static void test_explain(void **state)
{
    struct live l;
    (void)state;
    start(&l, false);
    ask(&l, "/v1/ffwd/explain", "{" HI ",'max_tokens':7,'ffwd':{'fill':'strict'}}", 200,
        "{'prompt_tokens':8,'max_tokens':7,'constrained':false,'relaxed':[],'template_rows':0,'fill':'strict','plan':{"
        "'prefix_cache':{'match':{'on':true,'why':null},");
    ask(&l, "/v1/ffwd/explain", "{'prompt':'abc','guided_regex':'a+'}", 200, "'constrained':true,");
    ask(&l, "/v1/ffwd/explain", "{'prompt':'abc'}", 200, "'skip_head':{'on':false,'why':'so it is'}}}");
    ask(&l, "/v1/ffwd/explain", "{" HI ",'temperature':-1}", 400, "'param':'temperature'");
    ask(&l, "/v1/ffwd/explain", "{", 400, "not valid JSON");
    assert_int_equal(atomic_load(&submitted), 0);
    stop(&l);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain), /* first: nothing was submitted then */
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_a_text_that_is_too_long),
        cmocka_unit_test(test_conversations),
    };
    return cmocka_run_group_tests_name("native", tests, NULL, NULL);
}
