/* server: starting and stopping. See server.h. */
#include "server/server.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "server/http/tls.h"
#include "server/private.h"
#include "server/rerank.h"

/* Cannot fail for so few bytes once the machine has booted. */
static void fill_random(void *to, size_t n)
{
    if (getrandom(to, n, 0) != (ssize_t)n)
        BUG("the system gives no random numbers");
}

uint64_t server_random(unsigned bits)
{
    uint64_t v;
    fill_random(&v, sizeof v);
    return bits < 64 ? v >> (64 - bits) : v;
}

void server_write_id(char *to, size_t cap, const char *prefix)
{
    uint8_t random[12];
    const size_t n = strlen(prefix);
    if (n + 2 * sizeof random >= cap)
        BUG("an id of %zu bytes", cap);
    fill_random(random, sizeof random);
    memcpy(to, prefix, n);
    to += n;
    for (size_t i = 0; i < sizeof random; i++) {
        *to++ = "0123456789abcdef"[random[i] >> 4];
        *to++ = "0123456789abcdef"[random[i] & 15];
    }
    *to = 0;
}

/* No token stands for more bytes than the longest piece, up to what normalisation may take away (composing characters
 * makes three bytes of nine at most). */
static size_t most_prompt_bytes(const struct tok *tok, uint32_t context)
{
    const size_t shrink = 4, least = 1u << 16;
    size_t longest = 1, n;
    for (size_t id = 0; id < tok_vocab(tok); id++) {
        (void)tok_bytes(tok, (tok_id)id, &n);
        longest = n > longest ? n : longest;
    }
    size_t bytes = mem_mul(longest * shrink, context);
    return bytes > least ? bytes : least;
}

/* What any grammar of a large vocabulary needs once takes seconds. A failure is the first request's to find. */
static void *warm(void *arg)
{
    struct server *s = arg;
    const struct grammar_source any = {.kind = GRAMMAR_JSON};
    struct grammar *g;
    struct err ignored;
    if (grammar_cache_get(s->grammars, &g, &any, &ignored) == ST_OK)
        grammar_free(g);
    return NULL;
}

static const struct http_watch watch = {
    .admit = server_admit,
    .came = server_keep_body,
    .sent = server_keep_reply,
    .over = server_over,
};

