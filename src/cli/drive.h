/*
 * drive: a number of clients on one server of OpenAI's API, each with one streamed request under way at a time.
 *
 * One thread and libcurl's multi interface; connections are kept between requests where the server lets them be. The
 * memory is bounded whatever the run's length: histograms, one request body and one event for each client.
 *
 * The window is what the rates are over: it begins with the first request, and ends with --seconds or when the last of
 * --requests ended. After the window no request begins; those under way may end within DRAIN_S seconds, which counts for
 * their durations and not for the rates, and are then cut off.
 */
#ifndef CLI_DRIVE_H
#define CLI_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "cli/ask.h"
#include "cli/hist.h"

struct drive_config {
    struct ask ask;
    const char *url;      /* of the server, with or without /v1 */
    const char *api_key;  /* NULL = none */
    uint32_t clients;
    uint32_t seconds;     /* 0 = until `requests` are over */
    uint32_t requests;    /* 0 = until `seconds` are over */
    uint32_t think_ms;    /* between a reply and the client's next request */
    uint32_t max_errors;  /* the run ends after as many */
    uint32_t long_prompt; /* words of the one long request; 0 = none */
    uint32_t long_at;     /* seconds after the start at which it is sent */
};

enum drive_end { DRIVE_SECONDS, DRIVE_REQUESTS, DRIVE_ERRORS, DRIVE_INTERRUPTED };

/* One kind of failure. */
struct drive_error {
    int status; /* HTTP; 0 when there was no reply */
    char text[ERR_TEXT];
    uint64_t count;
};

struct drive_result {
    enum drive_end end;
    double seconds;                      /* of the window */
    uint64_t ended, cancelled;           /* requests that ended well, and that were cut off after the window */
    uint64_t ended_inside;               /* of those that ended well: within the window */
    uint64_t with_usage;                 /* of those that ended well: said how many tokens they had */
    uint64_t errors;                     /* requests that failed */
    struct drive_error kinds[LIMIT_LOAD_ERRORS];
    uint32_t n_kinds;                    /* failures of further kinds count in `errors` alone */
    uint64_t tokens_in, tokens_cached;   /* of requests that ended well, as their usage says */
    uint64_t tokens_out;                 /* within the window */
    uint64_t by_client[LIMIT_LOAD_CLIENTS]; /* the same of each client */
    /* us: from sending a request to its first text; between two pieces of text; to the end. */
    struct hist first, gap, whole;
    double long_first, long_total, long_gap; /* ms; NaN = not reached. The gap is the longest between two pieces of text of
                                              * any other stream, of those that overlap the long request's first_ms */
    uint64_t long_tokens;                /* its prompt's, as its usage says; 0 = unknown */
};

/* Runs until the window and what follows it are over, or a signal came. Fails only where no request could be made at
 * all; a failed request is counted in *out. */
MUST_CHECK enum status drive_run(const struct drive_config *c, struct drive_result *out, struct err *e);

#endif
