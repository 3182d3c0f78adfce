/*
 * The sampler's inside, for the files of this folder.
 *
 * What is left of the candidates is a piece of their total order: every cut keeps a run of it, and only XTC leaves single
 * protected ids above the run. So nothing is copied, and the order is sorted only as far as somebody looks.
 *
 * What is summed where is part of the contract, since a sum in another order could move a draw: as long as the end of the
 * order was not cut, masses are the kernel table's exp_sum() over the ids and entropies add in id order; after that both
 * add in candidate order. All in double precision but exp_sum().
 */
#ifndef SAMPLE_INSIDE_H
#define SAMPLE_INSIDE_H

#include <float.h>

#include "sample/order.h"
#include "sample/sample.h"

/* The candidates of rank [lo, n) that are of rank `first` on or protected. */
struct kept {
    uint32_t lo, first, n;
    double mass; /* of their weights; negative = not known yet */
};

struct sampler {
    const struct kern_ops *ops;
    uint32_t vocab;
    size_t bytes;    /* of the region below */
    void *region;
    float *logits;   /* [vocab]: after bias and penalties */
    float *scaled;   /* [vocab]: exponents of the weights, -inf for what was removed */
    uint32_t *count; /* [vocab]: what a pass over the history counts; all 0 between passes */
    bool banned;     /* s->logits has an id at -inf */
    struct order order;
    struct kept kept;
    uint32_t match[LIMIT_DRY_MATCH]; /* dry.c */

    /* of this call */
    const struct sample_params *p;
    uint32_t position;
};

static inline bool sample_set_has(const struct sample_set *s, uint32_t id)
{
    return id < s->n && (s->bits[id / 8] >> id % 8 & 1);
}

static inline float sample_clamp(float x)
{
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* --- changing logits: each works on s->logits ------------------------------------------------------------------------- */

void sample_add_bias(struct sampler *s);                                       /* penalties.c */
void sample_ban_ends(struct sampler *s);
void sample_penalise(struct sampler *s, const tok_id *history, size_t n);
void sample_dry(struct sampler *s, const tok_id *history, size_t n);           /* dry.c */

/* --- what is left (kept.c) -------------------------------------------------------------------------------------------- */

/* The first kept rank from i on, or kept.n. */
uint32_t sample_kept_next(struct sampler *s, uint32_t i);

/* The last kept rank before i; there is one. */
uint32_t sample_kept_before(const struct sampler *s, uint32_t i);

double sample_kept_mass(struct sampler *s);

/* Entropy in nats of what is left, and how many that is, banned ids not counted. */
double sample_kept_entropy(struct sampler *s, uint32_t *n);

/* Standard deviation of the logits of what is left, in units of the temperature. */
double sample_kept_deviation(struct sampler *s);

/* Keeps ranks [lo, n) of what is kept. */
void sample_kept_cut(struct sampler *s, uint32_t lo, uint32_t n);

/* --- removing candidates, and temperature ----------------------------------------------------------------------------- */

void sample_top_n_sigma(struct sampler *s);                                    /* cuts.c */
void sample_top_p(struct sampler *s);
void sample_min_p(struct sampler *s);
void sample_typical(struct sampler *s);
void sample_xtc(struct sampler *s);
void sample_top_k(struct sampler *s, uint32_t k);
void sample_temperature(struct sampler *s);                                    /* temperature.c */
void sample_mirostat_cut(struct sampler *s, double mu);                        /* mirostat.c */
void sample_mirostat_move(const struct sampler *s, double mass, uint32_t rank, double *mu);

/* True when the step would do something (params.c). */
bool sample_step_active(const struct sample_params *p, enum sample_step step);

#endif
