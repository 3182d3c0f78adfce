/* slots: see slots.h. */
#include "engine/slots.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/net.h"

enum status slot_table_init(struct slot_table *t, uint32_t n, struct err *e)
{
    t->at = calloc(n, sizeof *t->at);
    if (!t->at)
        return err_set(e, ST_NO_MEMORY, "queue", "no memory for %u requests", n);
    t->n = n;
    for (uint32_t i = 0; i < n; i++) {
        atomic_init(&t->at[i].fd, -1);
        atomic_init(&t->at[i].generation, 1);
        arena_init(&t->at[i].row.arena, LIMIT_ROW_ARENA);
    }
    return ST_OK;
}

void slot_table_release(struct slot_table *t, const struct engine_words *words)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct slot *s = &t->at[i];
        if (atomic_load(&s->fd) >= 0)
            close(atomic_load(&s->fd));
        if (s->row.stream)
            words->close(s->row.stream);
        arena_release(&s->row.arena);
        free(s->events);
    }
    free(t->at);
    *t = (struct slot_table){0};
}

/* What a slot keeps from one request to the next; made when it is first used. */
static enum status make_lasting(struct slot *s, struct err *e)
{
    if (!s->events)
        s->events = malloc(LIMIT_EVENTS * sizeof *s->events);
    if (!s->events)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the events of a request");
    if (atomic_load(&s->fd) < 0)
        atomic_store(&s->fd, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (atomic_load(&s->fd) < 0)
        return err_errno(e, ST_IO, "", "cannot make a descriptor for a request");
    return ST_OK;
}

struct slot *slot_claim(struct slot_table *t, struct err *e)
{
    struct slot *s = NULL;
    for (uint32_t i = 0; i < t->n && !s; i++) {
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&t->at[i].owners, &none, SLOT_CLIENT | SLOT_ENGINE))
            s = &t->at[i];
    }
    if (!s)
        return NULL;
    if (make_lasting(s, e)) {
        atomic_store(&s->owners, 0);
        return NULL;
    }
    atomic_store(&s->shared, false);
    atomic_store(&s->cancelled, false);
    atomic_store(&s->ended, false);
    atomic_store(&s->end_taken, false);
    atomic_store(&s->paused, false);
    atomic_store(&s->head, 0);
    atomic_store(&s->tail, 0);
    s->result = (struct request_result){0};
    return s;
}

void slot_drop(struct slot *s, uint32_t owner)
{
    uint32_t all = atomic_load(&s->owners), left;
    do {
        left = all & ~owner;
    } while (!atomic_compare_exchange_weak(&s->owners, &all, left ? left : SLOT_LEAVING));
    if (left)
        return;
    uint32_t generation = atomic_load(&s->generation);
    atomic_store(&s->generation, generation == UINT32_MAX ? 1 : generation + 1);
    atomic_store(&s->owners, 0);
}

request_id slot_id(const struct slot_table *t, const struct slot *s)
{
    return (request_id)atomic_load(&s->generation) << 32 | (request_id)(s - t->at);
}

struct slot *slot_find(const struct slot_table *t, request_id id, uint32_t owner)
{
    uint32_t i = (uint32_t)id;
    if (i >= t->n)
        return NULL;
    struct slot *s = &t->at[i];
    /* In this order: an owner that was seen before the generation was is one of that generation. */
    return (atomic_load(&s->owners) & owner) && atomic_load(&s->generation) == id >> 32 ? s : NULL;
}

uint32_t slot_room(const struct slot *s)
{
    return LIMIT_EVENTS - (atomic_load_explicit(&s->head, memory_order_relaxed) - atomic_load(&s->tail));
}

struct event *slot_next(struct slot *s)
{
    if (!slot_room(s))
        BUG("an event for a full ring");
    return &s->events[atomic_load_explicit(&s->head, memory_order_relaxed) % LIMIT_EVENTS];
}

void slot_publish(struct slot *s)
{
    atomic_fetch_add(&s->head, 1);
}

bool slot_has_event(const struct slot *s)
{
    return atomic_load(&s->head) != atomic_load_explicit(&s->tail, memory_order_relaxed);
}

/* What is used of an event: most of its 700 bytes are not, and each line of them would come out of another core's cache. */
static void copy_event(struct event *to, const struct event *from)
{
    memcpy(to, from, offsetof(struct event, top));
    memcpy(to->top, from->top, from->top_n * sizeof *from->top);
    memcpy(to->text, from->text, from->text_n);
}

bool slot_pop(struct slot *s, struct event *out)
{
    if (!slot_has_event(s))
        return false;
    copy_event(out, &s->events[atomic_load_explicit(&s->tail, memory_order_relaxed) % LIMIT_EVENTS]);
    atomic_fetch_add(&s->tail, 1);
    if (out->kind == EVENT_END)
        atomic_store(&s->end_taken, true);
    return true;
}
