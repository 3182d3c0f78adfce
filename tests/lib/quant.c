/*
 * quant: see quant.h. One encoder and one decoder per shape of block; the formats are told apart by a few numbers. Here are
 * those of one value and of 32; quant_k.c and quant_book.c have the others.
 *
 * Little-endian throughout: fields are written byte by byte, so the host's order does not matter.
 */
#include "quant_inside.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

const enum tiny_type tiny_types[TINY_TYPES] = {
    TINY_F32,  TINY_F16,  TINY_Q4_0, TINY_Q4_1, TINY_Q5_0, TINY_Q5_1,   TINY_Q8_0,   TINY_Q2_K,
    TINY_Q3_K, TINY_Q4_K, TINY_Q5_K, TINY_Q6_K, TINY_BF16, TINY_IQ4_NL, TINY_IQ4_XS, TINY_MXFP4,
};

struct shape {
    enum tiny_type type;
    const char *name;
    uint16_t block, bytes;
};

static const struct shape shapes[TINY_TYPES] = {
    {TINY_F32, "F32", 1, 4},       {TINY_F16, "F16", 1, 2},         {TINY_Q4_0, "Q4_0", 32, 18},
    {TINY_Q4_1, "Q4_1", 32, 20},   {TINY_Q5_0, "Q5_0", 32, 22},     {TINY_Q5_1, "Q5_1", 32, 24},
    {TINY_Q8_0, "Q8_0", 32, 34},   {TINY_Q2_K, "Q2_K", 256, 84},    {TINY_Q3_K, "Q3_K", 256, 110},
    {TINY_Q4_K, "Q4_K", 256, 144}, {TINY_Q5_K, "Q5_K", 256, 176},   {TINY_Q6_K, "Q6_K", 256, 210},
    {TINY_BF16, "BF16", 1, 2},     {TINY_IQ4_NL, "IQ4_NL", 32, 18}, {TINY_IQ4_XS, "IQ4_XS", 256, 136},
    {TINY_MXFP4, "MXFP4", 32, 17},
};

static const struct shape *shape_of(enum tiny_type type)
{
    for (size_t i = 0; i < TINY_TYPES; i++)
        if (shapes[i].type == type)
            return &shapes[i];
    return NULL;
}

const char *tiny_type_name(enum tiny_type type)
{
    const struct shape *s = shape_of(type);
    return s ? s->name : NULL;
}

size_t tiny_type_block(enum tiny_type type)
{
    const struct shape *s = shape_of(type);
    return s ? s->block : 0;
}

size_t tiny_row_bytes(enum tiny_type type, size_t n)
{
    const struct shape *s = shape_of(type);
    return s && n % s->block == 0 ? n / s->block * s->bytes : 0;
}

/* ---- numbers ---- */

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* u / 2^shift to the nearest integer, ties to even. */
static uint32_t round_shift(uint32_t u, unsigned shift)
{
    uint32_t half = 1u << (shift - 1), rest = u & ((half << 1) - 1), q = u >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

uint16_t tiny_f16(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, mantissa = u & 0x7fffff;
    int e = (int)(u >> 23 & 0xff) - 127 + 15;
    if (e == 143) /* infinity or NaN, whose payload is reduced to "quiet" */
        return (uint16_t)(sign | 0x7c00 | (mantissa ? 0x200 : 0));
    if (e >= 31)
        return (uint16_t)(sign | 0x7c00);
    if (e > 0) /* rounding may carry into the exponent, up to infinity, which is what it should do */
        return (uint16_t)(sign | round_shift((uint32_t)e << 23 | mantissa, 13));
    if (e < -10)
        return (uint16_t)sign;
    return (uint16_t)(sign | round_shift(mantissa | 0x800000, (unsigned)(14 - e)));
}

float tiny_f16_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, mantissa = h & 0x3ff;
    if (e == 31)
        return float_of(sign | 0x7f800000 | mantissa << 13);
    if (e)
        return float_of(sign | (e + 112) << 23 | mantissa << 13);
    float x = (float)mantissa * 0x1p-24f;
    return sign ? -x : x;
}

static uint16_t bf16(float x)
{
    uint32_t u = bits_of(x);
    return (uint16_t)(isnan(x) ? (u >> 16 | 0x40) : round_shift(u, 16));
}

void tiny_put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

uint16_t tiny_get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

float tiny_half(const uint8_t *p)
{
    return tiny_f16_value(tiny_get16(p));
}

int tiny_code(float x, float scale, int low, int high)
{
    float r = scale != 0.0f ? rintf(x / scale) : 0.0f;
    return r <= (float)low ? low : r >= (float)high ? high : (int)r;
}

