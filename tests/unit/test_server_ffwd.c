/*
 * server, what goes beyond the API: fields that reach the engine, accounting, echo, replay of generated ids, metrics and
 * the rows, the way it stops.
 */
#include "server_fake.h"
#include "server_live.h"

#define COMPLETIONS "/v1/completions"

static const char *header; /* one more line for post_with() */

static char *post_with(const struct live *l, const char *path, const char *body)
{
    char head[400];
    int fd = dial(l);
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n"
             "Content-Length: %zu\r\n\r\n", path, header, strlen(body));
    say(fd, head);
    say(fd, body);
    return hear(fd);
}

static char *get(const struct live *l, const char *path)
{
    char request[100];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    return raw(l, request);
}

/* ---- fields ---- */

static void test_fields_reach_the_engine(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(chat(&l, "hi", ",\"priority\":-7,\"deadline_ms\":1234,\"cache_salt\":\"so\""), 200, NULL);
    assert_true(last_request.priority == -7 && last_request.deadline_ms == 1234);
    assert_true(last_request.salt_n == 2 && memcmp(last_salt, "so", 2) == 0);
    assert_true(!last_request.prompt_logprobs && !last_request.prompt_only);
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\"}"), 200, NULL);
    assert_true(last_request.priority == 0 && last_request.deadline_ms == 0 && last_request.salt_n == 0);
    expect(chat(&l, "hi", ",\"ffwd\":{\"traces\":true}"), 400, "\"param\":\"ffwd.traces\"");
    stop(&l);
}

static void test_deadlines(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(chat(&l, "late", ""), 504, "\"type\":\"server_error\",\"param\":null,\"code\":\"deadline\"");
    expect(chat(&l, "late", ",\"stream\":true"), 504, "application/json");
    expect(chat(&l, "latetear", ""), 504, "not done within");
    char *s = chat(&l, "latetear", ",\"stream\":true");
    /* The end may be found together with the first tokens; then the status still tells of it. */
    if (strncmp(s, "HTTP/1.1 504", 12) != 0)
        assert_non_null(strstr(s, "data: {\"error\":{\"message\":\"the request was not done within"));
    assert_null(strstr(s, "[DONE]"));
    free(s);
    stop(&l);

    struct server_config cfg = {.deadline_s = 3, .idle_s = 1, .request_s = 2};
    l.chat = NULL;
    start_with(&l, &cfg);
    static const struct {
        const char *body;
        uint32_t ms;
    } cases[] = {{"{\"prompt\":\"hi\"}", 3000},
                 {"{\"prompt\":\"hi\",\"deadline_ms\":2999}", 2999},
                 {"{\"prompt\":\"hi\",\"deadline_ms\":3001}", 3000}};
    for (size_t i = 0; i < 3; i++) {
        expect(post(&l, COMPLETIONS, cases[i].body), 200, NULL);
        assert_int_equal(last_request.deadline_ms, cases[i].ms);
    }
    stop(&l);
}

/* The salt of a request that came with this key. */
static void salt_of(const struct live *l, const char *key, const char *salt, unsigned char out[32])
{
    char line[100], body[100];
    snprintf(line, sizeof line, *key ? "Authorization: %s" : "X-None: %s", key);
    snprintf(body, sizeof body, *salt ? "{\"prompt\":\"hi\",\"cache_salt\":\"%s\"}" : "{\"prompt\":\"hi\"}", salt);
    header = line;
    expect(post_with(l, COMPLETIONS, body), 200, NULL);
    assert_int_equal(last_request.salt_n, 32);
    memcpy(out, last_salt, 32);
}

