/*
 * responses: the Responses API of OpenAI: /v1/responses, /v1/responses/{id} and /v1/responses/input_tokens.
 *
 * A request is a list of items. It is translated into the conversation that chat reads (responses_items.c), texts, tools
 * and schemas byte for byte, so templates, formats and grammars know nothing of this dialect. A request may go on from an
 * earlier response: that one's items come first then. Policy for fields as in openai.h, and names that belong to
 * /v1/chat/completions are refused with the name that they have here. Tools that the API's own servers would run
 * (web_search and the like) are refused by name. ffwd's own fields and the samplers of other servers are honoured as there.
 *
 * Parsing and writing are functions of their arguments alone, so that they are tested without a server.
 */
#ifndef SERVER_DIALECT_RESPONSES_H
#define SERVER_DIALECT_RESPONSES_H

#include <jansson.h>

#include "server/constrain.h"
#include "server/dialect/openai.h"
#include "server/reply.h"
#include "server/response_store.h"

/* handlers */
http_handler responses_create, responses_get, responses_delete, responses_input_tokens;

/* ---- requests ---- */

/* What a request says beside the items and how tokens are chosen. */
struct responses_request {
    struct openai_tools tools;
    struct server_constraint format; /* text.format, or what openai_parse_constraint() finds */
    const char *effort;              /* reasoning.effort, one of the API's words; NULL = not said */
    struct server_name previous;     /* previous_response_id; may be empty */
};

/* What a reply keeps of its request and writes with; reply_job.own. */
struct responses_own {
    struct buf echo;  /* members of the response object that repeat the request, a comma after each */
    struct buf input; /* the request's items, a JSON array; without `keep` only while the prompt is written */
    bool keep, encrypted; /* it is kept afterwards; reasoning items carry encrypted_content */
    bool lost;            /* what it should continue is not there */
    struct server_responses *store;  /* NULL: nothing is kept */
    struct server_response *before;  /* held; what it continues; NULL = nothing */
    char owner[SERVER_OWNER];        /* who may find it later */

    /* the writer's */
    uint64_t events;       /* that were told */
    uint32_t messages;     /* items of that kind, */
    char item_id[REPLY_ID]; /* and the id of the item that is open */
    char name[LIMIT_TOOL_NAME + 1]; /* of a call: the tool's */
    uint32_t thought_ids;  /* ids that spelled reasoning, */
    uint32_t silent_ids;   /* and those since the last that told anything */
    bool told, thought;    /* the event that is being taken told something; of reasoning */
};

/* Makes job->own, empty; freed with the job. */
MUST_CHECK enum status responses_own_new(struct reply_job *job, struct err *e);

/* What /v1/responses/input_tokens knows too; `body` is what root was parsed from, and outlives *out. */
MUST_CHECK enum status responses_parse_counted(const json_t *root, struct text_view body, struct reply_job *job,
                                               struct responses_request *out, struct err *e);

/* Everything but the items. */
MUST_CHECK enum status responses_parse(const json_t *root, struct text_view body, struct reply_job *job,
                                       struct responses_request *out, struct err *e);

/* tools, tool_choice, parallel_tool_calls (responses_tools.c); part of both. */
MUST_CHECK enum status responses_parse_tools(const json_t *root, struct openai_tools *out, struct err *e);

/* Names and schemas of the request's tools, to[tools.n]; they point into root and body. */
void responses_list_tools(const json_t *root, struct text_view body, struct format_tool *to);

/* The tools as chat reads them, a JSON array; they were parsed already. */
void responses_write_tools(struct text_view body, struct buf *out);

/* Fills own->echo with what the request says of itself (responses_write.c). ST_TOO_LONG names the member that is too
 * much. */
MUST_CHECK enum status responses_echo(struct text_view body, struct buf *echo, struct err *e);

/* ---- items (responses_items.c) ---- */

/* Fills own->input with the request's items: a text becomes a message, what refers to an item of an earlier response
 * becomes that item. ST_ARGUMENT and ST_UNSUPPORTED name the place. */
MUST_CHECK enum status responses_take_input(const json_t *root, struct text_view body, struct responses_own *own,
                                            struct err *e);

/* Whether some of the request's items refer to items of earlier responses. */
bool responses_refers(const json_t *root);

/* Writes the request, behind what it continues, as chat reads one to the empty buffer `out`. Errors name the place in the
 * client's own request ("input[2].content[0]"). */
MUST_CHECK enum status responses_translate(const struct responses_request *rq, struct text_view body,
                                           const struct responses_own *own, struct buf *out, struct err *e);

/* Adds the names by which the request refers to earlier replies to those that are looked up, the latest first. */
void responses_name_items(const json_t *root, struct reply_job *job);

/* ---- replies (responses_write.c) ---- */

extern const struct reply_ops responses_ops;

#endif
