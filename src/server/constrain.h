/*
 * constrain: from what a request asks of its reply's shape to what the engine and the recogniser get.
 *
 * A dialect says what is wanted in its own words (where texts lie, which tools there are, how errors name their parts);
 * here it becomes a compiled grammar, the tools of the recogniser and the job's other fields. Whatever cannot be enforced
 * fails with the name of its part: nothing is served unconstrained that asked for more.
 */
#ifndef SERVER_CONSTRAIN_H
#define SERVER_CONSTRAIN_H

#include "server/reply.h"

/* The whole reply (behind reasoning, if the prompt opened it) is of this shape. */
struct server_constraint {
    const char *field; /* how errors name it, at most SERVER_FIELD bytes of it; NULL = there is none */
    enum grammar_kind kind;
    struct text_view text; /* points into the request */
};

#define SERVER_FIELD 63u

/* A reply may, or has to, call tools. Bit i of a set is tool i; sets are [LIMIT_TOOLS / 8]. */
struct server_calls {
    const struct format_tool *tools; /* [n] */
    size_t n;
    const uint8_t *strict;  /* whose schemas are enforced whole */
    const uint8_t *allowed; /* which may be called; NULL = all */
    enum format_choice choice;
    size_t named;  /* FORMAT_NAMED: which */
    bool parallel; /* more than one call is wanted */
    const struct format_shape *shape; /* from server_recognise() */
    const char *schema_field; /* "function.parameters": what follows "tools[i]." in errors */
    const char *choice_field; /* what errors about the choice name */
};

/* What replies to this request of a chat hold, and how: `request` are its bytes, the job's first prompt is there already.
 * Fills in job->recognise, tools and rows, and how calls are written. `calls`: tools were shown to the model. */
MUST_CHECK enum status server_recognise(const struct server *s, struct text_view request, bool calls,
                                        struct reply_job *job, struct format_shape *shape, struct err *e);

/* After server_recognise(): the reply thinks with so many ids at most. ST_UNSUPPORTED naming `field` where the end of this
 * model's thinking, or its beginning if the prompt is not in it, is no control token: then it cannot be told by ids. */
MUST_CHECK enum status server_limit_thinking(const struct server *s, uint32_t tokens, const char *field,
                                             struct reply_job *job, struct err *e);

/* After server_recognise(). Each compiles job->grammar and waits for it. */
MUST_CHECK enum status server_constrain(const struct server *s, const struct server_constraint *c, struct reply_job *job,
                                        struct err *e);

/* Without a known format of calls replies stay text: then FORMAT_AUTO asks for nothing. */
MUST_CHECK enum status server_constrain_calls(const struct server *s, const struct server_calls *calls,
                                              struct reply_job *job, struct err *e);

static inline bool server_set_has(const uint8_t *set, size_t i)
{
    return set[i / 8] >> i % 8 & 1;
}

static inline void server_set_add(uint8_t *set, size_t i)
{
    set[i / 8] = (uint8_t)(set[i / 8] | 1u << i % 8);
}

#endif
