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
#define DIM "\033[2m"
#define ASIDE (-2) /* beside the origins */

static bool on, terminal;
static int current; /* origin of what was written last */
static bool seen[SOURCE_KINDS];

bool paint_possible(void)
{
    const char *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no);
}

void paint_begin(bool wanted)
{
    on = wanted && paint_possible();
    terminal = isatty(STDOUT_FILENO);
    current = -1;
    memset(seen, 0, sizeof seen);
}

/* Those of ASCII, and U+0080 to U+009F. */
size_t paint_control(const char *s, size_t n)
{
    unsigned char c = (unsigned char)s[0], next = n > 1 ? (unsigned char)s[1] : 0;
    if (c < ' ' || c == 127)
        return c != '\n' && c != '\t';
    return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

static void write_harmless(const char *s, size_t n)
{
    size_t plain = 0;
    while (terminal && plain < n) {
        size_t skip = paint_control(s + plain, n - plain);
        if (skip) {
            cli_write(s, plain);
            cli_write("\xef\xbf\xbd", 3);
            s += plain + skip;
            n -= plain + skip;
        }
        plain = skip ? 0 : plain + 1;
    }
    cli_write(s, n);
}

void paint_aside(const char *text, size_t n)
{
    if (!terminal)
        return;
    if (current != ASIDE && paint_possible())
        cli_write(DIM, strlen(DIM));
    current = ASIDE;
    write_harmless(text, n);
}

static void leave_aside(void)
{
    if (current == ASIDE && paint_possible())
        cli_write(PLAIN, strlen(PLAIN));
}

void paint_write(int origin, const char *text, size_t n)
{
    if (n && current == ASIDE) {
        leave_aside();
        cli_write("\n", 1);
        current = -1;
    }
    if (on && n && origin != current) {
        const char *c = origin >= 0 && origin < SOURCE_KINDS ? colours[origin] : PLAIN;
        cli_write(PLAIN, strlen(PLAIN));
        cli_write(c, strlen(c));
        current = origin;
        if (origin >= 0 && origin < SOURCE_KINDS)
            seen[origin] = true;
    }
    write_harmless(text, n);
}

void paint_end(void)
{
    bool any = false;
    leave_aside();
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
