/* engine: who runs, who waits and how much each feeds, with a clock of its own and turn by turn. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/sched.h"
#include "engine_client.h"

#define MANY 8

static struct fake_model fake;
static struct pool *workers;
static struct client_reply replies[MANY];
static request_id ids[MANY];
static struct engine *en;
static double now;

static double test_clock(void *ctx)
{
    (void)ctx;
    return now;
}

static const struct engine_cost millisecond_an_id = {.n = 2,
                                                     .point = {{1, 1}, {1000, 1000}},
                                                     .head_ms = 1e-6,
                                                     .attention_ms = 1e-6,
                                                     .decode_attention_ms = 1e-6,
                                                     .frozen = true};

static void begin(struct engine_config cfg, uint32_t positions)
{
    struct err e = {.text = ""};
    fake_init(&fake, 2048);
    fake.no_eos = true;
    fake.tuning = (struct engine_tuning){.manual = true, .clock = test_clock, .positions = positions};
    assert_int_equal(pool_new(&workers, 2, NULL), ST_OK);
    cfg.pool = workers;
    now = 1000;
    if (fake_engine(&en, &fake, &cfg, true, &e))
        fail_msg("engine: %s: %s", e.field, e.text);
}

static void end(void)
{
    engine_free(en);
    fake_release(&fake);
    pool_free(workers);
}

static void submit(uint32_t i, const struct request *rq)
{
    struct err e = {.text = ""};
    memset(&replies[i], 0, sizeof replies[i]);
    if (engine_submit(en, rq, &ids[i], &e))
        fail_msg("submit: %s: %s", e.field, e.text);
}

static bool done(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!replies[i].ended)
            return false;
    return true;
}

static void take(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!replies[i].ended)
            client_take(en, ids[i], &replies[i]);
}

static void turn(uint32_t n)
{
    double predicted, budget;
    engine_turn(en);
    engine_verify(en);
    engine_last_step(en, &predicted, &budget);
    now += 0.001;
    take(n);
}

static void finish(uint32_t n)
{
    for (uint32_t turns = 0; !done(n); turns++) {
        turn(n);
        if (turns > 20000)
            fail_msg("no end after %u turns", turns);
    }
    for (uint32_t i = 0; i < n; i++) {
        engine_result(en, ids[i], &replies[i].result);
        engine_close(en, ids[i]);
    }
}

/* --- one prefill for what begins alike ------------------------------------------------------------------------------- */

static void test_choices(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {700, 704, 703, 33, 20};
    for (int k = 0; k < 5; k++) {
        begin((struct engine_config){.rows = MANY}, 0);
        tok_id prompt[1000];
        uint32_t n = lengths[k];
        client_prompt(prompt, n, 3);
        for (uint32_t i = 0; i < 4; i++) {
            struct request rq = client_request(prompt, n, 10);
            rq.sampling.temperature = 1;
            rq.sampling.choice = i;
            submit(i, &rq);
        }
        finish(4);
        /* One whole prompt, the last id of it for each other choice, and every token but the last. */
        uint32_t again = n < KV_BLOCK ? 3 * n : 3;
        assert_int_equal(fake.fed, n + again + 4 * 9);
        for (uint32_t i = 0; i < 4; i++) {
            struct request rq = client_request(prompt, n, 10);
            rq.sampling.temperature = 1;
            rq.sampling.choice = i;
            assert_true(client_right(&fake, &rq, &replies[i]));
            assert_int_equal(replies[i].result.usage.cached_tokens, !i || n < KV_BLOCK ? 0 : n - 1);
        }
        end();
    }
}

/* Agents with one system prompt that arrive at the same time feed it once (PC5). */
static void test_agents_together(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = MANY}, 0);
    tok_id prompt[MANY][900];
    for (uint32_t i = 0; i < MANY; i++) {
        client_prompt(prompt[i], 640, 9);
        client_prompt(prompt[i] + 640, 40 + i, 100 + i);
        struct request rq = client_request(prompt[i], 680 + i, 5);
        submit(i, &rq);
    }
    finish(MANY);
    uint32_t want = 640;
    for (uint32_t i = 0; i < MANY; i++) {
        struct request rq = client_request(prompt[i], 680 + i, 5);
        assert_true(client_right(&fake, &rq, &replies[i]));
        want += 40 + i + 4;
    }
    assert_int_equal(fake.fed, want);
    end();
}

