/* watch: see watch.h. */
#include "watch.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* The whole prompt is compared: a slot holds the ids of the request before it behind a shorter prompt, but no other
 * prompt of the tests is a beginning of the watched one. */
static bool is_watched(const struct watch *w, const struct model_span *s)
{
    return !memcmp(s->ids - s->seq->len, w->prompt, w->prompt_n * sizeof *w->prompt);
}

static bool was_used(const struct watch *w, const void *p)
{
    uint32_t i = 0;
    while (i < w->used_n && w->used[i] != p)
        i++;
    return i < w->used_n;
}

static void remember(struct watch *w, const void *p)
{
    if (was_used(w, p))
        return;
    if (w->used_n == WATCH_ROWS)
        BUG("more than %u slots and sequences", WATCH_ROWS);
    w->used[w->used_n++] = p;
}

static void see_watched(struct watch *w, const struct model_span *s, uint32_t rows)
{
    uint32_t len = s->seq->len, end = len + s->n;
    if (!w->high) {
        w->old_slot = was_used(w, s->ids - len);
        w->old_seq = was_used(w, s->seq);
    } else if (w->away) {
        w->returns++;
        w->kept = len;
    }
    w->away = 0;
    w->again += w->high > len ? (w->high < end ? w->high : end) - len : 0;
    w->high = end > w->high ? end : w->high;
    w->longest = s->n > w->longest ? s->n : w->longest;
    w->beside = rows - 1 > w->beside ? rows - 1 : w->beside;
}

static void see(struct watch *w, const struct model_span *spans, uint32_t n)
{
    bool here = false;
    uint32_t first = 0;
    for (uint32_t i = 0; i < n; first += spans[i++].n) {
        const struct model_span *s = &spans[i];
        bool watched = is_watched(w, s);
        w->span[i].first = first;
        w->span[i].n = s->n;
        w->span[i].position = s->seq->len;
        w->span[i].ids = s->ids - s->seq->len;
        w->span[i].watched = watched;
        here |= watched;
        if (watched) {
            see_watched(w, s, n);
        } else {
            remember(w, s->ids - s->seq->len);
            remember(w, s->seq);
        }
    }
    w->spans = n;
    w->away += !here && w->high;
}

static bool is_time(struct watch *w)
{
    switch (w->stop) {
    case WATCH_STEP: return w->count-- == 0;
    case WATCH_CHOSEN: return w->heads >= w->count;
    case WATCH_AWAY: return w->away >= w->count;
    default: return false;
    }
}

static enum status prepare(void *ctx, struct pool *pool, uint32_t tokens, uint32_t context, struct err *e)
{
    struct watch *w = ctx;
    return w->real.prepare(w->real.ctx, pool, tokens, context, e);
}

static void forward(void *ctx, const struct model_span *spans, uint32_t n)
{
    struct watch *w = ctx;
    see(w, spans, n);
    if (is_time(w)) {
        w->stop = WATCH_NEVER;
        sem_post(&w->stopped);
        while (sem_wait(&w->go) && errno == EINTR)
            ;
    }
    w->real.forward(w->real.ctx, spans, n);
}

static void keep_hash(struct watch *w, const tok_id *ids, uint32_t position, const float *logits)
{
    uint64_t h = XXH3_64bits(logits, w->real.vocab * sizeof *logits);
    uint32_t i = position + 1 - w->prompt_n;
    if (position + 1 < w->prompt_n || i >= WATCH_TOKENS)
        BUG("a head at position %u", position);
    if (w->reply && memcmp(ids + w->prompt_n, w->reply, i * sizeof *ids))
        return; /* something wrong was proposed there */
    if (w->have[i]) {
        w->clashes += w->hash[i] != h;
        return;
    }
    w->have[i] = true;
    w->hash[i] = h;
    w->heads++;
}

static void head(void *ctx, const uint32_t *at, uint32_t n, float *out, struct kern_top *top)
{
    struct watch *w = ctx;
    w->real.head(w->real.ctx, at, n, out, top);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w->spans; s++)
            if (w->span[s].watched && at[i] - w->span[s].first < w->span[s].n)
                keep_hash(w, w->span[s].ids, w->span[s].position + at[i] - w->span[s].first,
                          out + (size_t)i * w->real.vocab);
}

static void release(void *ctx)
{
    struct watch *w = ctx;
    w->real.release(w->real.ctx);
}

/* --- using it -------------------------------------------------------------------------------------------------------- */

void watch_init(struct watch *w, const tok_id *prompt, uint32_t prompt_n)
{
    *w = (struct watch){.prompt = prompt, .prompt_n = prompt_n};
    sem_init(&w->stopped, 0, 0);
    sem_init(&w->go, 0, 0);
}

void watch_release(struct watch *w)
{
    sem_destroy(&w->stopped);
    sem_destroy(&w->go);
}

void watch_begin(struct watch *w)
{
    memset(w->have, 0, sizeof w->have);
    w->heads = w->clashes = w->high = w->again = w->longest = w->beside = w->away = w->returns = w->kept = 0;
    w->old_slot = w->old_seq = false;
}

struct engine_net watch_net(struct watch *w, const struct engine_net *real)
{
    struct engine_net net = *real;
    w->real = *real;
    net.ctx = w;
    net.prepare = prepare;
    net.forward = forward;
    net.head = head;
    net.release = release;
    return net;
}

bool watch_stopped(struct watch *w, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int rc;
    while ((rc = sem_timedwait(&w->stopped, &until)) && errno == EINTR)
        ;
    return rc == 0;
}

void watch_go(struct watch *w)
{
    sem_post(&w->go);
}
