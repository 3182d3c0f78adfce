/*
 * openai_completions: POST /v1/completions, the request.
 *
 * A prompt here is raw: whoever sends one means it literally, so control tokens written in it are parsed and BOS is
 * added as the model's metadata says, as with `ffwd run --raw`. Text that is not trusted belongs into chat messages. With
 * a suffix, prompt and suffix are plain texts around a gap (infill.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"
#include "server/infill.h"

static const struct openai_refused refused[] = {
    {"tool_choice", NEUTRAL_NULL},
    {"tools", NEUTRAL_EMPTY},
    {NULL, NEUTRAL_NULL},
};

/* Beside openai_sampling_names; those of openai_constraint.c, openai_extra.c and openai_fields.c among them. */
static const char *const known[] = {
    "allowed_token_ids", "bad_words", "best_of", "cache_salt", "deadline_ms", "ebnf", "echo", "ffwd", "grammar",
    "grammar_lazy", "grammar_triggers", "guided_choice", "guided_grammar", "guided_json", "guided_regex",
    "guided_whitespace_pattern", "ignore_eos", "include_stop_str_in_output", "json_schema", "length_penalty",
    "logits_processors", "logprobs", "max_completion_tokens", "max_tokens", "metadata", "model", "n", "prediction",
    "priority", "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "prompt_logprobs",
    "regex", "response_format", "return_progress", "safety_identifier", "service_tier", "stop", "stop_regex",
    "stop_token_ids", "stream", "stream_options", "structural_tag", "structured_outputs", "suffix", "tool_choice",
    "tools", "truncate_prompt_tokens", "use_beam_search", "user", NULL,
};

enum status openai_parse_completions(const json_t *root, struct reply_job *job, struct err *e)
{
    int64_t logprobs = -1, best_of = 0;
    TRY(http_get_bool(root, "echo", &job->echo, e));
    TRY(openai_parse_common(root, job, e));
    TRY(openai_refuse_fields(root, refused, e));
    TRY(http_get_int(root, "logprobs", 0, LIMIT_TOP_LOGPROBS, &logprobs, e));
    TRY(http_get_int(root, "best_of", 1, INT32_MAX, &best_of, e));
    if (best_of && best_of != job->n)
        return err_set(e, ST_UNSUPPORTED, "best_of", "best_of must equal n; this version does not choose among replies");
    job->logprobs = (uint32_t)(logprobs + 1);
    server_log_ignored_beside("/v1/completions", root, known, openai_sampling_names);
    return ST_OK;
}

/* ---- the prompt ---- */

static enum status check_room(const struct reply_job *job, struct err *e)
{
    if ((job->prompts_n + 1) * job->n > LIMIT_PARTS)
        return err_set(e, ST_ARGUMENT, "prompt", "prompts times n must not exceed %u", LIMIT_PARTS);
    return ST_OK;
}

/* The prompt is what comes before the gap. */
static enum status add_before(const struct server *srv, const json_t *v, struct text_view suffix, struct reply_job *job,
                              struct err *e)
{
    const struct server_infill in = {
        .field = "suffix", .before = {json_string_value(v), json_string_length(v)}, .after = suffix};
    TRY(server_infill(srv, &in, &job->prompts[job->prompts_n], e));
    job->prompts_n++;
    return ST_OK;
}

static enum status add_text(const struct server *srv, const json_t *v, struct text_view suffix, struct reply_job *job,
                            struct err *e)
{
    const unsigned flags = TOK_TRUSTED | TOK_BOS;
    size_t n = json_string_length(v);
    TRY(check_room(job, e));
    if (suffix.n)
        return add_before(srv, v, suffix, job, e);
    TRY(server_check_bytes(srv, n, "the prompt", "prompt", e));
    struct reply_prompt *p = &job->prompts[job->prompts_n];
    TRY(tok_encode(srv->tok, json_string_value(v), n, flags, &p->ids, &p->n, e));
    p->from_tok = true;
    job->prompts_n++;
    if (!p->n)
        return err_set(e, ST_ARGUMENT, "prompt", "prompt is empty; at least one token was expected");
    return ST_OK;
}