/* A row that is served before others does not wait for one that is served after them, though it begins like it. */
static void test_no_follower_of_a_larger_rank(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 3, .chunk = 4}, 0);
    tok_id prompt[600];
    client_prompt(prompt, 600, 21);
    for (uint32_t i = 0; i < 2; i++) {
        struct request rq = client_request(prompt, 600, 3);
        rq.priority = i ? -100 : 50;
        submit(i, &rq);
        turn(2);
    }
    uint32_t running, waiting;
    engine_load(en, &running, &waiting);
    assert_int_equal(running, 2);
    finish(2);
    end();
}

/* Who asked for no prefix cache does not lend what it fed, either. */
static void test_no_lender_without_cache(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 2}, 0);
    tok_id prompt[30];
    client_prompt(prompt, 30, 22);
    struct request rq = client_request(prompt, 30, 20);
    rq.no_prefix_cache = true;
    submit(0, &rq);
    turn(1);
    turn(1);
    rq.no_prefix_cache = false;
    submit(1, &rq);
    finish(2);
    assert_int_equal(replies[1].result.usage.cached_tokens, 0);
    end();
}

/* Rows whose readers only need a moment keep their blocks: nothing is fed twice. */
static void test_slow_scorers(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 2}, 0);
    static tok_id prompt[MANY][500];
    for (uint32_t i = 0; i < MANY; i++) {
        client_prompt(prompt[i], 500, 60 + i);
        struct request rq = client_request(prompt[i], 500, 1);
        rq.logprobs = 1;
        rq.prompt_logprobs = rq.prompt_only = true;
        submit(i, &rq);
    }
    for (uint32_t k = 0; !done(MANY); k++) {
        turn(0);
        now += 0.01;
        for (uint32_t i = 0; i < MANY && k % 5 == 0; i++) {
            struct event ev;
            while (!replies[i].ended && engine_take(en, ids[i], &ev, 1))
                replies[i].ended = ev.kind == EVENT_END;
        }
        assert_true(k < 2000);
    }
    finish(MANY);
    assert_int_equal(fake.fed, MANY * 500);
    struct engine_stats stats;
    engine_stats(en, &stats);
    assert_int_equal(stats.preemptions, 0);
    assert_int_equal(stats.prompt_tokens, MANY * 500);
    end();
}

/* Equal prompts of different salts share nothing, those of one salt do. */
static void test_salts(void **state)
{
    (void)state;
    static const char *const salts[] = {"a", "b", "a", "", "a\0", ""};
    static const size_t lengths[] = {1, 1, 1, 0, 2, 0};
    static const uint32_t cached[] = {0, 0, 299, 0, 0, 299};
    begin((struct engine_config){.rows = 2}, 0);
    tok_id prompt[300];
    client_prompt(prompt, 300, 4);
    for (int i = 0; i < 6; i++) {
        struct request rq = client_request(prompt, 300, 3);
        rq.salt = salts[i];
        rq.salt_n = lengths[i];
        submit(0, &rq);
        finish(1);
        assert_int_equal(replies[0].result.usage.cached_tokens, cached[i]);
        assert_int_equal(replies[0].result.usage.miss, cached[i] ? MISS_NONE : MISS_UNKNOWN);
    }
    struct request rq = client_request(prompt, 300, 3);
    rq.no_prefix_cache = true;
    submit(0, &rq);
    finish(1);
    assert_int_equal(replies[0].result.usage.cached_tokens, 0);
    assert_int_equal(replies[0].result.usage.miss, MISS_OFF);
    assert_false(replies[0].result.plan.match.on);
    end();
}

/* Where a prompt leaves what is kept, and why (PC3). */
static void test_misses(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 2}, 0);
    tok_id prompt[600];
    client_prompt(prompt, 600, 5);
    struct request rq = client_request(prompt, 330, 1);
    submit(0, &rq);
    finish(1);
    rq.prompt_n = 600;
    submit(0, &rq);
    finish(1);
    assert_int_equal(replies[0].result.usage.cached_tokens, 330);
    assert_int_equal(replies[0].result.usage.miss, MISS_NEW);
    prompt[211] ^= 1;
    submit(0, &rq);
    finish(1);
    assert_int_equal(replies[0].result.usage.cached_tokens, 211);
    assert_int_equal(replies[0].result.usage.miss, MISS_DIFFERS);
    end();
}

/* --- order ----------------------------------------------------------------------------------------------------------- */

