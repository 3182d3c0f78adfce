/*
 * native_completion: POST /completion, llama-server's way to go on from a raw prompt, the request.
 *
 * Prompts are those of /v1/completions, samplers and constraints too; what a request leaves out has llama-server's own
 * values. There are no slots to choose from: id_slot is accepted, since whatever a prompt begins with is found in the
 * cache.
 */
#include <stdio.h>
#include <string.h>

#include "server/dialect/native.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

static const struct openai_refused refused[] = {
    {"image_data", NEUTRAL_EMPTY},
    {"lora", NEUTRAL_EMPTY},
    {"min_keep", NEUTRAL_ZERO},
    {"n_cache_reuse", NEUTRAL_ZERO},
    {"n_indent", NEUTRAL_ZERO},
    {"post_sampling_probs", NEUTRAL_FALSE},
    {"response_fields", NEUTRAL_EMPTY},
    {"sse_ping_interval", NEUTRAL_NULL},
    {"t_max_predict_ms", NEUTRAL_ZERO},
    {"tfs_z", NEUTRAL_ONE},
    {"timings_per_token", NEUTRAL_FALSE},
    {NULL, NEUTRAL_NULL},
};

/* Beside openai_sampling_names; those of openai_constraint.c and openai_extra.c among them. */
static const char *const known[] = {
    "model", "prompt", "suffix", "input_prefix", "input_suffix", "input_extra", "n_predict", "max_tokens", "n_cmpl",
    "n", "stream", "stop", "n_probs", "return_tokens", "ignore_eos", "cache_prompt", "id_slot", "n_keep", "n_discard",
    "image_data", "lora", "min_keep", "n_cache_reuse", "n_indent", "post_sampling_probs", "response_fields",
    "return_progress", "sse_ping_interval", "t_max_predict_ms", "tfs_z", "timings_per_token", "grammar", "json_schema",
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "regex",
    "ebnf", "priority", "deadline_ms", "cache_salt", "prompt_cache_key", "ffwd", NULL,
};

json_t *native_usual_sampling(void)
{
    return json_pack("{s:f, s:i, s:f, s:f, s:i}", "temperature", 0.8, "top_k", 40, "top_p", 0.95, "min_p", 0.05,
                     "repeat_last_n", 64);
}

/* ---- logit_bias ---- */

/* [[id, bias], …] as the object that the OpenAI API has instead. */
static enum status convert_bias(const json_t *list, json_t *to, struct err *e)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i), *id = json_array_get(pair, 0);
        json_t *bias = json_array_get(pair, 1);
        char key[24];
        if (json_array_size(pair) != 2 || !json_is_integer(id) || !json_is_number(bias))
            return err_set(e, ST_UNSUPPORTED, "logit_bias",
                           "logit_bias[%zu] must be [id, bias] with two numbers, or logit_bias an object", i);
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(id));
        if (json_object_set(to, key, bias) != 0)
            return err_set(e, ST_NO_MEMORY, "logit_bias", "no memory for logit_bias");
    }
    return ST_OK;
}

static enum status parse_sampling(const json_t *root, struct reply_job *job, struct err *e)
{
    const json_t *list = http_get(root, "logit_bias");
    if (!json_is_array(list))
        return openai_parse_sampling_over(root, native_usual_sampling(), job, e);
    if (json_array_size(list) > LIMIT_BIAS)
        return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias has more than %u entries", LIMIT_BIAS);
    json_t *bias = json_object(), *all = json_copy((json_t *)root);
    enum status st = bias && all ? convert_bias(list, bias, e)
                                 : err_set(e, ST_NO_MEMORY, "logit_bias", "no memory for logit_bias");
    if (st == ST_OK && json_object_set(all, "logit_bias", bias) != 0)
        st = err_set(e, ST_NO_MEMORY, "logit_bias", "no memory for logit_bias");
    if (st == ST_OK)
        st = openai_parse_sampling_over(all, native_usual_sampling(), job, e);
    json_decref(bias);
    json_decref(all);
    return st;
}

