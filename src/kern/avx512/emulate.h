/* emulate: SIMDe, and the few conversions it lacks as plain loops. For tests only; see intrin.h. */
#ifndef KERN_AVX512_EMULATE_H
#define KERN_AVX512_EMULATE_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include "kern/half.h"

#define EMULATE static inline __attribute__((unused))

EMULATE __m512i emulate_u16(__m256i x)
{
    uint16_t in[16];
    int32_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = in[i];
    return _mm512_loadu_si512(out);
}

EMULATE __m512i emulate_u8(__m128i x)
{
    uint8_t in[16];
    int32_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = in[i];
    return _mm512_loadu_si512(out);
}

EMULATE __m512i emulate_i8(__m128i x)
{
    int8_t in[16];
    int32_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = in[i];
    return _mm512_loadu_si512(out);
}

EMULATE __m512i emulate_ps_int(__m512 x)
{
    float in[16];
    int32_t out[16];
    _mm512_storeu_ps(in, x);
    for (int i = 0; i < 16; i++)
        out[i] = _mm_cvtss_si32(_mm_set_ss(in[i]));
    return _mm512_loadu_si512(out);
}

EMULATE __m512 emulate_int_ps(__m512i x)
{
    int32_t in[16];
    float out[16];
    _mm512_storeu_si512(in, x);
    for (int i = 0; i < 16; i++)
        out[i] = (float)in[i];
    return _mm512_loadu_ps(out);
}

EMULATE __m512 emulate_ph_ps(__m256i x)
{
    uint16_t in[16];
    float out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = half_f32(in[i]);
    return _mm512_loadu_ps(out);
}

EMULATE __m256i emulate_ps_ph(__m512 x)
{
    uint16_t out[16];
    float in[16];
    __m256i y;
    _mm512_storeu_ps(in, x);
    for (int i = 0; i < 16; i++)
        out[i] = f32_half(in[i]);
    memcpy(&y, out, sizeof y);
    return y;
}

#undef _mm512_madd_epi16 /* its alias in SIMDe has the operands of the masked form */
#define _mm512_madd_epi16(x, y) simde_mm512_madd_epi16(x, y)
#define _mm512_cvtepu16_epi32(x) emulate_u16(x)
#define _mm512_cvtepu8_epi32(x) emulate_u8(x)
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(x) emulate_i8(x)
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(x) emulate_ps_int(x)
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(x) emulate_int_ps(x)
#define _mm512_cvtph_ps(x) emulate_ph_ps(x)
#define _mm512_cvtps_ph(x, mode) emulate_ps_ph(x)

#endif
