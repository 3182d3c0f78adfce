/*
 * sampler: the pipeline of sample.h.
 *
 * What is summed where is part of the contract, since a sum in another order could move a draw: the mass of the whole
 * vocabulary is the kernel table's exp_sum(), every other mass adds weights in candidate order, in double precision.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample/order.h"
#include "sample/sample.h"

struct sampler {
    const struct kern_ops *ops;
    uint32_t vocab;
    size_t bytes;    /* of the region below */
    void *region;
    float *logits;   /* [vocab]: after penalties */
    float *scaled;   /* [vocab]: (logit - max) / temperature */
    uint8_t *seen;   /* [vocab / 8]: ids whose penalty was applied; all 0 between calls */
    struct order order;
};

enum status sampler_new(struct sampler **out, uint32_t vocab, const struct kern_ops *ops, struct err *e)
{
    *out = NULL;
    if (!vocab || vocab > LIMIT_VOCAB)
        return err_set(e, ST_ARGUMENT, "vocab", "a vocabulary has 1 to %u ids, not %u", LIMIT_VOCAB, vocab);
    struct sampler *s = calloc(1, sizeof *s);
    size_t n = mem_round(vocab, 16), bytes = n * (2 * sizeof(uint64_t) + 3 * sizeof(float)) + mem_round(n / 8, 64);
    if (s)
        s->region = mem_map(bytes);
    if (!s || !s->region) {
        free(s);
        return err_set(e, ST_NO_MEMORY, "vocab", "no memory to sort %u candidates", vocab);
    }
    s->ops = ops;
    s->vocab = s->order.vocab = vocab;
    s->bytes = bytes;
    s->order.keys = s->region;
    s->order.scratch = s->order.keys + n;
    s->order.weight = (float *)(s->order.scratch + n);
    s->logits = s->order.weight + n;
    s->scaled = s->logits + n;
    s->seen = (uint8_t *)(s->scaled + n);
    *out = s;
    return ST_OK;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    mem_unmap(s->region, s->bytes);
    free(s);
}

static float clamp_finite(float x)
{
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* Each distinct id of the look-back once: positive logits are divided, negative ones multiplied (Keskar et al., "CTRL",
 * 2019, with the usual correction for negative logits). */
static const float *penalise(struct sampler *s, const struct sample_params *p, const float *logits,
                             const tok_id *history, size_t n)
{
    if (p->penalty_last && n > p->penalty_last) {
        history += n - p->penalty_last;
        n = p->penalty_last;
    }
    memcpy(s->logits, logits, s->vocab * sizeof *logits);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)history[i];
        if (id >= s->vocab || s->seen[id / 8] >> id % 8 & 1)
            continue;
        s->seen[id / 8] |= (uint8_t)(1u << id % 8);
        float x = s->logits[id];
        s->logits[id] = clamp_finite(x > 0 ? x / p->repetition_penalty : x * p->repetition_penalty);
    }
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)history[i] < s->vocab)
            s->seen[(uint32_t)history[i] / 8] = 0;
    return s->logits;
}

/* Sum of exp((logit - max) / temperature) over the vocabulary. */
static double whole_mass(struct sampler *s, const float *logits, float max, float temperature)
{
    if (temperature == 1.0f)
        return (double)s->ops->exp_sum(logits, s->vocab, max);
    for (uint32_t i = 0; i < s->vocab; i++) {
        float x = (logits[i] - max) / temperature;
        s->scaled[i] = x > -1000.0f ? x : -1000.0f; /* exp is 0 from -104 on; keeps -inf out */
    }
    return (double)s->ops->exp_sum(s->scaled, s->vocab, 0.0f);
}

/* What is left to draw from: the first `n` candidates, whose weights add up to `mass`. */
struct kept {
    uint32_t n;
    double mass;
};

