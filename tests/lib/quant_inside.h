/* quant_inside: what the encoders of quant.c, quant_k.c and quant_book.c share. Blocks are encoded and decoded one at a
 * time; x holds the values of one block. */
#ifndef TESTS_LIB_QUANT_INSIDE_H
#define TESTS_LIB_QUANT_INSIDE_H

#include <stddef.h>
#include <stdint.h>

#include "quant.h"

/* 16 bits, low byte first, and the f16 stored so. */
void tiny_put16(uint8_t *p, uint16_t v);
uint16_t tiny_get16(const uint8_t *p);
float tiny_half(const uint8_t *p);

/* The integer nearest to x / scale, within [low, high]; 0 for a scale of 0: such a block holds one value only. */
int tiny_code(float x, float scale, int low, int high);

float tiny_extreme(const float *x, size_t n); /* the value of largest magnitude, with its sign */
void tiny_range(const float *x, size_t n, float *low, float *high);

/* Q2_K, Q3_K, Q4_K, Q5_K, Q6_K: blocks of 256. */
void tiny_encode_k(enum tiny_type type, const float *x, uint8_t *out);
void tiny_decode_k(enum tiny_type type, const uint8_t *in, float *x);

/* IQ4_NL, IQ4_XS, MXFP4: blocks of 32, 256, 32. */
void tiny_encode_book(enum tiny_type type, const float *x, uint8_t *out);
void tiny_decode_book(enum tiny_type type, const uint8_t *in, float *x);

#endif
