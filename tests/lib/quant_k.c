/*
 * quant_k: the K types, blocks of 256 in groups of 16 or 32. Group scales are small integers, multiples of one f16.
 */
#include "quant_inside.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Scales and minima of the groups of n values, for codes from 0 to `top`; both are at most `most`. Their units d and dmin
 * go to `out`. Minima are subtracted and cannot be negative. */
static void fit_minima(const float *x, int n, int top, int most, uint8_t *out, int *sc, int *mn)
{
    float scale[16], minimum[16], widest = 0.0f, deepest = 0.0f;
    for (int g = 0; g < 256 / n; g++) {
        float low, high;
        tiny_range(x + n * g, (size_t)n, &low, &high);
        minimum[g] = low < 0.0f ? -low : 0.0f;
        scale[g] = (high + minimum[g]) / (float)top;
        widest = scale[g] > widest ? scale[g] : widest;
        deepest = minimum[g] > deepest ? minimum[g] : deepest;
    }
    tiny_put16(out, tiny_f16(widest / (float)most));
    tiny_put16(out + 2, tiny_f16(deepest / (float)most));
    for (int g = 0; g < 256 / n; g++) {
        sc[g] = tiny_code(scale[g], tiny_half(out), 0, most);
        mn[g] = tiny_code(minimum[g], tiny_half(out + 2), 0, most);
    }
}

/* Signed scales of the 16 groups of 16, for signed codes from `lowest` on; the least scale is `least`. The value of
 * largest magnitude gets the lowest code, which has no positive partner. d goes to `out`. */
static void fit_signed(const float *x, int lowest, int least, uint8_t *out, int sc[16])
{
    float scale[16], widest = 0.0f;
    for (int g = 0; g < 16; g++) {
        scale[g] = tiny_extreme(x + 16 * g, 16) / (float)lowest;
        widest = fabsf(scale[g]) > fabsf(widest) ? scale[g] : widest;
    }
    tiny_put16(out, tiny_f16(widest / (float)least));
    for (int g = 0; g < 16; g++)
        sc[g] = tiny_code(scale[g], tiny_half(out), least, -least - 1);
}

/* ---- Q4_K, Q5_K: d, dmin, 8 pairs of 6-bit (scale, minimum) in 12 bytes, [32 bytes of fifth bits], 128 of nibbles.
 * Groups of 32; group g keeps its nibbles in bytes 32*(g/2)…, low half for even g; its fifth bit is bit g. ---- */

