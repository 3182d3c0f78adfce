/* bar: see bar.h. */
#include "cli/bar.h"

#include <stdio.h>

#include "cli/cli.h"

#define WIDTH 20
#define EVERY_S 0.1
#define SHOWN 36 /* bytes of a name */

void bar_begin(struct bar *b, const char *name, uint64_t from)
{
    *b = (struct bar){.name = name, .start = cli_seconds(), .from = from};
}

const char *bar_bytes(uint64_t n, char out[BAR_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double x = (double)n;
    size_t u = 0;
    while (x >= 999.5 && u + 1 < sizeof units / sizeof *units) {
        x /= 1000;
        u++;
    }
    snprintf(out, BAR_BYTES, u && x < 99.95 ? "%.1f %s" : "%.0f %s", x, units[u]);
    return out;
}

void bar_show(struct bar *b, uint64_t done, uint64_t total)
{
    static const char full[] = "====================";
    char have[BAR_BYTES], all[BAR_BYTES], rate[BAR_BYTES], left[32] = "";
    double now = cli_seconds(), took = now - b->start;
    if (now < b->next)
        return;
    b->next = now + EVERY_S;
    double speed = took > 0.2 && done > b->from ? (double)(done - b->from) / took : 0;
    bar_bytes((uint64_t)speed, rate);
    bar_bytes(done, have);
    if (total == 0) {
        cli_progress("%.*s  %s  %s/s", SHOWN, b->name, have, rate);
        return;
    }
    double part = done < total ? (double)done / (double)total : 1;
    if (speed > 0 && done < total) {
        unsigned long s = (unsigned long)((double)(total - done) / speed);
        snprintf(left, sizeof left, "  %lu:%02lu", s / 60, s % 60);
    }
    cli_progress("%.*s [%-*.*s] %3.0f %%  %s of %s  %s/s%s", SHOWN, b->name, WIDTH, (int)(part * WIDTH), full,
                 100 * part, have, bar_bytes(total, all), rate, left);
}
