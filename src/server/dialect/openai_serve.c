/* openai_serve: the handler of POST /v1/chat/completions, apart from the request's parsing, which others ask for too. */
#include "server/dialect/openai.h"

void openai_chat(struct http_call *call)
{
    openai_serve(call, openai_prepare_chat, &openai_chat_ops);
}
