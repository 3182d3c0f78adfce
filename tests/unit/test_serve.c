/*
 * serve: everything together, nothing replaced: HTTP, engine and network in one process, on a tiny random model. Made to
 * be run under ThreadSanitizer (`make tsan`) as well: connections, engine, workers and notifier all have work at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/api.h"
#include "engine/engine.h"
#include "server/server.h"
#include "tiny.h"

#define CLIENTS 8
#define ROUNDS 12
#define REPLY_BYTES 65536

static char path[] = "/tmp/ffwd-test-serve-XXXXXX";
static struct api_model model;
static struct engine *engine;
static struct server *server;

static int set_up(void **state)
{
    (void)state;
    struct err e = {.text = ""};
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || tiny_write(path, "smollm2", TINY_Q8_0, &e) != ST_OK)
        return -1;
    const struct api_open o = {.path = path, .want = API_MODEL | API_TOK | API_CHAT, .threads = 2};
    if (api_open(&model, &o, &e) != ST_OK)
        return -1;
    const struct engine_config ec = {.model = model.model, .tok = model.tok, .pool = model.pool,
                                     .kv_format = KERN_KV_F16, .rows = 4, .context = 256};
    if (engine_new(&engine, &ec, &e) != ST_OK)
        return -1;
    const struct server_config sc = {.engine = engine, .tok = model.tok, .chat = model.chat, .model = "tiny"};
    return server_start(&server, &sc, &e) == ST_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    server_stop(server, 10);
    engine_free(engine);
    api_close(&model);
    return unlink(path);
}

/* --- a client --------------------------------------------------------------------------------------------------------
 * What fails on its thread is a -1, NULL or false, which the test's thread judges. */

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(server_port(server))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int ask(const char *route, const char *body)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", route,
                     strlen(body), body);
    int fd = dial();
    if (fd < 0 || send(fd, text, (size_t)n, MSG_NOSIGNAL) == n)
        return fd;
    close(fd);
    return -1;
}

/* Reads into out[REPLY_BYTES] until the server closes, or `least` bytes are there; closes. */
static bool hear(int fd, char *out, size_t least)
{
    size_t n = 0;
    ssize_t got = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (fd >= 0 && n < least && poll(&p, 1, 30000) == 1 && (got = recv(fd, out + n, REPLY_BYTES - 1 - n, 0)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    if (fd >= 0)
        close(fd);
    return fd >= 0 && (got == 0 || n >= least) && strncmp(out, "HTTP/1.1 200", 12) == 0;
}

/* The reply's text, in place; NULL when there is none. */
static char *text_of(char *reply)
{
    char *from = strstr(reply, "\"text\":\""), *to = from ? strstr(from, "\",\"") : NULL;
    if (!to)
        return NULL;
    *to = '\0';
    return from + strlen("\"text\":\"");
}

static void body_of(int client, const char *more, char *out, size_t cap)
{
    snprintf(out, cap, "{\"prompt\":\"%.*s\",\"seed\":%d,\"temperature\":1,\"max_tokens\":24,\"ignore_eos\":true%s}",
             5 + 9 * client, "the thing in the other string is a letter and a long one at that, so let it run on and on",
             client, more);
}

/* --- all at once ----------------------------------------------------------------------------------------------------- */

struct client {
    pthread_t thread;
    int index;
    char alone[REPLY_BYTES], reply[REPLY_BYTES];
    const char *want;   /* in `alone` */
    const char *failed; /* what went wrong; NULL = nothing */
};

static struct client clients[CLIENTS];
static _Atomic bool watching;

static bool one_round(struct client *c, int round)
{
    char body[512];
    if (round % 2) { /* streams; every other one is left half-way */
        body_of(c->index, ",\"stream\":true", body, sizeof body);
        bool leaves = (c->index + round / 2) % 2;
        c->failed = "a stream";
        return hear(ask("/v1/completions", body), c->reply, leaves ? 300 : SIZE_MAX)
               && (leaves || strstr(c->reply, "data: [DONE]"));
    }
    body_of(c->index, "", body, sizeof body);
    c->failed = "a whole reply";
    if (!hear(ask("/v1/completions", body), c->reply, SIZE_MAX))
        return false;
    const char *got = text_of(c->reply);
    c->failed = "CC6: the same seed gave another text under load";
    return got && strcmp(got, c->want) == 0;
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    for (int round = 0; round < ROUNDS; round++)
        if (!one_round(c, round))
            return NULL;
    c->failed = NULL;
    return NULL;
}

static void *watch_main(void *arg)
{
    static char reply[REPLY_BYTES];
    static const char health[] = "GET /health HTTP/1.0\r\n\r\n";
    bool *well = arg;
    while (*well && atomic_load(&watching)) {
        int fd = dial();
        *well = fd >= 0 && send(fd, health, strlen(health), MSG_NOSIGNAL) > 0;
        *well &= hear(fd, reply, SIZE_MAX) && strstr(reply, "\"status\":\"ok\"");
        usleep(1000);
    }
    return NULL;
}

static void test_everybody_at_once(void **state)
{
    (void)state;
    char body[512];
    pthread_t watcher;
    bool well = true;
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];
        c->index = i;
        body_of(i, "", body, sizeof body);
        assert_true(hear(ask("/v1/completions", body), c->alone, SIZE_MAX));
        c->want = text_of(c->alone);
        assert_non_null(c->want);
        assert_true(*c->want != '\0');
        for (int k = 0; k < i; k++)
            assert_string_not_equal(c->want, clients[k].want);
    }
    atomic_store(&watching, true);
    assert_int_equal(pthread_create(&watcher, NULL, watch_main, &well), 0);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main, &clients[i]), 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i].thread, NULL);
    atomic_store(&watching, false);
    pthread_join(watcher, NULL);
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i].failed)
            fail_msg("client %d: %s: %s", i, clients[i].failed, clients[i].reply);
    assert_true(well);
}

/* Nothing is left behind, though clients left their streams. */
static void test_idle_again(void **state)
{
    (void)state;
    uint32_t running = 1, waiting = 1;
    for (int i = 0; i < 10000 && running + waiting; i++) {
        engine_load(engine, &running, &waiting);
        usleep(1000);
    }
    assert_int_equal(running + waiting, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_at_once),
        cmocka_unit_test(test_idle_again),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
