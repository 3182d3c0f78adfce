/*
 * cover: which combinations of factor values are run.
 *
 * A factor is a number of values, a combination one value of each. In full: all of them. Pairwise: a list in which any
 * two values of any two factors meet at least once, found greedily and always the same.
 */
#ifndef TESTS_MATRIX_COVER_H
#define TESTS_MATRIX_COVER_H

#include <stdint.h>

#define COVER_FACTORS 8u
#define COVER_VALUES 8u
#define COVER_MOST 2048u

struct cover {
    uint32_t factors, values[COVER_FACTORS];
    uint32_t n;
    uint8_t at[COVER_MOST][COVER_FACTORS]; /* [n][factors] */
};

/* `values`: how many each factor has. */
void cover_full(struct cover *c, const uint32_t *values, uint32_t factors);
void cover_pairs(struct cover *c, const uint32_t *values, uint32_t factors);

/* How many pairs of values no combination has. */
uint32_t cover_missing(const struct cover *c);

#endif
