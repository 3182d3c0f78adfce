/*
 * The client's side of the engine: what connection threads call. Nothing here touches rows that run, KV or the model; it
 * fills a slot, posts its id, and reads its ring.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/fill.h"
#include "engine/inside.h"
#include "engine/vector.h"
#include "format/format.h"

uint32_t engine_context(const struct engine *en)
{
    return en->cfg.context;
}

uint32_t engine_rows(const struct engine *en)
{
    return en->cfg.rows;
}

size_t engine_kv_bytes(const struct engine *en)
{
    return kv_pool_bytes(en->kv);
}

void engine_verify(const struct engine *en)
{
    kv_verify(en->kv, en->seqs, en->cfg.rows);
    for (uint32_t i = 0; i < en->rows.n; i++) {
        const struct row *r = en->rows.at[i];
        if (r->seq->len > r->n || r->state != ROW_RUNNING)
            BUG("a row of %u ids has fed %u", r->n, r->seq->len);
        if (en->tree)
            kv_tree_verify(en->tree, r->plan.ns, r->ids, r->seq);
    }
}

void engine_last_step(const struct engine *en, double *predicted_ms, double *budget_ms)
{
    *predicted_ms = en->step.predicted_ms;
    *budget_ms = en->step.budget_ms;
}

uint32_t engine_kv_available(const struct engine *en)
{
    return kv_pool_available(en->kv, 0);
}

const char *finish_name(enum finish f)
{
    static const char *const names[] = {"none", "stop", "length", "error", "cancelled"};
    return (unsigned)f < sizeof names / sizeof *names ? names[f] : "unknown";
}

const char *cache_miss_name(enum cache_miss m)
{
    static const char *const names[] = {"none", "not used", "nothing like it is kept", "new text", "text differs",
                                        "keys and values of a sliding window were evicted"};
    return (unsigned)m < sizeof names / sizeof *names ? names[m] : "unknown";
}

enum model_pooling engine_pooling(const struct engine *en)
{
    return en->net.pooling;
}

uint32_t engine_vector_size(const struct engine *en)
{
    return en->net.vector;
}

void engine_load(const struct engine *en, uint32_t *running, uint32_t *waiting)
{
    *running = atomic_load(&en->running);
    *waiting = atomic_load(&en->waiting);
}

/* --- submitting ------------------------------------------------------------------------------------------------------ */

static enum status check_fill(const struct engine *en, const struct request *rq, struct err *e)
{
    if ((unsigned)rq->fill > FILL_STRICT)
        return err_set(e, ST_ARGUMENT, "fill", "there is no fill mode %u", (unsigned)rq->fill);
    if (rq->grammar && rq->ignore_eos)
        return err_set(e, ST_ARGUMENT, "ignore_eos", "a reply with a grammar ends where the grammar does; ignore_eos "
                       "contradicts that");
    if (rq->grammar && rq->sampling.min_tokens)
        return err_set(e, ST_ARGUMENT, "min_tokens", "a reply with a grammar ends where the grammar does; min_tokens "
                       "contradicts that");
    if (rq->thinking.close_n > SAMPLE_CLOSE)
        return err_set(e, ST_ARGUMENT, "thinking", "thinking is ended by at most %u ids, not %u", SAMPLE_CLOSE,
                       rq->thinking.close_n);
    for (uint32_t i = 0; i < rq->thinking.close_n; i++)
        if ((uint32_t)rq->thinking.close[i] >= en->net.vocab)
            return err_set(e, ST_ARGUMENT, "thinking", "id %d, which ends thinking, is not in the vocabulary of %u",
                           (int)rq->thinking.close[i], en->net.vocab);
    if (rq->imposed_n && rq->imposed_n != rq->max_tokens)
        return err_set(e, ST_ARGUMENT, "imposed", "%u imposed ids need max_tokens to be as many, not %u", rq->imposed_n,
                       rq->max_tokens);
    for (uint32_t i = 0; i < rq->imposed_n; i++)
        if ((uint32_t)rq->imposed[i] >= en->net.vocab)
            return err_set(e, ST_ARGUMENT, "imposed", "imposed id %d is not in the vocabulary of %u",
                           (int)rq->imposed[i], en->net.vocab);
    return ST_OK;
}

