/*
 * command: what may be typed in `ffwd chat` besides questions: /help, /clear, /system, /save, /load, /undo, /retry,
 * /params, /origin, /quit.
 *
 * An input is a command when it begins with a slash and a word of letters, so "/etc/passwd is what?" is none. Commands
 * answer on stderr.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <limits.h>

#include "cli/reply.h"
#include "cli/talk.h"

/* What commands may change. */
struct command_session {
    struct talk *talk;
    struct reply_options *how;
    char file[PATH_MAX]; /* the conversation's: where it was saved or loaded; "" = none yet */
    bool quit;
};

/* Their names, with the slash; ends with NULL. */
const char *const *command_names(void);

bool command_is(const char *text, size_t n);

/* Follows a command; changes `text`. False: it failed, which was told, and nothing has changed. */
bool command_run(struct command_session *s, char *text);

#endif
