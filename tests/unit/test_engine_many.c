/* engine: many requests at once. Whatever joins, leaves, waits, is cancelled or loses its blocks: ids stay the same. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine_client.h"

#define MANY 24u
#define LONGEST 400u

static struct fake_model fake;
static struct client_reply replies[MANY];
static tok_id prompts[MANY][LONGEST];

static struct engine *begin(struct pool *pool, struct engine_config cfg)
{
    memset(replies, 0, sizeof replies);
    return client_engine(&fake, pool, cfg);
}

static void end(struct engine *en)
{
    engine_free(en);
    assert_true(fake.released);
    fake_release(&fake);
}

/* Request i of a mix: lengths, samplers and limits all differ. */
static struct request mixed_into(tok_id *prompt, uint32_t i)
{
    static const uint32_t lengths[] = {1, 2, 31, 32, 33, 150, 257, 400};
    uint32_t n = lengths[i % 8];
    client_prompt(prompt, n, i);
    struct request rq = client_request(prompt, n, 20 + (i * 13) % 30);
    rq.ignore_eos = i % 5 == 0;
    if (i % 3) {
        rq.sampling.temperature = 0.3f + 0.2f * (float)(i % 4);
        rq.sampling.seed = i;
        rq.sampling.top_p = i % 2 ? 0.9f : 1;
        rq.sampling.repetition_penalty = i % 4 ? 1 : 1.2f;
    }
    return rq;
}

static struct request mixed(uint32_t i)
{
    return mixed_into(prompts[i], i);
}

static void await_token(struct engine *en, request_id id, struct client_reply *r)
{
    while (!r->n && !r->ended) {
        assert_true(engine_wait(en, id, 60000));
        client_take(en, id, r);
    }
}

/* 24 requests over 8 rows, every fourth one cancelled or closed on the way. */
static void run_mix(struct engine *en)
{
    request_id id[MANY];
    struct request rq[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        rq[i] = mixed(i);
        id[i] = client_submit(en, &rq[i]);
        if (i % 4 == 2)
            engine_cancel(en, id[i]);
        if (i == 3 || i == 11)
            await_token(en, id[i], &replies[i]);
        if (i == 13)
            engine_close(en, id[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        if (i == 13)
            continue;
        client_finish(en, id[i], &replies[i]);
        if (replies[i].result.finish == FINISH_CANCELLED) {
            assert_int_equal(i % 4, 2);
            assert_int_equal(replies[i].result.err.code, ST_CANCELLED);
        } else if (!client_right(&fake, &rq[i], &replies[i])) {
            fail_msg("request %u gave other ids than alone", i);
        }
    }
}

static void test_mix(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 7, 32, 512}, rows[] = {1, 3, 8};
    for (int t = 1; t <= 2; t++) {
        struct pool *pool = client_pool(t);
        for (int c = 0; c < 4; c++)
            for (int r = 0; r < 3; r++) {
                fake_init(&fake, 600);
                struct engine *en = begin(pool, (struct engine_config){.rows = rows[r], .chunk = chunks[c]});
                uint32_t unused = engine_kv_available(en);
                run_mix(en);
                client_await_load(en, 0, 0);
                assert_int_equal(engine_kv_available(en), unused);
                assert_true(fake.most_tokens <= LIMIT_STEP && fake.most_spans <= rows[r]);
                end(en);
            }
        pool_free(pool);
    }
}

/* A pool that holds about two of eight rows: rows lose their blocks and feed everything again, with the same ids. */
static void test_running_out_of_blocks(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    fake_init(&fake, 300);
    fake.no_eos = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 8, .context = 256, .kv_budget = 64 << 10});
    uint32_t unused = engine_kv_available(en);
    assert_in_range(unused, 8, 24);
    request_id id[MANY];
    struct request rq[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        client_prompt(prompts[i], 20 + i, i);
        rq[i] = client_request(prompts[i], 20 + i, i % 3 ? 150 : 0);
        rq[i].sampling.temperature = i % 2 ? 0.8f : 0;
        id[i] = client_submit(en, &rq[i]);
    }
    uint32_t ids = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        client_finish(en, id[i], &replies[i]);
        assert_int_equal(replies[i].result.finish, FINISH_LENGTH);
        assert_false(replies[i].result.kv_exhausted);
        uint32_t max = rq[i].max_tokens ? rq[i].max_tokens : 256 - rq[i].prompt_n;
        assert_int_equal(replies[i].n, max);
        assert_true(client_right(&fake, &rq[i], &replies[i]));
        ids += rq[i].prompt_n + max - 1;
    }
    assert_true(fake.fed > ids); /* some were put back */
    client_await_load(en, 0, 0);
    assert_int_equal(engine_kv_available(en), unused);
    end(en);
    pool_free(pool);
}

