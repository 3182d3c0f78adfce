/*
 * plan: what is decided about a request, once, from facts alone.
 *
 * Pure functions without a clock or an engine, so that the whole table of cases is a unit test. A feature is refused only
 * where it is impossible or was switched off, and says which.
 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include "engine/engine.h"

struct plan_facts {
    uint64_t ns;              /* of its salt */
    bool prompt_logprobs;     /* wants the distribution at every prompt position */
    bool no_prefix_cache;     /* the request asked for none */
    bool off;                 /* FILL_OFF */
    uint32_t sources_off;     /* the request switched them off: bits as in struct request */
    bool grammar, rows;       /* it has a grammar; its template determines something */
    bool pooled;              /* its vector is made of more states than the last */
    bool whole;               /* it is one span */
    bool nothing;             /* nothing is chosen: it ends with its prompt */
    bool logprobs;            /* of each token */
    bool needs_dist;          /* its sampler looks at the distribution even of ids that are certain */
};

struct plan_means {
    bool prefix_cache; /* the engine keeps one */
    uint32_t sources;  /* that the engine has: bit 1 << enum source_kind */
};

struct plan plan_make(const struct plan_facts *f, const struct plan_means *m);

/* KV blocks of the groups that keep everything. */
struct plan_room {
    uint64_t need;      /* for what the request has to feed now, and one more to go on with */
    uint64_t whole;     /* for prompt and max_tokens, where it names any; never more than all of them once it is queued */
    uint64_t free;      /* nobody's, or only the prefix cache's, minus what running rows still need for what they feed */
    uint64_t all;
    bool alone;         /* no other row runs */
};

enum plan_admission { PLAN_RUN, PLAN_WAIT, PLAN_NEVER };
enum plan_admission plan_admit(const struct plan_room *r);

#endif
