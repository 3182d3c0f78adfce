/* ask: a request taken as the server would take it, but not served. See server.h. */
#include <stdlib.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

struct server_asked {
    struct reply_job job;
    struct request rq;
};

enum status server_ask(const struct server *s, const char *body, size_t n, struct server_asked **out, struct err *e)
{
    const struct text_view text = {body, n};
    *out = NULL;
    struct server_asked *a = calloc(1, sizeof *a);
    if (!a)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a request");
    server_job_init(&a->job);
    enum status st = http_json_parse(body, n, &a->job.root, e);
    if (st == ST_OK)
        st = json_object_get(a->job.root, "messages") ? openai_prepare_chat(s, text, &a->job, e)
                                                      : openai_prepare_completions(s, text, &a->job, e);
    if (st == ST_OK)
        st = server_job_sets(s, &a->job, e);
    if (st == ST_OK)
        st = server_job_request(&a->job, 0, &a->rq, e);
    if (st != ST_OK) {
        server_asked_free(a);
        return st;
    }
    *out = a;
    return ST_OK;
}

const struct request *server_asked_request(const struct server_asked *a)
{
    return &a->rq;
}

const char *server_fill_name(enum fill_mode m)
{
    static const char *const names[] = {[FILL_LOSSLESS] = "lossless", [FILL_OFF] = "off", [FILL_STRICT] = "strict"};
    return names[m];
}

const char *server_asked_relaxed(const struct server_asked *a)
{
    return a->job.relaxed ? a->job.relaxed : "[]";
}

void server_asked_free(struct server_asked *a)
{
    if (!a)
        return;
    server_job_release(&a->job);
    free(a);
}
