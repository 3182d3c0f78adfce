/* sample_params: defaults, ranges, order, copies. Comparisons are written so that a NaN fails them. */
#include <string.h>

#include "sample/inside.h"

_Static_assert(LIMIT_BIAS * sizeof(struct sample_bias) + 3u * (LIMIT_VOCAB / 8u) <= LIMIT_SAMPLE_ARENA,
               "a request's arena holds what sample_params_copy() takes");

static const char *const step_names[SAMPLE_STEPS] = {
    [SAMPLE_PENALTIES] = "penalties", [SAMPLE_DRY] = "dry",     [SAMPLE_TOP_N_SIGMA] = "top_n_sigma",
    [SAMPLE_TOP_P] = "top_p",         [SAMPLE_MIN_P] = "min_p", [SAMPLE_TYPICAL] = "typ_p",
    [SAMPLE_XTC] = "xtc",             [SAMPLE_TOP_K] = "top_k", [SAMPLE_TEMPERATURE] = "temperature",
};

const char *const sample_breakers[SAMPLE_BREAKERS] = {"\n", ":", "\"", "*"};

struct sample_params sample_defaults(void)
{
    return (struct sample_params){
        .dynatemp_exponent = 1,
        .top_p = 1,
        .typical_p = 1,
        .xtc_threshold = 0.1f,
        .repetition_penalty = 1,
        .dry_base = 1.75f,
        .dry_allowed = 2,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1f,
    };
}

/* --- ranges ---------------------------------------------------------------------------------------------------------- */

struct range {
    const char *name;
    size_t at;
    float lo, hi;
    bool lo_open, hi_open; /* the bound itself is out of range */
};

#define RANGE(field, ...) {#field, offsetof(struct sample_params, field), __VA_ARGS__}
static const struct range ranges[] = {
    RANGE(temperature, 0, 100, false, false),
    RANGE(dynatemp_range, 0, 100, false, false),
    RANGE(dynatemp_exponent, 0, 100, false, false),
    RANGE(top_p, 0, 1, true, false),
    RANGE(min_p, 0, 1, false, true),
    RANGE(typical_p, 0, 1, true, false),
    RANGE(top_n_sigma, 0, 100, false, false),
    RANGE(xtc_probability, 0, 1, false, false),
    RANGE(xtc_threshold, 0, 1, false, false),
    RANGE(repetition_penalty, 0, 100, true, false),
    RANGE(presence_penalty, -2, 2, false, false),
    RANGE(frequency_penalty, -2, 2, false, false),
    RANGE(dry_multiplier, 0, 100, false, false),
    RANGE(dry_base, 1, 100, false, false),
    RANGE(mirostat_tau, 0, 100, false, false),
    RANGE(mirostat_eta, 0, 1, false, false),
};

static enum status check_ranges(const struct sample_params *p, struct err *e)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const struct range *r = &ranges[i];
        float x;
        memcpy(&x, (const char *)p + r->at, sizeof x);
        if ((r->lo_open ? x > r->lo : x >= r->lo) && (r->hi_open ? x < r->hi : x <= r->hi))
            continue;
        return err_set(e, ST_ARGUMENT, r->name, "%s must be %s %g and %s %g", r->name,
                       r->lo_open ? "above" : "at least", (double)r->lo, r->hi_open ? "below" : "at most",
                       (double)r->hi);
    }
    return ST_OK;
}

static enum status check_bias(const struct sample_params *p, uint32_t vocab, struct err *e)
{
    if (p->bias_n > LIMIT_BIAS)
        return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias has more than %u entries", LIMIT_BIAS);
    for (uint32_t i = 0; i < p->bias_n; i++) {
        const struct sample_bias *b = &p->bias[i];
        if ((uint32_t)b->id >= vocab)
            return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias: id %d is not in the vocabulary of %u",
                           (int)b->id, vocab);
        if (!(b->bias >= -100.0f && b->bias <= 100.0f))
            return err_set(e, ST_ARGUMENT, "logit_bias", "logit_bias: the bias of id %d must be between -100 and 100",
                           (int)b->id);
    }
    return ST_OK;
}

static enum status check_set(const struct sample_set *s, const char *name, struct err *e)
{
    if (s->n > LIMIT_VOCAB || (s->n && !s->bits))
        return err_set(e, ST_ARGUMENT, name, "%s is no set of at most %u ids", name, LIMIT_VOCAB);
    return ST_OK;
}

/* --- the order ------------------------------------------------------------------------------------------------------- */

bool sample_step_active(const struct sample_params *p, enum sample_step step)
{
    switch (step) {
    case SAMPLE_PENALTIES:
        return p->repetition_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f;
    case SAMPLE_DRY:
        return p->dry_multiplier > 0.0f;
    case SAMPLE_TOP_N_SIGMA:
        return p->top_n_sigma > 0.0f;
    case SAMPLE_TOP_P:
        return p->top_p < 1.0f;
    case SAMPLE_MIN_P:
        return p->min_p > 0.0f;
    case SAMPLE_TYPICAL:
        return p->typical_p < 1.0f;
    case SAMPLE_XTC:
        return p->xtc_probability > 0.0f;
    case SAMPLE_TOP_K:
        return p->top_k > 0;
    default:
        return p->temperature != 1.0f || p->dynatemp_range > 0.0f;
    }
}

/* The field that makes a step active. */
static const char *step_field(const struct sample_params *p, enum sample_step step)
{
    switch (step) {
    case SAMPLE_PENALTIES:
        return p->repetition_penalty != 1.0f ? "repetition_penalty"
               : p->presence_penalty != 0.0f ? "presence_penalty"
                                             : "frequency_penalty";
    case SAMPLE_DRY:
        return "dry_multiplier";
    case SAMPLE_TYPICAL:
        return "typical_p";
    case SAMPLE_XTC:
        return "xtc_probability";
    case SAMPLE_TEMPERATURE:
        return p->temperature != 1.0f ? "temperature" : "dynatemp_range";
    default:
        return step_names[step];
    }
}

