/* replay_run: see replay_run.h. */
#include "cli/replay_run.h"

#include <poll.h>
#include <stdlib.h>

#include "cli/cli.h"

#define TAKE 16u
#define POLL_MS 1000

/* A group under way. */
struct group {
    struct engine *en;
    const struct replay_item *const *items; /* [n] */
    uint32_t n, submitted;
    request_id id[LIMIT_ROWS];
    bool ended[LIMIT_ROWS];
    uint32_t seen[LIMIT_ROWS]; /* tokens published */
    double first, last;        /* first token, last end; 0 = not yet */
};

static enum status submit(struct group *g, const struct replay_mode *mode, bool first_only, struct err *e)
{
    for (; g->submitted < g->n; g->submitted++) {
        const struct replay_item *it = g->items[g->submitted];
        uint32_t n = first_only ? 1 : (uint32_t)it->reply_n;
        struct request rq = {.prompt = it->prompt,
                             .prompt_n = (uint32_t)it->prompt_n,
                             .max_tokens = n,
                             .sampling = sample_defaults(),
                             .grammar = it->grammar,
                             .rows = it->rows,
                             .fill = mode->fill,
                             .sources_off = mode->sources_off,
                             .imposed = it->reply,
                             .imposed_n = n};
        rq.sampling.temperature = 0;
        struct err why = {0};
        enum status st = engine_submit(g->en, &rq, &g->id[g->submitted], &why);
        if (st != ST_OK)
            return err_set(e, st, why.field, "line %u: %s", it->line->number, why.text);
    }
    return ST_OK;
}

/* Events of request i: the ids have to be the recorded ones. */
static enum status take(struct group *g, uint32_t i, struct err *e)
{
    const struct replay_item *it = g->items[i];
    struct event ev[TAKE];
    size_t n;
    while (!g->ended[i] && (n = engine_take(g->en, g->id[i], ev, TAKE)) > 0) {
        double now = clock_seconds();
        for (size_t k = 0; k < n; k++) {
            if (ev[k].kind == EVENT_END) {
                g->ended[i] = true;
                g->last = now;
            } else if (ev[k].kind == EVENT_TOKEN && ev[k].id >= 0) {
                uint32_t at = g->seen[i]++;
                g->first = g->first > 0 ? g->first : now;
                if (at >= it->reply_n || ev[k].id != it->reply[at])
                    return err_set(e, ST_BUG, "", "line %u: token %u of the reply is %d, the engine gave %d",
                                   it->line->number, at, at < it->reply_n ? (int)it->reply[at] : -1, (int)ev[k].id);
            }
        }
    }
    return ST_OK;
}

