/*
 * cuts: the steps that remove candidates. Each keeps at least one, and each looks at what the steps before it left, at the
 * temperature that holds then. p is a weight over the mass of what is left.
 */
#include <math.h>

#include "sample/inside.h"

/* Logits not more than n standard deviations below the largest (Tang et al., "Top-nσ: not all logits are you need",
 * 2024). The ratio is the same at every temperature. */
void sample_top_n_sigma(struct sampler *s)
{
    const struct order *o = &s->order;
    double below = (double)s->p->top_n_sigma * sample_kept_deviation(s);
    uint32_t first = sample_kept_next(s, s->kept.lo), i = first;
    double least = (double)order_exponent(o, first) - below;
    while (i < s->kept.n && (double)order_exponent(o, i) >= least)
        i = sample_kept_next(s, i + 1);
    sample_kept_cut(s, s->kept.lo, i);
}

/* The shortest beginning whose mass reaches top_p (Holtzman et al., "The curious case of neural text degeneration",
 * 2019). */
void sample_top_p(struct sampler *s)
{
    double enough = (double)s->p->top_p * sample_kept_mass(s), mass = 0;
    const float *weight = s->order.weight;
    uint32_t i = sample_kept_next(s, s->kept.lo), n = i + 1;
    for (; i < s->kept.n && mass < enough; i = sample_kept_next(s, i + 1)) {
        if (weight[i] == 0.0f && mass > 0)
            break;
        mass += (double)weight[i];
        n = i + 1;
    }
    sample_kept_cut(s, s->kept.lo, n);
}

/* Candidates at least min_p times as likely as the first (Nguyen et al., "Turning up the heat: min-p sampling", 2024). */
void sample_min_p(struct sampler *s)
{
    const float *weight = s->order.weight;
    uint32_t i = sample_kept_next(s, s->kept.lo);
    float least = s->p->min_p * weight[i];
    while (i < s->kept.n && weight[i] >= least && weight[i] > 0.0f)
        i = sample_kept_next(s, i + 1);
    sample_kept_cut(s, s->kept.lo, i);
}

/* How far the surprise of candidate i, in nats, lies from the entropy. */
static double atypical(const struct sampler *s, uint32_t i, double middle)
{
    return fabs(-(double)order_exponent(&s->order, i) - middle);
}

/*
 * Locally typical sampling (Meister et al., 2022): the candidates whose surprise -ln p is nearest to the entropy, until
 * their mass reaches typical_p. Along the order the surprise only grows, so these lie around the place where it passes
 * the entropy: from there the nearer neighbour, above or below, is taken next; of two equally near the one above.
 */
void sample_typical(struct sampler *s)
{
    struct kept *k = &s->kept;
    const float *weight = s->order.weight;
    uint32_t n;
    double middle = sample_kept_entropy(s, &n) - math_log(sample_kept_mass(s));
    double enough = (double)s->p->typical_p * sample_kept_mass(s), mass = 0;
    uint32_t begin = sample_kept_next(s, k->lo), low = begin;
    while (low < k->n && -(double)order_exponent(&s->order, low) < middle)
        low = sample_kept_next(s, low + 1);
    /* Taken: ranks [high, low), so far none. */
    uint32_t high = low;
    while (mass < enough) {
        bool below = low < k->n && weight[low] > 0.0f, above = high > begin;
        if (!below && !above)
            break;
        if (above && below)
            above = atypical(s, sample_kept_before(s, high), middle) <= atypical(s, low, middle);
        if (above) {
            high = sample_kept_before(s, high);
            mass += (double)weight[high];
        } else {
            mass += (double)weight[low];
            low = sample_kept_next(s, low + 1);
        }
    }
    sample_kept_cut(s, high, low);
}

/*
 * Exclude top choices (p-e-w, text-generation-webui pull request 6335): with probability xtc_probability, of the
 * candidates that reach the threshold all but the least likely go. Protected ids stay.
 */
void sample_xtc(struct sampler *s)
{
    const struct sample_params *p = s->p;
    if (rng_uniform(p->seed, p->choice, s->position, RNG_XTC) >= p->xtc_probability)
        return;
    struct kept *k = &s->kept;
    const struct order *o = &s->order;
    double least = (double)p->xtc_threshold * sample_kept_mass(s);
    uint32_t last = k->n, found = 0;
    bool holes = false;
    for (uint32_t i = sample_kept_next(s, k->lo); i < k->n; i = sample_kept_next(s, i + 1)) {
        if ((double)o->weight[i] < least || o->weight[i] == 0.0f)
            break;
        holes = holes || (found && sample_set_has(&p->protect, (uint32_t)order_id(o, last)));
        last = i;
        found++;
    }
    if (found < 2)
        return;
    k->first = last;
    k->lo = holes ? k->lo : last;
    k->mass = -1;
}

void sample_top_k(struct sampler *s, uint32_t k)
{
    if (k >= s->kept.n)
        return;
    if (!s->kept.first) {
        sample_kept_cut(s, 0, order_reach(&s->order, k));
        return;
    }
    uint32_t end = s->kept.lo;
    for (uint32_t found = 0; end < s->kept.n && found < k; found++)
        end = sample_kept_next(s, end) + 1;
    if (end < s->kept.n)
        sample_kept_cut(s, s->kept.lo, end);
}
