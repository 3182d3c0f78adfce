/* engine: the prefix cache. What it reports is what was really not fed, and the ids never tell that it was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_client.h"

#define LONGEST 1500u

static struct fake_model fake;
static struct pool *workers;
static struct client_reply reply;

static struct engine *begin(struct engine_config cfg)
{
    fake_init(&fake, 2048);
    fake.no_eos = true;
    workers = client_pool(2);
    return client_engine(&fake, workers, cfg);
}

static void end(struct engine *en)
{
    engine_free(en);
    fake_release(&fake);
    pool_free(workers);
}

/* Runs one request alone and checks ids and accounts: what was fed is the prompt without what was cached, and every
 * token but the last. Returns how many were cached. */
static uint32_t ask(struct engine *en, const tok_id *prompt, uint32_t n, uint32_t tokens)
{
    request_id id;
    struct err e = {.text = ""};
    struct request rq = client_request(prompt, n, tokens);
    uint32_t before = fake.fed;
    if (engine_submit(en, &rq, &id, &e))
        fail_msg("submit: %s", e.text);
    memset(&reply, 0, sizeof reply);
    client_finish(en, id, &reply);
    assert_true(client_right(&fake, &rq, &reply));
    const struct request_usage *u = &reply.result.usage;
    assert_int_equal(u->prompt_tokens, n);
    assert_int_equal(fake.fed - before, n - u->cached_tokens + tokens - 1);
    return u->cached_tokens;
}

static void test_again(void **state)
{
    (void)state;
    struct engine *en = begin((struct engine_config){.rows = 2});
    tok_id prompt[LONGEST];
    client_prompt(prompt, 700, 1);
    assert_int_equal(ask(en, prompt, 700, 20), 0);
    assert_int_equal(ask(en, prompt, 700, 20), 699);
    client_prompt(prompt, 700, 2);
    assert_int_equal(ask(en, prompt, 700, 20), 0);
    end(en);
}

static void test_switched_off(void **state)
{
    (void)state;
    struct engine *en = begin((struct engine_config){.rows = 2, .no_prefix_cache = true});
    tok_id prompt[LONGEST];
    client_prompt(prompt, 300, 1);
    assert_int_equal(ask(en, prompt, 300, 5), 0);
    assert_int_equal(ask(en, prompt, 300, 5), 0);
    end(en);
}

/* PC1, PC8: each turn's prompt is the last one, its reply, and something new: only that is fed, though some layers of the
 * model look back over a window alone, which the turns outgrow. */
static void test_turns(void **state)
{
    (void)state;
    struct engine *en = begin((struct engine_config){.rows = 2});
    tok_id prompt[LONGEST];
    uint32_t n = 100;
    client_prompt(prompt, n, 3);
    ask(en, prompt, n, 60);
    for (uint32_t turn = 0; turn < 8; turn++) {
        uint32_t fed = n + 59; /* the reply's last token was never fed */
        memcpy(prompt + n, reply.ids, 60 * sizeof *prompt);
        client_prompt(prompt + n + 60, 40, 100 + turn);
        n += 100;
        uint32_t cached = ask(en, prompt, n, 60);
        uint32_t tail = fed % KV_BLOCK; /* too few ids to be worth a block are not kept */
        assert_int_equal(cached, tail < 4 ? fed - tail : fed);
    }
    end(en);
}

/* Ten agents in turn over one system prompt, more than there are rows: nobody pays for it twice. */
static void test_agents(void **state)
{
    (void)state;
    struct engine *en = begin((struct engine_config){.rows = 4});
    static tok_id prompt[10][LONGEST];
    uint32_t n[10], total = 0, cached = 0;
    for (uint32_t a = 0; a < 10; a++) {
        client_prompt(prompt[a], 400, 5);
        client_prompt(prompt[a] + 400, 30, 200 + a);
        n[a] = 430;
    }
    for (uint32_t turn = 0; turn < 5; turn++)
        for (uint32_t a = 0; a < 10; a++) {
            uint32_t c = ask(en, prompt[a], n[a], 30);
            if (turn + a)
                assert_true(c >= 384);
            cached += c;
            total += n[a];
            memcpy(prompt[a] + n[a], reply.ids, 30 * sizeof **prompt);
            client_prompt(prompt[a] + n[a] + 30, 20, 1000 + 10 * turn + a);
            n[a] += 50;
        }
    print_message("reused %u of %u prompt ids\n", cached, total);
    assert_true(cached * 10 > total * 7);
    end(en);
}

