/*
 * api: opening a model for use, and the embeddable library on top of it (include/ffwd.h).
 *
 * An `api_model` is what every user of a model file needs, made in one call: the mapped weights, the worker pool, the
 * kernels of this machine, the network, the tokenizer and the chat template. The tokenizer is built while another thread
 * and the pool load the weights, since each takes about as long as the other. The program's verbs start from
 * here too; nothing in it knows of terminals or HTTP.
 */
#ifndef API_API_H
#define API_API_H

#include <stddef.h>

#include "base/base.h"

struct chat;
struct kern_ops;
struct model;
struct packed_store;
struct sample_params;
struct tok;
struct weights;

/* What to make. The weights are always opened. */
enum api_want {
    API_MODEL = 1, /* pool, kernels, network */
    API_TOK = 2,   /* tokenizer */
    API_CHAT = 4   /* chat, which needs the tokenizer */
};

struct api_open {
    const char *path;
    unsigned want;   /* of enum api_want */
    uint32_t threads; /* 0 = pool_default_threads() */
    const struct packed_store *store; /* where packed weights are kept (weights.h); NULL = nowhere */
    /* Called now and then while weights are packed, from one thread, not always the calling one; may be NULL. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
};

/* All owned; what was not wanted is NULL. */
struct api_model {
    struct weights *weights;
    struct pool *pool;
    const struct kern_ops *ops;
    struct model *model;
    struct tok *tok;
    struct chat *chat;    /* a file without a template, or with a broken one, has a chat that refuses */
    struct err chat_err;  /* code ST_OK unless the template is broken */
};

/* On failure *out is empty and the text names the file. A missing or broken chat template is not a failure: a model
 * with one still completes text. */
MUST_CHECK enum status api_open(struct api_model *out, const struct api_open *o, struct err *e);
void api_close(struct api_model *m); /* safe on an empty one */

/* --- sampling (sampling.c) -------------------------------------------------------------------------------------------- */

/* Bitmaps of ids; owned. */
struct api_sets {
    uint8_t *ends, *protect, *breakers;
};

/* Fills in the sets of ids that *p asks for; they live until api_sets_release(), which is due after a failure too.
 * Breakers are NUL-terminated; NULL = the usual ones. ST_ARGUMENT for too many or too long ones. */
MUST_CHECK enum status api_sets_init(struct api_sets *s, const struct tok *t, const char *const *breakers,
                                     size_t breakers_n, struct sample_params *p, struct err *e);
void api_sets_release(struct api_sets *s);

#endif
