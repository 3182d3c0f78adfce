/*
 * watch: the real network with an eye on one request.
 *
 * It stands between the engine and the network (engine/net.h), passes every call on, and hashes the logits of each head
 * position of the rows whose ids begin with the watched prompt. Which row a head position belongs to follows from the
 * spans alone: span.ids - seq->len is where the row's ids begin.
 *
 * It can also stop the engine's thread before a forward, so that what a test does then (submit, cancel) happens at the
 * same step in every run. What the test's thread reads or sets, it does before the engine is made, while the engine is
 * stopped, or after the watched request has ended: semaphores and the request's ring order the rest.
 */
#ifndef TESTS_MATRIX_WATCH_H
#define TESTS_MATRIX_WATCH_H

#include <semaphore.h>

#include "engine/net.h"

#define WATCH_TOKENS 32u /* head positions of the watched request at most */
#define WATCH_ROWS 256u  /* different slots or sequences that are remembered */

enum watch_when {
    WATCH_NEVER,
    WATCH_STEP,   /* at the forward after the next `count` */
    WATCH_CHOSEN, /* when the watched request has had `count` heads */
    WATCH_AWAY    /* when it had begun and `count` forwards went without it */
};

struct watch {
    struct engine_net real;
    const tok_id *prompt; /* of the request that is watched */
    uint32_t prompt_n;
    const tok_id *reply;  /* [WATCH_TOKENS] what it gives; positions behind other ids do not count. NULL = not known */

    enum watch_when stop; /* where to stop next; WATCH_NEVER again once it did */
    uint32_t count;
    sem_t stopped, go;    /* engine to test, test to engine */

    /* what was seen since watch_begin() */
    uint64_t hash[WATCH_TOKENS]; /* of the logits that chose output position i */
    bool have[WATCH_TOKENS];
    uint32_t heads;        /* positions hashed */
    uint32_t clashes;      /* the same position again, with other bits */
    uint32_t high, again;  /* positions fed at least once; fed once more */
    uint32_t longest;      /* its longest span */
    uint32_t beside;       /* most other rows in one of its steps */
    uint32_t away;         /* forwards without it, since it was last seen */
    uint32_t returns, kept; /* how often it came back after that; positions it did not have to feed again, the last time */
    bool old_slot, old_seq; /* its slot, or its sequence, had served another row before */

    /* of the step under way */
    struct {
        uint32_t first, n, position; /* tokens of the step; the first one's position in its row */
        const tok_id *ids;           /* the row's, from position 0 on */
        bool watched;
    } span[LIMIT_ROWS];
    uint32_t spans;
    const void *used[WATCH_ROWS]; /* slots' ids and sequences of other rows so far */
    uint32_t used_n;
};

void watch_init(struct watch *w, const tok_id *prompt, uint32_t prompt_n);
void watch_release(struct watch *w); /* after the engine */

/* Forgets what was seen, apart from which slots and sequences were used. Not while the watched request runs. */
void watch_begin(struct watch *w);

/* The network to make the engine with; `real` goes with it. */
struct engine_net watch_net(struct watch *w, const struct engine_net *real);

/* Waits until the engine stopped; false after `ms` milliseconds. */
bool watch_stopped(struct watch *w, int ms);
void watch_go(struct watch *w);

#endif
