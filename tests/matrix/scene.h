/*
 * scene: one run of the request under test through a real engine, in a given company, with a given past.
 *
 * Sizes: the request has `prompt` ids and chooses `tokens`. The neighbours' lengths follow from it, so that with a short
 * KV pool everybody who is there at the beginning crosses the same block boundary a few tokens into the reply: blocks
 * run out, and the youngest of them, which is the request under test, is put back.
 */
#ifndef TESTS_MATRIX_SCENE_H
#define TESTS_MATRIX_SCENE_H

#include "watch.h"

#include "api/api.h"

enum company { COMPANY_ALONE, COMPANY_BATCH, COMPANIES };
enum past {
    PAST_COLD,
    PAST_WARM,      /* its whole prompt was asked before, and answered */
    PAST_PART_WARM, /* a beginning of its prompt was */
    PAST_PUT_BACK,  /* its blocks are taken after some tokens; it feeds everything again */
    PAST_RESUMED,   /* the same, but the prefix cache still has some of them */
    PASTS
};
/* What goes on beside plain decoding. */
enum fill {
    FILL_NONE,    /* FILL_OFF */
    FILL_TOLD,    /* a source knows what comes */
    FILL_MIXED,   /* it is wrong now and then */
    FILL_CERTAIN, /* it is not asked whether it is right */
    FILL_REAL,    /* the engine's own sources */
    FILLS
};
enum sampling { SAMPLING_GREEDY, SAMPLING_SEEDED, SAMPLINGS };

/* One cell of the matrix. */
struct way {
    enum company company;
    uint32_t chunk;
    int threads;
    enum past past;
    enum sampling sampling;
    enum fill fill;
};

struct scale {
    uint32_t prompt, tokens;
};

/* A prompt ends so many positions after a block's edge that the next edge is crossed six tokens into the reply. */
#define SCENE_BEFORE_EDGE (KV_BLOCK - 6u)
bool scene_prompt_fits(uint32_t prompt);

#define SCENE_THREADS 2 /* most threads of a way */

/* A model on one kernel level, with a pool for each number of threads. */
struct scene {
    struct api_model model;
    struct pool *pools[SCENE_THREADS];
    const struct outcome *want[SAMPLINGS]; /* what the request gives; needed by ways with sources. NULL = not known yet */
    struct scale scale;
};

/* What one run gave. */
struct outcome {
    uint32_t n;
    tok_id ids[WATCH_TOKENS];
    uint64_t hash[WATCH_TOKENS]; /* of the logits that chose ids[i] */
    bool have[WATCH_TOKENS];     /* there were any */
    uint64_t text;               /* hash of the text */
};

MUST_CHECK enum status scene_init(struct scene *s, const char *path, struct scale scale, struct err *e);
void scene_release(struct scene *s);

/* Runs it. NULL, or a sentence saying what went wrong: that it did not end as it has to, or that the run did not
 * exercise what its way says. The sentence is overwritten by the next run. */
const char *scene_run(struct scene *s, const struct way *way, struct outcome *out);

/* CC6: four copies of one seeded request at once, four other requests between them. */
const char *scene_copies(struct scene *s, int threads, struct outcome *out);

/* PC6: the request in a slot, a sequence and KV blocks that others have used, some of them cancelled half-way. */
const char *scene_recycled(struct scene *s, enum sampling sampling, struct outcome *out);

/* NULL, or a sentence with the first difference. */
const char *scene_differs(const struct outcome *want, const struct outcome *got);

#endif
