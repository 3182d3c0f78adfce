/*
 * grammar: any schema, regular expression, choice, Lark or GBNF, and a way through it (the shim's Rust is not followed).
 *
 * What a mask allows is taken, what is taken can be taken back, and the mask is then the same. The first byte chooses the
 * kind, the second how many steps are gone; which, the bytes that follow choose.
 */
#include "calls.h"
#include "fuzz/kit/fuzz.h"
#include "text/text.h"

#define STEPS 24
#define WORDS 16 /* of a mask */

static bool has(const uint32_t *mask, tok_id id)
{
    return mask[id / 32] >> id % 32 & 1;
}

/* The k-th id of the mask that does not end a reply, or -1. */
static tok_id pick(const struct tok *t, const uint32_t *mask, size_t k, size_t *n)
{
    tok_id found = -1;
    *n = 0;
    for (tok_id id = 0; id < (tok_id)tok_vocab(t); id++)
        if (has(mask, id) && !tok_is_eos(t, id)) {
            if (*n == k)
                found = id;
            ++*n;
        }
    return found;
}

static void check_mask(const struct tok *t, const uint32_t *mask, const struct matcher_next *next)
{
    size_t n;
    (void)pick(t, mask, 0, &n);
    FUZZ_CHECK(next->n == (n > 2 ? 2 : n), "%u and %zu ids", next->n, n);
    FUZZ_CHECK(next->n != 1 || has(mask, next->only), "the only id is another");
    FUZZ_CHECK(has(mask, CALLS_END) == next->end, "the end");
}

/* One step; false: no further. */
static bool step(const struct tok *t, struct matcher *m, uint8_t choice)
{
    uint32_t mask[WORDS], again[WORDS];
    struct matcher_next next, then;
    struct err e;
    size_t n, bytes = matcher_words(m) * sizeof *mask;
    FUZZ_CHECK(bytes <= sizeof mask, "%zu words", matcher_words(m));
    if (matcher_mask(m, mask, &next, &e) != ST_OK)
        return false;
    if (next.all)
        return false;
    check_mask(t, mask, &next);
    (void)pick(t, mask, 0, &n);
    if (!n)
        return false;
    tok_id id = pick(t, mask, choice % n, &n);
    if (matcher_consume(m, &id, 1) != 1) {
        FUZZ_CHECK(matcher_error(m, &e) != ST_OK, "id %d is allowed, and not taken", id);
        return false;
    }
    matcher_rollback(m, 1);
    FUZZ_CHECK(matcher_mask(m, again, &then, &e) == ST_OK && memcmp(mask, again, bytes) == 0, "another mask");
    return matcher_consume(m, &id, 1) == 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct tok *t;
    struct fuzz f = {(const char *)data, n};
    struct grammar *g;
    struct matcher *m;
    struct err e;
    size_t relaxed;
    if (!t)
        t = calls_tok(NULL, 0);
    uint8_t how = fuzz_byte(&f), steps = fuzz_byte(&f) % STEPS;
    struct fuzz way = {f.at, steps < f.n ? steps : f.n};
    const struct grammar_source src = {.kind = how % 6, .relax = how & 64, .check = how & 128,
                                       .text = f.at + way.n, .n = f.n - way.n};
    if (grammar_new(&g, t, &src, &e) != ST_OK) {
        FUZZ_CHECK(!g && e.text[0], "no reason");
        return 0;
    }
    FUZZ_CHECK(grammar_relaxed(g, &relaxed)[0] == '[' && (src.relax || relaxed == 2), "%s", grammar_relaxed(g, &relaxed));
    if (!src.check && matcher_new(&m, g, &e) == ST_OK) {
        while (way.n && step(t, m, fuzz_byte(&way))) {
        }
        matcher_free(m);
    }
    grammar_free(g);
    return 0;
}
