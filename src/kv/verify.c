/*
 * verify: do references, blocks and the tree add up? For tests that drive the engine through thousands of cases; any
 * difference is a broken invariant, so it aborts.
 */
#include <stdlib.h>
#include <string.h>

#include "kv/pool.h"
#include "kv/tree.h"

static void count_table(const struct kv_seq *s, uint32_t g, uint32_t *refs)
{
    for (uint32_t b = 0; b < s->room / KV_BLOCK; b++) {
        uint32_t block = s->table[g][b];
        if (block == KV_NONE && b >= s->first[g])
            BUG("a sequence of %u positions lacks block %u of group %u", s->len, b, g);
        if (block != KV_NONE)
            refs[block]++;
    }
}

void kv_verify(const struct kv_pool *p, const struct kv_seq *seqs, uint32_t n)
{
    for (uint32_t g = 0; g < p->cfg.groups; g++) {
        const struct kv_group *gr = &p->group[g];
        uint32_t *refs = calloc(gr->blocks, sizeof *refs), unused = 0, only = 0;
        if (!refs)
            BUG("no memory to verify %u blocks", gr->blocks);
        for (uint32_t i = 0; i < n; i++)
            count_table(&seqs[i], g, refs);
        if (p->tree)
            kv_tree_count(p->tree, g, refs);
        for (uint32_t b = 0; b < gr->blocks; b++) {
            if (refs[b] != gr->refs[b])
                BUG("block %u of group %u has %u references, %u are counted", b, g, refs[b], gr->refs[b]);
            unused += !refs[b];
            only += refs[b] == 1 && gr->cached[b];
        }
        if (unused != gr->unused || only != gr->only_cached)
            BUG("group %u: %u blocks unused, counted %u; %u only cached, counted %u", g, unused, gr->unused, only,
                gr->only_cached);
        free(refs);
    }
}
