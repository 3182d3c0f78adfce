/*
 * kv_seq: the page tables of one row. See kv.h for the invariant.
 *
 * A table entry goes from KV_NONE (not reserved) to a block and, in sliding groups, back to KV_NONE once the block lies
 * behind the window for good. `first` counts those, so that a commit looks only at entries that may still be held.
 */
#include <stdlib.h>
#include <string.h>

#include "kv/pool.h"
#include "kv/tree.h"

enum status kv_seq_init(struct kv_seq *s, struct kv_pool *p, struct err *e)
{
    *s = (struct kv_seq){.pool = p, .node = KV_NO_NODE};
    size_t entries = kv_blocks(p->cfg.context);
    for (uint32_t g = 0; g < p->cfg.groups; g++) {
        s->table[g] = malloc(entries * sizeof *s->table[g]);
        if (!s->table[g]) {
            kv_seq_release(s);
            return err_set(e, ST_NO_MEMORY, "kv", "no memory for a page table of %zu blocks", entries);
        }
        memset(s->table[g], 0xFF, entries * sizeof *s->table[g]); /* all KV_NONE */
    }
    return ST_OK;
}

/* Gives back the blocks of entries [from, to) in all groups. */
static void drop_entries(struct kv_seq *s, uint32_t from, uint32_t to)
{
    for (uint32_t g = 0; g < s->pool->cfg.groups; g++) {
        uint32_t *table = s->table[g];
        for (uint32_t b = from > s->first[g] ? from : s->first[g]; b < to; b++) {
            if (table[b] != KV_NONE)
                kv_pool_drop(s->pool, g, table[b]);
            table[b] = KV_NONE;
        }
    }
}

void kv_seq_clear(struct kv_seq *s)
{
    if (!s->pool)
        return;
    kv_tree_leave(s);
    drop_entries(s, 0, s->room / KV_BLOCK);
    s->len = s->room = s->published = 0;
    memset(s->first, 0, sizeof s->first);
}

void kv_seq_release(struct kv_seq *s)
{
    if (!s->pool)
        return;
    kv_seq_clear(s);
    for (uint32_t g = 0; g < s->pool->cfg.groups; g++)
        free(s->table[g]);
    *s = (struct kv_seq){0};
}

enum status kv_seq_reserve(struct kv_seq *s, uint32_t n, struct err *e)
{
    struct kv_pool *p = s->pool;
    if (n > p->cfg.context || s->len > p->cfg.context - n)
        return err_set(e, ST_TOO_LONG, "context", "%llu positions exceed the context of %u",
                       (unsigned long long)s->len + n, p->cfg.context);
    uint32_t from = s->room / KV_BLOCK, to = kv_blocks(s->len + n);
    for (uint32_t b = from; b < to; b++)
        for (uint32_t g = 0; g < p->cfg.groups; g++) {
            uint32_t block = kv_pool_take(p, g);
            if (block == KV_NONE) {
                drop_entries(s, from, b + 1);
                return err_set(e, ST_BUSY, "kv", "all %u KV blocks are in use", p->group[g].blocks);
            }
            s->table[g][b] = block;
        }
    if (to > from)
        s->room = to * KV_BLOCK;
    return ST_OK;
}

/* Whether `from` still has block b in every group. */
static bool has_block(const struct kv_seq *from, uint32_t b)
{
    for (uint32_t g = 0; g < from->pool->cfg.groups; g++)
        if (from->table[g][b] == KV_NONE)
            return false;
    return true;
}

uint32_t kv_seq_borrow(struct kv_seq *s, const struct kv_seq *from, uint32_t len)
{
    uint32_t b = s->len / KV_BLOCK;
    len = len < from->len ? len : from->len;
    len = len < (b + 1) * KV_BLOCK ? len : (b + 1) * KV_BLOCK;
    if (len <= s->len || !has_block(from, b) || kv_seq_reserve(s, len - s->len, NULL) != ST_OK)
        return s->len;
    /* The block is private to s: it was reserved now, or copied by a match. All of it is taken: what s has of it already
     * is equal, bit by bit (law L1). */
    for (uint32_t g = 0; g < s->pool->cfg.groups; g++) {
        const struct kv_group *gr = &s->pool->group[g];
        memcpy(gr->base + (size_t)s->table[g][b] * gr->block_bytes,
               gr->base + (size_t)from->table[g][b] * gr->block_bytes, gr->block_bytes);
    }
    kv_seq_commit(s, len - s->len);
    return s->len;
}

/* The first block that a query at `len` sees in group g, or one `back` positions before it. The query sees keys from
 * len + 1 - window on; later ones see no older ones. */
static uint32_t first_seen(const struct kv_seq *s, uint32_t g, uint32_t len, uint32_t back)
{
    uint64_t window = (uint64_t)s->pool->cfg.group[g].window + back;
    if (!s->pool->cfg.group[g].window || len + 1 <= window)
        return 0;
    return (uint32_t)(len + 1 - window) / KV_BLOCK;
}

void kv_seq_commit(struct kv_seq *s, uint32_t n)
{
    if (n > s->room - s->len)
        BUG("commit of %u positions at %u, room for %u", n, s->len, s->room);
    s->len += n;
    for (uint32_t g = 0; g < s->pool->cfg.groups; g++) {
        uint32_t first = first_seen(s, g, s->len, s->pool->cfg.back);
        for (uint32_t b = s->first[g]; b < first; b++) {
            kv_pool_drop(s->pool, g, s->table[g][b]);
            s->table[g][b] = KV_NONE;
        }
        if (first > s->first[g])
            s->first[g] = first;
    }
}

bool kv_seq_cut(struct kv_seq *s, uint32_t len)
{
    if (len > s->len || len < s->published * KV_BLOCK)
        BUG("cut of a sequence of %u positions, %u blocks of which are shared, to %u", s->len, s->published, len);
    for (uint32_t g = 0; g < s->pool->cfg.groups; g++)
        if (first_seen(s, g, len, 0) < s->first[g])
            return false;
    s->len = len;
    return true;
}

struct kern_kv_view kv_view(const struct kv_seq *s, uint32_t group, uint32_t layer, uint32_t head)
{
    const struct kv_group *gr = &s->pool->group[group];
    const struct kv_shape *shape = &s->pool->cfg.group[group];
    size_t at = ((size_t)layer * shape->heads + head) * 2 * gr->half;
    return (struct kern_kv_view){
        .base = gr->base,
        .table = s->table[group],
        .block_bytes = gr->block_bytes,
        .k_offset = at,
        .v_offset = at + gr->half,
        .format = s->pool->cfg.format,
        .head_dim = shape->head_dim,
    };
}
