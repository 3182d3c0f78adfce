/* responses_fields: the members of a request of the Responses API, apart from the items and the tools. */
#include <stdio.h>
#include <string.h>

#include "server/dialect/openai_fields.h"
#include "server/dialect/responses.h"
#include "server/http/json_in.h"

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* ---- what is refused ---- */

static const struct openai_refused refused[] = {
    {"access_programs", NEUTRAL_EMPTY},
    {"background", NEUTRAL_FALSE},
    {"background_options", NEUTRAL_EMPTY},
    {"context_management", NEUTRAL_EMPTY},
    {"conversation", NEUTRAL_NULL},
    {"image", NEUTRAL_EMPTY},
    {"moderation", NEUTRAL_NULL},
    {"prompt", NEUTRAL_NULL},
    /* what /v1/chat/completions knows and this API does not */
    {"audio", NEUTRAL_NULL},
    {"chat_template", NEUTRAL_NULL},
    {"echo", NEUTRAL_FALSE},
    {"modalities", NEUTRAL_NULL},
    {"n", NEUTRAL_ONE},
    {"prediction", NEUTRAL_NULL},
    {"stop", NEUTRAL_EMPTY},
    {"web_search_options", NEUTRAL_NULL},
    {NULL, NEUTRAL_NULL},
};

/* Fields of /v1/chat/completions and their names here: clients that speak half of each would be served half. */
static enum status refuse_moved(const json_t *root, struct err *e)
{
    static const char *const moved[][2] = {
        {"function_call", "tool_choice"},
        {"functions", "tools"},
        {"logprobs", "include with 'message.output_text.logprobs'"},
        {"max_completion_tokens", "max_output_tokens"},
        {"max_tokens", "max_output_tokens"},
        {"messages", "input"},
        {"reasoning_effort", "reasoning.effort"},
        {"response_format", "text.format"},
        {"verbosity", "text.verbosity"},
    };
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        if (http_get(root, moved[i][0]))
            return err_set(e, ST_ARGUMENT, moved[i][0], "%s belongs to /v1/chat/completions; here it is %s", moved[i][0],
                           moved[i][1]);
    return ST_OK;
}

/* ---- what asks for nothing a client could notice, or for what is done anyway ---- */

/* It stands for a user, and every response shows it again. */
static enum status check_user(const json_t *root, const char *key, struct err *e)
{
    TRY(openai_check_string(root, key, key, e));
    if (json_string_length(http_get(root, key)) > LIMIT_RESPONSE_USER)
        return err_set(e, ST_ARGUMENT, key, "%s has more than %u bytes", key, LIMIT_RESPONSE_USER);
    return ST_OK;
}

static enum status check_accepted(const json_t *root, struct err *e)
{
    const json_t *truncation = http_get(root, "truncation");
    int64_t calls;
    TRY(check_user(root, "user", e));
    TRY(check_user(root, "safety_identifier", e));
    TRY(openai_check_string(root, "service_tier", "service_tier", e));
    TRY(openai_check_string(root, "instructions", "instructions", e));
    TRY(openai_check_metadata(root, e));
    TRY(openai_check_cache(root, e));
    TRY(http_get_int(root, "max_tool_calls", 1, INT32_MAX, &calls, e)); /* of the API's own tools: there are none */
    if (truncation && !is_string(truncation, "disabled") && !is_string(truncation, "auto"))
        return err_set(e, ST_ARGUMENT, "truncation", "truncation must be 'auto' or 'disabled'");
    if (is_string(truncation, "auto"))
        return err_set(e, ST_UNSUPPORTED, "truncation", "truncation can only be 'disabled' here: nothing is dropped from "
                       "a conversation");
    return ST_OK;
}

/* ---- reasoning ---- */

