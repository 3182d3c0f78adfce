/* reply: see reply.h. */
#include "server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKE 8                 /* events taken at a time; they lie on the connection thread's small stack */
#define OUT_ENOUGH (32u << 10) /* a stream is sent on before more than about this much waits */

void server_job_init(struct reply_job *job)
{
    *job = (struct reply_job){
        .n = 1,
        .sampling = sample_defaults(),
    };
    job->sampling.temperature = 1;
}

void server_job_release(struct reply_job *job)
{
    for (uint32_t i = 0; i < job->prompts_n; i++) {
        struct reply_prompt *p = &job->prompts[i];
        if (p->from_tok)
            tok_ids_free(p->ids, p->n);
        else
            free(p->ids);
    }
    job->prompts_n = job->stops_n = job->breakers_n = 0;
    free(job->bias);
    job->bias = NULL;
    job->sampling.bias = NULL;
    job->sampling.bias_n = 0;
    tok_set_free(job->breaker_set);
    job->breaker_set = NULL;
    json_decref(job->root);
    job->root = NULL;
}

static void release(struct http_call *call)
{
    struct reply *r = call->data;
    for (uint32_t i = 0; i < r->parts_n; i++) {
        struct reply_part *p = &r->parts[i];
        if (p->open)
            engine_close(r->srv->engine, p->id);
        buf_release(&p->text);
        for (int l = 0; l < REPLY_LISTS; l++)
            buf_release(&p->lists[l]);
    }
    server_job_release(&r->job);
    buf_release(&r->head);
    free(r);
    call->data = NULL;
}

static struct reply *make(struct http_call *call, struct reply_job *job, const struct reply_ops *ops)
{
    struct reply *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->srv = call->app;
    r->call = call;
    r->ops = ops;
    r->job = *job;
    job->prompts_n = job->stops_n = 0;
    job->root = NULL;
    job->bias = NULL;
    job->breaker_set = NULL;
    r->created = clock_unix();
    r->prompts_n = r->job.prompts_n;
    r->parts_n = r->job.prompts_n * r->job.n;
    buf_init(&r->head, 4096);
    for (uint32_t i = 0; i < r->parts_n; i++) {
        struct reply_part *p = &r->parts[i];
        p->index = i;
        p->fd = -1;
        buf_init(&p->text, LIMIT_REPLY);
        for (int l = 0; l < REPLY_LISTS; l++)
            buf_init(&p->lists[l], LIMIT_REPLY);
    }
    snprintf(call->id, sizeof call->id, "%s%016llx%08llx", ops->id_prefix, (unsigned long long)server_random(64),
             (unsigned long long)server_random(32));
    call->data = r;
    call->release = release;
    return r;
}

static enum status submit(struct reply *r, struct err *e)
{
    const struct reply_job *job = &r->job;
    TRY(server_job_sets(r->srv, &r->job, e));
    for (uint32_t i = 0; i < r->parts_n; i++) {
        struct reply_part *p = &r->parts[i];
        const struct reply_prompt *prompt = &job->prompts[i / job->n];
        struct request rq = {
            .prompt = prompt->ids,
            .prompt_n = (uint32_t)prompt->n,
            .max_tokens = job->max_tokens,
            .sampling = job->sampling,
            .stops = job->stops,
            .stops_n = job->stops_n,
            .ignore_eos = job->ignore_eos,
            .logprobs = job->logprobs,
        };
        if (prompt->n > UINT32_MAX)
            return err_set(e, ST_TOO_LONG, "", "the prompt has %zu tokens", prompt->n);
        rq.sampling.choice = i % job->n;
        TRY(engine_submit(r->srv->engine, &rq, &p->id, e));
        p->open = true;
        p->fd = engine_fd(r->srv->engine, p->id);
    }
    return ST_OK;
}

/* The last event was taken: keeps the outcome and gives the engine its slot back. */
static void end_part(struct reply *r, struct reply_part *p)
{
    engine_result(r->srv->engine, p->id, &p->result);
    engine_close(r->srv->engine, p->id);
    p->open = false;
    p->ended = true;
    if (p->result.finish == FINISH_STOP || p->result.finish == FINISH_LENGTH)
        return;
    r->err = p->result.err;
    if (r->err.code == ST_OK)
        (void)err_set(&r->err, ST_CANCELLED, "", "the request was cancelled");
}

