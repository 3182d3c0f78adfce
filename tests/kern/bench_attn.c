/*
 * bench_attn: how fast a level's attention is on one thread. Figures for people; nothing here can fail.
 *
 * Decoding walks through a cache of several layers in shuffled blocks that no processor cache holds, as a step does, and
 * is told in bytes of K and V read and in multiply-accumulates; beside it stands what the same thread reads of the same
 * memory in order. A prompt's tile meets a cache small enough to stay close. attn_once() is for counting instructions
 * (run.sh).
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"

#define KEYS 2048u
#define BLOCKS (KEYS / KERN_KV_TOKENS)
#define POOL_BYTES ((size_t)128 << 20) /* several times a last-level cache */
#define MOST_HEADS 8u
#define TILE 16u /* tokens of a prompt's tile */

/* As many layers of KEYS positions as some memory holds, one KV head each. */
struct layers {
    uint8_t *base;
    uint32_t table[BLOCKS];
    uint32_t n, head_dim;
    enum kern_kv format;
    size_t block_bytes; /* of one layer */
};

static struct layers make_layers(struct check *c, uint8_t *base, size_t bytes, uint32_t hd, enum kern_kv format)
{
    struct layers l = {.base = base, .head_dim = hd, .format = format};
    size_t esize = format == KERN_KV_F32 ? 4 : 2;
    l.block_bytes = 2 * esize * hd * KERN_KV_TOKENS;
    l.n = (uint32_t)(bytes / (l.block_bytes * BLOCKS));
    shuffled(c, l.table, BLOCKS);
    for (size_t i = 0; i < 4096; i++) {
        float f = rnd_float(c, 1);
        uint16_t h = kern_f32_to_f16(f);
        memcpy(base + i * esize, format == KERN_KV_F32 ? (void *)&f : (void *)&h, esize);
    }
    for (size_t done = 4096 * esize; done < bytes; done *= 2)
        memcpy(base + done, base, done < bytes - done ? done : bytes - done);
    return l;
}

struct question {
    const struct layers *l;
    struct kern_attn a;
    float *acc, *out;
    void *scratch;
    size_t vectors;
};

/* All keys of one layer: attention, fold and quotient, as a task of a step does them. */
static void ask_layer(struct check *c, struct question *q, uint32_t layer)
{
    const struct layers *l = q->l;
    size_t size = l->head_dim + KERN_ACC_EXTRA;
    float *run = q->acc + q->vectors * size;
    q->a.kv = (struct kern_kv_view){l->base,   l->table,           l->block_bytes * l->n, layer * l->block_bytes,
                                    layer * l->block_bytes + l->block_bytes / 2, l->format, l->head_dim};
    memset(run, 0, q->vectors * size * sizeof *run);
    for (uint64_t p = 0; p < KEYS / KERN_PARTIAL; p++) {
        q->a.part0 = p;
        q->a.part1 = p + 1;
        c->ops->attn(&q->a, q->acc, q->scratch);
        for (size_t v = 0; v < q->vectors; v++)
            c->ops->attn_fold(run + v * size, q->acc + v * size, l->head_dim);
    }
    for (size_t v = 0; v < q->vectors; v++)
        c->ops->attn_finish(run + v * size, l->head_dim, q->out);
}

/* The thread's own processor time: others may run on this machine. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best seconds of one walk through `layers` layers. */
static double seconds_of(struct check *c, struct question *q, uint32_t layers)
{
    double best = 1e9, begin = thread_seconds(), now = begin;
    for (int n = 0; n < 3 || now - begin < 0.12; n++) {
        double t = now;
        for (uint32_t i = 0; i < layers; i++)
            ask_layer(c, q, i);
        now = thread_seconds();
        best = now - t < best && now > t ? now - t : best;
    }
    return best;
}

static struct question make_question(struct check *c, const struct layers *l, uint32_t queries, uint32_t heads)
{
    size_t vectors = (size_t)queries * heads, q_token = (size_t)heads * l->head_dim;
    float *x = guard_alloc(queries * q_token * sizeof *x, 64);
    for (size_t i = 0; i < queries * q_token; i++)
        x[i] = rnd_float(c, 1);
    return (struct question){
        .l = l,
        .a = {.q = x, .q_token = q_token, .queries = queries, .heads = heads, .pos0 = KEYS - queries, .scale = 0.125f},
        .acc = guard_alloc(2 * vectors * (l->head_dim + KERN_ACC_EXTRA) * 4, 64),
        .out = guard_alloc(l->head_dim * 4, 64),
        .scratch = guard_alloc(KERN_ATTN_SCRATCH, 64),
        .vectors = vectors,
    };
}

/* GB/s of the memory itself: a sum over it in order. */
static double memory_rate(const uint8_t *base)
{
    double best = 1e9;
    for (int rep = 0; rep < 5; rep++) {
        uint64_t sum[4] = {0}, w[8];
        double t = thread_seconds();
        for (size_t i = 0; i < POOL_BYTES; i += sizeof w) {
            memcpy(w, base + i, sizeof w);
            for (int k = 0; k < 8; k++)
                sum[k % 4] += w[k];
        }
        t = thread_seconds() - t;
        best = t < best && sum[0] + sum[1] + sum[2] + sum[3] ? t : best;
    }
    return (double)POOL_BYTES / best * 1e-9;
}

static void bench_shape(struct check *c, uint8_t *base, uint32_t hd, enum kern_kv format)
{
    static const uint32_t heads[] = {1, 3, 4, MOST_HEADS};
    struct layers l = make_layers(c, base, POOL_BYTES, hd, format);
    size_t layer_bytes = l.block_bytes * BLOCKS;
    printf("  %u f%d ", hd, format == KERN_KV_F32 ? 32 : 16);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct question q = make_question(c, &l, 1, heads[i]);
        double s = seconds_of(c, &q, l.n), close = seconds_of(c, &q, 1), macs = 2.0 * hd * KEYS * heads[i];
        printf("  %5.1f (%5.1f; %5.1f)", (double)(l.n * layer_bytes) / s * 1e-9, l.n * macs / s * 1e-9,
               macs / close * 1e-9);
    }
    for (size_t i = 0; i < 3; i++) {
        struct question q = make_question(c, &l, TILE, heads[i]);
        printf("  %5.1f", 2.0 * hd * KEYS * TILE * heads[i] / seconds_of(c, &q, 1) * 1e-9);
    }
    printf("\n");
}

void bench_attn(struct check *c)
{
    static const uint32_t dims[] = {64, 128, 256};
    uint8_t *base = mem_map(POOL_BYTES);
    if (!base)
        return;
    memset(base, 1, POOL_BYTES);
    printf("level %s, one thread, attention over %u keys; the thread reads %.1f GB/s in order\n", c->level, KEYS,
           memory_rate(base));
    printf("  decode with 1, 3, 4, 8 heads for each KV head: GB/s of K and V (GMAC/s; GMAC/s from caches); then tiles of "
           "%u tokens with 1, 3, 4 heads: GMAC/s\n", TILE);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        bench_shape(c, base, dims[i], KERN_KV_F16);
        bench_shape(c, base, dims[i], KERN_KV_F32);
        guard_release();
    }
    mem_unmap(base, POOL_BYTES);
}

void attn_once(struct check *c, enum kern_kv format)
{
    size_t bytes = (size_t)2 * BLOCKS * KERN_KV_TOKENS * 64 * (format == KERN_KV_F32 ? 4 : 2);
    struct layers l = make_layers(c, guard_alloc(bytes, 64), bytes, 64, format);
    struct question q = make_question(c, &l, 1, 3);
    ask_layer(c, &q, 0);
}
