/*
 * fake_source: sources that know what the fake model will choose, or pretend to.
 *
 * Each computes the row's next ids as its sampler will choose them and then says all of them, some of them, or others, as
 * its habit and a hash of the row's ids tell it to. A proposal that is settled twice, or never, aborts.
 */
#ifndef FAKE_SOURCE_H
#define FAKE_SOURCE_H

#include "fake_model.h"

enum fake_habit {
    FAKE_SURE,   /* asserts, and is right; kind grammar only */
    FAKE_RIGHT,  /* right to the end, past the end token too */
    FAKE_HALF,   /* right for a while */
    FAKE_WRONG,  /* always wrong, and sometimes no id at all */
    FAKE_POISONS, /* wrong, with ids after which nothing is finite */
    FAKE_HABITS
};

struct fake_source {
    struct source source;
    struct source_ops ops;
    struct fake_model *model;
    struct sampler *sampler;
    enum fake_habit habit;
    uint32_t out;       /* proposals not settled */
    uint64_t proposals, offered, accepted, declined, rows, observed;
};

/* In the heap; ops.free gives it back. */
struct source *fake_source_new(struct fake_model *f, enum source_kind kind, enum fake_habit habit);

#endif
