/*
 * encode: f32 values into the blocks of weight types; the inverse of kern_to_f32(). For files that are made, not for the
 * path of a token: plain C, one version.
 *
 * Q8_0 and Q4_0 follow ggml's reference to the bit: one scale for 32 values, from the one of largest magnitude. Q4_K and
 * Q6_K are searches of our own for the scales of least squared error: a few ways to lay the grid over a group's values
 * are tried, and for the codes of each the best scale (and minimum) is a small linear least-squares problem. Then the
 * groups' scales are rounded to the block's own grid and the codes are chosen again for the scales that result.
 *
 * Layouts: ggml-common.h of ggml.
 */
#include <math.h>
#include <string.h>

#include "kern/half.h"
#include "kern/kern.h"

#define TINY 1e-30f /* a group whose largest value is below this is all zero */

static void put16(uint8_t *at, uint16_t v)
{
    memcpy(at, &v, sizeof v);
}

static float clamp(float x, float lo, float hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Nearest code, ties to even: from 2^23 on floats are whole numbers, so adding that much rounds. (rintf() is a call.) */
static float nearest(float x, float lo, float hi)
{
    return clamp(x, lo, hi) + 0x1.8p23f - 0x1.8p23f;
}

/* Halves away from zero; the sum is exact. */
static int round_away(float x)
{
    return (int)((double)x + (x < 0 ? -0.5 : 0.5));
}

/* The value of largest magnitude, the first of equals, with its sign. */
static float extreme(const float *x, int n)
{
    float best = x[0];
    for (int i = 1; i < n; i++)
        best = fabsf(x[i]) > fabsf(best) ? x[i] : best;
    return best;
}

/* 1 / d, or 0 where that is no number to work with. */
static float inverse(float d)
{
    return fabsf(d) < TINY ? 0.0f : 1.0f / d;
}

/* --- Q8_0, Q4_0 ------------------------------------------------------------------------------------------------------- */

/* f16 d = amax / 127, int8 q[32] = x / d rounded, halves away from zero. */
static void encode_q8_0(const float *x, uint8_t *out)
{
    float d = fabsf(extreme(x, 32)) / 127.0f, id = inverse(d);
    put16(out, f32_half(d));
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)round_away(clamp(x[i] * id, -127, 127));
}

/* f16 d = extreme / -8, 16 bytes of codes x / d + 8: value i in the low half of byte i, value i + 16 in the high one. */
static void encode_q4_0(const float *x, uint8_t *out)
{
    float d = extreme(x, 32) / -8.0f, id = inverse(d);
    put16(out, f32_half(d));
    for (int i = 0; i < 16; i++) {
        int lo = (int)clamp(x[i] * id + 8.5f, 0, 15), hi = (int)clamp(x[i + 16] * id + 8.5f, 0, 15);
        out[2 + i] = (uint8_t)(lo | hi << 4);
    }
}

/* --- Q4_K ------------------------------------------------------------------------------------------------------------- */

#define GROUP 32
#define GROUPS 8
#define GRIDS_4K 16 /* ways to lay the grid over a group */

struct fit {
    float scale, minimum; /* x is near scale × q - minimum; minimum >= 0 */
};

/* Sums over a group of values, and over their codes. Four at a time: the compiler may not regroup sums by itself. */
struct sums {
    float x, xx, q, qq, xq;
};