static void take_one(struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct buf *out = &r->call->out;
    bool news = ev->kind == EVENT_TOKEN || ev->text_n;
    if (news && r->job.stream)
        r->ops->chunk(r, p, ev, out);
    else if (news)
        r->ops->collect(r, p, ev);
    if (ev->kind != EVENT_END)
        return;
    end_part(r, p);
    if (r->job.stream && r->err.code == ST_OK)
        r->ops->part_end(r, p, out);
}

/* Takes what is there. An event source left half-read stays readable, so nothing is lost by stopping early. */
static void take_part(struct reply *r, struct reply_part *p)
{
    struct event ev[TAKE];
    size_t n;
    while (!p->ended && r->call->out.len < OUT_ENOUGH && (n = engine_take(r->srv->engine, p->id, ev, TAKE)) > 0)
        for (size_t i = 0; i < n && !p->ended; i++)
            take_one(r, p, &ev[i]);
}

enum progress { PROGRESS_SOME, PROGRESS_ALL, PROGRESS_FAILED, PROGRESS_GONE };

/* Waits until there is something to send, the request has ended or failed, or the client is gone. */
static enum progress progress(struct reply *r)
{
    for (;;) {
        int fds[LIMIT_PARTS];
        uint32_t open = 0;
        for (uint32_t i = 0; i < r->parts_n && r->err.code == ST_OK; i++) {
            take_part(r, &r->parts[i]);
            if (!r->parts[i].ended)
                fds[open++] = r->parts[i].fd;
        }
        if (r->err.code != ST_OK)
            return PROGRESS_FAILED;
        if (!open)
            return PROGRESS_ALL;
        if (r->call->out.len)
            return PROGRESS_SOME;
        switch (http_wait(r->call, fds, open)) {
        case HTTP_READY:
            break;
        case HTTP_STOPPING:
            (void)err_set(&r->err, ST_CANCELLED, "", "the server is stopping");
            return PROGRESS_FAILED;
        default:
            return PROGRESS_GONE;
        }
    }
}

/* http_call.fill of a streamed reply. */
static bool fill(struct http_call *call, bool *end)
{
    struct reply *r = call->data;
    switch (progress(r)) {
    case PROGRESS_SOME:
        return true;
    case PROGRESS_ALL:
        r->ops->end(r, &call->out);
        *end = true;
        return true;
    case PROGRESS_FAILED:
        r->ops->broken(r, &call->out);
        *end = true;
        return true;
    default:
        return false;
    }
}

static bool collection_failed(const struct reply *r)
{
    for (uint32_t i = 0; i < r->parts_n; i++) {
        const struct reply_part *p = &r->parts[i];
        bool failed = p->text.failed;
        for (int l = 0; l < REPLY_LISTS; l++)
            failed = failed || p->lists[l].failed;
        if (failed)
            return true;
    }
    return false;
}

static void send_whole(struct reply *r)
{
    struct buf body;
    buf_init(&body, (size_t)LIMIT_REPLY + (1u << 20));
    r->ops->whole(r, &body);
    if (body.failed || collection_failed(r)) {
        struct err e;
        (void)err_set(&e, ST_TOO_LONG, "", "the reply is longer than %u bytes; it can only be streamed", LIMIT_REPLY);
        r->ops->refuse(r->call, &e, false);
    } else {
        http_reply(r->call, 200, &body, 0);
    }
    buf_release(&body);
}

void server_reply_run(struct http_call *call, struct reply_job *job, const struct reply_ops *ops)
{
    struct err e;
    struct reply *r = make(call, job, ops);
    if (!r) {
        (void)err_set(&e, ST_NO_MEMORY, "", "no memory for this request");
        ops->refuse(call, &e, false);
        return;
    }
    if (submit(r, &e) != ST_OK) {
        ops->refuse(call, &e, true);
        return;
    }
    server_job_release(&r->job);
    http_drop_body(call);
    enum progress got = progress(r);
    if (got == PROGRESS_GONE)
        return; /* without a reply the connection is closed, and release() cancels */
    if (got == PROGRESS_FAILED) {
        buf_clear(&call->out);
        ops->refuse(call, &r->err, false);
    } else if (r->job.stream) {
        if (got == PROGRESS_ALL) {
            ops->end(r, &call->out);
            call->ended = true;
        }
        http_stream(call, fill);
    } else {
        send_whole(r);
    }
}
