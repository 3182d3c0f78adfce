/* openai_prepare: a request's preparation, at low priority where it takes long. */
#include "server/dialect/openai.h"

#define LONG_BODY (16u << 10) /* rendering and encoding less takes a few milliseconds */

struct prepare {
    openai_preparer *fn;
    const struct server *srv;
    struct text_view body;
    struct reply_job *job;
    struct err *e;
    enum status st;
};

static void prepare(void *ctx)
{
    struct prepare *p = ctx;
    p->st = p->fn(p->srv, p->body, p->job, p->e);
}

enum status openai_prepare(openai_preparer *fn, const struct server *srv, struct text_view body, struct reply_job *job,
                           struct err *e)
{
    struct prepare p = {fn, srv, body, job, e, ST_OK};
    if (body.n < LONG_BODY)
        prepare(&p);
    else
        nice_run(prepare, &p);
    return p.st;
}
