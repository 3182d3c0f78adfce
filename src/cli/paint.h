/*
 * paint: a reply on a terminal, each piece of text in the colour of where its token came from.
 *
 * Only where stdout is a terminal and the environment has no NO_COLOR (no-color.org). A terminal obeys control characters,
 * and a model's text may hold any: there all but line feeds and tabs are shown as U+FFFD. Anything else gets the text as it
 * is.
 */
#ifndef CLI_PAINT_H
#define CLI_PAINT_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes at s[n], n > 0, are a control character that a terminal might obey; 0: they are none, or a line feed or
 * tab. */
size_t paint_control(const char *s, size_t n);

/* Whether there would be colours if they were wanted. */
bool paint_possible(void);

/* Decides whether there will be colours; `wanted` false: there will be none. */
void paint_begin(bool wanted);

/* Text of a token; origin as in struct event. */
void paint_write(int origin, const char *text, size_t n);

/* Text that precedes the reply proper, dimmed, which then begins on a line of its own. Only terminals show it. */
void paint_aside(const char *text, size_t n);

/* Back to plain; then, on stderr, which colours were seen and what they mean. */
void paint_end(void);

#endif
