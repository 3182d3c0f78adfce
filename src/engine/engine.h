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
#include "model/model.h"
#include "sample/sample.h"
#include "text/text.h"

struct engine;
typedef uint64_t request_id; /* slot and generation; 0 is never valid */

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
};

MUST_CHECK enum status engine_new(struct engine **out, const struct engine_config *cfg, struct err *e);

/* Takes no more requests (ST_BUSY), ends all with ST_CANCELLED and stops the thread. Events and results can still be
 * taken, so clients see the end; engine_free() must wait until they are done. */
void engine_stop(struct engine *en);
void engine_free(struct engine *en); /* engine_stop(), then everything is released; NULL is fine */
uint32_t engine_context(const struct engine *en);
size_t engine_kv_bytes(const struct engine *en);

/* --- requests -------------------------------------------------------------------------------------------------------- */

struct request_stop {
    const char *s; /* bytes */
    size_t n;
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
};

enum finish { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_ERROR, FINISH_CANCELLED };
const char *finish_name(enum finish f); /* "stop", "length", "error", "cancelled" */

enum event_kind { EVENT_TOKEN, EVENT_END };

struct event_logprob {
    tok_id id;
    float logprob;
};

/* EVENT_TOKEN: one chosen token, and the text that became certain with it (possibly none, never half a character; text
 * that could still be the beginning of a stop string is held back). EVENT_END: the last event; `text` is what was still
 * held back. A token whose text does not fit one event is followed by further EVENT_TOKENs with id -1; where the
 * text is cut does not depend on the reader. */
struct event {
    enum event_kind kind;
    tok_id id;
    uint32_t text_n;
    char text[LIMIT_EVENT_BYTES];
    float logprob;                      /* of the chosen token: raw log-softmax; 0 unless asked */
    uint32_t top_n;
    struct event_logprob top[LIMIT_LOGPROBS];
};

struct request_usage {
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
    uint32_t steps, head_positions;
    double queue_s, prefill_s, decode_s; /* prefill ends when the first token is chosen */
};

struct request_result {
    enum finish finish;
    struct err err;                     /* code ST_OK unless FINISH_ERROR or FINISH_CANCELLED */
    char stop[LIMIT_STOP_BYTES];        /* the stop string that ended it, NUL-terminated, or "" */
    bool kv_exhausted;                  /* FINISH_LENGTH because memory for KV ran out, not because of a limit */
    struct request_usage usage;
};

/* Checks and queues a request. ST_ARGUMENT (a field out of range), ST_TOO_LONG (prompt beyond the context; both counts
 * in the text), ST_NEVER_FITS, ST_BUSY (queue full). On ST_OK the caller owns *id until engine_close(). */
MUST_CHECK enum status engine_submit(struct engine *en, const struct request *rq, request_id *id, struct err *e);

/* Takes up to n events, in order; 0 = none yet. */
size_t engine_take(struct engine *en, request_id id, struct event *out, size_t n);

/* Waits until an event is there or `timeout_ms` passed (-1 = no limit); true = there is one. */
bool engine_wait(struct engine *en, request_id id, int timeout_ms);

/* A descriptor that becomes readable when there is news; level-triggered, reset by engine_take() returning 0. Lives as
 * long as the id. */
int engine_fd(struct engine *en, request_id id);

/* After EVENT_END was taken: the outcome. */
void engine_result(struct engine *en, request_id id, struct request_result *out);

/* Asks the engine to stop a request within one step; EVENT_END still comes. */
void engine_cancel(struct engine *en, request_id id);

/* Gives the id up; cancels if still running. Afterwards the id is invalid. */
void engine_close(struct engine *en, request_id id);

/* Requests running and waiting now. */
void engine_load(const struct engine *en, uint32_t *running, uint32_t *waiting);

#endif
