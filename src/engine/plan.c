/* plan: see plan.h. */
#include "engine/plan.h"

static struct plan_feature refuse(const char *why)
{
    return (struct plan_feature){.on = false, .why = why};
}

struct plan plan_make(const struct plan_facts *f, const struct plan_means *m)
{
    const struct plan_feature on = {.on = true};
    struct plan p = {.ns = f->ns, .match = on, .publish = on};
    if (!m->prefix_cache)
        p.match = p.publish = refuse("the server keeps no prefixes");
    else if (f->no_prefix_cache)
        p.match = p.publish = refuse("the request asked for none");
    else if (f->prompt_logprobs)
        p.match = refuse("log-probabilities of the prompt need every position computed");
    return p;
}

enum plan_admission plan_admit(const struct plan_room *r)
{
    if (r->whole > r->all)
        return PLAN_NEVER;
    return r->alone || r->need <= r->free ? PLAN_RUN : PLAN_WAIT;
}
