/* openai_fields: the request fields that chat and completions share, and those that are refused. */
#include <stdio.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

/* ---- refused unless they ask for nothing ---- */

static bool asks_nothing(const json_t *v, enum openai_neutral neutral)
{
    switch (neutral) {
    case NEUTRAL_ZERO:
        return json_is_number(v) && json_number_value(v) == 0;
    case NEUTRAL_ONE:
        return json_is_number(v) && json_number_value(v) == 1;
    case NEUTRAL_FALSE:
        return json_is_false(v);
    case NEUTRAL_EMPTY:
        return (json_is_object(v) && !json_object_size(v)) || (json_is_array(v) && !json_array_size(v)) ||
               (json_is_string(v) && !json_string_length(v));
    default:
        return false;
    }
}

enum status openai_refuse_fields(const json_t *root, const struct openai_refused *list, struct err *e)
{
    for (; list->name; list++) {
        const json_t *v = http_get(root, list->name);
        if (!v || asks_nothing(v, list->neutral))
            continue;
        if ((list->neutral == NEUTRAL_ZERO || list->neutral == NEUTRAL_ONE) && !json_is_number(v))
            return http_wrong_type(v, list->name, "a number", e);
        if (list->neutral == NEUTRAL_FALSE && !json_is_boolean(v))
            return http_wrong_type(v, list->name, "a boolean", e);
        return err_set(e, ST_UNSUPPORTED, list->name, "%s is not supported by this version", list->name);
    }
    return ST_OK;
}

static const struct openai_refused refused[] = {
    /* extensions of other servers that constrain the reply in ways openai_constraint.c does not know */
    {"allowed_token_ids", NEUTRAL_NULL},
    {"bad_words", NEUTRAL_EMPTY},
    {"grammar_lazy", NEUTRAL_FALSE},
    {"grammar_triggers", NEUTRAL_EMPTY},
    {"guided_whitespace_pattern", NEUTRAL_NULL},
    {"logits_processors", NEUTRAL_EMPTY},
    {"stop_regex", NEUTRAL_EMPTY},
    {"stop_token_ids", NEUTRAL_EMPTY},
    {"structural_tag", NEUTRAL_NULL},
    /* and those that choose its tokens in another way, or would show in it */
    {"include_stop_str_in_output", NEUTRAL_FALSE},
    {"length_penalty", NEUTRAL_ONE},
    {"prompt_logprobs", NEUTRAL_NULL},
    {"truncate_prompt_tokens", NEUTRAL_NULL},
    {"use_beam_search", NEUTRAL_FALSE},
    {NULL, NEUTRAL_NULL},
};

enum status openai_refuse_extensions(const json_t *root, struct err *e)
{
    return openai_refuse_fields(root, refused, e);
}

/* ---- limits ---- */

static enum status parse_max_tokens(const json_t *root, struct reply_job *job, struct err *e)
{
    const int64_t absent = -1, least = job->echo ? 0 : 1;
    int64_t old = absent, now = absent;
    TRY(http_get_int(root, "max_tokens", least, INT32_MAX, &old, e));
    TRY(http_get_int(root, "max_completion_tokens", least, INT32_MAX, &now, e));
    if (old != absent && now != absent && old != now)
        return err_set(e, ST_ARGUMENT, "max_tokens", "max_tokens and max_completion_tokens contradict each other");
    int64_t most = now != absent ? now : old;
    job->nothing = most == 0;
    job->max_tokens = most > 0 ? (uint32_t)most : 0;
    return ST_OK;
}

static enum status parse_stop(const json_t *v, const char *field, struct reply_job *job, struct err *e)
{
    if (!json_is_string(v))
        return http_wrong_type(v, field, "a string", e);
    size_t n = json_string_length(v);
    if (!n || n > LIMIT_STOP_BYTES - 1)
        return err_set(e, ST_ARGUMENT, field, "%s must have between 1 and %u bytes, not %zu", field,
                       LIMIT_STOP_BYTES - 1, n);
    job->stops[job->stops_n++] = (struct request_stop){json_string_value(v), n};
    return ST_OK;
}

