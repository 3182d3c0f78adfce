/*
 * server_live: a server over server_fake.h, and a client that speaks raw HTTP to it.
 */
#ifndef TESTS_SERVER_LIVE_H
#define TESTS_SERVER_LIVE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "server_fake.h"

/* The text with its single quotes doubled: cases are easier to read so. Good until eight calls later. */
static inline const char *json(const char *s)
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

/* ---- over sockets ---- */

struct live {
    struct server *server;
    struct chat *chat;
};

/* The fakes never look into an engine, but there has to be one. */
static inline struct server_config config(const struct live *l)
{
    static char engine;
    return (struct server_config){.engine = (struct engine *)(void *)&engine, .chat = l->chat, .model = "some/model",
                                  .idle_s = 1, .request_s = 2};
}

static inline void start_with(struct live *l, const struct server_config *cfg)
{
    struct err e = {0};
    if (server_start(&l->server, cfg, &e) != ST_OK)
        fail_msg("%s", e.text);
}

static inline void start(struct live *l, bool strict)
{
    struct err e = {0};
    assert_int_equal(chat_new(&l->chat, NULL, "tools", 5, &e), ST_OK);
    struct server_config cfg = config(l);
    cfg.strict_model = strict;
    start_with(l, &cfg);
}

static inline void stop(struct live *l)
{
    server_stop(l->server, 1);
    chat_free(l->chat);
    assert_int_equal(atomic_load(&submitted), atomic_load(&closed));
}

static inline int dial(const struct live *l)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(server_port(l->server))};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

static inline void say(int fd, const char *s)
{
    size_t n = strlen(s);
    assert_int_equal(send(fd, s, n, MSG_NOSIGNAL), n);
}

/* Reads until the server closes; the caller frees. Fails after ten seconds. */
static inline char *hear(int fd)
{
    size_t n = 0, cap = 1 << 16;
    char *s = malloc(cap);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 10000) != 1)
            fail_msg("no reply");
        ssize_t got = recv(fd, s + n, cap - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        if (n + 1 == cap)
            s = realloc(s, cap *= 2);
    }
    s[n] = 0;
    close(fd);
    return s;
}

static inline char *post(const struct live *l, const char *path, const char *body)
{
    char head[300];
    int fd = dial(l);
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
             path, strlen(body));
    say(fd, head);
    say(fd, body);
    return hear(fd);
}

static inline char *chat(const struct live *l, const char *script_name, const char *more)
{
    char body[1000];
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]%s}", script_name, more);
    return post(l, "/v1/chat/completions", body);
}

static inline char *raw(const struct live *l, const char *request)
{
    int fd = dial(l);
    say(fd, request);
    return hear(fd);
}

/* Frees `reply`. */
static inline void expect(char *reply, int status, const char *part)
{
    char line[40];
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(reply, line, strlen(line)) != 0 || (part && !strstr(reply, part)))
        fail_msg("expected %d and '%s' in: %s", status, part ? part : "", reply);
    free(reply);
}

#endif