static void test_keys_never_share_prefixes(void **state)
{
    (void)state;
    struct live l = {0};
    struct server_config cfg = {.cache_per_key = true, .idle_s = 1, .request_s = 2};
    static const char *const who[][2] = {
        {"Bearer a", ""}, {"Bearer b", ""}, {"", ""}, {"Bearer a", "s"}, {"Bearer as", ""}, {"Bearer b", "s"}};
    unsigned char salts[6][32], again[32];
    start_with(&l, &cfg);
    for (size_t i = 0; i < 6; i++) {
        salt_of(&l, who[i][0], who[i][1], salts[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(salts[i], salts[k], 32);
    }
    salt_of(&l, "bearer  a", "", again);
    assert_memory_equal(again, salts[0], 32);
    stop(&l);
}

static void test_usage(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    char *s = chat(&l, "hi", ",\"seed\":5");
    assert_null(strstr(s, "\"plan\""));
    expect(s, 200,
           "\"prompt_tokens_details\":{\"cached_tokens\":2},\"ffwd\":{\"sampled\":15,\"steps\":3,\"head_positions\":4,"
           "\"replayed_ids\":0,\"relaxed\":[],\"by_source\":{\"grammar\":{},\"grammar_likely\":{},\"template\":{},"
           "\"echo\":{},\"ngram\":{},\"draft\":{}},\"disarmed\":false,\"cache_miss\":{\"at\":2,\"cause\":\"text differs\"},"
           "\"preemptions\":1,"
           "\"seed\":5,\"queue_s\":0.250000,\"prefill_s\":0.500000,\"decode_s\":1.000000,\"seconds\":{\"queue\":0.250000,"
           "\"prefill\":0.500000,\"decode\":1.000000,\"grammar\":0.000000}}}}");
    static const char plan[] = "\"plan\":{\"prefix_cache\":{\"match\":{\"on\":true,\"why\":null},\"publish\":{\"on\":false,"
                               "\"why\":\"it is \\\"so\\\"\"}},\"sources\":{\"grammar\":{\"on\":false,\"why\":null},"
                               "\"grammar_likely\":{\"on\":false,\"why\":null},\"template\":{\"on\":false,\"why\":null},"
                               "\"echo\":{\"on\":true,\"why\":null},\"ngram\":{\"on\":false,\"why\":null},\"draft\":"
                               "{\"on\":false,\"why\":\"there is none\"}},\"skip_head\":{\"on\":false,\"why\":"
                               "\"log-probabilities\"}}}}}";
    expect(chat(&l, "hi", ",\"ffwd\":{\"plan\":true}"), 200, plan);
    expect(chat(&l, "hi", ",\"ffwd\":{\"plan\":true},\"stream\":true,\"stream_options\":{\"include_usage\":true}"), 200,
           plan);
    static const char filled[] =
        "\"by_source\":{\"grammar\":{\"proposed\":8,\"accepted\":8,\"rejected\":0,\"asserted\":8},"
        "\"grammar_likely\":{},\"template\":{},\"echo\":{\"proposed\":5,\"accepted\":3,\"rejected\":2,\"asserted\":0},"
        "\"ngram\":{},\"draft\":{}},\"disarmed\":false,";
    expect(chat(&l, "filled", ""), 200, filled);
    expect(chat(&l, "filled", ""), 200, "\"grammar\":0.125000}");
    expect(chat(&l, "filled", ",\"n\":2"), 200,
           "\"grammar\":{\"proposed\":16,\"accepted\":16,\"rejected\":0,\"asserted\":16}");
    expect(chat(&l, "filled", ",\"n\":2"), 200, "\"disarmed\":true,");
    /* Nothing is computed, and the plan says so of each part. */
    s = post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"echo\":true,\"max_tokens\":0,\"ffwd\":{\"plan\":true}}");
    assert_null(strstr(s, "\"on\":true"));
    expect(s, 200, "\"skip_head\":{\"on\":false,\"why\":\"nothing had to be computed\"}");
    stop(&l);
}

/* ---- echo ---- */

static void test_echo(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":3,\"echo\":true}"), 200,
           "\"text\":\"hiHel\",\"logprobs\":null");
    expect(post(&l, COMPLETIONS, "{\"prompt\":[104,105],\"max_tokens\":3,\"echo\":true,\"n\":2}"), 200,
           "{\"index\":1,\"text\":\"hiHel\"");
    expect(post(&l, COMPLETIONS, "{\"prompt\":[\"a\",\"bc\"],\"max_tokens\":1,\"echo\":true}"), 200,
           "{\"index\":1,\"text\":\"bcH\"");
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":1,\"echo\":true,\"logprobs\":0}"), 200,
           "\"text\":\"hiH\",\"logprobs\":{\"tokens\":[\"h\",\"i\",\"H\"],\"token_logprobs\":[null,-2.000000,-0.500000],"
           "\"top_logprobs\":[null,{\"i\":-2.000000},{\"H\":-0.500000}],\"text_offset\":[0,1,2]}");
    assert_true(last_request.prompt_logprobs && !last_request.prompt_only);
    /* characters, not bytes */
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"\\u20ac!\",\"max_tokens\":1,\"echo\":true,\"logprobs\":0}"), 200,
           "\"text_offset\":[0,0,0,1,2]");
    stop(&l);
}

