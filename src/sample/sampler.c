/* sampler: the pipeline of sample.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample/inside.h"

enum status sampler_new(struct sampler **out, uint32_t vocab, const struct kern_ops *ops, struct err *e)
{
    *out = NULL;
    if (!vocab || vocab > LIMIT_VOCAB)
        return err_set(e, ST_ARGUMENT, "vocab", "a vocabulary has 1 to %u ids, not %u", LIMIT_VOCAB, vocab);
    struct sampler *s = calloc(1, sizeof *s);
    size_t n = mem_round(vocab, 16), bytes = n * (2 * sizeof(uint64_t) + 3 * sizeof(float) + sizeof(uint32_t));
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
    s->count = (uint32_t *)(s->scaled + n);
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

/* --- logits ---------------------------------------------------------------------------------------------------------- */

static bool ends_banned(const struct sampler *s)
{
    return s->position < s->p->min_tokens && s->p->ends.n;
}

/* Whether this position's logits are not the model's. */
static bool changes(const struct sampler *s, size_t history_n)
{
    const struct sample_params *p = s->p;
    return p->bias_n || ends_banned(s) ||
           (history_n && (sample_step_active(p, SAMPLE_PENALTIES) || sample_step_active(p, SAMPLE_DRY)));
}

/* Bans come with the bias, and nothing after them brings an id back. */
static void change(struct sampler *s, const float *logits, const tok_id *history, size_t n)
{
    memcpy(s->logits, logits, s->vocab * sizeof *logits);
    sample_add_bias(s);
    if (ends_banned(s))
        sample_ban_ends(s);
    if (n && sample_step_active(s->p, SAMPLE_PENALTIES))
        sample_penalise(s, history, n);
    if (n && sample_step_active(s->p, SAMPLE_DRY))
        sample_dry(s, history, n);
}

/* Takes away what is not in the mask. */
static void apply_mask(struct sampler *s, const uint32_t *mask)
{
    for (uint32_t at = 0; at < s->vocab; at += 32) {
        uint32_t out = ~mask[at / 32];
        for (; out; out &= out - 1) {
            uint32_t id = at + (uint32_t)__builtin_ctz(out);
            if (id >= s->vocab)
                break;
            s->logits[id] = -INFINITY;
            s->banned = true;
        }
    }
}

/* The first of the largest; not finite when all are banned. (The kernel's argmax takes finite values only.) */
static struct kern_top find_best(struct sampler *s)
{
    if (!s->banned)
        return s->ops->argmax(s->logits, s->vocab);
    struct kern_top top = {.value = -INFINITY};
    for (uint32_t i = 0; i < s->vocab; i++)
        if (s->logits[i] > top.value)
            top = (struct kern_top){true, i, s->logits[i]};
    return top;
}

/* The logits that count at this position, in s->logits, and the best of them. */
static enum status prepare(struct sampler *s, const float *logits, const uint32_t *mask, const tok_id *history,
                           size_t n, struct kern_top *top, struct err *e)
{
    change(s, logits, history, n);
    if (mask)
        apply_mask(s, mask);
    *top = find_best(s);
    if (top->finite)
        return ST_OK;
    if (!mask)
        return err_set(e, ST_ARGUMENT, "logit_bias", "every token is banned at output position %u", s->position);
    memcpy(s->logits, logits, s->vocab * sizeof *logits);
    apply_mask(s, mask);
    *top = find_best(s);
    if (top->finite)
        return ST_OK;
    return err_set(e, ST_ARGUMENT, "grammar", "the grammar allows no token at output position %u", s->position);
}

/* --- candidates ------------------------------------------------------------------------------------------------------ */

