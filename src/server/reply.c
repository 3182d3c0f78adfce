/* reply: see reply.h. */
#include "server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/note.h"

#define FIRST 2047 /* bytes of the first events of a stream, or of a short one */
#define TAKE 8     /* events taken at a time; they lie on the connection thread's small stack */

void server_job_init(struct reply_job *job)
{
    *job = (struct reply_job){
        .n = 1,
        .sampling = sample_defaults(),
    };
    job->sampling.temperature = 1;
}

/* Everything but the prompts: what only submission needs. */
static void drop_request(struct reply_job *job)
{
    job->stops_n = job->breakers_n = job->lookups_n = 0;
    free(job->bias);
    job->bias = NULL;
    job->sampling.bias = NULL;
    job->sampling.bias_n = 0;
    tok_set_free(job->breaker_set);
    job->breaker_set = NULL;
    json_decref(job->root);
    job->root = NULL;
}

void server_job_release(struct reply_job *job)
{
    for (uint32_t i = 0; i < job->prompts_n; i++) {
        struct reply_prompt *p = &job->prompts[i];
        if (p->from_tok)
            tok_ids_free(p->ids, p->n);
        else
            free(p->ids);
        free(p->generated);
        free(p->text);
    }
    job->prompts_n = 0;
    drop_request(job);
    grammar_free(job->grammar);
    template_rows_free(job->rows);
    format_tools_free(job->tools);
    free(job->relaxed);
    if (job->own)
        job->own_free(job->own);
    job->grammar = NULL;
    job->rows = NULL;
    job->tools = NULL;
    job->relaxed = NULL;
    job->own = NULL;
}

static void release(struct http_call *call)
{
    struct reply *r = call->data;
    for (uint32_t i = 0; i < r->parts_n; i++) {
        struct reply_part *p = &r->parts[i];
        if (p->open)
            engine_close(r->srv->engine, p->id);
        chat_assembly_free(p->assembly);
        buf_release(&p->text);
        buf_release(&p->ids);
        buf_release(&p->origins);
        buf_release(&p->reasoning);
        buf_release(&p->tool_calls);
        for (int l = 0; l < REPLY_LISTS; l++)
            buf_release(&p->lists[l]);
    }
    server_job_release(&r->job);
    buf_release(&r->head);
    free(r);
    call->data = NULL;
}

const struct reply_prompt *server_reply_prompt(const struct reply *r, const struct reply_part *p)
{
    return &r->job.prompts[p->index / r->job.n];
}

/* Copies a name out of the request and points it at the copy. */
static void keep(struct server_name *name, char *to, size_t cap)
{
    if (name->n > cap)
        BUG("a name of %zu bytes", name->n);
    if (name->n)
        memcpy(to, name->s, name->n);
    name->s = to;
}

static void make_part(struct reply *r, uint32_t i)
{
    struct reply_part *p = &r->parts[i];
    p->index = i;
    p->fd = -1;
    buf_init(&p->text, LIMIT_REPLY);
    buf_init(&p->ids, LIMIT_REPLAY_IDS * sizeof(tok_id));
    buf_init(&p->origins, LIMIT_REPLY);
    buf_init(&p->reasoning, LIMIT_REPLY);
    buf_init(&p->tool_calls, LIMIT_REPLY);
    for (int l = 0; l < REPLY_LISTS; l++)
        buf_init(&p->lists[l], LIMIT_REPLY);
    if (r->ops->message_prefix)
        server_write_id(p->message_id, sizeof p->message_id, r->ops->message_prefix);
}

static struct reply *make(struct http_call *call, struct reply_job *job, const struct reply_ops *ops)
{
    const uint32_t parts = job->prompts_n * job->n;
    struct reply *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    memset(r, 0, offsetof(struct reply, parts) + parts * sizeof *r->parts); /* all of them would be 60 KB */
    r->srv = call->app;
    r->call = call;
    r->ops = ops;
    r->job = *job;
    job->prompts_n = job->stops_n = 0;
    job->root = NULL;
    job->bias = NULL;
    job->breaker_set = NULL;
    job->grammar = NULL;
    job->rows = NULL;
    job->tools = NULL;
    job->relaxed = NULL;
    job->own = NULL;
    r->created = clock_unix();
    keep(&r->job.salt, r->salt, sizeof r->salt);
    keep(&r->job.owner, r->owner, sizeof r->owner);
    keep(&r->job.cache_key, r->cache_key, sizeof r->cache_key);
    keep(&r->job.session, r->session, sizeof r->session);
    r->parts_n = parts;
    buf_init(&r->head, 4096);
    if (r->job.stream)
        (void)buf_reserve(&call->out, FIRST);
    for (uint32_t i = 0; i < r->parts_n; i++)
        make_part(r, i);
    server_write_id(call->id, sizeof call->id, ops->id_prefix);
    call->data = r;
    call->release = release;
    return r;
}

