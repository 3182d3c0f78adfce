/* words: small byte-level vocabularies, written down token by token, for tests of tokenizers and of what stands on them. */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "text/text.h"

#define WORDS_MOST 2200
#define WORDS_MERGES 1900
#define WORDS_BYTES 32 /* of a token's text, with its NUL */

struct words {
    struct text_view tokens[WORDS_MOST], merges[WORDS_MERGES];
    float scores[WORDS_MOST];
    int32_t types[WORDS_MOST];
    size_t n, merges_n;
    char store[WORDS_MOST][WORDS_BYTES], pairs[WORDS_MERGES][2 * WORDS_BYTES];
};

/* Forgets what there was. Ids 0 to 255 are the bytes, in GPT-2's stand-ins (byte_stand_in.h). */
void words_begin_bytes(struct words *w);

/* Returns the id. Ends the program where there is no room; so does words_merge(). */
tok_id words_add(struct words *w, const char *text, int type);

/* A merge and its token; both parts in stand-ins. */
void words_merge(struct words *w, const char *left, const char *right);

/* A byte-level vocabulary of them, cut as `pre` says; it points into *w. A file has at least one merge. */
struct tok_source words_source(const struct words *w, const char *pre);

#endif
