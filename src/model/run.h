/*
 * run: the scratch of one step. Private to model. Every pointer is into one region, reserved at start and touched on use.
 *
 * The arrays of a step stand close together at the region's beginning: a step of one token touches a few hundred
 * kilobytes, one huge page, whatever the largest step may be.
 */
#ifndef MODEL_RUN_H
#define MODEL_RUN_H

#include "model/net.h"

/* Consecutive tokens of one span that lie in one KV block. */
struct piece {
    uint32_t span, first, n; /* span; its first token, counted within the step; tokens */
};

/* A tile whose partials are computed by several tasks. */
struct split {
    float *acc;             /* their results: [KV heads][parts][n][heads of the group][head_dim + 2] */
    _Atomic uint32_t *left; /* [KV heads] tasks that have not ended yet; whoever ends the last one folds */
    uint64_t part0;
    uint32_t parts, tasks;  /* tasks: of each KV head */
};

/* Queries of one span and one KV head against some partials. */
struct attn_task {
    uint32_t span, first, n;   /* as in a piece */
    uint32_t head;             /* KV head */
    uint64_t part0, part1;
    const struct split *split; /* NULL: these are all its partials */
};

/* Tasks of one KV group; the same for each of its layers. */
struct attn_plan {
    struct attn_task *tasks;
    struct split *splits;
    _Atomic uint32_t *left; /* of all splits */
    uint32_t n_tasks, n_splits;
};

struct model_run {
    const struct model *m;
    struct pool *pool;
    uint32_t cap, context;          /* most tokens of a step, positions of a sequence */
    bool timed;
    uint64_t linear_ns;             /* see model_linear_ns() */
    uint8_t *region;
    size_t region_bytes;

    const struct model_span *spans; /* of the current step */
    uint32_t n_spans, tokens, n_pieces;
    tok_id *ids;                    /* [tokens] */
    uint32_t *pos;                  /* [tokens] positions */
    struct piece *pieces;           /* [tokens] */
    struct attn_plan plan[KV_GROUPS];
    float *split_acc;               /* partial accumulators of all splits of one group */

    float *x;                       /* [tokens][width] the residual stream */
    float *xn;                      /* [tokens][width] normed: input of the next linear layer */
    float *q, *k, *v;               /* [tokens][heads × head_dim], [tokens][kv_heads × head_dim] twice */
    float *att;                     /* [tokens][heads × head_dim] */
    float *proj;                    /* [tokens][width] output of o and down */
    float *ffn;                     /* [tokens][ffn] input of down, where it is not quantised */
    float *cs_full, *cs_local;      /* [tokens][2 × pairs] rotations of this step's positions */
    float *vec[2];                  /* [the widest of what vectors are made with], twice */
    int8_t *vec_q;
    struct kern_xmeta *vec_meta;
    struct kern_top *tops;          /* [tasks of the head][tokens] */
    int8_t *act_q, *ffn_q;          /* quantised activations: [tokens][width or heads × head_dim], [tokens][ffn] */
    struct kern_xmeta *act_meta, *ffn_meta;
    uint8_t *worker;                /* [workers][worker_bytes] */
    size_t worker_bytes;
};

/* Sets the pointers below for a step of r->tokens tokens; what the arrays held is lost. run.c */
void model_run_lay_out(struct model_run *r);

/* Multiplies one vector x[mat->cols], quantised into the run's own room where that is needed, on all workers. forward.c */
void model_run_dense(struct model_run *r, const struct kern_mat *mat, const float *x, float *out);

/* Fills r->plan for the current spans. attention.c */
void attention_plan(struct model_run *r);

/* Bounds of what attention_plan() writes, for reserving it. */
size_t attention_max_tasks(const struct model *m, uint32_t cap, int workers);
size_t attention_split_floats(const struct model *m, uint32_t cap, uint32_t context);

/* att = attention of the step's queries, for a layer whose K and V are stored. */
void attention(struct model_run *r, const struct layer *ly);

#define LINEAR_TASKS 24u      /* that each worker's share of a linear layer is cut into, at most */
#define LINEAR_TASKS_LEAST 4u /* and at least, however small */
#define LINEAR_TASK_BYTES (48u << 10) /* of weights times tokens, that a task should have */
#define GLU_PANELS 8u         /* of gate and up, that one task takes at most: their products are in its scratch */
#define SPLIT_TOKENS 256u /* tokens of a step whose attention may be split over workers */

#endif
