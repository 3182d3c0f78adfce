/*
 * rope: rotation frequencies and their scalings.
 *
 * Su et al., arXiv 2104.09864. freq[i] = base^(-2i/d). Scalings: linear (positions divided by a factor), llama3 (per-pair
 * factors that the file carries as a tensor), yarn (Peng et al., arXiv 2309.00071: interpolate slow pairs, keep fast
 * ones, ramp between; attention scaled by 0.1 ln(factor) + 1). All in double with our own exp and log, so that a machine's
 * libm does not decide about bits.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/net.h"

#define PI 3.14159265358979323846

struct scaling {
    enum { SCALE_NONE, SCALE_LINEAR, SCALE_YARN } kind;
    double factor, original, attn_factor, beta_fast, beta_slow;
};

/* An optional number between 1e-6 and 1e12: rotations outside make no sense. */
static enum status meta_double(const struct model *m, const struct weights *w, const char *name, double *out,
                               struct err *e)
{
    char key[96];
    float f = (float)*out;
    snprintf(key, sizeof key, "%s.%s", m->family->arch, name);
    TRY(model_may_f32(w, key, 1e-6f, 1e12f, &f, e));
    if (weights_has(w, key))
        *out = (double)f;
    return ST_OK;
}

static enum status load_kind(const struct model *m, const struct weights *w, struct scaling *s, struct err *e)
{
    char key[96], shown[41];
    struct weights_str kind;
    snprintf(key, sizeof key, "%s.rope.scaling.type", m->family->arch);
    s->kind = s->factor == 1 ? SCALE_NONE : SCALE_LINEAR;
    if (!weights_has(w, key))
        return ST_OK;
    if (!weights_string(w, key, &kind))
        return err_set(e, ST_MODEL, key, "%s: %s is not a string", weights_shown(w), key);
    model_plain(kind, shown, sizeof shown);
    if (!strcmp(shown, "none"))
        s->kind = SCALE_NONE;
    else if (!strcmp(shown, "linear"))
        s->kind = SCALE_LINEAR;
    else if (!strcmp(shown, "yarn"))
        s->kind = SCALE_YARN;
    else
        return err_set(e, ST_UNSUPPORTED, key, "%s: %s is \"%s\", expected none, linear or yarn", weights_shown(w), key,
                       shown);
    return ST_OK;
}

static enum status load_scaling(const struct model *m, const struct weights *w, struct scaling *s, struct err *e)
{
    *s = (struct scaling){.kind = SCALE_NONE,
                          .factor = 1,
                          .original = (double)m->info.context,
                          .attn_factor = 1,
                          .beta_fast = 32,
                          .beta_slow = 1};
    TRY(meta_double(m, w, "rope.scaling.original_context_length", &s->original, e));
    TRY(meta_double(m, w, "rope.scale_linear", &s->factor, e)); /* what older files call it */
    TRY(meta_double(m, w, "rope.scaling.factor", &s->factor, e));
    TRY(meta_double(m, w, "rope.scaling.attn_factor", &s->attn_factor, e));
    TRY(meta_double(m, w, "rope.scaling.yarn_beta_fast", &s->beta_fast, e));
    TRY(meta_double(m, w, "rope.scaling.yarn_beta_slow", &s->beta_slow, e));
    return load_kind(m, w, s, e);
}

/* The pair that turns `turns` times over the original context. */
static double yarn_pair(double turns, double base, double original, double dims)
{
    return dims * math_log(original / (turns * 2 * PI)) / (2 * math_log(base));
}

static enum status fill(struct model *m, struct rope *r, uint32_t pairs, double base, const struct scaling *s,
                        const float *factors, struct err *e)
{
    r->pairs = pairs;
    r->mscale = 1;
    r->freq = arena_try(&m->arena, pairs * sizeof *r->freq);
    if (!r->freq)
        return err_set(e, ST_NO_MEMORY, "", "no memory for rotations");
    double dims = 2.0 * pairs, low = 0, high = 0;
    if (s->kind == SCALE_YARN) {
        low = fmax(floor(yarn_pair(s->beta_fast, base, s->original, dims)), 0);
        high = fmin(ceil(yarn_pair(s->beta_slow, base, s->original, dims)), dims - 1);
        if (high <= low)
            high = low + 0.001;
        r->mscale = (float)(s->attn_factor * (s->factor > 1 ? 0.1 * math_log(s->factor) + 1 : 1));
    }
    for (uint32_t i = 0; i < pairs; i++) {
        double f = math_exp(-2.0 * i / dims * math_log(base));
        if (factors)
            f /= (double)factors[i];
        if (s->kind == SCALE_LINEAR)
            f /= s->factor;
        if (s->kind == SCALE_YARN) {
            double keep = 1 - fmin(fmax((i - low) / (high - low), 0), 1);
            f = f / s->factor * (1 - keep) + f * keep;
        }
        r->freq[i] = (float)f;
    }
    return ST_OK;
}

enum status rope_load(struct model *m, const struct weights *w, uint32_t pairs, const float *factors, struct err *e)
{
    struct scaling s;
    double base = 10000, local = (double)m->family->rope_base_local;
    TRY(meta_double(m, w, "rope.freq_base", &base, e));
    if (local > 0)
        TRY(meta_double(m, w, "rope.freq_base_swa", &local, e));
    else
        local = base;
    if (base <= 1 || local <= 1)
        return err_set(e, ST_MODEL, "rope.freq_base", "%s: rotation bases must be above 1", weights_shown(w));
    TRY(load_scaling(m, w, &s, e));
    TRY(fill(m, &m->rope_full, pairs, base, &s, factors, e));
    struct scaling none = {.kind = SCALE_NONE, .factor = 1};
    return fill(m, &m->rope_local, pairs, local, m->family->rope_base_local > 0 ? &none : &s,
                m->family->rope_base_local > 0 ? NULL : factors, e);
}

void rope_angles(const struct rope *r, uint32_t pos, float *cs)
{
    for (uint32_t i = 0; i < r->pairs; i++) {
        float s, c;
        kern_sincos((float)pos * r->freq[i], &s, &c);
        cs[i] = c * r->mscale;
        cs[r->pairs + i] = s * r->mscale;
    }
}
