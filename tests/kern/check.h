/*
 * check: comparing a level's kernels with the reference, byte by byte. In the manner of dav1d's checkasm.
 *
 * Inputs and outputs lie against an unreadable page, so that an access past their end is a crash.
 */
#ifndef TESTS_KERN_CHECK_H
#define TESTS_KERN_CHECK_H

#include <stdint.h>

#include "kern/kern.h"

struct check {
    const struct kern_ops *ops; /* the level under test */
    const char *level;
    uint64_t seed, counter;
    const char *bench; /* what to time instead of comparing: "all", "linear" or "attn"; NULL = compare */
    int passed, failed;
    uint64_t digest; /* of the expected bytes of all comparisons so far */
};

/* Random values: a pure function of seed and how many were drawn. */
uint32_t rnd(struct check *c);
uint32_t rnd_below(struct check *c, uint32_t n);
void shuffled(struct check *c, uint32_t *table, uint32_t n); /* 0 to n - 1 in random order */
float rnd_float(struct check *c, float scale); /* in [-scale, scale) */

/* Memory whose last byte is the last before an unreadable page; `align` is 1 or a power of two that the end is rounded
 * up to (then up to align - 1 bytes are readable past n). Freed together by guard_release(). */
void *guard_alloc(size_t n, size_t align);
void guard_release(void);

/* Counts one comparison; on a difference says where. */
bool same(struct check *c, const char *what, const void *want, const void *got, size_t n);

/* File bytes of `rows` rows: random quants, scales that stay finite. */
uint8_t *random_weights(struct check *c, enum kern_type type, uint32_t rows, uint32_t cols);

void check_linear(struct check *c);
void check_pack(struct check *c);
void check_attn(struct check *c);
void check_ops(struct check *c);
void bench_linear(struct check *c);
void bench_attn(struct check *c);
void bench_barrier(void);

/* Decodes one id of three heads of 64 over a past of 2,048, once. */
void attn_once(struct check *c, enum kern_kv format);

#endif