/* The last row standing ends with what it has. */
static void test_last_row(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 300);
    fake.no_eos = true;
    fake.tuning.positions = 128;
    struct engine *en = begin(pool, (struct engine_config){.rows = 3});
    request_id id[3];
    struct request rq[3];
    for (uint32_t i = 0; i < 3; i++) {
        client_prompt(prompts[i], 200, i);
        rq[i] = client_request(prompts[i], 60, 0);
        id[i] = client_submit(en, &rq[i]);
    }
    struct err e;
    struct request never = client_request(prompts[0], 60, 90);
    assert_int_equal(engine_submit(en, &never, &(request_id){0}, &e), ST_NEVER_FITS);
    assert_string_equal(e.field, "max_tokens");
    never = client_request(prompts[0], 200, 0);
    assert_int_equal(engine_submit(en, &never, &(request_id){0}, &e), ST_NEVER_FITS);
    assert_string_equal(e.field, "prompt");
    for (uint32_t i = 0; i < 3; i++) {
        client_finish(en, id[i], &replies[i]);
        assert_int_equal(replies[i].result.finish, FINISH_LENGTH);
        assert_true(replies[i].result.kv_exhausted);
        assert_int_equal(replies[i].n, 128 - 60 + 1);
        rq[i].max_tokens = replies[i].n;
        assert_true(client_right(&fake, &rq[i], &replies[i]));
    }
    assert_int_equal(engine_kv_available(en), 4);
    end(en);
    pool_free(pool);
}

/* A row whose logits are not finite ends alone. */
static void test_poison(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    fake_init(&fake, 600);
    struct engine *en = begin(pool, (struct engine_config){.rows = 4});
    request_id id[4];
    struct request rq[4];
    for (uint32_t i = 0; i < 4; i++) {
        rq[i] = mixed(i + 3);
        if (i == 2)
            prompts[i + 3][100] = FAKE_POISON;
        id[i] = client_submit(en, &rq[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        client_finish(en, id[i], &replies[i]);
        if (i != 2) {
            assert_true(client_right(&fake, &rq[i], &replies[i]));
            continue;
        }
        assert_int_equal(replies[i].result.finish, FINISH_ERROR);
        assert_int_equal(replies[i].result.err.code, ST_STEP_FAILED);
        assert_int_equal(replies[i].n, 0);
    }
    end(en);
    pool_free(pool);
}

/* --- the queue ------------------------------------------------------------------------------------------------------- */

static void test_full_queue(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 600);
    fake.no_eos = true;
    fake.gated = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2, .queue = 3});
    struct request rq[6];
    request_id id[6];
    for (uint32_t i = 0; i < 5; i++) {
        rq[i] = mixed(i);
        id[i] = client_submit(en, &rq[i]);
    }
    struct err e;
    rq[5] = mixed(5);
    assert_int_equal(engine_submit(en, &rq[5], &id[5], &e), ST_BUSY);
    assert_in_range(e.retry_after, 1, 60);
    /* One that waits is cancelled: its place is free within one step. */
    engine_cancel(en, id[4]);
    sem_post(&fake.gate);
    client_finish(en, id[4], &replies[4]);
    assert_int_equal(replies[4].result.finish, FINISH_CANCELLED);
    assert_int_equal(replies[4].events, 1);
    assert_int_equal(replies[4].result.usage.steps, 0);
    id[5] = client_submit(en, &rq[5]);
    fake.gated = false;
    for (int i = 0; i < 10; i++)
        sem_post(&fake.gate);
    for (uint32_t i = 0; i < 6; i++) {
        if (i == 4)
            continue;
        client_finish(en, id[i], &replies[i]);
        assert_true(client_right(&fake, &rq[i], &replies[i]));
    }
    end(en);
    pool_free(pool);
}

