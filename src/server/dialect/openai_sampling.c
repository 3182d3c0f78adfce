/*
 * openai_sampling: the fields that say how tokens are chosen: OpenAI's, and beyond them the names that clients of
 * llama-server and vLLM send. A value out of its range is refused with the range; fields that contradict each other are
 * refused by sample_check(). Without repeat_last_n and dry_penalty_last_n all of the prompt and the reply counts.
 */
#include <stdlib.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

struct range {
    const char *name;
    size_t at; /* of the float, in struct sample_params */
    double lo, hi;
    bool lo_open, hi_open;
};

#define AT(field) offsetof(struct sample_params, field)
static const struct range ranges[] = {
    {"temperature", AT(temperature), 0, 100, false, false},
    {"top_p", AT(top_p), 0, 1, true, false},
    {"min_p", AT(min_p), 0, 1, false, true},
    {"typical_p", AT(typical_p), 0, 1, true, false},
    {"top_n_sigma", AT(top_n_sigma), -1, 100, false, false}, /* 0 and below: off */
    {"xtc_probability", AT(xtc_probability), 0, 1, false, false},
    {"xtc_threshold", AT(xtc_threshold), 0, 1, false, false},
    {"presence_penalty", AT(presence_penalty), -2, 2, false, false},
    {"frequency_penalty", AT(frequency_penalty), -2, 2, false, false},
    {"dry_multiplier", AT(dry_multiplier), 0, 100, false, false},
    {"dry_base", AT(dry_base), 1, 100, false, false},
    {"mirostat_tau", AT(mirostat_tau), 0, 100, false, false},
    {"mirostat_eta", AT(mirostat_eta), 0, 1, false, false},
    {"dynatemp_range", AT(dynatemp_range), 0, 100, false, false},
    {"dynatemp_exponent", AT(dynatemp_exponent), 0, 100, false, false},
};
static const struct range repetition = {"repetition_penalty", AT(repetition_penalty), 0, 100, true, false};
static const struct range repeat = {"repeat_penalty", AT(repetition_penalty), 0, 100, true, false};

static enum status parse_range(const json_t *root, const struct range *r, struct sample_params *s, struct err *e)
{
    float f;
    memcpy(&f, (char *)s + r->at, sizeof f);
    double x = (double)f;
    if (!http_get(root, r->name))
        return ST_OK;
    TRY(http_get_number(root, r->name, &x, e));
    bool low = r->lo_open ? x <= r->lo : x < r->lo;
    bool high = r->hi_open ? x >= r->hi : x > r->hi;
    if (low || high || x != x)
        return err_set(e, ST_ARGUMENT, r->name, "%s must be %s %g and %s %g", r->name,
                       r->lo_open ? "above" : "at least", r->lo, r->hi_open ? "below" : "at most", r->hi);
    f = (float)x;
    /* The nearest float may lie on the border that is excluded. */
    if (r->lo_open && f <= (float)r->lo)
        f = 1e-30f;
    if (r->hi_open && f >= (float)r->hi)
        f = (float)r->hi - 6e-8f;
    memcpy((char *)s + r->at, &f, sizeof f);
    return ST_OK;
}

/* One field under two names. */
static enum status parse_repetition(const json_t *root, struct sample_params *s, struct err *e)
{
    struct sample_params other = *s;
    TRY(parse_range(root, &repetition, s, e));
    TRY(parse_range(root, &repeat, &other, e));
    if (!http_get(root, repeat.name))
        return ST_OK;
    if (http_get(root, repetition.name) && s->repetition_penalty != other.repetition_penalty)
        return err_set(e, ST_ARGUMENT, repeat.name, "repetition_penalty and repeat_penalty contradict each other");
    s->repetition_penalty = other.repetition_penalty;
    return ST_OK;
}

/* llama-server's windows: -1 is everything, 0 switches off what looks at them. And mlx-lm's, one for each penalty: 0 is
 * everything. */
static enum status parse_windows(const json_t *root, struct sample_params *s, struct err *e)
{
    int64_t penalties = -1, dry = -1;
    TRY(http_get_int(root, "repeat_last_n", -1, LIMIT_CONTEXT, &penalties, e));
    TRY(http_get_int(root, "dry_penalty_last_n", -1, LIMIT_CONTEXT, &dry, e));
    int64_t all = penalties > 0 ? penalties : 0, repeats = all, presence = all, frequency = all;
    TRY(http_get_int(root, "repetition_context_size", 0, LIMIT_CONTEXT, &repeats, e));
    TRY(http_get_int(root, "presence_context_size", 0, LIMIT_CONTEXT, &presence, e));
    TRY(http_get_int(root, "frequency_context_size", 0, LIMIT_CONTEXT, &frequency, e));
    s->penalty_last = (uint32_t)repeats;
    s->presence_last = presence == repeats ? 0 : presence ? (uint32_t)presence : UINT32_MAX;
    s->frequency_last = frequency == repeats ? 0 : frequency ? (uint32_t)frequency : UINT32_MAX;
    s->dry_last = dry > 0 ? (uint32_t)dry : 0;
    if (penalties == 0) {
        s->repetition_penalty = 1;
        s->presence_penalty = s->frequency_penalty = 0;
    }
    if (dry == 0)
        s->dry_multiplier = 0;
    return ST_OK;
}

