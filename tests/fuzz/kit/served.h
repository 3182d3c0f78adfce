/* served: a server for fuzzers over wire.h, with fakes below (unit/server_fake.h); included by one file of a program. */
#ifndef TESTS_FUZZ_SERVED_H
#define TESTS_FUZZ_SERVED_H

#include "unit/server_live.h"

#include "fuzz/kit/wire.h"

/* Once for a process. Its template thinks and has tools, whose calls are Hermes'. `log`: of requests; NULL = none. */
static inline void served_start(const char *log)
{
    static const char source[] = "{{ tools }} <tool_call> <think> </think>";
    static struct live l;
    struct err e;
    if (l.server)
        return;
    fake_init();
    log_set_level(LOG_SILENT);
    FUZZ_CHECK(chat_new(&l.chat, NULL, source, sizeof source - 1, &e) == ST_OK, "%s", e.text);
    struct server_config cfg = config(&l);
    cfg.request_log = log;
    start_with(&l, &cfg);
}

#endif
