/* cost: see cost.h. */
#include "engine/cost.h"

#include <math.h>

#define RATE 0.1       /* of an error, corrected at each step once there were some */
#define DRIFT 0.002    /* of the way to what is observed elsewhere, for points without news */
#define CLIP 2.0       /* a step that took this many times longer than predicted counts as this: the machine slept */
#define FACTOR_MOST 64.0
#define WEIGHT_MOST 100.0
#define LATE_UP 0.1     /* late steps are learnt from soon and forgotten slowly: most steps should end in time */
#define LATE_DOWN 0.005
#define KEYS_UNIT 1e6
/* Of the int8 rate, in a first guess: the real pass does other things as well, and attention works in f32. */
#define PASS_SHARE 0.6
#define KEYS_SHARE 0.25
#define DECODE_SHARE 0.1

static const uint32_t default_tokens[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
#define DEFAULT_POINTS (sizeof default_tokens / sizeof *default_tokens)

void engine_cost_guess(struct engine_cost *c, const struct model_info *info, const struct engine_machine *machine)
{
    static const struct engine_machine modest = {.bytes_per_s = 20e9, .macs_per_s = 100e9};
    const struct engine_machine *m = machine ? machine : &modest;
    double body_macs = (double)info->token_macs, head_macs = (double)info->head_macs;
    double bytes = (double)info->token_bytes, body_bytes = bytes * body_macs / fmax(body_macs + head_macs, 1);
    *c = (struct engine_cost){.n = DEFAULT_POINTS};
    for (uint32_t i = 0; i < DEFAULT_POINTS; i++) {
        uint32_t n = default_tokens[i];
        c->point[i].tokens = n;
        c->point[i].ms = fmax(1e3 * (body_bytes / m->bytes_per_s + n * body_macs / (PASS_SHARE * m->macs_per_s)), 1e-6);
    }
    c->head_ms = fmax(1e3 * ((bytes - body_bytes) / m->bytes_per_s + head_macs / m->macs_per_s), 1e-6);
    double per_key = 2.0 * info->heads * info->head_dim;
    c->attention_ms = fmax(1e3 * KEYS_UNIT * per_key / (KEYS_SHARE * m->macs_per_s), 1e-6);
    c->decode_attention_ms = fmax(1e3 * KEYS_UNIT * per_key / (DECODE_SHARE * m->macs_per_s), 1e-6);
}

static bool positive(double x)
{
    return x > 0 && x < 1e9;
}

enum status engine_cost_check(const struct engine_cost *c, struct err *e)
{
    if (!c->n || c->n > ENGINE_COST_POINTS)
        return err_set(e, ST_ARGUMENT, "points", "a cost curve has 1 to %u points, not %u", ENGINE_COST_POINTS, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t before = i ? c->point[i - 1].tokens : 0;
        if (c->point[i].tokens <= before)
            return err_set(e, ST_ARGUMENT, "points", "points[%u].tokens must be above %u, not %u", i, before,
                           c->point[i].tokens);
        if (!positive(c->point[i].ms))
            return err_set(e, ST_ARGUMENT, "points", "points[%u].ms must be a positive number", i);
    }
    if (!positive(c->head_ms))
        return err_set(e, ST_ARGUMENT, "head_ms_per_position", "head_ms_per_position must be a positive number");
    if (!positive(c->attention_ms))
        return err_set(e, ST_ARGUMENT, "attention_ms_per_mkey", "attention_ms_per_mkey must be a positive number");
    if (!positive(c->decode_attention_ms))
        return err_set(e, ST_ARGUMENT, "decode_attention_ms_per_mkey",
                       "decode_attention_ms_per_mkey must be a positive number");
    return ST_OK;
}

/* --- prediction ------------------------------------------------------------------------------------------------------ */

/* The points around `tokens`, and how far it lies towards the upper one. */
struct place {
    uint32_t lo, hi;
    double f;
};

static struct place find_place(const struct engine_cost *c, uint32_t tokens)
{
    uint32_t i = 0;
    while (i < c->n && c->point[i].tokens < tokens)
        i++;
    if (i == 0)
        return (struct place){0, 0, 0};
    if (i == c->n)
        return (struct place){c->n - 1, c->n - 1, 0}; /* beyond: in proportion */
    double from = c->point[i - 1].tokens, to = c->point[i].tokens;
    return (struct place){i - 1, i, (tokens - from) / (to - from)};
}

static double body_ms(const struct engine_cost *c, uint32_t tokens)
{
    if (!tokens)
        return 0;
    struct place p = find_place(c, tokens);
    const struct engine_cost_point *last = &c->point[c->n - 1];
    if (tokens > last->tokens)
        return last->ms * tokens / last->tokens;
    return c->point[p.lo].ms + (c->point[p.hi].ms - c->point[p.lo].ms) * p.f;
}

double cost_ms(const struct engine_cost *c, const struct cost_work *w)
{
    return body_ms(c, w->tokens) + c->head_ms * w->heads + c->attention_ms * w->keys / KEYS_UNIT
           + c->decode_attention_ms * w->decode_keys / KEYS_UNIT;
}

double cost_keys(const struct kv_shape *group, uint32_t len, uint32_t n)
{
    /* Position p sees min(p + 1, window) keys: an arithmetic series up to the window, then a constant. */
    double w = group->window ? group->window : INFINITY, first = (double)len + 1, last = (double)len + n;
    double keys;
    if (first >= w)
        keys = w * n;
    else if (last <= w)
        keys = (first + last) / 2 * n;
    else
        keys = (first + w) / 2 * (w - first + 1) + w * (last - w);
    return keys * group->layers;
}

double engine_cost_keys(const struct model_info *info, uint32_t len, uint32_t n)
{
    double keys = 0;
    for (uint32_t g = 0; g < info->kv_groups; g++)
        keys += cost_keys(&info->kv_group[g], len, n);
    return keys;
}

void cost_add(struct cost_work *w, const struct kv_shape *groups, uint32_t groups_n, uint32_t len, uint32_t n)
{
    w->tokens += n;
    for (uint32_t g = 0; g < groups_n && n; g++)
        *(n == 1 ? &w->decode_keys : &w->keys) += cost_keys(&groups[g], len, n);
}

/* --- learning -------------------------------------------------------------------------------------------------------- */

static double bounded(double factor)
{
    return factor > FACTOR_MOST ? FACTOR_MOST : factor < 1 / FACTOR_MOST ? 1 / FACTOR_MOST : factor;
}

/* More ids never take less time: points that say so are pooled, each counting as much as is known of it (isotonic
 * regression by pooling adjacent violators: Barlow et al., "Statistical inference under order restrictions", 1972). */
static void apply(struct cost *c)
{
    double ms[ENGINE_COST_POINTS], weight[ENGINE_COST_POINTS];
    uint32_t size[ENGINE_COST_POINTS], pools = 0;
    for (uint32_t i = 0; i < c->guess.n; i++) {
        ms[pools] = c->guess.point[i].ms * c->factor[i];
        weight[pools] = c->weight[i] + 1e-3;
        size[pools++] = 1;
        for (; pools > 1 && ms[pools - 1] < ms[pools - 2]; pools--) {
            double both = weight[pools - 2] + weight[pools - 1];
            ms[pools - 2] = (ms[pools - 2] * weight[pools - 2] + ms[pools - 1] * weight[pools - 1]) / both;
            weight[pools - 2] = both;
            size[pools - 2] += size[pools - 1];
        }
    }
    for (uint32_t k = 0, i = 0; k < pools; k++)
        for (uint32_t j = 0; j < size[k]; j++)
            c->curve.point[i++].ms = ms[k];
    c->curve.attention_ms = c->guess.attention_ms * c->keys_factor;
    c->curve.decode_attention_ms = c->guess.decode_attention_ms * c->decode_factor;
    c->curve.head_ms = c->guess.head_ms * c->head_factor;
}

void cost_begin(struct cost *c, const struct engine_cost *curve)
{
    *c = (struct cost){.curve = *curve, .guess = *curve, .keys_factor = 1, .decode_factor = 1, .head_factor = 1};
    for (uint32_t i = 0; i < ENGINE_COST_POINTS; i++)
        c->factor[i] = 1;
}

/* The other points follow: at once if nothing is known of them, slowly if it was long ago. */
static void drift(struct cost *c, const struct place *p)
{
    double here = c->factor[p->lo] * pow(c->factor[p->hi] / c->factor[p->lo], p->f);
    for (uint32_t i = 0; i < c->guess.n; i++) {
        if (i == p->lo || i == p->hi)
            continue;
        double way = c->weight[i] < 1 ? 0.5 : DRIFT;
        c->factor[i] = bounded(c->factor[i] * pow(here / c->factor[i], way));
        c->weight[i] *= 1 - DRIFT;
    }
}

void cost_saw_forward(struct cost *c, const struct cost_work *w, double ms)
{
    const struct engine_cost *v = &c->curve;
    if (v->frozen || !w->tokens || !(ms > 0) || !(ms < 1e9))
        return;
    struct place p = find_place(v, w->tokens);
    uint32_t last = v->point[v->n - 1].tokens;
    double beyond = w->tokens > last ? (double)w->tokens / last : 1;
    struct {
        double ms, *factor, *weight;
    } part[] = {
        {v->point[p.lo].ms * (1 - p.f) * beyond, &c->factor[p.lo], &c->weight[p.lo]},
        {v->point[p.hi].ms * p.f * beyond, &c->factor[p.hi], &c->weight[p.hi]},
        {v->attention_ms * w->keys / KEYS_UNIT, &c->keys_factor, NULL},
        {v->decode_attention_ms * w->decode_keys / KEYS_UNIT, &c->decode_factor, NULL},
    };
    double predicted = 0, squares = 0;
    for (int i = 0; i < 4; i++) {
        predicted += part[i].ms;
        squares += part[i].ms * part[i].ms;
    }
    double known = c->weight[p.lo] + c->weight[p.hi], rate = fmax(RATE, 1 / (1 + known));
    double error = fmin(ms, (known < 3 ? FACTOR_MOST : CLIP) * predicted) - predicted;
    for (int i = 0; i < 4; i++) {
        *part[i].factor = bounded(*part[i].factor * fmax(1 + rate * error * part[i].ms / squares, 0.1));
        if (part[i].weight)
            *part[i].weight = fmin(*part[i].weight + part[i].ms * part[i].ms / squares, WEIGHT_MOST);
    }
    drift(c, &p);
    apply(c);
    double late = fmax(error / predicted, 0);
    c->late += (late > c->late ? LATE_UP : LATE_DOWN) * (late - c->late);
}

void cost_saw_heads(struct cost *c, uint32_t heads, double ms)
{
    if (c->curve.frozen || !heads || !(ms > 0) || !(ms < 1e9))
        return;
    double predicted = c->curve.head_ms * heads, most = (c->heads_seen < 3 ? FACTOR_MOST : CLIP) * predicted;
    double rate = fmax(RATE, 1 / (1 + c->heads_seen));
    c->head_factor = bounded(c->head_factor * (1 + rate * (fmin(ms, most) / predicted - 1)));
    c->heads_seen += 1;
    apply(c);
}
