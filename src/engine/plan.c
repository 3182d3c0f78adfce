/* plan: see plan.h. */
#include "engine/plan.h"

static struct plan_feature refuse(const char *why)
{
    return (struct plan_feature){.on = false, .why = why};
}

/* Why a source cannot serve a request, or NULL. */
static const char *why_not(const struct plan_facts *f, const struct plan_means *m, enum source_kind k)
{
    if (f->off)
        return "the request asked for one id a step";
    if (f->nothing)
        return "nothing is generated";
    if (f->sources_off & 1u << k)
        return "the request switched it off";
    if (!(m->sources & 1u << k))
        return k == SOURCE_DRAFT ? "the server has no draft model" : "the server has it switched off";
    if ((k == SOURCE_GRAMMAR || k == SOURCE_LIKELY) && !f->grammar)
        return "nothing constrains the reply";
    if (k == SOURCE_TEMPLATE && !f->rows)
        return "the chat template determines nothing: there are no tools, or it does not say how calls are written";
    return NULL;
}

static struct plan_feature skips_heads(const struct plan_facts *f)
{
    if (f->logprobs)
        return refuse("log-probabilities need the distribution at each position");
    if (f->needs_dist)
        return refuse("mirostat learns from the distribution at each position");
    return (struct plan_feature){.on = true};
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
    else if (f->whole)
        p.match = p.publish = refuse("keys and values depend on what follows them");
    else if (f->pooled)
        p.match = p.publish = refuse("the vector needs every position computed");
    p.skip_head = skips_heads(f);
    for (int k = 0; k < SOURCE_KINDS; k++) {
        const char *why = why_not(f, m, (enum source_kind)k);
        p.source[k] = why ? refuse(why) : on;
    }
    return p;
}

enum plan_admission plan_admit(const struct plan_room *r)
{
    if (r->whole > r->all)
        return PLAN_NEVER;
    return r->alone || r->need <= r->free ? PLAN_RUN : PLAN_WAIT;
}