/* A part of which nothing is to be computed: no token, no log-probability. */
static enum status end_unasked(struct reply *r, struct reply_part *p, struct err *e)
{
    size_t n = server_reply_prompt(r, p)->n;
    uint32_t context = engine_context(r->srv->engine);
    if (n >= context)
        return err_set(e, ST_TOO_LONG, "prompt", "the prompt has %zu tokens, the context holds %u with the reply", n,
                       context);
    const struct plan_feature off = {.why = "nothing had to be computed"};
    p->result.plan = (struct plan){.match = off, .publish = off, .skip_head = off};
    for (int k = 0; k < SOURCE_KINDS; k++)
        p->result.plan.source[k] = off;
    p->ended = true;
    p->result.finish = FINISH_LENGTH;
    p->result.usage.prompt_tokens = (uint32_t)n;
    return ST_OK;
}

enum status server_job_request(const struct reply_job *job, uint32_t part, struct request *rq, struct err *e)
{
    const struct reply_prompt *prompt = &job->prompts[part / job->n];
    if (prompt->n > UINT32_MAX)
        return err_set(e, ST_TOO_LONG, "", "the prompt has %zu tokens", prompt->n);
    *rq = (struct request){
        .prompt = prompt->ids,
        .prompt_n = (uint32_t)prompt->n,
        .max_tokens = job->max_tokens,
        .sampling = job->sampling,
        .stops = job->stops,
        .stops_n = job->stops_n,
        .ignore_eos = job->ignore_eos,
        .keep_special = job->recognises && chat_reads_special(&job->recognise),
        .logprobs = job->logprobs,
        .prompt_logprobs = job->echo && job->logprobs,
        .prompt_only = job->nothing,
        .progress = job->progress && job->stream,
        .no_prefix_cache = job->no_prefix_cache,
        .priority = job->priority,
        .deadline_ms = job->deadline_ms,
        .salt = job->salt.s,
        .salt_n = job->salt.n,
        .grammar = job->grammar,
        .rows = job->rows,
        .thinking = job->thinking,
        .fill = job->fill,
        .sources_off = job->sources_off,
    };
    rq->sampling.choice = part % job->n;
    return ST_OK;
}

static enum status submit_part(struct reply *r, struct reply_part *p, struct err *e)
{
    char name[REQUEST_NAME];
    struct request rq;
    TRY(server_job_request(&r->job, p->index, &rq, e));
    if (r->job.nothing && !r->job.logprobs)
        return end_unasked(r, p, e);
    snprintf(name, sizeof name, r->parts_n > 1 ? "%s-%u" : "%s", r->call->id, p->index);
    rq.name = name;
    TRY(engine_submit(r->srv->engine, &rq, &p->id, e));
    if (p->index % r->job.n == 0) /* choices share their prompt */
        server_note_prompt(r->call, rq.prompt_n);
    p->open = true;
    p->fd = engine_fd(r->srv->engine, p->id);
    return ST_OK;
}

static enum status make_assembly(struct reply *r, struct reply_part *p, struct err *e)
{
    const struct chat_assembly_config cfg = {
        .tok = r->srv->tok,
        .recognise = r->job.recognise,
        .take_back = !r->job.stream || r->ops->whole_calls,
        .one_call = r->job.one_call,
        .most = LIMIT_REPLY,
    };
    return r->job.recognises ? chat_assembly_new(&p->assembly, &cfg, e) : ST_OK;
}

static enum status submit(struct reply *r, struct err *e)
{
    TRY(server_job_sets(r->srv, &r->job, e));
    for (uint32_t i = 0; i < r->parts_n; i++)
        TRY(make_assembly(r, &r->parts[i], e));
    for (uint32_t i = 0; i < r->parts_n; i++)
        TRY(submit_part(r, &r->parts[i], e));
    return ST_OK;
}