/* Clients that do not close their ended requests cannot use the table up for long. */
static void test_unclosed(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 100);
    struct engine *en = begin(pool, (struct engine_config){.rows = 1, .queue = 1});
    static const tok_id prompt[1] = {1};
    struct request rq = client_request(prompt, 1, 1);
    request_id id[200], extra;
    uint32_t n = 0;
    struct err e;
    for (; n < 200; n++) {
        client_await_load(en, 0, 0);
        if (engine_submit(en, &rq, &id[n], &e))
            break;
        while (!engine_wait(en, id[n], 60000))
            ;
    }
    assert_in_range(n, 2, 100);
    assert_int_equal(e.code, ST_BUSY);
    engine_close(en, id[0]);
    extra = client_submit(en, &rq);
    assert_true(extra != id[0]);
    client_finish(en, extra, &replies[0]);
    for (uint32_t i = 1; i < n; i++)
        engine_close(en, id[i]);
    end(en);
    pool_free(pool);
}

/* --- slow readers ---------------------------------------------------------------------------------------------------- */

static void test_full_ring(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 600);
    fake.no_eos = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2});
    client_prompt(prompts[0], 10, 0);
    client_prompt(prompts[1], 10, 1);
    struct request slow = client_request(prompts[0], 10, 300), quick = client_request(prompts[1], 10, 300);
    request_id id = client_submit(en, &slow);
    client_finish(en, client_submit(en, &quick), &replies[1]); /* nobody reads the other one meanwhile */
    assert_true(client_right(&fake, &quick, &replies[1]));
    client_await_load(en, 1, 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    uint32_t steps = fake.steps;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    assert_int_equal(fake.steps, steps); /* it waits, and does not spin */
    client_finish(en, id, &replies[0]);
    assert_true(client_right(&fake, &slow, &replies[0]));
    end(en);
    pool_free(pool);
}

static void test_unread(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 600);
    fake.tuning.stall_ms = 300;
    fake.no_eos = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2});
    client_prompt(prompts[0], 10, 0);
    struct request rq = client_request(prompts[0], 10, 300);
    request_id id = client_submit(en, &rq);
    client_await_load(en, 1, 0);
    client_await_load(en, 0, 0);
    client_finish(en, id, &replies[0]);
    assert_int_equal(replies[0].result.finish, FINISH_CANCELLED);
    assert_non_null(strstr(replies[0].result.err.text, "not read"));
    assert_true(replies[0].n > 20 && replies[0].n < 300);
    end(en);
    pool_free(pool);
}

/* Slow readers hold no blocks that others need: here the pool holds one sequence and a bit. */
static void test_slow_reader_gives_blocks(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 300);
    fake.no_eos = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2, .context = 256, .kv_budget = 40 << 10});
    assert_in_range(engine_kv_available(en), 8, 12);
    client_prompt(prompts[0], 150, 0);
    client_prompt(prompts[1], 20, 1);
    struct request slow = client_request(prompts[0], 150, 100), quick = client_request(prompts[1], 20, 230);
    request_id id = client_submit(en, &slow);
    await_token(en, id, &replies[0]);
    client_finish(en, client_submit(en, &quick), &replies[1]);
    assert_true(client_right(&fake, &quick, &replies[1]));
    client_finish(en, id, &replies[0]);
    assert_true(client_right(&fake, &slow, &replies[0]));
    end(en);
    pool_free(pool);
}

