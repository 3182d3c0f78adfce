/*
 * stream: reads one streamed reply of OpenAI's API (server-sent events), as its bytes arrive.
 *
 * Works on any server's: chat or completion chunks, with or without usage, LF or CRLF, in pieces of any size. Keeps no
 * text: only how many chunks carried some, and what the reply said about itself.
 */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct stream {
    struct buf line, data; /* the line being read; the data lines of the event being read */
    bool was_cr;           /* the last byte was CR: an LF after it ends no second line */
    bool done;             /* [DONE] came */
    bool finished;         /* a choice said why it ended */
    bool has_usage;
    uint64_t chunks;       /* with text */
    uint64_t tokens_in, tokens_cached, tokens_out; /* what usage says */
};

void stream_init(struct stream *s);
void stream_release(struct stream *s);
void stream_clear(struct stream *s); /* for the next reply */

/* Takes n bytes; *with_text is how many chunks with text ended in them. Fails with what is wrong with the reply, or with
 * the error that the server wrote into it. */
MUST_CHECK enum status stream_feed(struct stream *s, const char *bytes, size_t n, uint32_t *with_text, struct err *e);

/* After the last byte: whether the reply came to its end, [DONE] or a reason to finish. */
MUST_CHECK enum status stream_end(const struct stream *s, struct err *e);

/* What a reply that is an error says: its error.message, or its beginning when it has none. */
void stream_error_text(const char *body, size_t n, char *out, size_t cap);

#endif
