/* ollama_fields: the members of a request of Ollama's API, apart from the conversation. */
#include <stdio.h>
#include <string.h>

#include "server/dialect/ollama.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* ---- what is refused unless it asks for nothing, and what is known ---- */

static const struct openai_refused refused[] = {
    {"context", NEUTRAL_EMPTY}, /* the ids of an earlier turn: a conversation belongs into /api/chat */
    {"images", NEUTRAL_EMPTY},
    {"shift", NEUTRAL_FALSE},    /* a context that is full is not shifted, */
    {"truncate", NEUTRAL_FALSE}, /* and a conversation that is too long is not cut */
    {"template", NEUTRAL_EMPTY},
    {"width", NEUTRAL_NULL},
    {"height", NEUTRAL_NULL},
    {"steps", NEUTRAL_NULL},
    {NULL, NEUTRAL_NULL},
};

static const struct openai_refused refused_options[] = {
    {"embedding_only", NEUTRAL_FALSE},
    {"logits_all", NEUTRAL_FALSE},
    {"tfs_z", NEUTRAL_ONE},
    {"vocab_only", NEUTRAL_FALSE},
    {NULL, NEUTRAL_NULL},
};

static const char *const known[] = {
    "model", "stream", "format", "options", "think", "keep_alive", "logprobs", "top_logprobs", "context", "images",
    "shift", "truncate", "template", "width", "height", "steps", "priority", "deadline_ms", "cache_salt",
    "prompt_cache_key", "ffwd", NULL,
};
static const char *const known_chat[] = {"messages", "tools", "tool_choice", "parallel_tool_calls", NULL};
static const char *const known_generate[] = {"prompt", "suffix", "system", "raw", NULL};

/* Beside openai_sampling_names. */
static const char *const known_options[] = {
    "num_predict", "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "numa", "low_vram",
    "f16_kv", "use_mmap", "use_mlock", "embedding_only", "logits_all", "tfs_z", "vocab_only", "penalize_newline",
    "stop", NULL,
};

/* ---- options ---- */

/* What is said of how a model is loaded, or kept when a context is shifted, which never happens here. */
static enum status check_loading(const json_t *options, struct err *e)
{
    static const char *const numbers[] = {"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread"};
    static const char *const switches[] = {"numa", "low_vram", "f16_kv", "use_mmap", "use_mlock"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t n;
        TRY(http_get_int(options, numbers[i], INT32_MIN, INT32_MAX, &n, e));
    }
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool on;
        TRY(http_get_bool(options, switches[i], &on, e));
    }
    return ST_OK;
}

static enum status parse_sampling(const json_t *options, struct reply_job *job, struct err *e)
{
    return openai_parse_sampling_over(options,
                                      json_pack("{s:f, s:i, s:f, s:f, s:i}", "temperature", 0.8, "top_k", 40, "top_p",
                                                0.9, "repeat_penalty", 1.1, "repeat_last_n", 64),
                                      job, e);
}

static enum status parse_these(const json_t *options, struct reply_job *job, struct ollama_request *out, struct err *e)
{
    int64_t most = -1, window = 0;
    bool newline = true;
    TRY(openai_refuse_fields(options, refused_options, e));
    TRY(check_loading(options, e));
    TRY(http_get_bool(options, "penalize_newline", &newline, e));
    if (!newline)
        return err_set(e, ST_UNSUPPORTED, "penalize_newline", "penalize_newline can only be true in this version");
    TRY(http_get_int(options, "num_predict", -2, INT32_MAX, &most, e)); /* below 1: as long as the context allows */
    TRY(http_get_int(options, "num_ctx", 0, INT32_MAX, &window, e));
    job->max_tokens = most > 0 ? (uint32_t)most : 0;
    out->window = (uint32_t)window;
    TRY(parse_sampling(options, job, e));
    return openai_parse_stops(options, job, e);
}

static enum status parse_options(const json_t *root, struct reply_job *job, struct ollama_request *out, struct err *e)
{
    const json_t *options = http_get(root, "options");
    struct err why = {0};
    if (options && !json_is_object(options))
        return http_wrong_type(options, "options", "an object", e);
    enum status st = parse_these(options, job, out, &why);
    if (st == ST_OK)
        return ST_OK;
    char field[ERR_FIELD];
    const bool named = strncmp(why.text, why.field, strlen(why.field)) == 0; /* the text begins with it */
    snprintf(field, sizeof field, "options.%.50s", why.field);
    return err_set(e, st, field, "%s%s", named ? "options." : "", why.text);
}

/* ---- the other members ---- */

/* A number of seconds or a text like "5m". *none: not at all. */
static enum status parse_keep_alive(const json_t *root, bool *none, struct err *e)
{
    const json_t *v = http_get(root, "keep_alive");
    const char *s = json_is_string(v) ? json_string_value(v) : "";
    *none = (json_is_number(v) && json_number_value(v) == 0) || (strchr(s, '0') && !strpbrk(s, "123456789"));
    if (v && !json_is_number(v) && !(json_is_string(v) && strpbrk(s, "0123456789")))
        return err_set(e, ST_ARGUMENT, "keep_alive",
                       "keep_alive must be a number of seconds or a duration like \"5m\"");
    return ST_OK;
}

enum status ollama_parse_loading(const json_t *root, uint32_t *window, struct err *e)
{
    struct ollama_request rq = {.window = 0};
    struct reply_job job;
    bool unload;
    server_job_init(&job);
    const enum status st = parse_options(root, &job, &rq, e);
    server_job_release(&job);
    *window = rq.window;
    return st == ST_OK ? parse_keep_alive(root, &unload, e) : st;
}

