/*
 * reply: one parsed request on its way through the engine.
 *
 * A request has parts: each prompt times each choice is one request of the engine. server_reply_run() submits them all,
 * waits for their events and for the client at once, and lets the dialect write: chunk by chunk as events come, or
 * everything when the last part has ended. No HTTP status is sent before the first token is there, so whatever fails
 * until then still gets a status of its own. A stream that waits long for it begins with a comment or a chunk without
 * text, as whatever stands between would take silence for the end.
 *
 * Knows the engine and http; of the dialect only the functions in reply_ops.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <jansson.h>

#include "chat/chat.h"
#include "format/format.h"
#include "server/private.h"
#include "server/replay_store.h"

struct reply_prompt {
    tok_id *ids; /* owned */
    size_t n;
    bool from_tok;   /* encoded from text, and given back with tok_ids_free(); otherwise free() */
    bool *generated; /* owned; which ids a model chose in an earlier turn; NULL = none */
    size_t replayed; /* how many that are */
    char *text;      /* owned; what an echo shows; NULL = no echo */
    size_t text_n;
};

/* A request, whatever its dialect. Stops, breakers and names point into `root`. */
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
    bool echo;    /* the prompt comes first in the reply; with logprobs, its tokens too */
    bool nothing; /* max_tokens was 0: no token is generated. Needs echo */
    bool plan;    /* usage tells how the request was served */
    bool progress; /* a stream tells how far its prompts are */
    bool trace;   /* the reply tells where each of its ids came from */
    bool tells_ids;       /* the reply tells its ids */
    bool no_prefix_cache; /* as in struct request */
    enum fill_mode fill;
    uint32_t sources_off;          /* as in struct request */
    struct grammar *grammar;       /* a reference; NULL = none. So are the next two */
    struct template_rows *rows;
    struct format_tools *tools;    /* what recognise.tools is */
    struct recogniser_config recognise; /* what is looked for in replies: reasoning, calls */
    bool recognises;               /* something is */
    struct sample_limit thinking;  /* of thinking; server_limit_thinking() */
    char *relaxed;                 /* owned; JSON: keywords of tools' schemas that are not enforced; NULL = [] */
    bool one_call;                 /* more than one call is not wanted */
    int32_t priority;
    uint32_t deadline_ms; /* 0 = none */
    struct server_name salt;
    struct server_name owner; /* of records of replies; see server_owner() */
    struct server_name cache_key, session; /* names that the reply is kept under; may be empty */
    struct server_name lookups[LIMIT_REPLAY_LOOKUPS]; /* names of earlier replies */
    uint32_t lookups_n;
    void *own;                   /* what the dialect keeps for its reply; own_free() frees it; NULL = nothing */
    void (*own_free)(void *own);
};

void server_job_init(struct reply_job *job);
void server_job_release(struct reply_job *job);

/* Fills in the sets of ids that the sampling asks for (sets.c); they live as long as the server and the job. */
MUST_CHECK enum status server_job_sets(const struct server *s, struct reply_job *job, struct err *e);

/* What the engine gets for a part (prompt * n + choice) of the job, which *rq points into. */
MUST_CHECK enum status server_job_request(const struct reply_job *job, uint32_t part, struct request *rq, struct err *e);

/* ---- fields that nobody knows (ignored.c) ---- */

/* One line of the log names the members of `object` that are not `known`, a list that ends with NULL. `where`: the
 * address, or the object's name. */
void server_log_ignored(const char *where, const json_t *object, const char *const *known);

/* The same with two lists. */
void server_log_ignored_beside(const char *where, const json_t *object, const char *const *known,
                               const char *const *more);

/* ---- prompts (prompt.c) ---- */

/* Appends what begins the reply, text[n], to an encoded prompt; errors name `field`. */
MUST_CHECK enum status server_prompt_append(const struct server *s, const char *text, size_t n, const char *field,
                                            struct reply_prompt *p, struct err *e);

/* Whether a text of n bytes can fit the context; `shown` is its name in the error, which is about `field`. */
MUST_CHECK enum status server_check_bytes(const struct server *s, size_t n, const char *shown, const char *field,
                                          struct err *e);

/* The ids of a list, which has been seen to be one, to ids[size of the list]; errors name `field`. */
MUST_CHECK enum status server_read_ids(const struct server *s, const json_t *list, const char *field, tok_id *ids,
                                       struct err *e);

/* A reply that may be longer than the context has room for may take all of that room. */
void server_fit_context(const struct server *s, struct reply_job *job);

/* ---- generated ids of earlier turns (recall.c) ---- */

/* `store` may be NULL: then nothing is replayed or kept. */

/* Adds a name of an earlier reply to those that the request names, unless it is there, empty or too long. */
void server_look_up(struct reply_job *job, struct server_name name);

/* Puts the ids that were really generated into the prompts that were encoded from text, as far as an earlier reply that
 * the request names spells the same (chat.h). `context`: longest sequence. */
void server_recall(struct server_replay *store, const struct tok *tok, uint32_t context, struct reply_job *job);

