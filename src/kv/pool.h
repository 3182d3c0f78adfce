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
    uint32_t *spare;    /* [blocks] stack of blocks nobody holds */
};

struct kv_pool {
    struct kv_config cfg;
    struct kv_group group[KV_GROUPS];
};

#endif
