/* nice: see nice.h. */
#include "base/nice.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE 10

struct nice_call {
    void (*fn)(void *ctx);
    void *ctx;
};

void nice_thread(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}

static void *thread_main(void *arg)
{
    const struct nice_call *c = arg;
    nice_thread();
    c->fn(c->ctx);
    return NULL;
}

void nice_run(void (*fn)(void *ctx), void *ctx)
{
    struct nice_call c = {fn, ctx};
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, &c) == 0)
        pthread_join(thread, NULL);
    else
        fn(ctx);
}
