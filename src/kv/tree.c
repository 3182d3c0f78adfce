/*
 * kv_tree: the prefix cache.
 *
 * A radix tree whose nodes stand for KV_BLOCK tokens each. A node holds a reference to a block in each group that still
 * has one; sliding groups lose theirs first. It is shared by every sequence that began with the same ids in the same
 * namespace. Nodes come from one array; children are found by hashing (parent, namespace, ids) with a key of this
 * process, and ids are always compared.
 *
 * Order of eviction: nodes lie in one list, least recently used first. A node goes only as a leaf, when nobody but the
 * tree holds its blocks. Blocks of sliding groups go before that, those first that are in no window a next turn could
 * begin with (`end` is not set).
 *
 * A sequence that ends leaves its last block as a *tail*, though it is not full: a leaf whose ids end in NO_ID. No lookup
 * finds it, since no prompt has such ids, but a match that ends at its parent copies what agrees, as from any other child.
 *
 * Invariant: a node's ids were all fed to the model in exactly this context, so a match never has to be checked.
 */
#include "kv/tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kv/pool.h"

#define NIL KV_NO_NODE
#define COPY_LEAST 4u      /* ids of a partial match from which copying a block beats feeding them */
#define LOOK_CHILDREN 256u /* continuations that are compared with id by id, the newest first */
#define NO_ID (-1)         /* fills up the ids of a tail */

struct kv_node {
    tok_id ids[KV_BLOCK];
    uint64_t ns;
    uint32_t block[KV_GROUPS]; /* KV_NONE = this group has lost it */
    uint32_t parent;           /* NIL = the namespace's root */
    uint32_t child, sibling;   /* first child; next child of the same parent */
    uint32_t chain;            /* next node of the same bucket, or of the free list */
    uint32_t older, newer;     /* order of use */
    uint32_t pins;             /* sequences that stand here */
    bool end;                  /* in the last window of something that ended here */
};

struct kv_tree {
    struct kv_pool *pool;
    struct kv_node *nodes;
    uint32_t *buckets;
    uint32_t cap, mask, spare, oldest, newest, used;
    uint32_t leaf_from;                  /* where the search for a leaf to evict goes on; NIL = at the oldest */
    uint32_t sliding_from[KV_GROUPS][2]; /* the same for sliding blocks, by whether last windows count */
    uint64_t key[2];
};

/* --- lists ------------------------------------------------------------------------------------------------------------ */

static void unlink_use(struct kv_tree *t, uint32_t i)
{
    struct kv_node *n = &t->nodes[i];
    if (t->leaf_from == i)
        t->leaf_from = n->newer;
    for (uint32_t g = 0; g < KV_GROUPS; g++)
        for (int last = 0; last < 2; last++)
            if (t->sliding_from[g][last] == i)
                t->sliding_from[g][last] = n->newer;
    *(n->older == NIL ? &t->oldest : &t->nodes[n->older].newer) = n->newer;
    *(n->newer == NIL ? &t->newest : &t->nodes[n->newer].older) = n->older;
}

static void link_newest(struct kv_tree *t, uint32_t i)
{
    t->nodes[i].older = t->newest;
    t->nodes[i].newer = NIL;
    *(t->newest == NIL ? &t->oldest : &t->nodes[t->newest].newer) = i;
    t->newest = i;
}

/* From a node up to its root, so that no node is older than its children. */
static void touch(struct kv_tree *t, uint32_t i)
{
    for (; i != NIL; i = t->nodes[i].parent) {
        unlink_use(t, i);
        link_newest(t, i);
    }
}

