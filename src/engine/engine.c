/*
 * engine: its life and its thread. The loop is: commands in, rows admitted, one step, news out; sleep when there is
 * nothing to do. Everything a client calls is in client.c.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/fill.h"
#include "engine/inside.h"
#include "engine/sched.h"

/* --- the thread ------------------------------------------------------------------------------------------------------ */

void engine_news(struct engine *en, const struct slot *s)
{
    notify_mark(&en->notify, (uint32_t)(s - en->slots.at));
}

void engine_ring(struct engine *en)
{
    if (atomic_exchange(&en->asleep, false))
        notify_ring(en->bell);
}

static void end_cancelled(struct engine *en, struct row *r, const char *why)
{
    struct err e;
    err_set(&e, ST_CANCELLED, "", "%s", why);
    row_end(en, r, FINISH_CANCELLED, &e, NULL);
}

static void obey(struct engine *en)
{
    struct command c;
    while (queue_pop(&en->queue, &c)) {
        if (c.kind == COMMAND_LOOK) {
            look_answer(en, (uint32_t)c.id);
            continue;
        }
        struct slot *s = slot_find(&en->slots, c.id, SLOT_ENGINE);
        if (c.kind == COMMAND_SUBMIT)
            row_begin(en, s);
        else if (s) /* not NULL, so it did not come after the end */
            end_cancelled(en, &s->row, "the request was cancelled");
    }
}

/* `asleep` is set before looking once more for work, and clients look at it after they left some: one of the two sees
 * the other. When the engine gets here every row waits for its reader, in the line too: any other would have been
 * started, or kept there by one that had something to do. */