static enum status read_all(struct group *g, struct err *e)
{
    uint32_t open = g->n;
    while (open) {
        struct pollfd fds[LIMIT_ROWS];
        for (uint32_t i = 0; i < g->n; i++)
            fds[i] = (struct pollfd){.fd = g->ended[i] ? -1 : engine_fd(g->en, g->id[i]), .events = POLLIN};
        if (poll(fds, g->n, POLL_MS) < 0 || cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted");
        for (uint32_t i = 0; i < g->n; i++) {
            TRY(take(g, i, e));
            open -= fds[i].fd >= 0 && g->ended[i];
        }
    }
    return ST_OK;
}

static enum status run(struct group *g, const struct replay_mode *mode, bool first_only, struct err *e)
{
    enum status st = submit(g, mode, first_only, e);
    return st == ST_OK ? read_all(g, e) : st;
}

static void close_all(struct group *g)
{
    while (g->submitted)
        engine_close(g->en, g->id[--g->submitted]);
}

/* --- adding up ------------------------------------------------------------------------------------------------------- */

static enum status check_end(const struct replay_item *it, const struct request_result *res, uint32_t expected,
                             struct err *e)
{
    if (res->finish == FINISH_ERROR || res->finish == FINISH_CANCELLED)
        return err_set(e, res->err.code, "", "line %u: %s", it->line->number, res->err.text);
    /* A grammar that leaves nothing but the end ends the reply without the token that says so. */
    bool ended_itself = it->grammar && res->finish == FINISH_STOP && expected == it->reply_n;
    if (res->usage.completion_tokens != expected && !(ended_itself && res->usage.completion_tokens == expected - 1))
        return err_set(e, res->kv_exhausted ? ST_NEVER_FITS : ST_BUG, "", "line %u: the reply has %u tokens, %u came%s",
                       it->line->number, expected, res->usage.completion_tokens,
                       res->kv_exhausted ? " before memory ran out" : "");
    return ST_OK;
}

static void add(struct replay_total *t, const struct request_result *res)
{
    const struct request_usage *u = &res->usage;
    t->tokens += u->completion_tokens;
    t->sampled += u->sampled;
    t->prompt_fed += u->prompt_tokens - u->cached_tokens;
    t->heads += u->head_positions ? u->head_positions - 1 : 0; /* the first token's belongs to the prompt */
    t->ids += u->completion_tokens - 1;                        /* the last id is chosen and never fed */
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        const struct source_counts *c = &u->by_source[k];
        t->by[k].proposed += c->proposed;
        t->by[k].accepted += c->accepted;
        t->by[k].rejected += c->rejected;
        t->by[k].asserted += c->asserted;
        t->ids += c->rejected;
        t->sources_on |= (uint32_t)res->plan.source[k].on << k;
    }
}

enum status replay_run_warm(const struct replay_run *r, const struct replay_item *const *items, uint32_t n, struct err *e)
{
    struct group g = {.en = r->en, .items = items, .n = n};
    enum status st = run(&g, &r->mode[REPLAY_OFF], true, e);
    for (uint32_t i = 0; i < n && st == ST_OK; i++) {
        struct request_result res;
        engine_result(r->en, g.id[i], &res);
        st = check_end(items[i], &res, 1, e);
    }
    close_all(&g);
    return st;
}

enum status replay_run_group(const struct replay_run *r, const struct replay_item *const *items, uint32_t n,
                             uint32_t mode, struct replay_total *total, struct err *e)
{
    struct group g = {.en = r->en, .items = items, .n = n};
    struct engine_stats before, after;
    double decode_s = 0;
    engine_stats(r->en, &before);
    enum status st = run(&g, &r->mode[mode], false, e);
    engine_stats(r->en, &after);
    for (uint32_t i = 0; i < n && st == ST_OK; i++) {
        struct request_result res;
        engine_result(r->en, g.id[i], &res);
        st = check_end(items[i], &res, (uint32_t)items[i]->reply_n, e);
        if (st == ST_OK)
            add(total, &res);
        decode_s = res.usage.decode_s;
    }
    close_all(&g);
    if (st != ST_OK)
        return st;
    total->forwards += after.steps - before.steps - 1;
    total->seconds += n == 1 ? decode_s : g.first > 0 ? g.last - g.first : 0;
    return ST_OK;
}

/* --- what it should have cost ---------------------------------------------------------------------------------------- */

double replay_cost(const struct engine_cost *c, const struct replay_total *t)
{
    if (!t->forwards || !c->n)
        return 0;
    double ids = (double)t->ids / (double)t->forwards, ms;
    uint32_t i = 0;
    while (i < c->n && (double)c->point[i].tokens < ids)
        i++;
    const struct engine_cost_point *p = &c->point[i < c->n ? i : c->n - 1];
    if (i == c->n) /* proportional beyond the last point */
        ms = p->ms * ids / (double)p->tokens;
    else if (i == 0)
        ms = p->ms;
    else
        ms = p[-1].ms + (p->ms - p[-1].ms) * (ids - (double)p[-1].tokens) / (double)(p->tokens - p[-1].tokens);
    return (double)t->forwards * ms + (double)t->heads * c->head_ms;
}
