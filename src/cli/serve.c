/*
 * serve: the HTTP server on the terminal's terms: where it listens, until when it runs.
 *
 * Signals are not handled but waited for, by the main thread; every other thread blocks them. SIGINT and SIGTERM let
 * requests under way finish, a second one ends them; SIGHUP reads again what may change and opens log files anew.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chat/chat.h"
#include "cli/cli.h"
#include "cli/curve.h"
#include "cli/facts.h"
#include "cli/service.h"
#include "cli/sources.h"
#include "engine/engine.h"
#include "ffwd.h"
#include "format/format.h"
#include "kern/kern.h"
#include "model/model.h"
#include "server/server.h"

#define DEFAULT_PORT 8080u
#define NO_PORT 65536u               /* none was given */
#define GRACE_MAX 86400u             /* seconds */
#define LOOK_NS 20000000u            /* how often a server that stops is asked whether it is idle */
#define SECOND_SIGNAL_NS 500000000u  /* two signals closer together are one wish; see out.c */
#define LEAST_DRAIN_NS 300000000ull /* even an idle server says for a moment that it stops: clients may be connecting */

struct options {
    const char *model, *host, *model_name, *cost_file, *log_file;
    const char *sources, *tool_format, *draft_model;
    const char *unix_path, *unix_mode, *key_file, *request_log, *tls_cert, *tls_key;
    struct opt_list hosts, origins;
    int inherited; /* not an option: the socket that was passed; 0 = none */
    uint32_t port, ctx, rows, queue, threads, kv, kv_budget, itl, deadline, grace, fill, keep_alive, pooling;
    bool strict_model, no_prefix_cache, cache_per_key, no_packed_cache, no_web, without_keys, mlock, log_content;
};

static sigset_t watched; /* the signals that the main thread waits for */