/* What an echo begins with, and what is over already. */
static void begin_parts(struct reply *r)
{
    for (uint32_t i = 0; i < r->parts_n; i++) {
        struct reply_part *p = &r->parts[i];
        const struct reply_prompt *prompt = server_reply_prompt(r, p);
        if (prompt->text && !r->job.stream)
            buf_add(&p->text, prompt->text, prompt->text_n);
        if (p->ended && r->job.stream)
            r->ops->part_end(r, p, &r->call->out);
    }
}

/* A reply that came to its end is kept, so that a later turn that names it is served from its ids. */
static void remember(struct reply *r, const struct reply_part *p)
{
    struct server_name names[SERVER_REPLAY_NAMES] = {
        {r->call->id, strlen(r->call->id)},
        {p->message_id, strlen(p->message_id)},
        r->job.cache_key,
        r->job.session,
    };
    for (size_t i = 0; i < LIMIT_REPLAY_CALLS; i++)
        names[SERVER_REPLAY_NAMES - LIMIT_REPLAY_CALLS + i] =
            (struct server_name){p->call_ids[i], strlen(p->call_ids[i])};
    if (p->ids.len && !p->ids.failed)
        server_remember(r->srv->replay, r->job.owner, names, SERVER_REPLAY_NAMES, server_reply_prompt(r, p),
                        (const tok_id *)(const void *)p->ids.data, p->ids.len / sizeof(tok_id));
}

/* The last event was taken: keeps the outcome and gives the engine its slot back. */
static void end_part(struct reply *r, struct reply_part *p)
{
    engine_result(r->srv->engine, p->id, &p->result);
    engine_close(r->srv->engine, p->id);
    server_note_end(r->call, &p->result);
    p->open = false;
    p->ended = true;
    if (p->result.finish == FINISH_STOP || p->result.finish == FINISH_LENGTH) {
        remember(r, p);
        return;
    }
    r->err = p->result.err;
    if (r->err.code == ST_OK)
        (void)err_set(&r->err, ST_CANCELLED, "", "the request was cancelled");
}

/* Bytes a part has collected; SIZE_MAX when there was no memory for more. */
static size_t collected(const struct reply_part *p)
{
    size_t n = p->text.len + p->reasoning.len + p->tool_calls.len + p->origins.len;
    bool failed = p->text.failed || p->reasoning.failed || p->tool_calls.failed || p->origins.failed;
    for (int l = 0; l < REPLY_LISTS; l++) {
        n += p->lists[l].len;
        failed = failed || p->lists[l].failed;
    }
    size_t kept = p->assembly ? chat_assembly_held(p->assembly) : 0;
    return failed || kept == SIZE_MAX ? SIZE_MAX : n + kept;
}

static enum status too_long(const struct reply *r, struct err *e)
{
    return err_set(e, ST_TOO_LONG, "", "the reply %s more than %u bytes%s", r->job.stream ? "would hold" : "has",
                   LIMIT_REPLY, r->job.stream ? " that cannot be sent on yet" : "; it can only be streamed");
}

struct taker {
    struct reply *r;
    struct reply_part *p;
};

static void take_piece(void *user, const struct chat_piece *piece)
{
    const struct taker *t = user;
    struct reply_part *p = t->p;
    if (piece->kind == CHAT_CALL) {
        server_write_id(p->call_id, sizeof p->call_id, t->r->ops->call_prefix);
        if (piece->call < LIMIT_REPLAY_CALLS)
            memcpy(p->call_ids[piece->call], p->call_id, sizeof p->call_id);
    }
    p->calls += piece->kind == CHAT_CALL_END;
    t->r->ops->piece(t->r, p, piece, &t->r->call->out);
}

static void assemble(struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct taker t = {r, p};
    p->news = ev;
    chat_assembly_put(p->assembly, ev->kind == EVENT_TOKEN ? ev->id : -1, ev->text, ev->text_n, take_piece, &t);
    if (ev->kind == EVENT_END)
        chat_assembly_end(p->assembly, take_piece, &t);
}

