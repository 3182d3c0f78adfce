/*
 * engine: many requests, one model, one thread that owns them all.
 *
 * Clients (connection threads, the terminal) submit requests and read events; the engine thread alone touches rows, KV
 * and the model. A submitted request is known outside by a generation-stamped id. Between the two sides lie a bounded
 * command queue in (submit, cancel) and one bounded event ring per request out; the engine never takes a lock that a
 * client holds while it works.
 *
 * The step (docs/architecture.md): collect, fit, forward, head, judge, commit, publish. See step.c.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "engine/price.h"
#include "model/model.h"
#include "sample/sample.h"
#include "source/source.h"
#include "text/text.h"

struct engine;
typedef uint64_t request_id; /* slot and generation; 0 is never valid */

/* --- the engine ------------------------------------------------------------------------------------------------------ */

struct engine_config {
    const struct model *model;   /* outlives the engine */
    const struct tok *tok;       /* detokenises and knows the end tokens; outlives the engine; NULL = ids only */
    struct pool *pool;           /* the engine thread becomes its worker 0; outlives the engine */
    enum kern_kv kv_format;
    uint32_t context;            /* longest sequence; 0 = the smaller of the model's and what the budget holds */
    uint32_t rows;               /* requests that run at the same time, 0 = 8 */
    uint32_t queue;              /* requests that wait, 0 = LIMIT_QUEUE */
    size_t kv_budget;            /* bytes; 0 = from free memory */
    bool no_prefix_cache;        /* nothing is reused between requests (benchmarks) */
    uint32_t chunk;              /* prompt ids one row feeds in one step at most, 0 = LIMIT_SPAN */
    uint32_t itl_ms;             /* how long a step may take while rows decode, 0 = 50: prompts are cut to fit */
    const struct engine_cost *cost; /* copied; NULL = a guess. Refined by real steps unless frozen */
    enum model_pooling pooling;  /* what vectors are made of, whatever the model says; POOLING_NONE = what it says */
    const struct model *draft;   /* a smaller one of the same vocabulary that proposes ids; outlives the engine; or NULL */
    uint32_t sources_off;        /* bit 1 << enum source_kind: no request has it */
};

MUST_CHECK enum status engine_new(struct engine **out, const struct engine_config *cfg, struct err *e);

/* Takes no more requests (ST_BUSY), ends all with ST_CANCELLED and stops the thread. Events and results can still be
 * taken, so clients see the end; engine_free() must wait until they are done. */
void engine_stop(struct engine *en);
void engine_free(struct engine *en); /* engine_stop(), then everything is released; NULL is fine */
uint32_t engine_context(const struct engine *en);
uint32_t engine_rows(const struct engine *en);
size_t engine_kv_bytes(const struct engine *en);
enum model_pooling engine_pooling(const struct engine *en);
uint32_t engine_vector_size(const struct engine *en); /* 0 = it makes none */

#define REQUEST_NAME 48u /* bytes of a request's name, the NUL counted */

/* --- requests -------------------------------------------------------------------------------------------------------- */

/* How a request is served, decided once when it is admitted: why says, in a phrase, what a feature is off for; or NULL. */
struct plan_feature {
    bool on;
    const char *why;
};

struct plan {
    uint64_t ns;                   /* namespace of the prefix cache */
    struct plan_feature match;     /* begins with what the cache has */
    struct plan_feature publish;   /* leaves what it feeds in the cache */
    struct plan_feature source[SOURCE_KINDS];
    struct plan_feature skip_head; /* ids that are certain cost no head */
};

struct request_stop {
    const char *s; /* [n] bytes */
    size_t n;
};

/* How determined and likely ids are used. The ids of a reply are the same under FILL_OFF and FILL_LOSSLESS. */
enum fill_mode {
    FILL_LOSSLESS, /* what a grammar leaves no choice about is taken; everything else is compared with the sampler */
    FILL_OFF,      /* one id a step */
    FILL_STRICT    /* what the chat template determines is taken, too, without asking the sampler */
};

