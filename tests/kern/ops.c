/* ops: norms, activations, rotation, arg-max, exponential sums. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static float *floats(struct check *c, size_t n, float scale)
{
    float *x = guard_alloc(n * 4, 4);
    for (size_t i = 0; i < n; i++)
        x[i] = rnd_float(c, scale);
    return x;
}

static float *copy(const float *x, size_t n)
{
    float *y = guard_alloc(n * 4, 4);
    memcpy(y, x, n * 4);
    return y;
}

/* Every exponent, both signs, and the values where something changes. */
static float *awkward(struct check *c, size_t n)
{
    static const float special[] = {0, -0.0f, 1, -1, 0.625f, -0.625f, 0.6249999f, 88, 88.1f, -87.33654f, -87.3366f,
                                    -103, 1e-40f, -1e-40f, 3e38f, -3e38f, 44, -44, 1e-20f, 700};
    float *x = guard_alloc(n * 4, 4);
    for (size_t i = 0; i < n; i++) {
        float f = rnd_float(c, 1); /* apart, so that compilers agree on which is drawn first */
        int exponent = (int)rnd_below(c, 40) - 25;
        x[i] = i < sizeof special / sizeof *special ? special[i] : ldexpf(f, exponent);
    }
    return x;
}

static void check_row(struct check *c, uint32_t n)
{
    const struct kern_ops *ref = kern_level_ops(KERN_REF);
    float *x = floats(c, n, 3), *w = floats(c, n, 1), *a = copy(x, n), *b = copy(x, n), *h = awkward(c, n);
    ref->rms_norm(x, w, n, 1e-6f, a);
    c->ops->rms_norm(x, w, n, 1e-6f, b);
    same(c, "rms_norm", a, b, n * 4);
    a = copy(x, n), b = copy(x, n);
    ref->rms_norm(a, w, n, 1e-6f, a);
    c->ops->rms_norm(b, w, n, 1e-6f, b);
    same(c, "rms_norm in place", a, b, n * 4);
    for (int kind = 0; kind < 2; kind++) {
        a = copy(x, n), b = copy(x, n);
        ref->glu((enum kern_glu)kind, h, w, n, a);
        c->ops->glu((enum kern_glu)kind, h, w, n, b);
        same(c, kind ? "gelu" : "silu", a, b, n * 4);
    }
    a = copy(x, n), b = copy(x, n);
    ref->add(a, w, n);
    c->ops->add(b, w, n);
    same(c, "add", a, b, n * 4);
    a = copy(h, n), b = copy(h, n);
    ref->softcap(a, n, 30);
    c->ops->softcap(b, n, 30);
    same(c, "softcap", a, b, n * 4);
    float sa = ref->exp_sum(h, n, 5), sb = c->ops->exp_sum(h, n, 5);
    same(c, "exp_sum", &sa, &sb, 4);
    guard_release();
}

static void check_rope(struct check *c, uint32_t pairs)
{
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        float *x = floats(c, 2 * pairs, 2), *cs = floats(c, 2 * pairs, 1), *a = copy(x, 2 * pairs), *b = copy(x, 2 * pairs);
        kern_level_ops(KERN_REF)->rope(a, cs, pairs, interleaved);
        c->ops->rope(b, cs, pairs, interleaved);
        same(c, interleaved ? "rope interleaved" : "rope", a, b, 2 * pairs * 4);
        guard_release();
    }
}

static void check_argmax(struct check *c, uint32_t n, int kind)
{
    float *x = floats(c, n, 5);
    for (uint32_t i = 0; kind == 1 && i < n; i++) /* many ties */
        x[i] = (float)rnd_below(c, 3);
    if (kind == 2)
        x[rnd_below(c, n)] = rnd(c) & 1 ? NAN : INFINITY;
    if (kind == 3)
        for (uint32_t i = 0; i < n; i++)
            x[i] = -7;
    struct kern_top a = kern_level_ops(KERN_REF)->argmax(x, n), b = c->ops->argmax(x, n);
    same(c, "argmax finite", &a.finite, &b.finite, sizeof a.finite);
    if (a.finite) {
        same(c, "argmax index", &a.index, &b.index, 4);
        same(c, "argmax value", &a.value, &b.value, 4);
    }
    guard_release();
}

/* The elementary functions against libm: the reference itself has to be right. */
static void check_accuracy(struct check *c)
{
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        float x = -87.0f + (float)i * (175.0f / 200000);
        double want = exp((double)x), err = fabs((double)kern_exp(x) - want) / want;
        worst = err <= worst ? worst : err;
    }
    bool good = worst < 2e-7;
    c->passed += good;
    c->failed += !good;
    double trig = 0;
    for (int i = 0; i < 200000; i++) {
        float x = rnd_float(c, i < 100000 ? 100.0f : 2e6f), s, k;
        kern_sincos(x, &s, &k);
        double e1 = fabs((double)s - sin((double)x)), e2 = fabs((double)k - cos((double)x));
        trig = e1 <= trig ? trig : e1;
        trig = e2 <= trig ? trig : e2;
    }
    good = trig < 7e-8;
    c->passed += good;
    c->failed += !good;
    if (!(worst < 2e-7 && trig < 7e-8))
        printf("FAIL accuracy: exp %g relative, sin and cos %g absolute\n", worst, trig);
    for (uint32_t h = 0; h < 65536; h++) { /* every half there and back */
        uint16_t back = kern_f32_to_f16(kern_f16_to_f32((uint16_t)h));
        bool nan = (h & 0x7C00) == 0x7C00 && (h & 0x3FF);
        if (back != (nan ? (h | 0x200) : h)) {
            printf("FAIL half %04x comes back as %04x\n", h, back);
            c->failed++;
        }
    }
    c->passed++;
}

void check_ops(struct check *c)
{
    static const uint32_t sizes[] = {1, 7, 15, 16, 17, 31, 32, 63, 64, 80, 128, 576, 1000, 1537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_row(c, sizes[i]);
    for (uint32_t p = 1; p < 70; p += 5)
        check_rope(c, p);
    check_rope(c, 16);
    check_rope(c, 32);
    for (int kind = 0; kind < 4; kind++)
        for (uint32_t n = 1; n < 200; n += 13)
            check_argmax(c, n, kind);
    check_accuracy(c);
}
