/*
 * note: what is remembered of a call from its head to its end, for the key's limits and the request log.
 *
 * Whoever serves a call tells it what was computed; a call without a note (in unit tests) takes no notice.
 */
#ifndef SERVER_NOTE_H
#define SERVER_NOTE_H

#include "engine/engine.h"
#include "server/http/http.h"
#include "server/keys.h"

#define NOTE_TRACE 33u /* a trace's id in hexadecimal, the NUL counted */
#define NOTE_SPAN 17u
#define NOTE_LIMITS 6u

struct server_note {
    struct server_key *key; /* NULL = none */
    bool entered;           /* it counts against the key's limits */
    char key_name[LIMIT_KEY_NAME + 1];
    char limits[NOTE_LIMITS][12]; /* values of headers that tell what the key may still use */
    uint64_t began;         /* clock_ns() */
    char method[16], path[LIMIT_LOG_PATH + 1];
    char request_id[LIMIT_REQUEST_ID + 1]; /* the client's; "" */
    char trace[NOTE_TRACE], parent[NOTE_SPAN], span[NOTE_SPAN]; /* as in W3C's traceparent; parent may be "" */

    uint64_t prompt, cached, completion; /* tokens */
    double queue_s, prefill_s, decode_s; /* of all choices together */
    const char *finish;                  /* of the last that ended; NULL = none has */

    struct buf body, reply; /* copies, where content is logged */
    bool cut;               /* more than LIMIT_LOG_CONTENT of one of them */
};

/* NULL without memory. */
struct server_note *server_note_new(struct http_call *call, const char *method, const char *path);
void server_note_free(struct server_note *n);

/* So many tokens of prompts are to be computed for the call; one token was chosen; a choice came to its end. */
void server_note_prompt(struct http_call *call, uint64_t tokens);
void server_note_token(struct http_call *call);
void server_note_end(struct http_call *call, const struct request_result *r);

#endif
