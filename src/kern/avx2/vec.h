/* vec: 16 lanes on AVX2, as two registers. The vocabulary of simd/; avx512/vec.h has the same on one register. */
#ifndef KERN_VEC_H
#define KERN_VEC_H

#include <immintrin.h>
#include <stdint.h>

#define VEC_INLINE static inline __attribute__((always_inline))
#define VEC_LANES 8 /* of one register */
#define VEC_TILE 6  /* query vectors that attention's product takes together */
#define VEC_SUMS 12 /* registers it keeps sums in; four are left for what is multiplied */

typedef struct {
    __m256 a, b;
} vf; /* float[16] */
typedef struct {
    __m256i a, b;
} vi; /* int32[16], also masks of all ones or zeros */

VEC_INLINE vf vf_set1(float x)
{
    return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
VEC_INLINE vf vf_zero(void)
{
    return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
VEC_INLINE vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
VEC_INLINE void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
VEC_INLINE vf vf_load_half(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
VEC_INLINE void vf_store_half(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
VEC_INLINE vf vf_load_bf16(const uint16_t *p)
{
    __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return (vf){_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
VEC_INLINE vf vf_add(vf x, vf y)
{
    return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
VEC_INLINE vf vf_sub(vf x, vf y)
{
    return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
VEC_INLINE vf vf_mul(vf x, vf y)
{
    return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
VEC_INLINE vf vf_div(vf x, vf y)
{
    return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
VEC_INLINE vf vf_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
/* x > y ? x : y and x < y ? x : y, that is, y where either is NaN */
VEC_INLINE vf vf_max(vf x, vf y)
{
    return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
VEC_INLINE vf vf_min(vf x, vf y)
{
    return (vf){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
VEC_INLINE vf vf_round(vf x)
{
    return (vf){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
VEC_INLINE vi vi_from_bits(vf x)
{
    return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
VEC_INLINE vf vf_from_bits(vi x)
{
    return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
VEC_INLINE vi vi_set1(int32_t x)
{
    return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
VEC_INLINE vi vi_iota(void)
{
    return (vi){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
VEC_INLINE vi vi_add(vi x, vi y)
{
    return (vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
VEC_INLINE vi vi_and(vi x, vi y)
{
    return (vi){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
VEC_INLINE vi vi_or(vi x, vi y)
{
    return (vi){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
VEC_INLINE vi vi_max(vi x, vi y)
{
    return (vi){_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)};
}
VEC_INLINE vi vi_shl23(vi x)
{
    return (vi){_mm256_slli_epi32(x.a, 23), _mm256_slli_epi32(x.b, 23)};
}
VEC_INLINE vi vi_of(vf x) /* x holds whole numbers */
{
    return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
/* Masks, and selection by them: m ? x : y. */
typedef vi vm;
VEC_INLINE vm vf_lt(vf x, vf y)
{
    return (vm){_mm256_castps_si256(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
                _mm256_castps_si256(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
VEC_INLINE vm vi_gt(vi x, vi y)
{
    return (vm){_mm256_cmpgt_epi32(x.a, y.a), _mm256_cmpgt_epi32(x.b, y.b)};
}
VEC_INLINE vm vm_and(vm x, vm y)
{
    return vi_and(x, y);
}
VEC_INLINE vf vf_select(vm m, vf x, vf y)
{
    return (vf){_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(m.a)),
                _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(m.b))};
}
/* 0 where m, otherwise x */
VEC_INLINE vf vf_clear(vm m, vf x)
{
    return (vf){_mm256_andnot_ps(_mm256_castsi256_ps(m.a), x.a), _mm256_andnot_ps(_mm256_castsi256_ps(m.b), x.b)};
}
/* NaN in every lane that is NaN in x. */
VEC_INLINE vf vf_keep_nan(vf x, vf y)
{
    return vf_select((vm){_mm256_castps_si256(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)),
                          _mm256_castps_si256(_mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))},
                     x, y);
}

/* One register by itself, for loops that plan them. */
typedef __m256 vr; /* float[VEC_LANES] */
VEC_INLINE vr vr_zero(void)
{
    return _mm256_setzero_ps();
}
VEC_INLINE vr vr_set1(float x)
{
    return _mm256_set1_ps(x);
}
VEC_INLINE vr vr_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
VEC_INLINE vr vr_load_half(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
VEC_INLINE void vr_store(float *p, vr x)
{
    _mm256_storeu_ps(p, x);
}
VEC_INLINE vr vr_fma(vr x, vr y, vr z)
{
    return _mm256_fmadd_ps(x, y, z);
}

/* The tree of ref_sum16(). */
VEC_INLINE float vf_sum(vf x)
{
    __m256 e = _mm256_add_ps(x.a, x.b);
    __m128 f = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    __m128 g = _mm_add_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_add_ss(g, _mm_shuffle_ps(g, g, 1)));
}
VEC_INLINE float vf_top(vf x) /* largest lane; order does not matter without NaN */
{
    __m256 e = _mm256_max_ps(x.a, x.b);
    __m128 f = _mm_max_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    f = _mm_max_ps(f, _mm_movehl_ps(f, f));
    return _mm_cvtss_f32(_mm_max_ss(f, _mm_shuffle_ps(f, f, 1)));
}
VEC_INLINE int32_t vi_top(vi x)
{
    __m256i e = _mm256_max_epi32(x.a, x.b);
    __m128i f = _mm_max_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    f = _mm_max_epi32(f, _mm_shuffle_epi32(f, 0x4E));
    f = _mm_max_epi32(f, _mm_shuffle_epi32(f, 0xB1));
    return _mm_cvtsi128_si32(f);
}
/* Saturated to int8 in order; values are within ±127 already. */
VEC_INLINE void vi_store_i8(int8_t *p, vi x)
{
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
VEC_INLINE int32_t vi_sum(vi x)
{
    __m256i e = _mm256_add_epi32(x.a, x.b);
    __m128i f = _mm_add_epi32(_mm256_castsi256_si128(e), _mm256_extracti128_si256(e, 1));
    f = _mm_add_epi32(f, _mm_shuffle_epi32(f, 0x4E));
    f = _mm_add_epi32(f, _mm_shuffle_epi32(f, 0xB1));
    return _mm_cvtsi128_si32(f);
}
/* The 16 even and the 16 odd floats of 32, and back. */
VEC_INLINE void vf_load2(const float *p, vf *even, vf *odd)
{
    __m256 x0 = _mm256_loadu_ps(p), x1 = _mm256_loadu_ps(p + 8), x2 = _mm256_loadu_ps(p + 16),
           x3 = _mm256_loadu_ps(p + 24);
    __m256 l0 = _mm256_permute2f128_ps(x0, x1, 0x20), h0 = _mm256_permute2f128_ps(x0, x1, 0x31);
    __m256 l1 = _mm256_permute2f128_ps(x2, x3, 0x20), h1 = _mm256_permute2f128_ps(x2, x3, 0x31);
    *even = (vf){_mm256_shuffle_ps(l0, h0, 0x88), _mm256_shuffle_ps(l1, h1, 0x88)};
    *odd = (vf){_mm256_shuffle_ps(l0, h0, 0xDD), _mm256_shuffle_ps(l1, h1, 0xDD)};
}
VEC_INLINE void vf_store2(float *p, vf even, vf odd)
{
    __m256 e[2] = {even.a, even.b}, o[2] = {odd.a, odd.b};
    for (int i = 0; i < 2; i++) {
        __m256 l = _mm256_unpacklo_ps(e[i], o[i]), h = _mm256_unpackhi_ps(e[i], o[i]);
        _mm256_storeu_ps(p + 16 * i, _mm256_permute2f128_ps(l, h, 0x20));
        _mm256_storeu_ps(p + 16 * i + 8, _mm256_permute2f128_ps(l, h, 0x31));
    }
}

#endif
