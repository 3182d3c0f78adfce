/*
 * hist: how durations are spread, in fixed memory however many are added.
 *
 * Microseconds, counted in buckets that are 1/32 of a power of two wide: a percentile is within 2 % of the true one, the
 * largest value is exact. Also Jain's index of fairness, which the load driver takes over its clients.
 */
#ifndef CLI_HIST_H
#define CLI_HIST_H

#include <stdint.h>

#define HIST_SPLIT 5                                  /* log2 of the buckets between a power of two and the next */
#define HIST_TOP 40                                   /* values from 2^40 us (12 days) on share the last bucket */
#define HIST_BUCKETS ((HIST_TOP - HIST_SPLIT + 1) << HIST_SPLIT)

/* All zero is an empty one. */
struct hist {
    uint64_t count[HIST_BUCKETS];
    uint64_t n, largest; /* largest in us */
};

void hist_add(struct hist *h, uint64_t us);

/* The value that a share q of all does not exceed, in milliseconds; NaN of an empty one. */
double hist_quantile(const struct hist *h, double q);

/* (sum x)^2 / (n sum x^2), from 1 / n to 1 = all alike; 1 when nobody got anything.
 * Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC TR-301, 1984. */
double hist_jain(const uint64_t *x, uint32_t n);

#endif
