/* words: see words.h. */
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byte_stand_in.h"

tok_id words_add(struct words *w, const char *text, int type)
{
    size_t i = w->n++;
    if (i >= WORDS_MOST || strlen(text) >= WORDS_BYTES) {
        fprintf(stderr, "words: no room for \"%s\"\n", text);
        abort();
    }
    memcpy(w->store[i], text, strlen(text) + 1);
    w->tokens[i] = (struct text_view){w->store[i], strlen(text)};
    w->types[i] = type;
    w->scores[i] = 0;
    return (tok_id)i;
}

void words_begin_bytes(struct words *w)
{
    char piece[4];
    w->n = w->merges_n = 0;
    for (unsigned b = 0; b < 256; b++) {
        byte_stand_in(b, piece);
        words_add(w, piece, TOK_NORMAL);
    }
}

void words_merge(struct words *w, const char *left, const char *right)
{
    char both[2 * WORDS_BYTES];
    size_t i = w->merges_n++;
    if (i >= WORDS_MERGES || strlen(left) + strlen(right) >= WORDS_BYTES) {
        fprintf(stderr, "words: no room for the merge \"%s %s\"\n", left, right);
        abort();
    }
    snprintf(w->pairs[i], sizeof w->pairs[i], "%s %s", left, right);
    w->merges[i] = (struct text_view){w->pairs[i], strlen(w->pairs[i])};
    snprintf(both, sizeof both, "%s%s", left, right);
    words_add(w, both, TOK_NORMAL);
}

struct tok_source words_source(const struct words *w, const char *pre)
{
    struct tok_source src;
    tok_source_init(&src);
    src.model = "gpt2";
    src.pre = pre;
    src.tokens = w->tokens;
    src.types = w->types;
    src.n_tokens = w->n;
    src.merges = w->merges;
    src.n_merges = w->merges_n;
    return src;
}