static void run_step(struct sampler *s, enum sample_step step)
{
    switch (step) {
    case SAMPLE_TOP_N_SIGMA:
        sample_top_n_sigma(s);
        break;
    case SAMPLE_TOP_P:
        sample_top_p(s);
        break;
    case SAMPLE_MIN_P:
        sample_min_p(s);
        break;
    case SAMPLE_TYPICAL:
        sample_typical(s);
        break;
    case SAMPLE_XTC:
        sample_xtc(s);
        break;
    case SAMPLE_TOP_K:
        sample_top_k(s, s->p->top_k);
        break;
    case SAMPLE_TEMPERATURE:
        sample_temperature(s);
        break;
    default: /* the logits were changed before */
        break;
    }
}

static void run_steps(struct sampler *s)
{
    const struct sample_params *p = s->p;
    uint32_t n = p->order_n ? p->order_n : SAMPLE_STEPS;
    for (uint32_t i = 0; i < n; i++) {
        enum sample_step step = p->order_n ? (enum sample_step)p->order[i] : (enum sample_step)i;
        if (sample_step_active(p, step))
            run_step(s, step);
    }
}

/* Inverse CDF: the first candidate at which the running mass exceeds u × mass. Rounding may leave the running mass short
 * of it; then the last candidate that has any weight is the one. */
static uint32_t draw(struct sampler *s, enum rng_purpose purpose)
{
    const struct sample_params *p = s->p;
    double target = (double)rng_uniform(p->seed, p->choice, s->position, purpose) * sample_kept_mass(s), mass = 0;
    uint32_t i = sample_kept_next(s, s->kept.lo), last = i;
    for (; i < s->kept.n; i = sample_kept_next(s, i + 1)) {
        if (s->order.weight[i] == 0.0f)
            break;
        last = i;
        mass += (double)s->order.weight[i];
        if (mass > target)
            break;
    }
    return last;
}

static uint32_t choose_mirostat(struct sampler *s, struct sample_state *st)
{
    sample_temperature(s);
    double mass = sample_kept_mass(s);
    sample_mirostat_cut(s, st->mu);
    uint32_t rank = draw(s, RNG_MIROSTAT);
    sample_mirostat_move(s, mass, rank, &st->mu);
    return rank;
}

/* No step but XTC and typical can remove the first candidate. */
static bool only_first(const struct sample_params *p)
{
    return p->temperature == 0.0f || (p->top_k == 1 && !sample_step_active(p, SAMPLE_XTC) &&
                                      !sample_step_active(p, SAMPLE_TYPICAL));
}

enum status sampler_choose(struct sampler *s, const struct sample_params *p, struct sample_state *st,
                           const float *logits, const uint32_t *mask, const tok_id *history, size_t history_n,
                           uint32_t position, tok_id *out, struct err *e)
{
    struct kern_top top = s->ops->argmax(logits, s->vocab);
    return sampler_choose_top(s, p, st, logits, &top, mask, history, history_n, position, out, e);
}

enum status sampler_choose_top(struct sampler *s, const struct sample_params *p, struct sample_state *st,
                               const float *logits, const struct kern_top *known, const uint32_t *mask,
                               const tok_id *history, size_t history_n, uint32_t position, tok_id *out, struct err *e)
{
    struct kern_top top = *known;
    if (!top.finite)
        return err_set(e, ST_STEP_FAILED, "", "the model gave a logit that is not finite at output position %u",
                       position);
    s->p = p;
    s->position = position;
    s->banned = false;
    if (mask || changes(s, history_n)) {
        TRY(prepare(s, logits, mask, history, history_n, &top, e));
        logits = s->logits;
    }
    if (only_first(p)) {
        *out = (tok_id)top.index;
        return ST_OK;
    }
    order_begin(&s->order, logits, top.value, p->temperature > 1.0f ? p->temperature : 1.0f);
    s->kept = (struct kept){0, 0, s->vocab, -1};
    uint32_t rank;
    if (p->mirostat) {
        rank = choose_mirostat(s, st);
    } else {
        run_steps(s);
        rank = draw(s, RNG_FINAL);
    }
    *out = order_id(&s->order, rank);
    return ST_OK;
}

void sampler_logprobs(struct sampler *s, const float *logits, float max, tok_id chosen, float *logprob,
                      struct sample_logprob *top, uint32_t n)
{
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
