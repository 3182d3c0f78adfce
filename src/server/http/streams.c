/* streams: see streams.h. */
#include "server/http/streams.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/private.h"
#include "server/limits.h"

#define BATCH 16     /* descriptors' events taken at a time */
#define LOOK_MS 1000 /* how often silent streams are looked for */
#define LOOK_NS (LOOK_MS * 1000000ull)
#define KEPT (64u << 10) /* bytes of the buffer for chunks that stay between two turns */

/* A call that was handed over; on the stack of its own thread, which waits. */
struct seat {
    struct http_call *call;
    int socket;
    uint64_t due; /* clock_ns() from which on it has been silent for long; 0 = never */
    bool ok;      /* `fill` went well */
    sem_t done;
    struct seat *prev, *next;
};

struct http_streams {
    pthread_t thread;
    int epoll, news_fd;
    http_sent *sent;
    uint64_t now;         /* the thread's: clock_ns() of its latest turn, */
    struct buf chunk;     /* what it sends, */
    bool more;            /* and whether a stream may have more than was sent of it */
    pthread_mutex_t lock; /* over what follows, and over taking and giving up seats; a `fill` may run under it */
    struct seat *first;
    bool stopped;
};

/* ---- seats ---- */

static uint64_t silent_until(const struct http_call *call, uint64_t now)
{
    return call->quiet_ms ? now + (uint64_t)call->quiet_ms * 1000000u : 0;
}