static void test_echo_streamed(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    char *s = post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":1,\"echo\":true,\"logprobs\":0,\"stream\":true}");
    const char *prompt = strstr(s, "\"text\":\"hi\",\"logprobs\":{\"tokens\":[\"h\",\"i\"],"
                                   "\"token_logprobs\":[null,-2.000000],\"top_logprobs\":[null,{\"i\":-2.000000}],"
                                   "\"text_offset\":[0,1]}");
    const char *reply = strstr(s, "\"text\":\"H\",\"logprobs\":{\"tokens\":[\"H\"],\"token_logprobs\":[-0.500000],"
                                  "\"top_logprobs\":[{\"H\":-0.500000}],\"text_offset\":[2]}");
    assert_true(prompt && reply && prompt < reply);
    expect(s, 200, "[DONE]");
    s = post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":1,\"echo\":true,\"stream\":true}");
    prompt = strstr(s, "\"text\":\"hi\",\"logprobs\":null");
    reply = strstr(s, "\"text\":\"H\",\"logprobs\":null");
    assert_true(prompt && reply && prompt < reply && !strstr(prompt + 1, "\"text\":\"hi\""));
    free(s);
    stop(&l);
}

/* max_tokens 0: the prompt alone, scored by the engine or, where nothing is to be scored, without it. */
static void test_echo_alone(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    unsigned before = atomic_load(&submitted);
    static const char usage[] = "\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":0,\"total_tokens\":2,";
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":0,\"echo\":true}"), 200, usage);
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":0,\"echo\":true}"), 200,
           "\"text\":\"hi\",\"logprobs\":null,\"finish_reason\":\"length\"");
    char *s = post(&l, COMPLETIONS, "{\"prompt\":[\"a\",\"bc\"],\"max_tokens\":0,\"echo\":true,\"stream\":true}");
    assert_non_null(strstr(s, "{\"index\":1,\"text\":\"bc\",\"logprobs\":null,\"finish_reason\":null}"));
    assert_non_null(strstr(s, "{\"index\":1,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\"}"));
    expect(s, 200, "[DONE]");
    assert_int_equal(atomic_load(&submitted), before);
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"longer\",\"max_tokens\":0,\"echo\":true}"), 400, "\"param\":\"prompt\"");
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":0,\"echo\":true,\"logprobs\":0}"), 200,
           "\"text\":\"hi\",\"logprobs\":{\"tokens\":[\"h\",\"i\"],");
    assert_true(last_request.prompt_logprobs && last_request.prompt_only);
    s = post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":0,\"echo\":true,\"logprobs\":0,\"stream\":true}");
    expect(s, 200, "\"text\":\"hi\",\"logprobs\":{\"tokens\":[\"h\",\"i\"],");
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"max_tokens\":0}"), 400, "\"param\":\"max_tokens\"");
    expect(chat(&l, "hi", ",\"max_tokens\":0"), 400, "\"param\":\"max_tokens\"");
    stop(&l);
}

/* ---- replay ---- */

/* The text between `before` and the next quote; the caller frees. */
static char *piece(const char *s, const char *before)
{
    const char *from = strstr(s, before);
    assert_non_null(from);
    from += strlen(before);
    return strndup(from, strcspn(from, "\""));
}

#define TURN_TWO "hiHello, \\\"world\\\"\\n!"

static void expect_replayed(char *reply, unsigned n)
{
    char want[40];
    snprintf(want, sizeof want, "\"replayed_ids\":%u,", n);
    expect(reply, 200, want);
}

static char *second_turn(const struct live *l, const char *id, const char *more)
{
    char body[400];
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"" TURN_TWO "\"},"
                                "{\"role\":\"assistant\",\"content\":\"x\",\"id\":\"%s\"}]%s}", id, more);
    return post(l, "/v1/chat/completions", body);
}