static const struct opt opts[] = {
    CLI_OPT_MODEL_OR_DEFAULT(struct options),
    {"host", 0, OPT_STR, offsetof(struct options, host), 0, 0, "HOST", "address to listen on (127.0.0.1)"},
    {"port", 0, OPT_U32, offsetof(struct options, port), 0, 65535, "PORT", "port to listen on (8080); 0 = any free one"},
    {"unix", 0, OPT_STR, offsetof(struct options, unix_path), 0, 0, "PATH", "listen on a UNIX socket instead"},
    {"unix-mode", 0, OPT_STR, offsetof(struct options, unix_mode), 0, 0, "MODE",
     "who may connect to it, in octal as for chmod (600: only this user)"},
    {"tls-cert", 0, OPT_STR, offsetof(struct options, tls_cert), 0, 0, "FILE",
     "HTTPS: the certificate in PEM, with those that lead to its authority behind it; read again when it changes"},
    {"tls-key", 0, OPT_STR, offsetof(struct options, tls_key), 0, 0, "FILE", "its key in PEM"},
    {"api-key-file", 0, OPT_STR, offsetof(struct options, key_file), 0, 0, "FILE",
     "API keys, one of which every request needs: one a line, with name=, rpm=, tpm=, concurrent= behind it; read again "
     "when it changes"},
    {"without-keys", 0, OPT_FLAG, offsetof(struct options, without_keys), 0, 0, NULL,
     "needs no key even where other machines can reach it"},
    {"allow-host", 0, OPT_LIST, offsetof(struct options, hosts), 0, 0, "NAME",
     "answer to this name (Host header) beside addresses, localhost and --host; * = to any. May be given several times"},
    {"cors", 0, OPT_LIST, offsetof(struct options, origins), 0, 0, "ORIGIN",
     "web pages that may use the server, as https://example.com; * = all. May be given several times"},
    CLI_OPT_CTX(struct options),
    {"rows", 0, OPT_U32, offsetof(struct options, rows), 1, LIMIT_ROWS, "N", "requests that run at the same time (8)"},
    {"queue", 0, OPT_U32, offsetof(struct options, queue), 1, LIMIT_QUEUE, "N",
     "requests that may wait (256); beyond that the answer is 429"},
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    CLI_OPT_KV(struct options),
    {"kv-budget", 0, OPT_U32, offsetof(struct options, kv_budget), 1, UINT32_MAX, "MB",
     "memory for keys and values, of running requests and of kept prefixes (default: half of what is free, at most what "
     "all rows can fill)"},
    {"no-prefix-cache", 0, OPT_FLAG, offsetof(struct options, no_prefix_cache), 0, 0, NULL,
     "nothing is reused between requests"},
    {"cache-per-key", 0, OPT_FLAG, offsetof(struct options, cache_per_key), 0, 0, NULL,
     "requests with different API keys (Authorization headers) never share what was computed"},
    {"itl", 0, OPT_U32, offsetof(struct options, itl), 1, LIMIT_ITL_MS, "MS",
     "how long a step may take while replies are being written (50): the prompts of others are cut to fit"},
    {"cost-file", 0, OPT_STR, offsetof(struct options, cost_file), 0, 0, "FILE",
     "what steps cost, as `info --cost --json` printed it; not corrected by real steps"},
    {"fill", 0, OPT_CHOICE, offsetof(struct options, fill), 0, 0, "lossless|off|strict",
     "what requests that name none get: known tokens are taken without changing the reply (lossless); one token a step "
     "(off); what the chat template determines is taken without asking the sampler, too (strict)"},
    {"sources", 0, OPT_STR, offsetof(struct options, sources), 0, 0, "LIST",
     "what may propose tokens: some of grammar,grammar_likely,template,echo,ngram,draft (all); none = nothing may"},
    {"draft-model", 0, OPT_STR, offsetof(struct options, draft_model), 0, 0, "FILE",
     "a smaller model of the same vocabulary, which proposes tokens (default: none)"},
    {"pooling", 0, OPT_CHOICE, offsetof(struct options, pooling), 0, 0, "model|mean|cls|last|rank",
     "what vectors of texts are made of (/v1/embeddings): as the model's file says (model); the mean of all states, the "
     "first (cls) or the last; rank is for /v1/rerank"},
    {"tool-format", 0, OPT_STR, offsetof(struct options, tool_format), 0, 0, "NAME",
     "how the model writes tool calls (default: as its chat template does)"},
    {"deadline", 0, OPT_U32, offsetof(struct options, deadline), 0, LIMIT_DEADLINE_MS / 1000, "S",
     "seconds any request may take, waiting included; its own deadline_ms can only be shorter (0 = no limit)"},
    {"keep-alive", 0, OPT_U32, offsetof(struct options, keep_alive), 0, 3600, "S",
     "a stream without news for so many seconds says so, that proxies may not take it for dead (15); 0 = never"},
    {"model-name", 0, OPT_STR, offsetof(struct options, model_name), 0, 0, "NAME",
     "the model's name as clients see it (default: the file's name without .gguf)"},
    {"strict-model", 0, OPT_FLAG, offsetof(struct options, strict_model), 0, 0, NULL,
     "a request that names another model is an error"},
    {"no-web", 0, OPT_FLAG, offsetof(struct options, no_web), 0, 0, NULL, "no web page at /"},
    {"grace", 0, OPT_U32, offsetof(struct options, grace), 0, GRACE_MAX, "S",
     "seconds that requests under way may go on after the first SIGINT or SIGTERM (30)"},
    {"log-file", 0, OPT_STR, offsetof(struct options, log_file), 0, 0, "FILE",
     "append log lines to this file instead of stderr; SIGHUP opens it anew"},
    {"log-requests", 0, OPT_STR, offsetof(struct options, request_log), 0, 0, "FILE",
     "append a line of JSON for each request to this file; SIGHUP opens it anew"},
    {"log-content", 0, OPT_FLAG, offsetof(struct options, log_content), 0, 0, NULL,
     "those lines hold what was asked and replied, too"},
    {"mlock", 0, OPT_FLAG, offsetof(struct options, mlock), 0, 0, NULL,
     "what was loaded is never swapped out (needs `ulimit -l` as large)"},
};
static const struct opt_verb verb = {
    "serve",
    "Serves a model over HTTP with OpenAI's API (chat completions, completions, Responses), Anthropic's Messages API, "
    "Ollama's API and llama-server's own. The first SIGINT or SIGTERM lets requests under way finish, a second one half a "
    "second later or more ends them.",
    "[-m FILE] [OPTIONS]", opts, sizeof opts / sizeof *opts};

/* The file's name without its folder and ending. */
static void default_name(const struct api_model *m, char *out, size_t cap)
{
    const char *path = weights_path(m->weights), *slash = strrchr(path, '/');
    snprintf(out, cap, "%s", slash ? slash + 1 : path);
    size_t n = strlen(out);
    if (n > 5 && strcmp(out + n - 5, ".gguf") == 0)
        out[n - 5] = '\0';
}

/* Whether the name is a format's; if not, says which there are. */
static bool known_format(const char *name, int *status)
{
    char names[400] = "";
    const char *one;
    size_t n = 0;
    if (!name || format_find(name, strlen(name)))
        return true;
    for (size_t i = 0; (one = format_name_at(i)) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, i ? ", %s" : "%s", one);
    *status = opt_wrong(&verb, "--tool-format must be one of %s, not '%s'", names, name);
    return false;
}

/* ---- where it listens ---- */

