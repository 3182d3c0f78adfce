/*
 * quant_book: types whose nibbles are indices into a table of 16 values. Blocks of 32, j and j + 16 share a byte; IQ4_XS
 * puts eight of them under one f16.
 */
#include "quant_inside.h"

#include <math.h>
#include <string.h>

static const float four_bits[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static int nearest_index(const float book[16], float x)
{
    int best = 0;
    for (int i = 1; i < 16; i++)
        best = fabsf(book[i] - x) < fabsf(book[best] - x) ? i : best;
    return best;
}

static void put_indices(const float book[16], const float *x, float scale, uint8_t *out)
{
    memset(out, 0, 16);
    for (int j = 0; j < 32; j++)
        out[j % 16] |= (uint8_t)(nearest_index(book, scale != 0.0f ? x[j] / scale : 0.0f) << (j < 16 ? 0 : 4));
}

static void get_values(const float book[16], const uint8_t *in, float scale, float *x)
{
    for (int j = 0; j < 32; j++)
        x[j] = scale * book[in[j % 16] >> (j < 16 ? 0 : 4) & 15];
}

/* ---- IQ4_NL: d, 16 bytes. The value of largest magnitude is -127 d. ---- */

static void encode_nl(const float *x, uint8_t *out)
{
    tiny_put16(out, tiny_f16(tiny_extreme(x, 32) / -127.0f));
    put_indices(four_bits, x, tiny_half(out), out + 2);
}

/* ---- IQ4_XS: d, 16 bits and 4 bytes of scales, 128 bytes. Scale g is 32 above what it means: four bits in nibble g%2 of
 * byte g/2, two at 2g of the 16 bits. ---- */

static void encode_xs(const float *x, uint8_t *out)
{
    float scale[8], widest = 0.0f;
    for (int g = 0; g < 8; g++) {
        scale[g] = tiny_extreme(x + 32 * g, 32) / -127.0f;
        widest = fabsf(scale[g]) > fabsf(widest) ? scale[g] : widest;
    }
    memset(out, 0, 8);
    tiny_put16(out, tiny_f16(widest / -32.0f));
    for (int g = 0; g < 8; g++) {
        int sc = tiny_code(scale[g], tiny_half(out), -32, 31);
        tiny_put16(out + 2, (uint16_t)(tiny_get16(out + 2) | (sc + 32) >> 4 << 2 * g));
        out[4 + g / 2] |= (uint8_t)(((sc + 32) & 15) << 4 * (g % 2));
        put_indices(four_bits, x + 32 * g, tiny_half(out) * (float)sc, out + 8 + 16 * g);
    }
}

static void decode_xs(const uint8_t *in, float *x)
{
    for (int g = 0; g < 8; g++) {
        int sc = (in[4 + g / 2] >> 4 * (g % 2) & 15) | (tiny_get16(in + 2) >> 2 * g & 3) << 4;
        get_values(four_bits, in + 8 + 16 * g, tiny_half(in) * (float)(sc - 32), x + 32 * g);
    }
}

/* ---- MXFP4: the exponent of a power of two, 127 above what it means, 16 bytes. The largest magnitude lies in [4, 8)
 * times the scale, as OCP's Microscaling Formats 1.0 have it; their NaN, 255, is no special case in GGUF. Code 8, minus
 * zero, is never written. ---- */

static void encode_fp4(const float *x, uint8_t *out)
{
    int e = 0;
    frexpf(tiny_extreme(x, 32), &e); /* magnitude in [2^(e-1), 2^e) */
    e += 124;
    out[0] = (uint8_t)(e < 0 ? 0 : e > 254 ? 254 : e);
    put_indices(e2m1, x, ldexpf(1.0f, out[0] - 127), out + 1);
}

static void decode_fp4(const uint8_t *in, float *x)
{
    get_values(e2m1, in + 1, 1.0f, x);
    for (int j = 0; j < 32; j++)
        x[j] = ldexpf(x[j], in[0] - 127);
}

void tiny_encode_book(enum tiny_type type, const float *x, uint8_t *out)
{
    switch (type) {
    case TINY_IQ4_XS: encode_xs(x, out); break;
    case TINY_MXFP4: encode_fp4(x, out); break;
    default: encode_nl(x, out); break;
    }
}

void tiny_decode_book(enum tiny_type type, const uint8_t *in, float *x)
{
    switch (type) {
    case TINY_IQ4_XS: decode_xs(in, x); break;
    case TINY_MXFP4: decode_fp4(in, x); break;
    default: get_values(four_bits, in + 2, tiny_half(in), x); break;
    }
}
