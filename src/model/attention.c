/*
 * attention: which worker computes what.
 *
 * Queries of a span are cut into tiles that share their loads of K and V. A tile is one task for each KV head, which folds
 * its partials as it goes, as long as there are enough of them to keep all workers busy to the end. A tile that is a
 * large part of the step's attention (decoding over a long past, or the chunk of a prompt beside rows that decode) would
 * leave workers idle, so its partials become several tasks that leave their results in memory, and whoever ends the last
 * of them folds them all. Both fold the same partials in the same order: the bits do not tell which way was taken.
 */
#include <stdatomic.h>
#include <string.h>

#include "model/run.h"

#define TILE_TOKENS 16u /* queries of a tile, fewer where many heads share a KV head */
#define TASKS_EACH 12u /* a task is at most this part of what each worker has to do */
#define SPLIT_TASKS 65536u /* with this many tasks nobody is idle anyway, and a pool takes no more than POOL_TASKS */

static uint32_t group_heads(const struct model *m)
{
    return m->info.heads / m->info.kv_heads;
}

static uint32_t tile_tokens(const struct model *m)
{
    uint32_t n = KERN_ATTN_VECTORS / group_heads(m);
    return n < TILE_TOKENS ? n : TILE_TOKENS;
}

static size_t acc_floats(const struct model *m)
{
    return m->info.head_dim + KERN_ACC_EXTRA;
}

/* Of each tile (at most one a token) and KV head one task. Where it is split, also parts ÷ step of them: step is at least
 * half of most ÷ n, and most at least half of the work ÷ (TASKS_EACH × workers), unless it is 0 and so is the work. */
size_t attention_max_tasks(const struct model *m, uint32_t cap, int workers)
{
    return (size_t)m->info.kv_heads * cap + 4 * TASKS_EACH * (size_t)workers;
}

size_t attention_split_floats(const struct model *m, uint32_t cap, uint32_t context)
{
    size_t parts = context / KERN_PARTIAL + 2, tokens = cap < SPLIT_TOKENS ? cap : SPLIT_TOKENS;
    return mem_mul(mem_mul(tokens, m->info.heads), mem_mul(parts, acc_floats(m)));
}

struct planner {
    struct model_run *r;
    struct attn_plan *plan;
    uint32_t window, split_tokens;
    uint64_t most; /* queries × partials a task may have before it is split */
    size_t acc_used;
};

/* kern_attn.keys of a span's queries. */
static uint64_t keys_of(const struct model_run *r, uint32_t span)
{
    return r->m->info.bidirectional ? r->spans[span].seq->len + (uint64_t)r->spans[span].n : 0;
}

/* The partials that n queries of a span look at, from the step's token `first` on. */
static void partials(const struct planner *p, uint32_t span, uint32_t first, uint32_t n, uint64_t *part0, uint64_t *part1)
{
    uint64_t from, to, ignored, pos = p->r->pos[first], keys = keys_of(p->r, span);
    kern_attn_sees(p->window, keys, pos, &from, &ignored);
    kern_attn_sees(p->window, keys, pos + n - 1, &ignored, &to);
    *part0 = from / KERN_PARTIAL;
    *part1 = (to - 1) / KERN_PARTIAL + 1;
}

static void plan_tile(struct planner *p, uint32_t span, uint32_t first, uint32_t n)
{
    struct model_run *r = p->r;
    const struct model *m = r->m;
    uint64_t part0, part1;
    partials(p, span, first, n, &part0, &part1);
    uint32_t workers = (uint32_t)pool_size(r->pool), parts = (uint32_t)(part1 - part0), step = parts;
    struct split *split = NULL;
    if (parts > 1 && workers > 1 && (uint64_t)parts * n > p->most && p->split_tokens + n <= SPLIT_TOKENS
        && p->plan->n_tasks + (uint64_t)m->info.kv_heads * parts <= SPLIT_TASKS) {
        step = p->most > n ? (uint32_t)(p->most / n) : 1;
        split = &p->plan->splits[p->plan->n_splits];
        *split = (struct split){.acc = r->split_acc + p->acc_used,
                                .left = p->plan->left + (size_t)p->plan->n_splits++ * m->info.kv_heads,
                                .part0 = part0,
                                .parts = parts,
                                .tasks = (parts + step - 1) / step};
        p->acc_used += (size_t)n * m->info.heads * parts * acc_floats(m);
        p->split_tokens += n;
    }
    for (uint32_t h = 0; h < m->info.kv_heads; h++) {
        if (split)
            atomic_store_explicit(&split->left[h], split->tasks, memory_order_relaxed);
        for (uint64_t a = part0; a < part1; a += step)
            p->plan->tasks[p->plan->n_tasks++] = (struct attn_task){
                .span = span,
                .first = first,
                .n = n,
                .head = h,
                .part0 = a,
                .part1 = a + step < part1 ? a + step : part1,
                .split = split,
            };
    }
}

/* Queries × partials of the step, over all KV heads. */
static uint64_t total_work(const struct planner *p)
{
    const struct model_run *r = p->r;
    uint64_t work = 0, part0, part1;
    for (uint32_t s = 0, first = 0; s < r->n_spans; first += r->spans[s++].n) {
        partials(p, s, first, r->spans[s].n, &part0, &part1);
        work += (part1 - part0) * r->spans[s].n;
    }
    return work * r->m->info.kv_heads;
}

