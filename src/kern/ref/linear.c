/*
 * linear: matrix × activations, the defining loops.
 *
 * Quantised, per output and token, over 32-k blocks in order:
 *     idot = Σ w · xq                                exact in int32
 *     acc  = fmaf(ds · dx, (float)idot, acc)
 *     acc  = fmaf(-m, dx · Σ xq, acc)                where the format has minima; Q4_1 and Q5_1 store -m
 * Q4_K, Q5_K: ds = d · scale, -m = -(dmin · min). IQ4_XS: ds = d · scale. MXFP4: ds = 2^(e - 128).
 * Q6_K, Q3_K: ds = d, idot = Σ over the block's two 16-k halves of scale · idot16.
 * Q2_K: the same, then acc = fmaf(-dmin · dx, (float)Σ min · Σ xq16, acc), the outer sum over the halves.
 * Weights w are signed: offsets are taken off, IQ4_NL, IQ4_XS and MXFP4 are looked up in their table.
 *
 * Unquantised: sec = fmaf(w, x, sec), k ascending in sections of 256; acc = acc + sec, sections in order.
 */
#include <math.h>
#include <string.h>

#include "kern/coef.h"
#include "kern/panel_read.h"
#include "kern/ref/ref.h"

/* Weights of a 32-k block, w[k][lane]. */
static void block_weights(enum kern_type type, const uint8_t *q, int16_t w[32][16])
{
    for (uint32_t k = 0; k < 32; k++)
        for (uint32_t lane = 0; lane < 16; lane++)
            w[k][lane] = (int16_t)panel_weight(type, q, lane, k);
}

enum min_kind { MIN_NONE, MIN_BLOCK, MIN_HALVES };

struct block_scales {
    float ds[16], neg_m[16];
    int32_t sc[2][16], mn[2][16]; /* of the two halves, or 1 */
    enum min_kind min;
};

static void block_scales(enum kern_type type, const uint8_t *meta, uint32_t sub, struct block_scales *s)
{
    bool block = type == KERN_Q4_1 || type == KERN_Q5_1 || type == KERN_Q4_K || type == KERN_Q5_K;
    s->min = block ? MIN_BLOCK : type == KERN_Q2_K ? MIN_HALVES : MIN_NONE;
    for (uint32_t lane = 0; lane < 16; lane++) {
        struct panel_scale p = panel_scale(type, meta, sub, lane);
        s->ds[lane] = p.ds;
        s->neg_m[lane] = p.neg_m;
        for (int i = 0; i < 2; i++) {
            s->sc[i][lane] = p.sc[i];
            s->mn[i][lane] = p.mn[i];
        }
    }
}

static void block_token(const int16_t w[32][16], const struct block_scales *s, const int8_t *xq,
                        const struct kern_xmeta *xm, float acc[16])
{
    int32_t idot[2][16] = {{0}};
    for (int k = 0; k < 32; k++)
        for (int lane = 0; lane < 16; lane++)
            idot[k / 16][lane] += w[k][lane] * xq[k];
    for (int lane = 0; lane < 16; lane++) {
        int32_t sum = s->sc[0][lane] * idot[0][lane] + s->sc[1][lane] * idot[1][lane];
        acc[lane] = fmaf(s->ds[lane] * xm->d, (float)sum, acc[lane]);
        if (s->min == MIN_BLOCK)
            acc[lane] = fmaf(s->neg_m[lane], xm->ds, acc[lane]);
        if (s->min == MIN_HALVES) {
            int32_t low = s->mn[0][lane] * xm->s16[0] + s->mn[1][lane] * xm->s16[1];
            acc[lane] = fmaf(s->neg_m[lane] * xm->d, (float)low, acc[lane]);
        }
    }
}

static void store_lanes(const struct kern_mat *m, uint32_t panel, const float acc[16], float *out)
{
    uint32_t first = panel * KERN_LANES, n = m->rows - first < KERN_LANES ? m->rows - first : KERN_LANES;
    memcpy(out + first, acc, n * sizeof *acc);
}

