/* queue: see queue.h. Cell i of round k has turn = k × size + i while free, one more once it was filled. */
#include "engine/queue.h"

#include <stdlib.h>

enum status queue_init(struct queue *q, uint32_t least, struct err *e)
{
    uint32_t size = 16;
    while (size < least)
        size *= 2;
    q->cells = calloc(size, sizeof *q->cells);
    if (!q->cells)
        return err_set(e, ST_NO_MEMORY, "queue", "no memory for a queue of %u commands", size);
    q->mask = size - 1;
    for (uint32_t i = 0; i < size; i++)
        atomic_init(&q->cells[i].turn, i);
    atomic_init(&q->head, 0);
    q->tail = 0;
    return ST_OK;
}

void queue_release(struct queue *q)
{
    free(q->cells);
    q->cells = NULL;
}

void queue_push(struct queue *q, struct command c)
{
    uint32_t at = atomic_load_explicit(&q->head, memory_order_relaxed);
    struct queue_cell *cell;
    for (;;) {
        cell = &q->cells[at & q->mask];
        int32_t ahead = (int32_t)(atomic_load_explicit(&cell->turn, memory_order_acquire) - at);
        if (ahead < 0)
            BUG("the command queue is full");
        if (ahead > 0)
            at = atomic_load_explicit(&q->head, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&q->head, &at, at + 1, memory_order_relaxed,
                                                       memory_order_relaxed))
            break;
    }
    cell->command = c;
    atomic_store(&cell->turn, at + 1);
}

bool queue_ready(const struct queue *q)
{
    return atomic_load(&q->cells[q->tail & q->mask].turn) == q->tail + 1;
}

bool queue_pop(struct queue *q, struct command *c)
{
    if (!queue_ready(q))
        return false;
    struct queue_cell *cell = &q->cells[q->tail & q->mask];
    *c = cell->command;
    atomic_store_explicit(&cell->turn, q->tail + q->mask + 1, memory_order_release);
    q->tail++;
    return true;
}