/* The whole of a model's reasoning is shown, so what asks for a certain kind of summary cannot be served; "auto" can. */
static enum status parse_reasoning(const json_t *root, struct responses_request *out, struct err *e)
{
    static const char *const members[][2] = {
        {"context", "auto"}, {"generate_summary", "auto"}, {"mode", "standard"}, {"summary", "auto"}};
    const json_t *o = http_get(root, "reasoning");
    if (!o)
        return ST_OK;
    if (!json_is_object(o))
        return http_wrong_type(o, "reasoning", "an object", e);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *v = http_get(o, members[i][0]);
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "reasoning.%s", members[i][0]);
        if (v && !is_string(v, members[i][1]))
            return err_set(e, ST_UNSUPPORTED, field, "%s can only be '%s' here", field, members[i][1]);
    }
    return openai_parse_effort(root, o, "effort", "reasoning.effort", &out->effort, e);
}

/* ---- the reply's shape ---- */

/* {"type":"json_schema","name":…,"schema":…}: enforced whole, whatever strict says. */
static enum status take_schema(const json_t *format, struct cut bytes, struct server_constraint *out, struct err *e)
{
    static const char at[] = "text.format.schema";
    bool strict = false;
    TRY(openai_check_string(format, "name", "text.format.name", e));
    TRY(openai_check_string(format, "description", "text.format.description", e));
    if (http_get_bool(format, "strict", &strict, e) != ST_OK)
        return http_wrong_type(http_get(format, "strict"), "text.format.strict", "a boolean", e);
    const json_t *schema = http_get(format, "schema");
    if (!schema)
        return err_set(e, ST_ARGUMENT, at, "%s is missing", at);
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return http_wrong_type(schema, at, "a JSON Schema", e);
    const struct cut text = chat_cut_member(bytes, "schema");
    *out = (struct server_constraint){.field = at, .kind = GRAMMAR_SCHEMA, .text = {text.s, text.n}};
    return ST_OK;
}

static enum status parse_text(const json_t *root, struct text_view body, struct server_constraint *out, struct err *e)
{
    const json_t *o = http_get(root, "text"), *format = http_get(o, "format"), *verbosity = http_get(o, "verbosity");
    if (o && !json_is_object(o))
        return http_wrong_type(o, "text", "an object", e);
    if (verbosity && !is_string(verbosity, "medium"))
        return err_set(e, ST_UNSUPPORTED, "text.verbosity", "text.verbosity can only be 'medium' here");
    if (format && !json_is_object(format))
        return http_wrong_type(format, "text.format", "an object", e);
    const json_t *type = http_get(format, "type");
    if (!format || is_string(type, "text"))
        return ST_OK;
    if (is_string(type, "json_schema")) {
        const struct cut bytes = chat_cut_member(chat_cut_text(body.data, body.n), "text");
        return take_schema(format, chat_cut_member(bytes, "format"), out, e);
    }
    if (!is_string(type, "json_object"))
        return err_set(e, ST_UNSUPPORTED, "text.format.type", "text.format.type must be 'text', 'json_object' or "
                       "'json_schema'");
    *out = (struct server_constraint){.field = "text.format", .kind = GRAMMAR_JSON};
    return ST_OK;
}

/* Beside text.format the names of other servers, as in /v1/chat/completions. */
static enum status parse_format(const json_t *root, struct text_view body, struct server_constraint *out, struct err *e)
{
    struct server_constraint text = {0};
    TRY(parse_text(root, body, &text, e));
    TRY(openai_parse_constraint(root, body, out, e));
    if (text.field && out->field)
        return err_set(e, ST_ARGUMENT, out->field, "%s and %s both say what the reply has to look like; only one of them "
                       "can", text.field, out->field);
    if (text.field)
        *out = text;
    return ST_OK;
}

/* ---- what is shown beside the reply ---- */

