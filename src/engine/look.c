/* look: see look.h. */
#include "engine/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/inside.h"

enum status look_init(struct look *l, uint32_t rows, struct err *e)
{
    l->rows = calloc(rows, sizeof *l->rows);
    if (!l->rows)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a view of %u requests", rows);
    l->view.rows = l->rows;
    l->view.cap = rows;
    pthread_mutex_init(&l->lock, NULL);
    sem_init(&l->done, 0, 0);
    l->ready = true;
    return ST_OK;
}

void look_release(struct look *l)
{
    if (l->ready) {
        pthread_mutex_destroy(&l->lock);
        sem_destroy(&l->done);
    }
    free(l->rows);
    *l = (struct look){0};
}

static void add_row(struct engine *en, const struct row *r)
{
    struct engine_view *v = &en->look.view;
    if (v->n == v->cap)
        BUG("more rows than slots");
    struct engine_row_view *o = &v->rows[v->n++];
    *o = (struct engine_row_view){
        .running = r->state == ROW_RUNNING,
        .priority = r->priority,
        .prompt_tokens = r->prompt_n,
        .cached_tokens = r->cached,
        .fed_tokens = r->seq ? r->seq->len : 0,
        .completion_tokens = r->n - r->prompt_n,
        .max_tokens = r->max_tokens,
        .preemptions = r->preemptions,
        .reader_slow = r->stalled > 0,
        .age_s = engine_clock(en) - r->submitted,
    };
    memcpy(o->name, r->name, sizeof o->name);
}

void look_answer(struct engine *en, uint32_t asked)
{
    struct look *l = &en->look;
    struct engine_view *v = &l->view;
    v->n = 0;
    v->queued = en->line.n;
    for (uint32_t i = 0; i < en->rows.n; i++)
        add_row(en, en->rows.at[i]);
    for (uint32_t i = 0; i < en->line.n; i++)
        add_row(en, en->line.at[i]);
    memset(&v->kv, 0, sizeof v->kv);
    for (uint32_t g = 0; g < en->net.kv_groups; g++) {
        uint32_t available = kv_pool_available(en->kv, g);
        v->kv.blocks += en->kv_blocks[g];
        v->kv.used += en->kv_blocks[g] - available;
        v->kv.cached += available - kv_pool_unused(en->kv, g);
    }
    v->cost = en->cost.curve;
    atomic_store(&l->answered, asked);
    sem_post(&l->done);
}

static bool wait_answer(struct look *l)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_WAIT_S;
    for (;;) {
        if (!sem_clockwait(&l->done, CLOCK_MONOTONIC, &until)) {
            if (atomic_load(&l->answered) == l->asked)
                return true; /* otherwise the late answer to somebody who gave up */
        } else if (errno != EINTR) {
            return false;
        }
    }
}

enum status engine_look(struct engine *en, struct engine_view *out, struct err *e)
{
    struct look *l = &en->look;
    uint64_t began = clock_ns();
    pthread_mutex_lock(&l->lock);
    /* One that was asked for after this looker came, while it waited for the lock, is as good as its own. */
    bool stopping = atomic_load(&en->stopping), seen = !stopping && l->taken >= began;
    if (!seen && !stopping) {
        uint64_t now = clock_ns();
        l->asked++;
        queue_push(&en->queue, (struct command){COMMAND_LOOK, l->asked});
        engine_ring(en);
        seen = wait_answer(l);
        l->taken = seen ? now : 0;
    }
    if (seen) {
        struct engine_row_view *rows = out->rows;
        uint32_t cap = out->cap;
        *out = l->view;
        out->rows = rows;
        out->cap = cap;
        out->n = out->n < cap ? out->n : cap;
        memcpy(rows, l->rows, out->n * sizeof *rows);
    }
    pthread_mutex_unlock(&l->lock);
    return seen ? ST_OK : err_set(e, ST_BUSY, "", "the engine does not answer; it may be shutting down");
}
