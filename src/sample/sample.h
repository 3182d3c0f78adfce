/*
 * sample: from logits to a token.
 *
 * A pure function of (logits, parameters, the row's own state and history, output position): draws are keyed by (seed,
 * choice, position, purpose), so the same request gives the same text under any load. The candidates' total order is
 * logit descending, id ascending; the draw is the inverse CDF in that order.
 *
 * Pipeline, in the default order:
 *
 *     bias → repetition → presence → frequency → DRY            change logits
 *     top-n-sigma → top-p → min-p → typical → XTC → top-k       remove candidates
 *     temperature, fixed or dynamic → draw
 *
 * So the cuts look at the distribution at temperature 1 and the temperature comes last. `order` may name another order
 * of the steps that follow DRY. With mirostat there are no cuts: temperature → mirostat → draw. Temperature 0 is the
 * arg-max of the changed logits; cuts, XTC, mirostat and dynamic temperature then do nothing.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "kern/kern.h"

#define SAMPLE_BAN (-100.0f) /* a bias of this or less means never; every other bias is only added */

struct sample_bias {
    tok_id id;
    float bias; /* [-100, 100], added to the logit */
};

/* A set of ids as a bitmap: id is in it when bit id % 8 of bits[id / 8] is set. Ids from n on are not in it. */
struct sample_set {
    const uint8_t *bits; /* [(n + 7) / 8]; NULL with n = 0 */
    uint32_t n;
};

/* The steps whose order can be chosen, in the default order. Penalties are repetition, presence and frequency. */
enum sample_step {
    SAMPLE_PENALTIES,
    SAMPLE_DRY,
    SAMPLE_TOP_N_SIGMA,
    SAMPLE_TOP_P,
    SAMPLE_MIN_P,
    SAMPLE_TYPICAL,
    SAMPLE_XTC,
    SAMPLE_TOP_K,
    SAMPLE_TEMPERATURE,
    SAMPLE_STEPS
};

struct sample_params {
    float temperature;        /* 0 = greedy; otherwise (0, 100] */
    float dynatemp_range;     /* [0, 100]: temperature ± this, by the entropy of what is left; 0 = off */
    float dynatemp_exponent;  /* [0, 100], of the normalised entropy */
    float top_p;              /* (0, 1]; 1 = off */
    float min_p;              /* [0, 1); 0 = off */
    float typical_p;          /* (0, 1]; 1 = off */
    float top_n_sigma;        /* [0, 100] standard deviations below the largest logit; 0 = off */
    float xtc_probability;    /* [0, 1]; 0 = off */
    float xtc_threshold;      /* [0, 1]; above 0.5 no two candidates can reach it */
    float repetition_penalty; /* (0, 100]; 1 = off */
    float presence_penalty;   /* [-2, 2], once for each id that occurred; 0 = off */
    float frequency_penalty;  /* [-2, 2], for each time it occurred; 0 = off */
    float dry_multiplier;     /* [0, 100]; 0 = off */
    float dry_base;           /* [1, 100] */
    float mirostat_tau;       /* [0, 100] bits: the surprise aimed at */
    float mirostat_eta;       /* [0, 1]: how fast */
    uint32_t mirostat;        /* 0 = off; version 1 or 2 */
    uint32_t top_k;           /* 0 = off */
    uint32_t penalty_last;    /* ids the penalties look back at, prompt and output together; 0 = all */
    uint32_t presence_last, frequency_last; /* windows of their own: 0 = penalty_last, UINT32_MAX = all */
    uint32_t dry_last;        /* the same for DRY */
    uint32_t dry_allowed;     /* [1, LIMIT_DRY_MATCH]: repeats shorter than this are free */
    uint32_t min_tokens;      /* ids of `ends` are not chosen at output positions below this */
    struct sample_set breakers; /* ids over which DRY sees no repeat, and which it never penalises */
    struct sample_set protect;  /* ids that XTC never removes: ends and newlines */
    struct sample_set ends;
    const struct sample_bias *bias; /* an id that comes twice gets both */
    uint32_t bias_n;          /* at most LIMIT_BIAS */
    uint32_t order_n;         /* 0 = the default order */
    uint8_t order[SAMPLE_STEPS]; /* of enum sample_step, each at most once; what is left out must be off */
    uint64_t seed;
    uint32_t choice;          /* index of the choice within the request */
};

/* Texts at which DRY usually sees repeats end; the ids that hold one are the usual `breakers`. */
#define SAMPLE_BREAKERS 4u
extern const char *const sample_breakers[SAMPLE_BREAKERS];

/* Greedy, everything else off. */
struct sample_params sample_defaults(void);

