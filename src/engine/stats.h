/*
 * stats: what the engine counts. Written by its thread (refused: by clients), read by any; every counter is right by
 * itself, together they are a picture of about the same time.
 */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include <stdatomic.h>

#include "engine/engine.h"

enum stat_counter {
    STAT_PROMPT, STAT_CACHED, STAT_COMPLETION, STAT_QUERIES, STAT_HITS, STAT_PREEMPTIONS, STAT_REFUSED, STAT_STEPS,
    STAT_FORWARD_NS, STAT_HEAD_NS, STAT_SAMPLE_NS, STAT_PROPOSE_NS,
    STAT_OTHER_NS, STAT_COUNTERS
};

enum stat_time { STAT_QUEUE, STAT_TTFT, STAT_ITL, STAT_E2E, STAT_STEP, STAT_OVERHEAD, STAT_TIMES };

struct stats {
    _Atomic uint64_t counter[STAT_COUNTERS];
    _Atomic uint64_t finished[FINISH_CANCELLED + 1];
    _Atomic uint64_t count[STAT_TIMES][STAT_BUCKETS];
    _Atomic uint64_t sum_ns[STAT_TIMES];
    _Atomic uint64_t source[SOURCE_KINDS][4]; /* proposed, accepted, rejected, asserted */
};

/* What sources did for a request that ended. */
void stats_source(struct stats *s, enum source_kind k, const struct source_counts *c);

void stats_add(struct stats *s, enum stat_counter c, uint64_t n);
void stats_time(struct stats *s, enum stat_time t, double seconds);

/* Time that went into forward passes, heads, choosing and asking sources. */
uint64_t stats_busy_ns(const struct stats *s);
void stats_finished(struct stats *s, enum finish f);

#endif
