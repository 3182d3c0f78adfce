/*
 * emit: what becomes of chosen tokens. The order of the rules is fixed: abort → end token → detokenise → stop strings →
 * grammar complete → max_tokens → reader gone.
 *
 * A step may choose more tokens than the ring has room for, and a token's text may be longer than that, if the vocabulary
 * is strange. Then the row is `telling`: it takes no part in steps until the reader has made room for all of it, so
 * the text is the same however slow the reader.
 */
#ifndef ENGINE_EMIT_H
#define ENGINE_EMIT_H

#include "engine/row.h"

/* Says ids[said, n), or ends the row, or both. A failure (r->status) ends it after that. */
void emit_chosen(struct engine *en, struct row *r);

/* Tells how far the prompt is, of a row that wants it told and has not told it yet. */
void emit_progress(struct engine *en, struct row *r);

/* Goes on with a row that is telling; then the rules that follow, so it may end. */
void emit_more(struct engine *en, struct row *r);

/* ids[said - 1] into an event, with the logprobs that were asked for. */
void emit_id(const struct row *r, struct event *ev);

/* Up to `cap` bytes of whole characters of s[0, n); at least 1 when n is not 0. */
uint32_t emit_whole(const char *s, uint32_t n, uint32_t cap);

#endif
