/* What the files of chat share and nobody else sees. */
#ifndef CHAT_PRIVATE_H
#define CHAT_PRIVATE_H

#include "chat/chat.h"
#include "format/format.h"

struct chat {
    const struct tok *tok;
    struct chat_template *tpl; /* owned; NULL = the model has none */
    bool knows_tools, knows_developer;
    const struct format *format;              /* in which the template writes calls; NULL: not known */
    const struct format_reasoning *reasoning; /* NULL: it writes none */
    bool typed_content; /* content reaches the template as a list of parts, because it reads no strings */
};

#define CHAT_LIMIT_VARIABLES (2 * (size_t)LIMIT_BODY + (1u << 20)) /* bytes of what chat_variables() writes */
#define CHAT_LIMIT_ARGUMENTS (4u << 20) /* bytes of tool-call arguments turned into objects, one request together */
#define CHAT_LIMIT_ARGUMENTS_DEPTH 64   /* arguments nested deeper stay the string they are */

#define CHAT_LIMIT_TOOL_SETS 16         /* sets of tools that are remembered */
#define CHAT_LIMIT_TOOL_SET (2u << 20)  /* bytes of one; larger ones are not */

#endif
