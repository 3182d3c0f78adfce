/*
 * intrin: where the AVX-512 intrinsics come from.
 *
 * Normally from the compiler. With KERN_EMULATE_AVX512, from SIMDe, which computes each of them in software: so the
 * kernels of this folder are tested bit by bit also on machines whose processors lack AVX-512 (tests/kern).
 */
#ifndef KERN_AVX512_INTRIN_H
#define KERN_AVX512_INTRIN_H

#include <immintrin.h>

#ifdef KERN_EMULATE_AVX512
#include "kern/avx512/emulate.h"
#define kern_avx512_ops kern_avx512_emulated_ops
#define kern_avx512_linear kern_avx512_emulated_linear
#endif

#endif
