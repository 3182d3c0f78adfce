/*
 * native: addresses that belong to no company's API: those of llama-server that clients depend on, and ffwd's own.
 *
 *     /tokenize, /detokenize, /apply-template        between text, ids and conversations (native_text.c)
 *     /v1/ffwd/count                                 how many ids a request's prompt has
 *     /v1/ffwd/explain                               how a request would be served (native_explain.c)
 *
 * Errors have the shape of the OpenAI API, whose `message` and `type` are where llama-server has them. Policy for fields
 * as in openai.h.
 */
#ifndef SERVER_DIALECT_NATIVE_H
#define SERVER_DIALECT_NATIVE_H

#include <jansson.h>

#include "server/dialect/openai.h"
#include "server/reply.h"

/* handlers */
http_handler native_tokenize, native_detokenize, native_apply_template, native_count, native_explain;

#endif
