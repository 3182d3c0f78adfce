/*
 * grammar_cache: grammars compiled on threads of their own, at low priority, and the latest kept.
 *
 * Compiling takes milliseconds, for some schemas much longer, and what is compiled comes from clients. So the threads are
 * few and nice, the queue before them is bounded, and requests for the same source share one compilation. It may take so
 * much of a processor's time: on a machine that is busy with other things a nice thread gets little of it by the clock,
 * and that is no fault of the grammar's. Callers wait by the clock, longer than that.
 *
 * A compilation that runs over its time cannot be stopped: it goes on, is reported, and another thread takes its worker's
 * place, up to a number; what comes of it late is kept like any other. With every thread beyond its time, new sources are
 * refused. A thread lives as long as sources wait, so that the stack of a deep one is not kept, and none is ever joined:
 * whoever leaves last, the owner or a thread, frees the cache.
 *
 * Lock: one mutex for everything here; no grammar is compiled or freed under it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/shim.h"
#include "text/text.h"

enum {
    WORKERS = 2,              /* threads that compile within the time limit */
    SPARE = 2,                /* more of them, in the places of those beyond it */
    THREADS = WORKERS + SPARE,
    LOOK_MS = 50,             /* how often who waits looks at the clocks */
    PREPARE_MS = 60000,       /* how long callers wait while the vocabulary is indexed, before the first */
    GOODBYE_MS = 1000,        /* how long the owner waits for the threads */
    ENTRIES = TEXT_LIMIT_GRAMMARS + TEXT_LIMIT_CHECKS + TEXT_LIMIT_GRAMMARS_WAITING + THREADS
};

enum state { QUEUED, RUNNING, DONE, FAILED };

/* A source and what became of it. Freed by whoever takes the last of: its place in the table, its waiters, its worker. */
struct entry {
    struct grammar_source src; /* its texts are owned, behind the entry */
    enum state state;
    struct grammar *g; /* DONE: one reference */
    struct err err;    /* FAILED */
    size_t bytes;      /* DONE: of memory, about */
    clockid_t clock;   /* RUNNING: its thread's time */
    uint64_t began;    /* RUNNING: nanoseconds of that */
    uint64_t used;     /* the cache's clock at the last use */
    uint64_t order;    /* of arrival */
    unsigned holders;
    bool late;         /* runs beyond the limit */
};

struct grammar_cache {
    struct tok *tok; /* one reference */
    text_compiler *compile;
    uint64_t cpu_ms, wait_ms;
    size_t most; /* bytes of what is kept */
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct entry *entries[ENTRIES];
    size_t n, queued, finished[2]; /* finished: grammars, and schemas that were only looked at */
    size_t bytes; /* of the finished */
    uint64_t clock;
    unsigned threads, late; /* those that are; and of them those beyond their time: late <= threads <= THREADS */
    unsigned holders;       /* the threads, and the owner until it leaves */
    uint64_t ready;         /* when the vocabulary was indexed; 0 before */
    bool stop;
};

static bool same(const struct grammar_source *a, const struct grammar_source *b)
{
    return a->kind == b->kind && a->relax == b->relax && a->check == b->check && a->n == b->n && !a->after == !b->after &&
           (!a->n || memcmp(a->text, b->text, a->n) == 0) &&
           (!a->after || (a->after_n == b->after_n && memcmp(a->after, b->after, a->after_n) == 0));
}

static struct entry *entry_new(const struct grammar_source *src)
{
    size_t after_n = src->after ? src->after_n : 0;
    struct entry *x = calloc(1, sizeof *x + src->n + after_n + 1);
    if (!x)
        return NULL;
    char *copy = (char *)(x + 1);
    x->src = *src;
    if (src->n)
        memcpy(copy, src->text, src->n);
    x->src.text = copy;
    if (src->after) {
        memcpy(copy + src->n, src->after, after_n);
        x->src.after = copy + src->n;
    }
    return x;
}

/* Gives one hold back. Returns a grammar to be freed without the lock, or NULL. */
static struct grammar *let_go(struct entry *x)
{
    if (--x->holders)
        return NULL;
    struct grammar *g = x->g;
    free(x);
    return g;
}

static void take_out(struct grammar_cache *c, size_t i)
{
    c->entries[i] = c->entries[--c->n];
}

static size_t find(const struct grammar_cache *c, const struct entry *x)
{
    size_t i = 0;
    while (i < c->n && c->entries[i] != x)
        i++;
    return i;
}

