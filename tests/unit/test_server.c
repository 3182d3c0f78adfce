/*
 * server: the whole way of a request over real sockets, with an engine and a text library that play what the prompt's
 * first word says (server_fake.h).
 */
#include "server_fake.h"
#include "server_live.h"

#include <netdb.h>

/* One message more than there may be. */
static char *many_messages(const struct live *l)
{
    struct buf b;
    buf_init(&b, 4 << 20);
    for (uint32_t i = 0; i <= LIMIT_MESSAGES; i++)
        buf_adds(&b, i ? ",{\"role\":\"user\",\"content\":\"\"}" : "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}");
    buf_adds(&b, "]}");
    char *reply = post(l, "/v1/chat/completions", b.data);
    buf_release(&b);
    return reply;
}

static void test_routes(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(raw(&l, "GET /health HTTP/1.0\r\n\r\n"), 200, "{\"status\":\"ok\",\"running\":0,\"waiting\":0}");
    expect(raw(&l, "GET /v1/models HTTP/1.0\r\n\r\n"), 200, "\"context_length\":3");
    expect(raw(&l, "GET /v1/models/some%2Fmodel HTTP/1.0\r\n\r\n"), 200, "\"id\":\"some/model\"");
    expect(raw(&l, "GET /v1/models/other HTTP/1.0\r\n\r\n"), 404, "\"code\":\"model_not_found\"");
    expect(raw(&l, "GET /v1/models/ HTTP/1.0\r\n\r\n"), 404, "\"type\":\"invalid_request_error\"");
    expect(raw(&l, "GET /nothing HTTP/1.0\r\n\r\n"), 404, "\"error\":{\"message\":");
    expect(raw(&l, "GET /v1/completions HTTP/1.0\r\n\r\n"), 405, "Allow: POST, OPTIONS");
    expect(raw(&l, "DELETE /v1/models HTTP/1.0\r\n\r\n"), 405, "Allow: GET, HEAD, OPTIONS");
    expect(raw(&l, "DELETE /v1/models HTTP/1.0\r\n\r\n"), 405, "this address takes GET, HEAD only");
    expect(raw(&l, "GET /v1/responses/input_tokens HTTP/1.0\r\n\r\n"), 405, "Allow: POST, OPTIONS");
    expect(raw(&l, "DELETE /v1/responses/input_tokens HTTP/1.0\r\n\r\n"), 405, "this address takes POST only");
    expect(raw(&l, "POST /v1/responses/resp_1 HTTP/1.0\r\n\r\n"), 405, "this address takes GET, HEAD, DELETE only");
    expect(raw(&l, "OPTIONS /v1/completions HTTP/1.0\r\n\r\n"), 204, "Allow: POST, OPTIONS");
    char *head = raw(&l, "HEAD /health HTTP/1.0\r\n\r\n");
    assert_null(strstr(head, "status"));
    expect(head, 200, "application/json");
    stop(&l);
}

static void test_chat_whole(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(chat(&l, "hi", ""), 200, "\"message\":{\"role\":\"assistant\",\"content\":\"Hello, \\\"world\\\"\\n\",");
    expect(chat(&l, "hi", ",\"max_tokens\":4"), 200, "\"finish_reason\":\"length\"");
    expect(chat(&l, "full", ",\"max_tokens\":4"), 200,
           "\"finish_reason\":\"length\",\"ffwd_detail\":\"kv_exhausted\"}]");
    expect(chat(&l, "full", ",\"max_tokens\":4,\"stream\":true"), 200,
           "\"finish_reason\":\"length\",\"ffwd_detail\":\"kv_exhausted\"}]}\n\n");
    expect(post(&l, "/v1/completions", "{\"prompt\":\"full\",\"max_tokens\":4}"), 200,
           "\"finish_reason\":\"length\",\"ffwd_detail\":\"kv_exhausted\"}]");
    expect(chat(&l, "hi", ",\"seed\":77"), 200, "\"seed\":77");
    expect(chat(&l, "hi", ""), 200,
           "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":15,\"total_tokens\":20,"
           "\"prompt_tokens_details\":{\"cached_tokens\":2},\"ffwd\":{");
    expect(chat(&l, "hi", ",\"n\":2"), 200, "\"prompt_tokens\":5,\"completion_tokens\":30");
    expect(chat(&l, "hi", ",\"n\":2"), 200, "{\"index\":1,\"message\"");
    expect(chat(&l, "utf8", ""), 200, "\"content\":\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    expect(chat(&l, "hi", ",\"logprobs\":true,\"top_logprobs\":1,\"max_tokens\":1"), 200,
           "\"logprobs\":{\"content\":[{\"token\":\"H\",\"logprob\":-0.500000,\"bytes\":[72],\"top_logprobs\":"
           "[{\"token\":\"a\",\"logprob\":-1.000000,\"bytes\":[97]}]}],\"refusal\":null}");
    stop(&l);
}

