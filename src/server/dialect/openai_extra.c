/*
 * openai_extra: request fields beyond the API that chat and completions share: priority, deadline_ms, cache_salt, the
 * object `ffwd`; and the names by which a request refers to earlier replies, prompt_cache_key among them.
 */
#include <stdio.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

/* A string of lo to hi bytes; `shown` names the field in errors. */
static enum status parse_name(const json_t *o, const char *key, const char *shown, size_t lo, size_t hi,
                              struct server_name *out, struct err *e)
{
    const json_t *v = http_get(o, key);
    if (!v)
        return ST_OK;
    if (!json_is_string(v))
        return http_wrong_type(v, shown, "a string", e);
    size_t n = json_string_length(v);
    if (n < lo || n > hi)
        return err_set(e, ST_ARGUMENT, shown, "%s must have between %zu and %zu bytes, not %zu", shown, lo, hi, n);
    *out = (struct server_name){json_string_value(v), n};
    return ST_OK;
}

static enum status parse_fill(const json_t *o, struct reply_job *job, struct err *e)
{
    const json_t *v = http_get(o, "fill");
    if (!v)
        return ST_OK;
    if (!json_is_string(v))
        return http_wrong_type(v, "ffwd.fill", "a string", e);
    for (int i = FILL_LOSSLESS; i <= FILL_STRICT; i++) {
        const char *name = server_fill_name((enum fill_mode)i);
        if (json_string_length(v) == strlen(name) && strcmp(json_string_value(v), name) == 0) {
            job->fill = (enum fill_mode)i;
            return ST_OK;
        }
    }
    return err_set(e, ST_ARGUMENT, "ffwd.fill", "ffwd.fill must be 'off', 'lossless' or 'strict', not '%.40s'",
                   json_string_value(v));
}

/* Those in the list may be used, the others may not. */
static enum status parse_sources(const json_t *o, struct reply_job *job, struct err *e)
{
    static const char field[] = "ffwd.sources";
    const json_t *v = http_get(o, "sources");
    uint32_t on = 0;
    if (!v)
        return ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, field, "an array of strings", e);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        if (!json_is_string(one))
            return http_wrong_type(one, field, "an array of strings", e);
        enum source_kind k = source_find(json_string_value(one), json_string_length(one));
        if (k == SOURCE_KINDS)
            return err_set(e, ST_ARGUMENT, field, "there is no source '%.40s'; they are grammar, grammar_likely, template, "
                           "echo, ngram and draft", json_string_value(one));
        on |= 1u << k;
    }
    job->sources_off = ~on & ((1u << SOURCE_KINDS) - 1);
    return ST_OK;
}

static enum status parse_object(const json_t *root, struct reply_job *job, struct err *e)
{
    static const char *const known[] = {"fill", "sources", "plan", "trace", "session"};
    const json_t *o = http_get(root, "ffwd"), *v;
    const char *key;
    if (!o)
        return ST_OK;
    if (!json_is_object(o))
        return http_wrong_type(o, "ffwd", "an object", e);
    json_object_foreach((json_t *)o, key, v) {
        char field[ERR_FIELD];
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(key, known[i]) != 0)
            i++;
        if (i < sizeof known / sizeof *known)
            continue;
        snprintf(field, sizeof field, "ffwd.%s", key);
        return err_set(e, ST_ARGUMENT, field,
                       "ffwd has no member '%.60s'; it knows fill, sources, plan, trace and session", key);
    }
    TRY(parse_fill(o, job, e));
    TRY(parse_sources(o, job, e));
    if (http_get_bool(o, "plan", &job->plan, e) != ST_OK)
        return http_wrong_type(http_get(o, "plan"), "ffwd.plan", "a boolean", e);
    if (http_get_bool(o, "trace", &job->trace, e) != ST_OK)
        return http_wrong_type(http_get(o, "trace"), "ffwd.trace", "a boolean", e);
    return parse_name(o, "session", "ffwd.session", 1, LIMIT_REPLAY_NAME, &job->session, e);
}

/* An id in a message is a hint and no more: one of another type names nothing. */
static void look_up_member(struct reply_job *job, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v))
        server_look_up(job, (struct server_name){json_string_value(v), json_string_length(v)});
}

void openai_name_messages(const json_t *root, struct reply_job *job)
{
    const json_t *messages = http_get(root, "messages");
    for (size_t i = json_array_size(messages); i-- > 0 && job->lookups_n < LIMIT_REPLAY_LOOKUPS;) {
        const json_t *m = json_array_get(messages, i), *calls = json_object_get(m, "tool_calls");
        look_up_member(job, m, "id");
        look_up_member(job, m, "tool_call_id");
        /* more calls of one reply are not known by their ids */
        for (size_t k = 0; k < json_array_size(calls) && k < LIMIT_REPLAY_CALLS; k++)
            look_up_member(job, json_array_get(calls, k), "id");
    }
}

enum status openai_parse_service(const json_t *root, int32_t *priority, uint32_t *deadline_ms, struct server_name *salt,
                                 struct err *e)
{
    int64_t rank = 0, deadline = 0;
    TRY(http_get_int(root, "priority", -LIMIT_PRIORITY, LIMIT_PRIORITY, &rank, e));
    TRY(http_get_int(root, "deadline_ms", 1, LIMIT_DEADLINE_MS, &deadline, e));
    TRY(parse_name(root, "cache_salt", "cache_salt", 1, LIMIT_SALT, salt, e));
    *priority = (int32_t)rank;
    *deadline_ms = (uint32_t)deadline;
    return ST_OK;
}

enum status openai_parse_extra(const json_t *root, struct reply_job *job, struct err *e)
{
    TRY(openai_parse_service(root, &job->priority, &job->deadline_ms, &job->salt, e));
    TRY(parse_name(root, "prompt_cache_key", "prompt_cache_key", 0, LIMIT_REPLAY_NAME, &job->cache_key, e));
    TRY(parse_object(root, job, e));
    server_look_up(job, job->session);
    server_look_up(job, job->cache_key);
    return ST_OK;
}