enum status openai_parse_stops(const json_t *root, struct reply_job *job, struct err *e)
{
    const json_t *v = http_get(root, "stop");
    if (!v || json_is_string(v))
        return v ? parse_stop(v, "stop", job, e) : ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, "stop", "a string or an array of strings", e);
    if (json_array_size(v) > LIMIT_STOPS)
        return err_set(e, ST_ARGUMENT, "stop", "stop has more than %u entries", LIMIT_STOPS);
    for (size_t i = 0; i < json_array_size(v); i++) {
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "stop[%zu]", i);
        TRY(parse_stop(json_array_get(v, i), field, job, e));
    }
    return ST_OK;
}

enum status openai_check_obfuscation(const json_t *options, struct err *e)
{
    static const char field[] = "stream_options.include_obfuscation";
    bool obfuscation = false;
    if (http_get_bool(options, "include_obfuscation", &obfuscation, e) != ST_OK)
        return http_wrong_type(http_get(options, "include_obfuscation"), field, "a boolean", e);
    return obfuscation ? err_set(e, ST_UNSUPPORTED, field, "%s is not supported by this version", field) : ST_OK;
}

static enum status parse_stream(const json_t *root, struct reply_job *job, struct err *e)
{
    TRY(http_get_bool(root, "stream", &job->stream, e));
    TRY(http_get_bool(root, "return_progress", &job->progress, e));
    const json_t *o = http_get(root, "stream_options");
    if (!o)
        return ST_OK;
    if (!json_is_object(o))
        return http_wrong_type(o, "stream_options", "an object", e);
    if (!job->stream)
        return err_set(e, ST_ARGUMENT, "stream_options", "stream_options is only allowed when stream is true");
    enum status st = http_get_bool(o, "include_usage", &job->include_usage, e);
    if (st != ST_OK)
        return err_set(e, st, "stream_options.include_usage", "stream_options.include_usage must be a boolean");
    return openai_check_obfuscation(o, e);
}

enum status openai_parse_common(const json_t *root, struct reply_job *job, struct err *e)
{
    int64_t n = 1;
    TRY(openai_refuse_extensions(root, e));
    TRY(parse_max_tokens(root, job, e));
    TRY(openai_parse_sampling(root, job, e));
    TRY(openai_parse_stops(root, job, e));
    TRY(parse_stream(root, job, e));
    TRY(openai_parse_extra(root, job, e));
    TRY(http_get_int(root, "n", 1, LIMIT_PARTS, &n, e));
    TRY(http_get_bool(root, "ignore_eos", &job->ignore_eos, e));
    job->n = (uint32_t)n;
    return ST_OK;
}

/* ---- the body ---- */

enum status openai_check_model(const struct server *srv, const json_t *root, bool *other, struct err *e)
{
    const char *name = NULL;
    size_t n = 0;
    TRY(http_get_string(root, "model", &name, &n, e));
    if (!srv->strict_model)
        return ST_OK;
    if (!name)
        return err_set(e, ST_ARGUMENT, "model", "model is missing");
    if (n == strlen(srv->model) && memcmp(name, srv->model, n) == 0)
        return ST_OK;
    *other = true;
    return err_set(e, ST_ARGUMENT, "model", "there is no model '%.80s' here, only '%.80s'", name, srv->model);
}

json_t *openai_body(struct http_call *call)
{
    struct err e;
    json_t *root;
    bool other = false;
    if (http_json_parse(call->body.data, call->body.len, &root, &e) != ST_OK) {
        openai_refuse(call, 0, e.code == ST_ARGUMENT ? "invalid_json" : NULL, &e);
        return NULL;
    }
    if (openai_check_model(call->app, root, &other, &e) != ST_OK) {
        openai_refuse(call, other ? 404 : 0, other ? "model_not_found" : NULL, &e);
        json_decref(root);
        return NULL;
    }
    return root;
}