void tiny_range(const float *x, size_t n, float *low, float *high)
{
    *low = *high = x[0];
    for (size_t i = 1; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

float tiny_extreme(const float *x, size_t n)
{
    float e = 0.0f;
    for (size_t i = 0; i < n; i++)
        e = fabsf(x[i]) > fabsf(e) ? x[i] : e;
    return e;
}

/* ---- blocks of 32: d [m] [the fifth bits, 32 of them] low nibbles (j and j + 16 share a byte) ---- */

struct legacy {
    unsigned bits;
    bool minimum; /* w = d*q + m; otherwise w = d*(q - 2^(bits-1)) */
};

static struct legacy legacy_of(enum tiny_type type)
{
    return (struct legacy){type == TINY_Q5_0 || type == TINY_Q5_1 ? 5 : 4, type == TINY_Q4_1 || type == TINY_Q5_1};
}

static void encode_legacy(struct legacy l, const float *x, uint8_t *out)
{
    int top = (1 << l.bits) - 1, middle = 1 << (l.bits - 1);
    float low, high, d = tiny_extreme(x, 32) / (float)-middle, m = 0.0f;
    if (l.minimum) {
        tiny_range(x, 32, &low, &high);
        d = (high - low) / (float)top;
        m = tiny_f16_value(tiny_f16(low));
    }
    tiny_put16(out, tiny_f16(d));
    d = tiny_half(out);
    out += 2;
    if (l.minimum) {
        tiny_put16(out, tiny_f16(m));
        out += 2;
    }
    uint8_t *fifth = out, *nibbles = l.bits == 5 ? out + 4 : out;
    if (l.bits == 5)
        memset(fifth, 0, 4);
    memset(nibbles, 0, 16);
    for (int j = 0; j < 32; j++) {
        int q = l.minimum ? tiny_code(x[j] - m, d, 0, top) : tiny_code(x[j], d, -middle, middle - 1) + middle;
        nibbles[j % 16] |= (uint8_t)((q & 15) << (j < 16 ? 0 : 4));
        if (l.bits == 5)
            fifth[j / 8] |= (uint8_t)((q >> 4) << j % 8);
    }
}

static void decode_legacy(struct legacy l, const uint8_t *in, float *x)
{
    float d = tiny_half(in), m = l.minimum ? tiny_half(in + 2) : 0.0f;
    const uint8_t *fifth = in + (l.minimum ? 4 : 2), *nibbles = l.bits == 5 ? fifth + 4 : fifth;
    for (int j = 0; j < 32; j++) {
        int q = nibbles[j % 16] >> (j < 16 ? 0 : 4) & 15;
        if (l.bits == 5)
            q |= (fifth[j / 8] >> j % 8 & 1) << 4;
        float w = d * (float)(l.minimum ? q : q - (1 << (l.bits - 1)));
        x[j] = l.minimum ? w + m : w;
    }
}

static void encode_q8(const float *x, uint8_t *out)
{
    tiny_put16(out, tiny_f16(fabsf(tiny_extreme(x, 32)) / 127.0f));
    float d = tiny_half(out);
    for (int j = 0; j < 32; j++)
        out[2 + j] = (uint8_t)tiny_code(x[j], d, -127, 127);
}

static void decode_q8(const uint8_t *in, float *x)
{
    for (int j = 0; j < 32; j++)
        x[j] = tiny_half(in) * (float)(int8_t)in[2 + j];
}

/* ---- by type ---- */

static void encode_block(enum tiny_type type, const float *x, uint8_t *out)
{
    switch (type) {
    case TINY_F32:
        tiny_put16(out, (uint16_t)bits_of(*x));
        tiny_put16(out + 2, (uint16_t)(bits_of(*x) >> 16));
        break;
    case TINY_F16: tiny_put16(out, tiny_f16(*x)); break;
    case TINY_BF16: tiny_put16(out, bf16(*x)); break;
    case TINY_Q8_0: encode_q8(x, out); break;
    case TINY_Q2_K:
    case TINY_Q3_K:
    case TINY_Q4_K:
    case TINY_Q5_K:
    case TINY_Q6_K: tiny_encode_k(type, x, out); break;
    case TINY_IQ4_NL:
    case TINY_IQ4_XS:
    case TINY_MXFP4: tiny_encode_book(type, x, out); break;
    case TINY_Q4_0:
    case TINY_Q4_1:
    case TINY_Q5_0:
    case TINY_Q5_1: encode_legacy(legacy_of(type), x, out); break;
    }
}

static void decode_block(enum tiny_type type, const uint8_t *in, float *x)
{
    switch (type) {
    case TINY_F32: *x = float_of(tiny_get16(in) | (uint32_t)tiny_get16(in + 2) << 16); break;
    case TINY_F16: *x = tiny_half(in); break;
    case TINY_BF16: *x = float_of((uint32_t)tiny_get16(in) << 16); break;
    case TINY_Q8_0: decode_q8(in, x); break;
    case TINY_Q2_K:
    case TINY_Q3_K:
    case TINY_Q4_K:
    case TINY_Q5_K:
    case TINY_Q6_K: tiny_decode_k(type, in, x); break;
    case TINY_IQ4_NL:
    case TINY_IQ4_XS:
    case TINY_MXFP4: tiny_decode_book(type, in, x); break;
    case TINY_Q4_0:
    case TINY_Q4_1:
    case TINY_Q5_0:
    case TINY_Q5_1: decode_legacy(legacy_of(type), in, x); break;
    }
}

void tiny_encode(enum tiny_type type, const float *x, size_t n, uint8_t *out)
{
    const struct shape *s = shape_of(type);
    for (size_t i = 0; s && i + s->block <= n; i += s->block)
        encode_block(type, x + i, out + i / s->block * s->bytes);
}

void tiny_decode(enum tiny_type type, const uint8_t *in, size_t n, float *x)
{
    const struct shape *s = shape_of(type);
    for (size_t i = 0; s && i + s->block <= n; i += s->block)
        decode_block(type, in + i / s->block * s->bytes, x + i);
}
