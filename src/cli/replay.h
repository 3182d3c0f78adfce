/*
 * replay: `ffwd bench replay`, in three parts: what was recorded (replay_lines.h), running it (replay_run.h), and here
 * what came out of it, as a table or as JSON.
 */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "cli/replay_run.h"

/* One class: totals[pair * modes + mode]. */
struct replay_class {
    const char *name;
    uint32_t lines, left_out; /* left out: the request does not allow the recorded reply */
    struct replay_total *totals; /* [pairs][modes]; modes beyond REPLAY_ON are zero for sources that nothing had */
};

struct replay_report {
    const struct api_model *model;
    const struct replay_mode *mode;   /* [modes] */
    const enum source_kind *alone;    /* [modes - REPLAY_EACH] which source the modes from REPLAY_EACH on have */
    uint32_t modes, pairs, batch;
    const struct replay_class *cls;   /* [classes] */
    uint32_t classes;
    struct engine_cost cost;
};

/* Print and return the exit status. */
int replay_print_json(const struct replay_report *r);
int replay_print_plain(const struct replay_report *r);

#endif