/* The finished entry of a kind that was not used for the longest time leaves the table. */
static struct grammar *evict(struct grammar_cache *c, bool check)
{
    size_t oldest = c->n;
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i]->state == DONE && c->entries[i]->src.check == check &&
            (oldest == c->n || c->entries[i]->used < c->entries[oldest]->used))
            oldest = i;
    if (oldest == c->n)
        return NULL;
    struct entry *x = c->entries[oldest];
    take_out(c, oldest);
    c->finished[check]--;
    c->bytes -= x->bytes;
    return let_go(x);
}

static struct entry *next_in_line(struct grammar_cache *c)
{
    struct entry *first = NULL;
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i]->state == QUEUED && (!first || c->entries[i]->order < first->order))
            first = c->entries[i];
    return first;
}

static uint64_t thread_ns(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Keeps a new grammar, and lets others go for it. Returns how many of them are in `old`, to be freed without the lock. */
static size_t keep(struct grammar_cache *c, struct entry *x, struct grammar *old[ENTRIES])
{
    const bool check = x->src.check;
    const size_t limit = check ? TEXT_LIMIT_CHECKS : TEXT_LIMIT_GRAMMARS;
    size_t n = 0;
    x->bytes = sizeof *x + x->src.n + text_grammar_bytes(x->g);
    x->used = ++c->clock;
    c->finished[check]++;
    c->bytes += x->bytes;
    while (c->finished[check] > limit || c->bytes > c->most) {
        /* For memory whole grammars go first, which take the most. */
        struct grammar *g = evict(c, c->finished[check] > limit ? check : !c->finished[false]);
        if (g)
            old[n++] = g;
    }
    return n;
}

/* Compiles one entry; the lock is held before and after. */
static void compile(struct grammar_cache *c, struct entry *x)
{
    struct grammar *g = NULL, *old[ENTRIES];
    struct err err = {0};
    size_t old_n = 0;
    pthread_getcpuclockid(pthread_self(), &x->clock);
    x->began = thread_ns(x->clock);
    x->state = RUNNING;
    x->holders++;
    c->queued--;
    pthread_mutex_unlock(&c->lock);
    enum status st = c->compile(&g, c->tok, &x->src, &err);
    pthread_mutex_lock(&c->lock);
    size_t i = find(c, x);
    bool in_table = i < c->n; /* not when the owner has left */
    x->state = st == ST_OK ? DONE : FAILED;
    x->g = g;
    x->err = err;
    if (in_table && st == ST_OK) {
        old_n = keep(c, x, old);
    } else if (in_table) {
        take_out(c, i);
        x->holders--;
    }
    if (x->late)
        c->late--;
    x->late = false;
    struct grammar *mine = let_go(x);
    pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->lock);
    while (old_n)
        grammar_free(old[--old_n]);
    grammar_free(mine);
    pthread_mutex_lock(&c->lock);
}

/* Gives up a hold, and with it the lock. */
static void leave(struct grammar_cache *c)
{
    bool last = !--c->holders;
    pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->lock);
    if (!last)
        return;
    pthread_cond_destroy(&c->done);
    pthread_mutex_destroy(&c->lock);
    tok_free(c->tok);
    free(c);
}

/* Threads that there may be now. */
static unsigned places(const struct grammar_cache *c)
{
    return WORKERS + (c->late < SPARE ? c->late : SPARE);
}

static void *worker_main(void *arg)
{
    struct grammar_cache *c = arg;
    struct entry *x;
    nice_thread();
    struct err err;
    if (text_prepare_grammars(c->tok, &err) != ST_OK)
        log_line(LOG_ERROR, "%s", err.text); /* and every grammar will say so */
    pthread_mutex_lock(&c->lock);
    if (!c->ready)
        c->ready = clock_ns();
    while (!c->stop && c->threads <= places(c) && (x = next_in_line(c)))
        compile(c, x);
    c->threads--;
    leave(c);
    return NULL;
}

/* One more thread, if there may be one; signals are for the program's own thread. Without it those that there are do
 * the work. Returns whether there is any that will. */
static bool more_threads(struct grammar_cache *c)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    if (c->threads < places(c)) {
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attr, text_grammar_stack());
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&thread, &attr, worker_main, c) == 0)
            c->threads++, c->holders++;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
    }
    return c->threads > c->late;
}

enum status grammar_cache_new(struct grammar_cache **out, const struct tok *t, struct err *e)
{
    pthread_condattr_t attr;
    struct grammar_cache *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for the grammar cache");
    c->tok = text_tok_retain(t);
    c->holders = 1;
    text_cache_set(c, text_grammar_here, TEXT_LIMIT_GRAMMAR_MS, TEXT_LIMIT_GRAMMAR_WAIT_MS, TEXT_LIMIT_GRAMMAR_BYTES);
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->done, &attr);
    pthread_condattr_destroy(&attr);
    *out = c;
    return ST_OK;
}