static uint64_t mix(const struct kv_tree *t, uint64_t h)
{
    unsigned __int128 p = (unsigned __int128)(h ^ t->key[1]) * 0x9E3779B97F4A7C15u;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint32_t bucket_of(const struct kv_tree *t, uint64_t ns, uint32_t parent, const tok_id *ids)
{
    uint64_t h = t->key[0] ^ ns ^ (uint64_t)parent << 32;
    for (uint32_t i = 0; i < KV_BLOCK; i += 2)
        h = mix(t, h ^ ((uint64_t)(uint32_t)ids[i] << 32 | (uint32_t)ids[i + 1]));
    return (uint32_t)(h ^ h >> 32) & t->mask;
}

static uint32_t find(const struct kv_tree *t, uint64_t ns, uint32_t parent, const tok_id *ids)
{
    uint32_t i = t->buckets[bucket_of(t, ns, parent, ids)];
    for (; i != NIL; i = t->nodes[i].chain) {
        const struct kv_node *n = &t->nodes[i];
        if (n->parent == parent && n->ns == ns && memcmp(n->ids, ids, sizeof n->ids) == 0)
            break;
    }
    return i;
}

/* --- life ------------------------------------------------------------------------------------------------------------- */

enum status kv_tree_new(struct kv_tree **out, struct kv_pool *p, struct err *e)
{
    *out = NULL;
    uint32_t cap = 0, buckets = 64;
    for (uint32_t g = 0; g < p->cfg.groups; g++)
        cap = p->group[g].blocks > cap ? p->group[g].blocks : cap;
    while (buckets < cap && buckets < 1u << 30)
        buckets *= 2;
    struct kv_tree *t = calloc(1, sizeof *t);
    struct kv_node *nodes = mem_map(mem_mul(cap, sizeof *nodes));
    uint32_t *table = malloc(buckets * sizeof *table);
    if (!t || !nodes || !table || getrandom(t->key, sizeof t->key, 0) != sizeof t->key) {
        free(t);
        mem_unmap(nodes, mem_mul(cap, sizeof *nodes));
        free(table);
        return err_set(e, ST_NO_MEMORY, "kv", "no memory for a prefix cache of %u blocks", cap);
    }
    memset(table, 0xFF, buckets * sizeof *table);
    t->pool = p;
    t->nodes = nodes;
    t->buckets = table;
    t->cap = cap;
    t->mask = buckets - 1;
    t->spare = t->oldest = t->newest = t->leaf_from = NIL;
    memset(t->sliding_from, 0xFF, sizeof t->sliding_from); /* all NIL */
    p->tree = t;
    *out = t;
    return ST_OK;
}

static void drop_block(struct kv_tree *t, struct kv_node *n, uint32_t g)
{
    if (n->block[g] == KV_NONE)
        return;
    kv_pool_uncache(t->pool, g, n->block[g]);
    n->block[g] = KV_NONE;
}

static void remove_leaf(struct kv_tree *t, uint32_t i)
{
    struct kv_node *n = &t->nodes[i];
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++)
        drop_block(t, n, g);
    uint32_t *at = &t->buckets[bucket_of(t, n->ns, n->parent, n->ids)];
    while (*at != i)
        at = &t->nodes[*at].chain;
    *at = n->chain;
    if (n->parent != NIL) {
        at = &t->nodes[n->parent].child;
        while (*at != i)
            at = &t->nodes[*at].sibling;
        *at = n->sibling;
    }
    unlink_use(t, i);
    n->chain = t->spare;
    t->spare = i;
}

void kv_tree_clear(struct kv_tree *t)
{
    for (uint32_t i = t->oldest, next; i != NIL; i = next) { /* children are older than their parents or pinned */
        next = t->nodes[i].newer;
        if (t->nodes[i].child == NIL && !t->nodes[i].pins) {
            remove_leaf(t, i);
            next = t->oldest;
        }
    }
}

void kv_tree_free(struct kv_tree *t)
{
    if (!t)
        return;
    kv_tree_clear(t);
    t->pool->tree = NULL;
    mem_unmap(t->nodes, mem_mul(t->cap, sizeof *t->nodes));
    free(t->buckets);
    free(t);
}

/* --- eviction --------------------------------------------------------------------------------------------------------- */

/* Nobody stands here and nobody but the tree holds a block of it. */
static bool unused(const struct kv_tree *t, const struct kv_node *n)
{
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++)
        if (n->block[g] != KV_NONE && t->pool->group[g].refs[n->block[g]] > 1)
            return false;
    return !n->pins;
}