/* Runs n requests of one row, submitted `gap` seconds apart, and returns the order in which they ended as digits. */
static uint32_t order_of(const int32_t *priorities, uint32_t n, double gap)
{
    static tok_id prompt[MANY][40];
    uint32_t order = 0;
    begin((struct engine_config){.rows = 1}, 0);
    for (uint32_t i = 0; i < n; i++) {
        client_prompt(prompt[i], 40, 50 + i);
        struct request rq = client_request(prompt[i], 40, 20);
        rq.priority = priorities[i];
        submit(i, &rq);
        turn(0); /* it arrives */
        now += gap;
    }
    bool seen[MANY] = {false};
    while (!done(n)) {
        turn(n);
        for (uint32_t i = 0; i < n; i++)
            if (replies[i].ended && !seen[i]) {
                seen[i] = true;
                order = order * 10 + i + 1;
            }
    }
    finish(n);
    end();
    return order;
}

static void test_priority(void **state)
{
    (void)state;
    assert_int_equal(order_of((const int32_t[]){0, 0, 0, 0}, 4, 0), 1234);
    assert_int_equal(order_of((const int32_t[]){0, 2, 0, -1}, 4, 0), 1432);
    assert_int_equal(order_of((const int32_t[]){100, 5, -5, -100}, 4, 0), 1432);
    /* One step of priority is worth five seconds: who waited longer goes first all the same. */
    assert_int_equal(order_of((const int32_t[]){0, 1, 0, 0}, 4, 6), 1234);
    assert_int_equal(order_of((const int32_t[]){0, 1, 0, 0}, 4, 4), 1324);
}

/* ML4: when blocks run out the largest rank gives them up, is resumed, and its ids are those of a request left in peace. */
static void test_victim(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 3}, 640);
    static tok_id prompt[3][200];
    static const int32_t priorities[] = {3, 0, 1};
    struct request rq[3];
    for (uint32_t i = 0; i < 3; i++) {
        client_prompt(prompt[i], 100, 70 + i);
        rq[i] = client_request(prompt[i], 100, 300);
        rq[i].priority = priorities[i];
        submit(i, &rq[i]);
    }
    finish(3);
    uint32_t all = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(client_right(&fake, &rq[i], &replies[i]));
        all += replies[i].result.usage.preemptions;
    }
    assert_true(all > 0);
    assert_int_equal(replies[1].result.usage.preemptions, 0);
    assert_true(replies[0].result.usage.preemptions >= replies[2].result.usage.preemptions);
    struct engine_stats stats;
    engine_stats(en, &stats);
    assert_int_equal(stats.preemptions, all);
    end();
}

/* CC2: equal clients that ask again and again get equally many replies, though there are fewer rows than clients. */
static void test_fair(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 3}, 0);
    double served[MANY] = {0}, sum = 0, squares = 0;
    static tok_id prompt[MANY][60];
    struct request rq[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        client_prompt(prompt[i], 60, 40 + i);
        rq[i] = client_request(prompt[i], 60, 12);
        submit(i, &rq[i]);
    }
    for (uint32_t k = 0; k < 1000; k++) {
        turn(MANY);
        for (uint32_t j = 0; j < MANY; j++) {
            /* Of those that ended together, not always the same asks first. */
            uint32_t i = (j + (uint32_t)(MANY * rng_uniform(1, 0, k, RNG_FINAL))) % MANY;
            if (!replies[i].ended)
                continue;
            served[i]++;
            engine_close(en, ids[i]);
            submit(i, &rq[i]);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        sum += served[i];
        squares += served[i] * served[i];
        engine_cancel(en, ids[i]);
    }
    assert_true(sum > 200);
    assert_true(sum * sum / (MANY * squares) > 0.99); /* Jain's index */
    finish(MANY);
    end();
}

/* --- the budget ------------------------------------------------------------------------------------------------------ */

/* CC1, CC3: a long prompt does not hold up streams. A millisecond an id: beside a row that decodes, 49 ids of prompts a
 * step; alone, 199. */
