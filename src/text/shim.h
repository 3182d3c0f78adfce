/* shim: what the files of this folder share about the border to Rust. Private to text. */
#ifndef TEXT_SHIM_H
#define TEXT_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct grammar;
struct grammar_cache;
struct grammar_source;
struct tok;
struct tok_infill;
struct ffwd_tok;
struct ffwd_error;

/* Looks up by their usual names those that are TOK_NONE (infill.c). */
void text_find_infill(const struct tok *t, struct tok_infill *in);

/* A code of the shim and its sentence as a status; `field` is what the sentence is about. */
MUST_CHECK enum status text_status(int32_t code, const struct ffwd_error *from, const char *field, struct err *e);

const struct ffwd_tok *text_shim_tok(const struct tok *t); /* NULL for NULL */

/* One more reference to a tokenizer, given back with tok_free(): for threads that may outlive their maker. */
struct tok *text_tok_retain(const struct tok *t);

/* Builds what all grammars of a tokenizer share (up to some seconds with a large vocabulary, once), so that compiling
 * does not. It also happens by itself. */
MUST_CHECK enum status text_prepare_grammars(const struct tok *t, struct err *e);

/* grammar_new() on the calling thread, which has text_grammar_stack() bytes of stack. */
MUST_CHECK enum status text_grammar_here(struct grammar **out, const struct tok *t, const struct grammar_source *src,
                                         struct err *e);
size_t text_grammar_stack(void);
size_t text_grammar_bytes(const struct grammar *g); /* of memory, about */

/* For tests, before the cache's first use: another compiler than text_grammar_here() and other limits. */
typedef enum status text_compiler(struct grammar **out, const struct tok *t, const struct grammar_source *src,
                                  struct err *e);
void text_cache_set(struct grammar_cache *c, text_compiler *compile, unsigned cpu_ms, unsigned wait_ms, size_t bytes);

#endif
