/* server_fake_facts: what the engine below a real server says of itself. */
#ifndef TESTS_SERVER_FAKE_FACTS_H
#define TESTS_SERVER_FAKE_FACTS_H

#include <sys/eventfd.h>

#include "engine/engine.h"

/* Of vectors, which are three numbers: the first id, how many ids there are, and the last. */
static enum model_pooling fake_pooling;
static uint32_t fake_context = 3;
static uint32_t fake_numbers = 3; /* of a vector; there are three */

uint32_t engine_context(const struct engine *en)
{
    (void)en;
    return fake_context;
}

enum model_pooling engine_pooling(const struct engine *en)
{
    (void)en;
    return fake_pooling;
}

uint32_t engine_vector_size(const struct engine *en)
{
    (void)en;
    return fake_pooling ? fake_numbers : 0;
}

const char *finish_name(enum finish f)
{
    return f == FINISH_STOP ? "stop" : f == FINISH_LENGTH ? "length" : "error";
}

const char *cache_miss_name(enum cache_miss m)
{
    return m == MISS_DIFFERS ? "text differs" : "none";
}

/* What the scripts say is there when they are asked, so nothing is ever rung. */
void engine_share(struct engine *en, request_id id, bool shared)
{
    (void)en;
    (void)id;
    (void)shared;
}

int engine_shared_fd(const struct engine *en)
{
    static int fd = -1;
    (void)en;
    if (fd < 0)
        fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return fd;
}

#endif