void attention_plan(struct model_run *r)
{
    const struct model_info *in = &r->m->info;
    for (uint32_t g = 0; g < in->kv_groups; g++) {
        struct planner p = {.r = r, .plan = &r->plan[g], .window = in->kv_group[g].window};
        p.plan->n_tasks = p.plan->n_splits = 0;
        p.most = total_work(&p) / (TASKS_EACH * (uint64_t)pool_size(r->pool));
        uint32_t first = 0, tile = tile_tokens(r->m);
        for (uint32_t s = 0; s < r->n_spans; s++) {
            uint32_t n = r->spans[s].n;
            for (uint32_t t = 0; t < n; t += tile)
                plan_tile(&p, s, first + t, n - t < tile ? n - t : tile);
            first += n;
        }
    }
}

/* The results of query vector v of a tile: those of one KV head, head fastest. */
static float *result(const struct model_run *r, const struct attn_task *t, uint32_t v)
{
    const struct model_info *in = &r->m->info;
    uint32_t heads = group_heads(r->m);
    return r->att + ((size_t)(t->first + v / heads) * in->heads + (size_t)t->head * heads + v % heads) * in->head_dim;
}

/* Partials into running sums, as many at a time as there is room for, then the quotients. */
static void finish_here(struct model_run *r, const struct attn_task *t, struct kern_attn *a, uint8_t *scratch)
{
    const struct kern_ops *ops = r->m->ops;
    uint32_t hd = r->m->info.head_dim, vectors = a->queries * a->heads, step = KERN_ATTN_VECTORS / vectors;
    size_t size = acc_floats(r->m);
    float *run = (float *)(scratch + KERN_ATTN_SCRATCH), *part = run + KERN_ATTN_VECTORS * size;
    memset(run, 0, vectors * size * sizeof *run);
    for (uint64_t p = t->part0; p < t->part1; p += step) {
        a->part0 = p;
        a->part1 = p + step < t->part1 ? p + step : t->part1;
        ops->attn(a, part, scratch);
        for (size_t v = 0; v < (a->part1 - p) * vectors; v++)
            ops->attn_fold(run + v % vectors * size, part + v * size, hd);
    }
    for (uint32_t v = 0; v < vectors; v++)
        ops->attn_finish(run + v * size, hd, result(r, t, v));
}

/* Where the results of a split tile's KV head begin: [parts][vectors][head_dim + 2]. */
static float *split_results(const struct model_run *r, const struct attn_task *t)
{
    return t->split->acc + (size_t)t->head * t->split->parts * t->n * group_heads(r->m) * acc_floats(r->m);
}

/* The last task of a split tile's KV head has ended, and its counter is made ready for the next layer. */
static void fold_split(struct model_run *r, const struct attn_task *t, uint8_t *scratch)
{
    const struct kern_ops *ops = r->m->ops;
    const struct split *s = t->split;
    uint32_t hd = r->m->info.head_dim, vectors = t->n * group_heads(r->m);
    size_t size = acc_floats(r->m);
    float *run = (float *)(scratch + KERN_ATTN_SCRATCH);
    const float *part = split_results(r, t);
    for (uint32_t v = 0; v < vectors; v++) {
        memset(run, 0, size * sizeof *run);
        for (uint32_t p = 0; p < s->parts; p++)
            ops->attn_fold(run, part + ((size_t)p * vectors + v) * size, hd);
        ops->attn_finish(run, hd, result(r, t, v));
    }
    atomic_store_explicit(&s->left[t->head], s->tasks, memory_order_relaxed);
}

struct attn_job {
    struct model_run *r;
    const struct layer *ly;
};

static void attn_task(void *ctx, uint32_t task, int worker)
{
    struct attn_job *j = ctx;
    struct model_run *r = j->r;
    const struct model *m = r->m;
    const struct attn_task *t = &r->plan[j->ly->group].tasks[task];
    size_t q_token = (size_t)m->info.heads * m->info.head_dim;
    uint8_t *scratch = r->worker + (size_t)worker * r->worker_bytes;
    struct kern_attn a = {
        .kv = kv_view(r->spans[t->span].seq, j->ly->group, j->ly->slot, t->head),
        .q = r->q + t->first * q_token + (size_t)t->head * group_heads(m) * m->info.head_dim,
        .q_token = q_token,
        .queries = t->n,
        .heads = group_heads(m),
        .pos0 = r->pos[t->first],
        .window = j->ly->window,
        .keys = keys_of(r, t->span),
        .scale = m->attn_scale,
        .softcap = m->attn_softcap,
        .part0 = t->part0,
        .part1 = t->part1,
    };
    if (!t->split) {
        finish_here(r, t, &a, scratch);
        return;
    }
    size_t part_floats = (size_t)t->n * a.heads * acc_floats(m);
    m->ops->attn(&a, split_results(r, t) + (t->part0 - t->split->part0) * part_floats, scratch);
    if (atomic_fetch_sub_explicit(&t->split->left[t->head], 1, memory_order_acq_rel) == 1)
        fold_split(r, t, scratch);
}

void attention(struct model_run *r, const struct layer *ly)
{
    struct attn_job j = {r, ly};
    pool_run(r->pool, attn_task, &j, r->plan[ly->group].n_tasks);
}