static void test_errors(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(chat(&l, "busy", ""), 429, "Retry-After: 7");
    expect(chat(&l, "long", ""), 400, "\"param\":\"messages\",\"code\":\"context_length_exceeded\"");
    expect(chat(&l, "never", ",\"stream\":true"), 400, "\"param\":\"max_tokens\",\"code\":\"context_length_exceeded\"");
    expect(chat(&l, "fuel", ""), 400, "\"param\":\"messages\",\"code\":\"too_long\"");
    expect(many_messages(&l), 400, "\"param\":\"messages\",\"code\":\"too_long\"");
    expect(chat(&l, "fail", ""), 500, "\"type\":\"server_error\",\"param\":null,\"code\":\"step_failed\"");
    expect(chat(&l, "fail", ",\"stream\":true"), 500, "application/json");
    char *big = calloc(1, 100000);
    memcpy(big, "{\"prompt\":\"", 11);
    memset(big + 11, 'a', 99000);
    memcpy(big + 99011, "\"}", 2);
    expect(post(&l, "/v1/completions", big), 400, "\"param\":\"prompt\",\"code\":\"context_length_exceeded\"");
    free(big);
    expect(chat(&l, "hi", ",\"temperature\":[]"), 400, "\"param\":\"temperature\"");
    expect(post(&l, "/v1/chat/completions", "{\"messages\":"), 400, "(line 1, column");
    expect(post(&l, "/v1/chat/completions", ""), 400, "\"code\":\"invalid_json\"");
    expect(post(&l, "/v1/chat/completions", "{}"), 400, "\"param\":\"messages\"");
    expect(post(&l, "/v1/completions", "{\"prompt\":[1,300]}"), 400, "outside the vocabulary");
    expect(post(&l, "/v1/completions", "{\"prompt\":[]}"), 400, "\"param\":\"prompt\"");
    expect(post(&l, "/v1/completions", "{\"prompt\":[[1],\"a\"]}"), 400, "\"param\":\"prompt\"");
    expect(post(&l, "/v1/completions", "{\"prompt\":\"\"}"), 400, "prompt is empty");
    expect(post(&l, "/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"n\":17}"), 400, "prompts times n");
    stop(&l);
    start(&l, true);
    expect(chat(&l, "hi", ",\"model\":\"gpt-9\""), 404, "\"code\":\"model_not_found\"");
    expect(chat(&l, "hi", ",\"model\":5"), 400, "\"param\":\"model\"");
    expect(chat(&l, "hi", ""), 400, "\"param\":\"model\"");
    expect(chat(&l, "hi", ",\"model\":\"some/model\""), 200, NULL);
    stop(&l);
}

