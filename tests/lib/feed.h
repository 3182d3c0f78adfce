/* feed: a model file opened for a test, and ids fed to it in chunks; logits of every position. */
#ifndef TESTS_LIB_FEED_H
#define TESTS_LIB_FEED_H

#include "model/model.h"

struct feed {
    struct weights *w;
    struct pool *pool;
    const struct kern_ops *ops;
    struct model *model;
    struct kv_pool *kv;
    struct model_run *run;
};

/* Everything is released by feed_release(), also after a failure. */
MUST_CHECK enum status feed_open(struct feed *f, const char *path, int threads, enum kern_kv format, uint32_t context,
                                 struct err *e);
void feed_release(struct feed *f);

/* Feeds n ids to a new sequence, at most `chunk` a step, and writes logits [n][vocab]. */
void feed_logits(struct feed *f, const tok_id *ids, uint32_t n, uint32_t chunk, float *logits);

/* The same, and out is the vector [vector] of the mean of all states, or with `rank` the classes [classes] by the last. */
void feed_vector(struct feed *f, const tok_id *ids, uint32_t n, uint32_t chunk, bool rank, float *out);

#endif
