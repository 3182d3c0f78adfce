/* keeper: see keeper.h. */
#include "server/http/keeper.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "server/limits.h"

struct http_keeper_slot {
    int fd;            /* -1 = free */
    uint64_t deadline; /* clock_ns(); 0 = none */
};

struct http_keeper {
    pthread_t thread;
    pthread_mutex_t lock; /* over everything below; held for a pass over the table at most */
    pthread_cond_t wake;
    bool stop;
    struct http_keeper_slot slots[LIMIT_CONNECTIONS + 16]; /* some more: closed ones are given back a little late */
};

#define SLOTS (sizeof ((struct http_keeper *)0)->slots / sizeof(struct http_keeper_slot))

static void shut_late(struct http_keeper *k)
{
    uint64_t now = clock_ns();
    for (size_t i = 0; i < SLOTS; i++) {
        struct http_keeper_slot *s = &k->slots[i];
        if (s->fd >= 0 && s->deadline && s->deadline <= now) {
            shutdown(s->fd, SHUT_RDWR);
            s->deadline = 0;
        }
    }
}

static void *keep(void *arg)
{
    struct http_keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->stop) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec++;
        pthread_cond_timedwait(&k->wake, &k->lock, &at);
        shut_late(k);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

enum status http_keeper_new(struct http_keeper **out, struct err *e)
{
    *out = NULL;
    struct http_keeper *k = calloc(1, sizeof *k);
    if (!k)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the table of connections");
    for (size_t i = 0; i < SLOTS; i++)
        k->slots[i].fd = -1;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&k->lock, NULL);
    if (pthread_create(&k->thread, NULL, keep, k) != 0) {
        pthread_mutex_destroy(&k->lock);
        pthread_cond_destroy(&k->wake);
        free(k);
        return err_set(e, ST_NO_MEMORY, "", "cannot start the thread that watches connections");
    }
    *out = k;
    return ST_OK;
}

void http_keeper_free(struct http_keeper *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->wake);
    free(k);
}

struct http_keeper_slot *http_keeper_take(struct http_keeper *k, int fd)
{
    struct http_keeper_slot *found = NULL;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < SLOTS && !found; i++)
        if (k->slots[i].fd < 0)
            found = &k->slots[i];
    if (found)
        *found = (struct http_keeper_slot){.fd = fd};
    pthread_mutex_unlock(&k->lock);
    return found;
}

void http_keeper_give(struct http_keeper *k, struct http_keeper_slot *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&k->lock);
    s->fd = -1;
    pthread_mutex_unlock(&k->lock);
}

void http_keeper_deadline(struct http_keeper *k, struct http_keeper_slot *s, uint32_t seconds)
{
    if (!s)
        return;
    uint64_t at = seconds ? clock_ns() + (uint64_t)seconds * 1000000000u : 0;
    pthread_mutex_lock(&k->lock);
    s->deadline = at;
    pthread_mutex_unlock(&k->lock);
}
