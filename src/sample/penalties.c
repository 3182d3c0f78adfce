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
 * for negative logits). Then presence is taken off once, and frequency for each time an id occurred, each within its own
 * window. */
enum penalty { PENALTY_REPETITION, PENALTY_PRESENCE, PENALTY_FREQUENCY };

static float penalised(const struct sample_params *p, enum penalty kind, float x, uint32_t times)
{
    switch (kind) {
    case PENALTY_REPETITION:
        return x > 0 ? x / p->repetition_penalty : x * p->repetition_penalty;
    case PENALTY_PRESENCE:
        return x - p->presence_penalty;
    default:
        return x - p->frequency_penalty * (float)times;
    }
}

/* One penalty on each id that occurs in the last `window` of the history; 0 = all of it. */
static void penalise(struct sampler *s, enum penalty kind, uint32_t window, const tok_id *history, size_t n)
{
    if (window && n > window) {
        history += n - window;
        n = window;
    }
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)history[i] < s->vocab)
            s->count[(uint32_t)history[i]]++;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)history[i];
        if (id >= s->vocab || !s->count[id])
            continue; /* done when it was met first */
        if (s->logits[id] > -INFINITY)
            s->logits[id] = sample_clamp(penalised(s->p, kind, s->logits[id], s->count[id]));
        s->count[id] = 0;
    }
}

void sample_penalise(struct sampler *s, const tok_id *history, size_t n)
{
    const struct sample_params *p = s->p;
    if (p->repetition_penalty != 1.0f)
        penalise(s, PENALTY_REPETITION, p->penalty_last, history, n);
    if (p->presence_penalty != 0.0f)
        penalise(s, PENALTY_PRESENCE, p->presence_last ? p->presence_last : p->penalty_last, history, n);
    if (p->frequency_penalty != 0.0f)
        penalise(s, PENALTY_FREQUENCY, p->frequency_last ? p->frequency_last : p->penalty_last, history, n);
}