/* The threads made here take no signals: those belong to whoever started the server. */
static enum status start_http(struct server *s, const struct server_config *cfg, struct err *e)
{
    int fd;
    sigset_t all, before;
    TRY(server_listen(s, cfg, &fd, e));
    const struct http_config http = {
        .listen_fd = fd,
        .routes = server_routes,
        .refuse = server_refuse,
        .watch = &watch,
        .tls_cert = cfg->tls_cert,
        .tls_key = cfg->tls_key,
        .shared = cfg->inherited != 0,
        .app = s,
        .news_fd = engine_shared_fd(s->engine),
        .idle_s = cfg->idle_s ? cfg->idle_s : 30,
        .head_s = cfg->request_s ? cfg->request_s : 60,
        .body_s = cfg->request_s ? cfg->request_s : 120,
    };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum status st = http_new(&s->http, &http, e);
    s->warms = st == ST_OK && cfg->warm_grammars && pthread_create(&s->warmer, NULL, warm, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

/* Not a successor's, which may listen there by now. While the socket is open, no other file has its number. */
static void remove_socket(struct server *s)
{
    struct stat now;
    if (s->unix_path && lstat(s->unix_path, &now) == 0 && now.st_dev == s->unix_file.st_dev &&
        now.st_ino == s->unix_file.st_ino)
        (void)unlink(s->unix_path);
    free(s->unix_path);
    s->unix_path = NULL;
}

static void free_server(struct server *s)
{
    remove_socket(s);
    if (s->warms)
        pthread_join(s->warmer, NULL);
    grammar_cache_free(s->grammars);
    chat_tools_cache_free(s->tools);
    chat_template_free(s->rerank);
    server_replay_free(s->replay);
    server_responses_free(s->responses);
    server_sets_release(s);
    server_gate_release(&s->gate);
    server_request_log_free(s->log);
    free(s->model);
    free(s);
}

/* A template that cannot be used leaves a server that says so when it is asked to rank. */
static void make_rerank(struct server *s)
{
    struct err e;
    if (s->facts && s->facts->rerank_template &&
        server_rerank_template(&s->rerank, s->facts->rerank_template, s->facts->rerank_template_n, &e) != ST_OK)
        log_line(LOG_ERROR, "documents cannot be ranked: %s", e.text);
}

/* What calls and constraints need. */
static enum status make_tools(struct server *s, const struct server_config *cfg, struct err *e)
{
    if (cfg->tool_format && !(s->format = format_find(cfg->tool_format, strlen(cfg->tool_format))))
        return err_set(e, ST_ARGUMENT, "tool_format", "there is no tool format '%.40s'", cfg->tool_format);
    if (s->chat)
        TRY(chat_tools_cache_new(&s->tools, s->chat, e));
    return grammar_cache_new(&s->grammars, s->tok, e);
}

enum status server_start(struct server **out, const struct server_config *cfg, struct err *e)
{
    *out = NULL;
    struct server *s = calloc(1, sizeof *s);
    if (!s || !(s->model = strdup(cfg->model && cfg->model[0] ? cfg->model : "model"))) {
        free(s);
        return err_set(e, ST_NO_MEMORY, "", "no memory for the server");
    }
    s->engine = cfg->engine;
    s->tok = cfg->tok;
    s->chat = cfg->chat;
    s->strict_model = cfg->strict_model;
    s->no_web = cfg->no_web;
    s->tls = cfg->tls_cert != NULL;
    s->cache_per_key = cfg->cache_per_key;
    s->facts = cfg->facts;
    s->deadline_s = cfg->deadline_s;
    s->quiet_s = cfg->quiet_s;
    s->fill = cfg->fill;
    s->version = cfg->version ? cfg->version : "";
    s->isa = cfg->isa ? cfg->isa : "";
    s->prompt_bytes = cfg->engine ? most_prompt_bytes(cfg->tok, engine_context(cfg->engine)) : 0;
    s->started = clock_unix();
    make_rerank(s);
    json_object_seed(0); /* otherwise done on first use, by two threads at once */
    signal(SIGPIPE, SIG_IGN);
    enum status st = server_sets_init(s, e);
    if (st == ST_OK)
        st = make_tools(s, cfg, e);
    if (st == ST_OK && !cfg->no_replay && !cfg->silent)
        st = server_replay_new(&s->replay, e);
    if (st == ST_OK && !cfg->silent)
        st = server_responses_new(&s->responses, e);
    if (st == ST_OK && !cfg->silent)
        st = server_gate_init(&s->gate, cfg, e);
    if (st == ST_OK && !cfg->silent && cfg->request_log)
        st = server_request_log_new(&s->log, cfg->request_log, cfg->log_content, e);
    if (st == ST_OK && !cfg->silent)
        st = start_http(s, cfg, e);
    if (st != ST_OK) {
        free_server(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void server_reload(struct server *s)
{
    struct err e;
    if (s->gate.keys && server_keys_reload(s->gate.keys, &e) != ST_OK)
        log_line(LOG_ERROR, "the API keys stay as they were: %s", e.text);
    else if (s->gate.keys)
        log_line(LOG_INFO, "the API keys were read again");
    if (s->tls && http_tls_reload(&e) != ST_OK)
        log_line(LOG_ERROR, "the TLS certificate stays as it was: %s", e.text);
    else if (s->tls)
        log_line(LOG_INFO, "the TLS certificate was read again");
    if (s->log && server_request_log_reopen(s->log, &e) != ST_OK)
        log_line(LOG_ERROR, "%s; lines still go to the old one", e.text);
}

uint16_t server_port(const struct server *s)
{
    return s->port;
}

const char *server_url(const struct server *s)
{
    return s->url;
}

void server_drain(struct server *s)
{
    http_drain(s->http);
}

bool server_idle(const struct server *s)
{
    return http_idle(s->http);
}

void server_stop(struct server *s, uint32_t grace_s)
{
    const struct timespec nap = {.tv_nsec = 5000000};
    if (!s)
        return;
    if (!s->http) {
        free_server(s);
        return;
    }
    server_drain(s);
    const uint64_t until = clock_ns() + grace_s * 1000000000ull;
    while (!server_idle(s) && clock_ns() < until)
        nanosleep(&nap, NULL);
    remove_socket(s);
    http_free(s->http);
    free_server(s);
}
