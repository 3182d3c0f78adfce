/* kept: sums over what is left of the candidates. See inside.h. */
#include <math.h>

#include "sample/inside.h"

#define LEAST (-1000.0f) /* exp is 0 from -104 on; keeps -inf out of exp_sum() */

static bool is_kept(const struct sampler *s, uint32_t i)
{
    return i >= s->kept.first || sample_set_has(&s->p->protect, (uint32_t)order_id(&s->order, i));
}

uint32_t sample_kept_next(struct sampler *s, uint32_t i)
{
    for (; i < s->kept.n && order_reach(&s->order, i + 1) == i + 1; i++)
        if (is_kept(s, i))
            return i;
    return s->kept.n;
}

uint32_t sample_kept_before(const struct sampler *s, uint32_t i)
{
    do {
        i--;
    } while (!is_kept(s, i));
    return i;
}

void sample_kept_cut(struct sampler *s, uint32_t lo, uint32_t n)
{
    struct kept *k = &s->kept;
    k->lo = lo;
    if (k->first < lo)
        k->first = lo;
    k->n = n;
    k->mass = -1;
}

static bool whole(const struct sampler *s)
{
    return s->kept.n == s->vocab;
}

/* Exponents by id in s->scaled, -inf for what is banned or was removed at the upper end. */
static void stage(struct sampler *s)
{
    const struct order *o = &s->order;
    for (uint32_t i = 0; i < s->vocab; i++)
        s->scaled[i] = (o->logits[i] - o->base) / o->temperature;
    for (uint32_t i = 0; i < s->kept.first; i++)
        if (i < s->kept.lo || !is_kept(s, i))
            s->scaled[order_id(o, i)] = -INFINITY;
}

static double whole_mass(struct sampler *s)
{
    const struct order *o = &s->order;
    if (o->temperature == 1.0f && !s->kept.first && !s->banned)
        return (double)s->ops->exp_sum(o->logits, s->vocab, o->base);
    stage(s);
    for (uint32_t i = 0; i < s->vocab; i++)
        s->scaled[i] = s->scaled[i] > LEAST ? s->scaled[i] : LEAST;
    return (double)s->ops->exp_sum(s->scaled, s->vocab, 0.0f);
}

double sample_kept_mass(struct sampler *s)
{
    struct kept *k = &s->kept;
    if (k->mass >= 0)
        return k->mass;
    double mass = 0;
    if (whole(s))
        mass = whole_mass(s);
    else
        for (uint32_t i = sample_kept_next(s, k->lo); i < k->n; i = sample_kept_next(s, i + 1))
            mass += (double)s->order.weight[i];
    return k->mass = mass;
}

/* With weights w = exp x and their mass m: H = ln m - sum of w x / m. */
double sample_kept_entropy(struct sampler *s, uint32_t *n)
{
    double mass = sample_kept_mass(s), sum = 0;
    const struct order *o = &s->order;
    *n = 0;
    if (whole(s)) {
        stage(s);
        for (uint32_t i = 0; i < s->vocab; i++) {
            float x = s->scaled[i];
            *n += x > -INFINITY;
            if (x > ORDER_NOTHING)
                sum += (double)kern_exp(x) * (double)x;
        }
    } else {
        for (uint32_t i = sample_kept_next(s, s->kept.lo); i < s->kept.n; i = sample_kept_next(s, i + 1)) {
            float x = order_exponent(o, i);
            *n += x > -INFINITY;
            if (x > ORDER_NOTHING)
                sum += (double)o->weight[i] * (double)x;
        }
    }
    return math_log(mass) - sum / mass;
}

/* Exponents of what is left, by id, at the beginning of s->scaled; how many. */
static uint32_t gather(struct sampler *s)
{
    uint32_t n = 0;
    if (whole(s)) {
        stage(s);
        for (uint32_t i = 0; i < s->vocab; i++)
            if (s->scaled[i] > -INFINITY)
                s->scaled[n++] = s->scaled[i];
        return n;
    }
    for (uint32_t i = sample_kept_next(s, s->kept.lo); i < s->kept.n; i = sample_kept_next(s, i + 1)) {
        float x = order_exponent(&s->order, i);
        if (x > -INFINITY)
            s->scaled[n++] = x;
    }
    return n;
}

double sample_kept_deviation(struct sampler *s)
{
    uint32_t n = gather(s);
    double mean = 0, sum = 0;
    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        mean += (double)s->scaled[i];
    mean /= n;
    for (uint32_t i = 0; i < n; i++)
        sum += ((double)s->scaled[i] - mean) * ((double)s->scaled[i] - mean);
    return sqrt(sum / n);
}