/* ST_ARGUMENT naming the field that is out of range for a vocabulary of `vocab` ids, contradicts another, or has a value
 * but no place in `order`. */
MUST_CHECK enum status sample_check(const struct sample_params *p, uint32_t vocab, struct err *e);

/* *dst = *src with the bias list and the sets in `a`: at most LIMIT_SAMPLE_ARENA bytes. ST_NO_MEMORY when it is full. */
MUST_CHECK enum status sample_params_copy(struct sample_params *dst, const struct sample_params *src, struct arena *a,
                                          struct err *e);

/* Appends a step to `order` by its name: "penalties", "dry", "top_n_sigma", "top_p", "min_p", "typ_p" (or "typical_p"),
 * "xtc", "top_k", "temperature". ST_ARGUMENT (field "samplers") when there is no such step or it is there already. */
MUST_CHECK enum status sample_order_add(struct sample_params *p, const char *name, size_t n, struct err *e);

/* True when each position needs its own distribution, even one whose token is known beforehand. */
bool sample_needs_dist(const struct sample_params *p);

/* What a row carries from one output position to the next. Changes only when a token is chosen. */
struct sample_state {
    double mu; /* mirostat: bits of surprise allowed next */
};

void sample_state_begin(struct sample_state *st, const struct sample_params *p);

/* Words of a mask: bit id % 32 of word id / 32. */
static inline size_t sample_mask_words(uint32_t vocab)
{
    return (size_t)vocab / 32 + (vocab % 32 != 0);
}

struct sampler; /* scratch for one thread: candidates of one vocabulary */
MUST_CHECK enum status sampler_new(struct sampler **out, uint32_t vocab, const struct kern_ops *ops, struct err *e);
void sampler_free(struct sampler *s);

/* Chooses the token for output position `position` (0 = first completion token). `history` is prompt and output so far.
 * `logits` is [vocab] and is not changed; `mask` [sample_mask_words(vocab)] has a bit for each id that may be chosen, NULL:
 * any. It outranks everything: where bias and bans leave nothing of it, they do not count. `p` has passed sample_check().
 * `st` is used under mirostat only: on ST_OK it has moved on, otherwise it is as it was. ST_STEP_FAILED when a logit is not
 * finite; ST_ARGUMENT (field "logit_bias") when every id is banned, or (field "grammar") when the mask is empty. */
MUST_CHECK enum status sampler_choose(struct sampler *s, const struct sample_params *p, struct sample_state *st,
                                      const float *logits, const uint32_t *mask, const tok_id *history, size_t history_n,
                                      uint32_t position, tok_id *out, struct err *e);

/* The same, where argmax() of the logits is known already. */
MUST_CHECK enum status sampler_choose_top(struct sampler *s, const struct sample_params *p, struct sample_state *st,
                                          const float *logits, const struct kern_top *top, const uint32_t *mask,
                                          const tok_id *history, size_t history_n, uint32_t position, tok_id *out,
                                          struct err *e);

/* Raw log-softmax of the chosen id and the n most likely (n <= LIMIT_LOGPROBS), in order. `max` is the largest logit. */
struct sample_logprob {
    tok_id id;
    float logprob;
};
void sampler_logprobs(struct sampler *s, const float *logits, float max, tok_id chosen, float *logprob,
                      struct sample_logprob *top, uint32_t n);

/* ---- how long a reply may think ---- */

#define SAMPLE_CLOSE 8u

/* Thinking ends after so many ids: then those of `close` come instead of what would be chosen. It begins and ends with a
 * control token, the last of close[]; -1 as `open`: only the prompt begins it. */
struct sample_limit {
    uint32_t ids;
    tok_id open, close[SAMPLE_CLOSE];
    uint32_t close_n; /* 0 = no limit */
    bool inside;      /* the prompt has opened it */
};

/* Follows the ids of one reply: a function of those alone, so how they came, one by one or proposed by a source, changes
 * nothing. */
struct sample_budget {
    struct sample_limit of;
    uint32_t left;    /* ids that may still be thought */
    uint32_t closing; /* of of.close, so many came */
    bool inside;      /* thinking is open */
};

void sample_budget_begin(struct sample_budget *b, const struct sample_limit *of);

/* The id that comes next whatever the sampler would choose, or -1. `mask`: bits of the ids that a grammar allows; NULL =
 * all. What it does not allow is left out. */
tok_id sample_budget_imposes(const struct sample_budget *b, const uint32_t *mask);

/* The reply went on with this id. */
void sample_budget_take(struct sample_budget *b, tok_id id);

#endif