static enum status check_prompt(const struct engine *en, const struct request *rq, struct err *e)
{
    uint32_t context = en->cfg.context;
    if (!rq->prompt || !rq->prompt_n)
        return err_set(e, ST_ARGUMENT, "prompt", "the prompt is empty");
    TRY(vector_check(en, rq, e));
    if (rq->vector ? rq->prompt_n > context : rq->prompt_n >= context)
        return err_set(e, ST_TOO_LONG, "prompt", "the prompt has %u tokens, the context holds %u%s",
                       rq->prompt_n, context, rq->vector ? "" : " with the reply");
    for (uint32_t i = 0; i < rq->prompt_n; i++)
        if ((uint32_t)rq->prompt[i] >= en->net.vocab)
            return err_set(e, ST_ARGUMENT, "prompt", "prompt id %d is not in the vocabulary of %u", (int)rq->prompt[i],
                           en->net.vocab);
    return ST_OK;
}

static enum status check_request(const struct engine *en, const struct request *rq, struct err *e)
{
    uint32_t context = en->cfg.context;
    TRY(check_prompt(en, rq, e));
    if (rq->max_tokens > context - rq->prompt_n)
        return err_set(e, ST_NEVER_FITS, "max_tokens",
                       "the prompt has %u tokens and max_tokens is %u, the context holds %u together", rq->prompt_n,
                       rq->max_tokens, context);
    struct plan_room room = {.whole = kv_blocks(rq->prompt_n + rq->max_tokens), .alone = true};
    for (uint32_t g = 0; g < en->net.kv_groups; g++) {
        room.all = en->kv_blocks[g];
        if (!en->net.kv_group[g].window && plan_admit(&room) == PLAN_NEVER)
            return err_set(e, ST_NEVER_FITS, rq->max_tokens ? "max_tokens" : "prompt",
                           "%u tokens of prompt and %u of reply take %llu blocks of keys and values, there are %llu",
                           rq->prompt_n, rq->max_tokens, (unsigned long long)room.whole, (unsigned long long)room.all);
    }
    TRY(sample_check(&rq->sampling, en->net.vocab, e));
    if (rq->max_tokens && rq->sampling.min_tokens > rq->max_tokens)
        return err_set(e, ST_ARGUMENT, "min_tokens", "min_tokens is %u, but max_tokens is %u", rq->sampling.min_tokens,
                       rq->max_tokens);
    if (rq->logprobs > LIMIT_LOGPROBS + 1)
        return err_set(e, ST_ARGUMENT, "logprobs", "at most %u alternatives a token can be reported, not %u",
                       LIMIT_LOGPROBS, rq->logprobs - 1);
    if (rq->prompt_logprobs && !rq->logprobs)
        return err_set(e, ST_ARGUMENT, "logprobs", "log-probabilities of the prompt need logprobs");
    if (rq->prompt_only && !rq->prompt_logprobs)
        return err_set(e, ST_ARGUMENT, "prompt_only", "a request that ends with its prompt needs its log-probabilities");
    if (rq->priority < -LIMIT_PRIORITY || rq->priority > LIMIT_PRIORITY)
        return err_set(e, ST_ARGUMENT, "priority", "priority must be between %d and %d, not %d", -LIMIT_PRIORITY,
                       LIMIT_PRIORITY, (int)rq->priority);
    if (rq->deadline_ms > LIMIT_DEADLINE_MS)
        return err_set(e, ST_ARGUMENT, "deadline_ms", "deadline_ms can be at most %u, not %u", LIMIT_DEADLINE_MS,
                       rq->deadline_ms);
    if (rq->salt_n > LIMIT_SALT)
        return err_set(e, ST_ARGUMENT, "cache_salt", "cache_salt can have at most %u bytes, not %zu", LIMIT_SALT,
                       rq->salt_n);
    TRY(check_fill(en, rq, e));
    if (rq->stops_n && !en->has_words)
        return err_set(e, ST_ARGUMENT, "stop", "stop strings need a tokenizer, this engine has none");
    return ST_OK;
}

/* Seconds until a place is likely to be free. */
static enum status refuse_busy(struct engine *en, struct err *e)
{
    stats_add(&en->stats, STAT_REFUSED, 1);
    uint64_t mean = atomic_load_explicit(&en->mean_ms, memory_order_relaxed);
    uint64_t s = (mean + 999) / 1000;
    enum status st = err_set(e, ST_BUSY, "", "%u requests run and %u wait, the queue is full", en->cfg.rows,
                             en->cfg.queue);
    if (e)
        e->retry_after = s < 1 ? 1 : s > 60 ? 60 : (int)s;
    return st;
}

