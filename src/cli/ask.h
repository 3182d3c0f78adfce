/*
 * ask: the requests of the load driver, each a pure function of the seed, the client and the turn.
 *
 * Prompts are common English words, most of which are one token in the usual vocabularies: a count of words is about one
 * of tokens. No two clients or turns begin alike unless a shared prefix is asked for, which depends on the seed alone.
 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

struct ask {
    const char *model;      /* its name in requests */
    uint64_t seed;
    bool completion;        /* otherwise chat */
    bool ignore_eos;        /* replies run to max_tokens: not a field of OpenAI's, so only sent when asked for */
    bool each_token;        /* asks for log-probabilities: then a token without text comes as a chunk, too */
    uint32_t shared;        /* words of the common beginning: the system prompt, or the prompt's first words */
    uint32_t words, spread; /* words of a prompt, and by how many percent one may be shorter or longer */
    uint32_t max_tokens;
};

/* How many words of its own the prompt of (client, turn) has. */
uint32_t ask_words(const struct ask *a, uint32_t client, uint32_t turn);

/* The JSON body of a request with `words` words of its own, in place of what `out` held. */
MUST_CHECK enum status ask_body(const struct ask *a, uint32_t client, uint32_t turn, uint32_t words, struct buf *out,
                                struct err *e);

#endif