/*
 * Searches go on where the last one ended, so that many evictions in a row do not walk past the same nodes in use again
 * and again (a row that runs over a long context holds thousands of the oldest). Nodes passed by get their turn when the
 * search has come to the newest and begins again.
 */
static uint32_t next_leaf(struct kv_tree *t)
{
    for (int pass = t->leaf_from == NIL; pass < 2; pass++) {
        uint32_t i = pass ? t->oldest : t->leaf_from;
        while (i != NIL && (t->nodes[i].child != NIL || !unused(t, &t->nodes[i])))
            i = t->nodes[i].newer;
        t->leaf_from = i;
        if (i != NIL)
            break;
    }
    return t->leaf_from;
}

/* Leaves go until one gave a block of `group`, NIL = until one went. */
static bool evict_leaf(struct kv_tree *t, uint32_t group)
{
    for (uint32_t i; (i = next_leaf(t)) != NIL;) {
        bool gives = group == NIL || t->nodes[i].block[group] != KV_NONE;
        remove_leaf(t, i);
        if (gives)
            return true;
    }
    return false;
}

/* A sliding group's block alone: outside of last windows first, then the least recently used. */
static bool evict_sliding(struct kv_tree *t, uint32_t group)
{
    const struct kv_group *gr = &t->pool->group[group];
    for (int last = 0; last < 2; last++) {
        uint32_t *from = &t->sliding_from[group][last];
        for (int pass = *from == NIL; pass < 2; pass++)
            for (uint32_t i = pass ? t->oldest : *from; i != NIL; i = t->nodes[i].newer) {
                struct kv_node *n = &t->nodes[i];
                if (n->block[group] == KV_NONE || gr->refs[n->block[group]] > 1 || n->pins || (n->end && !last))
                    continue;
                *from = n->newer;
                drop_block(t, n, group);
                return true;
            }
        *from = NIL;
    }
    return false;
}

bool kv_tree_evict(struct kv_tree *t, uint32_t group)
{
    return t->pool->cfg.group[group].window ? evict_sliding(t, group) : evict_leaf(t, group);
}

/* --- match ------------------------------------------------------------------------------------------------------------ */

/* Nodes that a sequence of `len` positions needs in group g, counted back from its last one. */
static uint32_t needed(const struct kv_tree *t, uint32_t g, uint32_t len)
{
    uint32_t window = t->pool->cfg.group[g].window, blocks = kv_blocks(len);
    uint32_t first = window && len + 1 > window ? (len + 1 - window) / KV_BLOCK : 0;
    return blocks > first ? blocks - first : 0;
}

/* How many nodes in a row, ending at i, have their block in group g; at most `most` are looked at. */
static uint32_t present(const struct kv_tree *t, uint32_t i, uint32_t g, uint32_t most)
{
    uint32_t n = 0;
    for (; i != NIL && n < most && t->nodes[i].block[g] != KV_NONE; i = t->nodes[i].parent)
        n++;
    return n;
}

/* A sequence may end at `len` if its last block is node i. (Groups without a window have their block in every node.) */
static bool usable(const struct kv_tree *t, uint32_t i, uint32_t len)
{
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++) {
        uint32_t n = needed(t, g, len);
        if (t->pool->cfg.group[g].window && present(t, i, g, n) < n)
            return false;
    }
    return true;
}

static uint32_t agreement(const struct kv_node *node, const tok_id *ids, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && k < KV_BLOCK && node->ids[k] == ids[k])
        k++;
    return k;
}

