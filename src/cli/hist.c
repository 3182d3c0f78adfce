/* hist: see hist.h. */
#include "cli/hist.h"

#include <math.h>

#define SPLIT (1u << HIST_SPLIT)

/* Values below SPLIT have a bucket each; from there on a bucket is the top HIST_SPLIT + 1 bits of the value. */
static uint32_t bucket_of(uint64_t us)
{
    if (us < SPLIT)
        return (uint32_t)us;
    uint32_t top = 63 - (uint32_t)__builtin_clzll(us);
    if (top >= HIST_TOP)
        return HIST_BUCKETS - 1;
    return ((top - HIST_SPLIT) << HIST_SPLIT) + (uint32_t)(us >> (top - HIST_SPLIT));
}

/* The middle of a bucket, in us. */
static double value_of(uint32_t bucket)
{
    if (bucket < SPLIT)
        return bucket;
    uint32_t shift = (bucket >> HIST_SPLIT) - 1;
    double low = ldexp((bucket & (SPLIT - 1)) + SPLIT, (int)shift);
    return low + (ldexp(1, (int)shift) - 1) / 2;
}

void hist_add(struct hist *h, uint64_t us)
{
    h->count[bucket_of(us)]++;
    h->n++;
    if (us > h->largest)
        h->largest = us;
}

double hist_quantile(const struct hist *h, double q)
{
    if (h->n == 0)
        return NAN;
    uint64_t rank = (uint64_t)ceil(q * (double)h->n), seen = 0; /* the smallest value with `rank` values up to it */
    if (rank == 0)
        rank = 1;
    for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
        seen += h->count[i];
        if (seen >= rank)
            return (rank == h->n ? (double)h->largest : fmin(value_of(i), (double)h->largest)) / 1e3;
    }
    return (double)h->largest / 1e3;
}

double hist_jain(const uint64_t *x, uint32_t n)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    return squares > 0 ? sum * sum / (n * squares) : 1;
}
