/* temperature: fixed, or chosen by the entropy of what is left. See inside.h. */
#include "sample/inside.h"

/*
 * Dynamic temperature: with h = entropy / ln(number of candidates), from 0 (certain) to 1 (uniform),
 *
 *     T = lowest + (highest - lowest) × h^exponent,    lowest, highest = temperature ± range, at least 0
 */
static float dynamic(struct sampler *s)
{
    const struct sample_params *p = s->p;
    uint32_t n;
    double entropy = sample_kept_entropy(s, &n);
    if (n < 2)
        return p->temperature;
    double lowest = (double)p->temperature - (double)p->dynatemp_range;
    double highest = (double)p->temperature + (double)p->dynatemp_range;
    lowest = lowest > 0 ? lowest : 0;
    double h = entropy / math_log((double)n), exponent = (double)p->dynatemp_exponent;
    h = h > 1 ? 1 : h > 0 ? h : 0;
    if (exponent != 0 && h > 0) {
        double x = exponent * math_log(h);
        h = x > -700 ? math_exp(x) : 0;
    } else if (exponent == 0) {
        h = 1;
    }
    return (float)(lowest + (highest - lowest) * h);
}

void sample_temperature(struct sampler *s)
{
    struct order *o = &s->order;
    float t = s->p->dynatemp_range > 0.0f ? dynamic(s) : s->p->temperature;
    /* The first that is left may lie far below the largest logit, where a low temperature would round it to nothing. */
    uint32_t first = s->kept.first ? sample_kept_next(s, s->kept.lo) : 0;
    if (t == 0.0f) {
        first = sample_kept_next(s, s->kept.lo);
        sample_kept_cut(s, first, first + 1);
        return;
    }
    float base = s->kept.first ? o->logits[order_id(o, first)] : o->max;
    if (t == o->temperature && base == o->base)
        return;
    order_weigh(o, base, t);
    s->kept.mass = -1;
}
