/*
 * told: a source that was told the reply beforehand.
 *
 * It knows one request by its prompt and says what comes next in its reply: all of it right, or wrong now and then, or
 * without asking for the sampler's opinion. About all others it says what never comes.
 */
#ifndef TESTS_MATRIX_TOLD_H
#define TESTS_MATRIX_TOLD_H

#include "source/source.h"

enum told_habit { TOLD_RIGHT, TOLD_MIXED, TOLD_CERTAIN };

struct told {
    struct source source;
    struct source_ops ops;
    enum told_habit habit;
    const tok_id *prompt, *reply; /* [prompt_n], [reply_n] */
    uint32_t prompt_n, reply_n;
    uint32_t quiet;               /* silent before this output position, and about others */
};

/* Plain memory, of the test. */
void told_init(struct told *t, enum told_habit habit, const tok_id *prompt, uint32_t prompt_n, const tok_id *reply,
               uint32_t reply_n);

#endif
