/*
 * kv: keys and values of what was fed to the model.
 *
 * A *group* is a set of layers that keep their KV equally long: full attention, or a sliding window. Memory is taken in
 * blocks of KV_BLOCK positions; one block of a group holds all of that group's layers and KV heads for those positions.
 * Blocks are reference-counted and come from one pool per group, reserved when the engine starts and touched on first
 * use. A sequence has one page table per group. Position p of a sequence is in table[p / 32] of each group.
 *
 * Knows nothing of requests, tokens or models beyond these shapes. Threads: engine thread only, except that kernels read
 * and write block contents through kv_view().
 */
#ifndef KV_KV_H
#define KV_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "kern/kern.h"

#define KV_BLOCK KERN_KV_TOKENS
#define KV_GROUPS 4u
#define KV_NO_NODE UINT32_MAX
#define KV_NONE UINT32_MAX /* a page-table entry whose block was dropped (behind the window) */

struct kv_shape {
    uint32_t layers, heads, head_dim;
    uint32_t window; /* keys a query sees, its own included; 0 = all */
};

struct kv_config {
    enum kern_kv format;
    uint32_t groups;
    struct kv_shape group[KV_GROUPS];
    uint32_t positions; /* how many positions all sequences together may hold */
    uint32_t rows;      /* sequences alive at the same time */
    uint32_t context;   /* longest sequence, in positions */
    uint32_t cached;    /* windows of sliding groups that the prefix tree may keep beyond those of running rows */
    uint32_t span;      /* most positions a sequence reserves beyond len at once; 0 = LIMIT_SPAN. Sizes sliding groups */
    uint32_t back;      /* how far kv_seq_cut() surely goes: sliding groups keep that much more than their window */
};

struct kv_pool;

/* ST_NEVER_FITS when the sizes overflow or exceed the address space, ST_NO_MEMORY. */
MUST_CHECK enum status kv_pool_new(struct kv_pool **out, const struct kv_config *cfg, struct err *e);
void kv_pool_free(struct kv_pool *p);
const struct kv_config *kv_pool_config(const struct kv_pool *p);

/* Bytes that one position takes in all groups; what positions cost before a pool exists. */
size_t kv_position_bytes(const struct kv_config *cfg);
size_t kv_config_bytes(const struct kv_config *cfg); /* what a pool would reserve; SIZE_MAX when that overflows */
size_t kv_pool_bytes(const struct kv_pool *p);       /* reserved */

/* Blocks of a group that nobody holds; all of them, before any sequence is. */
uint32_t kv_pool_unused(const struct kv_pool *p, uint32_t group);

/* Those nobody but the prefix tree holds, which gives them up when they are needed, counted as well. */
uint32_t kv_pool_available(const struct kv_pool *p, uint32_t group);

/* A block with one reference, or KV_NONE when the group has none left. Content is whatever was there. */
uint32_t kv_pool_take(struct kv_pool *p, uint32_t group);
void kv_pool_retain(struct kv_pool *p, uint32_t group, uint32_t block); /* one more holder; what a prefix cache is for */
void kv_pool_drop(struct kv_pool *p, uint32_t group, uint32_t block); /* the last drop makes it unused */

/* --- sequences ------------------------------------------------------------------------------------------------------- */

/*
 * What one row has fed. Invariant: positions [0, len) hold valid KV in every group, except those whose table entry is
 * KV_NONE, which lie behind the group's window for every position >= len. Positions [len, room) have blocks but no
 * content yet. Blocks from len / 32 on are never shared.
 */
struct kv_seq {
    struct kv_pool *pool;
    uint32_t len;                  /* positions fed and committed */
    uint32_t room;                 /* positions that have blocks, a multiple of KV_BLOCK */
    uint32_t *table[KV_GROUPS];    /* [context / KV_BLOCK, rounded up] entries each, owned */
    uint32_t first[KV_GROUPS];     /* entries before it were dropped: KV_NONE */
    uint32_t node;                 /* where it stands in the prefix tree; KV_NO_NODE = nowhere yet */
    uint32_t published;            /* blocks on the way there: [0, published) are in the tree */
};

MUST_CHECK enum status kv_seq_init(struct kv_seq *s, struct kv_pool *p, struct err *e);
void kv_seq_release(struct kv_seq *s); /* drops every block; safe on a zeroed struct */
void kv_seq_clear(struct kv_seq *s);   /* drops every block and is empty again, without touching the allocator */

/* Makes room for positions [len, len + n). ST_TOO_LONG beyond the context, ST_BUSY when blocks ran out (nothing is
 * kept then). */
MUST_CHECK enum status kv_seq_reserve(struct kv_seq *s, uint32_t n, struct err *e);

