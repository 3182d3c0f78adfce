/* notify: see notify.h. */
#include "engine/notify.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A full counter means that the descriptor is readable already. */
void notify_ring(int fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void *notify_main(void *arg)
{
    struct notify *n = arg;
    uint64_t count;
    while (!atomic_load(&n->stop)) {
        if (read(n->bell, &count, sizeof count) < 0 && errno != EINTR)
            BUG("the notifier's descriptor cannot be read");
        for (uint32_t w = 0; w < n->words; w++) {
            uint64_t bits = atomic_exchange(&n->news[w], 0);
            for (; bits; bits &= bits - 1)
                notify_ring(atomic_load(&n->slots->at[w * 64 + (uint32_t)__builtin_ctzll(bits)].fd));
        }
    }
    return NULL;
}

int notify_thread(pthread_t *t, void *(*thread_main)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(t, NULL, thread_main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

enum status notify_init(struct notify *n, struct slot_table *slots, struct err *e)
{
    n->slots = slots;
    n->words = (slots->n + 63) / 64;
    n->news = calloc(n->words, sizeof *n->news);
    if (!n->news)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the notifier");
    n->bell = eventfd(0, EFD_CLOEXEC);
    n->shared = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->bell < 0 || n->shared < 0)
        return err_errno(e, ST_IO, "", "cannot make a descriptor for the notifier");
    int rc = notify_thread(&n->thread, notify_main, n);
    if (rc) {
        errno = rc;
        return err_errno(e, ST_NO_MEMORY, "", "cannot start the notifier");
    }
    n->started = true;
    return ST_OK;
}

void notify_release(struct notify *n)
{
    if (n->started) {
        atomic_store(&n->stop, true);
        notify_ring(n->bell);
        pthread_join(n->thread, NULL);
        n->started = false;
    }
    if (n->bell >= 0)
        close(n->bell);
    if (n->shared >= 0)
        close(n->shared);
    n->bell = n->shared = -1;
    free(n->news);
    n->news = NULL;
}

/* The news was published before this looks at `shared`, and whoever changes that looks for news afterwards: one of the two
 * sees the other. */
void notify_mark(struct notify *n, uint32_t slot)
{
    if (atomic_load(&n->slots->at[slot].shared)) {
        n->marked_shared = true;
        return;
    }
    atomic_fetch_or(&n->news[slot / 64], 1ull << slot % 64);
    n->marked = true;
}

void notify_flush(struct notify *n)
{
    if (n->marked_shared)
        notify_ring(n->shared);
    if (n->marked)
        notify_ring(n->bell);
    n->marked = n->marked_shared = false;
}
