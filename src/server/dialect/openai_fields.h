/* openai_fields: refusing fields by a table, taking those that change nothing, and what chat and completions share. */
#ifndef SERVER_DIALECT_OPENAI_FIELDS_H
#define SERVER_DIALECT_OPENAI_FIELDS_H

#include <jansson.h>

#include "server/reply.h"

/* The value with which a field asks for nothing; null always does. */
enum openai_neutral { NEUTRAL_NULL, NEUTRAL_ZERO, NEUTRAL_ONE, NEUTRAL_FALSE, NEUTRAL_EMPTY };

struct openai_refused {
    const char *name; /* NULL ends a table */
    enum openai_neutral neutral;
};

/* ST_UNSUPPORTED naming the first field of the table that asks for something. */
MUST_CHECK enum status openai_refuse_fields(const json_t *root, const struct openai_refused *list, struct err *e);

/* The same for what other servers know beyond the API and this one does not. */
MUST_CHECK enum status openai_refuse_extensions(const json_t *root, struct err *e);

/* Of stream_options: padding against listeners, which nothing here adds. */
MUST_CHECK enum status openai_check_obfuscation(const json_t *options, struct err *e);

/* ---- what changes no reply (openai_accepted.c) ---- */

/* A member that has to be a string where it is; `shown` names it in errors. */
MUST_CHECK enum status openai_check_string(const json_t *o, const char *key, const char *shown, struct err *e);

/* metadata: an object of a few short strings. */
MUST_CHECK enum status openai_check_metadata(const json_t *root, struct err *e);

/* prompt_cache_retention and prompt_cache_options: prefixes are cached without being asked. ST_UNSUPPORTED for what asks
 * for more. */
MUST_CHECK enum status openai_check_cache(const json_t *root, struct err *e);

/* All such fields of chat and completions. */
MUST_CHECK enum status openai_check_accepted(const json_t *root, struct err *e);

/* ---- what they share ---- */

/* stop: a string or an array of strings. */
MUST_CHECK enum status openai_parse_stops(const json_t *root, struct reply_job *job, struct err *e);

/* How tokens are chosen (openai_sampling.c); after max_tokens. */
MUST_CHECK enum status openai_parse_sampling(const json_t *root, struct reply_job *job, struct err *e);

/* The names of those fields; ends with NULL. */
extern const char *const openai_sampling_names[];

/* The same with other values for what is absent or null (openai_defaults.c). `given` may be NULL, `usual` is taken over;
 * it is NULL where there was no memory for it. */
MUST_CHECK enum status openai_parse_sampling_over(const json_t *given, json_t *usual, struct reply_job *job,
                                                  struct err *e);

#endif
