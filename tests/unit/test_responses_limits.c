/* server: how much the Responses API keeps and repeats of a request, over real sockets with fakes below (server_fake.h). */
#include "server/http/private.h"
#include "server/private.h"
#include "server_live.h"

static void said(char *reply, int status, const char *part)
{
    expect(reply, status, json(part));
}

/* The two texts with n bytes between them. The caller frees. */
static char *around(const char *before, size_t n, const char *after)
{
    struct buf body;
    buf_init(&body, n + 500);
    buf_adds(&body, json(before));
    char *to = buf_reserve(&body, n);
    assert_non_null(to);
    memset(to, 'x', n);
    body.len += n;
    buf_adds(&body, json(after));
    assert_false(body.failed);
    return body.data;
}

static char *respond_long(const struct live *l, const char *before, size_t n, const char *after)
{
    char *body = around(before, n, after), *reply = post(l, "/v1/responses", body);
    free(body);
    return reply;
}

/* What a response repeats has a ceiling, and comes whole in a stream, three times. */
static void test_repeated(void **state)
{
    struct live l;
    const char *user = "{'input':'hi there','user':'", *safety = "{'input':'hi there','safety_identifier':'";
    const char *note = "{'input':'hi there','stream':true,'text':{'note':'";
    const size_t most = LIMIT_RESPONSE_USER, n = LIMIT_RESPONSE_ECHO - 2000;
    char head[200];
    (void)state;
    start(&l, false);
    said(respond_long(&l, user, most, "'}"), 200, "'status':'completed'");
    said(respond_long(&l, user, most + 1, "'}"), 400, "'param':'user'");
    said(respond_long(&l, safety, most + 1, "'}"), 400, "'param':'safety_identifier'");
    said(respond_long(&l, note, LIMIT_RESPONSE_ECHO, "'}}"), 400, "'param':'text','code':'too_long'");
    char *body = around(note, n, "'}}");
    int fd = dial(&l); /* HTTP/1.0, whose streams come in one piece */
    snprintf(head, sizeof head, "POST /v1/responses HTTP/1.0\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    say(fd, head);
    say(fd, body);
    char *s = hear(fd), *at = s;
    for (int i = 0; i < 3; i++) {
        at = strstr(at, json("'text':{'note':'"));
        assert_non_null(at);
        at += strlen("'text':{'note':'");
        assert_int_equal(strspn(at, "x"), n);
    }
    free(body);
    free(s);
    stop(&l);
}

/* A call ends a little after its reply was read. */
static void wait_for(const atomic_size_t *held, size_t n)
{
    for (int i = 0; i < 1000 && atomic_load(held) != n; i++)
        (void)poll(NULL, 0, 5);
    assert_int_equal(atomic_load(held), n);
}

/* What a reply keeps of its request counts against LIMIT_BODIES as long as the reply is under way. */
static void test_room_of_what_is_kept(void **state)
{
    struct live l;
    const size_t n = 20000, full = LIMIT_BODIES - n - n / 2; /* room for one text of that size, not for two */
    (void)state;
    start(&l, false);
    atomic_size_t *held = &l.server->http->body_held;
    atomic_store(held, full);
    said(respond_long(&l, "{'input':'", n, "'}"), 503, "Retry-After: 1");
    wait_for(held, full);
    said(respond_long(&l, "{'store':false,'input':'", n, "'}"), 200, "'status':'completed'");
    wait_for(held, full);
    said(respond_long(&l, "{'store':false,'input':'hi','text':{'note':'", n, "'}}"), 503,
         "'type':'overloaded_error'");
    wait_for(held, full);
    stop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_repeated), cmocka_unit_test(test_room_of_what_is_kept)};
    fake_init();
    return cmocka_run_group_tests_name("responses_limits", tests, NULL, NULL);
}