/* Keeps a prompt and what was generated after it, reply[n], under those names. */
void server_remember(struct server_replay *store, struct server_name owner, const struct server_name *names,
                     size_t names_n, const struct reply_prompt *prompt, const tok_id *reply, size_t n);

/* ---- the reply ---- */

#define REPLY_LISTS 4
#define REPLY_ID 40u /* bytes of an id that is made up here, the NUL counted */

struct reply_part {
    uint32_t index;
    request_id id;
    int fd;
    bool open, ended; /* the id is ours; its last event was taken */
    struct request_result result; /* once ended */

    /* the dialect's: what it collects of a reply that is not streamed, and where it is in one that is */
    bool begun;
    uint32_t blocks;             /* content blocks that began, */
    int block, before_call;      /* and the kind of the one that is open, that was open before a call; 0 = none */
    struct buf text, lists[REPLY_LISTS];
    uint32_t chars;              /* characters that the tokens so far spell */
    uint32_t told;               /* EVENT_PROMPTs that came, */
    size_t told_bytes, told_at;  /* the bytes they stand for, and how far that is in the prompt's text, */
    size_t before;               /* which has this many fewer */

    struct buf ids;      /* tok_id: what was generated */
    struct buf origins;  /* int8_t, with the job's trace: where each came from, as in struct event */
    size_t origins_told; /* the dialect's: how many of them its chunks have told */
    char message_id[REPLY_ID]; /* "" where the dialect has none */

    /* with the job's `recognises` */
    struct chat_assembly *assembly;     /* owned; NULL: all text is content */
    const struct event *news;           /* what is being taken: the dialect's, to set to NULL once it was told */
    uint32_t calls;                     /* complete tool calls */
    char call_id[REPLY_ID];             /* of the latest */
    char call_ids[LIMIT_REPLAY_CALLS][REPLY_ID]; /* the first; "" */
    struct buf reasoning, tool_calls;   /* the dialect's, like text */
    size_t call_at;                     /* where the latest begins in tool_calls */
};

struct reply;
struct reply_ops {
    const char *id_prefix;
    const char *message_prefix; /* of a choice's own id; NULL = choices have none */
    const char *call_prefix;    /* of a tool call's id; NULL = the dialect has no tools */
    const char *prompt_field; /* the name of the prompt in errors */
    const char *stream_type;  /* Content-Type of streams; NULL = server-sent events */
    bool whole_calls;         /* streams tell of a call when it is complete: one that breaks is text there, too */
    bool scores_end;          /* chunk and collect also get the EVENT_END of a reply that an id ended, for its logprob */
    /* An event of a streamed part. EVENT_END comes here too when it brings text. With an assembly the text has come as
     * pieces, before. */
    void (*chunk)(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out);
    void (*progress)(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out); /* of its prompt */
    void (*part_end)(struct reply *r, struct reply_part *p, struct buf *out);
    void (*end)(struct reply *r, struct buf *out);         /* all parts have ended */
    void (*broken)(struct reply *r, struct buf *out);      /* r->err, after the status was sent */
    void (*quiet)(struct reply *r, struct buf *out);       /* there was nothing to say for long */
    void (*collect)(struct reply *r, struct reply_part *p, const struct event *ev);
    /* A piece of a part with an assembly, streamed or not. p->call_id is the id of the call that it belongs to. */
    void (*piece)(struct reply *r, struct reply_part *p, const struct chat_piece *piece, struct buf *out);
    void (*whole)(struct reply *r, struct buf *out);
    void (*refuse)(struct http_call *call, const struct err *e, bool submitting); /* instead of any reply */
};

struct reply {
    struct server *srv;
    struct http_call *call;
    const struct reply_ops *ops;
    struct reply_job job; /* its root, and what points into it, is gone once submitted */
    char salt[LIMIT_SALT], owner[SERVER_OWNER]; /* the job's point here then */
    char cache_key[LIMIT_REPLAY_NAME], session[LIMIT_REPLAY_NAME]; /* so do these */
    int64_t created;
    struct buf head; /* the dialect's: what every chunk begins with */
    struct err err;  /* code != ST_OK: the request failed */
    size_t held;     /* bytes collected of all parts, at most LIMIT_REPLY */
    bool shared;     /* its parts' news is rung for all streams together */
    uint32_t parts_n;
    struct reply_part parts[LIMIT_PARTS]; /* part = prompt * n + choice */
};

/* The prompt of a part. */
const struct reply_prompt *server_reply_prompt(const struct reply *r, const struct reply_part *p);

/* reply_ops.quiet of server-sent events: an event that is none. */
void server_reply_comment(struct reply *r, struct buf *out);

/* Replies to the call, in full or by starting a stream. Takes what the job owns (it is left empty). The request as it
 * came and the call's body are dropped once everything is submitted; of the prompts, ids and echoed text stay. */
void server_reply_run(struct http_call *call, struct reply_job *job, const struct reply_ops *ops);

#endif
