/* row: see row.h. From the waiting line to the end. */
#include <stdlib.h>
#include <string.h>

#include "engine/emit.h"
#include "engine/fill.h"
#include "engine/inside.h"
#include "engine/sched.h"
#include "format/format.h"

/* --- lists ----------------------------------------------------------------------------------------------------------- */

static bool goes_before(const struct row *a, const struct row *b)
{
    return a->rank < b->rank || (a->rank <= b->rank && a->arrival < b->arrival);
}

void row_list_add(struct row_list *l, struct row *r)
{
    uint32_t i = l->n++;
    for (; i && goes_before(r, l->at[i - 1]); i--)
        l->at[i] = l->at[i - 1];
    l->at[i] = r;
}

void row_list_remove(struct row_list *l, struct row *r)
{
    uint32_t i = 0;
    while (i < l->n && l->at[i] != r)
        i++;
    if (i == l->n)
        return;
    l->n--;
    memmove(&l->at[i], &l->at[i + 1], (l->n - i) * sizeof *l->at);
}

void row_count(struct engine *en)
{
    atomic_store(&en->running, en->rows.n);
    atomic_store(&en->waiting, en->line.n);
}

/* --- waiting and running --------------------------------------------------------------------------------------------- */

void row_begin(struct engine *en, struct slot *s)
{
    struct row *r = &s->row;
    r->rank = sched_rank(r->priority, en->now);
    r->deadline = r->deadline_ms ? r->submitted + r->deadline_ms * 1e-3 : 0;
    r->follow = UINT64_MAX;
    r->follow_n = r->told = r->preemptions = 0;
    r->found = (struct kv_peek){.miss = KV_MISS_UNKNOWN};
    r->peeked = 0;
    r->counted = r->began = false;
    r->told_fed = 0;
    r->miss = MISS_NONE;
    r->state = ROW_WAITING;
    r->slot = s;
    r->seq = NULL;
    r->arrival = en->arrivals++;
    r->n = r->said = r->prompt_n;
    r->admitted = r->prefilled = r->first = r->last = r->stalled = 0;
    r->steps = r->heads = r->sure = r->take = r->cached = r->likely = r->pieces = 0;
    r->wants_head = r->telling = r->untold = false;
    r->status = ST_OK;
    memset(r->by_source, 0, sizeof r->by_source);
    r->certain = 0;
    r->hit = NULL;
    r->by_id = false;
    row_list_add(&en->line, r);
    row_count(en);
}

static void give_back_seq(struct engine *en, struct row *r)
{
    if (!r->seq)
        return;
    if (r->plan.publish.on && !r->status)
        kv_tree_publish_tail(en->tree, r->plan.ns, r->ids, r->seq);
    kv_seq_clear(r->seq);
    en->idle_seqs[en->idle_n++] = r->seq;
    r->seq = NULL;
}

void row_put_back(struct engine *en, struct row *r)
{
    give_back_seq(en, r);
    r->state = ROW_WAITING;
    r->take = r->sure = 0;
    fill_drop(en, r);
    row_list_remove(&en->rows, r);
    row_list_add(&en->line, r);
    row_count(en);
    r->preemptions++;
    stats_add(&en->stats, STAT_PREEMPTIONS, 1);
    log_line(LOG_DEBUG, "engine: a request of %u tokens gives its KV blocks back and waits", r->n);
}

/* --- readers --------------------------------------------------------------------------------------------------------- */

bool row_can_publish(struct row *r, double now)
{
    struct slot *s = r->slot;
    if (slot_room(s) < RING_ROOM) {
        /* Announce first, look again after: a reader that made room before it saw the flag is not missed. */
        atomic_store(&s->paused, true);
        if (slot_room(s) < RING_ROOM) {
            uint32_t tail = atomic_load(&s->tail);
            if (r->stalled <= 0 || r->stalled_tail != tail) {
                r->stalled = now;
                r->stalled_tail = tail;
            }
            return false;
        }
        atomic_store(&s->paused, false);
    }
    r->stalled = 0;
    return true;
}

bool row_reader_came_back(const struct engine *en)
{
    const struct row_list *lists[] = {&en->rows, &en->line};
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < lists[k]->n; i++)
            if (!atomic_load(&lists[k]->at[i]->slot->paused))
                return true;
    return false;
}

static void tell_list(struct engine *en, struct row_list *l)
{
    for (uint32_t i = l->n; i-- > 0;)
        if (l->at[i]->telling && row_can_publish(l->at[i], en->now))
            emit_more(en, l->at[i]);
}

void row_tell(struct engine *en)
{
    tell_list(en, &en->rows);
    tell_list(en, &en->line);
}

static void check_list(struct engine *en, struct row_list *l)
{
    for (uint32_t i = l->n; i-- > 0;) {
        struct row *r = l->at[i];
        if (r->deadline > 0 && en->now >= r->deadline) {
            struct err e;
            err_set(&e, ST_DEADLINE, "", "the request was not done within its %.3g seconds", r->deadline_ms * 1e-3);
            row_end(en, r, FINISH_ERROR, &e, NULL);
            continue;
        }
        if (r->stalled <= 0 || row_can_publish(r, en->now) || en->now - r->stalled < en->stall_s)
            continue;
        struct err e;
        err_set(&e, ST_CANCELLED, "", "the reply was not read for %.0f seconds", en->stall_s);
        row_end(en, r, FINISH_CANCELLED, &e, NULL);
    }
}