static tok_id long_at_150(const tok_id *ids, uint32_t n)
{
    (void)ids;
    return n == 150 ? 100 : (tok_id)(n % 26);
}

/* The same in the middle of a token that fills the ring many times over: its text goes on where it was. */
static void test_slow_reader_of_a_huge_token(void **state)
{
    (void)state;
    static char huge[60001];
    static const char *text[FAKE_VOCAB] = {[100] = huge};
    memset(huge, 'x', sizeof huge - 1);
    struct pool *pool = client_pool(1);
    fake_init(&fake, 300);
    fake.next = long_at_150;
    fake.text = text;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2, .context = 256, .kv_budget = 40 << 10});
    client_prompt(prompts[0], 150, 0);
    client_prompt(prompts[1], 20, 1);
    struct request slow = client_request(prompts[0], 150, 3), quick = client_request(prompts[1], 20, 230);
    request_id id = client_submit(en, &slow);
    client_finish(en, client_submit(en, &quick), &replies[1]);
    assert_true(client_right(&fake, &quick, &replies[1]));
    client_await_load(en, 0, 1);
    client_finish(en, id, &replies[0]);
    assert_true(client_right(&fake, &slow, &replies[0]));
    assert_int_equal(replies[0].text_n, 60002);
    assert_memory_equal(replies[0].text, huge, 60000);
    assert_string_equal(replies[0].text + 60000, "vw");
    end(en);
    pool_free(pool);
}

/* --- leaving --------------------------------------------------------------------------------------------------------- */

static void test_close_while_running(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    fake_init(&fake, 600);
    fake.no_eos = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2});
    uint32_t unused = engine_kv_available(en);
    for (uint32_t i = 0; i < 50; i++) {
        client_prompt(prompts[0], 50, i);
        struct request rq = client_request(prompts[0], 50, 0);
        request_id id = client_submit(en, &rq);
        if (i % 3 == 0)
            await_token(en, id, &replies[0]);
        replies[0].n = 0;
        engine_close(en, id);
    }
    client_await_load(en, 0, 0);
    assert_int_equal(engine_kv_available(en), unused);
    end(en);
    pool_free(pool);
}

/* Cancelled within one step. */
static void test_cancel(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    fake_init(&fake, 600);
    fake.no_eos = true;
    fake.gated = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 1});
    client_prompt(prompts[0], 5, 0);
    struct request rq = client_request(prompts[0], 5, 100);
    request_id id = client_submit(en, &rq);
    for (int i = 0; i < 3; i++) {
        sem_wait(&fake.entered);
        sem_post(&fake.gate);
    }
    sem_wait(&fake.entered); /* in the fourth step */
    engine_cancel(en, id);
    engine_cancel(en, id);
    sem_post(&fake.gate);
    client_finish(en, id, &replies[0]);
    assert_int_equal(replies[0].result.finish, FINISH_CANCELLED);
    assert_int_equal(replies[0].result.err.code, ST_CANCELLED);
    assert_int_equal(replies[0].n, 3);
    assert_int_equal(fake.steps, 4);
    end(en);
    pool_free(pool);
}

static void test_free_while_running(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    fake_init(&fake, 600);
    fake.no_eos = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 2});
    request_id id[5];
    for (uint32_t i = 0; i < 5; i++) {
        client_prompt(prompts[i], 50, i);
        struct request rq = client_request(prompts[i], 50, 0);
        id[i] = client_submit(en, &rq);
    }
    await_token(en, id[0], &replies[0]);
    engine_stop(en);
    for (uint32_t i = 0; i < 5; i++) {
        client_finish(en, id[i], &replies[i]);
        assert_int_equal(replies[i].result.finish, FINISH_CANCELLED);
    }
    struct request rq = client_request(prompts[0], 50, 0);
    struct err e;
    assert_int_equal(engine_submit(en, &rq, &id[0], &e), ST_BUSY);
    end(en);
    fake_init(&fake, 600);
    en = begin(pool, (struct engine_config){.rows = 2});
    client_submit(en, &rq); /* never read, never closed */
    end(en);
    pool_free(pool);
}