/* The template below shows the first message only, so that message holds both turns; the reply has 15 ids. */
static void test_replay_by_name(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    char *first = chat(&l, "hi", ",\"prompt_cache_key\":\"k\",\"ffwd\":{\"session\":\"s\"}");
    char *message = piece(first, "\"id\":\"msg_"), *reply = piece(first, "\"id\":\"chatcmpl-"), id[100];
    free(first);
    assert_int_equal(strlen(message), 24);
    snprintf(id, sizeof id, "msg_%s", message);
    expect_replayed(second_turn(&l, id, ""), 15);
    snprintf(id, sizeof id, "chatcmpl-%s", reply);
    expect_replayed(second_turn(&l, id, ""), 15);
    expect_replayed(second_turn(&l, "msg_0123", ""), 0);
    expect_replayed(second_turn(&l, "", ",\"prompt_cache_key\":\"k\""), 15);
    expect_replayed(second_turn(&l, "", ",\"prompt_cache_key\":\"s\""), 15);
    expect_replayed(second_turn(&l, "", ",\"ffwd\":{\"session\":\"s\"}"), 15);
    expect_replayed(second_turn(&l, "", ",\"prompt_cache_key\":\"k2\""), 0);
    expect_replayed(second_turn(&l, "", ",\"prompt_cache_key\":\"k\",\"cache_salt\":\"other\""), 0);
    expect_replayed(post(&l, COMPLETIONS, "{\"prompt\":\"" TURN_TWO "\",\"prompt_cache_key\":\"k\"}"), 15);
    /* ids that a client sends are taken as they are */
    expect_replayed(post(&l, COMPLETIONS, "{\"prompt\":[104,105,72,101],\"prompt_cache_key\":\"k\"}"), 0);
    free(message);
    free(reply);
    stop(&l);
}

static void test_without_replay(void **state)
{
    (void)state;
    struct live l = {0};
    struct server_config cfg = {.no_replay = true, .idle_s = 1, .request_s = 2};
    start_with(&l, &cfg);
    expect(post(&l, COMPLETIONS, "{\"prompt\":\"hi\",\"prompt_cache_key\":\"k\"}"), 200, NULL);
    expect_replayed(post(&l, COMPLETIONS, "{\"prompt\":\"" TURN_TWO "\",\"prompt_cache_key\":\"k\"}"), 0);
    stop(&l);
}

/* A reply that failed, or whose client left, is not remembered; each choice of a reply is. */
static void test_what_is_remembered(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(chat(&l, "tear", ",\"prompt_cache_key\":\"torn\""), 500, NULL);
    expect_replayed(post(&l, COMPLETIONS, "{\"prompt\":\"tearHel\",\"prompt_cache_key\":\"torn\"}"), 0);
    char *two = chat(&l, "hi", ",\"n\":2,\"stream\":true");
    char *id = piece(two, "\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"id\":\"");
    char *other = piece(two, "\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"id\":\"");
    assert_string_not_equal(id, other);
    expect_replayed(second_turn(&l, id, ""), 15);
    expect_replayed(second_turn(&l, other, ""), 15);
    free(two);
    free(id);
    free(other);
    stop(&l);
}

/* ---- looking at it ---- */

