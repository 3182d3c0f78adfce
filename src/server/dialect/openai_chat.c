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
    {"store", NEUTRAL_FALSE},
    {"verbosity", NEUTRAL_NULL},
    {"web_search_options", NEUTRAL_NULL},
    {NULL, NEUTRAL_NULL},
};

/* Beside openai_sampling_names; those of openai_constraint.c, openai_extra.c and openai_fields.c among them. */
static const char *const known[] = {
    "allowed_token_ids", "audio", "bad_words", "cache_salt", "chat_template", "chat_template_kwargs",
    "continue_final_message", "deadline_ms", "documents", "ebnf", "echo", "ffwd", "function_call", "functions",
    "grammar", "grammar_lazy", "grammar_triggers", "guided_choice", "guided_grammar", "guided_json", "guided_regex",
    "guided_whitespace_pattern", "ignore_eos", "include_stop_str_in_output", "json_schema", "length_penalty",
    "logits_processors", "logprobs", "max_completion_tokens", "max_tokens", "messages", "metadata", "modalities",
    "model", "moderation", "n", "parallel_tool_calls", "prediction", "priority", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "prompt_logprobs", "reasoning_effort", "reasoning_format",
    "regex", "response_format", "return_progress", "safety_identifier", "service_tier", "stop", "stop_regex",
    "stop_token_ids", "store", "stream", "stream_options", "structural_tag", "structured_outputs",
    "thinking_budget_tokens", "tool_choice", "tools", "top_logprobs", "truncate_prompt_tokens", "use_beam_search",
    "user", "verbosity", "web_search_options", NULL,
};

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
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

static const char effort_field[] = "reasoning_effort", budget_field[] = "thinking_budget_tokens";

/* llama-server's: reasoning stays out of the content, as with its "auto" and "deepseek". */
static enum status parse_reasoning_format(const json_t *root, struct err *e)
{
    static const char field[] = "reasoning_format";
    const json_t *v = http_get(root, field);
    return !v || is_string(v, "auto") || is_string(v, "deepseek")
               ? ST_OK
               : err_set(e, ST_UNSUPPORTED, field, "%s can only be 'auto' or 'deepseek' here", field);
}

enum status openai_parse_chat(const json_t *root, struct reply_job *job, struct openai_chat_request *out, struct err *e)
{
    *out = (struct openai_chat_request){.thinking = -1};
    TRY(openai_parse_common(root, job, e));
    TRY(openai_refuse_fields(root, refused, e));
    TRY(parse_modalities(root, e));
    TRY(openai_parse_tools(root, &out->tools, e));
    TRY(openai_parse_effort(root, root, effort_field, effort_field, &out->effort, e));
    TRY(http_get_int(root, budget_field, -1, INT32_MAX, &out->thinking, e));
    if (out->effort && out->thinking >= 0)
        return err_set(e, ST_ARGUMENT, budget_field, "%s and %s contradict each other", budget_field, effort_field);
    TRY(parse_reasoning_format(root, e));
    server_log_ignored_beside("/v1/chat/completions", root, known, openai_sampling_names);
    return parse_logprobs(root, job, e);
}

/* A reply is of one shape or calls tools: not both in this version. */
static enum status check_both(const struct openai_tools *tools, const struct server_constraint *c, struct err *e)
{
    if (tools->n && c->field)
        return err_set(e, ST_UNSUPPORTED, c->field, "%s cannot be combined with tools by this version; send it without "
                       "tools, or with tool_choice 'none'", c->field);
    return ST_OK;
}

/* The prompt, and what its replies may hold. `conversation`: what chat reads. */
static enum status render(const struct server *srv, const struct openai_chat_request *rq, struct text_view conversation,
                          struct reply_job *job, struct format_shape *shape, struct err *e)
{
    struct reply_prompt *p = &job->prompts[0];
    const struct chat_options o = {.hide_tools = rq->tools.hidden, .max_bytes = srv->prompt_bytes};
    TRY(chat_prompt(srv->chat, conversation.data, conversation.n, &o, &p->ids, &p->n, e));
    p->from_tok = true;
    job->prompts_n = 1;
    openai_name_messages(job->root, job);
    TRY(server_recognise(srv, conversation, rq->tools.n != 0, job, shape, e));
    TRY(openai_limit_thinking(srv, rq->effort, effort_field, job, e));
    const bool limited = rq->thinking > 0 || (rq->thinking == 0 && job->recognise.reasoning);
    return limited ? server_limit_thinking(srv, (uint32_t)rq->thinking, budget_field, job, e) : ST_OK;
}

enum status openai_prepare_chat(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct openai_chat_request rq;
    struct server_constraint c;
    struct format_shape shape;
    struct text_view conversation;
    struct buf room;
    job->fill = srv->fill;
    TRY(openai_parse_chat(job->root, job, &rq, e));
    TRY(openai_parse_constraint(job->root, body, &c, e));
    TRY(check_both(&rq.tools, &c, e));
    if (!srv->chat)
        return err_set(e, ST_UNSUPPORTED, "messages", "this model cannot chat; use /v1/completions");
    buf_init(&room, OPENAI_CONVERSATION);
    enum status st = openai_tell_effort(rq.effort, body, &room, &conversation, e);
    if (st == ST_OK)
        st = render(srv, &rq, conversation, job, &shape, e);
    buf_release(&room);
    TRY(st);
    if (rq.tools.n)
        TRY(openai_constrain_calls(srv, job->root, body, &rq.tools, &shape, job, e));
    return c.field ? server_constrain(srv, &c, job, e) : ST_OK;
}