void text_cache_set(struct grammar_cache *c, text_compiler *compiler, unsigned cpu_ms, unsigned wait_ms, size_t bytes)
{
    c->compile = compiler;
    c->cpu_ms = cpu_ms;
    c->wait_ms = wait_ms;
    c->most = bytes;
}

/* Sleeps until something was done, or for so long. */
static void wait_done(struct grammar_cache *c, uint64_t ms)
{
    uint64_t until = clock_ns() + ms * 1000000u;
    struct timespec at = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    pthread_cond_timedwait(&c->done, &c->lock, &at);
}

void grammar_cache_free(struct grammar_cache *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    uint64_t until = clock_ns() + GOODBYE_MS * 1000000ull;
    while (c->threads && clock_ns() < until)
        wait_done(c, LOOK_MS);
    while (c->n) {
        struct entry *x = c->entries[c->n - 1];
        take_out(c, c->n - 1);
        struct grammar *g = let_go(x);
        pthread_mutex_unlock(&c->lock);
        grammar_free(g);
        pthread_mutex_lock(&c->lock);
    }
    leave(c);
}

/* Finds out which compilations are beyond their time by now, and has others go on in their threads' places. */
static void look_at_clocks(struct grammar_cache *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct entry *x = c->entries[i];
        if (x->state != RUNNING || x->late || thread_ns(x->clock) - x->began < c->cpu_ms * 1000000u)
            continue;
        x->late = true;
        c->late++;
        log_line(LOG_ERROR, "a grammar of %zu bytes takes more than %u ms to compile; %u such now", x->src.n,
                 (unsigned)c->cpu_ms, c->late);
        more_threads(c);
    }
}

static enum status busy(struct err *e, const char *why)
{
    err_set(e, ST_BUSY, "grammar", "%s", why);
    if (e)
        e->retry_after = 1;
    return ST_BUSY;
}

/* The entry of a source, new or not, with a hold for the caller. */
static enum status enter(struct grammar_cache *c, struct entry **out, const struct grammar_source *src, struct err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        if (same(&c->entries[i]->src, src)) {
            *out = c->entries[i];
            (*out)->holders++;
            (*out)->used = ++c->clock;
            return ST_OK;
        }
    }
    look_at_clocks(c);
    if (c->late >= THREADS)
        return busy(e, "too many grammars take too long to compile");
    if (c->queued >= TEXT_LIMIT_GRAMMARS_WAITING || c->n == ENTRIES)
        return busy(e, "too many grammars wait to be compiled");
    struct entry *x = entry_new(src);
    if (!x || !more_threads(c)) {
        free(x);
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory or no thread to compile the grammar");
    }
    x->state = QUEUED;
    x->order = x->used = ++c->clock;
    x->holders = 2;
    c->entries[c->n++] = x;
    c->queued++;
    *out = x;
    return ST_OK;
}

static enum status wait_for(struct grammar_cache *c, struct entry *x, struct err *e)
{
    uint64_t came = clock_ns();
    while (x->state == QUEUED || x->state == RUNNING) {
        look_at_clocks(c);
        if (x->late)
            return err_set(e, ST_TOO_LONG, "grammar", "compiling the grammar takes more than %u ms",
                           (unsigned)c->cpu_ms);
        if (x->state == QUEUED && c->late >= THREADS)
            return busy(e, "too many grammars take too long to compile");
        uint64_t from = c->ready > came ? c->ready : came;
        if (clock_ns() - from >= (c->ready ? c->wait_ms : PREPARE_MS) * 1000000u)
            return busy(e, "the grammar waited too long to be compiled");
        wait_done(c, LOOK_MS);
    }
    if (x->state == FAILED) {
        if (e)
            *e = x->err;
        return x->err.code;
    }
    return ST_OK;
}

enum status grammar_cache_get(struct grammar_cache *c, struct grammar **out, const struct grammar_source *src,
                              struct err *e)
{
    struct entry *x = NULL;
    *out = NULL;
    if (src->n > TEXT_LIMIT_GRAMMAR || (src->after && src->after_n > TEXT_LIMIT_AFTER))
        return err_set(e, ST_TOO_LONG, "grammar", "%zu bytes of grammar exceed the limit of %u", src->n,
                       TEXT_LIMIT_GRAMMAR);
    pthread_mutex_lock(&c->lock);
    enum status st = enter(c, &x, src, e);
    if (st == ST_OK) {
        st = wait_for(c, x, e);
        if (st == ST_OK) {
            grammar_retain(x->g);
            *out = x->g;
        }
        struct grammar *g = let_go(x);
        pthread_mutex_unlock(&c->lock);
        grammar_free(g);
        return st;
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}