/* The child of `parent` that agrees with the most of `n` ids, at least COPY_LEAST and at most n; NIL = none. */
static uint32_t best_child(const struct kv_tree *t, uint32_t parent, const tok_id *ids, uint32_t n, uint32_t len,
                           uint32_t *agree)
{
    uint32_t best = NIL, looks = LOOK_CHILDREN;
    *agree = 0;
    for (uint32_t i = t->nodes[parent].child; i != NIL && looks--; i = t->nodes[i].sibling) {
        uint32_t k = agreement(&t->nodes[i], ids, n);
        if (k >= COPY_LEAST && k > *agree && usable(t, i, len + k)) {
            best = i;
            *agree = k;
        }
    }
    return best;
}

/* Gives s the blocks of node i at table entry b, as far as a sequence of `len` positions still looks at them. */
static void share(struct kv_tree *t, struct kv_seq *s, uint32_t i, uint32_t b, uint32_t len)
{
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++) {
        uint32_t first = kv_blocks(len) - needed(t, g, len);
        if (b < first)
            continue;
        s->table[g][b] = t->nodes[i].block[g];
        kv_pool_retain(t->pool, g, s->table[g][b]);
    }
}

/* A private copy of a block whose first ids agree: what follows them will be overwritten. Taking a block may evict, but not
 * the one that is copied: its node is pinned meanwhile. */
static bool copy_partial(struct kv_tree *t, struct kv_seq *s, uint32_t i, uint32_t b)
{
    const struct kv_config *cfg = &t->pool->cfg;
    uint32_t taken[KV_GROUPS], g = 0;
    bool whole = true;
    t->nodes[i].pins++;
    for (; g < cfg->groups && whole; g++) {
        taken[g] = kv_pool_take(t->pool, g);
        whole = taken[g] != KV_NONE && t->nodes[i].block[g] != KV_NONE;
    }
    for (uint32_t k = 0; k < g; k++) {
        if (!whole && taken[k] != KV_NONE)
            kv_pool_drop(t->pool, k, taken[k]);
        if (!whole)
            continue;
        const struct kv_group *gr = &t->pool->group[k];
        memcpy(gr->base + (size_t)taken[k] * gr->block_bytes,
               gr->base + (size_t)t->nodes[i].block[k] * gr->block_bytes, gr->block_bytes);
        s->table[k][b] = taken[k];
    }
    t->nodes[i].pins--;
    return whole;
}

static void stand_at(struct kv_tree *t, struct kv_seq *s, uint32_t i)
{
    if (i != NIL)
        t->nodes[i].pins++;
    if (s->node != NIL)
        t->nodes[s->node].pins--;
    s->node = i;
}

/* The deepest node from which a sequence can go on, and the positions it stands for; *known is the deepest there is. On the
 * way down, `run` counts how many nodes in a row have their block in each sliding group. */
static uint32_t deepest(const struct kv_tree *t, uint64_t ns, const tok_id *ids, uint32_t n, uint32_t *len,
                        uint32_t *known)
{
    uint32_t deep = NIL, run[KV_GROUPS] = {0};
    *len = 0;
    *known = NIL;
    for (uint32_t d = 1; (uint64_t)d * KV_BLOCK < n; d++) {
        uint32_t at = find(t, ns, *known, ids + (size_t)(d - 1) * KV_BLOCK);
        bool good = true;
        if (at == NIL)
            break;
        *known = at;
        for (uint32_t g = 0; g < t->pool->cfg.groups; g++) {
            run[g] = t->nodes[at].block[g] != KV_NONE ? run[g] + 1 : 0;
            good &= !t->pool->cfg.group[g].window || run[g] >= needed(t, g, d * KV_BLOCK);
        }
        if (good) {
            deep = at;
            *len = d * KV_BLOCK;
        }
    }
    return deep;
}

/* Nothing that follows node i says otherwise than ids[0, n), as far as it goes. */
static bool ends_here(const struct kv_tree *t, uint32_t i, const tok_id *ids, uint32_t n)
{
    uint32_t looks = LOOK_CHILDREN, most = 0;
    bool end = true;
    for (uint32_t c = t->nodes[i].child; c != NIL && looks--; c = t->nodes[c].sibling) {
        uint32_t k = agreement(&t->nodes[c], ids, n);
        bool whole = k == n || k == KV_BLOCK || t->nodes[c].ids[k] == NO_ID;
        if (k > most || (k == most && !whole)) {
            most = k;
            end = whole;
        }
    }
    return end;
}

