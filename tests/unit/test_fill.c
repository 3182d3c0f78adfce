/*
 * fill: rows that go on over more than one id a step. The model's next id is the last one plus one, so what sources say
 * is simple, and each test writes it down. That every reply is as without sources under random load is shown by
 * tests/sim; here are the cases by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_client.h"

#define LAST 280 /* behind it comes the end */

static tok_id after(tok_id id)
{
    return id == LAST ? FAKE_EOS : id + 1;
}

static tok_id plus_one(const tok_id *ids, uint32_t n)
{
    return after(ids[n - 1]);
}

/* A source that proposes the next `n` ids, of which those from `right` on are wrong. */
struct counter {
    struct source source;
    struct source_ops ops;
    uint32_t n, right;
    enum source_trust trust;
    float chance;
    uint32_t proposals, offered, accepted, never_run, asked;
    float price;
};

static void count_on(struct source *s, const struct source_ask *asks, uint32_t n)
{
    struct counter *c = (struct counter *)s;
    for (uint32_t i = 0; i < n; i++) {
        const struct source_row *row = asks[i].row;
        struct source_proposal *p = asks[i].out;
        c->asked++;
        c->price = asks[i].price;
        p->trust = c->trust;
        for (uint32_t k = 0; k < c->n && k < SOURCE_SPAN; k++) {
            p->chance[k] = c->chance;
            p->id[p->n++] = k >= c->right ? 1 : after(k ? p->id[k - 1] : row->ids[row->n - 1]);
        }
        c->proposals += c->n > 0;
    }
}

static void note(struct source *s, const struct source_row *row, uint32_t ticket, uint32_t offered, uint32_t accepted)
{
    struct counter *c = (struct counter *)s;
    (void)row;
    (void)ticket;
    c->offered += offered;
    c->accepted += accepted;
    c->never_run += !offered;
}

static void keep(struct source *s)
{
    (void)s;
}

static struct counter counter_of(enum source_kind kind, enum source_trust trust, uint32_t n, uint32_t right)
{
    return (struct counter){.ops = {.kind = kind, .propose = count_on, .settle = note, .free = keep},
                            .n = n, .right = right, .trust = trust, .chance = 0.9f};
}

/* One that is right, certain of it or not. */
static struct counter either(bool certain, uint32_t n)
{
    return certain ? counter_of(SOURCE_GRAMMAR, SOURCE_ASSERT, n, n) : counter_of(SOURCE_ECHO, SOURCE_VERIFY, n, n);
}

/* An engine whose sources are the test's; steps are driven by hand. */
static struct fake_model fake;
static struct pool *pool;
static struct engine *en;
static struct client_reply reply;
static struct source *sources[SOURCE_KINDS];
static struct engine_cost cost;

static void use(struct counter *c)
{
    c->source.ops = &c->ops;
    sources[c->ops.kind] = &c->source;
}

static void open_engine(uint32_t rows)
{
    struct err e = {.text = ""};
    assert_int_equal(pool_new(&pool, 1, NULL), ST_OK);
    fake_init(&fake, 500);
    fake.next = plus_one;
    fake.tuning = (struct engine_tuning){.manual = true, .source = sources};
    static const struct engine_cost cheap = {.n = 2, .point = {{1, 1}, {64, 1.5}}, .head_ms = 0.01, .attention_ms = 1e-6,
                                             .decode_attention_ms = 1e-6, .frozen = true};
    const struct engine_config cfg = {.pool = pool, .rows = rows, .context = 400, .cost = cost.n ? &cost : &cheap};
    if (fake_engine(&en, &fake, &cfg, true, &e))
        fail_msg("engine: %s", e.text);
}

static void close_engine(void)
{
    engine_free(en);
    fake_release(&fake);
    pool_free(pool);
    memset(sources, 0, sizeof sources);
    cost.n = 0;
}

/* To the end; returns how many turns did something. */
static uint32_t drive(request_id id, struct client_reply *r)
{
    uint32_t steps = 0;
    memset(r, 0, sizeof *r);
    for (int turns = 0; !r->ended; turns++) {
        assert_true(turns < 1000);
        steps += engine_turn(en);
        engine_verify(en);
        client_take(en, id, r);
    }
    engine_result(en, id, &r->result);
    engine_close(en, id);
    return steps;
}

static const struct source_counts *counts(enum source_kind k)
{
    return &reply.result.usage.by_source[k];
}