/* Counts the request in, unless all places are taken or the engine stops. */
static enum status take_place(struct engine *en, struct err *e)
{
    uint32_t live = atomic_load(&en->live);
    do {
        if (live >= en->cfg.rows + en->cfg.queue)
            return refuse_busy(en, e);
    } while (!atomic_compare_exchange_weak(&en->live, &live, live + 1));
    if (!atomic_load(&en->stopping))
        return ST_OK;
    atomic_fetch_sub(&en->live, 1);
    enum status st = err_set(e, ST_BUSY, "", "the engine is shutting down");
    if (e)
        e->retry_after = 5;
    return st;
}

static struct plan make_plan(const struct engine *en, const struct request *rq)
{
    const struct plan_facts facts = {
        .ns = en->tree ? kv_tree_namespace(en->tree, rq->salt, rq->salt_n) : 0,
        .prompt_logprobs = rq->prompt_logprobs,
        .no_prefix_cache = rq->no_prefix_cache,
        .off = rq->fill == FILL_OFF,
        .sources_off = rq->sources_off,
        .grammar = rq->grammar || en->given,
        .rows = rq->rows || en->given,
        .nothing = rq->prompt_only || rq->vector,
        .whole = en->net.whole,
        .pooled = rq->vector && (en->net.pooling == POOLING_MEAN || en->net.pooling == POOLING_CLS),
        .logprobs = rq->logprobs,
        .needs_dist = sample_needs_dist(&rq->sampling),
    };
    struct plan_means means = {.prefix_cache = en->tree};
    for (int k = 0; k < SOURCE_KINDS; k++)
        means.sources |= en->source[k] ? 1u << k : 0;
    return plan_make(&facts, &means);
}

enum status engine_plan(const struct engine *en, const struct request *rq, struct plan *out, struct err *e)
{
    *out = (struct plan){0};
    TRY(check_request(en, rq, e));
    *out = make_plan(en, rq);
    return ST_OK;
}

/* The grammar, the template's rows and the imposed ids; then what they leave possible at first. */
static enum status fill_constraints(struct engine *en, struct row *r, const struct request *rq, struct err *e)
{
    if (rq->grammar) {
        size_t words = sample_mask_words(en->net.vocab);
        grammar_retain(rq->grammar);
        r->grammar = rq->grammar;
        r->mask = arena_try(&r->arena, words * sizeof *r->mask);
        if (!r->mask)
            return err_set(e, ST_NO_MEMORY, "grammar", "no memory for a mask of %zu words", words);
        memset(r->mask, 0, words * sizeof *r->mask);
        TRY(matcher_new(&r->matcher, r->grammar, e));
        if (matcher_words(r->matcher) > words)
            return err_set(e, ST_ARGUMENT, "grammar", "the grammar is of another vocabulary");
    }
    if (rq->rows) {
        template_rows_retain(rq->rows);
        r->rows = rq->rows;
    }
    if (rq->imposed_n) {
        r->imposed = malloc(rq->imposed_n * sizeof *r->imposed);
        if (!r->imposed)
            return err_set(e, ST_NO_MEMORY, "imposed", "no memory for %u ids", rq->imposed_n);
        memcpy(r->imposed, rq->imposed, rq->imposed_n * sizeof *r->imposed);
    }
    r->imposed_n = rq->imposed_n;
    r->n = r->prompt_n;
    r->complete = false;
    r->grammar_s = 0;
    r->plan = make_plan(en, rq);
    TRY(fill_open(en, r, e));
    return row_look_ahead(r, e);
}

static enum status fill_row(struct engine *en, struct row *r, const struct request *rq, struct err *e)
{
    arena_clear(&r->arena);
    TRY(stop_init(&r->stops, &r->arena, rq->stops, rq->stops_n, e));
    if (r->stream && r->stream_special != rq->keep_special) {
        en->words.close(r->stream);
        r->stream = NULL;
    }
    if (r->stream)
        en->words.clear(r->stream);
    else if (en->has_words)
        TRY(en->words.open(en->words.ctx, rq->keep_special, &r->stream, e));
    r->stream_special = rq->keep_special;
    memcpy(r->ids, rq->prompt, rq->prompt_n * sizeof *r->ids);
    r->prompt_n = rq->prompt_n;
    r->max_tokens = rq->max_tokens ? rq->max_tokens : en->cfg.context - rq->prompt_n;
    TRY(sample_params_copy(&r->sampling, &rq->sampling, &r->arena, e));
    sample_state_begin(&r->sample, &r->sampling);
    sample_budget_begin(&r->budget, &rq->thinking);
    r->ignore_eos = rq->ignore_eos;
    r->logprobs = rq->logprobs;
    r->prompt_logprobs = rq->prompt_logprobs;
    r->prompt_only = rq->prompt_only || rq->vector;
    r->sum = r->vector = NULL;
    r->progress = rq->progress;
    r->no_prefix_cache = rq->no_prefix_cache;
    r->priority = rq->priority;
    r->deadline_ms = rq->deadline_ms;
    r->salt_n = (uint32_t)rq->salt_n;
    if (rq->salt_n)
        memcpy(r->salt, rq->salt, rq->salt_n);
    snprintf(r->name, sizeof r->name, "%s", rq->name ? rq->name : "");
    r->fill = rq->fill;
    r->sources_off = rq->sources_off;
    enum status st = fill_constraints(en, r, rq, e);
    if (!st && rq->vector)
        st = vector_open(en, r, e);
    if (st)
        row_release(en, r);
    r->submitted = engine_clock(en);
    return st;
}