/* --- anything at any time -------------------------------------------------------------------------------------------- */

struct going {
    request_id id; /* 0 = not begun */
    struct request rq;
    bool lazy, cancelled, over;
};

static uint32_t draw_seed, draw_n;

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(rng_uniform(draw_seed, 9, draw_n++, RNG_FINAL) * (float)n);
}

static void check_end(struct engine *en, struct going *g, struct client_reply *r)
{
    client_finish(en, g->id, r);
    g->over = true;
    if (g->cancelled && r->result.finish == FINISH_CANCELLED)
        return;
    if (!client_right(&fake, &g->rq, r))
        fail_msg("seed %u: a request of %u ids gave others than alone", draw_seed, g->rq.prompt_n);
}

/* One request's turn: begins, reads (a lazy one seldom), is cancelled, or is closed unread. */
static void turn(struct engine *en, struct going *g, uint32_t i)
{
    struct client_reply *r = &replies[i];
    if (g->over)
        return;
    if (!g->id) {
        g->rq = mixed_into(prompts[i], i + draw(8));
        if (g->rq.prompt_n > 150)
            g->rq.prompt_n = 150;
        g->rq.max_tokens = 1 + draw(90);
        g->lazy = draw(4) == 0;
        if (engine_submit(en, &g->rq, &g->id, NULL))
            g->id = 0; /* busy: another time */
        return;
    }
    if (draw(40) == 0 && !g->cancelled) {
        engine_cancel(en, g->id);
        g->cancelled = true;
    }
    if (draw(150) == 0) {
        engine_close(en, g->id);
        g->over = true;
        return;
    }
    if (!g->lazy || draw(30) == 0)
        client_take(en, g->id, r);
    if (r->ended)
        check_end(en, g, r);
}

static void test_anything(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    for (draw_seed = 1; draw_seed <= 40; draw_seed++) {
        static struct going going[MANY];
        draw_n = 0;
        memset(going, 0, sizeof going);
        fake_init(&fake, 256);
        fake.tuning.positions = 256 + draw(4) * 100; /* one or two rows of the largest kind */
        struct engine_config cfg = {.rows = 1 + draw(8), .queue = 1 + draw(20), .chunk = 1 + draw(3) * 50};
        struct engine *en = begin(pool, cfg);
        uint32_t unused = engine_kv_available(en), over = 0;
        for (uint32_t round = 0; over < MANY; round++) {
            over = 0;
            for (uint32_t i = 0; i < MANY; i++) {
                turn(en, &going[i], i);
                over += going[i].over;
            }
            if (round % 4 == 0)
                nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        }
        client_await_load(en, 0, 0);
        assert_int_equal(engine_kv_available(en), unused);
        assert_true(fake.most_spans <= cfg.rows);
        end(en);
    }
    pool_free(pool);
}

/* --- clients in threads ---------------------------------------------------------------------------------------------- */

struct client {
    struct engine *en;
    uint32_t seed, right, cancelled;
    struct client_reply reply;
};

static void *client_main(void *arg)
{
    struct client *c = arg;
    for (uint32_t k = 0; k < 12; k++) {
        tok_id prompt[120];
        uint32_t n = 1 + (c->seed * 31 + k * 17) % 120;
        client_prompt(prompt, n, c->seed * 100 + k);
        struct request rq = client_request(prompt, n, 10 + k);
        request_id id;
        while (engine_submit(c->en, &rq, &id, NULL))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        memset(&c->reply, 0, sizeof c->reply);
        if (k % 4 == 3) {
            engine_wait(c->en, id, (int)(k % 3));
            client_take(c->en, id, &c->reply);
            if (k % 8 == 3)
                engine_cancel(c->en, id);
            engine_close(c->en, id);
            c->cancelled++;
            continue;
        }
        client_finish(c->en, id, &c->reply);
        c->right += client_right(&fake, &rq, &c->reply);
    }
    return NULL;
}

