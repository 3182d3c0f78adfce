/*
 * infill: prompts that ask a model for what is missing between two texts.
 *
 * Models that can have control tokens for it, and read what comes before the gap first, then what comes after it:
 * <prefix>before<suffix>after<middle>. Some also read other files of the same project in front of that. Texts are
 * plain: a control token that is written in one is what it looks like.
 */
#ifndef SERVER_INFILL_H
#define SERVER_INFILL_H

#include "server/reply.h"

struct server_infill_file {
    struct text_view name, text;
};

struct server_infill {
    const char *field; /* how errors name what asks for it */
    struct text_view before, after;
    struct text_view line; /* goes on with `before`, encoded by itself; may be empty */
    bool project;          /* the model is shown the project's files, as llama-server does it */
    const struct server_infill_file *files; /* [files_n] the others */
    size_t files_n;
};

/* ST_UNSUPPORTED where the model has no tokens for it. */
MUST_CHECK enum status server_infill(const struct server *s, const struct server_infill *in, struct reply_prompt *p,
                                     struct err *e);

#endif
