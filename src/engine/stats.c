/* stats: see stats.h. */
#include "engine/stats.h"

#include "engine/inside.h"

/* Upper bounds in seconds, those that dashboards for servers of this kind are made for. */
static const double waits[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25, 0.5,
                               0.75,  1,     2.5,  5,    7.5,  10,   20,   40,   80};
static const double gaps[] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.075,
                              0.1,   0.15,   0.2,   0.3,  0.5,  0.75, 1,    2.5};
static const double lives[] = {0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 60, 120, 240, 480, 960};

static const double moments[] = {5e-6,  10e-6,  20e-6,  30e-6,  40e-6, 50e-6, 60e-6, 80e-6, 100e-6,
                                 125e-6, 150e-6, 200e-6, 300e-6, 500e-6, 1e-3,  2e-3,  5e-3,  10e-3};

static const struct {
    const double *bound;
    uint32_t n;
} scales[STAT_TIMES] = {
    [STAT_QUEUE] = {waits, sizeof waits / sizeof *waits}, [STAT_TTFT] = {waits, sizeof waits / sizeof *waits},
    [STAT_ITL] = {gaps, sizeof gaps / sizeof *gaps},      [STAT_E2E] = {lives, sizeof lives / sizeof *lives},
    [STAT_STEP] = {gaps, sizeof gaps / sizeof *gaps},     [STAT_OVERHEAD] = {moments, sizeof moments / sizeof *moments},
};
_Static_assert(sizeof waits / sizeof *waits < STAT_BUCKETS && sizeof lives / sizeof *lives < STAT_BUCKETS,
               "one bucket is for what lies above all bounds");

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void stats_add(struct stats *s, enum stat_counter c, uint64_t n)
{
    add(&s->counter[c], n);
}

void stats_time(struct stats *s, enum stat_time t, double seconds)
{
    uint32_t i = 0;
    while (i < scales[t].n && seconds > scales[t].bound[i])
        i++;
    add(&s->count[t][i], 1);
    add(&s->sum_ns[t], seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
}

void stats_source(struct stats *s, enum source_kind k, const struct source_counts *c)
{
    add(&s->source[k][0], c->proposed);
    add(&s->source[k][1], c->accepted);
    add(&s->source[k][2], c->rejected);
    add(&s->source[k][3], c->asserted);
}

void stats_finished(struct stats *s, enum finish f)
{
    add(&s->finished[f], 1);
}

uint64_t stats_busy_ns(const struct stats *s)
{
    return get(&s->counter[STAT_FORWARD_NS]) + get(&s->counter[STAT_HEAD_NS]) + get(&s->counter[STAT_SAMPLE_NS]) +
           get(&s->counter[STAT_PROPOSE_NS]);
}

static struct engine_histogram histogram(const struct stats *s, enum stat_time t)
{
    struct engine_histogram h = {.bound = scales[t].bound, .n = scales[t].n, .sum = (double)get(&s->sum_ns[t]) * 1e-9};
    for (uint32_t i = 0; i < STAT_BUCKETS; i++)
        h.count[i] = get(&s->count[t][i]);
    return h;
}

void engine_stats(struct engine *en, struct engine_stats *out)
{
    const struct stats *s = &en->stats;
    *out = (struct engine_stats){
        .prompt_tokens = get(&s->counter[STAT_PROMPT]),
        .cached_tokens = get(&s->counter[STAT_CACHED]),
        .completion_tokens = get(&s->counter[STAT_COMPLETION]),
        .cache_queries = get(&s->counter[STAT_QUERIES]),
        .cache_hits = get(&s->counter[STAT_HITS]),
        .preemptions = get(&s->counter[STAT_PREEMPTIONS]),
        .refused = get(&s->counter[STAT_REFUSED]),
        .steps = get(&s->counter[STAT_STEPS]),
        .forward_s = (double)get(&s->counter[STAT_FORWARD_NS]) * 1e-9,
        .head_s = (double)get(&s->counter[STAT_HEAD_NS]) * 1e-9,
        .sample_s = (double)get(&s->counter[STAT_SAMPLE_NS]) * 1e-9,
        .propose_s = (double)get(&s->counter[STAT_PROPOSE_NS]) * 1e-9,
        .other_s = (double)get(&s->counter[STAT_OTHER_NS]) * 1e-9,
        .queue = histogram(s, STAT_QUEUE),
        .ttft = histogram(s, STAT_TTFT),
        .itl = histogram(s, STAT_ITL),
        .e2e = histogram(s, STAT_E2E),
        .step = histogram(s, STAT_STEP),
        .overhead = histogram(s, STAT_OVERHEAD),
    };
    for (int f = 0; f <= FINISH_CANCELLED; f++)
        out->finished[f] = get(&s->finished[f]);
    for (int k = 0; k < SOURCE_KINDS; k++)
        out->by_source[k] = (struct source_counts){get(&s->source[k][0]), get(&s->source[k][1]),
                                                   get(&s->source[k][2]), get(&s->source[k][3])};
}
