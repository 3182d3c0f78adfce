/*
 * line: one input after another, with editing, history and completion where stdin is a terminal.
 *
 * An input is a line, or several: one that ends with a backslash goes on in the next, and from """ to """ everything is
 * one input. On a terminal Alt-Enter also begins a line, and what is pasted at once stays together. The lines typed
 * before are kept in a file (line_history.h).
 */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

#define LINE_LONGEST (4u << 20) /* bytes of an input */

struct line;

/* Strings outlive the line. */
struct line_config {
    const char *prompt, *more;   /* shown on terminals only: before an input, and before its further lines */
    const char *const *commands; /* words that Tab completes at the beginning of an input; ends with NULL */
    bool no_history;             /* nothing is read from the history file, nor written to it */
};

struct line *line_new(const struct line_config *c); /* NULL without memory */
void line_free(struct line *l);                     /* NULL is fine */

struct line_text {
    char *s;    /* [n] and a NUL, the caller's to change until the next call; NULL at the end of the input */
    size_t n;
    bool block; /* it stood between """ and """, which are not part of it */
};

/* The next input. ST_CANCELLED: a signal came, and what was typed is thrown away. ST_TOO_LONG: it is longer than
 * LINE_LONGEST, and what follows would be the rest of it. */
MUST_CHECK enum status line_read(struct line *l, struct line_text *out, struct err *e);

#endif
