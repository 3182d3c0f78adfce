/*
 * anthropic: the Messages API of Anthropic: /v1/messages and /v1/messages/count_tokens.
 *
 * A request is translated into the conversation that chat reads (anthropic_turns.c), its tools and schemas byte for
 * byte, so templates, formats and grammars know nothing of this dialect. Policy for fields as in openai.h: what the API
 * defines is honoured or refused by name, what it does not define is ignored with one line in the log. Of ffwd's own
 * fields priority, deadline_ms, cache_salt, prompt_cache_key and the object `ffwd` are honoured. A signature of thinking
 * is the message's id: a client that sends it back names the reply, whose ids are then reused.
 *
 * Parsing and writing are functions of their arguments alone, so that they are tested without a server.
 */
#ifndef SERVER_DIALECT_ANTHROPIC_H
#define SERVER_DIALECT_ANTHROPIC_H

#include <jansson.h>

#include "server/constrain.h"
#include "server/reply.h"

/* handlers */
http_handler anthropic_messages, anthropic_count_tokens;

/* ---- errors (anthropic_error.c) ---- */

/* The HTTP status of a code. */
int anthropic_status(enum status code);

/* {"type":"error","error":{"type","message"},"request_id":id} */
void anthropic_error_body(struct buf *out, int status, const char *id, const struct err *e);

/* Replies with an error; status 0 = anthropic_status(e->code). Gives the call an id if it has none. */
void anthropic_refuse(struct http_call *call, int status, const struct err *e);

/* ---- requests ---- */

enum anthropic_thinking {
    THINKING_UNSAID, /* the model does not think if its template can say so */
    THINKING_OFF,
    THINKING_FREE,  /* as much as it likes */
    THINKING_BUDGET /* at most `budget` tokens */
};

/* What a request says beside the conversation and how tokens are chosen. Bit i of a set is tool i. */
struct anthropic_request {
    uint32_t tools;  /* tools that there are */
    bool hidden;     /* tool_choice "none": the model is not shown them */
    bool parallel;   /* more than one call is wanted */
    enum format_choice choice;
    uint32_t named; /* FORMAT_NAMED: its index */
    uint8_t strict[LIMIT_TOOLS / 8];
    enum anthropic_thinking thinking;
    uint32_t budget;
    struct server_constraint format; /* output_config.format */
};

/* What /v1/messages/count_tokens knows too; `body` is what root was parsed from, and outlives *out. */
MUST_CHECK enum status anthropic_parse_counted(const json_t *root, struct text_view body, struct anthropic_request *out,
                                               struct err *e);

/* Everything but the conversation. */
MUST_CHECK enum status anthropic_parse(const json_t *root, struct text_view body, struct reply_job *job,
                                       struct anthropic_request *out, struct err *e);

/* tools and tool_choice (anthropic_tools.c); part of both. */
MUST_CHECK enum status anthropic_parse_tools(const json_t *root, struct anthropic_request *out, struct err *e);

/* Names and schemas of the request's tools, to[tools]; they point into root and body. */
void anthropic_list_tools(const json_t *root, struct text_view body, struct format_tool *to);

/* Writes the request as chat reads one to the empty buffer `out`. Where the last turn is the assistant's, its text is not
 * part of that: it goes into `begun`, and the reply goes on from there. ST_ARGUMENT and ST_UNSUPPORTED name the place in
 * the client's own request ("messages[2].content[0]"). */
MUST_CHECK enum status anthropic_translate(const struct anthropic_request *rq, struct text_view body, struct buf *out,
                                           struct buf *begun, struct err *e);

/* The tools as chat reads them, a JSON array; they were parsed already. */
void anthropic_write_tools(struct text_view body, struct buf *out);

/* Adds the names by which the messages refer to earlier replies to those that are looked up, the latest first. */
void anthropic_name_messages(const json_t *root, struct reply_job *job);

/* ---- replies (anthropic_write.c) ---- */

extern const struct reply_ops anthropic_ops;

#endif
