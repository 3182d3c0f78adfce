/* order: see order.h. */
#include "sample/order.h"

#include <string.h>

#include "kern/kern.h"

#define FIRST_LOOK 128u     /* candidates sorted at the first look; later looks take four times as many each */
#define RANGE 32.0f         /* logits further below the maximum than this many spreads share the last bucket */

/* Ascending keys are candidates in order. Adding 0 turns -0 into +0, which are equal logits. */
static uint64_t key_of(float logit, uint32_t id)
{
    float f = logit + 0.0f;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    uint32_t ascending = u >> 31 ? ~u : u | 0x80000000u;
    return (uint64_t)~ascending << 32 | id;
}

/* Monotone in the logit: subtraction, product with a positive constant and truncation all are. */
static uint32_t bucket_of(const struct order *o, float logit)
{
    float d = (o->max - logit) * o->scale;
    return d < (float)(ORDER_BUCKETS - 1) ? (uint32_t)d : ORDER_BUCKETS - 1;
}

void order_begin(struct order *o, const float *logits, float max, float spread)
{
    o->logits = logits;
    o->max = o->base = max;
    o->spread = spread;
    o->temperature = 1.0f;
    o->n = o->bucket = 0;
    o->want = 0; /* nothing counted yet */
}

static void count_buckets(struct order *o)
{
    float min = o->max;
    for (uint32_t i = 0; i < o->vocab; i++)
        min = o->logits[i] < min ? o->logits[i] : min;
    float range = o->max - min, most = RANGE * o->spread;
    if (range > most)
        range = most;
    /* A range too small to divide by: one bucket, sorted as a whole (equal logits are in order already). */
    o->scale = range > 1e-30f ? (float)(ORDER_BUCKETS - 1) / range : 0.0f;
    memset(o->count, 0, sizeof o->count);
    for (uint32_t i = 0; i < o->vocab; i++)
        o->count[bucket_of(o, o->logits[i])]++;
    o->want = FIRST_LOOK;
}

#define RUN 16u

static void sort_run(uint64_t *a, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        uint64_t x = a[i];
        uint32_t j = i;
        for (; j && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

/* Merge sort without an allocator: runs of RUN by insertion, then doubled between a and t. */
static void sort_keys(uint64_t *a, uint64_t *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += RUN)
        sort_run(a + i, n - i < RUN ? n - i : RUN);
    uint64_t *from = a, *to = t;
    for (uint64_t width = RUN; width < n; width *= 2) {
        for (uint64_t i = 0; i < n; i += 2 * width) {
            uint64_t mid = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n;
            uint64_t l = i, r = mid;
            for (uint64_t k = i; k < end; k++)
                to[k] = l < mid && (r == end || from[l] < from[r]) ? from[l++] : from[r++];
        }
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
}

static void weigh(struct order *o, uint32_t from)
{
    for (uint32_t i = from; i < o->n; i++) {
        float x = order_exponent(o, i);
        o->weight[i] = x > ORDER_NOTHING ? kern_exp(x < 0.0f ? x : 0.0f) : 0.0f;
    }
}

void order_weigh(struct order *o, float base, float temperature)
{
    o->base = base;
    o->temperature = temperature;
    weigh(o, 0);
}

/* Gathers and sorts the next buckets: at least o->want candidates or all that are left. */
static void look_further(struct order *o)
{
    uint32_t lo = o->bucket, found = 0;
    while (o->bucket < ORDER_BUCKETS && found < o->want)
        found += o->count[o->bucket++];
    uint32_t n = o->n;
    for (uint32_t i = 0; i < o->vocab; i++) {
        uint32_t b = bucket_of(o, o->logits[i]);
        if (b >= lo && b < o->bucket)
            o->keys[n++] = key_of(o->logits[i], i);
    }
    sort_keys(o->keys + o->n, o->scratch, n - o->n);
    uint32_t from = o->n;
    o->n = n;
    weigh(o, from);
    o->want *= 4;
}

uint32_t order_reach(struct order *o, uint32_t n)
{
    if (o->n >= n)
        return n;
    if (!o->want)
        count_buckets(o);
    if (n > o->vocab)
        n = o->vocab;
    if (n > o->n && n - o->n > o->want)
        o->want = n - o->n; /* a large top-k: one pass is enough */
    while (o->n < n)
        look_further(o);
    return n;
}