void row_check_times(struct engine *en)
{
    if (en->now < en->next_look)
        return;
    en->next_look = en->now + ENGINE_LOOK_S;
    check_list(en, &en->rows);
    check_list(en, &en->line);
}

/* --- the end --------------------------------------------------------------------------------------------------------- */

/* What was held back comes out with the end, and an unfinished character as U+FFFD; but nothing after a stop string, and
 * nothing when the client wants no more. */
static void last_text(struct engine *en, struct row *r, enum finish finish, const struct stop_rule *stop,
                      struct event *ev)
{
    if (!en->has_words || stop || finish == FINISH_CANCELLED || (finish == FINISH_ERROR && r->telling))
        return;
    char tail[64];
    if (r->telling || r->stops.text_n >= LIMIT_STOP_BYTES)
        BUG("an end before %u bytes of text were out", r->stops.text_n);
    memcpy(ev->text, r->stops.text, r->stops.text_n); /* the beginning of a stop string */
    ev->text_n = r->stops.text_n;
    for (size_t n; (n = en->words.flush(r->stream, tail, sizeof tail)) > 0;) {
        if (n > LIMIT_EVENT_BYTES - ev->text_n)
            break;
        memcpy(ev->text + ev->text_n, tail, n);
        ev->text_n += (uint32_t)n;
    }
}

static void fill_result(struct engine *en, const struct row *r, enum finish finish, const struct err *err,
                        const struct stop_rule *stop, struct request_result *res)
{
    double now = engine_clock(en), admitted = r->admitted > 0 ? r->admitted : now;
    double prefilled = r->prefilled > 0 ? r->prefilled : now;
    uint32_t filled = 0;
    res->finish = finish;
    if (err)
        res->err = *err;
    if (stop)
        memcpy(res->stop, stop->s, stop->n); /* shorter than the array, which is zeroed */
    res->usage = (struct request_usage){
        .cached_tokens = r->cached,
        .miss = r->miss,
        .prompt_tokens = r->prompt_n,
        .completion_tokens = r->said - r->prompt_n,
        .preemptions = r->preemptions,
        .steps = r->steps,
        .head_positions = r->heads,
        .queue_s = admitted - r->submitted,
        .prefill_s = prefilled - admitted,
        .decode_s = now - prefilled,
        .grammar_s = r->grammar_s,
        .disarmed = fill_disarmed(en, r),
    };
    for (int k = 0; k < SOURCE_KINDS; k++) {
        res->usage.by_source[k] = r->by_source[k];
        filled += r->by_source[k].accepted;
        stats_source(&en->stats, (enum source_kind)k, &r->by_source[k]);
    }
    res->usage.sampled = res->usage.completion_tokens - filled;
    res->plan = r->plan;
    bool whole = r->prompt_only ? r->told == r->prompt_n : row_is_full(r);
    res->kv_exhausted = finish == FINISH_LENGTH && !whole;
}

static void learn_duration(struct engine *en, const struct row *r)
{
    double ms = (engine_clock(en) - (r->admitted > 0 ? r->admitted : r->submitted)) * 1000;
    uint32_t mean = atomic_load_explicit(&en->mean_ms, memory_order_relaxed);
    uint32_t now = ms < 1 ? 1 : ms > 3.6e6 ? 3600000 : (uint32_t)ms;
    atomic_store_explicit(&en->mean_ms, mean ? mean - mean / 8 + now / 8 : now, memory_order_relaxed);
}

void row_release(struct engine *en, struct row *r)
{
    fill_close(en, r);
    matcher_free(r->matcher);
    grammar_free(r->grammar);
    template_rows_free(r->rows);
    free(r->imposed);
    r->matcher = NULL;
    r->grammar = NULL;
    r->rows = NULL;
    r->imposed = NULL;
}

void row_end(struct engine *en, struct row *r, enum finish finish, const struct err *err, const struct stop_rule *stop)
{
    struct slot *s = r->slot;
    struct event *ev = slot_next(s);
    ev->kind = EVENT_END;
    ev->id = -1;
    ev->text_n = ev->top_n = 0;
    ev->logprob = 0;
    ev->origin = ORIGIN_SAMPLED;
    if (r->by_id)
        emit_id(r, ev);
    fill_drop(en, r);
    last_text(en, r, finish, stop, ev);
    fill_result(en, r, finish, err, stop, &s->result);
    learn_duration(en, r);
    stats_finished(&en->stats, finish);
    if (finish == FINISH_STOP || finish == FINISH_LENGTH)
        stats_time(&en->stats, STAT_E2E, engine_clock(en) - r->submitted);
    give_back_seq(en, r);
    row_release(en, r);
    row_list_remove(r->state == ROW_RUNNING ? &en->rows : &en->line, r);
    r->state = ROW_OUT;
    r->take = 0;
    if (r->n > ROW_KEEP_IDS)
        mem_forget(r->ids, r->n * sizeof *r->ids);
    row_count(en);
    atomic_fetch_sub(&en->live, 1);
    /* From here on the client may see the end, and once the slot is dropped it may be someone else's. */
    atomic_store(&s->ended, true);
    slot_publish(s);
    engine_news(en, s);
    slot_drop(s, SLOT_ENGINE);
}