static bool watch(const struct http_streams *s, int fd, uint32_t events, void *ptr)
{
    struct epoll_event ev = {.events = events, .data.ptr = ptr};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* Asks for what is new. False: nothing is, and it is to be asked again. */
static bool ask(struct seat *at)
{
    struct http_call *call = at->call;
    at->ok = call->fill(call, &call->ended) && !call->out.failed;
    return !at->ok || call->ended || call->out.len;
}

/* News that rang before the thread could see the seat is found here; later one finds the seat. Without memory to watch the
 * socket, too, a client that left is noticed when it is sent something. */
static bool take_seat(struct http_streams *s, struct seat *at)
{
    pthread_mutex_lock(&s->lock);
    const bool taken = !s->stopped && !ask(at);
    if (taken) {
        (void)watch(s, at->socket, EPOLLRDHUP, at);
        at->next = s->first;
        if (s->first)
            s->first->prev = at;
        s->first = at;
    }
    pthread_mutex_unlock(&s->lock);
    return taken;
}

/* With the lock held. The seat is gone afterwards. */
static void leave_seat(struct http_streams *s, struct seat *at)
{
    (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, at->socket, NULL);
    if (at->next)
        at->next->prev = at->prev;
    if (at->prev)
        at->prev->next = at->next;
    else
        s->first = at->next;
    sem_post(&at->done);
}

static void give_back(struct http_streams *s, struct seat *at)
{
    pthread_mutex_lock(&s->lock);
    leave_seat(s, at);
    pthread_mutex_unlock(&s->lock);
}

/* ---- the thread ---- */

/* The line before a chunk of n bytes: printf() takes much longer. */
static void add_size(struct buf *to, size_t n)
{
    char line[HTTP_FRAME], *at = line + sizeof line;
    *--at = '\n';
    *--at = '\r';
    do {
        *--at = "0123456789ABCDEF"[n % 16];
    } while (n /= 16);
    buf_add(to, at, (size_t)(line + sizeof line - at));
}

/* Sends call->out as a chunk. False: the socket does not take all of it. */
static bool send_chunk(struct http_streams *s, const struct seat *at)
{
    struct http_call *call = at->call;
    buf_clear(&s->chunk);
    add_size(&s->chunk, call->out.len);
    buf_add(&s->chunk, call->out.data, call->out.len);
    buf_adds(&s->chunk, "\r\n");
    if (s->chunk.failed)
        return false;
    const ssize_t n = send(at->socket, s->chunk.data, s->chunk.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0)
        return false;
    if (s->sent)
        s->sent(call, call->out.data, call->out.len);
    buf_clear(&call->out);
    if ((size_t)n == s->chunk.len)
        return true;
    buf_add(&call->rest, s->chunk.data + n, s->chunk.len - (size_t)n);
    return false;
}

/* False: it is the turn of the call's own thread. */
static bool go_on(struct http_streams *s, struct seat *at)
{
    struct http_call *call = at->call;
    if (!ask(at))
        return true;
    const bool all = call->out.len < HTTP_ENOUGH;
    if (!at->ok || call->ended || !send_chunk(s, at))
        return false;
    at->due = silent_until(call, s->now);
    s->more = s->more || !all;
    return true;
}

/* Nobody but this thread takes seats out of the list, and others add to its head, so that it can be walked without the
 * lock. The descriptor is reset first: what comes during the walk rings again. */
static void ask_all(struct http_streams *s)
{
    uint64_t count;
    while (read(s->news_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    s->more = false;
    pthread_mutex_lock(&s->lock);
    struct seat *at = s->first, *next;
    pthread_mutex_unlock(&s->lock);
    for (; at; at = next) {
        next = at->next;
        if (!go_on(s, at))
            give_back(s, at);
    }
}

/* False: the server stops. Sockets come first: ask_all() may give back seats that their events name. */
static bool see_to(struct http_streams *s, const struct epoll_event *ev, int n)
{
    bool news = s->more;
    for (int i = 0; i < n; i++) {
        if (!ev[i].data.ptr)
            return false;
        if (ev[i].data.ptr == s)
            news = true;
        else
            give_back(s, ev[i].data.ptr);
    }
    if (news)
        ask_all(s);
    return true;
}

static void give_back_silent(struct http_streams *s)
{
    pthread_mutex_lock(&s->lock);
    for (struct seat *at = s->first, *next; at; at = next) {
        next = at->next;
        if (!at->due || at->due > s->now)
            continue;
        at->call->overdue = true;
        leave_seat(s, at);
    }
    pthread_mutex_unlock(&s->lock);
}

static void give_back_all(struct http_streams *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    while (s->first)
        leave_seat(s, s->first);
    pthread_mutex_unlock(&s->lock);
}

static void *streams_main(void *arg)
{
    struct http_streams *s = arg;
    struct epoll_event ev[BATCH];
    uint64_t looked = 0;
    pthread_setname_np(pthread_self(), "ffwd-streams");
    for (;;) {
        const int n = epoll_wait(s->epoll, ev, BATCH, s->more ? 0 : LOOK_MS);
        if (n < 0 && errno != EINTR)
            BUG("the descriptors of streams cannot be waited for");
        s->now = clock_ns();
        if (!see_to(s, ev, n))
            break;
        if (s->chunk.cap > KEPT)
            buf_release(&s->chunk);
        if (s->now - looked < LOOK_NS)
            continue;
        give_back_silent(s);
        looked = s->now;
    }
    give_back_all(s);
    return NULL;
}

/* ---- from outside ---- */

enum status http_streams_new(struct http_streams **out, int stop_fd, int news_fd, http_sent *sent, struct err *e)
{
    *out = NULL;
    struct http_streams *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the table of streams");
    s->sent = sent;
    s->news_fd = news_fd;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    buf_init(&s->chunk, HTTP_CHUNK);
    pthread_mutex_init(&s->lock, NULL);
    if (s->epoll >= 0 && watch(s, stop_fd, EPOLLIN, NULL) && watch(s, news_fd, EPOLLIN, s) &&
        pthread_create(&s->thread, NULL, streams_main, s) == 0) {
        *out = s;
        return ST_OK;
    }
    if (s->epoll >= 0)
        close(s->epoll);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return err_set(e, ST_IO, "", "cannot start the thread that sends streams");
}

void http_streams_free(struct http_streams *s)
{
    if (!s)
        return;
    pthread_join(s->thread, NULL);
    close(s->epoll);
    buf_release(&s->chunk);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool http_streams_serve(struct http_streams *s, struct http_call *call)
{
    call->handed_over = true;
    call->overdue = false; /* of a silence that news ended before anybody waited */
    struct seat at = {.call = call, .socket = http_socket(call), .due = silent_until(call, clock_ns())};
    sem_init(&at.done, 0, 0);
    if (!ask(&at) && take_seat(s, &at))
        while (sem_wait(&at.done) != 0)
            ;
    sem_destroy(&at.done);
    call->handed_over = false;
    return at.ok;
}
