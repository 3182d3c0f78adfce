/*
 * near: which of some words a mistyped one was probably meant to be.
 *
 * Words are offered one after the other; the nearest by edits (insertion, deletion, another letter, two neighbours
 * swapped) wins, if it is near enough to be worth saying. One that merely goes on where the typed one ends also counts.
 */
#ifndef CLI_NEAR_H
#define CLI_NEAR_H

#include <stddef.h>

#define NEAR_LONGEST 32u /* longer words are near to nothing */

struct near {
    const char *typed; /* [n] */
    size_t n;
    const char *best;  /* [best_n]; NULL: none is near enough. Of equals the first */
    size_t best_n, cost;
};

void near_init(struct near *s, const char *typed, size_t n);
void near_offer(struct near *s, const char *word, size_t n); /* which outlives *s */

#endif
