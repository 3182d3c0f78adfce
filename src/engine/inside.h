/* The engine's inside, for the files of this folder. */
#ifndef ENGINE_INSIDE_H
#define ENGINE_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/cost.h"
#include "engine/engine.h"
#include "engine/look.h"
#include "engine/net.h"
#include "engine/notify.h"
#include "engine/plan.h"
#include "engine/queue.h"
#include "engine/row.h"
#include "engine/slots.h"
#include "engine/stats.h"
#include "engine/step.h"

#define ENGINE_ROWS 8u           /* where the configuration names none */
#define ENGINE_STALL_MS 30000u
#define ENGINE_LOOK_S 0.05       /* how often stalled rows and deadlines are looked at */
#define ENGINE_LEAST_BUDGET ((size_t)256 << 20) /* bytes of KV that are planned for when nobody says how many */
#define ENGINE_SPARE_SLOTS 64u   /* requests that ended but whose client has not closed them yet */

struct engine {
    /* fixed once started */
    struct engine_config cfg; /* with its defaults filled in */
    struct engine_net net;
    struct engine_words words;
    bool has_words;
    uint32_t step_tokens;     /* ids one step feeds at most */
    double stall_s;
    double (*clock)(void *ctx); /* seconds; tests have their own */
    void *clock_ctx;
    bool manual;

    /* shared with clients */
    struct slot_table slots;
    struct queue queue;
    struct notify notify;
    _Atomic uint32_t live;             /* submitted and not ended */
    _Atomic uint32_t running, waiting; /* what engine_load() says */
    _Atomic uint32_t mean_ms;          /* how long requests have taken lately, for retry_after */
    _Atomic bool stopping, asleep;
    int bell;                          /* eventfd: wakes the engine thread */
    pthread_t thread;
    bool started;
    struct stats stats;
    struct look look;

    /* the engine thread's */
    struct kv_pool *kv;
    struct kv_tree *tree;      /* prefixes that may be asked for again; NULL = none are kept */
    uint32_t kv_blocks[KV_GROUPS]; /* of each group in all */
    struct cost cost;
    struct kv_seq *seqs;       /* [cfg.rows] */
    struct kv_seq **idle_seqs; /* [idle_n] */
    uint32_t idle_n;
    struct row_list rows, line; /* running, waiting */
    uint64_t arrivals;
    double now;                 /* of this turn of the loop */
    double next_look;
    struct sampler **samplers;  /* [pool_size]: a worker's own */
    float *logits;              /* [engine_heads()][vocab] */
    struct kern_top *tops;      /* [engine_heads()]: the largest of each */
    tok_id *ids;                /* [slots][context]: prompt and output of every request */
    struct step_score *scores; /* [cfg.rows] */
    struct source *source[SOURCE_KINDS]; /* NULL = none */
    bool given;                          /* a test's, which serve every request */
    struct source_ask *asks;             /* [cfg.rows] */
    struct source_proposal *proposal;    /* [cfg.rows] */
    struct step step;
};

static inline double engine_clock(const struct engine *en)
{
    return en->clock(en->clock_ctx);
}

/* Whether the id is one that ends replies. */
static inline bool engine_ends(const struct engine *en, tok_id id)
{
    return en->has_words && en->words.ends(en->words.ctx, id);
}

/* Bytes of a region, for mem_unmap(). */
/* Positions of one step that can have heads: cfg.rows + FILL_HEADS, or as many as all rows can have. */
uint32_t engine_heads(const struct engine *en);
size_t engine_logits_bytes(const struct engine *en);
size_t engine_ids_bytes(const struct engine *en);

/* Fills in en->cfg, en->kv's sizes and en->step_tokens from the configuration, the network and free memory. */
MUST_CHECK enum status engine_plan_memory(struct engine *en, const struct engine_config *cfg, struct kv_config *kv,
                                          struct err *e);

/* Wakes the engine thread if it sleeps. Any thread. */
void engine_ring(struct engine *en);

/* The slot of a row has news for its client. */
void engine_news(struct engine *en, const struct slot *s);

#endif
