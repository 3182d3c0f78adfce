/* shim: what the files of this folder share about the border to Rust. Private to text. */
#ifndef TEXT_SHIM_H
#define TEXT_SHIM_H

#include <stdint.h>

#include "base/base.h"

struct tok;
struct ffwd_tok;
struct ffwd_error;

/* A code of the shim and its sentence as a status; `field` is what the sentence is about. */
MUST_CHECK enum status text_status(int32_t code, const struct ffwd_error *from, const char *field, struct err *e);

const struct ffwd_tok *text_shim_tok(const struct tok *t); /* NULL for NULL */

/* Builds what all grammars of a tokenizer share (up to some seconds with a large vocabulary, once), so that compiling
 * does not. It also happens by itself. */
MUST_CHECK enum status text_prepare_grammars(const struct tok *t, struct err *e);

#endif
