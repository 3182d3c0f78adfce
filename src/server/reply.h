/*
 * reply: one parsed request on its way through the engine.
 *
 * A request has parts: each prompt times each choice is one request of the engine. server_reply_run() submits them all,
 * waits for their events and for the client at once, and lets the dialect write: chunk by chunk as events come, or
 * everything when the last part has ended. No HTTP status is sent before the first token is there, so whatever fails
 * until then still gets a status of its own.
 *
 * Knows the engine and http; of the dialect only the functions in reply_ops.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <jansson.h>

#include "server/private.h"

struct reply_prompt {
    tok_id *ids; /* owned */
    size_t n;
    bool from_tok; /* given back with tok_ids_free(), otherwise free() */
};

/* A request, whatever its dialect. Stops and breakers point into `root`. */
struct reply_job {
    json_t *root; /* the request itself; owned; NULL once it is not needed any more */
    struct reply_prompt prompts[LIMIT_PARTS];
    uint32_t prompts_n;
    uint32_t n; /* choices of each prompt; prompts_n * n <= LIMIT_PARTS */
    uint32_t max_tokens;
    struct sample_params sampling; /* its sets of ids come with server_job_sets() */
    struct sample_bias *bias;      /* owned; what sampling.bias is */
    struct text_view breakers[LIMIT_BREAKERS];
    uint32_t breakers_n;
    bool own_breakers;             /* those count, not the usual ones */
    uint8_t *breaker_set;          /* owned; their ids */
    struct request_stop stops[LIMIT_STOPS];
    uint32_t stops_n;
    uint32_t logprobs; /* as in struct request */
    bool ignore_eos, stream, include_usage;
};

void server_job_init(struct reply_job *job);
void server_job_release(struct reply_job *job);

/* Fills in the sets of ids that the sampling asks for (sets.c); they live as long as the server and the job. */
MUST_CHECK enum status server_job_sets(const struct server *s, struct reply_job *job, struct err *e);

#define REPLY_LISTS 4

struct reply_part {
    uint32_t index;
    request_id id;
    int fd;
    bool open, ended; /* the id is ours; its last event was taken */
    struct request_result result; /* once ended */

    /* the dialect's: what it collects of a reply that is not streamed, and where it is in one that is */
    bool begun;
    struct buf text, lists[REPLY_LISTS];
    uint32_t chars; /* characters of text sent or collected */
};

struct reply;
struct reply_ops {
    const char *id_prefix;
    const char *prompt_field; /* the name of the prompt in errors */
    /* An event of a streamed part. EVENT_END comes here too when it brings text. */
    void (*chunk)(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out);
    void (*part_end)(struct reply *r, struct reply_part *p, struct buf *out);
    void (*end)(struct reply *r, struct buf *out);         /* all parts have ended */
    void (*broken)(struct reply *r, struct buf *out);      /* r->err, after the status was sent */
    void (*collect)(struct reply *r, struct reply_part *p, const struct event *ev);
    void (*whole)(struct reply *r, struct buf *out);
    void (*refuse)(struct http_call *call, const struct err *e, bool submitting); /* instead of any reply */
};

struct reply {
    struct server *srv;
    struct http_call *call;
    const struct reply_ops *ops;
    struct reply_job job; /* its root and prompts are gone once submitted */
    int64_t created;
    struct buf head; /* the dialect's: what every chunk begins with */
    struct err err;  /* code != ST_OK: the request failed */
    uint32_t prompts_n, parts_n;
    struct reply_part parts[LIMIT_PARTS]; /* part = prompt * n + choice */
};

/* Replies to the call, in full or by starting a stream. Takes what the job owns (it is left empty), and drops that and
 * the call's body once everything is submitted: a request that waits or runs holds no copy of what it came as. */
void server_reply_run(struct http_call *call, struct reply_job *job, const struct reply_ops *ops);

#endif