static enum status check_order(const struct sample_params *p, struct err *e)
{
    bool there[SAMPLE_STEPS] = {false};
    if (p->order_n > SAMPLE_STEPS)
        return err_set(e, ST_ARGUMENT, "samplers", "samplers has more than %d steps", SAMPLE_STEPS);
    for (uint32_t i = 0; i < p->order_n; i++) {
        uint8_t step = p->order[i];
        if (step >= SAMPLE_STEPS || there[step])
            return err_set(e, ST_ARGUMENT, "samplers", "samplers has a step that is unknown or there twice");
        if (step <= SAMPLE_DRY && i && p->order[i - 1] > step)
            return err_set(e, ST_ARGUMENT, "samplers",
                           "samplers: penalties, then dry, come before every other step; here %s is behind %s",
                           step_names[step], step_names[p->order[i - 1]]);
        there[step] = true;
    }
    for (int i = 0; p->order_n && i < SAMPLE_STEPS; i++)
        if (!there[i] && sample_step_active(p, (enum sample_step)i))
            return err_set(e, ST_ARGUMENT, step_field(p, (enum sample_step)i),
                           "%s is set, but samplers leaves out %s", step_field(p, (enum sample_step)i), step_names[i]);
    return ST_OK;
}

static bool same(const char *name, size_t n, const char *want)
{
    return strlen(want) == n && memcmp(name, want, n) == 0;
}

enum status sample_order_add(struct sample_params *p, const char *name, size_t n, struct err *e)
{
    int step = 0;
    while (step < SAMPLE_STEPS && !same(name, n, step_names[step]))
        step++;
    if (same(name, n, "typical_p"))
        step = SAMPLE_TYPICAL;
    if (step == SAMPLE_STEPS)
        return err_set(e, ST_ARGUMENT, "samplers",
                       "samplers: '%.*s' is none of penalties, dry, top_n_sigma, top_p, min_p, typ_p, xtc, top_k and "
                       "temperature", (int)(n < 40 ? n : 40), name);
    for (uint32_t i = 0; i < p->order_n; i++)
        if (p->order[i] == step)
            return err_set(e, ST_ARGUMENT, "samplers", "samplers has %s twice", step_names[step]);
    p->order[p->order_n++] = (uint8_t)step;
    return ST_OK;
}

/* Mirostat is the cut, and looks at the distribution as the temperature makes it. */
static enum status check_mirostat(const struct sample_params *p, struct err *e)
{
    if (p->mirostat > 2)
        return err_set(e, ST_ARGUMENT, "mirostat", "mirostat must be 0, 1 or 2, not %u", p->mirostat);
    if (!p->mirostat)
        return ST_OK;
    if (p->order_n)
        return err_set(e, ST_ARGUMENT, "samplers", "samplers cannot be given together with mirostat");
    for (int i = SAMPLE_TOP_N_SIGMA; i < SAMPLE_TEMPERATURE; i++)
        if (sample_step_active(p, (enum sample_step)i))
            return err_set(e, ST_ARGUMENT, step_field(p, (enum sample_step)i),
                           "%s cannot be set together with mirostat", step_field(p, (enum sample_step)i));
    if (p->dynatemp_range > 0.0f)
        return err_set(e, ST_ARGUMENT, "dynatemp_range", "dynatemp_range cannot be set together with mirostat");
    return ST_OK;
}

enum status sample_check(const struct sample_params *p, uint32_t vocab, struct err *e)
{
    TRY(check_ranges(p, e));
    if (p->dry_allowed < 1 || p->dry_allowed > LIMIT_DRY_MATCH)
        return err_set(e, ST_ARGUMENT, "dry_allowed_length", "dry_allowed_length must be between 1 and %u, not %u",
                       LIMIT_DRY_MATCH, p->dry_allowed);
    TRY(check_bias(p, vocab, e));
    TRY(check_set(&p->breakers, "dry_sequence_breakers", e));
    TRY(check_set(&p->protect, "xtc_probability", e));
    TRY(check_set(&p->ends, "min_tokens", e));
    TRY(check_order(p, e));
    return check_mirostat(p, e);
}

/* --- copies and state ------------------------------------------------------------------------------------------------ */

static bool copy_bytes(const void **p, size_t n, struct arena *a)
{
    void *to = n ? arena_try(a, n) : NULL;
    if (to)
        memcpy(to, *p, n);
    *p = to;
    return to || !n;
}

static bool copy_set(struct sample_set *s, struct arena *a)
{
    const void *bits = s->bits;
    bool fine = copy_bytes(&bits, ((size_t)s->n + 7) / 8, a);
    s->bits = bits;
    return fine;
}

enum status sample_params_copy(struct sample_params *dst, const struct sample_params *src, struct arena *a,
                               struct err *e)
{
    *dst = *src;
    const void *bias = src->bias;
    bool fine = copy_bytes(&bias, src->bias_n * sizeof *src->bias, a);
    dst->bias = bias;
    if (fine && copy_set(&dst->breakers, a) && copy_set(&dst->protect, a) && copy_set(&dst->ends, a))
        return ST_OK;
    return err_set(e, ST_NO_MEMORY, "", "no memory for the sampling parameters of a request");
}

bool sample_needs_dist(const struct sample_params *p)
{
    return p->mirostat && p->temperature > 0.0f;
}

void sample_state_begin(struct sample_state *st, const struct sample_params *p)
{
    st->mu = 2 * (double)p->mirostat_tau;
}