/* ---- limits ---- */

static enum status parse_most(const json_t *root, struct reply_job *job, struct err *e)
{
    const int64_t absent = -3;
    int64_t most = absent, other = absent;
    TRY(http_get_int(root, "n_predict", -2, INT32_MAX, &most, e)); /* below 0: as long as the context allows */
    TRY(http_get_int(root, "max_tokens", -1, INT32_MAX, &other, e));
    if (most != absent && other != absent && most != other)
        return err_set(e, ST_ARGUMENT, "n_predict", "n_predict and max_tokens contradict each other");
    most = most != absent ? most : other;
    if (most == 0)
        return err_set(e, ST_UNSUPPORTED, "n_predict",
                       "n_predict 0: this version does not take a prompt without a reply");
    job->max_tokens = most > 0 ? (uint32_t)most : 0;
    return ST_OK;
}

static enum status parse_counts(const json_t *root, struct reply_job *job, struct err *e)
{
    int64_t n = 0, other = 0, probs = 0, hint;
    TRY(http_get_int(root, "n_cmpl", 1, LIMIT_PARTS, &n, e));
    TRY(http_get_int(root, "n", 1, LIMIT_PARTS, &other, e));
    if (n && other && n != other)
        return err_set(e, ST_ARGUMENT, "n_cmpl", "n_cmpl and n contradict each other");
    TRY(http_get_int(root, "n_probs", 0, LIMIT_TOP_LOGPROBS, &probs, e));
    TRY(http_get_int(root, "id_slot", -1, INT32_MAX, &hint, e));
    /* A context that is full is never shifted. */
    TRY(http_get_int(root, "n_keep", -1, INT32_MAX, &hint, e));
    TRY(http_get_int(root, "n_discard", 0, INT32_MAX, &hint, e));
    job->n = n ? (uint32_t)n : other ? (uint32_t)other : 1;
    job->logprobs = probs ? (uint32_t)probs + 1 : 0;
    return ST_OK;
}

enum status native_parse_completion(const json_t *root, struct reply_job *job, struct err *e)
{
    bool cache = true;
    TRY(openai_refuse_fields(root, refused, e));
    TRY(openai_refuse_extensions(root, e));
    TRY(parse_most(root, job, e));
    TRY(parse_counts(root, job, e));
    TRY(parse_sampling(root, job, e));
    TRY(openai_parse_stops(root, job, e));
    TRY(http_get_bool(root, "stream", &job->stream, e));
    TRY(http_get_bool(root, "ignore_eos", &job->ignore_eos, e));
    TRY(http_get_bool(root, "return_tokens", &job->tells_ids, e));
    TRY(http_get_bool(root, "return_progress", &job->progress, e));
    TRY(http_get_bool(root, "cache_prompt", &cache, e));
    job->no_prefix_cache = !cache;
    server_log_ignored_beside("/completion", root, known, openai_sampling_names);
    return openai_parse_extra(root, job, e);
}

/* ---- the handler ---- */

static const struct openai_refused of_infill[] = {
    {"input_extra", NEUTRAL_EMPTY},
    {"input_prefix", NEUTRAL_EMPTY},
    {"input_suffix", NEUTRAL_EMPTY},
    {NULL, NEUTRAL_NULL},
};

static enum status prepare(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct server_constraint c;
    job->fill = srv->fill;
    TRY(openai_refuse_fields(job->root, of_infill, e));
    TRY(native_parse_completion(job->root, job, e));
    TRY(openai_parse_constraint(job->root, body, &c, e));
    TRY(openai_parse_prompt(srv, job->root, job, e));
    if (job->prompts_n == 1)
        server_fit_context(srv, job);
    return c.field ? server_constrain(srv, &c, job, e) : ST_OK;
}

void native_completion(struct http_call *call)
{
    openai_serve(call, prepare, &native_completion_ops);
}
