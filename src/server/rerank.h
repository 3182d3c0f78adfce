/*
 * rerank: the prompt that asks a model how well a document answers a query.
 *
 * A model's file brings it as a template, a text with {query} and {document} in it, as converters of Qwen3-Reranker write
 * it. It becomes a chat template, because those keep the client's text from becoming control tokens.
 */
#ifndef SERVER_RERANK_H
#define SERVER_RERANK_H

#include "base/base.h"
#include "text/text.h"

/* ST_UNSUPPORTED for a template that means more than these two places, ST_MODEL for one that lacks one of them. */
MUST_CHECK enum status server_rerank_template(struct chat_template **out, const char *source, size_t n, struct err *e);

/* The ids of the prompt, given back with tok_ids_free(). Errors name `field`. */
MUST_CHECK enum status server_rerank_prompt(const struct chat_template *t, const struct tok *tok, struct text_view query,
                                            struct text_view document, const char *field, tok_id **ids, size_t *n,
                                            struct err *e);

#endif
