/*
 * sample: from logits to a token.
 *
 * A pure function of (logits, parameters, the row's own history, output position): draws are keyed by (seed, choice,
 * position, purpose), so the same request gives the same text under any load. The candidates' total order is logit
 * descending, id ascending; the draw is the inverse CDF in that order.
 *
 * Pipeline: repetition penalty → temperature → softmax → top-k → top-p → min-p → draw. Temperature 0 is arg-max.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "kern/kern.h"

struct sample_params {
    float temperature;        /* 0 = greedy; otherwise (0, 100] */
    float top_p;              /* (0, 1]; 1 = off */
    float min_p;              /* [0, 1); 0 = off */
    float repetition_penalty; /* (0, 100]; 1 = off */
    uint32_t top_k;           /* 0 = off */
    uint32_t penalty_last;    /* ids looked back at; 0 = all */
    uint64_t seed;
    uint32_t choice;          /* index of the choice within the request */
};

/* Greedy, everything else off. */
struct sample_params sample_defaults(void);

/* ST_ARGUMENT naming the field that is out of range. */
MUST_CHECK enum status sample_check(const struct sample_params *p, struct err *e);

struct sampler; /* scratch for one thread: candidates of one vocabulary */
MUST_CHECK enum status sampler_new(struct sampler **out, uint32_t vocab, const struct kern_ops *ops, struct err *e);
void sampler_free(struct sampler *s);

/* Chooses the token for output position `position` (0 = first completion token). `history` is prompt and output so far.
 * `logits` is [vocab] and is not changed. ST_STEP_FAILED when a logit is not finite (−inf is allowed only through masks,
 * which come later). */
MUST_CHECK enum status sampler_choose(struct sampler *s, const struct sample_params *p, const float *logits,
                                      const tok_id *history, size_t history_n, uint32_t position, tok_id *out,
                                      struct err *e);

/* Raw log-softmax of the chosen id and the n most likely (n <= LIMIT_LOGPROBS), in order. */
struct sample_logprob {
    tok_id id;
    float logprob;
};
void sampler_logprobs(struct sampler *s, const float *logits, tok_id chosen, float *logprob, struct sample_logprob *top,
                      uint32_t n);

#endif
