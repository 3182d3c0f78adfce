/* What the files of chat share and nobody else sees. */
#ifndef CHAT_PRIVATE_H
#define CHAT_PRIVATE_H

#include "chat/chat.h"
#include "format/format.h"

struct chat {
    const struct tok *tok;
    struct chat_template *tpl; /* owned; NULL = the model has none */
    bool knows_tools, knows_developer, knows_effort;
    bool tells_tools;   /* the template says nothing of tools, so the model is told in the system's text (tell.c) */
    const struct format *format;              /* in which the template writes calls; NULL: not known */
    const struct format_reasoning *reasoning; /* NULL: it writes none */
    bool typed_content; /* content reaches the template as a list of parts, because it reads no strings */
};

/* ---- telling a model of tools (tell.c) ---- */

/* What the system says of a request's tools, which were checked. */
void chat_tell_tools(struct cut tools, struct buf *text);

/* Appends a call; name is a JSON string, the arguments are JSON. */
void chat_tell_call(struct cut name, const char *arguments, size_t n, struct buf *text);

/* Appends the text as a JSON string. */
void chat_tell_string(struct buf *out, const struct buf *text);

/* Appends the text to the JSON string, or the list of parts, that `out` ends with; `between`, escaped already, comes
 * before it unless the string is empty. */
void chat_tell_append(struct buf *out, const char *between, const struct buf *text);

/* Appends the content of a tool's message, a JSON string or a list of parts, as a result. */
void chat_tell_result(struct buf *out, const struct buf *content);

#define CHAT_LIMIT_VARIABLES (2 * (size_t)LIMIT_BODY + (1u << 20)) /* bytes of what chat_variables() writes */
#define CHAT_LIMIT_ARGUMENTS (4u << 20) /* bytes of tool-call arguments turned into objects, one request together */
#define CHAT_LIMIT_ARGUMENTS_DEPTH 64   /* arguments nested deeper stay the string they are */

#define CHAT_LIMIT_TOOL_SETS 16         /* sets of tools that are remembered */
#define CHAT_LIMIT_TOOL_SET (2u << 20)  /* bytes of one; larger ones are not */

#endif
