/* engine_client: a client of the engine for tests: asks, reads to the end, compares. */
#ifndef ENGINE_CLIENT_H
#define ENGINE_CLIENT_H

#include "fake_model.h"

#define CLIENT_IDS 2048u
#define CLIENT_TEXT 65536u

struct client_reply {
    tok_id ids[CLIENT_IDS];
    uint32_t n, events;      /* ids; events in all */
    char text[CLIENT_TEXT];  /* NUL-terminated */
    size_t text_n;
    bool ended;
    struct event last_token;
    struct request_result result;
};

/* A greedy request. The prompt of a seed is seed-dependent ids, `n` of them, in static memory up to the next call. */
struct request client_request(const tok_id *prompt, uint32_t n, uint32_t max_tokens);
void client_prompt(tok_id *prompt, uint32_t n, uint32_t seed);

/* Each ends the test where it does not work: an engine of the fake model, with words, on that pool; a pool of n threads; a
 * request that the engine takes. */
struct engine *client_engine(struct fake_model *f, struct pool *pool, struct engine_config cfg);
struct pool *client_pool(int n);
request_id client_submit(struct engine *en, const struct request *rq);

/* Takes what is there; returns how many events. */
size_t client_take(struct engine *en, request_id id, struct client_reply *r);

/* Reads to the end, fills the result, closes. Aborts after a minute without news. */
void client_finish(struct engine *en, request_id id, struct client_reply *r);

/* Waits until the engine has `running` and `waiting` requests. */
void client_await_load(struct engine *en, uint32_t running, uint32_t waiting);

/* True when the reply's ids are what the request must give by itself (its end token is not published). */
bool client_right(const struct fake_model *f, const struct request *rq, const struct client_reply *r);

#endif