static enum status add_ids(const struct server *srv, const json_t *v, struct text_view suffix, struct reply_job *job,
                           struct err *e)
{
    size_t n = json_array_size(v), vocab = tok_vocab(srv->tok);
    TRY(check_room(job, e));
    if (suffix.n)
        return err_set(e, ST_UNSUPPORTED, "suffix", "suffix needs a prompt that is text, not ids");
    struct reply_prompt *p = &job->prompts[job->prompts_n];
    if (!n)
        return err_set(e, ST_ARGUMENT, "prompt", "prompt is empty; at least one token was expected");
    p->ids = malloc(n * sizeof *p->ids);
    if (!p->ids)
        return err_set(e, ST_NO_MEMORY, "prompt", "no memory for a prompt of %zu tokens", n);
    p->n = n;
    p->from_tok = false;
    job->prompts_n++;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(v, i);
        if (!json_is_integer(id))
            return err_set(e, ST_ARGUMENT, "prompt", "prompt: token %zu must be an integer, not %s", i,
                           http_json_type(id));
        if (json_integer_value(id) < 0 || (uint64_t)json_integer_value(id) >= vocab)
            return err_set(e, ST_ARGUMENT, "prompt", "prompt: token %zu is %lld, outside the vocabulary of %zu", i,
                           (long long)json_integer_value(id), vocab);
        p->ids[i] = (tok_id)json_integer_value(id);
    }
    return ST_OK;
}

enum status openai_parse_prompt(const struct server *srv, const json_t *root, struct reply_job *job, struct err *e)
{
    static const char want[] = "a string, an array of strings, an array of token ids or an array of such arrays";
    const json_t *v = http_get(root, "prompt");
    struct text_view suffix = {0};
    TRY(http_get_string(root, "suffix", &suffix.data, &suffix.n, e));
    if (suffix.n && job->echo)
        return err_set(e, ST_UNSUPPORTED, "suffix", "suffix cannot be combined with echo by this version");
    if (!v)
        return err_set(e, ST_ARGUMENT, "prompt", "prompt is missing");
    if (json_is_string(v))
        return add_text(srv, v, suffix, job, e);
    if (!json_is_array(v))
        return http_wrong_type(v, "prompt", want, e);
    const json_t *first = json_array_get(v, 0);
    if (!first || json_is_number(first))
        return add_ids(srv, v, suffix, job, e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        if (json_typeof(one) != json_typeof(first) || !(json_is_string(one) || json_is_array(one)))
            return err_set(e, ST_ARGUMENT, "prompt", "prompt must be %s", want);
        TRY(json_is_string(one) ? add_text(srv, one, suffix, job, e) : add_ids(srv, one, suffix, job, e));
    }
    return ST_OK;
}

/* What an echo shows of a prompt: the text as it came, or what ids that came stand for. */
static enum status echo_text(const struct server *srv, const json_t *v, struct reply_prompt *p, struct err *e)
{
    char *decoded = NULL;
    size_t n = json_string_length(v);
    if (!json_is_string(v))
        TRY(tok_decode(srv->tok, p->ids, p->n, true, &decoded, &n, e));
    p->text = malloc(n + 1);
    if (p->text)
        memcpy(p->text, decoded ? decoded : json_string_value(v), n);
    p->text_n = n;
    text_free(decoded, n);
    return p->text ? ST_OK : err_set(e, ST_NO_MEMORY, "prompt", "no memory for a prompt of %zu bytes", n);
}

static enum status echo_prompts(const struct server *srv, const json_t *root, struct reply_job *job, struct err *e)
{
    const json_t *v = http_get(root, "prompt"), *first = json_array_get(v, 0);
    bool many = json_is_string(first) || json_is_array(first);
    for (uint32_t i = 0; i < job->prompts_n; i++)
        TRY(echo_text(srv, many ? json_array_get(v, i) : v, &job->prompts[i], e));
    return ST_OK;
}

enum status openai_prepare_completions(const struct server *srv, struct text_view body, struct reply_job *job,
                                       struct err *e)
{
    struct server_constraint c;
    job->fill = srv->fill;
    TRY(openai_parse_completions(job->root, job, e));
    TRY(openai_parse_constraint(job->root, body, &c, e));
    TRY(openai_parse_prompt(srv, job->root, job, e));
    if (job->echo)
        TRY(echo_prompts(srv, job->root, job, e));
    return c.field ? server_constrain(srv, &c, job, e) : ST_OK;
}

void openai_completions(struct http_call *call)
{
    openai_serve(call, openai_prepare_completions, &openai_completions_ops);
}
