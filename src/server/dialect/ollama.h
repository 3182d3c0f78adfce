/*
 * ollama: the API of Ollama, as far as its clients talk to a model: /api/chat, /api/generate, and what they ask about
 * the server: /api/tags, /api/ps, /api/show, /api/version. Models are not managed here.
 *
 * A conversation is translated into the one that chat reads (ollama_turns.c). Policy for fields as in openai.h. The
 * options are those of llama.cpp, so openai_sampling.c reads them; Ollama's own values hold for what a request leaves
 * out. What is said of loading a model (num_thread, num_gpu, keep_alive, …) is accepted: there is one model, it stays
 * loaded, and no reply depends on how. Beyond the API tool_choice, parallel_tool_calls and `strict` of tools are
 * honoured, and the fields of openai_extra.c.
 *
 * Parsing and writing are functions of their arguments alone, so that they are tested without a server.
 */
#ifndef SERVER_DIALECT_OLLAMA_H
#define SERVER_DIALECT_OLLAMA_H

#include <jansson.h>

#include "server/constrain.h"
#include "server/dialect/openai.h"
#include "server/reply.h"

/* handlers */
http_handler ollama_chat, ollama_generate, ollama_tags, ollama_ps, ollama_show, ollama_version;

/* ---- errors (ollama_error.c) ---- */

/* {"error":text}; the text begins with the field unless it names it anyway. */
void ollama_error_body(struct buf *out, const struct err *e);

/* Replies with an error; status 0 = that of e->code. */
void ollama_refuse(struct http_call *call, int status, const struct err *e);

/* ---- requests ---- */

enum ollama_thinking { OLLAMA_UNSAID, OLLAMA_OFF, OLLAMA_ON };

/* What a request says beside the conversation and how tokens are chosen. */
struct ollama_request {
    bool chat;       /* /api/chat, not /api/generate */
    bool nothing;    /* no messages, no prompt: the client only wants the model to be there */
    bool raw;        /* the prompt is not rendered */
    struct text_view suffix; /* the reply fills in what is missing between prompt and this; n == 0: not said */
    enum ollama_thinking thinking;
    const char *level; /* of thinking: "low", "medium" or "high"; NULL = not said */
    uint32_t window; /* num_ctx: prompt and reply together have that many tokens at most; 0 = not said */
    struct openai_tools tools;
    struct server_constraint format;
};

/* Everything but the conversation. `body` is what root was parsed from, and outlives *out. */
MUST_CHECK enum status ollama_parse(const json_t *root, struct text_view body, bool chat, struct reply_job *job,
                                    struct ollama_request *out, struct err *e);

/* The body, parsed; with strict_model, one for the model that is here. NULL: refused. */
json_t *ollama_body(struct http_call *call);

/* Writes the request as chat reads one to the empty buffer `out`. Where the last message is the assistant's, it is not
 * part of that: its text goes into `begun`, and the reply goes on from there. */
MUST_CHECK enum status ollama_translate(const struct ollama_request *rq, struct text_view body, struct buf *out,
                                        struct buf *begun, struct err *e);

/* ---- replies (ollama_write.c) ---- */

extern const struct reply_ops ollama_chat_ops, ollama_generate_ops;

/* The reply to a request that has nothing to say. */
void ollama_write_loaded(const struct server *srv, bool chat, struct buf *out);

/* A point in time, in quotes. */
void ollama_write_time(int64_t unix_time, struct buf *out);

#endif
