/*
 * row: one request on the engine's side.
 *
 * ids[0, n) is the prompt and everything chosen so far; the sequence holds KV for ids[0, seq->len). Whatever lies
 * between is what the row feeds next: the rest of the prompt, the one pending token, ids that a grammar left no choice
 * about, or (after its blocks were taken away) all of it again. So there is one rule for every kind of row: feed from
 * seq->len on; when the end is reached, the last position gets a head. Behind them, ids[n, n + likely) are what sources
 * propose for this step: they are fed too, and each position there gets a head. Those that the sampler agrees with are
 * chosen; nothing is left of the others.
 *
 * ids[0, said) is what the client knows, or will in a moment: chosen ids become events in order, as the ring has room.
 */
#ifndef ENGINE_ROW_H
#define ENGINE_ROW_H

#include "engine/engine.h"
#include "engine/net.h"
#include "engine/stops.h"

#define ROW_FILL 64u        /* ids that sources add to one row in one step, of either trust */
#define ROW_PIECES 16u      /* proposals they come from */
#define ROW_CHOICES 256u    /* unsaid ids: at least those of two steps */
#define ROW_KEEP_IDS 65536u /* ids of an ended request beyond this give their pages back */

enum row_state { ROW_OUT, ROW_WAITING, ROW_RUNNING };

struct slot;

/* An id that was chosen and not said yet. */
struct row_choice {
    int8_t origin;          /* as in struct event */
    bool asserted;          /* without asking the sampler */
    float logprob;
    struct sample_logprob top[LIMIT_LOGPROBS];
};

/* Likely ids of one proposal: ids[at, at + n) of the row. */
struct row_piece {
    enum source_kind kind;
    enum source_trust trust;
    uint32_t at, n, ticket;
};

struct row {
    /* filled by engine_submit() */
    tok_id *ids;            /* [context]; the slot's share of the engine's region */
    uint32_t prompt_n, max_tokens;
    struct sample_params sampling;
    bool ignore_eos, stream_special;
    uint32_t logprobs;      /* as in struct request */
    bool prompt_logprobs, prompt_only, progress, no_prefix_cache;
    int32_t priority;
    uint32_t deadline_ms;
    char name[REQUEST_NAME];
    char salt[LIMIT_SALT];
    uint32_t salt_n;
    struct stop_set stops;
    struct sample_state sample; /* stays when the row is put back */
    struct sample_budget budget;   /* so does this */
    struct arena arena;     /* the stop strings, biases, sets of ids, and the mask */
    struct grammar *grammar; /* a reference; NULL = none. So are the next two */
    struct matcher *matcher; /* stands behind ids[0, n) */
    struct template_rows *rows;
    enum fill_mode fill;
    uint32_t sources_off;
    tok_id *imposed;        /* [imposed_n] its own, NULL = none */
    uint32_t imposed_n;
    void *stream;           /* words; kept by the slot from request to request */
    double submitted;       /* the engine's clock */

    /* the engine's */
    enum row_state state;
    struct slot *slot;
    struct kv_seq *seq;     /* while running */
    struct plan plan;
    uint64_t arrival;       /* order of submission */
    double rank;            /* sched.h: the smallest goes first */
    double deadline;        /* the engine's clock; 0 = none */
    uint64_t follow;        /* arrival of the row it waits for, UINT64_MAX = none; ids it begins with alike; sched.c */
    uint32_t follow_n;
    struct kv_peek found;   /* of the prefix cache, while it waits; looked up at `peeked` */
    double peeked;
    bool counted;           /* its prompt, in the statistics */
    uint32_t n;             /* ids so far */
    uint32_t said;          /* of those, how many became events, or ended the reply */
    uint32_t told;          /* prompt ids whose log-probabilities are out */
    bool began;             /* it was told that the prompt begins, */
    uint32_t told_fed;      /* and how far it is */
    double admitted, prefilled, first, last; /* first admission; end of the prompt; first and latest event; 0 = not yet */
    double stalled;         /* since when the ring has been full; 0 = it is not */
    uint32_t stalled_tail;  /* how much had been read then */
    uint32_t steps, heads;
    uint32_t cached;        /* prompt ids that the prefix cache had */
    enum cache_miss miss;
    uint32_t preemptions;

    /* under a grammar, at ids[0, n): */
    struct matcher_next next;
    uint32_t *mask;         /* [sample_mask_words()] of the arena */
    bool complete;          /* nothing but an end can follow */
    double grammar_s;

    /* what sources do for it */
    struct source_row view; /* as they see it; its state lasts from submission to the end */
    struct source_counts by_source[SOURCE_KINDS];
    uint32_t likely;        /* ids behind n in this step */
    float chance[ROW_FILL]; /* of each: that it and all before are accepted */
    struct row_piece piece[ROW_PIECES];
    uint32_t pieces;
    struct row_choice choice[ROW_CHOICES]; /* of ids[said, n): that of ids[i] is choice[i % ROW_CHOICES] */

    /* while not everything that was chosen is said, the row neither runs nor starts (emit.h) */
    bool telling, untold;   /* some is left; the event that carries ids[said - 1] is */
    uint32_t certain;       /* bytes of stops.text that may go */
    const struct stop_rule *hit; /* the stop string that follows them; NULL = none */
    bool by_id;             /* ids[said - 1] ends it */

    /* this step's */
    uint32_t sure;          /* ids behind the pending one that were certain */
    uint32_t take;          /* ids it feeds, the likely ones included */
    bool wants_head;        /* something is chosen */
    uint32_t head;          /* its first head, of the step's */
    uint32_t judged;        /* ids chosen: ids[n, n + judged) */
    uint32_t accepted;      /* likely ids among them */
    enum status status;     /* of what was chosen; a failure comes after it */
    struct err err;
};

/* Ids that a running row has still to feed, the likely ones not counted. */
static inline uint32_t row_due(const struct row *r)
{
    return r->n - r->seq->len;
}

/* Whether it chose all that it may. */
static inline bool row_is_full(const struct row *r)
{
    return r->n - r->prompt_n == r->max_tokens;
}

/* Rows in order of rank, those of equal rank in order of arrival. */
struct row_list {
    struct row **at; /* [capacity], owned by the engine */
    uint32_t n;
};

void row_list_add(struct row_list *l, struct row *r);
void row_list_remove(struct row_list *l, struct row *r); /* nothing when it is not there */

/* A submitted request enters the waiting line. */
void row_begin(struct engine *en, struct slot *s);

/* Takes the blocks of a running row away; it waits and will feed everything again. */
void row_put_back(struct engine *en, struct row *r);

/* Makes the numbers of running and waiting rows known to clients. */
void row_count(struct engine *en);

/* True when the ring has room for what a step publishes; otherwise the reader will wake the engine. */
bool row_can_publish(struct row *r, double now);

/* True when a row that waited for its reader, running or put back, can go on: readers clear `paused` when they made
 * room. */
bool row_reader_came_back(const struct engine *en);

/* Goes on with the text of rows that are telling and have room again. */
void row_tell(struct engine *en);

/* Ends rows whose reader has not read for too long, and rows whose deadline has passed. */
void row_check_times(struct engine *en);

/* Gives back what a request brought with it. Also when it never came to run. */
void row_release(struct engine *en, struct row *r);

/* The one end of every request: the last event, the result, and everything given back. `err` may be NULL, `stop` is the
 * stop string that ended it or NULL. */
void row_end(struct engine *en, struct row *r, enum finish finish, const struct err *err, const struct stop_rule *stop);

#endif
