/* tree's face towards the pool and the sequences. Private to kv. */
#ifndef KV_TREE_H
#define KV_TREE_H

#include "kv/kv.h"

/* Frees one block of `group` that only the tree holds; false when there is none. */
bool kv_tree_evict(struct kv_tree *t, uint32_t group);

/* Adds one to refs[block] for each block of `group` that the tree holds. */
void kv_tree_count(const struct kv_tree *t, uint32_t group, uint32_t *refs);

/* A sequence lets go of its place in the tree: what it used is the most recently used now. */
void kv_tree_leave(struct kv_seq *s);

#endif