static void test_client_threads(void **state)
{
    (void)state;
    enum { CLIENTS = 10 };
    static struct client clients[CLIENTS];
    struct pool *pool = client_pool(2);
    fake_init(&fake, 200);
    struct engine *en = begin(pool, (struct engine_config){.rows = 3, .queue = 4, .kv_budget = 48 << 10});
    uint32_t unused = engine_kv_available(en);
    pthread_t thread[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.en = en, .seed = i + 1};
        assert_int_equal(pthread_create(&thread[i], NULL, client_main, &clients[i]), 0);
    }
    for (uint32_t i = 0; i < CLIENTS; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(clients[i].right, 9);
        assert_int_equal(clients[i].cancelled, 3);
    }
    client_await_load(en, 0, 0);
    assert_int_equal(engine_kv_available(en), unused);
    end(en);
    pool_free(pool);
}

/* Takes what there is of a request, and what there is after a change of where its news rings. False: it is over. */
static bool take_shared(struct engine *en, struct going *g, struct client_reply *r, bool *shared)
{
    while (client_take(en, g->id, r))
        ;
    if (draw(4) == 0) {
        *shared = !*shared;
        engine_share(en, g->id, *shared);
        while (client_take(en, g->id, r))
            ;
    }
    if (!r->ended)
        return true;
    check_end(en, g, r);
    return false;
}

/* One thread waits for all requests, at the common descriptor and at those of requests that do not share it just now. */
static void test_one_waits_for_all(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    struct pollfd p[MANY + 1];
    struct going going[MANY] = {{0}};
    bool shared[MANY];
    fake_init(&fake, 600);
    struct engine *en = begin(pool, (struct engine_config){.rows = 8, .queue = MANY});
    for (uint32_t i = 0; i < MANY; i++) {
        going[i].rq = mixed(i);
        going[i].id = client_submit(en, &going[i].rq);
        engine_share(en, going[i].id, shared[i] = i % 2);
        p[i] = (struct pollfd){.fd = engine_fd(en, going[i].id), .events = POLLIN, .revents = POLLIN};
    }
    p[MANY] = (struct pollfd){.fd = engine_shared_fd(en), .events = POLLIN};
    bool all = true; /* of those that share */
    for (uint32_t left = MANY; left;) {
        for (uint32_t i = 0; i < MANY; i++) {
            if (going[i].over || !(shared[i] ? all : p[i].revents))
                continue;
            left -= !take_shared(en, &going[i], &replies[i], &shared[i]);
            p[i].fd = going[i].over || shared[i] ? -1 : engine_fd(en, going[i].id);
        }
        uint64_t count;
        if (left && poll(p, MANY + 1, 60000) <= 0)
            fail_msg("seed %u: %u requests have no news for a minute", draw_seed, left);
        all = p[MANY].revents;
        if (left && all)
            assert_int_equal(read(p[MANY].fd, &count, sizeof count), sizeof count);
    }
    end(en);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mix),          cmocka_unit_test(test_running_out_of_blocks),
        cmocka_unit_test(test_last_row),     cmocka_unit_test(test_poison),       cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_unclosed),     cmocka_unit_test(test_full_ring),
        cmocka_unit_test(test_unread),       cmocka_unit_test(test_slow_reader_gives_blocks),
        cmocka_unit_test(test_slow_reader_of_a_huge_token),
        cmocka_unit_test(test_close_while_running), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_free_while_running),  cmocka_unit_test(test_anything),
        cmocka_unit_test(test_client_threads),   cmocka_unit_test(test_one_waits_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