/* Octal digits as for chmod; UINT32_MAX when it is something else. */
static uint32_t unix_mode(const char *s)
{
    uint32_t mode = 0;
    if (!s)
        return 0600;
    for (const char *at = s; *at; at++) {
        if (*at < '0' || *at > '7' || at - s > 3)
            return UINT32_MAX;
        mode = mode * 8 + (uint32_t)(*at - '0');
    }
    return *s && mode <= 0777 ? mode : UINT32_MAX;
}

/* Options that belong together or exclude each other. Takes the socket that was passed. False: end with *status. */
static bool check_options(struct options *o, int *status)
{
    const bool tcp = o->host || o->port != NO_PORT;
    struct err e = {0};
    if (service_socket(&o->inherited, &e) != ST_OK) {
        *status = cli_fail(&e);
        return false;
    }
    if (o->inherited && (tcp || o->unix_path || o->unix_mode))
        *status = opt_wrong(&verb, "a socket was passed to this process: --host, --port, --unix, --unix-mode mean nothing");
    else if (o->unix_path && tcp)
        *status = opt_wrong(&verb, "--unix takes the place of --host and --port");
    else if (o->unix_mode && (!o->unix_path || unix_mode(o->unix_mode) == UINT32_MAX))
        *status = opt_wrong(&verb, "--unix-mode must be up to 777 in octal, and belongs to --unix");
    else if (o->key_file && o->without_keys)
        *status = opt_wrong(&verb, "--api-key-file and --without-keys contradict each other");
    else if (!o->tls_cert != !o->tls_key)
        *status = opt_wrong(&verb, "--tls-cert and --tls-key belong together");
    else if (o->log_content && !o->request_log)
        *status = opt_wrong(&verb, "--log-content belongs to --log-requests");
    else
        return true;
    return false;
}

/* ---- until when it runs ---- */

/* Where it has nothing to do, SIGHUP ends the process, as it does everywhere. */
static void watch_signals(const struct options *o)
{
    sigemptyset(&watched);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    if (o->log_file || o->key_file || o->request_log || o->tls_cert || service_is_managed())
        sigaddset(&watched, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &watched, NULL);
}

static void reload(const struct options *o, struct server *s)
{
    struct err e;
    service_notify_reloading();
    if (log_reopen(&e) != ST_OK)
        log_line(LOG_ERROR, "%s; lines still go to the old one", e.text);
    else if (o->log_file)
        log_line(LOG_INFO, "the log file was opened anew");
    server_reload(s);
    service_notify("READY=1");
}

/* SIGINT or SIGTERM, or 0 when none came within `ns` (0 = wait for ever). SIGHUP is served here. */
static int wait_signal(const struct options *o, struct server *s, uint64_t ns)
{
    const struct timespec limit = {.tv_nsec = (long)ns};
    for (;;) {
        int sig = ns ? sigtimedwait(&watched, NULL, &limit) : sigwaitinfo(&watched, NULL);
        if (sig == SIGHUP)
            reload(o, s);
        else if (sig > 0)
            return sig;
        else if (errno == EAGAIN)
            return 0;
    }
}

/* Until nothing is under way, the grace is over, or somebody insists: then the signal, otherwise 0. */
static int drain(const struct options *o, struct server *s)
{
    const uint64_t from = clock_ns(), until = from + o->grace * 1000000000ull;
    server_drain(s);
    while ((!server_idle(s) || clock_ns() - from < LEAST_DRAIN_NS) && clock_ns() < until) {
        int sig = wait_signal(o, s, LOOK_NS);
        if (sig && clock_ns() - from > SECOND_SIGNAL_NS)
            return sig;
    }
    return 0;
}

/* Ends the process as the signal would have. */
static void die_of(int sig)
{
    signal(sig, SIG_DFL);
    raise(sig);
    pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
}

static void run_until_signal(const struct options *o, struct server *s)
{
    (void)wait_signal(o, s, 0);
    fprintf(stderr, "stopping; requests under way have %u s\n", o->grace);
    log_line(LOG_INFO, "stopping; requests under way have %u s", o->grace);
    service_notify("STOPPING=1");
    int second = drain(o, s);
    server_stop(s, 0);
    log_line(LOG_INFO, "stopped");
    if (second)
        die_of(second);
}

