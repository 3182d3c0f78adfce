/*
 * stops: stop strings in a stream of text.
 *
 * Text goes in as it becomes known and comes out once it is certain not to be part of a stop string. The match that
 * counts is the one that ends first (of those, the longest), exactly as if the text had come byte by byte; so it does
 * not matter how the text was cut into tokens.
 */
#ifndef ENGINE_STOPS_H
#define ENGINE_STOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "engine/engine.h"

#define STOP_FEED LIMIT_EVENT_BYTES /* bytes of one stop_feed() at most */

struct stop_rule {
    const uint8_t *s;     /* [n] */
    const uint16_t *fail; /* [n]: length of the longest proper border of s[0, i] (Knuth, Morris, Pratt 1977) */
    uint32_t n;
    uint32_t state;       /* how many bytes of s the text ends with, less than n */
};

/* Invariant: every rule's state <= text_n, so whatever may become a stop string is still here. */
struct stop_set {
    struct stop_rule rule[LIMIT_STOPS];
    uint32_t rules;
    uint32_t text_n;
    char text[STOP_FEED + LIMIT_STOP_BYTES]; /* not yet taken */
};

/* Copies the strings into `a`. ST_ARGUMENT naming what is wrong with one. */
MUST_CHECK enum status stop_init(struct stop_set *set, struct arena *a, const struct request_stop *stops, uint32_t n,
                                 struct err *e);

/* Appends n <= STOP_FEED bytes; stop_take() must have removed what was certain. When a stop string is complete, cuts the
 * text before it and returns its rule. */
const struct stop_rule *stop_feed(struct stop_set *set, const char *bytes, size_t n);

/* Bytes of `text` that are certain. */
uint32_t stop_certain(const struct stop_set *set);

/* Removes the first n bytes of `text`. */
void stop_take(struct stop_set *set, uint32_t n);

#endif
