/* anthropic_fields: the members of a request of the Messages API, apart from the conversation and the tools. */
#include <stdio.h>
#include <string.h>

#include "server/dialect/anthropic.h"
#include "server/dialect/openai.h"
#include "server/http/json_in.h"

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* ---- what is refused, and what is ignored ---- */

/* Asks for something that a server of the API would do by itself. */
static enum status refuse_fields(const json_t *root, struct err *e)
{
    static const char *const fields[] = {"container", "context_management", "diagnostics", "inference_geo", "mcp_servers"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *v = http_get(root, fields[i]);
        if (v && !(json_is_array(v) && !json_array_size(v)))
            return err_set(e, ST_UNSUPPORTED, fields[i], "%s is not supported by this version", fields[i]);
    }
    const json_t *speed = http_get(root, "speed");
    if (speed && !is_string(speed, "standard"))
        return err_set(e, ST_UNSUPPORTED, "speed", "speed can only be 'standard' here");
    return ST_OK;
}

/* Fields that ask for nothing a client could notice. */
static enum status check_accepted(const json_t *root, struct err *e)
{
    const json_t *metadata = http_get(root, "metadata"), *tier = http_get(root, "service_tier");
    const json_t *cache = http_get(root, "cache_control");
    if (metadata && !json_is_object(metadata))
        return http_wrong_type(metadata, "metadata", "an object", e);
    const json_t *user = http_get(metadata, "user_id");
    if (user && !json_is_string(user))
        return http_wrong_type(user, "metadata.user_id", "a string", e);
    if (tier && !is_string(tier, "auto") && !is_string(tier, "standard_only"))
        return err_set(e, ST_ARGUMENT, "service_tier", "service_tier must be 'auto' or 'standard_only'");
    return cache && !json_is_object(cache) ? http_wrong_type(cache, "cache_control", "an object", e) : ST_OK;
}

static const char *const known[] = { /* all others are ignored */
    "model", "messages", "max_tokens", "system", "tools", "tool_choice", "stop_sequences", "stream", "temperature",
    "top_p", "top_k", "metadata", "thinking", "service_tier", "cache_control", "output_config", "container",
    "context_management", "inference_geo", "mcp_servers", "speed", "ffwd", "cache_salt", "deadline_ms", "priority",
    "prompt_cache_key", "diagnostics", NULL,
};

/* ---- how tokens are chosen ---- */

static enum status parse_share(const json_t *root, const char *name, float *to, struct err *e)
{
    double x = (double)*to;
    TRY(http_get_number(root, name, &x, e));
    if (!(x >= 0 && x <= 1))
        return err_set(e, ST_ARGUMENT, name, "%s must be between 0 and 1", name);
    *to = (float)x;
    return ST_OK;
}

static enum status parse_sampling(const json_t *root, struct sample_params *s, struct err *e)
{
    int64_t top_k = 0;
    TRY(parse_share(root, "temperature", &s->temperature, e));
    TRY(parse_share(root, "top_p", &s->top_p, e));
    TRY(http_get_int(root, "top_k", 0, INT32_MAX, &top_k, e));
    if (s->top_p < 1e-30f) /* nothing but the likeliest token */
        s->top_p = 1e-30f;
    s->top_k = (uint32_t)top_k;
    s->seed = server_random(53);
    return sample_check(s, INT32_MAX, e);
}

static enum status parse_stops(const json_t *root, struct reply_job *job, struct err *e)
{
    const json_t *v = http_get(root, "stop_sequences");
    if (!v)
        return ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, "stop_sequences", "an array of strings", e);
    if (json_array_size(v) > LIMIT_STOPS)
        return err_set(e, ST_ARGUMENT, "stop_sequences", "stop_sequences has more than %u entries", LIMIT_STOPS);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "stop_sequences[%zu]", i);
        if (!json_is_string(one))
            return http_wrong_type(one, field, "a string", e);
        size_t n = json_string_length(one);
        if (!n || n > LIMIT_STOP_BYTES - 1)
            return err_set(e, ST_ARGUMENT, field, "%s must have between 1 and %u bytes, not %zu", field,
                           LIMIT_STOP_BYTES - 1, n);
        job->stops[job->stops_n++] = (struct request_stop){json_string_value(one), n};
    }
    return ST_OK;
}

/* ---- thinking ---- */

