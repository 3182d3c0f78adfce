/*
 * notify: the thread that wakes connections.
 *
 * The engine marks slots that have news and, once a step, wakes this thread, which writes the marked slots' eventfds. So
 * the engine pays one system call a step, however many streams there are. Slots whose client shares one descriptor with
 * others (engine_share()) need no thread for that: the engine writes it itself.
 */
#ifndef ENGINE_NOTIFY_H
#define ENGINE_NOTIFY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "engine/slots.h"

struct notify {
    struct slot_table *slots;
    _Atomic uint64_t *news; /* a bit a slot */
    uint32_t words;
    bool marked, marked_shared; /* since the last notify_flush(); the engine thread's */
    int shared;             /* eventfd of the slots that share one */
    int bell;               /* eventfd: wakes the thread */
    _Atomic bool stop;
    pthread_t thread;
    bool started;
};

MUST_CHECK enum status notify_init(struct notify *n, struct slot_table *slots, struct err *e);
void notify_release(struct notify *n); /* safe on a zeroed struct whose descriptors are -1 */
void notify_mark(struct notify *n, uint32_t slot);
void notify_flush(struct notify *n);

/* Makes an eventfd readable. */
void notify_ring(int fd);

/* pthread_create() for a thread that takes no signals. */
int notify_thread(pthread_t *t, void *(*main)(void *), void *arg);

#endif
