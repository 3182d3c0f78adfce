/*
 * fake_model: a network without weights, to drive the engine with.
 *
 * It stores each fed id in the KV blocks it was given and computes everything from what it reads back through the page
 * tables: the logits of a position are a hash of all ids before it (and, in a second, sliding group, of those within the
 * window). A block that was lost, shared by mistake or dropped too early changes the ids that come out.
 */
#ifndef FAKE_MODEL_H
#define FAKE_MODEL_H

#include <semaphore.h>
#include <stdatomic.h>

#include "engine/net.h"

#define FAKE_VOCAB 300u
#define FAKE_EOS 299
#define FAKE_POISON 298 /* a row that holds this id has logits that are not finite */
#define FAKE_WINDOW 40u

struct fake_model {
    uint32_t context;
    bool whole;                  /* it makes vectors and does not write, and is fed whole prompts only */
    enum model_pooling pooling;  /* of vectors, which are two numbers: sums of states, and how many they are */
    bool no_eos;                 /* the end token is never likely */
    _Atomic bool gated;          /* forward waits for `gate`, after posting `entered` */
    sem_t gate, entered;
    /* If set, the next id is this function of the ids so far (n of them). */
    tok_id (*next)(const tok_id *ids, uint32_t n);
    struct engine_tuning tuning; /* what the engine is made with */
    const char *const *text;     /* [FAKE_VOCAB] or NULL; NULL entries are one letter */

    _Atomic uint32_t steps, spans, fed, heads, most_tokens, most_spans; /* what was seen; ids fed and heads in all */
    double keys, decode_keys;    /* that ids of spans of several, and of one, looked at in both groups, in all */
    struct fake_state *state;    /* of the last step's positions */
    uint32_t tokens;             /* of the largest step */
    bool released;
};

void fake_init(struct fake_model *f, uint32_t context);
void fake_release(struct fake_model *f); /* after the engine */

/* `cfg` as the engine takes it; model and tok are not looked at. With `words`, ids have text. */
enum status fake_engine(struct engine **out, struct fake_model *f, const struct engine_config *cfg, bool words,
                        struct err *e);

/* What a request must give, computed without an engine: ids until the end token (included) or max ids. Returns how
 * many. */
uint32_t fake_expect(const struct fake_model *f, const struct request *rq, uint32_t max, tok_id *out);

/* The log-probability of `id` after ids[0, n). */
float fake_logprob(const struct fake_model *f, const tok_id *ids, uint32_t n, tok_id id);

/* The vector of ids[0, n). */
void fake_vector(const struct fake_model *f, const tok_id *ids, uint32_t n, float out[2]);

/* The logits after ids[0, n): [FAKE_VOCAB]. */
void fake_logits(const struct fake_model *f, const tok_id *ids, uint32_t n, float *out);

const char *fake_text(const struct fake_model *f, tok_id id);

#endif
