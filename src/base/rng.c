/* rng: Philox4x32 with ten rounds. See rng.h. */
#include "base/rng.h"

void rng_philox(uint64_t key, uint64_t counter_lo, uint64_t counter_hi, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c[4] = {(uint32_t)counter_lo, (uint32_t)(counter_lo >> 32), (uint32_t)counter_hi,
                     (uint32_t)(counter_hi >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = n0;
        c[1] = (uint32_t)p1;
        c[2] = n2;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

float rng_uniform(uint64_t seed, uint32_t choice, uint32_t position, enum rng_purpose purpose)
{
    uint32_t r[4];
    rng_philox(seed, ((uint64_t)choice << 32) | position, (uint64_t)purpose, r);
    return (float)(r[0] >> 8) * 0x1p-24f;
}