static void test_metrics(void **state)
{
    (void)state;
    struct live l = {0};
    struct server_config cfg = {.version = "1.2.3", .isa = "avx9", .idle_s = 1, .request_s = 2};
    start_with(&l, &cfg);
    static const char *const lines[] = {
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
        "\n# TYPE ffwd:num_requests_waiting gauge\nffwd:num_requests_waiting 0\n",
        "\nffwd:kv_cache_usage_perc 0.250000\n",
        "\nffwd:prompt_tokens_total 1099511627776\n",
        "\nffwd:request_success_total{finished_reason=\"abort\"} 14\n",
        "\nffwd:engine_seconds_total{part=\"other\"} 4.500000\n",
        "\n# TYPE ffwd:step_time_seconds histogram\nffwd:step_time_seconds_bucket{le=\"0.001000\"} 3\n"
        "ffwd:step_time_seconds_bucket{le=\"0.500000\"} 7\nffwd:step_time_seconds_bucket{le=\"+Inf\"} 12\n"
        "ffwd:step_time_seconds_sum 9.500000\nffwd:step_time_seconds_count 12\n",
        "\n# TYPE ffwd:source_proposed_tokens_total counter\nffwd:source_proposed_tokens_total{source=\"grammar\"} 31\n",
        "\nffwd:source_accepted_tokens_total{source=\"grammar\"} 32\nffwd:source_accepted_tokens_total{source="
        "\"grammar_likely\"} 0\n",
        "\nffwd:source_rejected_tokens_total{source=\"draft\"} 43\n",
        "\nffwd:source_asserted_tokens_total{source=\"draft\"} 44\n",
        "\nffwd:build_info{version=\"1.2.3\",isa=\"avx9\"} 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect(get(&l, "/metrics"), 200, lines[i]);
    stop(&l);
}

static void *say_dead(void *arg)
{
    return post(arg, COMPLETIONS, "{\"prompt\":\"dead\"}");
}

/* Starts a request that never ends; it runs once submitted. */
static pthread_t begin(struct live *l, void *(*what)(void *))
{
    pthread_t t;
    unsigned before = atomic_load(&submitted);
    assert_int_equal(pthread_create(&t, NULL, what, l), 0);
    while (atomic_load(&submitted) == before)
        ;
    return t;
}

static void *say_hang(void *arg)
{
    return post(arg, COMPLETIONS, "{\"prompt\":\"hang\",\"n\":2}");
}

static void test_rows(void **state)
{
    (void)state;
    struct live l;
    void *reply;
    start(&l, false);
    expect(get(&l, "/v1/ffwd/rows"), 200, "{\"rows\":[],\"queued\":0,\"kv\":{\"blocks\":8,\"used\":2,\"cached\":1}}");
    pthread_t t = begin(&l, say_hang);
    while (atomic_load(&submitted) - atomic_load(&closed) < 2)
        ;
    char *s = get(&l, "/v1/ffwd/rows");
    char *name = piece(s, "{\"rows\":[{\"id\":\"cmpl-");
    assert_string_equal(name + strlen(name) - 2, "-0");
    free(name);
    expect(s, 200, "\"state\":\"running\",\"priority\":-3,\"prompt_tokens\":4,\"cached_tokens\":0,\"fed_tokens\":0,"
                   "\"completion_tokens\":0,\"max_tokens\":0,\"preemptions\":0,\"reader_slow\":false,\"age_s\":1.250000},");
    stop(&l);
    pthread_join(t, &reply);
    free(reply);
}

static void test_an_engine_that_does_not_answer(void **state)
{
    (void)state;
    struct live l;
    void *reply;
    start(&l, false);
    pthread_t t = begin(&l, say_dead);
    expect(get(&l, "/v1/ffwd/rows"), 503, "Retry-After: 1");
    char *s = get(&l, "/metrics");
    assert_null(strstr(s, "kv_cache_usage_perc"));
    expect(s, 200, "ffwd:num_requests_running 1");
    stop(&l);
    pthread_join(t, &reply);
    free(reply);
}

/* ---- stopping ---- */

static void test_draining(void **state)
{
    (void)state;
    struct live l;
    void *reply;
    start(&l, false);
    pthread_t t = begin(&l, say_hang);
    while (atomic_load(&submitted) - atomic_load(&closed) < 2)
        ;
    server_drain(l.server);
    char *s = raw(&l, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* keep-alive, and closed all the same */
    assert_non_null(strstr(s, "Connection: close"));
    expect(s, 503, "{\"status\":\"stopping\",\"running\":2,\"waiting\":0}");
    expect(get(&l, "/metrics"), 200, NULL);
    expect(get(&l, "/v1/ffwd/rows"), 200, NULL);
    expect(get(&l, "/v1/models"), 503, "Retry-After: 1");
    expect(get(&l, "/nothing"), 503, "the server is stopping");
    unsigned before = atomic_load(&submitted);
    expect(chat(&l, "hi", ""), 503, "\"type\":\"overloaded_error\"");
    assert_true(atomic_load(&submitted) == before && !server_idle(l.server));
    server_stop(l.server, 0);
    chat_free(l.chat);
    assert_int_equal(atomic_load(&submitted), atomic_load(&closed));
    pthread_join(t, &reply);
    expect(reply, 503, "the server is stopping");
}

static void test_stop_does_not_wait_for_the_grace(void **state)
{
    (void)state;
    struct live l;
    start(&l, false);
    expect(chat(&l, "hi", ""), 200, NULL);
    double from = clock_seconds();
    server_stop(l.server, 60);
    assert_true(clock_seconds() - from < 20);
    chat_free(l.chat);
}

int main(void)
{
    fake_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_reach_the_engine),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_keys_never_share_prefixes),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_echo_streamed),
        cmocka_unit_test(test_echo_alone),
        cmocka_unit_test(test_replay_by_name),
        cmocka_unit_test(test_without_replay),
        cmocka_unit_test(test_what_is_remembered),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_an_engine_that_does_not_answer),
        cmocka_unit_test(test_draining),
        cmocka_unit_test(test_stop_does_not_wait_for_the_grace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
