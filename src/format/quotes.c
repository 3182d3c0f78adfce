/*
 * quotes: whether content is inside something that quotes: a code fence, backticks, quotation marks.
 *
 * A call's mark in there is likely to be spoken about, not used. Where prose is ambiguous (an inch sign, an apostrophe)
 * this says "open": whoever asks wants to be certain that nothing is.
 */
#include <string.h>

#include "format/inside.h"

void format_quotes_clear(struct recogniser_quotes *q)
{
    *q = (struct recogniser_quotes){.line = 1};
}

bool format_quotes_open(const struct recogniser_quotes *q)
{
    return q->fence || q->ticks || q->run || q->quote || q->curly || q->single || q->closing;
}

static bool word(uint8_t c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c >= 0x80;
}

/* A run of backticks or tildes has ended; `c` follows. At the beginning of a line three or more make a fence. */
static void end_run(struct recogniser_quotes *q, unsigned char c)
{
    uint8_t n = q->run, byte = q->run_byte;
    q->run = 0;
    if (q->fence) {
        if (q->line && byte == q->fence && n >= q->fence_n)
            q->closing = true; /* if nothing but white space follows on the line */
    } else if (q->line && n >= 3 && !q->ticks) {
        q->fence = byte, q->fence_n = n;
    } else if (byte == '`') {
        q->ticks = q->ticks == n ? 0 : q->ticks ? q->ticks : n;
    }
    if (c != '\n')
        q->line = 0;
}

static void prose(struct recogniser_quotes *q, unsigned char c)
{
    if (q->single && q->indent) { /* a ' while one was open: an apostrophe if a letter follows */
        q->single = word(c);
        q->indent = 0;
    }
    if (c == '"') {
        q->quote = !q->quote;
    } else if (c == '\'') {
        if (q->single)
            q->indent = 1;
        else
            q->single = !word(q->last);
    } else if (q->utf == 2 && (c == 0x9c || c == 0x9d)) { /* “ ” are E2 80 9C and 9D */
        q->curly = c == 0x9c;
    }
    q->utf = c == 0xe2 ? 1 : q->utf == 1 && c == 0x80 ? 2 : 0;
}

void format_quotes_take(struct recogniser_quotes *q, unsigned char c)
{
    if ((c == '`' || c == '~') && (!q->run || q->run_byte == c)) {
        q->run_byte = c;
        q->run += q->run < 255;
        q->closing = false;
        return;
    }
    if (q->run)
        end_run(q, c);
    if (c == '`' || c == '~') {
        q->run_byte = c, q->run = 1;
        q->closing = false;
        return;
    }
    if (c == '\n') {
        if (q->closing)
            q->fence = 0;
        q->closing = false;
        q->line = 1;
    } else if (!format_blank(c)) {
        q->closing = false;
        q->line = 0;
    }
    if (!q->fence && !q->ticks)
        prose(q, c);
    q->last = c;
}
