/* vectors: see vectors.h. */
#include "server/vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/json_in.h"
#include "server/note.h"

#define UNDER_WAY 32u /* texts that the engine has at a time, at most; a wait takes HTTP_FDS descriptors */

_Static_assert(UNDER_WAY <= HTTP_FDS, "each is waited for");

void server_vectors_init(struct server_vectors *v)
{
    *v = (struct server_vectors){.n = 0};
}

static void free_ids(struct reply_prompt *p)
{
    if (p->from_tok)
        tok_ids_free(p->ids, p->n);
    else
        free(p->ids);
}

void server_vectors_release(struct server_vectors *v)
{
    for (size_t i = 0; i < v->n; i++)
        free_ids(&v->texts[i]);
    free(v->texts);
    free(v->numbers);
    server_vectors_init(v);
}

/* ---- texts ---- */

enum status server_vectors_room(const struct server_vectors *v, size_t n, const char *field, struct err *e)
{
    if (n > LIMIT_VECTOR_TEXTS - v->n)
        return err_set(e, ST_ARGUMENT, field, "at most %u texts can be sent at a time", LIMIT_VECTOR_TEXTS);
    return ST_OK;
}

/* Room for one more, whose ids are set before the next is asked for. */
static enum status add(struct server_vectors *v, const char *field, struct reply_prompt **out, struct err *e)
{
    TRY(server_vectors_room(v, 1, field, e));
    if (!v->texts && !(v->texts = calloc(LIMIT_VECTOR_TEXTS, sizeof *v->texts)))
        return err_set(e, ST_NO_MEMORY, field, "no memory for %u texts", LIMIT_VECTOR_TEXTS);
    *out = &v->texts[v->n++];
    return ST_OK;
}

/* Makes the text its first n ids with `end` behind them. */
static enum status end_at(struct reply_prompt *p, size_t n, tok_id end, struct err *e)
{
    tok_id *ids = malloc((n + 1) * sizeof *ids);
    if (!ids)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a text of %zu tokens", n + 1);
    memcpy(ids, p->ids, n * sizeof *ids);
    ids[n] = end;
    free_ids(p);
    p->ids = ids;
    p->n = n + 1;
    p->from_tok = false;
    return ST_OK;
}

/* The longest text: the context, or the window if that is less. */
static size_t longest(const struct server *s, const struct server_vectors *v)
{
    const uint32_t context = engine_context(s->engine);
    return v->window && v->window < context ? v->window : context;
}

static enum status check(const struct server *s, struct server_vectors *v, const char *field, struct err *e)
{
    struct reply_prompt *p = &v->texts[v->n - 1];
    const size_t most = longest(s, v);
    if (!p->n)
        return err_set(e, ST_ARGUMENT, field, "%s is empty; at least one token was expected", field);
    v->encoded += p->n;
    if (v->encoded > LIMIT_VECTOR_ENCODED)
        return err_set(e, ST_TOO_LONG, field, "the texts have more than %u tokens together before they are cut",
                       LIMIT_VECTOR_ENCODED);
    if (p->n > most && !v->cut)
        return err_set(e, ST_NEVER_FITS, field, "%s has %zu tokens; this model takes at most %zu", field, p->n, most);
    if (p->n > most) /* what ends a text is kept */
        TRY(end_at(p, most - 1, p->ids[tok_adds_eos(s->tok) ? p->n - 1 : most - 1], e));
    v->tokens += p->n;
    if (v->tokens > LIMIT_VECTOR_TOKENS)
        return err_set(e, ST_TOO_LONG, field, "the texts have more than %u tokens together", LIMIT_VECTOR_TOKENS);
    return ST_OK;
}

/* Behind a text, where the model was made with that. */
static enum status add_end(const struct server *s, struct reply_prompt *p, struct err *e)
{
    const tok_id end = tok_eos_main(s->tok);
    return tok_adds_eos(s->tok) && end != TOK_NONE ? end_at(p, p->n, end, e) : ST_OK;
}

