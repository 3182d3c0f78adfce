/* openai_accepted: request fields that change no reply but have to be what the API says. */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

enum status openai_check_string(const json_t *o, const char *key, const char *shown, struct err *e)
{
    const json_t *v = http_get(o, key);
    return v && !json_is_string(v) ? http_wrong_type(v, shown, "a string", e) : ST_OK;
}

enum status openai_check_metadata(const json_t *root, struct err *e)
{
    const json_t *o = http_get(root, "metadata"), *v;
    const char *key;
    if (!o)
        return ST_OK;
    if (!json_is_object(o))
        return http_wrong_type(o, "metadata", "an object", e);
    if (json_object_size(o) > LIMIT_METADATA)
        return err_set(e, ST_ARGUMENT, "metadata", "metadata has more than %u entries", LIMIT_METADATA);
    json_object_foreach((json_t *)o, key, v) {
        if (!json_is_string(v))
            return http_wrong_type(v, "metadata", "an object of strings", e);
        if (openai_chars(key, strlen(key)) > LIMIT_METADATA_KEY)
            return err_set(e, ST_ARGUMENT, "metadata", "metadata has a name of more than %u characters",
                           LIMIT_METADATA_KEY);
        if (openai_chars(json_string_value(v), json_string_length(v)) > LIMIT_METADATA_VALUE)
            return err_set(e, ST_ARGUMENT, "metadata", "metadata has a value of more than %u characters",
                           LIMIT_METADATA_VALUE);
    }
    return ST_OK;
}

enum status openai_check_cache(const json_t *root, struct err *e)
{
    const json_t *o = http_get(root, "prompt_cache_options");
    TRY(openai_check_string(root, "prompt_cache_retention", "prompt_cache_retention", e));
    if (o && !json_is_object(o))
        return http_wrong_type(o, "prompt_cache_options", "an object", e);
    if (http_get(o, "comparison_response_id"))
        return err_set(e, ST_UNSUPPORTED, "prompt_cache_options.comparison_response_id",
                       "prompt_cache_options.comparison_response_id is not supported by this version; usage.ffwd says "
                       "where a prompt left what is cached");
    if (http_get(o, "prewarm") && !json_is_false(http_get(o, "prewarm")))
        return err_set(e, ST_UNSUPPORTED, "prompt_cache_options.prewarm",
                       "prompt_cache_options.prewarm is not supported by this version");
    return ST_OK;
}

enum status openai_check_accepted(const json_t *root, struct err *e)
{
    static const char *const texts[] = {"user", "safety_identifier", "service_tier"};
    const json_t *prediction = http_get(root, "prediction");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        TRY(openai_check_string(root, texts[i], texts[i], e));
    /* A guess at the reply, to be faster by: this server makes its own. */
    if (prediction && !json_is_object(prediction))
        return http_wrong_type(prediction, "prediction", "an object", e);
    TRY(openai_check_cache(root, e));
    return openai_check_metadata(root, e);
}