static void check_counting(tok_id first, uint32_t n)
{
    assert_int_equal(reply.n, n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(reply.ids[i], first + (tok_id)i);
}

static const tok_id prompt[] = {3, 4, 5};

/* Ids that are certain cost no head, and no step of their own. */
static void test_certain_ids_need_no_head(void **state)
{
    (void)state;
    struct counter c = counter_of(SOURCE_GRAMMAR, SOURCE_ASSERT, 5, 5);
    use(&c);
    open_engine(2);
    struct request rq = client_request(prompt, 3, 12);
    drive(client_submit(en, &rq), &reply);
    check_counting(6, 12);
    assert_int_equal(reply.result.usage.head_positions, 0); /* nothing was ever left to choose */
    assert_int_equal(counts(SOURCE_GRAMMAR)->asserted, 12);
    assert_int_equal(reply.result.usage.sampled, 0);
    assert_int_equal(reply.result.finish, FINISH_LENGTH);
    close_engine();
}

/* A span of likely ids: all accepted, and one more is chosen behind it. */
static void test_likely_ids_and_the_one_behind(void **state)
{
    (void)state;
    struct counter c = counter_of(SOURCE_ECHO, SOURCE_VERIFY, 4, 4);
    use(&c);
    open_engine(2);
    struct request rq = client_request(prompt, 3, 16);
    uint32_t steps = drive(client_submit(en, &rq), &reply);
    check_counting(6, 16);
    assert_int_equal(c.accepted, c.offered);
    assert_int_equal(counts(SOURCE_ECHO)->accepted + reply.result.usage.sampled, 16);
    assert_true(steps <= 5);
    close_engine();
}

/* Wrong from some id on: those before stand, the correction is chosen, everything behind is cut off again. */
static void test_mismatch_keeps_the_correction(void **state)
{
    (void)state;
    for (uint32_t right = 0; right < 5; right++) {
        struct counter c = counter_of(SOURCE_DRAFT, SOURCE_VERIFY, 5, right);
        use(&c);
        open_engine(2);
        struct request rq = client_request(prompt, 3, 40);
        drive(client_submit(en, &rq), &reply);
        check_counting(6, 40);
        assert_true(c.offered > c.accepted);
        /* Those behind the first difference say nothing about the source, but they were computed in vain. */
        assert_true(counts(SOURCE_DRAFT)->rejected >= c.offered - c.accepted);
        assert_int_equal(counts(SOURCE_DRAFT)->rejected, counts(SOURCE_DRAFT)->proposed - counts(SOURCE_DRAFT)->accepted);
        close_engine();
    }
}

/* No proposal runs beyond max_tokens; one token is one token. */
static void test_budget(void **state)
{
    (void)state;
    for (uint32_t most = 1; most < 12; most++)
        for (int trust = 0; trust < 2; trust++) {
            struct counter c = either(trust, 5);
            use(&c);
            open_engine(1);
            struct request rq = client_request(prompt, 3, most);
            drive(client_submit(en, &rq), &reply);
            check_counting(6, most);
            assert_int_equal(reply.result.finish, FINISH_LENGTH);
            assert_int_equal(reply.result.usage.completion_tokens, most);
            close_engine();
        }
}

/* The end token ends the reply wherever it comes: proposed, as the correction, behind a span. It is never content. */
static void test_end_token(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 9; n++) {
        struct counter c = counter_of(SOURCE_ECHO, SOURCE_VERIFY, n, n);
        const tok_id late[] = {LAST - 7};
        use(&c);
        open_engine(1);
        struct request rq = client_request(late, 1, 100);
        drive(client_submit(en, &rq), &reply);
        check_counting(LAST - 6, 7);
        assert_int_equal(reply.result.finish, FINISH_STOP);
        assert_int_equal(reply.result.usage.completion_tokens, 8);
        close_engine();
    }
}

