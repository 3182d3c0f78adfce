/* paint: see paint.h. */
#include "cli/paint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "source/source.h"

/* Sampled tokens stay as they are. Of the 16 colours every terminal has those that can be read on dark and on light. */
static const char *const colours[SOURCE_KINDS] = {"\033[34m", "\033[36m", "\033[35m", "\033[32m", "\033[33m", "\033[31m"};
#define PLAIN "\033[0m"

static bool on;
static int current; /* origin of what was written last */
static bool seen[SOURCE_KINDS];

void paint_begin(bool wanted)
{
    const char *no = getenv("NO_COLOR");
    on = wanted && isatty(STDOUT_FILENO) && !(no && *no);
    current = -1;
    memset(seen, 0, sizeof seen);
}

void paint_write(int origin, const char *text, size_t n)
{
    if (on && n && origin != current) {
        const char *c = origin >= 0 && origin < SOURCE_KINDS ? colours[origin] : PLAIN;
        cli_write(PLAIN, strlen(PLAIN));
        cli_write(c, strlen(c));
        current = origin;
        if (origin >= 0 && origin < SOURCE_KINDS)
            seen[origin] = true;
    }
    cli_write(text, n);
}

void paint_end(void)
{
    bool any = false;
    if (!on)
        return;
    cli_write(PLAIN, strlen(PLAIN));
    current = -1;
    for (int k = 0; k < SOURCE_KINDS; k++)
        any |= seen[k];
    if (!any)
        return;
    fputs("\n[sampled", stderr);
    for (int k = 0; k < SOURCE_KINDS; k++)
        if (seen[k])
            fprintf(stderr, isatty(STDERR_FILENO) ? ", %s%s" PLAIN : ", %.0s%s", colours[k],
                    source_name((enum source_kind)k));
    fputs("]\n", stderr);
}