static enum status parse_think(const json_t *root, struct ollama_request *out, struct err *e)
{
    static const char *const levels[] = {"low", "medium", "high"};
    const json_t *v = http_get(root, "think");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (is_string(v, levels[i]))
            out->level = levels[i];
    if (v && !json_is_boolean(v) && !out->level)
        return err_set(e, ST_ARGUMENT, "think", "think must be true, false, 'low', 'medium' or 'high'");
    out->thinking = !v ? OLLAMA_UNSAID : out->level || json_is_true(v) ? OLLAMA_ON : OLLAMA_OFF;
    return ST_OK;
}

static enum status parse_format(const json_t *root, struct text_view body, struct server_constraint *out, struct err *e)
{
    static const char field[] = "format";
    const json_t *v = http_get(root, field);
    if (!v || is_string(v, ""))
        return ST_OK;
    if (!json_is_object(v) && !is_string(v, "json"))
        return err_set(e, ST_ARGUMENT, field, "format must be \"json\" or a JSON Schema");
    const struct cut schema = chat_cut_member(chat_cut_text(body.data, body.n), field);
    *out = (struct server_constraint){.field = field, .kind = json_is_object(v) ? GRAMMAR_SCHEMA : GRAMMAR_JSON};
    if (json_is_object(v))
        out->text = (struct text_view){schema.s, schema.n};
    return ST_OK;
}

static enum status parse_logprobs(const json_t *root, struct reply_job *job, struct err *e)
{
    bool logprobs = false;
    int64_t top = 0;
    TRY(http_get_bool(root, "logprobs", &logprobs, e));
    TRY(http_get_int(root, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &top, e));
    job->logprobs = logprobs || top ? (uint32_t)top + 1 : 0;
    return ST_OK;
}

static enum status parse_generate(const json_t *root, struct ollama_request *out, struct err *e)
{
    const char *prompt = "", *system = "";
    size_t prompt_n = 0, system_n = 0;
    TRY(http_get_bool(root, "raw", &out->raw, e));
    TRY(http_get_string(root, "prompt", &prompt, &prompt_n, e));
    TRY(http_get_string(root, "system", &system, &system_n, e));
    TRY(http_get_string(root, "suffix", &out->suffix.data, &out->suffix.n, e));
    if (out->raw && system_n)
        return err_set(e, ST_ARGUMENT, "system", "system is part of the prompt where raw is true");
    if (out->suffix.n && (out->raw || system_n))
        return err_set(e, ST_ARGUMENT, "suffix", "suffix cannot be combined with raw and system");
    out->nothing = !prompt_n && !out->suffix.n;
    return ST_OK;
}

static enum status parse_chat(const json_t *root, struct ollama_request *out, struct err *e)
{
    const json_t *messages = http_get(root, "messages");
    if (messages && !json_is_array(messages))
        return http_wrong_type(messages, "messages", "an array", e);
    out->nothing = !json_array_size(messages);
    TRY(openai_parse_tools(root, &out->tools, e));
    if (out->tools.n && out->format.field)
        return err_set(e, ST_UNSUPPORTED, "format", "format cannot be combined with tools by this version");
    return ST_OK;
}

enum status ollama_parse(const json_t *root, struct text_view body, bool chat, struct reply_job *job,
                         struct ollama_request *out, struct err *e)
{
    bool unload;
    *out = (struct ollama_request){.chat = chat};
    job->stream = true; /* unless it says otherwise */
    TRY(openai_refuse_fields(root, refused, e));
    TRY(parse_options(root, job, out, e));
    TRY(parse_think(root, out, e));
    TRY(parse_format(root, body, &out->format, e));
    TRY(parse_logprobs(root, job, e));
    TRY(http_get_bool(root, "stream", &job->stream, e));
    TRY(chat ? parse_chat(root, out, e) : parse_generate(root, out, e));
    TRY(parse_keep_alive(root, &unload, e));
    if (unload && out->nothing)
        return err_set(e, ST_UNSUPPORTED, "keep_alive", "keep_alive: the model of this server cannot be unloaded");
    server_log_ignored_beside(chat ? "/api/chat" : "/api/generate", root, known, chat ? known_chat : known_generate);
    server_log_ignored_beside("options of Ollama's API", http_get(root, "options"), known_options, openai_sampling_names);
    return openai_parse_extra(root, job, e);
}

/* ---- the body ---- */

/* A name may come with the tag that Ollama adds to names without one. */
static bool is_model(const struct server *srv, const char *name, size_t n)
{
    static const char tag[] = ":latest";
    const size_t own = strlen(srv->model), end = sizeof tag - 1;
    return n >= own && memcmp(name, srv->model, own) == 0 &&
           (n == own || (n == own + end && memcmp(name + own, tag, end) == 0));
}

json_t *ollama_body(struct http_call *call)
{
    const struct server *srv = call->app;
    const char *name = "";
    struct err e;
    json_t *root;
    size_t n = 0;
    if (http_json_parse(call->body.data, call->body.len, &root, &e) != ST_OK) {
        ollama_refuse(call, 0, &e);
        return NULL;
    }
    int status = 0;
    enum status st = http_get_string(root, "name", &name, &n, &e);
    if (st == ST_OK) /* where both are there, this one counts */
        st = http_get_string(root, "model", &name, &n, &e);
    if (st == ST_OK && srv->strict_model && !is_model(srv, name, n)) {
        status = 404;
        st = err_set(&e, ST_ARGUMENT, "model", "model '%.80s' not found; there is only '%.80s' here", name, srv->model);
    }
    if (st == ST_OK)
        return root;
    ollama_refuse(call, status, &e);
    json_decref(root);
    return NULL;
}
