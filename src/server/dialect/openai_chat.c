/* openai_chat: POST /v1/chat/completions, the request. */
#include <stdio.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

static const struct openai_refused refused[] = {
    {"audio", NEUTRAL_NULL},
    {"chat_template", NEUTRAL_NULL},
    {"continue_final_message", NEUTRAL_FALSE},
    {"documents", NEUTRAL_EMPTY},
    {"echo", NEUTRAL_FALSE},
    {"function_call", NEUTRAL_NULL},
    {"functions", NEUTRAL_EMPTY},
    {"moderation", NEUTRAL_NULL},
    {"reasoning_effort", NEUTRAL_NULL},
    {"store", NEUTRAL_FALSE},
    {"verbosity", NEUTRAL_NULL},
    {"web_search_options", NEUTRAL_NULL},
    {NULL, NEUTRAL_NULL},
};

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

static enum status parse_format(const json_t *root, struct err *e)
{
    const json_t *v = http_get(root, "response_format");
    if (!v)
        return ST_OK;
    if (!json_is_object(v))
        return http_wrong_type(v, "response_format", "an object", e);
    const json_t *type = json_object_get(v, "type");
    if (!json_is_string(type))
        return http_wrong_type(type, "response_format.type", "a string", e);
    if (!is_string(type, "text"))
        return err_set(e, ST_UNSUPPORTED, "response_format",
                       "response_format.type '%.40s' is not supported by this version, only 'text'",
                       json_string_value(type));
    return ST_OK;
}

static enum status parse_modalities(const json_t *root, struct err *e)
{
    const json_t *v = http_get(root, "modalities");
    if (!v)
        return ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, "modalities", "an array", e);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!is_string(json_array_get(v, i), "text"))
            return err_set(e, ST_UNSUPPORTED, "modalities", "the only modality this model has is 'text'");
    return ST_OK;
}

/* Tools are shown to the model; a call cannot be forced or forbidden yet, so asking for that is refused. */
static enum status parse_tools(const json_t *root, struct openai_chat_request *out, struct err *e)
{
    const json_t *tools = http_get(root, "tools"), *choice = http_get(root, "tool_choice");
    bool parallel = true;
    TRY(http_get_bool(root, "parallel_tool_calls", &parallel, e));
    if (tools && !json_is_array(tools))
        return http_wrong_type(tools, "tools", "an array", e);
    if (choice && !json_is_string(choice) && !json_is_object(choice))
        return http_wrong_type(choice, "tool_choice", "a string or an object", e);
    out->hide_tools = is_string(choice, "none");
    if (choice && !out->hide_tools && !is_string(choice, "auto"))
        return err_set(e, ST_UNSUPPORTED, "tool_choice",
                       "tool_choice must be 'none' or 'auto'; this version cannot force a call");
    if (!parallel && !out->hide_tools && tools && json_array_size(tools))
        return err_set(e, ST_UNSUPPORTED, "parallel_tool_calls",
                       "parallel_tool_calls must be true; this version cannot limit the number of calls");
    for (size_t i = 0; tools && !out->hide_tools && i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (json_is_true(json_object_get(function, "strict"))) {
            char field[ERR_FIELD];
            snprintf(field, sizeof field, "tools[%zu].function.strict", i);
            return err_set(e, ST_UNSUPPORTED, field, "%s cannot be enforced by this version", field);
        }
    }
    return ST_OK;
}

static enum status parse_logprobs(const json_t *root, struct reply_job *job, struct err *e)
{
    bool logprobs = false;
    int64_t top = 0;
    TRY(http_get_bool(root, "logprobs", &logprobs, e));
    TRY(http_get_int(root, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &top, e));
    if (top && !logprobs)
        return err_set(e, ST_ARGUMENT, "top_logprobs", "top_logprobs needs logprobs to be true");
    job->logprobs = logprobs ? (uint32_t)top + 1 : 0;
    return ST_OK;
}

enum status openai_parse_chat(const json_t *root, struct reply_job *job, struct openai_chat_request *out, struct err *e)
{
    *out = (struct openai_chat_request){0};
    TRY(openai_parse_common(root, job, e));
    TRY(openai_refuse_fields(root, refused, e));
    TRY(parse_format(root, e));
    TRY(parse_modalities(root, e));
    TRY(parse_tools(root, out, e));
    return parse_logprobs(root, job, e);
}

static enum status prepare(struct http_call *call, struct reply_job *job, struct err *e)
{
    const struct server *srv = call->app;
    struct openai_chat_request rq;
    TRY(openai_parse_chat(job->root, job, &rq, e));
    if (!srv->chat)
        return err_set(e, ST_UNSUPPORTED, "messages", "this model cannot chat; use /v1/completions");
    struct reply_prompt *p = &job->prompts[0];
    const struct chat_options o = {.hide_tools = rq.hide_tools, .max_bytes = srv->prompt_bytes};
    TRY(chat_prompt(srv->chat, call->body.data, call->body.len, &o, &p->ids, &p->n, e));
    p->from_tok = true;
    job->prompts_n = 1;
    openai_name_messages(job->root, job);
    return ST_OK;
}

void openai_chat(struct http_call *call)
{
    struct reply_job job;
    struct err e;
    server_job_init(&job);
    job.root = openai_body(call);
    if (!job.root)
        return;
    if (prepare(call, &job, &e) == ST_OK)
        server_reply_run(call, &job, &openai_chat_ops);
    else
        openai_refuse(call, 0, openai_length_code(&e, "messages"), &e);
    server_job_release(&job);
}