static enum status parse_include(const json_t *root, struct responses_own *own, bool *logprobs, struct err *e)
{
    static const char *const nothing_of[] = { /* parts that no response here has */
        "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
        "message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs"};
    const json_t *v = http_get(root, "include");
    if (v && !json_is_array(v))
        return http_wrong_type(v, "include", "an array of strings", e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        bool known = is_string(one, "reasoning.encrypted_content") || is_string(one, "message.output_text.logprobs");
        for (size_t k = 0; k < sizeof nothing_of / sizeof *nothing_of; k++)
            known = known || is_string(one, nothing_of[k]);
        if (!json_is_string(one))
            return http_wrong_type(one, "include", "an array of strings", e);
        if (!known)
            return err_set(e, ST_ARGUMENT, "include", "include: there is no '%.60s'", json_string_value(one));
        own->encrypted = own->encrypted || is_string(one, "reasoning.encrypted_content");
        *logprobs = *logprobs || is_string(one, "message.output_text.logprobs");
    }
    return ST_OK;
}

static enum status parse_shown(const json_t *root, struct reply_job *job, struct err *e)
{
    bool logprobs = false;
    int64_t top = 0;
    TRY(parse_include(root, job->own, &logprobs, e));
    TRY(http_get_int(root, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &top, e));
    job->logprobs = logprobs || top ? (uint32_t)top + 1 : 0;
    return ST_OK;
}

static enum status parse_stream(const json_t *root, struct reply_job *job, struct err *e)
{
    const json_t *o = http_get(root, "stream_options");
    TRY(http_get_bool(root, "stream", &job->stream, e));
    if (o && !json_is_object(o))
        return http_wrong_type(o, "stream_options", "an object", e);
    return openai_check_obfuscation(o, e);
}

/* ---- all of them ---- */

/* Beside openai_sampling_names; those of openai_constraint.c and openai_extra.c among them. */
static const char *const known[] = {
    "access_programs", "background", "background_options", "cache_salt", "chat_template_kwargs", "context_management",
    "conversation", "deadline_ms", "ebnf", "ffwd", "grammar", "guided_choice", "guided_grammar", "guided_json",
    "guided_regex", "ignore_eos", "image", "include", "input", "instructions", "json_schema", "max_output_tokens",
    "max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "priority",
    "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "regex",
    "safety_identifier", "service_tier", "store", "stream", "stream_options", "structured_outputs", "text",
    "tool_choice", "tools", "top_logprobs", "truncation", "user", NULL,
};

enum status responses_parse_counted(const json_t *root, struct text_view body, struct reply_job *job,
                                    struct responses_request *out, struct err *e)
{
    *out = (struct responses_request){0};
    TRY(refuse_moved(root, e));
    TRY(openai_refuse_fields(root, refused, e));
    TRY(openai_refuse_extensions(root, e));
    TRY(check_accepted(root, e));
    TRY(parse_reasoning(root, out, e));
    TRY(parse_format(root, body, &out->format, e));
    TRY(responses_parse_tools(root, &out->tools, e));
    TRY(http_get_string(root, "previous_response_id", &out->previous.s, &out->previous.n, e));
    TRY(openai_parse_extra(root, job, e));
    server_log_ignored_beside("/v1/responses", root, known, openai_sampling_names);
    return ST_OK;
}

enum status responses_parse(const json_t *root, struct text_view body, struct reply_job *job,
                            struct responses_request *out, struct err *e)
{
    struct responses_own *own = job->own;
    int64_t most = 0;
    own->keep = true;
    TRY(responses_parse_counted(root, body, job, out, e));
    TRY(http_get_bool(root, "store", &own->keep, e));
    TRY(http_get_int(root, "max_output_tokens", 1, INT32_MAX, &most, e));
    job->max_tokens = (uint32_t)most;
    TRY(openai_parse_sampling(root, job, e));
    TRY(http_get_bool(root, "ignore_eos", &job->ignore_eos, e));
    TRY(parse_shown(root, job, e));
    TRY(parse_stream(root, job, e));
    if (out->tools.n && out->format.field)
        return err_set(e, ST_UNSUPPORTED, out->format.field, "%s cannot be combined with tools by this version; send it "
                       "without tools, or with tool_choice 'none'", out->format.field);
    return responses_echo(body, &own->echo, e);
}
