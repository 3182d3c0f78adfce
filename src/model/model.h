/*
 * model: a network and its forward pass.
 *
 * A model is read-only once loaded and may be used by one forward at a time per `struct model_run`, which holds the
 * scratch of a step. model_forward() takes spans of any rows, of any lengths, in one pass over the weights; it knows
 * nothing of prompts, sampling or why a token is fed. Law L1: the values of a position depend on that row's ids alone.
 *
 * A model that is *bidirectional* makes vectors of texts and writes none: its queries look ahead, so each span is a whole
 * text, fed to an empty sequence. Any other may make vectors, too (embed.c).
 *
 * Families are data: one descriptor file each, naming metadata, tensors and the variations of the one forward pass.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "kern/kern.h"
#include "kv/kv.h"
#include "weights/weights.h"

struct model;
struct model_run;

/* Which final states a text's vector is made of; the numbers are those of GGUF's pooling_type. */
enum model_pooling {
    POOLING_NONE, /* nobody says: it makes none */
    POOLING_MEAN, /* all of them */
    POOLING_CLS,  /* the first */
    POOLING_LAST,
    POOLING_RANK  /* the last, from which the classes of a pair of texts are told */
};

struct model_info {
    const char *architecture; /* as the file names it: "llama" */
    const char *name;         /* general.name, or the file's name */
    const char *types;        /* weight types and how many tensors of each: "210 Q4_1, 1 Q8_0, 61 F32" */
    uint32_t layers, width, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t context;         /* positions the model was trained for */
    uint32_t window;          /* sliding window, 0 = none */
    bool bidirectional, matryoshka; /* as in struct family, unless the file says otherwise of the first */
    enum model_pooling pooling; /* as the file says */
    uint32_t vector, classes; /* numbers of a text's vector; of POOLING_RANK, 0 = the model cannot */
    uint64_t parameters;
    size_t weight_bytes;      /* packed, resident */
    enum packed_origin panels; /* packed by this process or by an earlier one */
    size_t token_bytes;       /* weight bytes read to decode one token, head included */
    size_t token_macs;        /* multiply-accumulates for one token, head excluded */
    size_t head_macs;         /* multiply-accumulates for one position's logits */
    uint32_t kv_groups;
    struct kv_shape kv_group[KV_GROUPS];
};

struct model_options {
    struct pool *pool;        /* packs the weights; not kept */
    const struct kern_ops *ops;
    bool outline;             /* packs none and asks for no memory for them: for model_info() and model_run_bytes() alone */
    const struct packed_store *store; /* where packed weights are kept; NULL = nowhere. Not kept itself */
    /* Called now and then while loading, from the calling thread; may be NULL. */
    void (*progress)(void *ctx, size_t done, size_t total);
    void *progress_ctx;
};

/* Loads the network in `w`, which must outlive the model. ST_MODEL names the tensor or key that is wrong or missing,
 * ST_UNSUPPORTED an architecture or variation this build does not know. */
MUST_CHECK enum status model_new(struct model **out, struct weights *w, const struct model_options *o, struct err *e);
void model_free(struct model *m);
const struct model_info *model_info(const struct model *m);

/* --- a step ---------------------------------------------------------------------------------------------------------- */

/* What one row contributes: `n` consecutive ids, fed at positions [seq->len, seq->len + n). The caller has reserved
 * room; model_forward() writes KV there and leaves seq->len alone (kv_seq_commit() is the judge's decision). */
struct model_span {
    struct kv_seq *seq;
    const tok_id *ids;
    uint32_t n;
};

/* Scratch for steps of up to `tokens` tokens; `context` bounds a sequence. The pool runs the steps and outlives it. */
MUST_CHECK enum status model_run_new(struct model_run **out, const struct model *m, struct pool *pool, uint32_t tokens,
                                     uint32_t context, struct err *e);
void model_run_free(struct model_run *r);

/* What such a run reserves. */
size_t model_run_bytes(const struct model *m, struct pool *pool, uint32_t tokens, uint32_t context);

/* Feeds all spans: at most `tokens` ids in all, every id < vocab. Afterwards the run holds one hidden state per fed id, in
 * span order. Cannot fail: non-finite values stay within their row and show in its logits. */
void model_forward(struct model_run *r, const struct model_span *spans, uint32_t n_spans);

/* Nanoseconds that linear layers took in forwards since the first call of this function, which begins to count them. What
 * becomes of their outputs on the spot is in it; the head is not. */
uint64_t model_linear_ns(struct model_run *r);

/* --- vectors of texts (embed.c) --------------------------------------------------------------------------------------- */

/* Adds the normed final states of n of the last forward's ids, from index `at` on and in order, to sum[width]. However a
 * text was cut into steps, the bits are the same. */
void model_pool(struct model_run *r, uint32_t at, uint32_t n, float *sum);

/* What comes of the sum of n states: their mean, through the dense layers, of length 1, is out[vector]; with `rank` the
 * classes' scores are out[classes], probabilities if there is more than one. False: some are not finite. */
bool model_vector(struct model_run *r, const float *sum, uint32_t n, bool rank, float *out);

/* Logits of n of the last forward's ids: `at` indexes them in feeding order (span after span). out is [n][vocab] f32. top
 * is [n], the largest of each, found while they are still in the cache; NULL = not asked. */
void model_head(struct model_run *r, const uint32_t *at, uint32_t n, float *out, struct kern_top *top);

#endif
