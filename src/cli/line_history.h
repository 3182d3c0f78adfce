/*
 * line_history: the inputs that were typed, in a file: ${XDG_STATE_HOME:-$HOME/.local/state}/ffwd/chat.history.
 *
 * Each is a JSON string on a line of its own, appended in one write, so several programs may add at a time. Nobody but
 * the user may read the file. When it has grown to twice what is loaded, the older half is dropped.
 */
#ifndef CLI_LINE_HISTORY_H
#define CLI_LINE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

#define LINE_HISTORY_BYTES (256u << 10) /* that are loaded, the latest */
#define LINE_HISTORY_LONGEST 16384u     /* bytes of an input that is kept */

/* False when the environment names no folder for it, or too long a one. */
bool line_history_path(char *out, size_t cap);

typedef void line_history_sink(void *user, const char *text);

/* Tells the inputs in the file, oldest first. One that is not there is empty; lines that are no JSON strings are left
 * out. */
MUST_CHECK enum status line_history_load(const char *path, line_history_sink *sink, void *user, struct err *e);

/* Makes the file and its folder if need be. Inputs that are too long, or not UTF-8, are not kept. */
MUST_CHECK enum status line_history_add(const char *path, const char *text, size_t n, struct err *e);

#endif