struct kv_peek kv_tree_peek(const struct kv_tree *t, uint64_t ns, const tok_id *ids, uint32_t n)
{
    struct kv_peek p = {0};
    uint32_t known, deep = deepest(t, ns, ids, n, &p.len, &known), g = 0;
    while (g < t->pool->cfg.groups && t->pool->cfg.group[g].window)
        g++;
    for (uint32_t i = deep; i != NIL && g < t->pool->cfg.groups; i = t->nodes[i].parent)
        p.live += t->pool->group[g].refs[t->nodes[i].block[g]] > 1;
    if (known == NIL)
        p.miss = KV_MISS_UNKNOWN;
    else if (known != deep)
        p.miss = KV_MISS_EVICTED;
    else
        p.miss = ends_here(t, deep, ids + p.len, n - p.len) ? KV_MISS_NEW : KV_MISS_DIFFERS;
    return p;
}

uint64_t kv_tree_namespace(const struct kv_tree *t, const void *salt, size_t n)
{
    const uint8_t *s = salt;
    if (!n)
        return 0;
    uint64_t h = mix(t, t->key[0] ^ n); /* mixed before the bytes: "b" and "a\0" are not the same */
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, s + i, n - i < 8 ? n - i : 8);
        h = mix(t, h ^ word);
    }
    return h ? h : 1;
}

uint32_t kv_tree_match(struct kv_tree *t, uint64_t ns, const tok_id *ids, uint32_t n, struct kv_seq *s)
{
    uint32_t len, known, agree = 0;
    if (s->len || s->room || !n)
        BUG("match of %u ids into a sequence of %u positions", n, s->len);
    uint32_t deep = deepest(t, ns, ids, n, &len, &known);
    if (deep == NIL)
        return 0;
    stand_at(t, s, deep);
    for (uint32_t i = deep, b = len / KV_BLOCK; i != NIL; i = t->nodes[i].parent)
        share(t, s, i, --b, len);
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++)
        s->first[g] = len / KV_BLOCK - needed(t, g, len);
    s->published = len / KV_BLOCK;
    s->room = s->len = len;
    uint32_t partial = best_child(t, deep, ids + len, n - 1 - len, len, &agree);
    if (partial != NIL && copy_partial(t, s, partial, len / KV_BLOCK)) {
        s->room += KV_BLOCK;
        s->len += agree;
        touch(t, partial); /* and its parents */
    } else {
        touch(t, deep);
    }
    return s->len;
}

/* --- publish ---------------------------------------------------------------------------------------------------------- */

static uint32_t new_node(struct kv_tree *t)
{
    if (t->spare == NIL && t->used == t->cap && !evict_leaf(t, NIL))
        return NIL;
    uint32_t i = t->spare;
    if (i == NIL)
        return t->used++;
    t->spare = t->nodes[i].chain;
    return i;
}

static uint32_t add_node(struct kv_tree *t, uint64_t ns, uint32_t parent, const tok_id *ids)
{
    uint32_t i = new_node(t);
    if (i == NIL)
        return NIL;
    struct kv_node *n = &t->nodes[i];
    *n = (struct kv_node){.ns = ns, .parent = parent, .child = NIL, .sibling = NIL};
    memcpy(n->ids, ids, sizeof n->ids);
    memset(n->block, 0xFF, sizeof n->block); /* all KV_NONE */
    uint32_t *bucket = &t->buckets[bucket_of(t, ns, parent, ids)];
    n->chain = *bucket;
    *bucket = i;
    if (parent != NIL) {
        n->sibling = t->nodes[parent].child;
        t->nodes[parent].child = i;
    }
    link_newest(t, i);
    return i;
}

/* The node takes the sequence's block; if it has one already, the sequence goes on with that, which holds the same bits
 * (law L1), and its own becomes free. */
