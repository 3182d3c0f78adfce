/* bar: a progress bar on stderr, for work that is counted in bytes, and how bytes are written for people. */
#ifndef CLI_BAR_H
#define CLI_BAR_H

#include <stdint.h>

#define BAR_BYTES 16 /* room for bar_bytes() */

struct bar {
    const char *name;
    double start, next; /* cli_seconds() */
    uint64_t from;      /* what was done before it began: counts for the bar, not for the rate */
};

void bar_begin(struct bar *b, const char *name, uint64_t from);

/* At most ten times a second, and only on a terminal. total 0 = unknown. */
void bar_show(struct bar *b, uint64_t done, uint64_t total);

/* "98.4 MB" (powers of 1000); returns `out`. */
const char *bar_bytes(uint64_t n, char out[BAR_BYTES]);

#endif
