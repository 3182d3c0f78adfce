/*
 * look: a picture of the engine for somebody else's thread.
 *
 * The looker posts a command and waits; the engine's thread fills the picture between two steps. Lookers take turns under
 * a lock that the engine's thread never takes; those who queued up for it share the next picture.
 */
#ifndef ENGINE_LOOK_H
#define ENGINE_LOOK_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "engine/engine.h"

#define LOOK_WAIT_S 10 /* a step may be long, but not this long */

struct look {
    pthread_mutex_t lock;       /* one looker at a time */
    sem_t done;
    struct engine_view view;    /* rows point to `rows` */
    struct engine_row_view *rows; /* [running + waiting, at most] */
    uint64_t taken;             /* clock_ns() when the last complete picture was asked for; under the lock */
    uint32_t asked;             /* the looker's count */
    _Atomic uint32_t answered;  /* the asker whose picture it is; set when it is complete */
    bool ready;                 /* the lock and the semaphore exist */
};

MUST_CHECK enum status look_init(struct look *l, uint32_t rows, struct err *e);
void look_release(struct look *l); /* safe on a zeroed struct */

/* Fills the picture and wakes the looker. The engine's thread. */
void look_answer(struct engine *en, uint32_t asked);

#endif
