/*
 * kv_pool: blocks of every group, with their reference counts. See kv.h.
 *
 * A block of a group is, for each of its layers, for each KV head: K as [head_dim][KV_BLOCK], then V as
 * [KV_BLOCK][head_dim]. Blocks nobody holds lie on a stack, so the memory used last is used again first and what was
 * never needed is never touched.
 */
#include "kv/pool.h"
#include "kv/tree.h"

#include <stdlib.h>

static size_t element_bytes(enum kern_kv format)
{
    return format == KERN_KV_F32 ? 4 : 2;
}

/* Bytes of one position of a group: keys and values of all its layers and heads. */
static size_t shape_bytes(const struct kv_shape *s, enum kern_kv format)
{
    return mem_mul(mem_mul(mem_mul(s->layers, s->heads), mem_mul(s->head_dim, 2)), element_bytes(format));
}

size_t kv_position_bytes(const struct kv_config *cfg)
{
    size_t sum = 0;
    for (uint32_t g = 0; g < cfg->groups; g++)
        sum = mem_add(sum, shape_bytes(&cfg->group[g], cfg->format));
    return sum;
}

/*
 * Blocks a group gets. Without a window: all positions. With one, a sequence never holds more than the keys its next
 * query sees (window - 1 of them, from anywhere within a block), what it may be cut back by and the span it is about to
 * feed, so the group needs far fewer; and never more than a group without a window. Either way sliding groups cannot run
 * out before the others do.
 * `cached` more windows are there for the prefix tree to keep.
 */
static uint32_t group_blocks(const struct kv_config *cfg, uint32_t g)
{
    uint32_t all = kv_blocks(cfg->positions), window = cfg->group[g].window;
    if (!window)
        return all;
    uint64_t span = cfg->span ? cfg->span : LIMIT_SPAN;
    uint64_t row = ((uint64_t)window + cfg->back + span) / KV_BLOCK + 2;
    if (row > kv_blocks(cfg->context))
        row = kv_blocks(cfg->context);
    uint64_t need = row * ((uint64_t)cfg->rows + cfg->cached);
    return need < all ? (uint32_t)need : all;
}

size_t kv_config_bytes(const struct kv_config *cfg)
{
    size_t sum = 0;
    for (uint32_t g = 0; g < cfg->groups; g++)
        sum = mem_add(sum, mem_mul(group_blocks(cfg, g), mem_mul(shape_bytes(&cfg->group[g], cfg->format), KV_BLOCK)));
    return sum;
}

static enum status check_config(const struct kv_config *cfg, struct err *e)
{
    if (!cfg->groups || cfg->groups > KV_GROUPS)
        return err_set(e, ST_ARGUMENT, "kv", "a KV pool has 1 to %u layer groups, not %u", KV_GROUPS, cfg->groups);
    if (!cfg->positions || !cfg->rows || !cfg->context || cfg->context > LIMIT_CONTEXT)
        return err_set(e, ST_ARGUMENT, "kv", "a KV pool needs positions, rows and a context of at most %u", LIMIT_CONTEXT);
    for (uint32_t g = 0; g < cfg->groups; g++) {
        const struct kv_shape *s = &cfg->group[g];
        if (!s->layers || s->layers > LIMIT_LAYERS || !s->heads || s->heads > LIMIT_HEADS || !s->head_dim
            || s->head_dim > LIMIT_HEAD_DIM)
            return err_set(e, ST_ARGUMENT, "kv", "layer group %u has an impossible shape: %u layers, %u heads of %u", g,
                           s->layers, s->heads, s->head_dim);
    }
    if (kv_config_bytes(cfg) > SIZE_MAX / 4)
        return err_set(e, ST_NEVER_FITS, "kv", "%u positions of %zu bytes exceed the address space", cfg->positions,
                       kv_position_bytes(cfg));
    return ST_OK;
}

