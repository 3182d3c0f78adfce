/*
 * download: one file of the web, whole and checked, into the model cache.
 *
 * A transfer that is cut goes on where it stopped, in the same process and in a later one, as long as it can be told that
 * the file is still the same: by its expected SHA-256, or by what the server calls that version of it (ETag,
 * Last-Modified). A server that has no ranges begins again. What the server says of lengths is held against what is
 * expected and against what comes.
 */
#ifndef CLI_DOWNLOAD_H
#define CLI_DOWNLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

struct download {
    const char *name;   /* for the bar and for texts */
    const char *url;
    const char *token;  /* goes to the address's own host only; NULL = none */
    const char *sha256; /* expected, in hexadecimal; NULL = what the server says, if anything */
    uint64_t bytes;     /* expected; 0 = unknown */
    bool quiet;         /* no word on stderr */
};

/* Puts it at `path`, unless a file is there already, of `bytes` bytes when that is known. ST_MODEL: what came is not what
 * was expected, or no GGUF file. ST_CANCELLED after a signal; spawn_catch_signals() is the caller's. */
MUST_CHECK enum status download_file(const struct download *d, const char *path, struct err *e);

/* What a file of `bytes` bytes still takes of the disk: nothing when it is there. The bytes of its part are not taken
 * twice, whether they are kept or fetched again. */
uint64_t download_missing(const char *path, uint64_t bytes);

/* Is it there, as far as that can be told without reading it? */
bool download_there(const char *path, uint64_t bytes);

#endif
