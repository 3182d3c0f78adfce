/* near: see near.h. */
#include "cli/near.h"

#include <stdbool.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Edits between a[an] and b[bn], both at most NEAR_LONGEST long, row by row of the usual table:
 * d(i, j) = min(d(i - 1, j) + 1, d(i, j - 1) + 1, d(i - 1, j - 1) + (a_i != b_j), d(i - 2, j - 2) + 1 where the last two
 * letters are swapped). Rows are kept modulo three.
 */
static size_t edits(const char *a, size_t an, const char *b, size_t bn)
{
    size_t d[3][NEAR_LONGEST + 1];
    for (size_t j = 0; j <= bn; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= an; i++) {
        size_t *now = d[i % 3], *above = d[(i + 2) % 3], *before = d[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= bn; j++) {
            now[j] = least(least(above[j], now[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return d[an % 3][bn];
}

/* One edit for each three letters, but one at least; nothing is near to a single letter. */
void near_init(struct near *s, const char *typed, size_t n)
{
    size_t most = n < 2 ? 0 : n < 6 ? 1 : n / 3;
    *s = (struct near){.typed = typed, .n = n, .cost = most + 1};
}

void near_offer(struct near *s, const char *word, size_t n)
{
    if (s->n == 0 || s->n > NEAR_LONGEST || n > NEAR_LONGEST)
        return;
    bool begins = s->n > 1 && s->n < n && memcmp(s->typed, word, s->n) == 0;
    size_t cost = begins ? 1 : edits(s->typed, s->n, word, n);
    if (cost < s->cost) {
        s->best = word;
        s->best_n = n;
        s->cost = cost;
    }
}