static void sleep_until_rung(struct engine *en)
{
    atomic_store(&en->asleep, true);
    if (!queue_ready(&en->queue) && !atomic_load(&en->stopping) && !row_reader_came_back(en)) {
        struct pollfd p = {.fd = en->bell, .events = POLLIN};
        poll(&p, 1, en->rows.n + en->line.n ? (int)(ENGINE_LOOK_S * 1000) : -1);
    }
    atomic_store(&en->asleep, false);
    uint64_t count;
    while (read(en->bell, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* Requests whose submission began before `stopping` was seen are still on their way: `live` counts them. */
static void end_all(struct engine *en)
{
    while (atomic_load(&en->live)) {
        obey(en);
        while (en->rows.n)
            end_cancelled(en, en->rows.at[0], "the engine is shutting down");
        while (en->line.n)
            end_cancelled(en, en->line.at[0], "the engine is shutting down");
        sched_yield();
    }
    notify_flush(&en->notify);
}

static bool turn(struct engine *en)
{
    uint64_t began = clock_ns(), busy = stats_busy_ns(&en->stats);
    en->now = engine_clock(en);
    obey(en);
    en->now = engine_clock(en); /* no row starts before it was submitted */
    row_check_times(en);
    row_tell(en);
    sched_admit(en);
    notify_flush(&en->notify); /* requests that ended above do not wait for a step of others */
    bool worked = step_run(en);
    notify_flush(&en->notify);
    uint64_t other = clock_ns() - began - (stats_busy_ns(&en->stats) - busy);
    stats_add(&en->stats, STAT_OTHER_NS, other);
    if (worked)
        stats_time(&en->stats, STAT_OVERHEAD, (double)other * 1e-9);
    return worked;
}

bool engine_turn(struct engine *en)
{
    if (!en->manual)
        BUG("a turn from outside for an engine that has a thread");
    return turn(en);
}

static void *engine_main(void *arg)
{
    struct engine *en = arg;
    pool_set_fp_mode();
    pthread_setname_np(pthread_self(), "ffwd-engine");
    home_thread(home_here());
    while (!atomic_load(&en->stopping))
        if (!turn(en))
            sleep_until_rung(en);
    end_all(en);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------------------------------ */

static enum status make_rows(struct engine *en, struct err *e)
{
    uint32_t rows = en->cfg.rows;
    en->seqs = calloc(rows, sizeof *en->seqs);
    en->idle_seqs = calloc(rows, sizeof(struct kv_seq *));
    en->rows.at = calloc(rows, sizeof(struct row *));
    en->line.at = calloc(en->slots.n, sizeof(struct row *));
    en->samplers = calloc((size_t)pool_size(en->cfg.pool), sizeof *en->samplers);
    en->scores = calloc(rows, sizeof *en->scores);
    en->asks = calloc(rows, sizeof *en->asks);
    en->proposal = calloc(rows, sizeof *en->proposal);
    if (!en->seqs || !en->idle_seqs || !en->rows.at || !en->line.at || !en->samplers || !en->scores || !en->asks ||
        !en->proposal)
        return err_set(e, ST_NO_MEMORY, "rows", "no memory for %u rows", rows);
    for (uint32_t i = 0; i < rows; i++) {
        TRY(kv_seq_init(&en->seqs[i], en->kv, e));
        en->idle_seqs[en->idle_n++] = &en->seqs[rows - 1 - i];
    }
    for (int i = 0; i < pool_size(en->cfg.pool); i++)
        TRY(sampler_new(&en->samplers[i], en->net.vocab, en->net.ops, e));
    en->tops = calloc(engine_heads(en), sizeof *en->tops);
    en->logits = mem_map(engine_logits_bytes(en));
    en->ids = mem_map_sparse(engine_ids_bytes(en));
    if (!en->tops || !en->logits || !en->ids)
        return err_set(e, ST_NO_MEMORY, "rows", "no memory for the ids and logits of %u rows", rows);
    for (uint32_t i = 0; i < en->slots.n; i++)
        en->slots.at[i].row.ids = en->ids + (size_t)i * en->cfg.context;
    return ST_OK;
}

static enum status start(struct engine *en, const struct engine_config *cfg, const struct engine_tuning *tuning,
                         struct err *e)
{
    struct kv_config kv;
    TRY(engine_plan_memory(en, cfg, &kv, e));
    if (tuning && tuning->positions)
        kv.positions = tuning->positions;
    TRY(slot_table_init(&en->slots, en->cfg.rows + en->cfg.queue + ENGINE_SPARE_SLOTS, e));
    /* A slot may have a submit, its cancel, and the late cancel of the request before under way; and there may be looks
     * whose askers gave up: one in LOOK_WAIT_S seconds. */
    TRY(queue_init(&en->queue, 4 * en->slots.n + 64, e));
    TRY(look_init(&en->look, en->slots.n, e));
    TRY(kv_pool_new(&en->kv, &kv, e));
    for (uint32_t g = 0; g < en->net.kv_groups; g++)
        en->kv_blocks[g] = kv_pool_unused(en->kv, g);
    if (!cfg->no_prefix_cache)
        TRY(kv_tree_new(&en->tree, en->kv, e));
    TRY(make_rows(en, e));
    TRY(fill_sources(en, cfg, tuning ? tuning->source : NULL, e));
    TRY(en->net.prepare(en->net.ctx, en->cfg.pool, en->step_tokens, en->cfg.context, e));
    en->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (en->bell < 0)
        return err_errno(e, ST_IO, "", "cannot make a descriptor for the engine");
    TRY(notify_init(&en->notify, &en->slots, e));
    if (en->manual)
        return ST_OK;
    int rc = notify_thread(&en->thread, engine_main, en);
    if (rc) {
        errno = rc;
        return err_errno(e, ST_NO_MEMORY, "", "cannot start the engine's thread");
    }
    en->started = true;
    return ST_OK;
}

static double real_clock(void *ctx)
{
    (void)ctx;
    return clock_seconds();
}

enum status engine_new_net(struct engine **out, const struct engine_config *cfg, const struct engine_net *net,
                           const struct engine_words *words, const struct engine_tuning *tuning, struct err *e)
{
    *out = NULL;
    struct engine *en = calloc(1, sizeof *en);
    if (!en) {
        net->release(net->ctx);
        return err_set(e, ST_NO_MEMORY, "", "no memory for an engine");
    }
    en->net = *net;
    en->has_words = words != NULL;
    if (words)
        en->words = *words;
    en->stall_s = (double)(tuning && tuning->stall_ms ? tuning->stall_ms : ENGINE_STALL_MS) / 1000;
    en->bell = en->notify.bell = en->notify.shared = -1;
    en->clock = tuning && tuning->clock ? tuning->clock : real_clock;
    en->clock_ctx = tuning ? tuning->clock_ctx : NULL;
    en->manual = tuning && tuning->manual;
    enum status st = start(en, cfg, tuning, e);
    if (st) {
        engine_free(en);
        return st;
    }
    *out = en;
    return ST_OK;
}

void engine_stop(struct engine *en)
{
    atomic_store(&en->stopping, true);
    if (en->manual && en->notify.started)
        end_all(en);
    if (!en->started)
        return;
    engine_ring(en);
    pthread_join(en->thread, NULL);
    en->started = false;
}

void engine_free(struct engine *en)
{
    if (!en)
        return;
    engine_stop(en);
    notify_release(&en->notify);
    for (uint32_t i = 0; en->seqs && i < en->cfg.rows; i++)
        kv_seq_release(&en->seqs[i]);
    for (int i = 0; en->samplers && i < pool_size(en->cfg.pool); i++)
        sampler_free(en->samplers[i]);
    free(en->tops);
    mem_unmap(en->logits, engine_logits_bytes(en));
    mem_unmap(en->ids, engine_ids_bytes(en));
    slot_table_release(&en->slots, &en->words);
    kv_tree_free(en->tree);
    kv_pool_free(en->kv);
    queue_release(&en->queue);
    en->net.release(en->net.ctx);
    if (en->bell >= 0)
        close(en->bell);
    free(en->seqs);
    free(en->idle_seqs);
    free(en->rows.at);
    free(en->line.at);
    free(en->samplers);
    free(en->scores);
    free(en->asks);
    free(en->proposal);
    fill_release(en);
    look_release(&en->look);
    free(en);
}
