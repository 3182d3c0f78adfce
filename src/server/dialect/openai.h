/*
 * openai: the OpenAI API, as far as it is spoken here: /v1/chat/completions, /v1/completions, /v1/models.
 *
 * Policy for fields (law: fail closed). What the API defines is honoured or refused by name; `user`, `metadata`,
 * `service_tier`, `prediction` and the like, which ask for nothing a client could notice, are accepted. Names the API
 * does not define are ignored, except well-known extensions of other servers that ask for a constraint, for another way
 * of choosing tokens or for another shape of the reply: those are refused, since ignoring them would look like success.
 * Of the extensions the constraints of other servers (openai_constraint.c has the list), the samplers of llama-server
 * and vLLM (openai_sampling.c has the list), min_tokens, ignore_eos, chat_template_kwargs, priority, cache_salt,
 * deadline_ms and the object `ffwd` are honoured.
 *
 * Parsing and writing are functions of their arguments alone, so that they are tested without a server.
 */
#ifndef SERVER_DIALECT_OPENAI_H
#define SERVER_DIALECT_OPENAI_H

#include <jansson.h>

#include "server/constrain.h"
#include "server/reply.h"

/* handlers */
http_handler openai_chat, openai_completions, openai_models, openai_model;

/* ---- errors ---- */

/* The HTTP status of a code. */
int openai_status(enum status code);

/* {"error":{message, type, param, code}}; code NULL = derived from e. */
void openai_error_body(struct buf *out, int status, const char *code, const struct err *e);

/* Replies with an error; status 0 = openai_status(e->code). */
void openai_refuse(struct http_call *call, int status, const char *code, const struct err *e);

/* The API's code for a prompt that no context of this model holds, when e says that of this field; otherwise NULL: other
 * ceilings (messages, a template's steps) are too_long. */
const char *openai_length_code(const struct err *e, const char *field);

/* reply_ops.refuse and .broken of both dialect writers. */
void openai_refuse_reply(struct http_call *call, const struct err *e, bool submitting);
void openai_broken(struct reply *r, struct buf *out);

/* ---- requests ---- */

/* A body to be parsed with http_json_parse(), an empty one, and one that names another model under strict_model are refused
 * here. NULL: refused. */
json_t *openai_body(struct http_call *call);

/* Whether the request may be served by this model. *other: it names one that is not here. */
MUST_CHECK enum status openai_check_model(const struct server *srv, const json_t *root, bool *other, struct err *e);

/* What chat and completions have in common: sampling, limits, stops, n, stream. max_tokens may be 0 where job->echo is
 * set already. */
MUST_CHECK enum status openai_parse_common(const json_t *root, struct reply_job *job, struct err *e);

/* The fields of openai_extra.c; part of openai_parse_common(). */
MUST_CHECK enum status openai_parse_extra(const json_t *root, struct reply_job *job, struct err *e);

/* Of these what is about any request: priority, deadline_ms, cache_salt, which is left alone where it is not there. */
MUST_CHECK enum status openai_parse_service(const json_t *root, int32_t *priority, uint32_t *deadline_ms,
                                            struct server_name *salt, struct err *e);

/* Adds the ids in `messages` to the names that are looked up, the latest message's first. */
void openai_name_messages(const json_t *root, struct reply_job *job);

/* tools, tool_choice and parallel_tool_calls (openai_tools.c). Bit i of a set is tool i. */
struct openai_tools {
    uint32_t n;    /* tools that the model is shown */
    bool hidden;   /* tool_choice "none" */
    bool parallel; /* more than one call is wanted */
    bool some;     /* only those in `allowed` may be called */
    enum format_choice choice;
    uint32_t named; /* FORMAT_NAMED: its index */
    uint8_t strict[LIMIT_TOOLS / 8], allowed[LIMIT_TOOLS / 8];
};
MUST_CHECK enum status openai_parse_tools(const json_t *root, struct openai_tools *out, struct err *e);

/* What a reply may call, of a list of the tools, which stays the caller's. schema_field: where a tool has its schema. */
struct server_calls openai_calls(const struct openai_tools *tools, const struct format_tool *list,
                                 const struct format_shape *shape, const char *schema_field);

/* Makes the job's grammar out of them; chat has checked their shape, and server_recognise() was
 * called. `body` is what root was parsed from. */
MUST_CHECK enum status openai_constrain_calls(const struct server *srv, const json_t *root, struct text_view body,
                                              const struct openai_tools *tools, const struct format_shape *shape,
                                              struct reply_job *job, struct err *e);

/* ---- how much a reply may think (openai_effort.c) ---- */

/* holder's member `key`, which errors call `field`: *effort is one of the API's words, or NULL where it is not there. */
MUST_CHECK enum status openai_parse_effort(const json_t *root, const json_t *holder, const char *key, const char *field,
                                           const char **effort, struct err *e);

/* Appends ,"chat_template_kwargs":{…}: those that were given, and behind them the names under which templates read an
 * effort, unless that is NULL. */
MUST_CHECK enum status openai_put_kwargs(struct cut given, const char *effort, struct buf *out, struct err *e);

