/*
 * replay_lines: recorded conversations, one JSON object a line (`ffwd bench replay`).
 *
 *     {"class": "tools_auto", "messages": [...], "tools": [...], "tool_choice": "auto", "response_format": {...},
 *      "reply": "text the model is taken to write"}
 *
 * `class`, `messages` and `reply` must be there; chat_template_kwargs may. A member of any other name is refused, so that
 * nothing that was recorded is silently left out of what is measured. The line's own bytes stay: they are what
 * chat_prompt() renders. Blank lines count, and hold nothing.
 */
#ifndef CLI_REPLAY_LINES_H
#define CLI_REPLAY_LINES_H

#include <jansson.h>

#include "base/base.h"

struct replay_line {
    uint32_t number;   /* in the file, from 1 */
    uint32_t cls;      /* index of its class */
    const char *json;  /* [n] bytes of the line */
    size_t n;
    const char *reply; /* [reply_n] bytes */
    size_t reply_n;
    json_t *root;      /* of the whole line; owned */
};

struct replay_lines {
    struct buf text;             /* the file; owned */
    struct replay_line *line;    /* [n] */
    uint32_t n;
    const char *cls[LIMIT_REPLAY_CLASSES]; /* [classes] names, in the order in which they first come */
    uint32_t classes;
};

/* Reads `text`, whose content it takes over, also on failure. Errors name `name` (the file), the line and the member. On
 * failure *out is empty. */
MUST_CHECK enum status replay_lines_init(struct replay_lines *out, struct buf *text, const char *name, struct err *e);
void replay_lines_release(struct replay_lines *l); /* safe on a zeroed struct */

/* The line's request shows no tools to the model. */
bool replay_line_hides_tools(const struct replay_line *l);

#endif