/* Everything is copied by engine_submit(). */
struct request {
    const tok_id *prompt;
    uint32_t prompt_n;           /* at least 1 */
    uint32_t max_tokens;         /* 0 = the rest of the context */
    struct sample_params sampling;
    const struct request_stop *stops;
    uint32_t stops_n;            /* at most LIMIT_STOPS */
    bool ignore_eos;             /* keep going past end tokens (benchmarks) */
    bool keep_special;           /* control tokens appear in the text */
    uint32_t logprobs;           /* alternatives per token to report, plus 1; 0 = none. At most LIMIT_LOGPROBS + 1 */
    bool prompt_logprobs;        /* of prompt ids too, as EVENT_PROMPT; needs logprobs */
    bool progress;               /* EVENT_PROGRESS tells how far the prompt is */
    bool prompt_only;            /* ends with the prompt: nothing is chosen. Needs prompt_logprobs */
    bool vector;                 /* the same, and engine_vector() has what comes of it */
    int32_t priority;            /* lower goes first, within ±LIMIT_PRIORITY; 0 is usual */
    uint32_t deadline_ms;        /* from submission to the end; 0 = none */
    const void *salt;            /* [salt_n <= LIMIT_SALT] prefixes are shared only between equal salts */
    size_t salt_n;
    bool no_prefix_cache;        /* this request reuses nothing */
    struct grammar *grammar;     /* what the reply has to look like; the engine takes a reference. NULL = anything */
    struct template_rows *rows;  /* what the chat template determines; the engine takes a reference. NULL = nothing */
    struct sample_limit thinking; /* how long the reply may think */
    enum fill_mode fill;
    uint32_t sources_off;        /* bit 1 << enum source_kind: this request does without */
    const tok_id *imposed;       /* [imposed_n = max_tokens] what the sampler is taken to choose: the reply is these ids.
                                    Every pass over the weights is made, so this measures recorded replies. NULL = none */
    uint32_t imposed_n;
    const char *name;            /* shown by engine_view(); cut after REQUEST_NAME - 1 bytes; NULL = none */
};

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_ERROR, FINISH_CANCELLED };
const char *finish_name(enum finish f); /* "stop", "length", "error", "cancelled" */

enum event_kind { EVENT_TOKEN, EVENT_PROMPT, EVENT_PROGRESS, EVENT_END };

struct event_logprob {
    tok_id id;
    float logprob;
};

/* EVENT_TOKEN: one chosen token, and the text that became certain with it (possibly none, never half a character; text
 * that could still be the beginning of a stop string is held back). EVENT_END: the last event; `text` is what was still
 * held back, `id` the token that ended the reply, which has no text; -1 where something else did. A token whose text does
 * not fit one event is followed by further EVENT_TOKENs with id -1; where the text is cut does not depend on the reader.
 * EVENT_PROMPT: one id of the prompt, in order, without text; the first has no logprob (nothing comes before it): 0, and
 * no alternatives. EVENT_PROGRESS: how far the prompt is: one when it begins to be fed, one after a step that fed it. */
struct event {
    enum event_kind kind;
    tok_id id;
    uint32_t text_n, top_n;
    float logprob;                      /* of the chosen token: raw log-softmax; 0 unless asked */
    int8_t origin;                      /* of the token: an enum source_kind, or ORIGIN_SAMPLED */
    uint32_t cached, fed; /* of EVENT_PROGRESS: ids of the prompt that the prefix cache had, all that are fed, and the */
    float ms;             /* time since it began */
    struct event_logprob top[LIMIT_LOGPROBS];
    char text[LIMIT_EVENT_BYTES];
};

#define ORIGIN_SAMPLED (-1) /* no source had it */

/* Why prompt ids beyond those that were cached had to be fed. */
enum cache_miss {
    MISS_NONE,    /* nothing but the last id, which is always fed */
    MISS_OFF,     /* the plan does not use the cache */
    MISS_UNKNOWN, /* nothing that begins like this is kept */
    MISS_NEW,     /* all that is kept of this text was reused; the rest is new */
    MISS_DIFFERS, /* what is kept goes on with other ids */
    MISS_EVICTED  /* keys and values of a sliding window were given up */
};
const char *cache_miss_name(enum cache_miss m); /* "text differs" */

/* Ids of one source. */
struct source_counts {
    uint64_t proposed; /* put into a step, or taken at once */
    uint64_t accepted; /* became part of the reply */
    uint64_t rejected; /* the sampler chose another, or one before it was another */
    uint64_t asserted; /* of those accepted: without asking the sampler */
};

struct request_usage {
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
    enum cache_miss miss;        /* at prompt id cached_tokens */
    uint32_t sampled;            /* completion tokens that no source had */
    struct source_counts by_source[SOURCE_KINDS];
    bool disarmed;               /* template rows were switched off: what followed one was not as they say */
    double grammar_s;            /* computing the masks that ids were chosen with */
    uint32_t steps, head_positions, preemptions;
    double queue_s, prefill_s, decode_s; /* prefill ends when the last of the prompt is fed */
};