#define OPENAI_CONVERSATION (LIMIT_BODY + 4096u) /* bytes that what chat reads of a body may have */

/* *conversation: what chat is to read instead of a body, so that templates see the effort. It is written to the empty
 * buffer `room`, or the body itself where the effort is NULL. */
MUST_CHECK enum status openai_tell_effort(const char *effort, struct text_view body, struct buf *room,
                                          struct text_view *conversation, struct err *e);

/* After server_recognise(): the job thinks no longer than the effort allows. NULL: as long as it likes. */
MUST_CHECK enum status openai_limit_thinking(const struct server *srv, const char *effort, const char *field,
                                             struct reply_job *job, struct err *e);

/* What the reply has to look like (openai_constraint.c); *out points into root and body, which root was parsed from. */
MUST_CHECK enum status openai_parse_constraint(const json_t *root, struct text_view body, struct server_constraint *out,
                                               struct err *e);

struct openai_chat_request {
    struct openai_tools tools;
    const char *effort; /* reasoning_effort; NULL = not said */
    int64_t thinking;   /* thinking_budget_tokens; -1 = not said, or as many as it likes */
};

/* Everything but messages and the constraint; of tools what the reply may do with them. */
MUST_CHECK enum status openai_parse_chat(const json_t *root, struct reply_job *job, struct openai_chat_request *out,
                                      struct err *e);

/* Everything but the prompt and the constraint. */
MUST_CHECK enum status openai_parse_completions(const json_t *root, struct reply_job *job, struct err *e);

/* prompt: one or several, of text or ids; with suffix, texts before what the reply fills in. */
MUST_CHECK enum status openai_parse_prompt(const struct server *srv, const json_t *root, struct reply_job *job,
                                           struct err *e);

/* From a body, which job->root was parsed from, to all that its replies need. */
typedef enum status openai_preparer(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e);
MUST_CHECK openai_preparer openai_prepare_chat, openai_prepare_completions;

/* Calls fn(ctx), which renders, encodes or prints that many bytes; many at low priority, so that steps under way do not
 * wait for them. */
void openai_run(size_t bytes, void (*fn)(void *ctx), void *ctx);

/* A preparer, of any dialect, for a client who waits: so. `bytes`: where the body does not tell how much there is. */
MUST_CHECK enum status openai_prepare_bytes(size_t bytes, openai_preparer *fn, const struct server *srv,
                                            struct text_view body, struct reply_job *job, struct err *e);
MUST_CHECK enum status openai_prepare(openai_preparer *fn, const struct server *srv, struct text_view body,
                                      struct reply_job *job, struct err *e);

/* The whole of a handler whose errors have OpenAI's shape. */
void openai_serve(struct http_call *call, openai_preparer *fn, const struct reply_ops *ops);

/* ---- replies ---- */

extern const struct reply_ops openai_chat_ops, openai_completions_ops;

/* "prompt_tokens": … with its braces. */
void openai_usage(const struct reply *r, struct buf *out);

/* "ffwd":{…}: what no API has names for; usage of other dialects has it too. */
void openai_usage_ffwd(const struct reply *r, struct buf *out);

/* ,"prompt_progress":{…}: how far the prompt of a part is, as llama-server tells it. */
void openai_progress(const struct reply *r, const struct reply_part *p, const struct event *ev, struct buf *out);

/* "plan":{…}: which features serve a request, and of the others why not. */
void openai_plan(const struct plan *p, struct buf *out);

/* The end of a stream: usage in a chunk of its own where it was asked for, then the word that ends it. */
void openai_end_stream(const struct reply *r, const char *object, struct buf *out);

/* {"id":…,"object":…,"created":…,"model":…, */
void openai_head(const struct reply *r, const char *object, struct buf *out);

/* "stop", "length" or "tool_calls", in quotes; and a member of its own where memory for the context ran out, which the API
 * has no word for. Comes last in its object, but for: */
void openai_finish(const struct reply_part *p, struct buf *out);

/* ,"ffwd":{"trace":[…]}: where each id of the part came from; nothing if that was not asked. Whole replies and the last
 * chunk of streamed ones have the first choice's beside their choices, too. */
void openai_trace(const struct reply *r, const struct reply_part *p, struct buf *out);

/* ,"ffwd":{"origins":[…]}: of a streamed part's ids, those since its last chunk that told any, or nothing. */
void openai_origins(const struct reply *r, struct reply_part *p, struct buf *out);

/* The end of a part's last chunk, behind its finish. */
void openai_end_choice(const struct reply *r, const struct reply_part *p, struct buf *out);

/* Characters in s[n]. */
uint32_t openai_chars(const char *s, size_t n);

/* Whether an event stands for a token that logprobs are shown of: ids that only end the reply are not. */
bool openai_has_logprob(const struct reply *r, const struct event *ev);

/* "token":…,"logprob":…,"bytes":[…] of one id. The bytes are exact; the text may be half a character. */
void openai_token(const struct reply *r, tok_id id, float logprob, struct buf *out);

/* {"token", "logprob", "bytes", "top_logprobs"} of such an event. */
void openai_logprob(const struct reply *r, const struct event *ev, struct buf *out);

#endif