static enum status group_init(struct kv_group *gr, const struct kv_config *cfg, uint32_t g, struct err *e)
{
    const struct kv_shape *s = &cfg->group[g];
    gr->blocks = group_blocks(cfg, g);
    gr->half = (size_t)s->head_dim * KV_BLOCK * element_bytes(cfg->format);
    gr->block_bytes = gr->half * 2 * s->heads * s->layers;
    gr->bytes = gr->block_bytes * gr->blocks;
    gr->base = mem_map(gr->bytes);
    gr->refs = calloc(gr->blocks, sizeof *gr->refs);
    gr->cached = calloc(gr->blocks, sizeof *gr->cached);
    gr->spare = calloc(gr->blocks, sizeof *gr->spare);
    if (!gr->base || !gr->refs || !gr->cached || !gr->spare)
        return err_set(e, ST_NO_MEMORY, "kv", "no memory for %zu MB of keys and values", gr->bytes >> 20);
    for (uint32_t i = 0; i < gr->blocks; i++)
        gr->spare[i] = gr->blocks - 1 - i;
    gr->unused = gr->blocks;
    return ST_OK;
}

enum status kv_pool_new(struct kv_pool **out, const struct kv_config *cfg, struct err *e)
{
    *out = NULL;
    TRY(check_config(cfg, e));
    struct kv_pool *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ST_NO_MEMORY, "kv", "no memory for a KV pool");
    p->cfg = *cfg;
    for (uint32_t g = 0; g < cfg->groups; g++) {
        enum status st = group_init(&p->group[g], cfg, g, e);
        if (st) {
            kv_pool_free(p);
            return st;
        }
    }
    *out = p;
    return ST_OK;
}

void kv_pool_free(struct kv_pool *p)
{
    if (!p)
        return;
    for (uint32_t g = 0; g < p->cfg.groups; g++) {
        mem_unmap(p->group[g].base, p->group[g].bytes);
        free(p->group[g].refs);
        free(p->group[g].cached);
        free(p->group[g].spare);
    }
    free(p);
}

const struct kv_config *kv_pool_config(const struct kv_pool *p)
{
    return &p->cfg;
}

size_t kv_pool_bytes(const struct kv_pool *p)
{
    return kv_config_bytes(&p->cfg);
}

uint32_t kv_pool_unused(const struct kv_pool *p, uint32_t group)
{
    return p->group[group].unused;
}

uint32_t kv_pool_available(const struct kv_pool *p, uint32_t group)
{
    return p->group[group].unused + p->group[group].only_cached;
}

uint32_t kv_pool_take(struct kv_pool *p, uint32_t group)
{
    struct kv_group *gr = &p->group[group];
    if (!gr->unused && !(p->tree && kv_tree_evict(p->tree, group)))
        return KV_NONE;
    uint32_t block = gr->spare[--gr->unused];
    gr->refs[block] = 1;
    return block;
}

static struct kv_group *held(struct kv_pool *p, uint32_t group, uint32_t block)
{
    struct kv_group *gr = &p->group[group];
    if (block >= gr->blocks || !gr->refs[block])
        BUG("KV block %u of group %u, which nobody holds", block, group);
    return gr;
}

void kv_pool_retain(struct kv_pool *p, uint32_t group, uint32_t block)
{
    struct kv_group *gr = held(p, group, block);
    if (gr->refs[block]++ == 1 && gr->cached[block])
        gr->only_cached--;
}

void kv_pool_drop(struct kv_pool *p, uint32_t group, uint32_t block)
{
    struct kv_group *gr = held(p, group, block);
    if (!--gr->refs[block])
        gr->spare[gr->unused++] = block;
    else if (gr->refs[block] == 1 && gr->cached[block])
        gr->only_cached++;
}

void kv_pool_cache(struct kv_pool *p, uint32_t group, uint32_t block)
{
    struct kv_group *gr = held(p, group, block);
    if (gr->cached[block])
        BUG("KV block %u of group %u is cached twice", block, group);
    gr->refs[block]++;
    gr->cached[block] = 1;
}

void kv_pool_uncache(struct kv_pool *p, uint32_t group, uint32_t block)
{
    struct kv_group *gr = held(p, group, block);
    if (gr->refs[block] == 1)
        gr->only_cached--;
    gr->cached[block] = 0;
    kv_pool_drop(p, group, block);
}