/* A stop string that lies across what was proposed ends the text before it, as ever. */
static void test_stop_string_inside_a_span(void **state)
{
    (void)state;
    const struct request_stop stop = {"mno", 3};
    for (uint32_t n = 0; n < 20; n++)
        for (int trust = 0; trust < 2; trust++) {
            struct counter c = either(trust, n);
            use(&c);
            open_engine(1);
            struct request rq = client_request(prompt, 3, 60);
            rq.stops = &stop;
            rq.stops_n = 1;
            drive(client_submit(en, &rq), &reply);
            assert_string_equal(reply.text, "ghijkl"); /* id 6 is g */
            check_counting(6, 9);
            assert_int_equal(reply.result.finish, FINISH_STOP);
            assert_int_equal(reply.result.usage.completion_tokens, 9);
            /* What was fed is in the cache, under the ids that were fed. */
            memset(&reply, 0, sizeof reply);
            tok_id again[40];
            for (tok_id i = 0; i < 40; i++)
                again[i] = 3 + i;
            struct request next = client_request(again, 40, 5);
            drive(client_submit(en, &next), &reply);
            check_counting(43, 5);
            close_engine();
        }
}

/* Far more ids in a step than the ring has room for: the row waits, and nothing is lost. */
static void test_reader_slower_than_a_burst(void **state)
{
    (void)state;
    struct counter c = counter_of(SOURCE_GRAMMAR, SOURCE_ASSERT, 60, 60);
    use(&c);
    open_engine(1);
    struct request rq = client_request(prompt, 3, 240);
    request_id id = client_submit(en, &rq);
    memset(&reply, 0, sizeof reply);
    for (int i = 0; i < 50; i++)
        engine_turn(en);
    assert_int_equal(reply.events, 0);
    drive(id, &reply);
    check_counting(6, 240);
    close_engine();
}

/* Log-probabilities need every position's head: the same values, nothing is taken without asking. */
static void test_log_probabilities(void **state)
{
    (void)state;
    for (int trust = 0; trust < 2; trust++) {
        struct counter c = either(trust, 4);
        use(&c);
        open_engine(1);
        struct request rq = client_request(prompt, 3, 20);
        rq.logprobs = 3;
        request_id id = client_submit(en, &rq);
        struct event ev;
        uint32_t n = 0;
        bool ended = false;
        tok_id all[23] = {3, 4, 5};
        while (!ended) {
            engine_turn(en);
            while (engine_take(en, id, &ev, 1)) {
                ended = ev.kind == EVENT_END;
                if (ended)
                    continue;
                assert_true(ev.logprob == fake_logprob(&fake, all, 3 + n, ev.id));
                assert_int_equal(ev.top_n, 2);
                assert_int_equal(ev.top[0].id, ev.id);
                all[3 + n++] = ev.id;
            }
        }
        engine_result(en, id, &reply.result);
        assert_int_equal(n, 20);
        assert_true(counts(c.ops.kind)->accepted > 0);
        assert_int_equal(counts(c.ops.kind)->asserted, 0);
        assert_true(reply.result.usage.head_positions >= 20);
        assert_false(reply.result.plan.skip_head.on);
        engine_close(en, id);
        close_engine();
    }
}

/* What does not pay is not run: steps cost as many times more as they have ids. */
static void test_likely_ids_have_to_pay(void **state)
{
    (void)state;
    struct counter c = counter_of(SOURCE_ECHO, SOURCE_VERIFY, 8, 8);
    cost = (struct engine_cost){.n = 1, .point = {{1, 1}}, .head_ms = 0.1, .attention_ms = 1e-6,
                                .decode_attention_ms = 1e-6, .frozen = true};
    use(&c);
    open_engine(1);
    struct request rq = client_request(prompt, 3, 20);
    drive(client_submit(en, &rq), &reply);
    check_counting(6, 20);
    assert_int_equal(c.offered, 0);
    assert_int_equal(c.never_run, c.proposals);
    assert_true(c.proposals > 0 && c.price >= 1);
    assert_int_equal(counts(SOURCE_ECHO)->proposed, 0);
    close_engine();

    /* The same source where eight ids cost as one. */
    c.proposals = c.never_run = 0;
    cost = (struct engine_cost){.n = 2, .point = {{1, 1}, {16, 1.1}}, .head_ms = 0.01, .attention_ms = 1e-6,
                                .decode_attention_ms = 1e-6, .frozen = true};
    use(&c);
    open_engine(1);
    drive(client_submit(en, &rq), &reply);
    check_counting(6, 20);
    assert_true(c.accepted >= 14);
    close_engine();
}