static void put_pair(uint8_t s[12], int g, int scale, int minimum)
{
    if (g < 4) {
        s[g] = (uint8_t)(s[g] | scale);
        s[g + 4] = (uint8_t)(s[g + 4] | minimum);
        return;
    }
    s[g + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
    s[g - 4] = (uint8_t)(s[g - 4] | (scale >> 4) << 6);
    s[g] = (uint8_t)(s[g] | (minimum >> 4) << 6);
}

static void get_pair(const uint8_t s[12], int g, int *scale, int *minimum)
{
    *scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
    *minimum = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
}

static void encode_q45(unsigned bits, const float *x, uint8_t *out)
{
    int top = (1 << bits) - 1, sc[8], mn[8];
    memset(out, 0, bits == 5 ? 176 : 144);
    fit_minima(x, 32, top, 63, out, sc, mn);
    float d = tiny_half(out), dmin = tiny_half(out + 2);
    uint8_t *fifth = out + 16, *nibbles = bits == 5 ? out + 48 : out + 16;
    for (int g = 0; g < 8; g++) {
        put_pair(out + 4, g, sc[g], mn[g]);
        for (int j = 0; j < 32; j++) {
            int q = tiny_code(x[32 * g + j] + dmin * (float)mn[g], d * (float)sc[g], 0, top);
            nibbles[32 * (g / 2) + j] |= (uint8_t)((q & 15) << (g % 2 ? 4 : 0));
            if (bits == 5)
                fifth[j] |= (uint8_t)((q >> 4) << g);
        }
    }
}

static void decode_q45(unsigned bits, const uint8_t *in, float *x)
{
    float d = tiny_half(in), dmin = tiny_half(in + 2);
    const uint8_t *fifth = in + 16, *nibbles = bits == 5 ? in + 48 : in + 16;
    for (int g = 0; g < 8; g++) {
        int sc, mn;
        get_pair(in + 4, g, &sc, &mn);
        float ds = d * (float)sc, m = dmin * (float)mn;
        for (int j = 0; j < 32; j++) {
            int q = nibbles[32 * (g / 2) + j] >> (g % 2 ? 4 : 0) & 15;
            if (bits == 5)
                q |= (fifth[j] >> g & 1) << 4;
            float w = ds * (float)q;
            x[32 * g + j] = w - m;
        }
    }
}

/* ---- Q6_K: 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales (one per 16), d. In each half of 128,
 * quarter k (32 values) has its nibbles in bytes 32*(k%2)…, low for k < 2, and its upper bits at 2k. ---- */

static void encode_q6(const float *x, uint8_t *out)
{
    int sc[16];
    memset(out, 0, 210);
    fit_signed(x, -32, -128, out + 208, sc);
    for (int g = 0; g < 16; g++) {
        float ds = tiny_half(out + 208) * (float)sc[g];
        out[192 + g] = (uint8_t)sc[g];
        for (int j = 16 * g; j < 16 * g + 16; j++) {
            int q = tiny_code(x[j], ds, -32, 31) + 32, half = j / 128, k = j % 128 / 32, l = j % 32;
            out[64 * half + 32 * (k % 2) + l] |= (uint8_t)((q & 15) << (k < 2 ? 0 : 4));
            out[128 + 32 * half + l] |= (uint8_t)((q >> 4) << 2 * k);
        }
    }
}

static void decode_q6(const uint8_t *in, float *x)
{
    float d = tiny_half(in + 208);
    for (int j = 0; j < 256; j++) {
        int half = j / 128, k = j % 128 / 32, l = j % 32;
        int q = in[64 * half + 32 * (k % 2) + l] >> (k < 2 ? 0 : 4) & 15;
        q |= (in[128 + 32 * half + l] >> 2 * k & 3) << 4;
        float ds = d * (float)(int8_t)in[192 + j / 16];
        x[j] = ds * (float)(q - 32);
    }
}

/* ---- Q2_K: 16 bytes of scale (low nibble) and minimum (high) of 16 values each, 64 of bit pairs, d, dmin. Value j has
 * its pair in byte 32*(j/128) + j%32, at 2*(j/32%4). ---- */

static void encode_q2(const float *x, uint8_t *out)
{
    int sc[16], mn[16];
    memset(out, 0, 84);
    fit_minima(x, 16, 3, 15, out + 80, sc, mn);
    float d = tiny_half(out + 80), dmin = tiny_half(out + 82);
    for (int g = 0; g < 16; g++)
        out[g] = (uint8_t)(sc[g] | mn[g] << 4);
    for (int j = 0; j < 256; j++) {
        int q = tiny_code(x[j] + dmin * (float)mn[j / 16], d * (float)sc[j / 16], 0, 3);
        out[16 + 32 * (j / 128) + j % 32] |= (uint8_t)(q << 2 * (j / 32 % 4));
    }
}

static void decode_q2(const uint8_t *in, float *x)
{
    float d = tiny_half(in + 80), dmin = tiny_half(in + 82);
    for (int j = 0; j < 256; j++) {
        int q = in[16 + 32 * (j / 128) + j % 32] >> 2 * (j / 32 % 4) & 3, both = in[j / 16];
        float ds = d * (float)(both & 15), m = dmin * (float)(both >> 4);
        x[j] = ds * (float)q - m;
    }
}

/* ---- Q3_K: 32 bytes of third bits (value j: bit j/32 of byte j%32), 64 of bit pairs as in Q2_K, 12 of scales, d. Codes
 * are 4 and scales 32 above what they mean. Scale g: four bits in nibble g/8 of byte g%8, two at 2*(g/4) of byte
 * 8 + g%4. ---- */

static void encode_q3(const float *x, uint8_t *out)
{
    int sc[16];
    uint8_t *packed = out + 96;
    memset(out, 0, 110);
    fit_signed(x, -4, -32, out + 108, sc);
    for (int g = 0; g < 16; g++) {
        packed[g % 8] |= (uint8_t)(((sc[g] + 32) & 15) << 4 * (g / 8));
        packed[8 + g % 4] |= (uint8_t)(((sc[g] + 32) >> 4) << 2 * (g / 4));
    }
    for (int j = 0; j < 256; j++) {
        int q = tiny_code(x[j], tiny_half(out + 108) * (float)sc[j / 16], -4, 3) + 4;
        out[j % 32] |= (uint8_t)((q >> 2) << j / 32);
        out[32 + 32 * (j / 128) + j % 32] |= (uint8_t)((q & 3) << 2 * (j / 32 % 4));
    }
}

static void decode_q3(const uint8_t *in, float *x)
{
    const uint8_t *packed = in + 96;
    for (int j = 0; j < 256; j++) {
        int g = j / 16, q = in[32 + 32 * (j / 128) + j % 32] >> 2 * (j / 32 % 4) & 3;
        q |= (in[j % 32] >> j / 32 & 1) << 2;
        int sc = (packed[g % 8] >> 4 * (g / 8) & 15) | (packed[8 + g % 4] >> 2 * (g / 4) & 3) << 4;
        float ds = tiny_half(in + 108) * (float)(sc - 32);
        x[j] = ds * (float)(q - 4);
    }
}

void tiny_encode_k(enum tiny_type type, const float *x, uint8_t *out)
{
    switch (type) {
    case TINY_Q2_K: encode_q2(x, out); break;
    case TINY_Q3_K: encode_q3(x, out); break;
    case TINY_Q6_K: encode_q6(x, out); break;
    default: encode_q45(type == TINY_Q5_K ? 5 : 4, x, out); break;
    }
}

void tiny_decode_k(enum tiny_type type, const uint8_t *in, float *x)
{
    switch (type) {
    case TINY_Q2_K: decode_q2(in, x); break;
    case TINY_Q3_K: decode_q3(in, x); break;
    case TINY_Q6_K: decode_q6(in, x); break;
    default: decode_q45(type == TINY_Q5_K ? 5 : 4, in, x); break;
    }
}
