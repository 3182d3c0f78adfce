/*
 * openai_defaults: the same sampling fields in dialects that have values of their own for what a request leaves out.
 *
 * A value that was not asked for may not make a request impossible: those of steps that `samplers` leaves out do not
 * hold, and those of cuts do not hold beside mirostat, which is one.
 */
#include <string.h>

#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"

static bool named(const json_t *samplers, const char *step)
{
    for (size_t i = 0; i < json_array_size(samplers); i++) {
        const json_t *one = json_array_get(samplers, i);
        if (json_is_string(one) && strcmp(json_string_value(one), step) == 0)
            return true;
    }
    return false;
}

static void drop_impossible(const json_t *given, json_t *usual)
{
    static const struct {
        const char *field, *step;
        bool cut;
    } of[] = {
        {"temperature", "temperature", false}, {"top_k", "top_k", true}, {"top_p", "top_p", true},
        {"min_p", "min_p", true},              {"repeat_penalty", "penalties", false},
    };
    const json_t *samplers = http_get(given, "samplers"), *mirostat = http_get(given, "mirostat");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if ((samplers && !named(samplers, of[i].step)) || (of[i].cut && json_number_value(mirostat) > 0))
            (void)json_object_del(usual, of[i].field);
    /* one field under two names */
    if (http_get(given, "repetition_penalty"))
        (void)json_object_del(usual, "repeat_penalty");
}

enum status openai_parse_sampling_over(const json_t *given, json_t *usual, struct reply_job *job, struct err *e)
{
    const char *key;
    json_t *v;
    bool fine = usual != NULL;
    if (fine)
        drop_impossible(given, usual);
    json_object_foreach((json_t *)given, key, v)
        fine = fine && (json_is_null(v) || json_object_set(usual, key, v) == 0);
    enum status st = fine ? openai_parse_sampling(usual, job, e)
                          : err_set(e, ST_NO_MEMORY, "", "no memory for the sampling fields");
    json_decref(usual); /* the strings among them live on in the request */
    return st;
}
