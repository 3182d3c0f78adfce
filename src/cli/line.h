/*
 * line: one line of input after another, with editing and history where stdin is a terminal.
 */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct line;

/* NULL without memory. `prompt` is shown on terminals only, and outlives it. */
struct line *line_new(const char *prompt);
void line_free(struct line *l);

/* The next line without its end, valid until the next call; NULL at the end of the input, or when a signal came (then
 * cli_interrupted() is true). */
const char *line_read(struct line *l, size_t *n);

#endif
