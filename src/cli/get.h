/*
 * get: one HTTP GET, with what a download has to know of the reply. Redirects are followed, from https only to https; a
 * token goes to the host it was meant for and to no other. Uses libcurl (curl.h).
 */
#ifndef CLI_GET_H
#define CLI_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "cli/store.h"

struct get_reply {
    long status;
    bool page;                     /* text/html */
    bool ranged;                   /* Content-Range was understood: the body begins at byte `first` */
    uint64_t first;
    uint64_t total;                /* bytes of the whole file, 0 = not said */
    char validator[STORE_VALIDATOR]; /* a strong ETag, else Last-Modified, else "" */
    char sha256[STORE_HEX];        /* what the hub says of the file, on the way too; "" = nothing */
    uint32_t wait_s;               /* Retry-After, 0 = none */
};

struct get {
    const char *url;
    const char *token;    /* "Authorization: Bearer", or NULL */
    const char *if_range; /* or NULL */
    uint64_t from;        /* ask for the rest from this byte on */
    /* Takes the body of a 200 or 206, piece by piece. */
    enum status (*take)(void *ctx, const struct get_reply *r, const void *data, size_t n, struct err *e);
    void (*tick)(void *ctx); /* now and then; may be NULL */
    void *ctx;
};

/* ST_OK when a whole body was taken. Otherwise *again says whether another try may end better; what take() returned is
 * passed on. ST_CANCELLED after a signal (cli.h). `r` is filled as far as the reply got. */
MUST_CHECK enum status get_url(const struct get *g, struct get_reply *r, bool *again, struct err *e);

/* A body of at most `limit` bytes as text; tries again a few times. `out` is released by the caller, also on failure. */
MUST_CHECK enum status get_text(const char *url, const char *token, size_t limit, struct buf *out, struct err *e);

/* Waits before try number n (from 1) after a reply; ST_CANCELLED after a signal. */
MUST_CHECK enum status get_pause(uint32_t n, const struct get_reply *r, struct err *e);

#define GET_TRIES 4 /* tries in a row that bring nothing new */

#endif