enum status server_vectors_add(const struct server *s, struct server_vectors *v, const char *text, size_t n,
                               const char *field, struct err *e)
{
    struct reply_prompt *p;
    TRY(add(v, field, &p, e));
    if (!n)
        return err_set(e, ST_ARGUMENT, field, "%s is an empty text", field);
    if (!v->cut)
        TRY(server_check_bytes(s, n, field, field, e));
    n = s->prompt_bytes && n > s->prompt_bytes ? s->prompt_bytes : n;
    TRY(tok_encode(s->tok, text, n, TOK_BOS, &p->ids, &p->n, e));
    p->from_tok = true;
    TRY(add_end(s, p, e));
    return check(s, v, field, e);
}

enum status server_vectors_take(const struct server *s, struct server_vectors *v, tok_id *ids, size_t n,
                                const char *field, struct err *e)
{
    struct reply_prompt *p = NULL;
    const enum status st = add(v, field, &p, e);
    if (st != ST_OK) {
        tok_ids_free(ids, n);
        return st;
    }
    *p = (struct reply_prompt){.ids = ids, .n = n, .from_tok = true};
    return check(s, v, field, e);
}

static enum status add_ids(const struct server *s, const json_t *list, const char *field, struct server_vectors *v,
                           struct err *e)
{
    const size_t n = json_array_size(list);
    struct reply_prompt *p;
    TRY(add(v, field, &p, e));
    if (n && !(p->ids = malloc(n * sizeof *p->ids)))
        return err_set(e, ST_NO_MEMORY, field, "no memory for a text of %zu tokens", n);
    p->n = n;
    TRY(server_read_ids(s, list, field, p->ids, e));
    return check(s, v, field, e);
}

enum status server_vectors_parse(const struct server *s, const json_t *value, const char *field,
                                 struct server_vectors *v, struct err *e)
{
    static const char want[] = "a string, an array of strings, an array of token ids or an array of such arrays";
    const json_t *first = json_array_get(value, 0);
    if (!value)
        return err_set(e, ST_ARGUMENT, field, "%s is missing", field);
    if (json_is_string(value))
        return server_vectors_add(s, v, json_string_value(value), json_string_length(value), field, e);
    if (!json_is_array(value))
        return http_wrong_type(value, field, want, e);
    if (!first || json_is_number(first))
        return add_ids(s, value, field, v, e);
    TRY(server_vectors_room(v, json_array_size(value), field, e));
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        char name[ERR_FIELD];
        snprintf(name, sizeof name, "%.40s[%zu]", field, i);
        if (!json_is_string(one) && !json_is_array(one))
            return err_set(e, ST_ARGUMENT, name, "%s must be %s", field, want);
        TRY(json_is_array(one) ? add_ids(s, one, name, v, e)
                               : server_vectors_add(s, v, json_string_value(one), json_string_length(one), name, e));
    }
    return ST_OK;
}

/* ---- the engine ---- */

/* A request on its way. */
struct run {
    struct http_call *call;
    struct server *srv;
    struct server_vectors *v;
    struct request rq; /* what all texts have in common */
    size_t next;       /* the first text that was not submitted */
    uint32_t open;
    struct {
        request_id id;
        size_t text;
    } way[UNDER_WAY]; /* [open] */
};

static enum status submit(struct run *r, struct err *e)
{
    const struct reply_prompt *p = &r->v->texts[r->next];
    const uint64_t spent = (clock_ns() - r->call->arrived) / 1000000u;
    struct request rq = r->rq;
    rq.prompt = p->ids;
    rq.prompt_n = (uint32_t)p->n;
    if (r->v->deadline_ms && spent >= r->v->deadline_ms)
        return err_set(e, ST_DEADLINE, "", "the request was not done within its %u ms", r->v->deadline_ms);
    if (r->v->deadline_ms)
        rq.deadline_ms = r->v->deadline_ms - (uint32_t)spent;
    TRY(engine_submit(r->srv->engine, &rq, &r->way[r->open].id, e));
    server_note_prompt(r->call, rq.prompt_n);
    r->way[r->open++].text = r->next++;
    return ST_OK;
}

