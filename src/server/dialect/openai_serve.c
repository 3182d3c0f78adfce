/* openai_serve: the handler of POST /v1/chat/completions, apart from the request's parsing, which others ask for too. */
#include "server/dialect/openai.h"

void openai_chat(struct http_call *call)
{
    struct reply_job job;
    struct err e;
    server_job_init(&job);
    job.root = openai_body(call);
    if (!job.root)
        return;
    const struct text_view body = {call->body.data, call->body.len};
    if (openai_prepare(openai_prepare_chat, call->app, body, &job, &e) == ST_OK)
        server_reply_run(call, &job, &openai_chat_ops);
    else
        openai_refuse(call, 0, openai_length_code(&e, "messages"), &e);
    server_job_release(&job);
}
