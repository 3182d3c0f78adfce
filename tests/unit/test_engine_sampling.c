/* engine: every sampler on rows that share steps and lose their blocks. Lists and sets of ids belong to the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_client.h"

#define MANY 24u
#define BIASES 30u
#define SET_BYTES ((FAKE_VOCAB + 7) / 8)

static struct fake_model fake;
static struct client_reply replies[MANY];
static tok_id prompts[MANY][60];

/* What a request points to. */
struct lists {
    struct sample_bias bias[BIASES];
    uint8_t breakers[SET_BYTES], protect[SET_BYTES], ends[SET_BYTES];
};

static void fill_lists(struct lists *l, uint32_t i)
{
    memset(l, 0, sizeof *l);
    for (uint32_t k = 0; k < BIASES; k++)
        l->bias[k] = (struct sample_bias){(tok_id)(k * 7 + i), k % 3 ? -100 : 1.5f};
    for (uint32_t k = 0; k < SET_BYTES; k++) {
        l->breakers[k] = k % 9 == i % 9 ? 0x11 : 0;
        l->protect[k] = (uint8_t)(k + i);
    }
    l->ends[FAKE_EOS / 8] = 1u << FAKE_EOS % 8;
}

static struct request varied(uint32_t i, const struct lists *l)
{
    client_prompt(prompts[i], 20 + i, i);
    struct request rq = client_request(prompts[i], 20 + i, 60 + i);
    struct sample_params *p = &rq.sampling;
    p->seed = i;
    p->temperature = i % 6 ? 0.9f : 0;
    p->presence_penalty = i % 2 ? 0.5f : 0;
    p->frequency_penalty = i % 3 ? 0 : 0.3f;
    p->penalty_last = i % 4 ? 0 : 30;
    p->dry_multiplier = i % 5 ? 0 : 1;
    p->breakers = (struct sample_set){l->breakers, FAKE_VOCAB};
    p->protect = (struct sample_set){l->protect, FAKE_VOCAB};
    p->ends = (struct sample_set){l->ends, FAKE_VOCAB};
    p->min_tokens = i % 3 ? 0 : 50;
    p->bias = l->bias;
    p->bias_n = i % 4 == 1 ? BIASES : 0;
    if (i % 3 == 1) {
        p->mirostat = 1 + i % 2;
        p->mirostat_tau = 3;
        return rq;
    }
    p->typical_p = i % 2 ? 1 : 0.9f;
    p->xtc_probability = i % 4 ? 0 : 0.7f;
    p->xtc_threshold = 0.01f;
    p->top_n_sigma = i % 7 ? 0 : 1;
    p->dynatemp_range = i % 5 ? 0 : 0.5f;
    return rq;
}

/* Each request gives what it gives alone, although its blocks were taken away, mirostat's state included, and although the
 * client's lists were gone as soon as it was submitted. */
static void test_rows_keep_what_they_need(void **state)
{
    (void)state;
    struct pool *pool;
    struct engine *en;
    struct err e = {.text = ""};
    request_id id[MANY];
    uint32_t ids = 0, not_before_min = 0;
    assert_int_equal(pool_new(&pool, 2, NULL), ST_OK);
    fake_init(&fake, 300);
    struct engine_config cfg = {.pool = pool, .rows = 8, .context = 256, .kv_budget = 64 << 10};
    if (fake_engine(&en, &fake, &cfg, true, &e))
        fail_msg("engine: %s", e.text);
    for (uint32_t i = 0; i < MANY; i++) {
        struct lists lent;
        fill_lists(&lent, i);
        struct request rq = varied(i, &lent);
        if (engine_submit(en, &rq, &id[i], &e))
            fail_msg("submit: %s", e.text);
        memset(&lent, 0xFF, sizeof lent);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        struct lists own;
        fill_lists(&own, i);
        struct request rq = varied(i, &own);
        client_finish(en, id[i], &replies[i]);
        if (!client_right(&fake, &rq, &replies[i]))
            fail_msg("request %u gave other ids than alone", i);
        ids += rq.prompt_n + replies[i].n;
        if (rq.sampling.min_tokens) {
            assert_true(replies[i].n >= rq.sampling.min_tokens);
            not_before_min++;
        }
        for (uint32_t k = 0; k < replies[i].n && rq.sampling.bias_n; k++)
            for (uint32_t b = 0; b < BIASES; b++)
                assert_true(replies[i].ids[k] != own.bias[b].id || b % 3 == 0);
    }
    assert_true(not_before_min == MANY / 3);
    assert_true(fake.fed > ids); /* some were put back */
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
}

static void test_refused(void **state)
{
    (void)state;
    struct pool *pool;
    struct engine *en;
    struct err e = {.text = ""};
    request_id id;
    const tok_id prompt[] = {1, 2};
    const struct sample_bias bias[] = {{FAKE_VOCAB, 1}};
    assert_int_equal(pool_new(&pool, 1, NULL), ST_OK);
    fake_init(&fake, 300);
    struct engine_config cfg = {.pool = pool, .rows = 1, .context = 64};
    assert_int_equal(fake_engine(&en, &fake, &cfg, true, &e), ST_OK);
    struct request rq = client_request(prompt, 2, 5);
    rq.sampling.bias = bias;
    rq.sampling.bias_n = 1;
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_ARGUMENT);
    assert_string_equal(e.field, "logit_bias");
    rq = client_request(prompt, 2, 5);
    rq.sampling.min_tokens = 6;
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_ARGUMENT);
    assert_string_equal(e.field, "min_tokens");
    /* The largest sets there can be fit a row's arena. */
    uint8_t *bits = calloc(LIMIT_VOCAB / 8, 1);
    struct sample_bias *most = calloc(LIMIT_BIAS, sizeof *most);
    rq.sampling.min_tokens = 5;
    rq.sampling.breakers = rq.sampling.protect = rq.sampling.ends = (struct sample_set){bits, LIMIT_VOCAB};
    rq.sampling.bias = most;
    rq.sampling.bias_n = LIMIT_BIAS;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(engine_submit(en, &rq, &id, &e), ST_OK);
        memset(&replies[0], 0, sizeof replies[0]);
        client_finish(en, id, &replies[0]);
        assert_true(client_right(&fake, &rq, &replies[0]));
    }
    free(bits);
    free(most);
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_keep_what_they_need),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