static void test_budget(void **state)
{
    (void)state;
    const struct engine_cost cost = millisecond_an_id;
    begin((struct engine_config){.rows = MANY, .cost = &cost}, 0);
    static tok_id prompt[MANY][1000];
    struct request rq[MANY];
    for (uint32_t i = 0; i < 3; i++) {
        client_prompt(prompt[i], 1000, 80 + i);
        rq[i] = client_request(prompt[i], i ? 600 : 10, i ? 3 : 100);
    }
    submit(0, &rq[0]);
    turn(1);
    submit(1, &rq[1]);
    submit(2, &rq[2]);
    fake.most_tokens = fake.most_spans = 0;
    for (int i = 0; i < 10; i++) {
        uint32_t before = fake.fed, had = replies[0].n;
        double predicted, budget;
        turn(3);
        engine_last_step(en, &predicted, &budget);
        assert_true(budget == 50 && predicted <= budget);
        assert_int_equal(fake.fed - before, 49); /* 50 ids and their heads would be a little over */
        assert_int_equal(replies[0].n, had + 1); /* the stream goes on with every step */
    }
    assert_int_equal(fake.most_spans, 3); /* both prompts together */
    finish(3);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(client_right(&fake, &rq[i], &replies[i]));
    end();

    begin((struct engine_config){.rows = 1, .cost = &cost}, 0);
    submit(0, &rq[1]);
    turn(1);
    assert_int_equal(fake.fed, 199);
    finish(1);
    end();

    /* A machine on which even one id takes longer than the budget still feeds four of a prompt. */
    const struct engine_cost slow = {
        .n = 1, .point = {{1, 500}}, .head_ms = 1e-6, .attention_ms = 1e-6, .decode_attention_ms = 1e-6, .frozen = true};
    begin((struct engine_config){.rows = 2, .cost = &slow, .itl_ms = 20}, 0);
    rq[0].max_tokens = 20;
    submit(0, &rq[0]);
    finish(1);
    submit(0, &rq[0]);
    while (!replies[0].n)
        turn(1);
    submit(1, &rq[1]);
    uint32_t before = fake.fed;
    turn(2);
    assert_int_equal(fake.fed - before, 5);
    engine_cancel(en, ids[1]);
    finish(2);
    end();
}

/* --- deadlines ------------------------------------------------------------------------------------------------------- */

static void test_deadline(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 1}, 0);
    static tok_id prompt[2][50];
    for (uint32_t i = 0; i < 2; i++) {
        client_prompt(prompt[i], 50, 90 + i);
        struct request rq = client_request(prompt[i], 50, 1500);
        rq.deadline_ms = i ? 100 : 300; /* the second one's passes while it waits */
        submit(i, &rq);
    }
    finish(2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(replies[i].result.finish, FINISH_ERROR);
        assert_int_equal(replies[i].result.err.code, ST_DEADLINE);
    }
    assert_int_equal(replies[1].n, 0);
    assert_in_range(replies[0].n, 100, 400);
    end();
}

/* --- log-probabilities of the prompt --------------------------------------------------------------------------------- */

static uint32_t told;
static struct event prompt_events[700];

static void take_prompt(void)
{
    struct event ev;
    while (engine_take(en, ids[0], &ev, 1)) {
        if (ev.kind == EVENT_PROMPT)
            prompt_events[told++] = ev;
        else if (ev.kind == EVENT_TOKEN)
            replies[0].ids[replies[0].n++] = ev.id;
        replies[0].ended |= ev.kind == EVENT_END;
    }
}

static void score(const struct request *rq, uint32_t others)
{
    told = 0;
    submit(0, rq);
    for (int i = 0; !replies[0].ended && i < 5000; i++) {
        turn(0);
        take_prompt();
        for (uint32_t k = 1; k <= others; k++)
            client_take(en, ids[k], &replies[k]);
    }
    assert_true(replies[0].ended);
    engine_result(en, ids[0], &replies[0].result);
    engine_close(en, ids[0]);
}

/* Each prompt id's log-probability is what that id would have been reported with as an output after the ids before it. */
static void check_scores(const tok_id *prompt, uint32_t n)
{
    assert_int_equal(told, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(prompt_events[i].id, prompt[i]);
        assert_int_equal(prompt_events[i].top_n, i ? 2 : 0);
        if (!i)
            continue;
        float want = fake_logprob(&fake, prompt, i, prompt[i]);
        assert_true(fabsf(prompt_events[i].logprob - want) < 1e-5f);
        assert_true(prompt_events[i].top[0].logprob >= prompt_events[i].top[1].logprob);
        assert_true(prompt_events[i].top[0].logprob >= prompt_events[i].logprob);
    }
}