struct request_result {
    enum finish finish;
    struct err err;                     /* code ST_OK unless FINISH_ERROR or FINISH_CANCELLED */
    char stop[LIMIT_STOP_BYTES];        /* the stop string that ended it, NUL-terminated, or "" */
    bool kv_exhausted;                  /* FINISH_LENGTH because memory for KV ran out, not because of a limit */
    struct request_usage usage;
    struct plan plan;
};

/* Checks and queues a request. ST_ARGUMENT (a field out of range), ST_TOO_LONG (prompt beyond the context; both counts
 * in the text), ST_NEVER_FITS, ST_BUSY (queue full). On ST_OK the caller owns *id until engine_close(). */
MUST_CHECK enum status engine_submit(struct engine *en, const struct request *rq, request_id *id, struct err *e);

/* How the request would be served; nothing is queued. Errors as engine_submit(), but for ST_BUSY. */
MUST_CHECK enum status engine_plan(const struct engine *en, const struct request *rq, struct plan *out, struct err *e);

/* Takes up to n events, in order; 0 = none yet. */
size_t engine_take(struct engine *en, request_id id, struct event *out, size_t n);

/* Waits until an event is there or `timeout_ms` passed (-1 = no limit); true = there is one. */
bool engine_wait(struct engine *en, request_id id, int timeout_ms);

/* A descriptor that is readable while there is news of an id that is not shared; it lives as long as the id. */
int engine_fd(struct engine *en, request_id id);

/* For a thread that waits for many: while an id is shared, its news makes engine_shared_fd() readable instead, one eventfd
 * for all such ids, non-blocking, until its only reader reads it. engine_wait() is not for such an id. Whoever takes
 * changes it, takes until there is nothing afterwards, and waits then. */
void engine_share(struct engine *en, request_id id, bool shared);
int engine_shared_fd(const struct engine *en);

/* After EVENT_END was taken: the outcome. */
void engine_result(struct engine *en, request_id id, struct request_result *out);
const float *engine_vector(struct engine *en, request_id id); /* [engine_vector_size()] after FINISH_STOP, or NULL */

/* Asks the engine to stop a request within one step; EVENT_END still comes. */
void engine_cancel(struct engine *en, request_id id);

/* Gives the id up; cancels if still running. Afterwards the id is invalid. */
void engine_close(struct engine *en, request_id id);

/* Requests running and waiting now. */
void engine_load(const struct engine *en, uint32_t *running, uint32_t *waiting);

/* --- looking at it --------------------------------------------------------------------------------------------------- */

#define STAT_BUCKETS 20u
/* A histogram: count[i] are values in (bound[i - 1], bound[i]], the last ones are above all bounds. */
struct engine_histogram {
    const double *bound; /* [n] */
    uint32_t n;          /* < STAT_BUCKETS */
    uint64_t count[STAT_BUCKETS];
    double sum;
};

/* Since the engine was made. Seconds, tokens, requests. */
struct engine_stats {
    uint64_t finished[FINISH_CANCELLED + 1]; /* by enum finish */
    uint64_t prompt_tokens, cached_tokens, completion_tokens; /* counted when a prompt is done, when a token is chosen */
    uint64_t cache_queries, cache_hits;      /* prompt tokens that were looked up, and found */
    uint64_t preemptions, refused;           /* refused: the queue was full */
    struct source_counts by_source[SOURCE_KINDS]; /* counted when a request ends */
    uint64_t steps;
    double forward_s, head_s, sample_s, propose_s, other_s; /* where the engine's time went, apart from waiting */
    struct engine_histogram queue, ttft, itl, e2e, step; /* seconds */
    struct engine_histogram overhead;        /* of a step: all but forward, heads, choosing and sources */
};
void engine_stats(struct engine *en, struct engine_stats *out);

struct engine_row_view {
    char name[REQUEST_NAME];
    bool running;
    int32_t priority;
    uint32_t prompt_tokens, cached_tokens, fed_tokens, completion_tokens, max_tokens, preemptions;
    bool reader_slow; /* it waits until its reader takes events */
    double age_s;
};

struct engine_view {
    struct engine_row_view *rows; /* [cap] the caller's: running ones first, in the order they are served */
    uint32_t n, cap;
    uint32_t queued;              /* all that wait, also those beyond cap */
    struct {
        uint32_t blocks, used, cached; /* of all groups: used by rows; held by the prefix cache alone */
    } kv;
    struct engine_cost cost;
};

/* A picture between two steps, so it may take as long as a step. ST_BUSY when the engine does not answer within some
 * seconds. Any thread but the engine's. */
MUST_CHECK enum status engine_look(struct engine *en, struct engine_view *out, struct err *e);

#endif
