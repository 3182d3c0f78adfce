/*
 * emit: what becomes of a chosen token. The order of the rules is fixed: abort → end token → detokenise → stop strings →
 * max_tokens → reader gone.
 */
#ifndef ENGINE_EMIT_H
#define ENGINE_EMIT_H

#include "engine/row.h"

/* Publishes r->chosen, or ends the row, or both. */
void emit_chosen(struct engine *en, struct row *r);

/* Up to `cap` bytes of whole characters of s[0, n); at least 1 when n is not 0. */
uint32_t emit_whole(const char *s, uint32_t n, uint32_t cap);

#endif
