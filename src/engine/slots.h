/*
 * slots: the fixed table of requests, and what client and engine share of each.
 *
 * A slot has up to two owners, the client that submitted and the engine. It is free when it has none; whoever takes it
 * next does so by compare-and-swap. The last owner moves the generation on before the slot becomes free, so an old id
 * never reaches a new request.
 *
 * Events travel in a ring with one writer (the engine) and one reader (the client). The engine lets a row take part in a
 * step only while RING_ROOM cells are free; text that needs more is published as the reader makes room (emit.h). The
 * last free cell is kept for EVENT_END, so an end never waits.
 */
#ifndef ENGINE_SLOTS_H
#define ENGINE_SLOTS_H

#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/row.h"

#define RING_ROOM 8u /* cells that must be free before a row goes on: 2 would do, more wake the engine less often */

_Static_assert(!(LIMIT_EVENTS & (LIMIT_EVENTS - 1)), "head and tail wrap at 2^32, cells at LIMIT_EVENTS");

enum { SLOT_CLIENT = 1, SLOT_ENGINE = 2, SLOT_LEAVING = 4 /* no owner any more, and not free yet */ };

struct slot {
    _Atomic uint32_t owners;
    _Atomic uint32_t generation; /* never 0, so that no id is */
    _Atomic int fd;          /* eventfd, made at first use, kept until the engine is freed; -1 = none yet */
    _Atomic bool shared;     /* its news is rung for all that share one descriptor, not at fd */
    _Atomic bool cancelled;  /* the client asked for an end */
    _Atomic bool ended;      /* result is complete, EVENT_END is in the ring or about to be */
    _Atomic bool end_taken;  /* the client has read EVENT_END */
    _Atomic bool paused;     /* the engine waits for room in the ring */

    _Atomic uint32_t head, tail; /* events written and read so far */
    struct event *events;        /* [LIMIT_EVENTS] of about 700 bytes, made at first use */

    struct request_result result; /* the engine's until `ended` */
    struct row row;               /* filled by engine_submit(), then the engine's */
};

struct slot_table {
    struct slot *at; /* [n] */
    uint32_t n;
};

MUST_CHECK enum status slot_table_init(struct slot_table *t, uint32_t n, struct err *e);
void slot_table_release(struct slot_table *t, const struct engine_words *words);

/* Takes a free slot for both owners, with an empty ring; NULL when there is none, or (with *e set) when the system
 * refuses a descriptor or memory. */
struct slot *slot_claim(struct slot_table *t, struct err *e);
void slot_drop(struct slot *s, uint32_t owner);

request_id slot_id(const struct slot_table *t, const struct slot *s);
struct slot *slot_find(const struct slot_table *t, request_id id, uint32_t owner); /* NULL for an old id */

/* --- the ring -------------------------------------------------------------------------------------------------------- */

uint32_t slot_room(const struct slot *s);      /* free cells; engine */
struct event *slot_next(struct slot *s);       /* the cell to fill; engine, room permitting */
void slot_publish(struct slot *s);             /* hands it over */
bool slot_has_event(const struct slot *s);     /* client */
bool slot_pop(struct slot *s, struct event *out); /* client */

#endif
