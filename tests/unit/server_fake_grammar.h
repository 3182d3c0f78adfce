/*
 * server_fake_grammar: the grammar compiler's place below a real server: remembers what it was given, cannot enforce
 * "not", and fails as words in the source say.
 */
#ifndef TESTS_SERVER_FAKE_GRAMMAR_H
#define TESTS_SERVER_FAKE_GRAMMAR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

struct grammar {
    atomic_uint refs;
    bool relaxed;
};

#define FAKE_SOURCES 16u

/* What was compiled, in order. */
static struct fake_source {
    enum grammar_kind kind;
    char text[20000], after[40];
    bool relax, check;
} fake_sources[FAKE_SOURCES];
static unsigned fake_sources_n;
static atomic_uint fake_grammars; /* references that are held */
static pthread_mutex_t fake_grammar_lock = PTHREAD_MUTEX_INITIALIZER;

static inline void fake_remember(const struct grammar_source *src)
{
    if (fake_sources_n == FAKE_SOURCES)
        return;
    struct fake_source *f = &fake_sources[fake_sources_n++];
    size_t n = src->n < sizeof f->text - 1 ? src->n : sizeof f->text - 1;
    size_t after_n = src->after_n < sizeof f->after - 1 ? src->after_n : sizeof f->after - 1;
    *f = (struct fake_source){.kind = src->kind, .relax = src->relax, .check = src->check};
    if (n)
        memcpy(f->text, src->text, n);
    if (after_n)
        memcpy(f->after, src->after, after_n);
}

static inline bool fake_says(const struct grammar_source *src, const char *word)
{
    return src->n && memmem(src->text, src->n, word, strlen(word)) != NULL;
}

enum status grammar_cache_new(struct grammar_cache **out, const struct tok *t, struct err *e)
{
    (void)t;
    (void)e;
    *out = NULL;
    return ST_OK;
}

void grammar_cache_free(struct grammar_cache *c)
{
    (void)c;
}

enum status grammar_cache_get(struct grammar_cache *c, struct grammar **out, const struct grammar_source *src,
                              struct err *e)
{
    (void)c;
    *out = NULL;
    pthread_mutex_lock(&fake_grammar_lock);
    fake_remember(src);
    pthread_mutex_unlock(&fake_grammar_lock);
    bool not = fake_says(src, "\"not\"");
    if (not && !src->relax)
        return err_set(e, ST_UNSUPPORTED, "", "/properties/a/not: the keyword 'not' cannot be enforced");
    if (fake_says(src, "broken"))
        return err_set(e, ST_ARGUMENT, "", "line 1, column 2: this is no grammar");
    if (fake_says(src, "slow"))
        return err_set(e, ST_TOO_LONG, "", "it took longer than 5000 ms to compile");
    if (fake_says(src, "busy")) {
        (void)err_set(e, ST_BUSY, "", "64 grammars wait to be compiled");
        e->retry_after = 3;
        return ST_BUSY;
    }
    *out = calloc(1, sizeof **out);
    atomic_store(&(*out)->refs, 1);
    (*out)->relaxed = not;
    atomic_fetch_add(&fake_grammars, 1);
    return ST_OK;
}

void grammar_retain(struct grammar *g)
{
    atomic_fetch_add(&g->refs, 1);
    atomic_fetch_add(&fake_grammars, 1);
}

void grammar_free(struct grammar *g)
{
    if (!g)
        return;
    atomic_fetch_sub(&fake_grammars, 1);
    if (atomic_fetch_sub(&g->refs, 1) == 1)
        free(g);
}

const char *grammar_relaxed(const struct grammar *g, size_t *n)
{
    const char *list = g->relaxed ? "[\"/properties/a/not\",\"/properties/q\\\"/not\"]" : "[]";
    *n = strlen(list);
    return list;
}

#endif
