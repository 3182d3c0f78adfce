/*
 * index: where a run of k ids stood before.
 *
 * Every run (gram) of k consecutive ids is entered under the place where it ends, which is the place of the id that came
 * next. `last` is an open-addressed table with a slot for each different gram: its latest end. `before` leads from an end
 * to the one before it of the same gram. Grams are compared id by id when they are entered and when they are looked up,
 * so hash collisions cost time and never an answer, and PROBES bounds that time for ids chosen to collide: a gram that
 * finds no slot within them is left out.
 *
 * An end is entered once the id behind it is known. So what is found always goes on, and the end of the ids, which is
 * where one looks from, never finds itself.
 */
#ifndef SOURCE_INDEX_H
#define SOURCE_INDEX_H

#include <stdint.h>

#include "base/base.h"

struct source_index {
    uint32_t k;       /* ids of a gram */
    uint32_t cap;     /* ends beyond it are not entered: the index is frozen */
    uint32_t next;    /* the end to be entered next */
    uint32_t mask;    /* slots - 1; there are twice as many slots as ends, at least */
    uint32_t *last;   /* [mask + 1] 0 = free */
    uint32_t *before; /* [cap + 1] 0 = none */
};

/* For `longest` ids, of which at most `cap` are entered. Nothing is resident before it is used. */
MUST_CHECK enum status source_index_init(struct source_index *x, uint32_t k, uint32_t longest, uint32_t cap,
                                         struct err *e);
void source_index_release(struct source_index *x);

/* ids[0, n) are known; those up to an earlier n are the same as then. */
void source_index_extend(struct source_index *x, const tok_id *ids, uint32_t n);

/* Ends of earlier occurrences of ids[n - k, n) among those entered, the nearest first, at most `most`. n may lie beyond
 * what was entered, and not before it. */
uint32_t source_index_find(const struct source_index *x, const tok_id *ids, uint32_t n, uint32_t *ends, uint32_t most);

/* How many ids before a and before b are the same, at most `most`. a <= b. */
uint32_t source_index_match(const tok_id *ids, uint32_t a, uint32_t b, uint32_t most);

/* Of the k ids that begin there. */
uint32_t source_index_hash(const tok_id *gram, uint32_t k);

#endif