static int serve(const struct api_model *m, const struct options *o, struct engine *engine)
{
    char name[256];
    struct server_facts facts;
    default_name(m, name, sizeof name);
    cli_facts(m, &facts);
    struct server_config c = {.host = o->host,
                              .port = (uint16_t)(o->port == NO_PORT ? DEFAULT_PORT : o->port),
                              .unix_path = o->unix_path,
                              .unix_mode = unix_mode(o->unix_mode),
                              .inherited = o->inherited,
                              .key_file = o->key_file,
                              .without_keys = o->without_keys,
                              .hosts = o->hosts.item,
                              .hosts_n = o->hosts.n,
                              .origins = o->origins.item,
                              .origins_n = o->origins.n,
                              .tls_cert = o->tls_cert,
                              .tls_key = o->tls_key,
                              .request_log = o->request_log,
                              .log_content = o->log_content,
                              .engine = engine,
                              .tok = m->tok,
                              .chat = m->chat,
                              .model = o->model_name ? o->model_name : name,
                              .facts = &facts,
                              .strict_model = o->strict_model,
                              .cache_per_key = o->cache_per_key,
                              .no_web = o->no_web,
                              .no_replay = o->no_prefix_cache, /* without kept prefixes it would bring nothing */
                              .deadline_s = o->deadline,
                              .quiet_s = o->keep_alive,
                              .tool_format = o->tool_format,
                              .warm_grammars = true,
                              .fill = (enum fill_mode)o->fill, /* the words are in the order of the enum */
                              .version = FFWD_VERSION,
                              .isa = m->ops->name};
    struct server *s;
    struct err e = {0};
    if (server_start(&s, &c, &e) != ST_OK)
        return cli_fail(&e);
    if (o->mlock && service_lock_memory(&e) != ST_OK) {
        server_stop(s, 0);
        return cli_fail(&e);
    }
    if (m->chat_err.code != ST_OK)
        fprintf(stderr, "ffwd: chat requests will be refused: %s\n", m->chat_err.text);
    fprintf(stderr, "listening on %s\n", server_url(s));
    fprintf(stderr, "context %u, up to %zu MB of keys and values%s\n", engine_context(engine),
            engine_kv_bytes(engine) >> 20, o->no_prefix_cache ? "" : ", in which prefixes are kept");
    fprintf(stderr, "weights %zu MB, %s; %zu MB of this process in huge pages\n", model_info(m->model)->weight_bytes >> 20,
            cli_panels(model_info(m->model)->panels), (size_t)(mem_huge() >> 20));
    log_line(LOG_INFO, "listening on %s", server_url(s));
    service_notify("READY=1");
    run_until_signal(o, s);
    return 0;
}

/* Everything but the models, which the caller closes. */
static int serve_models(const struct api_model *m, const struct api_model *draft, const struct options *o, uint32_t off)
{
    struct engine *engine;
    struct engine_cost cost;
    struct err e = {0};
    if (curve_choose(o->cost_file, m, &cost, &e) != ST_OK)
        return cli_fail(&e);
    struct engine_config c = {.model = m->model,
                              .tok = m->tok,
                              .pool = m->pool,
                              .kv_format = o->kv ? KERN_KV_F32 : KERN_KV_F16,
                              .context = o->ctx,
                              .rows = o->rows,
                              .queue = o->queue,
                              .kv_budget = (size_t)o->kv_budget << 20,
                              .no_prefix_cache = o->no_prefix_cache,
                              .itl_ms = o->itl,
                              .cost = &cost,
                              .pooling = (enum model_pooling)o->pooling, /* in the order of the enum */
                              .draft = draft->model,
                              .sources_off = off};
    if (engine_new(&engine, &c, &e) != ST_OK)
        return cli_fail(&e);
    int status = serve(m, o, engine);
    engine_free(engine);
    return status;
}

/* The draft model needs its tokenizer to be compared with the model's. */
static enum status load(const struct options *o, struct api_model *m, struct api_model *draft, struct err *e)
{
    TRY(cli_load(m, o->model, o->threads, API_MODEL | API_TOK | API_CHAT, o->no_packed_cache, e));
    return sources_load_draft(draft, o->draft_model, o->threads, o->no_packed_cache, m, e);
}

int verb_serve(int argc, char **argv)
{
    struct options o = {.port = NO_PORT, .grace = 30, .keep_alive = 15};
    int status;
    uint32_t off;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!sources_parse(o.sources, &off))
        return opt_wrong(&verb, SOURCES_WRONG, o.sources);
    if (!known_format(o.tool_format, &status) || !check_options(&o, &status))
        return status;
    struct api_model m = {0}, draft = {0};
    struct err e = {0};
    if (o.log_file && log_open(o.log_file, &e) != ST_OK)
        return cli_fail(&e);
    if (o.log_file)
        log_set_level(LOG_INFO);
    if (load(&o, &m, &draft, &e) == ST_OK) {
        watch_signals(&o); /* before any thread that would inherit another mask */
        status = serve_models(&m, &draft, &o, off);
    } else {
        status = cli_fail(&e);
    }
    api_close(&draft);
    api_close(&m);
    return status;
}
