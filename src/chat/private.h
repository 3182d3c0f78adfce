/* What the files of chat share and nobody else sees. */
#ifndef CHAT_PRIVATE_H
#define CHAT_PRIVATE_H

#include "chat/chat.h"

struct chat {
    const struct tok *tok;
    struct chat_template *tpl; /* owned; NULL = the model has none */
    bool knows_tools, knows_developer;
    bool typed_content; /* content reaches the template as a list of parts, because it reads no strings */
};

#define CHAT_LIMIT_VARIABLES (2 * (size_t)LIMIT_BODY + (1u << 20)) /* bytes of what chat_variables() writes */
#define CHAT_LIMIT_ARGUMENTS (4u << 20) /* bytes of tool-call arguments turned into objects, one request together */
#define CHAT_LIMIT_ARGUMENTS_DEPTH 64   /* arguments nested deeper stay the string they are */

#endif
