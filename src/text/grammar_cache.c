/*
 * grammar_cache: grammars compiled on threads of their own, at low priority, and the latest kept.
 *
 * Compiling takes milliseconds, for some schemas much longer, and what is compiled comes from clients. So the threads are
 * few and nice, the queue before them is bounded, requests for the same source share one compilation, and nobody waits
 * longer than the time limit. A compilation that runs over it cannot be stopped: it goes on, is reported, and another
 * thread takes its worker's place, up to a number; what comes of it late is kept like any other.
 *
 * Lock: one mutex for everything here; no grammar is compiled or freed under it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "text/shim.h"
#include "text/text.h"

enum {
    WORKERS = 2,   /* that compile within the time limit */
    LATE = 2,      /* that may be beyond it, each with another one in its place */
    NICE = 10,
    PREPARE_MS = 60000, /* the time limit while the vocabulary is indexed, before the first */
    ENTRIES = TEXT_LIMIT_GRAMMARS + TEXT_LIMIT_CHECKS + TEXT_LIMIT_GRAMMARS_WAITING + WORKERS + LATE
};

enum state { QUEUED, RUNNING, DONE, FAILED };

/* A source and what became of it. Freed by whoever takes the last of: its place in the table, its waiters, its worker. */
struct entry {
    struct grammar_source src; /* its texts are owned, behind the entry */
    enum state state;
    struct grammar *g; /* DONE: one reference */
    struct err err;    /* FAILED */
    uint64_t began;    /* nanoseconds: queued, then RUNNING since */
    uint64_t used;     /* the cache's clock at the last use */
    uint64_t order;    /* of arrival */
    unsigned holders;
    bool late;         /* runs beyond the limit */
};

struct grammar_cache {
    const struct tok *tok;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct entry *entries[ENTRIES];
    size_t n, queued, finished[2]; /* finished: grammars, and schemas that were only looked at */
    uint64_t clock;
    pthread_t threads[WORKERS + LATE];
    unsigned threads_n, late;
    bool ready; /* the vocabulary is indexed */
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

/* Compiles one entry; the lock is held before and after. */
static void compile(struct grammar_cache *c, struct entry *x)
{
    x->state = RUNNING;
    x->began = clock_ns();
    x->holders++;
    c->queued--;
    pthread_mutex_unlock(&c->lock);
    struct grammar *g = NULL;
    struct err err = {0};
    enum status st = grammar_new(&g, c->tok, &x->src, &err);
    pthread_mutex_lock(&c->lock);
    struct grammar *old = NULL;
    size_t i = find(c, x);
    if (st == ST_OK) {
        x->state = DONE;
        x->g = g;
        x->used = ++c->clock;
        if (++c->finished[x->src.check] > (x->src.check ? TEXT_LIMIT_CHECKS : TEXT_LIMIT_GRAMMARS))
            old = evict(c, x->src.check);
    } else {
        x->state = FAILED;
        x->err = err;
        take_out(c, i);
        x->holders--;
    }
    if (x->late)
        c->late--;
    struct grammar *mine = let_go(x);
    pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->lock);
    grammar_free(old);
    grammar_free(mine);
    pthread_mutex_lock(&c->lock);
}

static void *worker_main(void *arg)
{
    struct grammar_cache *c = arg;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    struct err err;
    if (text_prepare_grammars(c->tok, &err) != ST_OK)
        log_line(LOG_ERROR, "%s", err.text); /* and every grammar will say so */
    pthread_mutex_lock(&c->lock);
    if (!c->ready) {
        c->ready = true;
        for (size_t i = 0; i < c->n; i++)
            c->entries[i]->began = clock_ns();
        pthread_cond_broadcast(&c->done);
    }
    while (!c->stop) {
        struct entry *x = next_in_line(c);
        if (x)
            compile(c, x);
        else
            pthread_cond_wait(&c->work, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* One more thread, if there may be one; signals are for the program's own thread. Without it those that there are do
 * the work. Returns whether there is any. */
static bool more_threads(struct grammar_cache *c, unsigned most)
{
    sigset_t all, before;
    if (c->threads_n < most) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&c->threads[c->threads_n], NULL, worker_main, c) == 0)
            c->threads_n++;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return c->threads_n > 0;
}

enum status grammar_cache_new(struct grammar_cache **out, const struct tok *t, struct err *e)
{
    pthread_condattr_t attr;
    struct grammar_cache *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for the grammar cache");
    c->tok = t;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->done, &attr);
    pthread_condattr_destroy(&attr);
    *out = c;
    return ST_OK;
}

void grammar_cache_free(struct grammar_cache *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads_n; i++)
        pthread_join(c->threads[i], NULL);
    while (c->n) {
        struct entry *x = c->entries[c->n - 1];
        take_out(c, c->n - 1);
        grammar_free(let_go(x));
    }
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->done);
    pthread_mutex_destroy(&c->lock);
    free(c);
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
    if (c->queued >= TEXT_LIMIT_GRAMMARS_WAITING || c->n == ENTRIES) {
        err_set(e, ST_BUSY, "grammar", "%zu grammars wait to be compiled", c->queued);
        if (e)
            e->retry_after = 1;
        return ST_BUSY;
    }
    if (!more_threads(c, WORKERS + c->late))
        return err_set(e, ST_NO_MEMORY, "grammar", "no thread to compile a grammar");
    struct entry *x = entry_new(src);
    if (!x)
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for the grammar");
    x->state = QUEUED;
    x->began = clock_ns();
    x->order = x->used = ++c->clock;
    x->holders = 2;
    c->entries[c->n++] = x;
    c->queued++;
    pthread_cond_signal(&c->work);
    *out = x;
    return ST_OK;
}

/* The time limit has passed for a waiter. */
static enum status too_late(struct grammar_cache *c, struct entry *x, struct err *e)
{
    if (x->state == QUEUED) {
        err_set(e, ST_BUSY, "grammar", "the grammar waited %u ms to be compiled", TEXT_LIMIT_GRAMMAR_MS);
        if (e)
            e->retry_after = 1;
        return ST_BUSY;
    }
    if (!x->late) {
        x->late = true;
        c->late++;
        log_line(LOG_ERROR, "a grammar of %zu bytes takes longer than %u ms to compile; %u such now", x->src.n,
                 TEXT_LIMIT_GRAMMAR_MS, c->late);
        more_threads(c, WORKERS + (c->late < LATE ? c->late : LATE));
    }
    return err_set(e, ST_TOO_LONG, "grammar", "compiling the grammar takes longer than %u ms", TEXT_LIMIT_GRAMMAR_MS);
}

static enum status wait_for(struct grammar_cache *c, struct entry *x, struct err *e)
{
    while (x->state == QUEUED || x->state == RUNNING) {
        uint64_t until = x->began + (c->ready ? TEXT_LIMIT_GRAMMAR_MS : PREPARE_MS) * 1000000ull;
        if (clock_ns() >= until)
            return too_late(c, x, e);
        struct timespec at = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
        pthread_cond_timedwait(&c->done, &c->lock, &at);
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
