/*
 * native: addresses that belong to no company's API: those of llama-server that clients depend on, and ffwd's own.
 *
 *     /tokenize, /detokenize, /apply-template        between text, ids and conversations (native_text.c)
 *     /v1/ffwd/count                                 how many ids a request's prompt has
 *     /v1/ffwd/explain                               how a request would be served (native_explain.c)
 *     /completion                                    a raw prompt (native_completion.c, native_completion_write.c)
 *     /infill                                        what is missing between two texts (native_infill.c)
 *     /props, /slots                                 what the server is and does (native_props.c)
 *
 * Errors have the shape of the OpenAI API, whose `message` and `type` are where llama-server has them. Policy for
 * fields as in openai.h.
 */
#ifndef SERVER_DIALECT_NATIVE_H
#define SERVER_DIALECT_NATIVE_H

#include <jansson.h>

#include "server/dialect/openai.h"
#include "server/reply.h"

/* handlers */
http_handler native_tokenize, native_detokenize, native_apply_template, native_count, native_explain, native_completion,
    native_infill, native_props, native_slots;

/* Everything of a request to /completion but its prompt and constraint. */
MUST_CHECK enum status native_parse_completion(const json_t *root, struct reply_job *job, struct err *e);

extern const struct reply_ops native_completion_ops;

/* The sampling fields as an object: those of `s` under llama-server's names. max_tokens 0 is written as -1. */
void native_write_settings(const struct sample_params *s, uint32_t max_tokens, struct buf *out);

/* How tokens are chosen by /completion where a request does not say; NULL without memory. The caller's. */
json_t *native_usual_sampling(void);

#endif