/* top-k → top-p → min-p. Each keeps at least the first candidate. top-p keeps the shortest beginning whose mass reaches
 * p of what top-k left; min-p ends before the first candidate with a weight below min_p × the largest, which is 1. */
static struct kept truncate(struct sampler *s, const struct sample_params *p, const float *logits)
{
    struct order *o = &s->order;
    struct kept k = {s->vocab, 0};
    bool top_k = p->top_k && p->top_k < s->vocab, top_p = p->top_p < 1.0f, min_p = p->min_p > 0.0f;
    if (top_k) {
        k.n = order_reach(o, p->top_k);
        for (uint32_t i = 0; i < k.n; i++)
            k.mass += (double)o->weight[i];
    } else if (top_p || !min_p) {
        k.mass = whole_mass(s, logits, o->max, o->temperature);
    }
    if (!top_p && !min_p)
        return k;
    double enough = top_p ? (double)p->top_p * k.mass : INFINITY, mass = 0;
    uint32_t n = 0;
    while (n < k.n && mass < enough && order_reach(o, n + 1) == n + 1) {
        if (n && min_p && o->weight[n] < p->min_p)
            break;
        if (n && o->weight[n] == 0.0f)
            break;
        mass += (double)o->weight[n++];
    }
    return (struct kept){n, mass};
}

/* Inverse CDF: the first candidate at which the running mass exceeds u × mass. Rounding may leave the running mass short
 * of it; then the last candidate that has any weight is the one. */
static tok_id draw(struct order *o, struct kept k, float u)
{
    double target = (double)u * k.mass, mass = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < k.n && order_reach(o, i + 1) == i + 1; i++) {
        if (o->weight[i] == 0.0f && i)
            break;
        last = i;
        mass += (double)o->weight[i];
        if (mass > target)
            break;
    }
    return order_id(o, last);
}

enum status sampler_choose(struct sampler *s, const struct sample_params *p, const float *logits,
                           const tok_id *history, size_t history_n, uint32_t position, tok_id *out, struct err *e)
{
    uint32_t best = 0;
    float max = 0;
    if (!s->ops->argmax(logits, s->vocab, &best, &max))
        return err_set(e, ST_STEP_FAILED, "", "the model gave a logit that is not finite at output position %u",
                       position);
    if (p->repetition_penalty != 1.0f && history_n) {
        logits = penalise(s, p, logits, history, history_n);
        s->ops->argmax(logits, s->vocab, &best, &max);
    }
    if (p->temperature == 0.0f || p->top_k == 1) {
        *out = (tok_id)best;
        return ST_OK;
    }
    order_begin(&s->order, logits, max, p->temperature);
    struct kept kept = truncate(s, p, logits);
    *out = draw(&s->order, kept, rng_uniform(p->seed, p->choice, position, RNG_FINAL));
    return ST_OK;
}

void sampler_logprobs(struct sampler *s, const float *logits, tok_id chosen, float *logprob, struct sample_logprob *top,
                      uint32_t n)
{
    uint32_t best = 0;
    float max = 0;
    s->ops->argmax(logits, s->vocab, &best, &max);
    double base = (double)max + math_log((double)s->ops->exp_sum(logits, s->vocab, max));
    *logprob = (float)((double)logits[chosen] - base);
    uint32_t have = 0;
    for (uint32_t i = 0; i < s->vocab && n; i++) {
        if (have == n && !(logits[i] > top[n - 1].logprob))
            continue;
        uint32_t at = have < n ? have++ : n - 1;
        for (; at && logits[i] > top[at - 1].logprob; at--)
            top[at] = top[at - 1];
        top[at] = (struct sample_logprob){(tok_id)i, logits[i]};
    }
    for (uint32_t i = 0; i < have; i++)
        top[i].logprob = (float)((double)top[i].logprob - base);
    for (uint32_t i = have; i < n; i++)
        top[i] = (struct sample_logprob){-1, -INFINITY}; /* a vocabulary smaller than n */
}
