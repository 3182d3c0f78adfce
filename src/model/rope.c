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

static void key_of(const struct model *m, const char *name, char *out, size_t cap)
{
    snprintf(out, cap, "%s.%s", m->family->arch, name);
}

static double meta_double(const struct model *m, const struct weights *w, const char *name, double otherwise)
{
    char key[96];
    float f;
    key_of(m, name, key, sizeof key);
    return weights_f32(w, key, &f) ? (double)f : otherwise;
}

static enum status load_scaling(const struct model *m, const struct weights *w, struct scaling *s, struct err *e)
{
    char key[96];
    struct weights_str kind;
    uint32_t original = m->info.context;
    *s = (struct scaling){.kind = SCALE_NONE, .factor = 1};
    key_of(m, "rope.scaling.original_context_length", key, sizeof key);
    weights_u32(w, key, &original);
    s->original = original;
    s->factor = meta_double(m, w, "rope.scaling.factor", meta_double(m, w, "rope.scale_linear", 1));
    s->attn_factor = meta_double(m, w, "rope.scaling.attn_factor", 1);
    s->beta_fast = meta_double(m, w, "rope.scaling.yarn_beta_fast", 32);
    s->beta_slow = meta_double(m, w, "rope.scaling.yarn_beta_slow", 1);
    if (!(s->factor > 0 && s->factor < 1e6 && s->attn_factor > 0 && s->attn_factor < 1e6 && s->beta_fast > 0
          && s->beta_slow > 0 && original > 0))
        return err_set(e, ST_MODEL, "rope.scaling", "%s.rope.scaling has values out of range", m->family->arch);
    key_of(m, "rope.scaling.type", key, sizeof key);
    if (!weights_string(w, key, &kind)) {
        s->kind = s->factor == 1 ? SCALE_NONE : SCALE_LINEAR;
        return ST_OK;
    }
    if (kind.n == 4 && !memcmp(kind.s, "none", 4))
        s->kind = SCALE_NONE;
    else if (kind.n == 6 && !memcmp(kind.s, "linear", 6))
        s->kind = SCALE_LINEAR;
    else if (kind.n == 4 && !memcmp(kind.s, "yarn", 4))
        s->kind = SCALE_YARN;
    else
        return err_set(e, ST_UNSUPPORTED, key, "%s is \"%.*s\", expected none, linear or yarn", key,
                       (int)(kind.n < 40 ? kind.n : 40), kind.s);
    return ST_OK;
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
    double base = meta_double(m, w, "rope.freq_base", 10000), local = (double)m->family->rope_base_local;
    local = local > 0 ? meta_double(m, w, "rope.freq_base_swa", local) : base;
    if (!(base > 1 && base < 1e12 && local > 1 && local < 1e12))
        return err_set(e, ST_MODEL, "rope.freq_base", "%s.rope.freq_base must be above 1", m->family->arch);
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