/* Rows with and without sources share steps and leave one by one. */
static void test_rows_of_all_kinds_share_steps(void **state)
{
    (void)state;
    enum { ROWS = 6 };
    static struct client_reply r[ROWS];
    struct counter grammar = counter_of(SOURCE_GRAMMAR, SOURCE_ASSERT, 2, 2);
    struct counter echo = counter_of(SOURCE_ECHO, SOURCE_VERIFY, 4, 3);
    request_id id[ROWS];
    use(&grammar);
    use(&echo);
    open_engine(ROWS);
    memset(r, 0, sizeof r);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct request rq = client_request(prompt, 3, 10 + 7 * i);
        rq.fill = i % 3 ? FILL_LOSSLESS : FILL_OFF;
        rq.sources_off = i % 2 ? 1u << SOURCE_GRAMMAR : 0;
        id[i] = client_submit(en, &rq);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        while (!r[i].ended) {
            engine_turn(en);
            engine_verify(en);
            for (uint32_t k = 0; k < ROWS; k++)
                if (!r[k].ended)
                    client_take(en, id[k], &r[k]);
        }
        engine_result(en, id[i], &r[i].result);
        engine_close(en, id[i]);
        reply = r[i];
        check_counting(6, 10 + 7 * i);
        bool off = i % 3 == 0;
        assert_int_equal(counts(SOURCE_GRAMMAR)->asserted > 0, !off && i % 2 == 0);
        assert_int_equal(counts(SOURCE_ECHO)->proposed > 0, !off && i % 2 == 1);
        assert_int_equal(reply.result.plan.source[SOURCE_ECHO].on, !off);
        assert_int_equal(reply.result.usage.sampled == 10 + 7 * i, off);
    }
    close_engine();
}

/* A recorded reply is repeated, whatever the model would choose; what is certain must agree with it. */
static void test_imposed(void **state)
{
    (void)state;
    const tok_id right[] = {6, 7, 8, 50, 51, 52, 53, 9, FAKE_EOS}, wrong[] = {6, 7, 9, 10};
    struct counter c = counter_of(SOURCE_ECHO, SOURCE_VERIFY, 4, 4);
    use(&c);
    open_engine(1);
    struct request rq = client_request(prompt, 3, 9);
    rq.imposed = right;
    rq.imposed_n = 9;
    drive(client_submit(en, &rq), &reply);
    assert_int_equal(reply.n, 8);
    assert_memory_equal(reply.ids, right, 8 * sizeof *right);
    assert_int_equal(reply.result.finish, FINISH_STOP);
    assert_true(c.accepted > 0 && c.accepted < c.offered);
    close_engine();

    struct counter sure = counter_of(SOURCE_GRAMMAR, SOURCE_ASSERT, 3, 3);
    use(&sure);
    open_engine(1);
    rq.max_tokens = rq.imposed_n = 4;
    rq.imposed = wrong;
    drive(client_submit(en, &rq), &reply);
    assert_int_equal(reply.result.finish, FINISH_ERROR);
    assert_string_equal(reply.result.err.field, "imposed");
    close_engine();
}

/* Strict mode takes what is determined; what is only likely is compared. */
static void say_five(struct source *s, const struct source_ask *asks, uint32_t n)
{
    (void)s;
    for (uint32_t i = 0; i < n; i++) {
        struct source_proposal *p = asks[i].out;
        for (uint32_t k = 0; k < 5; k++) {
            p->chance[k] = 0.99f;
            p->id[p->n++] = k ? 9 : after(asks[i].row->ids[asks[i].row->n - 1]); /* the first is right */
        }
        p->sure = 1;
    }
}

static void test_strict_takes_what_is_sure(void **state)
{
    (void)state;
    struct counter c = counter_of(SOURCE_TEMPLATE, SOURCE_VERIFY, 0, 0);
    c.ops.propose = say_five;
    use(&c);
    open_engine(1);
    struct request rq = client_request(prompt, 3, 12);
    rq.fill = FILL_STRICT;
    drive(client_submit(en, &rq), &reply);
    check_counting(6, 12);
    assert_true(counts(SOURCE_TEMPLATE)->asserted > 0);
    close_engine();
}

