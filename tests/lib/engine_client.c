/* engine_client: see engine_client.h. */
#include "engine_client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct request client_request(const tok_id *prompt, uint32_t n, uint32_t max_tokens)
{
    return (struct request){.prompt = prompt, .prompt_n = n, .max_tokens = max_tokens, .sampling = sample_defaults()};
}

void client_prompt(tok_id *prompt, uint32_t n, uint32_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        prompt[i] = (tok_id)(rng_uniform(seed, 5, i, RNG_FINAL) * 290.0f);
}

struct engine *client_engine(struct fake_model *f, struct pool *pool, struct engine_config cfg)
{
    struct engine *en;
    struct err e = {.text = ""};
    cfg.pool = pool;
    if (fake_engine(&en, f, &cfg, true, &e))
        BUG("engine: %s: %s", e.field, e.text);
    return en;
}

struct pool *client_pool(int n)
{
    struct pool *p;
    struct err e = {.text = ""};
    if (pool_new(&p, n, &e))
        BUG("%s", e.text);
    return p;
}

request_id client_submit(struct engine *en, const struct request *rq)
{
    request_id id;
    struct err e = {.text = ""};
    if (engine_submit(en, rq, &id, &e))
        BUG("submit: %s: %s", e.field, e.text);
    return id;
}

static void add(struct client_reply *r, const struct event *ev)
{
    if (r->ended)
        BUG("an event after the end");
    r->events++;
    if (r->text_n + ev->text_n >= CLIENT_TEXT)
        BUG("too much text for the test");
    memcpy(r->text + r->text_n, ev->text, ev->text_n);
    r->text_n += ev->text_n;
    r->text[r->text_n] = 0;
    if (ev->kind == EVENT_END) {
        r->ended = true;
        return;
    }
    if (ev->id < 0)
        return;
    if (r->n == CLIENT_IDS)
        BUG("too many ids for the test");
    r->ids[r->n++] = ev->id;
    r->last_token = *ev;
}

size_t client_take(struct engine *en, request_id id, struct client_reply *r)
{
    struct event ev[5];
    size_t all = 0, n;
    while ((n = engine_take(en, id, ev, 5)) > 0) {
        for (size_t i = 0; i < n; i++)
            add(r, &ev[i]);
        all += n;
    }
    return all;
}

void client_finish(struct engine *en, request_id id, struct client_reply *r)
{
    while (!r->ended) {
        if (!engine_wait(en, id, 60000))
            BUG("no news for a minute after %u events", r->events);
        client_take(en, id, r);
    }
    engine_result(en, id, &r->result);
    engine_close(en, id);
}

void client_await_load(struct engine *en, uint32_t running, uint32_t waiting)
{
    for (int i = 0; i < 60000; i++) {
        uint32_t a, b;
        engine_load(en, &a, &b);
        if (a == running && b == waiting)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    BUG("the engine never had %u running and %u waiting", running, waiting);
}

bool client_right(const struct fake_model *f, const struct request *rq, const struct client_reply *r)
{
    tok_id *want = calloc(CLIENT_IDS, sizeof *want);
    if (!want)
        BUG("no memory");
    uint32_t max = rq->max_tokens ? rq->max_tokens : r->n + (r->result.finish == FINISH_STOP);
    uint32_t n = fake_expect(f, rq, max < CLIENT_IDS ? max : CLIENT_IDS, want);
    bool eos = n && want[n - 1] == FAKE_EOS && !rq->ignore_eos;
    bool right = r->n == n - eos && !memcmp(r->ids, want, r->n * sizeof *want)
                 && r->result.usage.completion_tokens == n && r->result.finish == (eos ? FINISH_STOP : FINISH_LENGTH);
    free(want);
    return right;
}
