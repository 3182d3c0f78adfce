/* penalties: bias, bans, and the three penalties on what has occurred. See inside.h. */
#include <math.h>

#include "sample/inside.h"

static void ban(struct sampler *s, uint32_t id)
{
    s->logits[id] = -INFINITY;
    s->banned = true;
}

void sample_add_bias(struct sampler *s)
{
    const struct sample_params *p = s->p;
    for (uint32_t i = 0; i < p->bias_n; i++) {
        uint32_t id = (uint32_t)p->bias[i].id;
        if (p->bias[i].bias <= SAMPLE_BAN)
            ban(s, id);
        else if (s->logits[id] > -INFINITY)
            s->logits[id] = sample_clamp(s->logits[id] + p->bias[i].bias);
    }
}

void sample_ban_ends(struct sampler *s)
{
    const struct sample_set *ends = &s->p->ends;
    for (uint32_t id = 0; id < ends->n && id < s->vocab; id++) {
        if (!ends->bits[id / 8])
            id |= 7; /* none of these eight */
        else if (sample_set_has(ends, id))
            ban(s, id);
    }
}

/* Repetition divides positive logits and multiplies negative ones (Keskar et al., "CTRL", 2019, with the usual correction
 * for negative logits), then
 *
 *     logit -= presence + frequency × times it occurred
 */
static void penalise_one(struct sampler *s, uint32_t id)
{
    const struct sample_params *p = s->p;
    float x = s->logits[id];
    if (!(x > -INFINITY))
        return;
    x = sample_clamp(x > 0 ? x / p->repetition_penalty : x * p->repetition_penalty);
    x = sample_clamp(x - p->presence_penalty);
    s->logits[id] = sample_clamp(x - p->frequency_penalty * (float)s->count[id]);
}

void sample_penalise(struct sampler *s, const tok_id *history, size_t n)
{
    const struct sample_params *p = s->p;
    if (p->penalty_last && n > p->penalty_last) {
        history += n - p->penalty_last;
        n = p->penalty_last;
    }
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)history[i] < s->vocab)
            s->count[(uint32_t)history[i]]++;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)history[i];
        if (id >= s->vocab || !s->count[id])
            continue; /* done when it was met first */
        penalise_one(s, id);
        s->count[id] = 0;
    }
}
