/* vec: 16 lanes on AVX-512, one register. The vocabulary of simd/; avx2/vec.h has the same on two registers. */
#ifndef KERN_VEC_H
#define KERN_VEC_H

#include "kern/avx512/intrin.h"

#include <stdint.h>

#ifdef KERN_EMULATE_AVX512
#define VEC_INLINE static __attribute__((unused)) /* emulated, a copy for every shape takes minutes to compile */
#else
#define VEC_INLINE static inline __attribute__((always_inline))
#endif
#define VEC_LANES 16 /* of one register */
#define VEC_TILE 8   /* query vectors that attention's product takes together */
#define VEC_SUMS 16  /* registers it keeps sums in */

typedef __m512 vf;  /* float[16] */
typedef __m512i vi; /* int32[16] */

VEC_INLINE vf vf_set1(float x)
{
    return _mm512_set1_ps(x);
}
VEC_INLINE vf vf_zero(void)
{
    return _mm512_setzero_ps();
}
VEC_INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
VEC_INLINE void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}
VEC_INLINE vf vf_load_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE void vf_store_half(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VEC_INLINE vf vf_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
VEC_INLINE vf vf_add(vf x, vf y)
{
    return _mm512_add_ps(x, y);
}
VEC_INLINE vf vf_sub(vf x, vf y)
{
    return _mm512_sub_ps(x, y);
}
VEC_INLINE vf vf_mul(vf x, vf y)
{
    return _mm512_mul_ps(x, y);
}
VEC_INLINE vf vf_div(vf x, vf y)
{
    return _mm512_div_ps(x, y);
}
VEC_INLINE vf vf_fma(vf x, vf y, vf z)
{
    return _mm512_fmadd_ps(x, y, z);
}
/* x > y ? x : y and x < y ? x : y, that is, y where either is NaN */
VEC_INLINE vf vf_max(vf x, vf y)
{
    return _mm512_max_ps(x, y);
}
VEC_INLINE vf vf_min(vf x, vf y)
{
    return _mm512_min_ps(x, y);
}
VEC_INLINE vf vf_round(vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE vi vi_from_bits(vf x)
{
    return _mm512_castps_si512(x);
}
VEC_INLINE vf vf_from_bits(vi x)
{
    return _mm512_castsi512_ps(x);
}
VEC_INLINE vi vi_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}
VEC_INLINE vi vi_iota(void)
{
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}
VEC_INLINE vi vi_add(vi x, vi y)
{
    return _mm512_add_epi32(x, y);
}
VEC_INLINE vi vi_and(vi x, vi y)
{
    return _mm512_and_si512(x, y);
}
VEC_INLINE vi vi_or(vi x, vi y)
{
    return _mm512_or_si512(x, y);
}
VEC_INLINE vi vi_max(vi x, vi y)
{
    return _mm512_max_epi32(x, y);
}
VEC_INLINE vi vi_shl23(vi x)
{
    return _mm512_slli_epi32(x, 23);
}
VEC_INLINE vi vi_of(vf x) /* x holds whole numbers */
{
    return _mm512_cvtps_epi32(x);
}
/* Masks, and selection by them: m ? x : y. */
typedef __mmask16 vm;
VEC_INLINE vm vf_lt(vf x, vf y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ);
}
VEC_INLINE vm vi_gt(vi x, vi y)
{
    return _mm512_cmpgt_epi32_mask(x, y);
}
VEC_INLINE vm vm_and(vm x, vm y)
{
    return (vm)(x & y);
}
VEC_INLINE vf vf_select(vm m, vf x, vf y)
{
    return _mm512_mask_blend_ps(m, y, x);
}
/* 0 where m, otherwise x */
VEC_INLINE vf vf_clear(vm m, vf x)
{
    return _mm512_mask_blend_ps(m, x, _mm512_setzero_ps());
}
/* NaN in every lane that is NaN in x. */
VEC_INLINE vf vf_keep_nan(vf x, vf y)
{
    return vf_select(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x, y);
}

/* One register by itself, for loops that plan them: here the same thing. */
typedef vf vr; /* float[VEC_LANES] */
#define vr_zero vf_zero
#define vr_set1 vf_set1
#define vr_load vf_load
#define vr_load_half vf_load_half
#define vr_store vf_store
#define vr_fma vf_fma

VEC_INLINE __m256 vf_half(vf x, int i)
{
    __m512d d = _mm512_castps_pd(x);
    return _mm256_castpd_ps(i ? _mm512_extractf64x4_pd(d, 1) : _mm512_castpd512_pd256(d));
}
VEC_INLINE __m256i vi_half(vi x, int i)
{
    return i ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x);
}

/* The tree of ref_sum16(). */
VEC_INLINE float vf_sum(vf x)
{
    __m256 e = _mm256_add_ps(vf_half(x, 0), vf_half(x, 1));
    __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    __m128 g = _mm_add_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps(g, g, 1)));
}
VEC_INLINE float vf_top(vf x) /* largest lane; order does not matter without NaN */
{
    __m256 e = _mm256_max_ps(vf_half(x, 0), vf_half(x, 1));
    __m128 f = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    f = _mm_max_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_max_ss(f, _mm_shuffle_ps(f, f, 1)));
}
VEC_INLINE int32_t vi_top(vi x)
{
    __m256i e = _mm256_max_epi32(vi_half(x, 0), vi_half(x, 1));
    __m128i f = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    f = _mm_max_epi32(f, _mm_shuffle_epi32(f, 0x4E));
    f = _mm_max_epi32(f, _mm_shuffle_epi32(f, 0xB1));
    return _mm_cvtsi128_si32(f);
}
VEC_INLINE int32_t vi_sum(vi x)
{
    __m256i e = _mm256_add_epi32(vi_half(x, 0), vi_half(x, 1));
    __m128i f = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    f = _mm_add_epi32(f, _mm_shuffle_epi32(f, 0x4E));
    f = _mm_add_epi32(f, _mm_shuffle_epi32(f, 0xB1));
    return _mm_cvtsi128_si32(f);
}
/* Saturated to int8 in order; values are within ±127 already. */
VEC_INLINE void vi_store_i8(int8_t *p, vi x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(x));
}
/* The 16 even and the 16 odd floats of 32, and back. */
VEC_INLINE void vf_load2(const float *p, vf *even, vf *odd)
{
    __m512 x = _mm512_loadu_ps(p), y = _mm512_loadu_ps(p + 16);
    __m512i i = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *even = _mm512_permutex2var_ps(x, i, y);
    *odd = _mm512_permutex2var_ps(x, _mm512_or_si512(i, _mm512_set1_epi32(1)), y);
}
VEC_INLINE void vf_store2(float *p, vf even, vf odd)
{
    __m512i lo = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i hi = _mm512_add_epi32(lo, _mm512_set1_epi32(8));
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, lo, odd));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, hi, odd));
}

#endif
