/* half: small floating-point formats in plain C: IEEE binary16 and bfloat16 with the same bits as the processors'
 * conversions, and the exponents of MXFP4. Private to kern. */
#ifndef KERN_HALF_H
#define KERN_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float half_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 0x1F, man = h & 0x3FFu;
    if (exp == 31) /* infinity, or a quieted NaN with its payload */
        return bits_f32(sign | 0x7F800000u | (man << 13) | (man ? 0x400000u : 0));
    if (exp)
        return bits_f32(sign | ((exp + 112) << 23) | (man << 13));
    float f = (float)man * 0x1p-24f; /* subnormal or zero: exact */
    return bits_f32(f32_bits(f) | sign);
}

static inline uint16_t f32_half(float f)
{
    uint32_t u = f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) /* NaN: quieted, payload kept */
        return (uint16_t)(sign | 0x7E00u | ((a >> 13) & 0x3FFu));
    if (a >= 0x47800000u) /* 65536 and more, infinity */
        return (uint16_t)(sign | 0x7C00u);
    if (a < 0x38800000u) { /* below the smallest normal half: adding 0.5 rounds at the right bit, to even */
        float r = bits_f32(a) + 0.5f;
        return (uint16_t)(sign | (f32_bits(r) - 0x3F000000u));
    }
    uint32_t odd = (a >> 13) & 1;
    a += 0xFFFu + odd - (112u << 23);
    return (uint16_t)(sign | (a >> 13)); /* a carry out of 65504 gives infinity by itself */
}

static inline float bf16_f32(uint16_t h)
{
    return bits_f32((uint32_t)h << 16);
}

/* MXFP4's scale: 2^(e - 128), half of what its exponent byte says, since its table holds doubled values. The format's
 * NaN, 255, is 2^127 like in ggml. */
static inline float e8m0_half_f32(uint8_t e)
{
    return bits_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

#endif
