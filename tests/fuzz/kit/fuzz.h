/*
 * fuzz: what fuzzers share.
 *
 * A fuzzer is tests/fuzz/NAME.c with one LLVMFuzzerTestOneInput(). `make fuzz` links it with libFuzzer, which makes inputs
 * up; `make test` and `make asan` link it with replay.c, which gives it the files of tests/fuzz/corpus/NAME. It checks
 * properties, not only that nothing crashes, and ends the program where one does not hold.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Ends the program, with a sentence, unless it holds. */
#define FUZZ_CHECK(holds, ...) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "%s:%d: " #holds ": ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            abort(); \
        } \
    } while (0)

/* What is left of an input. */
struct fuzz {
    const char *at;
    size_t n;
};

/* The next byte; 0 at the end. */
static inline uint8_t fuzz_byte(struct fuzz *f)
{
    if (!f->n)
        return 0;
    f->n--;
    return (uint8_t)*f->at++;
}

/* Up to the next `end`, which is taken too, or all of it. */
static inline struct fuzz fuzz_until(struct fuzz *f, char end)
{
    const char *stop = f->n ? memchr(f->at, end, f->n) : NULL;
    struct fuzz part = {f->at, stop ? (size_t)(stop - f->at) : f->n};
    size_t taken = part.n + (stop != NULL);
    if (taken)
        f->at += taken;
    f->n -= taken;
    return part;
}

/* A copy of its own, so that a sanitizer sees a read beyond it; the caller frees. */
static inline char *fuzz_copy(const char *s, size_t n)
{
    char *copy = malloc(n ? n : 1);
    FUZZ_CHECK(copy, "no memory");
    if (n)
        memcpy(copy, s, n);
    return copy;
}

/* The same as a string: up to the first NUL. */
static inline char *fuzz_string(const char *s, size_t n)
{
    char *copy = n ? strndup(s, n) : calloc(1, 1);
    FUZZ_CHECK(copy, "no memory");
    return copy;
}

/* A path at which there is a file of these bytes until the next call. */
const char *fuzz_file(const void *bytes, size_t n);

/* s[n] as UTF-8: what is no character becomes U+FFFD, as the server's writer of JSON has it. Appends. */
void fuzz_utf8(const char *s, size_t n, struct buf *out);

/* Ends the program unless both hold the same bytes. */
void fuzz_same(const struct buf *a, const struct buf *b, const char *what);

#endif
