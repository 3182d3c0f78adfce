/* cost: see cost.h. */
#include "engine/cost.h"

#include <math.h>

#define RATE 0.1        /* weight of a new observation once there were ten */
#define OUTLIER 4.0     /* a step that took this many times longer or shorter than predicted counts as this */
#define KEYS_UNIT 1e6
#define ATTENTION_SHARE 0.125 /* of the int8 rate, in a first guess: products of attention are f32 and read its keys */

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
        c->point[i].ms = fmax(1e3 * (body_bytes / m->bytes_per_s + n * body_macs / m->macs_per_s), 1e-6);
    }
    c->head_ms = fmax(1e3 * ((bytes - body_bytes) / m->bytes_per_s + head_macs / m->macs_per_s), 1e-6);
    double per_key = 2.0 * info->heads * info->head_dim;
    c->attention_ms = fmax(1e3 * KEYS_UNIT * per_key / (ATTENTION_SHARE * m->macs_per_s), 1e-6);
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
    return ST_OK;
}

void cost_begin(struct cost *c, const struct engine_cost *curve)
{
    *c = (struct cost){.curve = *curve};
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
        return (struct place){c->n - 1, c->n - 1, 0};
    double from = c->point[i - 1].tokens, to = c->point[i].tokens;
    return (struct place){i - 1, i, (tokens - from) / (to - from)};
}

double cost_body_ms(const struct engine_cost *c, uint32_t tokens)
{
    if (!tokens)
        return 0;
    struct place p = find_place(c, tokens);
    const struct engine_cost_point *last = &c->point[c->n - 1];
    if (tokens > last->tokens)
        return last->ms * tokens / last->tokens;
    return c->point[p.lo].ms + (c->point[p.hi].ms - c->point[p.lo].ms) * p.f;
}

double cost_ms(const struct engine_cost *c, uint32_t tokens, uint32_t heads, double keys)
{
    return cost_body_ms(c, tokens) + c->head_ms * heads + c->attention_ms * keys / KEYS_UNIT;
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

/* --- learning -------------------------------------------------------------------------------------------------------- */

static double clamp_ratio(double measured, double predicted)
{
    double r = measured / predicted;
    return r > OUTLIER ? OUTLIER : r < 1 / OUTLIER ? 1 / OUTLIER : r;
}

/* Moves *x towards ratio × itself by `share` of the weight the next observation has. */
static void move(double *x, uint32_t *seen, double ratio, double share)
{
    double rate = 1.0 / (*seen + 1);
    *x *= 1 + (rate > RATE ? rate : RATE) * share * (ratio - 1);
    if (share >= 0.5 && *seen < UINT32_MAX)
        ++*seen;
}

/* More ids never take less time. What was not seen yet gives way to what was. */
static void keep_order(struct engine_cost *c, uint32_t at)
{
    for (uint32_t i = at + 1; i < c->n; i++)
        c->point[i].ms = fmax(c->point[i].ms, c->point[i - 1].ms);
    for (uint32_t i = at; i-- > 0;)
        c->point[i].ms = fmin(c->point[i].ms, c->point[i + 1].ms);
}

void cost_saw_forward(struct cost *c, uint32_t tokens, double keys, double ms)
{
    struct engine_cost *v = &c->curve;
    if (v->frozen || !tokens || !(ms > 0))
        return;
    double body = cost_body_ms(v, tokens), attention = v->attention_ms * keys / KEYS_UNIT;
    double ratio = clamp_ratio(ms, body + attention), share = body / (body + attention);
    struct place p = find_place(v, tokens);
    for (uint32_t i = 0; i < v->n; i++) {
        double near = i == p.lo ? 1 - p.f : i == p.hi ? p.f : 0;
        if (near > 0)
            move(&v->point[i].ms, &c->seen[i], ratio, share * near);
        else if (!c->seen[i]) /* the best that is known of it */
            v->point[i].ms *= 1 + RATE * share * (ratio - 1);
    }
    keep_order(v, p.f < 0.5 ? p.lo : p.hi);
    move(&v->attention_ms, &c->seen_attention, ratio, 1 - share);
}

void cost_saw_heads(struct cost *c, uint32_t heads, double ms)
{
    if (c->curve.frozen || !heads || !(ms > 0))
        return;
    move(&c->curve.head_ms, &c->seen_head, clamp_ratio(ms, c->curve.head_ms * heads), 1);
}
