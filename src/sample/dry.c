/*
 * dry: "don't repeat yourself", a penalty on tokens that would go on with a repeat (p-e-w, text-generation-webui pull
 * request 5677).
 *
 * For each place of the history let L be how many ids before it equal the last ids of the history, in order and without
 * a sequence breaker among them. With the largest L of all places that id t stands at,
 *
 *     logit[t] -= multiplier × base^(L - allowed)    if L >= allowed
 *
 * Read backwards, L is the common prefix of the text with itself from some place on, which the Z-algorithm gives for all
 * places in one pass. The prefix ends at the first breaker or after LIMIT_DRY_MATCH ids, so its own Z-array is all the
 * memory this takes, and the time is linear in the window.
 */
#include <float.h>
#include <math.h>

#include "sample/inside.h"

/* The window, backwards: 0 is the last id. */
struct backwards {
    const tok_id *end;
    size_t n;
};

static inline tok_id at(const struct backwards *t, size_t i)
{
    return t->end[-1 - (ptrdiff_t)i];
}

/* The part of the text that was compared last and matched: [from, to) equals the prefix [0, to - from). */
struct box {
    size_t from, to;
};

/* Length of the common prefix of text[i, n) and text[0, m), where z has those of the prefix with itself up to i. */
static uint32_t common(const struct backwards *t, size_t i, uint32_t m, const uint32_t *z, struct box *b)
{
    size_t k = 0;
    if (i < b->to) {
        k = z[i - b->from];
        if (k < b->to - i)
            return (uint32_t)k;
        k = b->to - i;
    }
    while (k < m && i + k < t->n && at(t, k) == at(t, i + k))
        k++;
    *b = (struct box){i, i + k};
    return (uint32_t)k;
}

/* x^n by squaring, so that the bits are the same everywhere. */
static double power(double x, uint32_t n)
{
    double r = 1;
    for (; n; n /= 2, x *= x)
        if (n % 2)
            r *= x;
    return r;
}

/* Leaves the largest L of each id in s->count. */
static void measure(struct sampler *s, const struct backwards *t, uint32_t m)
{
    uint32_t *z = s->match;
    struct box b = {0, 0};
    z[0] = m;
    for (size_t i = 1; i < t->n; i++) {
        uint32_t length = common(t, i, m, z, &b), id = (uint32_t)at(t, i - 1);
        if (i < m)
            z[i] = length;
        if (id < s->vocab && length > s->count[id])
            s->count[id] = length;
    }
}

void sample_dry(struct sampler *s, const tok_id *history, size_t n)
{
    const struct sample_params *p = s->p;
    struct backwards t = {history + n, p->dry_last && n > p->dry_last ? p->dry_last : n};
    uint32_t m = 0;
    while (m < t.n && m < LIMIT_DRY_MATCH && !sample_set_has(&p->breakers, (uint32_t)at(&t, m)))
        m++;
    if (m < p->dry_allowed)
        return;
    measure(s, &t, m);
    for (size_t i = 0; i + 1 < t.n; i++) {
        uint32_t id = (uint32_t)at(&t, i), length = id < s->vocab ? s->count[id] : 0;
        if (!length)
            continue;
        s->count[id] = 0;
        if (length < p->dry_allowed || sample_set_has(&p->breakers, id) || !(s->logits[id] > -INFINITY))
            continue;
        double less = (double)p->dry_multiplier * power((double)p->dry_base, length - p->dry_allowed);
        s->logits[id] = (float)fmax((double)s->logits[id] - less, -(double)FLT_MAX);
    }
}