/* What is known of an event's id, whatever its text is for. */
static void note_id(const struct reply *r, struct reply_part *p, const struct event *ev)
{
    if (ev->kind != EVENT_TOKEN || ev->id < 0)
        return;
    server_note_token(r->call);
    buf_add(&p->ids, &ev->id, sizeof ev->id);
    if (r->job.trace)
        buf_add(&p->origins, &ev->origin, sizeof ev->origin);
}

static void take_one(struct reply *r, struct reply_part *p, const struct event *ev)
{
    struct buf *out = &r->call->out;
    if (ev->kind == EVENT_PROGRESS) {
        r->ops->progress(r, p, ev, out);
        return;
    }
    bool news = ev->kind != EVENT_END || ev->text_n || (r->ops->scores_end && ev->id >= 0);
    size_t before = collected(p), after;
    note_id(r, p, ev);
    if (p->assembly)
        assemble(r, p, ev);
    if (news && r->job.stream)
        r->ops->chunk(r, p, ev, out);
    else if (news)
        r->ops->collect(r, p, ev);
    p->news = NULL;
    after = collected(p);
    r->held += after - before;
    if (after == SIZE_MAX || r->held > LIMIT_REPLY) {
        (void)too_long(r, &r->err);
        return;
    }
    if (ev->kind != EVENT_END)
        return;
    end_part(r, p);
    if (r->job.stream && r->err.code == ST_OK)
        r->ops->part_end(r, p, out);
}

/* Takes what is there, or as much as is sent at a time. */
static void take_part(struct reply *r, struct reply_part *p)
{
    struct event ev[TAKE];
    size_t n;
    while (!p->ended && r->err.code == ST_OK && r->call->out.len < HTTP_ENOUGH &&
           (n = engine_take(r->srv->engine, p->id, ev, TAKE)) > 0)
        for (size_t i = 0; i < n && !p->ended && r->err.code == ST_OK; i++)
            take_one(r, p, &ev[i]);
}

void server_reply_comment(struct reply *r, struct buf *out)
{
    (void)r;
    buf_adds(out, ": still here\n\n");
}

enum progress { PROGRESS_SOME, PROGRESS_ALL, PROGRESS_FAILED, PROGRESS_GONE };

/* The connection's own thread waits at each part's descriptor, the streams' thread at one for all: parts ring where the
 * thread waits that has the call. */
static void follow_thread(struct reply *r)
{
    if (r->shared == r->call->handed_over)
        return;
    r->shared = r->call->handed_over;
    for (uint32_t i = 0; i < r->parts_n; i++)
        if (r->parts[i].open)
            engine_share(r->srv->engine, r->parts[i].id, r->shared);
}

/* Waits until there is something to send, the request has ended or failed, or the client is gone; where http_wait() may
 * not, PROGRESS_SOME can mean nothing. */
static enum progress progress(struct reply *r)
{
    follow_thread(r);
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
        case HTTP_LATER:
            return PROGRESS_SOME;
        case HTTP_QUIET:
            r->ops->quiet(r, &r->call->out);
            return PROGRESS_SOME;
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

static void send_whole(struct reply *r)
{
    struct buf body;
    buf_init(&body, (size_t)LIMIT_REPLY + (1u << 20));
    r->ops->whole(r, &body);
    if (body.failed) {
        struct err e;
        (void)too_long(r, &e);
        r->ops->refuse(r->call, &e, false);
    } else {
        http_reply(r->call, 200, &body, 0);
    }
    buf_release(&body);
}

void server_reply_run(struct http_call *call, struct reply_job *job, const struct reply_ops *ops)
{
    struct err e;
    struct server *srv = call->app;
    char salt[LIMIT_SALT], owner[SERVER_OWNER];
    job->owner = (struct server_name){owner, server_owner(call, job->salt, owner)};
    job->salt = (struct server_name){salt, server_salt(call, job->salt, salt)};
    if (srv->deadline_s && (!job->deadline_ms || job->deadline_ms > srv->deadline_s * 1000))
        job->deadline_ms = srv->deadline_s * 1000;
    server_recall(srv->replay, srv->tok, engine_context(srv->engine), job);
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
    drop_request(&r->job);
    http_drop_body(call);
    begin_parts(r);
    if (r->job.stream)
        call->quiet_ms = (int)srv->quiet_s * 1000;
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
        http_stream(call, fill, ops->stream_type ? ops->stream_type : "text/event-stream");
    } else {
        send_whole(r);
    }
}