/* A row whose numbers went bad fails again from the cache, and leaves its neighbours' prefixes alone. */
/* ML1: kept prefixes stay within the budget, whatever comes: the oldest go. */
static void test_budget(void **state)
{
    (void)state;
    const size_t budget = 512 << 10;
    struct engine *en = begin((struct engine_config){.rows = 2, .kv_budget = budget});
    assert_in_range(engine_kv_bytes(en), budget / 2, budget);
    uint32_t blocks = engine_kv_available(en);
    tok_id prompt[LONGEST];
    for (uint32_t i = 0; i < 200; i++) {
        client_prompt(prompt, 600, 500 + i);
        assert_int_equal(ask(en, prompt, 600, 2), 0);
    }
    assert_true(200 * 600 / KV_BLOCK > 3 * blocks); /* far more than fits */
    assert_true(ask(en, prompt, 600, 2) > 560);     /* the last one is there, the first one is not */
    client_prompt(prompt, 600, 500);
    assert_int_equal(ask(en, prompt, 600, 2), 0);
    assert_int_equal(engine_kv_available(en), blocks);
    end(en);
}

/* What EVENT_PROGRESS says of a prompt: where it begins, each step that feeds some of it, its end before the first id. */
static void watch(struct engine *en, const tok_id *prompt, uint32_t n, uint32_t cached)
{
    request_id id;
    struct err e = {.text = ""};
    struct event ev = {0};
    struct request rq = client_request(prompt, n, 3);
    uint32_t told = 0, fed = 0, ids = 0;
    rq.progress = true;
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_OK);
    while (ev.kind != EVENT_END) {
        assert_true(engine_wait(en, id, 60000));
        while (ev.kind != EVENT_END && engine_take(en, id, &ev, 1)) {
            ids += ev.kind == EVENT_TOKEN;
            if (ev.kind != EVENT_PROGRESS)
                continue;
            assert_true(!ids && !ev.text_n && ev.ms >= 0);
            assert_int_equal(ev.cached, cached);
            assert_true(told ? ev.fed > fed : ev.fed == cached);
            fed = ev.fed;
            told++;
        }
    }
    engine_close(en, id);
    assert_int_equal(fed, n);
    assert_int_equal(ids, 3);
    assert_int_equal(told, 1 + (n - cached + 99) / 100);
}

static void test_progress(void **state)
{
    (void)state;
    struct engine *en = begin((struct engine_config){.rows = 2, .chunk = 100});
    tok_id prompt[LONGEST];
    client_prompt(prompt, 700, 1);
    watch(en, prompt, 700, 0);
    watch(en, prompt, 700, 699);
    client_prompt(prompt + 640, 300, 2);
    watch(en, prompt, 940, 640);
    end(en);
}

static void test_failed_row(void **state)
{
    (void)state;
    struct engine *en = begin((struct engine_config){.rows = 2});
    tok_id prompt[LONGEST];
    client_prompt(prompt, 200, 9);
    assert_int_equal(ask(en, prompt, 200, 5), 0);
    tok_id kept = prompt[150];
    for (int i = 0; i < 2; i++) {
        request_id id;
        struct err e;
        prompt[150] = FAKE_POISON;
        struct request rq = client_request(prompt, 200, 5);
        assert_int_equal(engine_submit(en, &rq, &id, &e), ST_OK);
        memset(&reply, 0, sizeof reply);
        client_finish(en, id, &reply);
        assert_int_equal(reply.result.finish, FINISH_ERROR);
        assert_int_equal(reply.result.err.code, ST_STEP_FAILED);
    }
    prompt[150] = kept;
    assert_int_equal(ask(en, prompt, 200, 5), 199);
    end(en);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),  cmocka_unit_test(test_switched_off), cmocka_unit_test(test_turns),
        cmocka_unit_test(test_agents), cmocka_unit_test(test_failed_row),   cmocka_unit_test(test_budget),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