/* Continues s with positions [s->len, len) of another sequence of the same pool that has fed the same ids up to there, as
 * far as they lie in one block: a private copy. For sequences that begin alike while both are alive, since blocks that
 * are not full are in no tree. Returns s->len. */
uint32_t kv_seq_borrow(struct kv_seq *s, const struct kv_seq *from, uint32_t len);

/* Positions [len, len + n) have been filled: they belong to the sequence now. Then drops blocks behind windows. */
void kv_seq_commit(struct kv_seq *s, uint32_t n);

/* Takes positions [len, s->len) back, which is a change of the page table alone; their blocks stay reserved. False, and
 * nothing changed, when a sliding group has dropped keys that a query at `len` sees: never within `back` of the furthest
 * that s has been. What is in the prefix tree cannot be taken back. */
MUST_CHECK bool kv_seq_cut(struct kv_seq *s, uint32_t len);

/* Blocks that n positions take in a group without a window. */
static inline uint32_t kv_blocks(uint32_t n)
{
    return n / KV_BLOCK + (n % KV_BLOCK != 0);
}

/* --- the prefix tree ------------------------------------------------------------------------------------------------- */

/*
 * A cache of what was fed: a radix tree over blocks, keyed by a namespace and ids, shared by all sequences of a pool. What
 * ends in the tree stays until its blocks are needed. Threads: engine thread only.
 */
struct kv_tree;

/* One per pool; kv_pool_take() evicts from it from now on. Free it before the pool and after its sequences. */
MUST_CHECK enum status kv_tree_new(struct kv_tree **out, struct kv_pool *p, struct err *e);
void kv_tree_free(struct kv_tree *t);
void kv_tree_clear(struct kv_tree *t); /* forgets all that no sequence stands on */
uint32_t kv_tree_nodes(const struct kv_tree *t);

/* Gives the empty sequence s the longest cached prefix of `ids` in `ns`: at most n - 1 positions, so that one id is left to
 * feed. Whole blocks are shared; of the one after them, ids that agree come as a private copy. Returns s->len. Never
 * fails: no match is a match of length 0. */
uint32_t kv_tree_match(struct kv_tree *t, uint64_t ns, const tok_id *ids, uint32_t n, struct kv_seq *s);

/* What a match would find, without taking it. */
enum kv_miss {
    KV_MISS_UNKNOWN, /* nothing in the tree begins with these ids' first block */
    KV_MISS_NEW,     /* the tree knows nothing beyond what matches */
    KV_MISS_DIFFERS, /* the tree goes on there with other ids */
    KV_MISS_EVICTED  /* the ids are there, but a sliding group lost its last window */
};
struct kv_peek {
    uint32_t len;     /* positions in whole blocks */
    uint32_t live;    /* of those blocks, how many a sequence holds already (groups without a window) */
    enum kv_miss miss;
};
struct kv_peek kv_tree_peek(const struct kv_tree *t, uint64_t ns, const tok_id *ids, uint32_t n);

/* The namespace of a salt: 0 for none. Depends on a key of this process. */
uint64_t kv_tree_namespace(const struct kv_tree *t, const void *salt, size_t n);

/* Enters the blocks of s that are full at `len` positions. `ids` are what was fed at [0, len). Call it before
 * kv_seq_commit(), which drops what lies behind windows. */
void kv_tree_publish(struct kv_tree *t, uint64_t ns, const tok_id *ids, struct kv_seq *s, uint32_t len);

/* Enters the last block of s, though it is not full: s feeds no more and is about to be cleared. `ids` are what was fed, as
 * above. What is in the tree already, or too little to be worth a block, is left. */
void kv_tree_publish_tail(struct kv_tree *t, uint64_t ns, const tok_id *ids, const struct kv_seq *s);

/* A next turn may well begin where s is now (a prompt's end): its sliding windows are kept longer. Also done when a
 * sequence is cleared. */
void kv_tree_mark(struct kv_tree *t, const struct kv_seq *s);

/* Aborts unless every reference of the pool is one that a sequence or the tree holds; for tests. `seqs` are all there
 * are. */
void kv_verify(const struct kv_pool *p, const struct kv_seq *seqs, uint32_t n);

/* Aborts unless the tree's path to where s stands is exactly the ids that s fed, in `ns`; for tests. */
void kv_tree_verify(const struct kv_tree *t, uint64_t ns, const tok_id *ids, const struct kv_seq *s);

/* Where kernels find (and put) positions of one layer and head; layer counts within the group. Entries that are KV_NONE
 * are never read: every key they stand for is invisible to queries at positions >= len. */
struct kern_kv_view kv_view(const struct kv_seq *s, uint32_t group, uint32_t layer, uint32_t head);

#endif