/* As many as the engine takes. When its queue is full, what is under way makes room; without anything of this request there
 * the client has to come again. */
static enum status submit_some(struct run *r, struct err *e)
{
    enum status st = ST_OK;
    while (st == ST_OK && r->next < r->v->n && r->open < UNDER_WAY)
        st = submit(r, e);
    return st == ST_BUSY && r->open ? ST_OK : st;
}

/* Takes the end of the request at `i`, if it is there, and puts another into its place. */
static enum status take(struct run *r, uint32_t i, bool *ended, struct err *e)
{
    struct event ev;
    struct request_result result;
    const request_id id = r->way[i].id;
    *ended = false;
    if (!engine_take(r->srv->engine, id, &ev, 1) || ev.kind != EVENT_END)
        return ST_OK;
    *ended = true;
    engine_result(r->srv->engine, id, &result);
    server_note_end(r->call, &result);
    const float *vector = engine_vector(r->srv->engine, id);
    if (vector)
        memcpy(r->v->numbers + r->way[i].text * r->v->size, vector, r->v->size * sizeof *vector);
    engine_close(r->srv->engine, id);
    r->way[i] = r->way[--r->open];
    if (vector)
        return ST_OK;
    if (result.err.code == ST_OK)
        return err_set(e, ST_CANCELLED, "", "the request was cancelled");
    *e = result.err;
    return e->code;
}

static enum status take_some(struct run *r, struct err *e)
{
    for (uint32_t i = 0; i < r->open;) {
        bool ended;
        TRY(take(r, i, &ended, e));
        i += !ended;
    }
    return ST_OK;
}

/* False: the client is gone. */
static bool go(struct run *r, struct err *e)
{
    while (submit_some(r, e) == ST_OK && r->open) {
        int fds[UNDER_WAY];
        for (uint32_t i = 0; i < r->open; i++)
            fds[i] = engine_fd(r->srv->engine, r->way[i].id);
        switch (http_wait(r->call, fds, r->open)) {
        case HTTP_GONE:
            return false;
        case HTTP_STOPPING:
            (void)err_set(e, ST_CANCELLED, "", "the server is stopping");
            return true;
        default:
            e->code = ST_OK; /* of a queue that was full */
            if (take_some(r, e) != ST_OK)
                return true;
        }
    }
    return true;
}

bool server_vectors_run(struct http_call *call, struct server_vectors *v, struct err *e)
{
    struct server *srv = call->app;
    char salt[LIMIT_SALT];
    struct run r = {.call = call, .srv = srv, .v = v};
    *e = (struct err){.code = ST_OK};
    r.rq = (struct request){.vector = true, .priority = v->priority, .name = call->id, .sampling = sample_defaults()};
    r.rq.salt = salt;
    r.rq.salt_n = server_salt(call, (struct server_name){v->salt, v->salt_n}, salt);
    if (srv->deadline_s && (!v->deadline_ms || v->deadline_ms > srv->deadline_s * 1000))
        v->deadline_ms = srv->deadline_s * 1000;
    v->size = engine_vector_size(srv->engine);
    v->numbers = calloc(v->n * v->size + 1, sizeof *v->numbers);
    if (!v->numbers) {
        (void)err_set(e, ST_NO_MEMORY, "", "no memory for %zu vectors", v->n);
        return true;
    }
    const bool there = go(&r, e);
    for (uint32_t i = 0; i < r.open; i++)
        engine_close(srv->engine, r.way[i].id);
    return there;
}

void server_vectors_shorten(struct server_vectors *v, uint32_t size)
{
    for (size_t t = 0; t < v->n; t++) {
        const float *from = v->numbers + t * v->size;
        float *to = v->numbers + t * size;
        double sum = 0;
        for (uint32_t i = 0; i < size; i++)
            sum += (double)from[i] * (double)from[i];
        for (uint32_t i = 0; i < size; i++) /* to <= from */
            to[i] = sum > 0 ? (float)((double)from[i] / sqrt(sum)) : 0;
    }
    v->size = size;
}