static enum status parse_thinking(const json_t *root, struct anthropic_request *out, struct err *e)
{
    const json_t *v = http_get(root, "thinking"), *type = http_get(v, "type");
    int64_t budget = 0;
    if (!v)
        return ST_OK;
    if (!json_is_object(v))
        return http_wrong_type(v, "thinking", "an object", e);
    if (http_get(v, "display") && !is_string(http_get(v, "display"), "summarized"))
        return err_set(e, ST_UNSUPPORTED, "thinking.display", "thinking.display: thinking is always shown here");
    if (is_string(type, "disabled") || is_string(type, "adaptive")) {
        out->thinking = is_string(type, "disabled") ? THINKING_OFF : THINKING_FREE;
        return ST_OK;
    }
    if (!is_string(type, "enabled"))
        return err_set(e, ST_ARGUMENT, "thinking.type", "thinking.type must be 'enabled', 'adaptive' or 'disabled'");
    if (!http_get(v, "budget_tokens"))
        return err_set(e, ST_ARGUMENT, "thinking.budget_tokens", "thinking.budget_tokens is missing");
    if (http_get_int(v, "budget_tokens", 1, INT32_MAX, &budget, e) != ST_OK)
        return err_set(e, ST_ARGUMENT, "thinking.budget_tokens", "thinking.budget_tokens must be an integer of at least 1");
    out->thinking = THINKING_BUDGET;
    out->budget = (uint32_t)budget;
    return ST_OK;
}

/* ---- the reply's shape ---- */

/* {"format":{"type":"json_schema","schema":…}} */
static enum status parse_format(const json_t *root, struct text_view body, struct server_constraint *out, struct err *e)
{
    static const char at[] = "output_config.format", schema_at[] = "output_config.format.schema";
    const json_t *config = http_get(root, "output_config"), *format = http_get(config, "format");
    if (config && !json_is_object(config))
        return http_wrong_type(config, "output_config", "an object", e);
    if (http_get(config, "effort"))
        return err_set(e, ST_UNSUPPORTED, "output_config.effort", "output_config.effort is not supported by this version");
    if (!format)
        return ST_OK;
    if (!is_string(http_get(format, "type"), "json_schema"))
        return err_set(e, ST_UNSUPPORTED, at, "%s.type must be 'json_schema'", at);
    if (!json_is_object(http_get(format, "schema")))
        return http_wrong_type(http_get(format, "schema"), schema_at, "a JSON Schema", e);
    const struct cut bytes = chat_cut_member(chat_cut_text(body.data, body.n), "output_config");
    const struct cut schema = chat_cut_member(chat_cut_member(bytes, "format"), "schema");
    *out = (struct server_constraint){.field = schema_at, .kind = GRAMMAR_SCHEMA, .text = {schema.s, schema.n}};
    return ST_OK;
}

/* ---- all of them ---- */

enum status anthropic_parse_counted(const json_t *root, struct text_view body, struct anthropic_request *out,
                                    struct err *e)
{
    *out = (struct anthropic_request){0};
    TRY(refuse_fields(root, e));
    TRY(check_accepted(root, e));
    TRY(parse_thinking(root, out, e));
    TRY(parse_format(root, body, &out->format, e));
    TRY(anthropic_parse_tools(root, out, e));
    server_log_ignored("/v1/messages", root, known);
    return ST_OK;
}

enum status anthropic_parse(const json_t *root, struct text_view body, struct reply_job *job,
                            struct anthropic_request *out, struct err *e)
{
    int64_t most = 0;
    TRY(anthropic_parse_counted(root, body, out, e));
    TRY(http_get_int(root, "max_tokens", 1, INT32_MAX, &most, e));
    if (!most)
        return err_set(e, ST_ARGUMENT, "max_tokens", "max_tokens is missing");
    job->max_tokens = (uint32_t)most;
    if (out->thinking == THINKING_BUDGET && out->budget >= job->max_tokens)
        return err_set(e, ST_ARGUMENT, "thinking.budget_tokens", "thinking.budget_tokens must be less than max_tokens");
    if (out->thinking >= THINKING_FREE && out->choice != FORMAT_AUTO)
        return err_set(e, ST_ARGUMENT, "tool_choice", "tool_choice cannot force a call while thinking is enabled");
    if (out->tools && !out->hidden && out->format.field)
        return err_set(e, ST_UNSUPPORTED, "output_config.format", "output_config.format cannot be combined with tools by "
                       "this version; send it without tools, or with tool_choice 'none'");
    TRY(parse_sampling(root, &job->sampling, e));
    TRY(parse_stops(root, job, e));
    TRY(http_get_bool(root, "stream", &job->stream, e));
    return openai_parse_extra(root, job, e);
}
