/*
 * draft_rows: the sequences of a draft model, and feeding them. Private to source.
 *
 * A sequence holds what the draft model fed for one row: the row's ids as far as they go, then ids that it drew itself or
 * that other sources had proposed. What of this the row did not become is taken back when the row is looked at again.
 */
#ifndef SOURCE_DRAFT_ROWS_H
#define SOURCE_DRAFT_ROWS_H

#include "model/model.h"
#include "source/source.h"

#define DRAFT_DEPTH 16u /* ids of one proposal at most */
#define DRAFT_FEED 256u /* ids of one forward at most, of all rows: at most this much catching up a step */
#define DRAFT_BACK 128u /* tentative and drawn ids of a row at most; windows keep that much more, to take them back */

struct draft_seq {
    struct kv_seq kv;
    tok_id *ids;   /* [context + DRAFT_DEPTH]: [0, kv.len) were fed; behind them, what will be */
    uint32_t sure; /* ids[0, sure) are known ids of the row, which do not change */
    bool taken;
};

struct draft_rows {
    struct pool *pool;
    struct kv_pool *kv;
    struct model_run *run;
    struct sampler **samplers; /* [pool_size(pool)] */
    float *logits;             /* [n][vocab] */
    struct kern_top *tops;     /* [n]: the largest of each */
    uint32_t *masks;           /* [n][sample_mask_words(vocab)] of rows under a grammar */
    tok_id *ids;               /* [n][context + DRAFT_DEPTH] */
    struct draft_seq *seqs;    /* [n] */
    uint32_t n, context, vocab;
};

/* Everything is given back by source_draft_rows_release(), also after a failure. */
MUST_CHECK enum status source_draft_rows_init(struct draft_rows *r, const struct source_draft_config *cfg, struct err *e);
void source_draft_rows_release(struct draft_rows *r);

struct draft_seq *source_draft_take(struct draft_rows *r); /* an empty one, or NULL */
void source_draft_give(struct draft_seq *s);               /* NULL is fine */

/* Takes back what is not a beginning of the row's ids, so that at least the last is left to feed, and notes what is. The
 * row has at most `context` ids. Returns how many are left. */
uint32_t source_draft_sync(struct draft_seq *s, const struct source_row *row);

/* Room for n more ids; false when the blocks have run out or the context has. */
bool source_draft_reserve(struct draft_seq *s, uint32_t n);

/* Feeds the spans' ids; they are fed then. */
void source_draft_forward(struct draft_rows *r, const struct model_span *spans, uint32_t n);

#endif