static void test_stream(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    char *s = chat(&l, "hi", ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    const char *role = strstr(s, "\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"id\":\"msg_");
    const char *content = strstr(s, "\"delta\":{\"content\":\"H\"}");
    const char *finish = strstr(s, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n");
    const char *usage = strstr(s, "\"choices\":[],\"usage\":{\"prompt_tokens\":5");
    const char *done = strstr(s, "data: [DONE]\n\n");
    assert_true(role && role < content && content < finish && finish < usage && usage < done);
    assert_non_null(strstr(s, "\"usage\":null"));
    expect(s, 200, "Content-Type: text/event-stream");
    s = chat(&l, "tear", ",\"stream\":true");
    assert_null(strstr(s, "[DONE]"));
    /* The failure may be found together with the first tokens; then the status still tells of it. */
    if (strncmp(s, "HTTP/1.1 500", 12) != 0)
        assert_non_null(strstr(s, "data: {\"error\":{\"message\":\"the model's values are not finite\""));
    free(s);
    s = post(&l, "/v1/completions", "{\"prompt\":[[104,105],[104]],\"stream\":true,\"logprobs\":0,\"max_tokens\":2}");
    assert_non_null(strstr(s, "\"choices\":[{\"index\":1,\"text\":\"e\",\"logprobs\":{\"tokens\":[\"e\"],"
                              "\"token_logprobs\":[-0.500000],\"top_logprobs\":[{\"e\":-0.500000}],"
                              "\"text_offset\":[1]},\"finish_reason\":null}]}"));
    expect(s, 200, "\"finish_reason\":\"length\"");
    stop(&l);
}

/* Long bodies take no processor from the engine; short ones are answered at once. */
static void test_long_bodies_are_nice(void **state)
{
    (void)state;
    struct live l;
    static const char messages[] = "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    static const char prompt[] = "{\"prompt\":\"hi\"}", input[] = "{\"input\":\"hi\"}";
    static const char *const cases[][2] = {
        {"/v1/completions", prompt}, {"/v1/chat/completions", messages}, {"/v1/messages", messages},
        {"/v1/messages/count_tokens", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"},
        {"/v1/responses", input}, {"/v1/responses/input_tokens", input}, {"/api/chat", messages},
        {"/api/generate", prompt}, {"/completion", prompt}, {"/tokenize", "{\"content\":\"hi\"}"},
        {"/apply-template", messages}, {"/v1/ffwd/count", messages}, {"/v1/ffwd/explain", messages},
    };
    const int own = getpriority(PRIO_PROCESS, 0), low = own < 10 ? 10 : own;
    start(&l, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[20001];
        snprintf(body, sizeof body, "%s", cases[i][1]);
        expect(post(&l, cases[i][0], body), 200, NULL);
        assert_int_equal(encoder_nice, own);
        snprintf(body, sizeof body, "%-20000s", cases[i][1]);
        expect(post(&l, cases[i][0], body), 200, NULL);
        if (encoder_nice != low)
            fail_msg("%s: at nice %d", cases[i][0], encoder_nice);
    }
    stop(&l);
}

static void test_completions_whole(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(post(&l, "/v1/completions", "{\"prompt\":\"hi\",\"max_tokens\":3}"), 200,
           "\"choices\":[{\"index\":0,\"text\":\"Hel\",\"logprobs\":null,\"finish_reason\":\"length\"}]");
    expect(post(&l, "/v1/completions", "{\"prompt\":[\"a\",\"b\"]}"), 200, "\"prompt_tokens\":10");
    expect(post(&l, "/v1/completions", "{\"prompt\":\"utf8\",\"logprobs\":1}"), 200,
           "\"tokens\":[\"a\",\"bytes:\\\\xff\",\"bytes:\\\\xc3\"]");
    stop(&l);
}

/* Waits up to two seconds for all of the engine's requests to be given up. */
static bool all_closed(void)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    for (int i = 0; i < 400 && atomic_load(&submitted) != atomic_load(&closed); i++)
        nanosleep(&nap, NULL);
    return atomic_load(&submitted) == atomic_load(&closed);
}

static void test_client_leaves(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{\"prompt\":\"hang\"}", "{\"prompt\":\"hang\",\"stream\":true}",
                                         "{\"prompt\":\"endless\",\"stream\":true}"};
    struct live l;
    start(&l, false);
    for (size_t i = 0; i < 3; i++) {
        char head[200];
        unsigned before = atomic_load(&submitted);
        int fd = dial(&l);
        snprintf(head, sizeof head, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(bodies[i]), bodies[i]);
        say(fd, head);
        while (atomic_load(&submitted) == before)
            ;
        if (i == 2) { /* once the stream is under way */
            char some[100];
            assert_true(recv(fd, some, sizeof some, 0) > 0);
        }
        assert_int_not_equal(atomic_load(&submitted), atomic_load(&closed));
        close(fd);
        assert_true(all_closed());
    }
    stop(&l);
}

/* Seconds until the server closes. */
static double closes_after(int fd, const char *drip)
{
    double from = clock_seconds();
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char c;
        if (poll(&p, 1, 300) == 1 && recv(fd, &c, 1, 0) <= 0)
            break;
        if (clock_seconds() - from > 10)
            fail_msg("still open");
        if (drip && send(fd, drip, 1, MSG_NOSIGNAL) != 1)
            break;
    }
    close(fd);
    return clock_seconds() - from;
}

static void test_slow_clients(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    assert_true(closes_after(dial(&l), NULL) < 3); /* says nothing */
    assert_true(closes_after(dial(&l), "x") < 5);  /* a head without end */
    int fd = dial(&l);
    say(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{");
    assert_true(closes_after(fd, " ") < 5);
    fd = dial(&l); /* reads nothing of a reply without end */
    say(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34\r\n\r\n"
            "{\"prompt\":\"endless\",\"stream\":true}");
    const struct timespec nap = {.tv_nsec = 100000000};
    nanosleep(&nap, NULL);
    assert_int_not_equal(atomic_load(&submitted), atomic_load(&closed));
    for (int i = 0; i < 40 && atomic_load(&submitted) != atomic_load(&closed); i++)
        nanosleep(&nap, NULL);
    assert_true(all_closed());
    close(fd);
    stop(&l);
}

static void test_bodies(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(raw(&l, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n"
                   "Content-Length: 99999999\r\n\r\n"),
           413, "\"code\":\"too_long\"");
    expect(raw(&l, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   "Content-Length: 99999999999999999999\r\n\r\n"),
           413, NULL);
    expect(raw(&l, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n"
                   "8\r\n{\"prompt\r\n7\r\n\":\"hi\"}\r\n0\r\n\r\n"),
           200, "Hello");
    /* A body that is too long is read to its end before the refusal is sent. */
    size_t n = LIMIT_BODY + 1;
    char head[200], *big = malloc(n);
    memset(big, ' ', n);
    int fd = dial(&l);
    snprintf(head, sizeof head, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                "Content-Length: %zu\r\n\r\n", n);
    say(fd, head);
    for (size_t at = 0; at < n;) {
        ssize_t put = send(fd, big + at, n - at, MSG_NOSIGNAL);
        assert_true(put > 0);
        at += (size_t)put;
    }
    free(big);
    expect(hear(fd), 413, NULL);
    /* Two requests in one packet, two replies. */
    char *s = raw(&l, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n"
                      "Connection: close\r\n\r\n");
    assert_non_null(strstr(s, "\"status\":\"ok\""));
    expect(s, 200, "\"object\":\"list\"");
    stop(&l);
}

static void *hang_on(void *arg)
{
    return chat(arg, "hang", "");
}

static void test_stop(void **state)
{
    (void)state;
    struct live l;
    pthread_t t;
    void *reply;
    unsigned before = atomic_load(&submitted);
    start(&l, false);
    int idle = dial(&l); /* a connection that never says anything must not hold the stop up */
    assert_int_equal(pthread_create(&t, NULL, hang_on, &l), 0);
    while (atomic_load(&submitted) == before)
        ;
    stop(&l);
    close(idle);
    pthread_join(t, &reply);
    expect(reply, 503, "the server is stopping");
}

static void test_taken_port(void **state)
{
    (void)state;
    struct live l;
    struct server *other;
    struct err e = {0};
    start(&l, false);
    assert_string_equal(server_url(l.server) + strlen("http://127.0.0.1:"), strrchr(server_url(l.server), ':') + 1);
    struct server_config cfg = {.port = server_port(l.server)};
    assert_int_equal(server_start(&other, &cfg, &e), ST_IO);
    assert_null(other);
    assert_non_null(strstr(e.text, "another program uses that port"));
    cfg = (struct server_config){.host = "no.such.host.invalid"};
    assert_int_not_equal(server_start(&other, &cfg, &e), ST_OK);
    stop(&l);
}

/* A name with two addresses, the IPv6 one first, as many systems have it for localhost. Defined here, it stands before
 * the C library's; every other host is a number. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    static struct sockaddr_in6 six;
    static struct sockaddr_in four;
    static struct addrinfo a[2];
    (void)hints;
    uint16_t port = htons((uint16_t)strtoul(service, NULL, 10));
    bool both = strcmp(host, "both") == 0;
    six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = in6addr_loopback};
    four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
    a[0] = (struct addrinfo){.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_addrlen = sizeof six,
                             .ai_addr = (struct sockaddr *)&six, .ai_next = &a[1]};
    a[1] = (struct addrinfo){.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_addrlen = sizeof four,
                             .ai_addr = (struct sockaddr *)&four};
    *list = both ? &a[0] : &a[1];
    return inet_pton(AF_INET, both ? "127.0.0.1" : host, &four.sin_addr) == 1 ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static void test_a_name_with_two_addresses(void **state)
{
    (void)state;
    struct live l;
    struct server *other;
    struct err e = {0};
    struct server_config cfg = {.host = "both"};
    start(&l, false);
    struct server_config taken = {.host = "both", .port = server_port(l.server)};
    assert_int_equal(server_start(&other, &taken, &e), ST_IO); /* and not on ::1, where nobody listens */
    stop(&l);
    l.chat = NULL;
    assert_int_equal(server_start(&l.server, &cfg, &e), ST_OK);
    close(dial(&l)); /* over IPv4 */
    stop(&l);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),     cmocka_unit_test(test_chat_whole),        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_stream),     cmocka_unit_test(test_completions_whole), cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_long_bodies_are_nice),
        cmocka_unit_test(test_bodies),     cmocka_unit_test(test_slow_clients),      cmocka_unit_test(test_stop),
        cmocka_unit_test(test_taken_port), cmocka_unit_test(test_a_name_with_two_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
