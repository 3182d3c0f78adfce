/*
 * replay_run: recorded replies through the engine, once without fast-forwarding and once with it, in turns.
 *
 * A reply's ids stand in for the sampler's choice (struct request, `imposed`), so every forward pass is real and only the
 * choice is not. What is timed is decoding: before a group of requests is run, their prompts are fed once, untimed, so
 * that they come from the prefix cache. One request at a time: `decode_s` of the engine's accounting, from the first token
 * to the end. Several: the wall time from the first token of any to the end of the last.
 */
#ifndef CLI_REPLAY_RUN_H
#define CLI_REPLAY_RUN_H

#include "cli/replay_lines.h"
#include "engine/engine.h"

#define REPLAY_MODES (2u + SOURCE_KINDS) /* off, on, each source alone */
enum { REPLAY_OFF, REPLAY_ON, REPLAY_EACH };

/* One conversation, ready for the engine; all owned. */
struct replay_item {
    const struct replay_line *line; /* the reader's */
    tok_id *prompt, *reply;         /* [prompt_n], [reply_n]; the reply with the id that ends the turn */
    size_t prompt_n, reply_n;
    struct grammar *grammar;        /* NULL = none */
    struct template_rows *rows;     /* NULL = none */
};

/* How requests are served. */
struct replay_mode {
    const char *name;
    enum fill_mode fill;
    uint32_t sources_off;
};

/* Added up over the requests of a class. */
struct replay_total {
    uint64_t tokens, sampled;       /* of replies; those that no source had */
    uint64_t prompt_fed;            /* prompt ids that the prefix cache did not have after all */
    uint64_t forwards;              /* passes over the weights after a group's first, which ends the prompts */
    uint64_t ids, heads;            /* computed in these passes; of them with a head */
    double seconds;
    struct source_counts by[SOURCE_KINDS];
    uint32_t sources_on;            /* bit 1 << enum source_kind: some request had it */
};

struct replay_run {
    struct engine *en;
    const struct replay_mode *mode; /* [modes] */
    uint32_t modes, batch;
};

/* Feeds the prompts of n items, at most `batch`, and chooses the first token of each. */
MUST_CHECK enum status replay_run_warm(const struct replay_run *r, const struct replay_item *const *items, uint32_t n,
                                       struct err *e);

/* Runs them in one mode and adds to *total. ST_BUG where the engine chose other ids than were imposed. */
MUST_CHECK enum status replay_run_group(const struct replay_run *r, const struct replay_item *const *items, uint32_t n,
                                        uint32_t mode, struct replay_total *total, struct err *e);

/* Milliseconds that a cost curve predicts for the passes of a total, as if all had the same number of ids. */
double replay_cost(const struct engine_cost *c, const struct replay_total *t);

#endif