enum status engine_submit(struct engine *en, const struct request *rq, request_id *id, struct err *e)
{
    *id = 0;
    TRY(check_request(en, rq, e));
    TRY(take_place(en, e));
    struct err why = {.code = ST_OK};
    struct slot *s = slot_claim(&en->slots, &why);
    enum status st = s ? fill_row(en, &s->row, rq, &why) : why.code;
    if (!s || st) {
        if (s)
            slot_drop(s, SLOT_CLIENT | SLOT_ENGINE);
        atomic_fetch_sub(&en->live, 1);
        if (!st) /* every slot is held by a client that has not closed an ended request */
            return refuse_busy(en, e);
        if (e)
            *e = why;
        return st;
    }
    *id = slot_id(&en->slots, s);
    queue_push(&en->queue, (struct command){COMMAND_SUBMIT, *id});
    engine_ring(en);
    return ST_OK;
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* Makes the descriptor unreadable unless there is an event, and says whether there is. An event that came before the
 * reset is found by the look after it; one that comes later rings by itself. */
static bool settle_fd(struct slot *s)
{
    uint64_t count;
    while (read(atomic_load(&s->fd), &count, sizeof count) < 0 && errno == EINTR)
        ;
    if (!slot_has_event(s))
        return false;
    notify_ring(atomic_load(&s->fd));
    return true;
}

size_t engine_take(struct engine *en, request_id id, struct event *out, size_t n)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    if (!s || !n || (!slot_has_event(s) && (atomic_load(&s->shared) || !settle_fd(s))))
        return 0;
    size_t got = 0;
    while (got < n && slot_pop(s, &out[got]))
        got++;
    if (slot_room(s) >= RING_ROOM && atomic_exchange(&s->paused, false))
        engine_ring(en);
    return got;
}

bool engine_wait(struct engine *en, request_id id, int timeout_ms)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    uint64_t until = clock_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000u : 0);
    while (s) {
        if (slot_has_event(s))
            return true;
        if (atomic_load(&s->end_taken))
            return false; /* nothing will come */
        int left = timeout_ms;
        if (timeout_ms > 0) {
            uint64_t now = clock_ns();
            left = now < until ? (int)((until - now + 999999u) / 1000000u) : 0;
        }
        struct pollfd p = {.fd = atomic_load(&s->fd), .events = POLLIN};
        int rc = poll(&p, 1, left);
        if (rc > 0 && settle_fd(s)) /* it may have been left from an event that was taken already */
            return true;
        if (rc == 0)
            return slot_has_event(s);
    }
    return false;
}

int engine_fd(struct engine *en, request_id id)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    return s ? atomic_load(&s->fd) : -1;
}

void engine_share(struct engine *en, request_id id, bool shared)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    if (s)
        atomic_store(&s->shared, shared);
}

int engine_shared_fd(const struct engine *en)
{
    return en->notify.shared;
}

void engine_result(struct engine *en, request_id id, struct request_result *out)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    *out = (struct request_result){0};
    if (s && atomic_load(&s->ended))
        *out = s->result;
}

const float *engine_vector(struct engine *en, request_id id)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    return s && atomic_load(&s->ended) && s->result.finish == FINISH_STOP ? s->row.vector : NULL;
}

/* --- ending ---------------------------------------------------------------------------------------------------------- */

static void cancel(struct engine *en, struct slot *s, request_id id)
{
    if (atomic_load(&s->ended) || atomic_exchange(&s->cancelled, true))
        return;
    queue_push(&en->queue, (struct command){COMMAND_CANCEL, id});
    engine_ring(en);
}

void engine_cancel(struct engine *en, request_id id)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    if (s)
        cancel(en, s, id);
}

void engine_close(struct engine *en, request_id id)
{
    struct slot *s = slot_find(&en->slots, id, SLOT_CLIENT);
    if (!s)
        return;
    cancel(en, s, id);
    slot_drop(s, SLOT_CLIENT);
}
