/* engine: requests for the vectors of their prompts, beside requests that have replies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_client.h"

#define MANY 12u
#define LONGEST 700u

static struct fake_model fake;
static struct client_reply replies[MANY];
static tok_id prompts[MANY][LONGEST];

static struct engine *begin(struct pool *pool, struct engine_config cfg)
{
    memset(replies, 0, sizeof replies);
    return client_engine(&fake, pool, cfg);
}

static struct request vector_of(uint32_t i)
{
    static const uint32_t lengths[] = {1, 2, 33, 257, 512, 513, 700};
    struct request rq = client_request(prompts[i], lengths[i % 7], 0);
    client_prompt(prompts[i], rq.prompt_n, i / 3); /* some begin alike */
    rq.vector = true;
    return rq;
}

/* Waits for the end; the vector has to be the prompt's. */
static void check_vector(struct engine *en, request_id id, const struct request *rq)
{
    struct event ev;
    struct request_result result;
    float want[2];
    assert_true(engine_wait(en, id, 60000));
    assert_int_equal(engine_take(en, id, &ev, 1), 1);
    assert_int_equal(ev.kind, EVENT_END);
    engine_result(en, id, &result);
    const float *got = engine_vector(en, id);
    assert_int_equal(result.finish, FINISH_STOP);
    assert_int_equal(result.usage.prompt_tokens, rq->prompt_n);
    assert_int_equal(result.usage.completion_tokens, 0);
    assert_false(result.kv_exhausted);
    fake_vector(&fake, rq->prompt, rq->prompt_n, want);
    assert_non_null(got);
    assert_memory_equal(got, want, sizeof want);
    engine_close(en, id);
}

/* Every second request has a reply. */
static void run_mixed(struct engine *en, bool mixed)
{
    struct request rq[MANY];
    request_id id[MANY];
    memset(replies, 0, sizeof replies);
    for (uint32_t i = 0; i < MANY; i++) {
        rq[i] = vector_of(i);
        if (mixed && i % 2) {
            rq[i].vector = false;
            rq[i].max_tokens = 9;
        }
        id[i] = client_submit(en, &rq[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        if (rq[i].vector) {
            check_vector(en, id[i], &rq[i]);
            continue;
        }
        client_finish(en, id[i], &replies[i]);
        assert_true(client_right(&fake, &rq[i], &replies[i]));
    }
}

/* Small chunks and few blocks: prompts are cut, rows lose their blocks and begin again. */
static void test_pooling(void **state)
{
    (void)state;
    static const enum model_pooling kinds[] = {POOLING_MEAN, POOLING_CLS, POOLING_LAST};
    struct pool *pool = client_pool(2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int tight = 0; tight < 2; tight++) {
            fake_init(&fake, 1024);
            fake.pooling = kinds[k];
            fake.tuning.positions = tight ? 900 : 0;
            struct engine *en = begin(pool, (struct engine_config){.rows = 4, .chunk = 100, .kv_budget = 1 << 22});
            assert_int_equal(engine_pooling(en), kinds[k]);
            assert_int_equal(engine_vector_size(en), 2);
            for (int again = 0; again < 2; again++) /* now with what the prefix cache has */
                run_mixed(en, true);
            engine_free(en);
            fake_release(&fake);
        }
    pool_free(pool);
}

/* The network itself aborts when a prompt is cut (fake_model.c). */
static void test_whole(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    fake_init(&fake, LIMIT_STEP + 500);
    fake.pooling = POOLING_MEAN;
    fake.whole = true;
    struct engine *en = begin(pool, (struct engine_config){.rows = 4, .kv_budget = 1 << 24});
    assert_int_equal(engine_context(en), LIMIT_STEP);
    run_mixed(en, false);
    run_mixed(en, false); /* nothing is reused */
    tok_id *most = calloc(LIMIT_STEP + 1, sizeof *most);
    client_prompt(most, LIMIT_STEP + 1, 1);
    struct request rq = client_request(most, LIMIT_STEP, 0);
    rq.vector = true;
    check_vector(en, client_submit(en, &rq), &rq);
    request_id id;
    struct err e;
    rq.prompt_n++;
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_TOO_LONG);
    rq = client_request(most, 5, 5);
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_UNSUPPORTED);
    free(most);
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
}

static void test_refused(void **state)
{
    (void)state;
    struct pool *pool = client_pool(1);
    request_id id;
    struct err e;
    struct request rq = vector_of(0);
    fake_init(&fake, 256);
    struct engine *en = begin(pool, (struct engine_config){.rows = 2});
    assert_int_equal(engine_vector_size(en), 0);
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_UNSUPPORTED);
    assert_non_null(strstr(e.text, "--pooling"));
    engine_free(en);
    fake_release(&fake);
    fake_init(&fake, 256);
    fake.pooling = POOLING_LAST;
    en = begin(pool, (struct engine_config){.rows = 2});
    rq.max_tokens = 1;
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_ARGUMENT);
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
}

/* A state that is no number ends the request it belongs to. */
static void test_not_finite(void **state)
{
    (void)state;
    struct pool *pool = client_pool(2);
    fake_init(&fake, 1024);
    fake.pooling = POOLING_MEAN;
    struct engine *en = begin(pool, (struct engine_config){.rows = 4});
    struct request bad = vector_of(2), good = vector_of(3);
    prompts[2][20] = FAKE_POISON;
    request_id ids[] = {client_submit(en, &bad), client_submit(en, &good)};
    client_finish(en, ids[0], &replies[0]);
    assert_int_equal(replies[0].result.finish, FINISH_ERROR);
    assert_int_equal(replies[0].result.err.code, ST_STEP_FAILED);
    check_vector(en, ids[1], &good);
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pooling), cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
