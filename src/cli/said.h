/*
 * said: a reply of a conversation as it comes: shown, and taken apart into what was thought and what was answered.
 *
 * Reasoning is recognised as the server does (chat/chat.h). On a terminal it is shown dimmed before the answer; anything
 * else gets the answer alone.
 */
#ifndef CLI_SAID_H
#define CLI_SAID_H

#include "chat/chat.h"
#include "cli/reply.h"

struct said {
    struct chat_assembly *assembly; /* NULL: the template knows no reasoning */
    bool keeps_special;             /* it has to be fed control tokens, too */
    int origin;                     /* of the latest token */
    struct buf answer, reasoning;
};

/* For a request's JSON[n] and its prompt ids. said_release() is due either way. */
MUST_CHECK enum status said_init(struct said *s, const struct tok *tok, struct chat_tools_cache *formats,
                                 const char *request, size_t n, const tok_id *prompt, size_t prompt_n, struct err *e);
void said_release(struct said *s);

/* Makes `how` hand the reply's events to *s. */
void said_listen(struct said *s, struct reply_options *how);

bool said_nothing(const struct said *s);

/* {"role": "assistant", "content", "reasoning_content" if there was any}; NULL without memory. */
json_t *said_message(const struct said *s);

#endif
