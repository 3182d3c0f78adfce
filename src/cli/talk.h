/*
 * talk: a conversation with a model, kept as the JSON that a client would send.
 *
 * Each turn renders all of it, so what the model sees is what the server would show it. A turn that fails leaves the
 * conversation as it was. Replies go to stdout as they come (reply.h).
 */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include <jansson.h>

#include "api/api.h"
#include "cli/reply.h"

struct talk {
    const struct api_model *m;
    struct engine *engine;
    json_t *messages; /* owned */
    struct chat_tools_cache *formats; /* owned: how the model marks what it thinks */
    uint32_t retries; /* of the latest question */
};

/* `m` and `engine` outlive it. */
MUST_CHECK enum status talk_init(struct talk *t, const struct api_model *m, struct engine *engine, struct err *e);
void talk_release(struct talk *t); /* safe on a zeroed one */

/* Asks, and waits for the reply. One that is interrupted stays as far as it came; without any text the question is taken
 * back, as it is on failure. */
MUST_CHECK enum status talk_ask(struct talk *t, const char *text, size_t n, const struct reply_options *how,
                                struct err *e);

/* Asks the latest question again, each time with the next seed; its reply goes once the new one is there. */
MUST_CHECK enum status talk_retry(struct talk *t, const struct reply_options *how, struct err *e);

/* Takes back the latest question and what followed it. False: there is none. */
bool talk_undo(struct talk *t);

/* Forgets all but the system message. */
void talk_clear(struct talk *t);

/* The system message, or NULL. */
const char *talk_system(const struct talk *t);

/* Sets it for all turns to come, or removes it (text == NULL). */
MUST_CHECK enum status talk_set_system(struct talk *t, const char *text, struct err *e);

/* Writes {"messages": [...]} to a file, all at once. Without `over` there may be no such file yet. */
MUST_CHECK enum status talk_save(const struct talk *t, const char *path, bool over, struct err *e);

/* Takes the messages of such a file, or of an array of messages, in place of the conversation. They are rendered to see
 * whether the model's template takes them; if not, or the file holds none, nothing changes. */
MUST_CHECK enum status talk_load(struct talk *t, const char *path, struct err *e);

#endif
