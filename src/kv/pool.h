/* kv_pool's inside, for the files of this folder. */
#ifndef KV_POOL_H
#define KV_POOL_H

#include "kv/kv.h"

/* Invariant: spare[0, unused) are exactly the blocks with refs == 0, each once. */
struct kv_group {
    uint8_t *base;      /* [blocks][block_bytes], reserved, touched on first use */
    size_t bytes, block_bytes;
    size_t half;        /* bytes of one head's K (and of its V) in a block */
    uint32_t blocks, unused;
    uint32_t *refs;     /* [blocks] */
    uint8_t *cached;    /* [blocks] 1 = one of the references is the prefix tree's */
    uint32_t only_cached; /* blocks whose only reference is the tree's: as good as unused */
    uint32_t *spare;    /* [blocks] stack of blocks nobody holds */
};

struct kv_pool {
    struct kv_config cfg;
    struct kv_group group[KV_GROUPS];
    struct kv_tree *tree; /* evicts when blocks run out; NULL = none */
};

/* The tree takes a reference to a block somebody holds, and gives it up. */
void kv_pool_cache(struct kv_pool *p, uint32_t group, uint32_t block);
void kv_pool_uncache(struct kv_pool *p, uint32_t group, uint32_t block);

#endif
