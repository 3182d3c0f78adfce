/* run: reserving the scratch of a step. See run.h. */
#include "model/run.h"

#include <stdlib.h>

/* Gives out consecutive parts of a region; with no region yet it only adds up. */
struct carver {
    uint8_t *base;
    size_t used;
};

static void *carve(struct carver *c, size_t n, size_t size)
{
    size_t at = c->used;
    c->used = mem_add(c->used, mem_round(mem_mul(n, size) > SIZE_MAX - 64 ? SIZE_MAX - 64 : mem_mul(n, size), 64));
    return c->base ? c->base + at : NULL;
}

static uint32_t widest(const struct model_info *in)
{
    uint32_t q = in->heads * in->head_dim;
    return q > in->width ? q : in->width;
}

/* Inputs and outputs of what vectors are made with. */
static uint32_t widest_vector(const struct model *m)
{
    uint32_t n = m->info.width > m->classes.rows ? m->info.width : m->classes.rows;
    for (uint32_t i = 0; i < m->dense_n; i++)
        n = m->dense[i].rows > n ? m->dense[i].rows : n;
    return n;
}

/* Everything a step of `cap` tokens needs, in one row. What the workers keep to themselves stands first, so that it stays
 * where it is whatever the step's size. */
static void carve_all(struct model_run *r, struct carver *c, uint32_t cap)
{
    const struct model_info *in = &r->m->info;
    size_t qd = (size_t)in->heads * in->head_dim, kd = (size_t)in->kv_heads * in->head_dim;
    size_t pairs = r->m->rope_full.pairs, wide = widest(in), vec = widest_vector(r->m), f = sizeof(float);
    size_t tasks = attention_max_tasks(r->m, cap, pool_size(r->pool));
    size_t attn = KERN_ATTN_SCRATCH + 2 * KERN_ATTN_VECTORS * (size_t)(in->head_dim + KERN_ACC_EXTRA) * f;
    size_t glu = 2 * KERN_CHUNK * GLU_PANELS * KERN_LANES * f;
    r->worker_bytes = mem_round(attn > glu ? attn : glu, 4096);
    r->worker = carve(c, (size_t)pool_size(r->pool), r->worker_bytes);
    for (int i = 0; i < 2; i++)
        r->vec[i] = carve(c, vec, f);
    r->vec_q = carve(c, vec, 1);
    r->vec_meta = carve(c, vec / KERN_QBLOCK + 1, sizeof *r->vec_meta);
    r->ids = carve(c, cap, sizeof *r->ids);
    r->pos = carve(c, cap, sizeof *r->pos);
    r->pieces = carve(c, cap, sizeof *r->pieces);
    r->x = carve(c, cap * in->width, f);
    r->xn = carve(c, cap * in->width, f);
    r->q = carve(c, cap * qd, f);
    r->k = carve(c, cap * kd, f);
    r->v = carve(c, cap * kd, f);
    r->att = carve(c, cap * qd, f);
    r->proj = carve(c, cap * in->width, f);
    r->ffn = carve(c, cap * in->ffn, f);
    r->cs_full = carve(c, cap * 2 * pairs, f);
    r->cs_local = carve(c, cap * 2 * pairs, f);
    r->tops = carve(c, cap * (LINEAR_TASKS * (size_t)pool_size(r->pool) + 1), sizeof *r->tops);
    r->act_q = carve(c, cap * wide, 1);
    r->act_meta = carve(c, cap * (wide / KERN_QBLOCK + 1), sizeof *r->act_meta);
    r->ffn_q = carve(c, cap * in->ffn, 1);
    r->ffn_meta = carve(c, cap * (in->ffn / KERN_QBLOCK + 1), sizeof *r->ffn_meta);
    for (uint32_t g = 0; g < in->kv_groups; g++) {
        r->plan[g].tasks = carve(c, tasks, sizeof *r->plan[g].tasks);
        r->plan[g].splits = carve(c, SPLIT_TOKENS, sizeof *r->plan[g].splits);
        r->plan[g].left = carve(c, SPLIT_TOKENS * (size_t)in->kv_heads, sizeof *r->plan[g].left);
    }
    r->split_acc = carve(c, attention_split_floats(r->m, cap, r->context), f);
}

void model_run_lay_out(struct model_run *r)
{
    carve_all(r, &(struct carver){.base = r->region}, r->tokens);
}

size_t model_run_bytes(const struct model *m, struct pool *pool, uint32_t tokens, uint32_t context)
{
    struct model_run r = {.m = m, .pool = pool, .cap = tokens, .context = context};
    struct carver c = {0};
    carve_all(&r, &c, tokens);
    return c.used;
}

enum status model_run_new(struct model_run **out, const struct model *m, struct pool *pool, uint32_t tokens,
                          uint32_t context, struct err *e)
{
    *out = NULL;
    if (!tokens || tokens > LIMIT_STEP || !context || context > LIMIT_CONTEXT)
        return err_set(e, ST_ARGUMENT, "", "a step has 1 to %u tokens and a context of at most %u", LIMIT_STEP,
                       LIMIT_CONTEXT);
    struct model_run *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a step");
    *r = (struct model_run){.m = m, .pool = pool, .cap = tokens, .context = context};
    r->region_bytes = model_run_bytes(m, pool, tokens, context);
    r->region = mem_map(r->region_bytes);
    if (!r->region) {
        free(r);
        return err_set(e, ST_NO_MEMORY, "", "no address space for steps of %u tokens", tokens);
    }
    *out = r;
    return ST_OK;
}

uint64_t model_linear_ns(struct model_run *r)
{
    r->timed = true;
    return r->linear_ns;
}

void model_run_free(struct model_run *r)
{
    if (!r)
        return;
    mem_unmap(r->region, r->region_bytes);
    free(r);
}