static void test_prompt_logprobs(void **state)
{
    (void)state;
    static tok_id prompt[700];
    client_prompt(prompt, 700, 11);
    begin((struct engine_config){.rows = 3}, 0);
    struct request rq = client_request(prompt, 300, 5);
    submit(0, &rq); /* the prefix is there, and must not be used */
    finish(1);
    rq.logprobs = 3;
    rq.prompt_logprobs = true;
    score(&rq, 0);
    check_scores(prompt, 300);
    assert_int_equal(replies[0].result.usage.cached_tokens, 0);
    assert_int_equal(replies[0].result.usage.miss, MISS_OFF);
    assert_int_equal(replies[0].result.usage.head_positions, 299 + 5);
    rq.logprobs = 0;
    rq.prompt_logprobs = false;
    assert_true(client_right(&fake, &rq, &replies[0]));

    rq.logprobs = 3;
    rq.prompt_logprobs = rq.prompt_only = true;
    rq.prompt_n = 1;
    score(&rq, 0);
    check_scores(prompt, 1);
    rq.prompt_n = 257;
    score(&rq, 0);
    check_scores(prompt, 257);
    assert_int_equal(replies[0].n, 0);
    assert_int_equal(replies[0].result.finish, FINISH_LENGTH);
    assert_false(replies[0].result.kv_exhausted);
    assert_int_equal(replies[0].result.usage.completion_tokens, 0);

    prompt[150] = FAKE_POISON;
    score(&rq, 0);
    assert_int_equal(replies[0].result.err.code, ST_STEP_FAILED);
    assert_int_equal(told, 151); /* the poison itself was foreseen; nothing after it */
    end();
}

/* Put back in the middle of its prompt, it tells every id once. */
static void test_prompt_logprobs_resumed(void **state)
{
    (void)state;
    static tok_id prompt[700], other[200];
    client_prompt(prompt, 700, 12);
    const struct engine_cost cost = millisecond_an_id;
    begin((struct engine_config){.rows = 2, .cost = &cost, .itl_ms = 5}, 18 * KV_BLOCK);
    client_prompt(other, 100, 13);
    struct request rival = client_request(other, 100, 200);
    rival.priority = -50;
    submit(1, &rival);
    while (!replies[1].n)
        turn(2);
    struct request rq = client_request(prompt, 400, 3);
    rq.logprobs = 3;
    rq.prompt_logprobs = rq.prompt_only = true;
    score(&rq, 1);
    check_scores(prompt, 400);
    assert_true(replies[0].result.usage.preemptions > 0);
    replies[0].ended = true;
    while (!replies[1].ended)
        turn(2);
    engine_close(en, ids[1]);
    end();
}

/* --- looking at it --------------------------------------------------------------------------------------------------- */

static void *look(void *view)
{
    return engine_look(en, view, NULL) == ST_OK ? view : NULL;
}

static void test_look(void **state)
{
    (void)state;
    begin((struct engine_config){.rows = 2}, 0);
    static tok_id prompt[3][400];
    for (uint32_t i = 0; i < 3; i++) {
        client_prompt(prompt[i], 400, 30 + i);
        struct request rq = client_request(prompt[i], 400, 1600);
        rq.name = i == 1 ? "the second" : NULL;
        submit(i, &rq);
    }
    turn(3);
    turn(3);
    struct engine_row_view rows[2];
    struct engine_view view = {.rows = rows, .cap = 2};
    pthread_t t;
    void *got = NULL;
    assert_int_equal(pthread_create(&t, NULL, look, &view), 0);
    while (pthread_tryjoin_np(t, &got)) {
        turn(3);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    assert_ptr_equal(got, &view);
    assert_int_equal(view.n, 2);
    assert_int_equal(view.queued, 1);
    assert_true(rows[0].running && rows[1].running);
    assert_string_equal(rows[1].name, "the second");
    assert_int_equal(rows[0].prompt_tokens, 400);
    assert_int_equal(rows[0].fed_tokens, 400 + rows[0].completion_tokens - 1);
    assert_true(view.kv.used >= 2 * 13 && view.kv.used <= view.kv.blocks);
    for (uint32_t i = 0; i < 3; i++)
        engine_cancel(en, ids[i]);
    finish(3);
    engine_stop(en);
    struct err e;
    assert_int_equal(engine_look(en, &view, &e), ST_BUSY);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices), cmocka_unit_test(test_agents_together), cmocka_unit_test(test_salts),
        cmocka_unit_test(test_misses),  cmocka_unit_test(test_priority),        cmocka_unit_test(test_victim),
        cmocka_unit_test(test_budget),  cmocka_unit_test(test_deadline),        cmocka_unit_test(test_prompt_logprobs),
        cmocka_unit_test(test_prompt_logprobs_resumed), cmocka_unit_test(test_look),
        cmocka_unit_test(test_fair), cmocka_unit_test(test_no_follower_of_a_larger_rank),
        cmocka_unit_test(test_no_lender_without_cache), cmocka_unit_test(test_slow_scorers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
