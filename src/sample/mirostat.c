/*
 * mirostat: a limit on surprise that follows what was chosen (Basu et al., "Mirostat: a neural text decoding algorithm
 * that directly controls perplexity", ICLR 2021).
 *
 * mu is the most surprise, in bits, that a candidate may have; it begins at 2 tau. Version 2 cuts there. Version 1
 * estimates the exponent of Zipf's law from the first candidates and cuts at the rank where it would be reached. After
 * each choice
 *
 *     mu -= eta × (surprise - tau),    surprise = -log2 p of what was chosen, before the cut
 */
#include "sample/inside.h"

#define LN2 0.69314718055994530942
#define LOOK 100u       /* candidates the exponent is estimated from */
#define LEAST_ZIPF 1e-3 /* a flat distribution */
#define MOST_ZIPF 40.0  /* keeps N^eps within double precision */

static void cut_at_surprise(struct sampler *s, double mu)
{
    const float *weight = s->order.weight;
    double x = -mu * LN2, least = x > -700 ? sample_kept_mass(s) * math_exp(x < 700 ? x : 700) : 0;
    uint32_t i = sample_kept_next(s, 0);
    do {
        i = sample_kept_next(s, i + 1);
    } while (i < s->kept.n && weight[i] > 0.0f && (double)weight[i] >= least);
    sample_kept_cut(s, 0, i);
}

/* Least squares through the origin: b[i] = ln(p[i] / p[i + 1]) over t[i] = ln((i + 2) / (i + 1)). */
static double estimate_zipf(struct sampler *s)
{
    const struct order *o = &s->order;
    uint32_t n = order_reach(&s->order, LOOK < s->vocab ? LOOK : s->vocab);
    double tb = 0, tt = 0;
    for (uint32_t i = 0; i + 1 < n && order_exponent(o, i + 1) > -1e30f; i++) {
        double t = math_log((double)(i + 2) / (double)(i + 1));
        tb += t * ((double)order_exponent(o, i) - (double)order_exponent(o, i + 1));
        tt += t * t;
    }
    double zipf = tt > 0 ? tb / tt : MOST_ZIPF;
    return zipf < LEAST_ZIPF ? LEAST_ZIPF : zipf > MOST_ZIPF ? MOST_ZIPF : zipf;
}

/* ln k = (ln(eps / (1 - N^-eps)) + mu ln 2) / zipf,    eps = zipf - 1, N candidates */
static void cut_at_rank(struct sampler *s, double mu)
{
    double zipf = estimate_zipf(s), eps = zipf - 1, log_n = math_log((double)s->vocab), x = eps * log_n;
    double ratio = x > 1e-6 || x < -1e-6 ? eps / (1 - math_exp(-x)) : log_n > 0 ? 1 / log_n : 1;
    double log_k = (math_log(ratio) + mu * LN2) / zipf;
    if (log_k >= log_n)
        return;
    double k = log_k > 0 ? math_exp(log_k) : 1;
    sample_top_k(s, k < 1 ? 1 : (uint32_t)k);
}

void sample_mirostat_cut(struct sampler *s, double mu)
{
    if (s->p->mirostat == 1)
        cut_at_rank(s, mu);
    else
        cut_at_surprise(s, mu);
}

void sample_mirostat_move(const struct sampler *s, double mass, uint32_t rank, double *mu)
{
    const struct sample_params *p = s->p;
    double surprise = (math_log(mass) - (double)order_exponent(&s->order, rank)) / LN2;
    *mu -= (double)p->mirostat_eta * (surprise - (double)p->mirostat_tau);
}
