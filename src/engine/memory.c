/*
 * The engine's sizes: how many rows, how long a context, how many KV positions. Pure arithmetic over the configuration,
 * the network's shapes and a budget in bytes.
 */
#include "engine/fill.h"
#include "engine/inside.h"
#include "engine/sched.h"

uint32_t engine_heads(const struct engine *en)
{
    uint64_t likely = (uint64_t)en->cfg.rows * ROW_FILL;
    return en->cfg.rows + (uint32_t)(likely < FILL_HEADS ? likely : FILL_HEADS);
}

size_t engine_logits_bytes(const struct engine *en)
{
    return (size_t)engine_heads(en) * en->net.vocab * sizeof(float);
}

size_t engine_ids_bytes(const struct engine *en)
{
    return mem_mul(mem_mul(en->slots.n, en->cfg.context), sizeof(tok_id));
}

static size_t cost(struct kv_config *kv, uint32_t positions, uint32_t context)
{
    kv->positions = positions;
    kv->context = context;
    return kv_config_bytes(kv);
}

/* The most positions within [0, most], in whole blocks or `most` itself, that the budget holds. `single` sizes one
 * sequence of that length (context grows along), otherwise the context is `context`. */
static uint32_t most_positions(struct kv_config *kv, uint32_t most, uint32_t context, bool single, size_t budget)
{
    if (cost(kv, most, single ? most : context) <= budget)
        return most;
    uint32_t lo = 0, hi = most / KV_BLOCK + 1; /* blocks: lo fits, hi does not */
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (cost(kv, mid * KV_BLOCK, single ? mid * KV_BLOCK : context) <= budget)
            lo = mid;
        else
            hi = mid;
    }
    return lo * KV_BLOCK < most ? lo * KV_BLOCK : most;
}

static enum status fill_defaults(struct engine *en, const struct engine_config *cfg, struct err *e)
{
    en->cfg = *cfg;
    struct engine_config *c = &en->cfg;
    if (en->net.whole && en->net.context > LIMIT_STEP)
        en->net.context = LIMIT_STEP;
    if (c->rows > LIMIT_ROWS)
        return err_set(e, ST_ARGUMENT, "rows", "at most %u requests can run at the same time, not %u", LIMIT_ROWS,
                       c->rows);
    if (c->queue > LIMIT_QUEUE)
        return err_set(e, ST_ARGUMENT, "queue", "at most %u requests can wait, not %u", LIMIT_QUEUE, c->queue);
    if (c->chunk > LIMIT_SPAN)
        return err_set(e, ST_ARGUMENT, "chunk", "a step feeds at most %u tokens of a prompt, not %u", LIMIT_SPAN,
                       c->chunk);
    if (c->context > en->net.context)
        return err_set(e, ST_ARGUMENT, "context", "the context can be at most the model's %u positions, not %u",
                       en->net.context, c->context);
    if (c->itl_ms > LIMIT_ITL_MS)
        return err_set(e, ST_ARGUMENT, "itl", "a step may be planned to take up to %u ms, not %u", LIMIT_ITL_MS,
                       c->itl_ms);
    const struct engine_cost *cost = c->cost ? c->cost : &en->net.cost;
    TRY(engine_cost_check(cost, e));
    cost_begin(&en->cost, cost);
    c->cost = NULL; /* it was copied */
    c->itl_ms = c->itl_ms ? c->itl_ms : SCHED_ITL_MS;
    c->rows = c->rows ? c->rows : ENGINE_ROWS;
    c->queue = c->queue ? c->queue : LIMIT_QUEUE;
    c->chunk = c->chunk ? c->chunk : LIMIT_SPAN;
    if (en->net.whole)
        c->chunk = c->context ? c->context : en->net.context;
    uint32_t span = c->chunk > ROW_FILL ? c->chunk : ROW_FILL + 1;
    en->step_tokens = c->rows * span < LIMIT_STEP ? c->rows * span : LIMIT_STEP;
    return ST_OK;
}

/* Half of what is free: the pool is only touched as it fills, and other programs live here too. In a control group that
 * is full of page cache nothing seems free, though the kernel would make room, so there is a floor. */
static size_t free_budget(void)
{
    uint64_t half = mem_available() / 2;
    return half > ENGINE_LEAST_BUDGET ? (size_t)half : ENGINE_LEAST_BUDGET;
}

enum status engine_plan_memory(struct engine *en, const struct engine_config *cfg, struct kv_config *kv, struct err *e)
{
    TRY(fill_defaults(en, cfg, e));
    struct engine_config *c = &en->cfg;
    *kv = (struct kv_config){.format = c->kv_format, .groups = en->net.kv_groups, .rows = c->rows,
                              .span = c->chunk > 2 * ROW_FILL ? c->chunk : 2 * ROW_FILL + 1,
                              .cached = c->no_prefix_cache ? 0 : c->rows};
    for (uint32_t g = 0; g < kv->groups && g < KV_GROUPS; g++)
        kv->group[g] = en->net.kv_group[g];
    size_t budget = c->kv_budget ? c->kv_budget : free_budget();
    uint32_t want = c->context ? c->context : en->net.context;
    uint32_t context = most_positions(kv, want, 0, true, budget);
    if (context < want && (c->context || !context))
        return err_set(e, ST_NEVER_FITS, c->context ? "context" : "kv_budget",
                       "a context of %u positions takes %zu MB of keys and values, the budget is %zu MB",
                       c->context ? c->context : KV_BLOCK, cost(kv, want, want) >> 20, budget >> 20);
    c->context = context;
    uint64_t all = (uint64_t)c->rows * kv_blocks(context) * KV_BLOCK; /* each row may fill its last block in part */
    uint32_t most = all > UINT32_MAX - KV_BLOCK ? UINT32_MAX - KV_BLOCK : (uint32_t)all;
    uint32_t positions = most_positions(kv, most, context, false, budget);
    /* Sliding groups for all rows may cost more than for one: a sequence of the whole context has to fit all the same. */
    kv->positions = positions > context ? positions : context;
    kv->context = context;
    return ST_OK;
}