static enum status parse_integers(const json_t *root, struct sample_params *s, struct err *e)
{
    int64_t top_k = 0, seed = -1, allowed = s->dry_allowed, mirostat = 0, least = 0, least_new = 0;
    TRY(http_get_int(root, "top_k", -1, INT32_MAX, &top_k, e)); /* -1 = off, as elsewhere */
    TRY(http_get_int(root, "seed", INT64_MIN, INT64_MAX, &seed, e));
    TRY(http_get_int(root, "dry_allowed_length", 1, LIMIT_DRY_MATCH, &allowed, e));
    TRY(http_get_int(root, "mirostat", 0, 2, &mirostat, e));
    TRY(http_get_int(root, "min_tokens", 0, INT32_MAX, &least, e));
    TRY(http_get_int(root, "min_new_tokens", 0, INT32_MAX, &least_new, e));
    if (http_get(root, "min_tokens") && http_get(root, "min_new_tokens") && least != least_new)
        return err_set(e, ST_ARGUMENT, "min_tokens", "min_tokens and min_new_tokens contradict each other");
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0;
    /* No seed, null and llama.cpp's -1 mean a fresh one, small enough to survive a client that reads numbers as doubles. */
    s->seed = seed == -1 ? server_random(53) : (uint64_t)seed;
    s->dry_allowed = (uint32_t)allowed;
    s->mirostat = (uint32_t)mirostat;
    s->min_tokens = (uint32_t)(least ? least : least_new);
    return ST_OK;
}

/* ---- lists ---- */

/* {"50256": -100, …}: whether the model has such an id is seen when it is submitted. */
static enum status parse_bias(const json_t *root, struct reply_job *job, struct err *e)
{
    const char *key;
    json_t *value, *v = json_object_get(root, "logit_bias");
    if (!v || json_is_null(v))
        return ST_OK;
    if (!json_is_object(v))
        return http_wrong_type(v, "logit_bias", "an object", e);
    size_t n = json_object_size(v);
    if (n > LIMIT_BIAS)
        return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias has more than %u entries", LIMIT_BIAS);
    if (n && !(job->bias = calloc(n, sizeof *job->bias)))
        return err_set(e, ST_NO_MEMORY, "logit_bias", "no memory for logit_bias");
    job->sampling.bias = job->bias;
    json_object_foreach(v, key, value)
    {
        size_t digits = strspn(key, "0123456789");
        uint64_t id = digits && digits <= 10 && !key[digits] ? strtoull(key, NULL, 10) : UINT64_MAX;
        if (id > INT32_MAX || (digits > 1 && key[0] == '0'))
            return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias: '%.40s' is not a token id", key);
        if (!json_is_number(value))
            return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias: the bias of id %s must be a number, not %s", key,
                           http_json_type(value));
        double bias = json_number_value(value);
        if (!(bias >= -100 && bias <= 100))
            return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias: the bias of id %s must be between -100 and 100",
                           key);
        job->bias[job->sampling.bias_n++] = (struct sample_bias){(tok_id)id, (float)bias};
    }
    return ST_OK;
}

static enum status parse_breakers(const json_t *root, struct reply_job *job, struct err *e)
{
    static const char name[] = "dry_sequence_breakers";
    const json_t *v = http_get(root, name);
    if (!v)
        return ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, name, "an array of strings", e);
    if (json_array_size(v) > LIMIT_BREAKERS)
        return err_set(e, ST_ARGUMENT, name, "%s has more than %u entries", name, LIMIT_BREAKERS);
    job->own_breakers = true;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        size_t n = json_string_length(one);
        if (!json_is_string(one))
            return http_wrong_type(one, name, "an array of strings", e);
        if (!n || n > LIMIT_BREAKER_BYTES)
            return err_set(e, ST_ARGUMENT, name, "%s: each must have between 1 and %u bytes, not %zu", name,
                           LIMIT_BREAKER_BYTES, n);
        job->breakers[job->breakers_n++] = (struct text_view){json_string_value(one), n};
    }
    return ST_OK;
}

static enum status parse_order(const json_t *root, struct sample_params *s, struct err *e)
{
    const json_t *v = http_get(root, "samplers");
    if (!v)
        return ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, "samplers", "an array of strings", e);
    if (!json_array_size(v))
        return err_set(e, ST_ARGUMENT, "samplers", "samplers must name at least one step");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        if (!json_is_string(one))
            return http_wrong_type(one, "samplers", "an array of strings", e);
        TRY(sample_order_add(s, json_string_value(one), json_string_length(one), e));
    }
    return ST_OK;
}

const char *const openai_sampling_names[] = {
    "temperature", "top_p", "top_k", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold",
    "presence_penalty", "frequency_penalty", "repeat_penalty", "repetition_penalty", "repeat_last_n",
    "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "mirostat",
    "mirostat_tau", "mirostat_eta", "dynatemp_range", "dynatemp_exponent", "seed", "min_tokens", "min_new_tokens",
    "logit_bias", "samplers", "repetition_context_size", "presence_context_size", "frequency_context_size", NULL,
};

enum status openai_parse_sampling(const json_t *root, struct reply_job *job, struct err *e)
{
    struct sample_params *s = &job->sampling;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        TRY(parse_range(root, &ranges[i], s, e));
    if (s->top_n_sigma < 0.0f)
        s->top_n_sigma = 0;
    TRY(parse_repetition(root, s, e));
    TRY(parse_windows(root, s, e));
    TRY(parse_integers(root, s, e));
    TRY(parse_bias(root, job, e));
    TRY(parse_breakers(root, job, e));
    TRY(parse_order(root, s, e));
    if ((job->max_tokens || job->nothing) && s->min_tokens > job->max_tokens)
        return err_set(e, ST_ARGUMENT, "min_tokens", "min_tokens is %u, but max_tokens is %u", s->min_tokens,
                       job->max_tokens);
    return sample_check(s, INT32_MAX, e);
}
