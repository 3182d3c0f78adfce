/* bench: how fast a level's linear layers are on one thread. Figures for people; nothing here can fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define ROWS 1536u
#define COLS 1536u

static double seconds_of(struct check *c, const struct kern_mat *m, const struct kern_act *x, float *out)
{
    double best = 1e9;
    for (int rep = 0; rep < 5; rep++) {
        int n = 0;
        double t0 = clock_seconds(), t;
        do {
            for (uint32_t p = 0; p < kern_panels(m->rows); p += 8)
                c->ops->linear(m, p, p + 8, x, out, m->rows);
            n++;
        } while ((t = clock_seconds() - t0) < 0.03);
        best = t / n < best ? t / n : best;
    }
    return best;
}

void bench_linear(struct check *c)
{
    static const uint32_t tokens[] = {1, 2, 3, 4, 8, 16, 64, 256};
    printf("level %s, one thread, %u × %u, GMAC/s by tokens:", c->level, ROWS, COLS);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        printf(" %u", tokens[i]);
    printf("; GB/s of weights at 1\n");
    for (int t = 0; t < KERN_TYPES; t++) {
        enum kern_type type = (enum kern_type)t;
        uint8_t *src = random_weights(c, type, ROWS, COLS), *dst = guard_alloc(kern_mat_bytes(type, ROWS, COLS), 64);
        kern_pack(type, ROWS, COLS, src, 0, kern_panels(ROWS), dst);
        struct kern_mat m = {type, ROWS, COLS, kern_panel_stride(type, COLS), dst};
        printf("  %-6s", kern_type_info(type)->name);
        double one = 1;
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            uint32_t n = tokens[i];
            float *x = guard_alloc((size_t)n * COLS * 4, 64), *out = guard_alloc((size_t)n * ROWS * 4, 64);
            for (size_t j = 0; j < (size_t)n * COLS; j++)
                x[j] = rnd_float(c, 1);
            struct kern_act a = {n, COLS, x, guard_alloc((size_t)n * COLS, 64),
                                 guard_alloc((size_t)n * COLS / 32 * sizeof(struct kern_xmeta), 16)};
            c->ops->quantise(&a, 0, n, 0, COLS / 32);
            double s = seconds_of(c, &m, &a, out);
            one = i ? one : s;
            printf(" %6.1f", (double)n * ROWS * COLS / s * 1e-9);
        }
        printf("  %5.1f\n", (double)kern_mat_bytes(type, ROWS, COLS) / one * 1e-9);
        guard_release();
    }
}
