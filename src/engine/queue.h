/*
 * queue: commands from clients to the engine thread. Bounded, many producers, one consumer, no lock.
 *
 * Each cell carries a sequence number that says whose turn it is (Vyukov, "Bounded MPMC queue"). The engine makes it
 * large enough for every command that can be under way, so a push never fails.
 */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include <stdatomic.h>

#include "base/base.h"
#include "engine/engine.h"

enum command_kind { COMMAND_SUBMIT, COMMAND_CANCEL, COMMAND_LOOK };

struct command {
    enum command_kind kind;
    request_id id; /* of a look: its number */
};

struct queue_cell {
    _Atomic uint32_t turn;
    struct command command;
};

struct queue {
    struct queue_cell *cells; /* [mask + 1] */
    uint32_t mask;
    _Atomic uint32_t head;    /* next cell to fill */
    uint32_t tail;            /* next cell to read; the consumer's */
};

MUST_CHECK enum status queue_init(struct queue *q, uint32_t least, struct err *e);
void queue_release(struct queue *q);
void queue_push(struct queue *q, struct command c);
bool queue_pop(struct queue *q, struct command *c);
bool queue_ready(const struct queue *q); /* a command is there; consumer only */

#endif