/* Equal rows share the heads of a step. */
static void test_rows_share_the_heads(void **state)
{
    (void)state;
    static struct client_reply r[4];
    struct counter c = counter_of(SOURCE_ECHO, SOURCE_VERIFY, 60, 60);
    request_id id[4];
    c.chance = 0.999f;
    use(&c);
    open_engine(4);
    memset(r, 0, sizeof r);
    struct request rq = client_request(prompt, 3, 200);
    for (int i = 0; i < 4; i++)
        id[i] = client_submit(en, &rq);
    for (int turn = 0; turn < 6; turn++) {
        engine_turn(en);
        for (int i = 0; i < 4; i++)
            client_take(en, id[i], &r[i]);
    }
    for (int i = 1; i < 4; i++)
        assert_in_range(r[i].n, 20, r[0].n + 20);
    for (int i = 0; i < 4; i++)
        engine_close(en, id[i]);
    close_engine();
}

/* A row with much that is certain does not keep a prompt out of the steps. */
static void test_certain_ids_leave_room_for_prompts(void **state)
{
    (void)state;
    static struct client_reply a, b;
    static tok_id long_prompt[300];
    struct counter c = counter_of(SOURCE_GRAMMAR, SOURCE_ASSERT, 64, 64);
    use(&c);
    open_engine(2);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    for (int i = 0; i < 300; i++)
        long_prompt[i] = 3 + i % 100;
    struct request first = client_request(long_prompt, 100, 250), second = client_request(long_prompt + 7, 30, 1);
    second.fill = FILL_OFF;
    request_id ia = client_submit(en, &first);
    engine_turn(en);
    request_id ib = client_submit(en, &second);
    for (int turn = 0; turn < 20 && !b.ended; turn++) {
        engine_turn(en);
        client_take(en, ia, &a);
        client_take(en, ib, &b);
    }
    assert_true(b.ended);
    engine_close(en, ia);
    engine_close(en, ib);
    close_engine();
}

/* Nobody gives its blocks up for another's guesses, nor for its own. */
static void test_guesses_preempt_nobody(void **state)
{
    (void)state;
    static struct client_reply a, b;
    struct counter c = counter_of(SOURCE_ECHO, SOURCE_VERIFY, 60, 60);
    uint32_t times[2];
    static tok_id ids[130];
    for (int i = 0; i < 130; i++)
        ids[i] = 3 + i;
    for (int fill = 0; fill < 2; fill++) {
        struct err e = {.text = ""};
        static const struct engine_cost cheap = {.n = 2, .point = {{1, 1}, {64, 1.5}}, .head_ms = 0.01,
                                                 .attention_ms = 1e-6, .decode_attention_ms = 1e-6, .frozen = true};
        use(&c);
        assert_int_equal(pool_new(&pool, 1, NULL), ST_OK);
        fake_init(&fake, 500);
        fake.next = plus_one;
        fake.tuning = (struct engine_tuning){.manual = true, .source = sources, .positions = 176};
        const struct engine_config cfg = {.pool = pool, .rows = 2, .context = 176, .cost = &cheap};
        if (fake_engine(&en, &fake, &cfg, true, &e))
            fail_msg("engine: %s", e.text);
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        struct request first = client_request(ids, 97, 60), second = client_request(ids + 50, 30, 100);
        first.fill = FILL_OFF;
        second.fill = fill ? FILL_LOSSLESS : FILL_OFF;
        request_id ia = client_submit(en, &first);
        engine_turn(en);
        request_id ib = client_submit(en, &second);
        for (int turn = 0; turn < 2000 && !(a.ended && b.ended); turn++) {
            engine_turn(en);
            engine_verify(en);
            client_take(en, ia, &a);
            client_take(en, ib, &b);
        }
        assert_true(a.ended && b.ended);
        engine_result(en, ib, &b.result);
        times[fill] = b.result.usage.preemptions;
        engine_close(en, ia);
        engine_close(en, ib);
        close_engine();
    }
    assert_true(times[1] <= times[0] + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certain_ids_need_no_head),
        cmocka_unit_test(test_likely_ids_and_the_one_behind),
        cmocka_unit_test(test_mismatch_keeps_the_correction),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_end_token),
        cmocka_unit_test(test_stop_string_inside_a_span),
        cmocka_unit_test(test_reader_slower_than_a_burst),
        cmocka_unit_test(test_log_probabilities),
        cmocka_unit_test(test_likely_ids_have_to_pay),
        cmocka_unit_test(test_rows_of_all_kinds_share_steps),
        cmocka_unit_test(test_imposed),
        cmocka_unit_test(test_strict_takes_what_is_sure),
        cmocka_unit_test(test_rows_share_the_heads),
        cmocka_unit_test(test_certain_ids_leave_room_for_prompts),
        cmocka_unit_test(test_guesses_preempt_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