static void enter_block(struct kv_tree *t, struct kv_node *n, uint32_t g, uint32_t *entry)
{
    if (*entry == KV_NONE || *entry == n->block[g])
        return;
    if (n->block[g] == KV_NONE) {
        n->block[g] = *entry;
        kv_pool_cache(t->pool, g, *entry);
        return;
    }
    kv_pool_retain(t->pool, g, n->block[g]);
    kv_pool_drop(t->pool, g, *entry);
    *entry = n->block[g];
}

void kv_tree_publish(struct kv_tree *t, uint64_t ns, const tok_id *ids, struct kv_seq *s, uint32_t len)
{
    for (; s->published < len / KV_BLOCK; s->published++) {
        uint32_t b = s->published, i = find(t, ns, s->node, ids + (size_t)b * KV_BLOCK);
        if (i == NIL)
            i = add_node(t, ns, s->node, ids + (size_t)b * KV_BLOCK);
        if (i == NIL)
            return; /* every node is in use: nothing more of this sequence can be cached now */
        for (uint32_t g = 0; g < t->pool->cfg.groups; g++)
            enter_block(t, &t->nodes[i], g, &s->table[g][b]);
        stand_at(t, s, i);
    }
}

void kv_tree_publish_tail(struct kv_tree *t, uint64_t ns, const tok_id *ids, const struct kv_seq *s)
{
    tok_id tail[KV_BLOCK];
    uint32_t b = s->len / KV_BLOCK, n = s->len % KV_BLOCK;
    if (n < COPY_LEAST || s->published != b || s->node == NIL)
        return;
    for (uint32_t k = 0; k < KV_BLOCK; k++)
        tail[k] = k < n ? ids[(size_t)b * KV_BLOCK + k] : NO_ID;
    uint32_t i = find(t, ns, s->node, tail);
    if (i != NIL) {
        touch(t, i);
        return;
    }
    i = add_node(t, ns, s->node, tail);
    if (i == NIL)
        return;
    t->nodes[i].end = true;
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++)
        if (s->table[g][b] != KV_NONE) {
            t->nodes[i].block[g] = s->table[g][b];
            kv_pool_cache(t->pool, g, s->table[g][b]);
        }
}

void kv_tree_mark(struct kv_tree *t, const struct kv_seq *s)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < t->pool->cfg.groups; g++)
        if (t->pool->cfg.group[g].window)
            most = needed(t, g, s->len) > most ? needed(t, g, s->len) : most;
    for (uint32_t i = s->node; i != NIL && most; i = t->nodes[i].parent, most--)
        t->nodes[i].end = true;
}

void kv_tree_leave(struct kv_seq *s)
{
    struct kv_tree *t = s->pool->tree;
    if (!t || s->node == NIL)
        return;
    kv_tree_mark(t, s);
    touch(t, s->node);
    stand_at(t, s, NIL);
}

uint32_t kv_tree_nodes(const struct kv_tree *t)
{
    uint32_t n = 0;
    for (uint32_t i = t->oldest; i != NIL; i = t->nodes[i].newer)
        n++;
    return n;
}

void kv_tree_count(const struct kv_tree *t, uint32_t group, uint32_t *refs)
{
    for (uint32_t i = t->oldest; i != NIL; i = t->nodes[i].newer)
        if (t->nodes[i].block[group] != KV_NONE)
            refs[t->nodes[i].block[group]]++;
}

void kv_tree_verify(const struct kv_tree *t, uint64_t ns, const tok_id *ids, const struct kv_seq *s)
{
    uint32_t b = s->published;
    for (uint32_t i = s->node; i != NIL; i = t->nodes[i].parent) {
        const struct kv_node *n = &t->nodes[i];
        if (!b-- || n->ns != ns || memcmp(n->ids, ids + (size_t)b * KV_BLOCK, sizeof n->ids))
            BUG("the tree's path to %u published blocks is not what was fed", s->published);
    }
    if (b)
        BUG("%u published blocks, but the path is shorter by %u", s->published, b);
}