static void linear_quantised(const struct kern_mat *m, uint32_t panel, const struct kern_act *x, float *out,
                             size_t stride)
{
    struct panel_layout l = panel_layout(m->type);
    const uint8_t *base = m->panels + (size_t)panel * m->stride, *meta = panel_meta(base, m->type, m->cols);
    for (uint32_t t0 = 0; t0 < x->tokens; t0 += KERN_CHUNK) {
        uint32_t n = x->tokens - t0 < KERN_CHUNK ? x->tokens - t0 : KERN_CHUNK;
        const int8_t *q = x->q + (size_t)t0 * m->cols;
        const struct kern_xmeta *xm = x->meta + (size_t)t0 * (m->cols / 32);
        float acc[KERN_CHUNK][16];
        memset(acc, 0, sizeof acc);
        for (uint32_t b = 0; b < m->cols / 32; b++) {
            int16_t w[32][16];
            struct block_scales s;
            block_weights(m->type, base + (size_t)b * l.quant_bytes, w);
            block_scales(m->type, meta + (size_t)(b / l.per_block) * l.meta_bytes, b % l.per_block, &s);
            for (uint32_t t = 0; t < n; t++)
                block_token((const int16_t(*)[16])w, &s, q + ((size_t)b * n + t) * 32, xm + (size_t)b * n + t, acc[t]);
        }
        for (uint32_t t = 0; t < n; t++)
            store_lanes(m, panel, acc[t], out + (size_t)(t0 + t) * stride);
    }
}

static float plain_weight(enum kern_type type, const uint8_t *p, size_t i)
{
    if (type == KERN_F32) {
        float f;
        memcpy(&f, p + 4 * i, sizeof f);
        return f;
    }
    uint16_t h;
    memcpy(&h, p + 2 * i, sizeof h);
    return type == KERN_F16 ? half_f32(h) : bf16_f32(h);
}

static void linear_plain(const struct kern_mat *m, uint32_t panel, const struct kern_act *x, float *out, size_t stride)
{
    const uint8_t *base = m->panels + (size_t)panel * m->stride;
    for (uint32_t t = 0; t < x->tokens; t++) {
        const float *xt = x->x + (size_t)t * m->cols;
        float acc[16];
        for (uint32_t lane = 0; lane < 16; lane++) {
            acc[lane] = 0;
            for (uint32_t k0 = 0; k0 < m->cols; k0 += KERN_SECTION) {
                float sec = 0;
                for (uint32_t k = k0; k < m->cols && k < k0 + KERN_SECTION; k++)
                    sec = fmaf(plain_weight(m->type, base, (size_t)k * 16 + lane), xt[k], sec);
                acc[lane] = acc[lane] + sec;
            }
        }
        store_lanes(m, panel, acc, out + (size_t)t * stride);
    }
}

void kern_ref_linear(const struct kern_mat *m, uint32_t p0, uint32_t p1, const struct kern_act *x, float *out,
                     size_t stride)
{
    bool quantised = kern_type_info(m->type)->quantised;
    for (uint32_t p = p0; p < p1; p++)
        if (quantised)
            linear_quantised(m, p, x, out, stride);
        else
            linear_plain(m, p, x, out, stride);
}

/* Per 32 values: amax by comparing bit patterns, which ranks NaN above infinity above every number. */
void kern_ref_quantise(const struct kern_act *a, uint32_t t0, uint32_t t1, uint32_t b0, uint32_t b1)
{
    for (uint32_t t = t0; t < t1; t++) {
        uint32_t c0 = t / KERN_CHUNK * KERN_CHUNK;
        uint32_t n = a->tokens - c0 < KERN_CHUNK ? a->tokens - c0 : KERN_CHUNK;
        for (uint32_t b = b0; b < b1; b++) {
            const float *x = a->x + (size_t)t * a->cols + b * 32;
            size_t at = (size_t)c0 * (a->cols / 32) + (size_t)b * n + (t - c0);
            int8_t *q = a->q + at * 32;
            uint32_t top = 0;
            for (int i = 0; i < 32; i++) {
                uint32_t u = f32_bits(x[i]) & 0x7FFFFFFFu;
                top = u > top ? u : top;
            }
            float amax = bits_f32(top), inv = top < 0x7F800000u && amax >= AMAX_TINY ? 127.0f / amax : 0;
            float d = top >= 0x7F800000u ? NAN : amax >= AMAX_TINY ? amax / 127.0f : 0;
            int32_t s[2] = {0, 0};
            for (int i = 0; i < 32; i++) {
                float r = inv > 0 ? nearbyintf(x[i] * inv) : 0;
                r = r > 127 ? 127 : r < -127 ? -127 : r;
                q[i] = (int8_t)r;
                s[i / 16] += q[i];
            }
            a->meta[at] = (struct kern_xmeta){.d = d,
                                              .ds = d * (float)(s[0] + s[1]),
                                              .s = s[0] + s[1],
                                              .s16 = {(int16_t)s[0], (int16_t)s[1]}};
        }
    }
}