static float add_up(const float *lanes)
{
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

static void sum_values(const float *x, struct sums *s)
{
    float sx[4] = {0}, sxx[4] = {0};
    for (int i = 0; i < GROUP; i += 4)
        for (int k = 0; k < 4; k++) {
            sx[k] += x[i + k];
            sxx[k] += x[i + k] * x[i + k];
        }
    s->x = add_up(sx);
    s->xx = add_up(sxx);
}

static void sum_codes(const float *x, int n, float lo, float per_step, float least, float most, struct sums *s)
{
    float sq[4] = {0}, sqq[4] = {0}, sxq[4] = {0};
    for (int i = 0; i < n; i += 4)
        for (int k = 0; k < 4; k++) {
            float q = nearest((x[i + k] - lo) * per_step, least, most);
            sq[k] += q;
            sqq[k] += q * q;
            sxq[k] += x[i + k] * q;
        }
    s->q = add_up(sq);
    s->qq = add_up(sqq);
    s->xq = add_up(sxq);
}

/* The best scale and minimum for the codes of a grid go to *f; returns the squared error that they leave. */
static float try_grid(const float *x, float lo, float per_step, struct sums s, struct fit *f)
{
    sum_codes(x, GROUP, lo, per_step, 0, 15, &s);
    float det = GROUP * s.qq - s.q * s.q;
    f->scale = det > 0 ? (GROUP * s.xq - s.x * s.q) / det : 0;
    f->minimum = (f->scale * s.q - s.x) / GROUP;
    if (f->minimum < 0) { /* the format subtracts minima: without one, the scale alone */
        f->minimum = 0;
        f->scale = s.qq > 0 ? s.xq / s.qq : 0;
    }
    if (!(f->scale > 0))
        return INFINITY;
    /* sum of (x - scale q + minimum)^2, multiplied out */
    return s.xx + f->scale * f->scale * s.qq + GROUP * f->minimum * f->minimum - 2 * f->scale * s.xq +
           2 * f->minimum * s.x - 2 * f->scale * f->minimum * s.q;
}

static struct fit fit_group(const float *x)
{
    float lo = 0, hi = x[0], least = INFINITY;
    struct fit best = {0, 0}, f;
    struct sums s;
    for (int i = 0; i < GROUP; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    sum_values(x, &s);
    best.minimum = -lo; /* all equal and negative: that is the minimum alone */
    if (hi - lo < TINY)
        return best;
    for (int i = 0; i < GRIDS_4K; i++) { /* from 14.2 to 17.2 steps over the range: the ends may be cut */
        float error = try_grid(x, lo, (14.2f + 0.2f * (float)i) / (hi - lo), s, &f);
        if (error < least) {
            least = error;
            best = f;
        }
    }
    return best;
}

/* The 6-bit pair (scale, minimum) of group g in 12 bytes. */
static void put_pair(uint8_t *s, int g, int scale, int minimum)
{
    if (g < 4) {
        s[g] |= (uint8_t)scale;
        s[g + 4] |= (uint8_t)minimum;
    } else {
        s[g + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        s[g - 4] |= (uint8_t)(scale >> 4 << 6);
        s[g] |= (uint8_t)(minimum >> 4 << 6);
    }
}

/* f16 d, dmin; 12 bytes of pairs; 128 of codes: group g in bytes 32 (g / 2)…, the low halves for even g. */
static void encode_q4_k(const float *x, uint8_t *out)
{
    struct fit f[GROUPS];
    float widest = 0, deepest = 0;
    for (int g = 0; g < GROUPS; g++) {
        f[g] = fit_group(x + GROUP * g);
        widest = f[g].scale > widest ? f[g].scale : widest;
        deepest = f[g].minimum > deepest ? f[g].minimum : deepest;
    }
    uint16_t hd = f32_half(widest / 63.0f), hm = f32_half(deepest / 63.0f);
    float d = half_f32(hd), dmin = half_f32(hm);
    memset(out, 0, 144);
    put16(out, hd);
    put16(out + 2, hm);
    for (int g = 0; g < GROUPS; g++) {
        int sc = (int)nearest(f[g].scale * inverse(d), 0, 63), mn = (int)nearest(f[g].minimum * inverse(dmin), 0, 63);
        float per_step = inverse(d * (float)sc), minimum = dmin * (float)mn;
        uint8_t *codes = out + 16 + 32 * (g / 2);
        put_pair(out + 4, g, sc, mn);
        for (int i = 0; i < GROUP; i++)
            codes[i] |= (uint8_t)((int)nearest((x[GROUP * g + i] + minimum) * per_step, 0, 15) << (g % 2 ? 4 : 0));
    }
}

/* --- Q6_K ------------------------------------------------------------------------------------------------------------- */

#define GRIDS_6K 9 /* on each side of the plain one */

/* The scale of 16 values for codes from -32 to 31: of the grids tried, the one whose best scale leaves least. For codes q
 * that is sum(x q) / sum(q q), and it takes sum(x q)^2 / sum(q q) off the sum of squares. */
static float fit_sixteen(const float *x)
{
    float peak = extreme(x, 16), most = 0, best = 0;
    if (fabsf(peak) < TINY)
        return 0;
    for (int i = -GRIDS_6K; i <= GRIDS_6K; i++) {
        struct sums s;
        sum_codes(x, 16, 0, -(32.0f + 0.1f * (float)i) / peak, -32, 31, &s);
        if (s.qq > 0 && s.xq * s.xq > most * s.qq) {
            most = s.xq * s.xq / s.qq;
            best = s.xq / s.qq;
        }
    }
    return best;
}

/* 128 bytes of low halves, 64 of upper bit pairs, 16 int8 scales, f16 d. In each half of 128 values, quarter k (32 values)
 * has its low bits in bytes 32 (k % 2)…, the low halves for k < 2, and its upper two at bit 2 k. */
static void encode_q6_k(const float *x, uint8_t *out)
{
    float scale[16];
    for (int g = 0; g < 16; g++)
        scale[g] = fit_sixteen(x + 16 * g);
    uint16_t hd = f32_half(extreme(scale, 16) / -128.0f);
    float d = half_f32(hd);
    memset(out, 0, 210);
    put16(out + 208, hd);
    for (int g = 0; g < 16; g++) {
        int sc = (int)nearest(scale[g] * inverse(d), -128, 127);
        float per_step = inverse(d * (float)sc);
        out[192 + g] = (uint8_t)(int8_t)sc;
        for (int i = 16 * g; i < 16 * g + 16; i++) {
            int q = (int)nearest(x[i] * per_step, -32, 31) + 32, half = i / 128, k = i % 128 / 32, at = i % 32;
            out[64 * half + 32 * (k % 2) + at] |= (uint8_t)((q & 15) << (k < 2 ? 0 : 4));
            out[128 + 32 * half + at] |= (uint8_t)((q >> 4) << (2 * k));
        }
    }
}

/* --- by type ---------------------------------------------------------------------------------------------------------- */

bool kern_can_encode(enum kern_type type)
{
    return type == KERN_Q8_0 || type == KERN_Q4_0 || type == KERN_Q4_K || type == KERN_Q6_K;
}

void kern_from_f32(enum kern_type type, const float *x, size_t n, void *out)
{
    const struct kern_type_info *ti = kern_type_info(type);
    uint8_t *at = out;
    if (!kern_can_encode(type))
        BUG("no encoder for %s", ti->name);
    for (size_t i = 0; i < n; i += ti->block, at += ti->file_bytes) {
        if (type == KERN_Q8_0)
            encode_q8_0(x + i, at);
        else if (type == KERN_Q4_0)
            encode_q4_0(x + i, at);
        else if (type == KERN_Q4_K)
            encode_q4_k(x + i, at);
        else
            encode_q6_k(x + i, at);
    }
}
