/*
 * rng: a counter-based generator. The draw for (seed, choice, position, purpose) is a pure function, so that imposed
 * tokens never shift later draws, and a request gives the same text under any load.
 *
 * Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

enum rng_purpose {
    RNG_FINAL = 0, /* the draw that picks the token */
    RNG_XTC = 1,      /* whether XTC acts */
    RNG_MIROSTAT = 2, /* the draw that picks the token under mirostat */
};

void rng_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4]);

/* Uniform in [0, 1), 24 bits. */
float rng_uniform(uint64_t seed, uint32_t choice, uint32_t position, enum rng_purpose purpose);

#endif
