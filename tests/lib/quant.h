/*
 * quant: the tests' own encoder and decoder of GGUF tensor types.
 *
 * Written from the description of the formats and apart from src/, so that a mistake there cannot hide in a shared
 * helper. The encoder is simple (no search for better scales) but reaches every code of each type. Decoding gives the
 * exact value that a type stands for: w = d*q, d*q + m, d*sc*q or d*sc*q - dmin*mn, each product and sum rounded to f32
 * once.
 */
#ifndef TESTS_LIB_QUANT_H
#define TESTS_LIB_QUANT_H

#include <stddef.h>
#include <stdint.h>

/* The numbers are those of the file format. */
enum tiny_type {
    TINY_F32 = 0,
    TINY_F16 = 1,
    TINY_Q4_0 = 2,
    TINY_Q4_1 = 3,
    TINY_Q5_0 = 6,
    TINY_Q5_1 = 7,
    TINY_Q8_0 = 8,
    TINY_Q2_K = 10,
    TINY_Q3_K = 11,
    TINY_Q4_K = 12,
    TINY_Q5_K = 13,
    TINY_Q6_K = 14,
    TINY_IQ4_NL = 20,
    TINY_IQ4_XS = 23,
    TINY_BF16 = 30,
    TINY_MXFP4 = 39,
};

/* All of them. */
#define TINY_TYPES 16
extern const enum tiny_type tiny_types[TINY_TYPES];

const char *tiny_type_name(enum tiny_type type);      /* "Q4_K"; NULL for a number that is none of them */
size_t tiny_type_block(enum tiny_type type);          /* values in a block: 1, 32 or 256; 0 for none of them */
size_t tiny_row_bytes(enum tiny_type type, size_t n); /* bytes of n values; 0 when n is not whole blocks */

/* n values, whole blocks, from f32 to `out` of tiny_row_bytes() and back. */
void tiny_encode(enum tiny_type type, const float *x, size_t n, uint8_t *out);
void tiny_decode(enum tiny_type type, const uint8_t *in, size_t n, float *x);

/* Round to nearest, ties to even; NaN stays NaN. */
uint16_t tiny_f16(float x);
float tiny_f16_value(uint16_t h);

#endif
