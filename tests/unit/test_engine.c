/* engine: one request at a time, and the emission rules. Many at once: test_engine_many.c. */
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/emit.h"
#include "engine/inside.h"
#include "engine_client.h"

static struct pool *pool;
static struct fake_model fake;
static struct client_reply reply;

static struct engine *begin(struct engine_config cfg, bool words)
{
    struct engine *en;
    cfg.pool = pool;
    memset(&reply, 0, sizeof reply);
    assert_int_equal(fake_engine(&en, &fake, &cfg, words, NULL), ST_OK);
    return en;
}

static void end(struct engine *en)
{
    engine_free(en);
    assert_true(fake.released);
    fake_release(&fake);
}

static void test_one_row(void **state)
{
    (void)state;
    fake_init(&fake, 512);
    fake.no_eos = true;
    struct engine *en = begin((struct engine_config){.rows = 2}, true);
    assert_int_equal(engine_context(en), 512);
    uint32_t unused = engine_kv_available(en);
    tok_id prompt[200];
    client_prompt(prompt, 200, 1);
    struct request rq = client_request(prompt, 200, 50);
    client_finish(en, client_submit(en, &rq), &reply);
    assert_true(client_right(&fake, &rq, &reply));
    char text[51];
    for (int i = 0; i < 50; i++)
        text[i] = *fake_text(&fake, reply.ids[i]);
    text[50] = 0;
    assert_string_equal(reply.text, text);
    struct request_usage u = reply.result.usage;
    assert_int_equal(u.prompt_tokens, 200);
    assert_int_equal(u.completion_tokens, 50);
    assert_int_equal(u.steps, 50);
    assert_int_equal(u.head_positions, 50);
    assert_int_equal(fake.steps, 50); /* the last id was never fed */
    assert_true(u.queue_s >= 0 && u.prefill_s > 0 && u.decode_s > 0);
    assert_int_equal(engine_kv_available(en), unused);
    end(en);
}

/* Without max_tokens a reply goes on to the end of the context. */
static void test_rest_of_context(void **state)
{
    (void)state;
    fake_init(&fake, 100);
    fake.no_eos = true;
    struct engine *en = begin((struct engine_config){.rows = 1}, false);
    tok_id prompt[40];
    client_prompt(prompt, 40, 2);
    struct request rq = client_request(prompt, 40, 0);
    client_finish(en, client_submit(en, &rq), &reply);
    assert_int_equal(reply.n, 60);
    assert_int_equal(reply.result.finish, FINISH_LENGTH);
    assert_false(reply.result.kv_exhausted);
    assert_int_equal(reply.text_n, 0); /* no words: ids only */
    end(en);
}

/* --- end tokens, limits, stop strings -------------------------------------------------------------------------------- */

static const char *script; /* the reply as letters; '.' is the end token */

/* Prompts are two ids; what follows is the script. */
static tok_id by_script(const tok_id *ids, uint32_t n)
{
    (void)ids;
    char c = n < 2 ? 'a' : script[n - 2];
    return c == '.' ? FAKE_EOS : c >= '0' && c <= '9' ? 100 + c - '0' : c - 'a';
}

static void play(const char *letters, const char *const *text, const char *const *stops, uint32_t max, bool ignore_eos)
{
    static const tok_id prompt[2] = {7, 8};
    fake_init(&fake, 200);
    fake.next = by_script;
    fake.text = text;
    script = letters;
    struct engine *en = begin((struct engine_config){.rows = 1}, true);
    struct request_stop s[4];
    struct request rq = client_request(prompt, 2, max);
    for (; stops && stops[rq.stops_n]; rq.stops_n++)
        s[rq.stops_n] = (struct request_stop){stops[rq.stops_n], strlen(stops[rq.stops_n])};
    rq.stops = s;
    rq.ignore_eos = ignore_eos;
    client_finish(en, client_submit(en, &rq), &reply);
    end(en);
}

static void expect(const char *text, enum finish finish, const char *stop, uint32_t tokens, uint32_t published)
{
    assert_string_equal(reply.text, text);
    assert_int_equal(reply.result.finish, finish);
    assert_string_equal(reply.result.stop, stop);
    assert_int_equal(reply.result.usage.completion_tokens, tokens);
    assert_int_equal(reply.n, published);
    assert_int_equal(reply.result.err.code, ST_OK);
}

static void test_end_token(void **state)
{
    (void)state;
    play("abc.", NULL, NULL, 50, false);
    expect("abc", FINISH_STOP, "", 4, 3);
    play("abc.", NULL, NULL, 4, false); /* the end token wins over the limit */
    expect("abc", FINISH_STOP, "", 4, 3);
    play("abc.", NULL, NULL, 3, false);
    expect("abc", FINISH_LENGTH, "", 3, 3);
    play(".", NULL, NULL, 3, false);
    expect("", FINISH_STOP, "", 1, 0);
    play("a.b.c", NULL, NULL, 5, true);
    expect("anbnc", FINISH_LENGTH, "", 5, 5);
}

static void test_stop_strings(void **state)
{
    (void)state;
    static const char *const one[] = {"cde", NULL}, *const two[] = {"xyz", "bc", "abcd", NULL};
    play("abcdefgh.", NULL, one, 50, false);
    expect("ab", FINISH_STOP, "cde", 5, 5);
    play("abcdabcde.", NULL, one, 50, false); /* held back, let go, held back again */
    expect("abcdab", FINISH_STOP, "cde", 9, 9);
    play("abcd.", NULL, one, 50, false); /* held back to the end */
    expect("abcd", FINISH_STOP, "", 5, 4);
    play("abcdefg", NULL, one, 4, false);
    expect("abcd", FINISH_LENGTH, "", 4, 4);
    play("abcde", NULL, one, 5, false); /* wins over the limit */
    expect("ab", FINISH_STOP, "cde", 5, 5);
    play("abcdef", NULL, two, 50, false); /* the first to be complete */
    expect("a", FINISH_STOP, "bc", 3, 3);
    play("cdefg.", NULL, one, 50, false);
    expect("", FINISH_STOP, "cde", 3, 3);
    play("ccdccde.", NULL, one, 50, false);
    expect("ccdc", FINISH_STOP, "cde", 7, 7);
}

static void test_stop_strings_straddle(void **state)
{
    (void)state;
    static const char *text[FAKE_VOCAB] = {[100] = "Hello \n", [101] = "\nUser", [102] = ": hi", [103] = "\n", [104] = "é"};
    static const char *const stops[] = {"\n\nUser:", NULL}, *const inner[] = {"lo", NULL}, *const e[] = {"é", NULL};
    play("012a.", text, stops, 50, false);
    expect("Hello ", FINISH_STOP, "\n\nUser:", 3, 3);
    play("0332a.", text, stops, 50, false);
    expect("Hello \n\n\n: hia", FINISH_STOP, "", 6, 5);
    play("03312a.", text, stops, 50, false);
    expect("Hello \n\n", FINISH_STOP, "\n\nUser:", 5, 5);
    play("a0b.", text, inner, 50, false); /* within one token; what follows in it is dropped */
    expect("aHel", FINISH_STOP, "lo", 2, 2);
    play("a4b.", text, e, 50, false);
    expect("a", FINISH_STOP, "é", 2, 2);
}

/* Text is certain as soon as it can be: nothing that is not the beginning of a stop string is held back. */
static void test_hold_back(void **state)
{
    (void)state;
    static const tok_id prompt[2] = {7, 8};
    fake_init(&fake, 200);
    fake.next = by_script;
    script = "abcdxefg";
    struct engine *en = begin((struct engine_config){.rows = 1}, true);
    const struct request_stop stop = {"bcde", 4};
    struct request rq = client_request(prompt, 2, 8);
    rq.stops = &stop;
    rq.stops_n = 1;
    request_id id = client_submit(en, &rq);
    struct event ev[16];
    size_t n = 0;
    while (!n || ev[n - 1].kind != EVENT_END) {
        assert_true(engine_wait(en, id, 60000));
        n += engine_take(en, id, ev + n, 16 - n);
    }
    static const char *const want[] = {"a", "", "", "", "bcdx", "e", "f", "g", ""};
    assert_int_equal(n, 9);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ev[i].text_n, strlen(want[i]));
        assert_memory_equal(ev[i].text, want[i], ev[i].text_n);
    }
    engine_close(en, id);
    end(en);
}

/* A token whose text exceeds an event: further events with id -1, no character cut in two. */
static void test_long_token(void **state)
{
    (void)state;
    static char long_text[2001];
    for (int i = 0; i < 2000; i += 2)
        memcpy(long_text + i, i == 1000 ? "zz" : "é", 2);
    const char *text[FAKE_VOCAB] = {[100] = long_text};
    static const char *const stops[] = {"zzq", "éa", NULL};
    play("0bc.", text, stops, 50, false);
    assert_int_equal(reply.text_n, 2002);
    assert_memory_equal(reply.text, long_text, 2000);
    assert_int_equal(reply.n, 3);
    assert_true(reply.events >= 4 + 3);
}

/* A token whose text is more than the whole ring holds: the row waits for its reader in the middle of it. */
static char huge[60001];

static void fill_huge(void)
{
    memset(huge, 'x', sizeof huge - 1);
}

/* Plays "a0bc." to a reader that takes `each` events at a time, only when no more come; returns a hash of all events. */
static uint64_t play_to(uint32_t each, const char *stop, uint32_t max, enum finish finish)
{
    static const tok_id prompt[2] = {7, 8};
    const char *text[FAKE_VOCAB] = {[100] = huge};
    fake_init(&fake, 200);
    fake.next = by_script;
    fake.text = text;
    script = "a0bc.";
    struct engine *en = begin((struct engine_config){.rows = 1}, true);
    const struct request_stop s = {stop, stop ? strlen(stop) : 0};
    struct request rq = client_request(prompt, 2, max);
    rq.stops = &s;
    rq.stops_n = stop != NULL;
    request_id id = client_submit(en, &rq);
    struct slot *slot = slot_find(&en->slots, id, SLOT_CLIENT);
    uint64_t hash = 0;
    for (bool ended = false; !ended;) {
        struct event ev;
        while (each < LIMIT_EVENTS && !atomic_load(&slot->paused) && !atomic_load(&slot->ended))
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        for (uint32_t i = 0; i < each && !ended && engine_wait(en, id, 60000) && engine_take(en, id, &ev, 1); i++) {
            hash = (hash ^ (uint64_t)ev.id) * 31 + ev.text_n;
            memcpy(reply.text + reply.text_n, ev.text, ev.text_n);
            reply.text_n += ev.text_n;
            reply.events++;
            ended = ev.kind == EVENT_END;
        }
    }
    engine_result(en, id, &reply.result);
    engine_close(en, id);
    assert_int_equal(reply.result.finish, finish);
    end(en);
    return hash;
}

static void expect_huge(size_t n, const char *after)
{
    assert_int_equal(reply.text_n, 1 + n + strlen(after));
    assert_memory_equal(reply.text + 1, huge, n);
    assert_memory_equal(reply.text + 1 + n, after, strlen(after));
}

static void test_huge_token(void **state)
{
    (void)state;
    fill_huge();
    static const uint32_t each[] = {LIMIT_EVENTS, RING_ROOM, 13, LIMIT_EVENTS - 1};
    uint64_t first[4] = {0};
    for (int i = 0; i < 4; i++) {
        uint64_t hash[4] = {0};
        fill_huge();
        hash[0] = play_to(each[i], NULL, 50, FINISH_STOP);
        expect_huge(60000, "bc");
        hash[1] = play_to(each[i], "xy", 50, FINISH_STOP);
        expect_huge(60000, "bc");
        hash[2] = play_to(each[i], "xy", 2, FINISH_LENGTH);
        expect_huge(60000, "");
        memcpy(huge + 50000, "yes", 3);
        hash[3] = play_to(each[i], "xyes", 2, FINISH_STOP); /* wins over the limit */
        expect_huge(49999, "");
        assert_string_equal(reply.result.stop, "xyes");
        if (!i)
            memcpy(first, hash, sizeof hash);
        assert_memory_equal(hash, first, sizeof hash); /* and the events are the same ones */
    }
}

/* The client leaves, or never reads, while the row is in the middle of its token. */
static void test_huge_token_unread(void **state)
{
    (void)state;
    static const tok_id prompt[2] = {7, 8};
    const char *text[FAKE_VOCAB] = {[100] = huge};
    for (int how = 0; how < 4; how++) {
        fill_huge();
        fake_init(&fake, 200);
        fake.next = by_script;
        fake.text = text;
        fake.tuning.stall_ms = how == 0 ? 300 : 0;
        script = "0bc.";
        struct engine *en = begin((struct engine_config){.rows = 1}, true);
        uint32_t unused = engine_kv_available(en);
        const struct request_stop stop = {"xy", 2};
        struct request rq = client_request(prompt, 2, 50);
        rq.stops = &stop;
        rq.stops_n = 1;
        request_id id = client_submit(en, &rq);
        struct slot *slot = slot_find(&en->slots, id, SLOT_CLIENT);
        while (!atomic_load(&slot->paused))
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        if (how == 0)
            client_await_load(en, 0, 0);
        else if (how == 1)
            engine_cancel(en, id);
        else if (how == 2)
            engine_stop(en);
        if (how < 3) {
            client_finish(en, id, &reply);
            assert_int_equal(reply.result.finish, FINISH_CANCELLED);
            assert_in_range(reply.text_n, 20000, 40000);
        } else {
            engine_close(en, id);
        }
        client_await_load(en, 0, 0);
        assert_int_equal(engine_kv_available(en), unused);
        end(en);
    }
}

static void test_whole_characters(void **state)
{
    (void)state;
    assert_int_equal(emit_whole("abc", 3, 4), 3);
    assert_int_equal(emit_whole("abcde", 5, 4), 4);
    assert_int_equal(emit_whole("abcé", 5, 4), 3);
    assert_int_equal(emit_whole("a\xF0\x9F\x98\x80", 5, 4), 1);
    assert_int_equal(emit_whole("\x80\x80\x80\x80\x80", 5, 4), 4); /* not UTF-8: still progress */
    assert_int_equal(emit_whole("", 0, 4), 0);
}

/* Stop strings against a plain search, with the text cut at random places. */
static void test_stop_cuts(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 3000; round++) {
        char text[60], strings[3][8], out[64];
        struct request_stop stops[3];
        uint32_t draw = 0;
#define DRAW(n) ((uint32_t)(rng_uniform(round, 0, draw++, RNG_FINAL) * (float)(n)))
        uint32_t n = 20 + DRAW(40), rules = 1 + DRAW(3), letters = 2 + DRAW(2);
        for (uint32_t i = 0; i < n; i++)
            text[i] = (char)('a' + DRAW(letters));
        for (uint32_t k = 0; k < rules; k++) {
            stops[k] = (struct request_stop){strings[k], 1 + DRAW(7)};
            for (uint32_t i = 0; i < stops[k].n; i++)
                strings[k][i] = (char)('a' + DRAW(letters));
        }
        uint32_t want_end = n, want_len = 0;
        for (uint32_t end_at = 1; end_at <= n && !want_len; end_at++)
            for (uint32_t k = 0; k < rules; k++)
                if (stops[k].n <= end_at && !memcmp(text + end_at - stops[k].n, strings[k], stops[k].n)
                    && stops[k].n > want_len) {
                    want_end = end_at - (uint32_t)stops[k].n;
                    want_len = (uint32_t)stops[k].n;
                }
        struct arena a;
        struct stop_set set;
        arena_init(&a, 1 << 16);
        assert_int_equal(stop_init(&set, &a, stops, rules, NULL), ST_OK);
        const struct stop_rule *hit = NULL;
        uint32_t got = 0;
        for (uint32_t at = 0; at < n && !hit;) {
            uint32_t some = 1 + DRAW(6) < n - at ? 1 + DRAW(6) : n - at;
            some = some < n - at ? some : n - at;
            hit = stop_feed(&set, text + at, some);
            uint32_t certain = hit ? set.text_n : stop_certain(&set);
            memcpy(out + got, set.text, certain);
            got += certain;
            stop_take(&set, certain);
            at += some;
        }
        assert_int_equal(hit ? hit->n : 0, want_len);
        memcpy(out + got, set.text, set.text_n);
        got += set.text_n;
        assert_int_equal(got, want_end);
        assert_memory_equal(out, text, got);
        arena_release(&a);
    }
}

/* --- what a request may ask ------------------------------------------------------------------------------------------ */

static void test_logprobs(void **state)
{
    (void)state;
    fake_init(&fake, 100);
    fake.no_eos = true;
    struct engine *en = begin((struct engine_config){.rows = 1}, true);
    static const tok_id prompt[3] = {1, 2, 3};
    struct request rq = client_request(prompt, 3, 3);
    rq.logprobs = 4;
    client_finish(en, client_submit(en, &rq), &reply);
    assert_int_equal(reply.last_token.top_n, 3);
    assert_int_equal(reply.last_token.top[0].id, reply.last_token.id); /* greedy */
    assert_true(reply.last_token.logprob < 0 && reply.last_token.logprob == reply.last_token.top[0].logprob);
    assert_true(reply.last_token.top[1].logprob <= reply.last_token.top[0].logprob);
    memset(&reply, 0, sizeof reply);
    rq.logprobs = 0;
    client_finish(en, client_submit(en, &rq), &reply);
    assert_int_equal(reply.last_token.top_n, 0);
    end(en);
}

static void refused(struct engine *en, const struct request *rq, enum status code, const char *field)
{
    struct err e = {.code = ST_OK};
    request_id id = 1;
    assert_int_equal(engine_submit(en, rq, &id, &e), code);
    assert_int_equal(e.code, code);
    assert_string_equal(e.field, field);
    assert_true(e.text[0]);
    assert_true(id == 0);
}

static void test_refusals(void **state)
{
    (void)state;
    fake_init(&fake, 100);
    struct engine *en = begin((struct engine_config){.rows = 1}, true);
    tok_id prompt[200] = {0};
    struct err e;
    request_id id;
    struct request rq = client_request(prompt, 0, 10);
    refused(en, &rq, ST_ARGUMENT, "prompt");
    rq = client_request(NULL, 3, 10);
    refused(en, &rq, ST_ARGUMENT, "prompt");
    rq = client_request(prompt, 100, 0);
    refused(en, &rq, ST_TOO_LONG, "prompt");
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_TOO_LONG);
    assert_string_equal(e.text, "the prompt has 100 tokens, the context holds 100 with the reply");
    rq = client_request(prompt, 60, 41);
    refused(en, &rq, ST_NEVER_FITS, "max_tokens");
    assert_int_equal(engine_submit(en, &rq, &id, &e), ST_NEVER_FITS);
    assert_non_null(strstr(e.text, "60 tokens"));
    assert_non_null(strstr(e.text, "41"));
    rq = client_request(prompt, 60, UINT32_MAX);
    refused(en, &rq, ST_NEVER_FITS, "max_tokens");
    prompt[5] = FAKE_VOCAB;
    rq = client_request(prompt, 60, 10);
    refused(en, &rq, ST_ARGUMENT, "prompt");
    prompt[5] = -1;
    refused(en, &rq, ST_ARGUMENT, "prompt");
    prompt[5] = 0;
    rq.logprobs = LIMIT_LOGPROBS + 2;
    refused(en, &rq, ST_ARGUMENT, "logprobs");
    rq = client_request(prompt, 6, 10);
    rq.sampling.top_p = 0;
    refused(en, &rq, ST_ARGUMENT, "top_p");
    rq = client_request(prompt, 6, 10);
    static char big[LIMIT_STOP_BYTES];
    memset(big, 'x', sizeof big);
    struct request_stop stops[LIMIT_STOPS + 1] = {{"", 0}};
    rq.stops = stops;
    rq.stops_n = 1;
    refused(en, &rq, ST_ARGUMENT, "stop");
    stops[0] = (struct request_stop){big, sizeof big};
    refused(en, &rq, ST_ARGUMENT, "stop");
    stops[0] = (struct request_stop){"\x80", 1};
    refused(en, &rq, ST_ARGUMENT, "stop");
    for (uint32_t i = 0; i <= LIMIT_STOPS; i++)
        stops[i] = (struct request_stop){"x", 1};
    rq.stops_n = LIMIT_STOPS + 1;
    refused(en, &rq, ST_ARGUMENT, "stop");
    /* None of that took a place; and the largest of everything is taken. */
    for (uint32_t i = 0; i < LIMIT_STOPS; i++)
        stops[i] = (struct request_stop){big, sizeof big - 1};
    rq.stops_n = LIMIT_STOPS;
    rq.logprobs = LIMIT_LOGPROBS + 1;
    rq.max_tokens = 94;
    client_finish(en, client_submit(en, &rq), &reply);
    end(en);
}

static void test_bad_config(void **state)
{
    (void)state;
    static const struct engine_config bad[] = {
        {.rows = LIMIT_ROWS + 1}, {.queue = LIMIT_QUEUE + 1}, {.chunk = LIMIT_SPAN + 1}, {.context = 101},
    };
    struct engine *en;
    struct err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct engine_config cfg = bad[i];
        cfg.pool = pool;
        fake_init(&fake, 100);
        assert_int_equal(fake_engine(&en, &fake, &cfg, true, &e), ST_ARGUMENT);
        assert_null(en);
        assert_true(fake.released);
        fake_release(&fake);
    }
    /* 128 bytes a position and group, so a block of both is 4 KB. */
    struct engine_config cfg = {.pool = pool, .context = 1000, .kv_budget = 64 << 10};
    fake_init(&fake, 2000);
    assert_int_equal(fake_engine(&en, &fake, &cfg, true, &e), ST_NEVER_FITS);
    assert_string_equal(e.field, "context");
    assert_non_null(strstr(e.text, "1000"));
    cfg.context = 0; /* as much as the budget holds */
    assert_int_equal(fake_engine(&en, &fake, &cfg, true, &e), ST_OK);
    assert_in_range(engine_context(en), 32, 800);
    assert_true(engine_kv_bytes(en) <= 200 << 10);
    end(en);
}

/* --- waiting --------------------------------------------------------------------------------------------------------- */

static const tok_id three[3] = {1, 2, 3};

/* One row whose steps wait for fake.gate, and which no id ends. */
static struct engine *begin_gated(void)
{
    fake_init(&fake, 100);
    fake.no_eos = true;
    fake.gated = true;
    return begin((struct engine_config){.rows = 1}, true);
}

static void test_descriptor(void **state)
{
    (void)state;
    struct engine *en = begin_gated();
    struct request rq = client_request(three, 3, 2);
    request_id id = client_submit(en, &rq);
    struct pollfd p = {.fd = engine_fd(en, id), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 20), 0);
    assert_false(engine_wait(en, id, 0));
    assert_false(engine_wait(en, id, 20));
    sem_post(&fake.gate);
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_int_equal(poll(&p, 1, 0), 1); /* level-triggered */
    assert_int_equal(client_take(en, id, &reply), 1);
    assert_int_equal(poll(&p, 1, 20), 0);
    sem_post(&fake.gate);
    assert_true(engine_wait(en, id, 60000));
    client_await_load(en, 0, 0);
    struct event ev; /* two events are there: taking one leaves the descriptor readable, also after a wait reset it */
    assert_int_equal(engine_take(en, id, &ev, 1), 1);
    assert_int_equal(poll(&p, 1, 60000), 1);
    assert_true(engine_wait(en, id, 0));
    assert_int_equal(poll(&p, 1, 0), 1);
    reply.ids[reply.n++] = ev.id;
    client_finish(en, id, &reply);
    assert_int_equal(reply.n, 2);
    /* An id that was closed is nobody's. */
    assert_int_equal(engine_fd(en, id), -1);
    assert_int_equal(engine_take(en, id, &ev, 1), 0);
    assert_false(engine_wait(en, id, -1));
    engine_cancel(en, id);
    engine_close(en, id);
    end(en);
}

static void test_wait_after_the_end(void **state)
{
    (void)state;
    fake_init(&fake, 100);
    struct engine *en = begin((struct engine_config){.rows = 1}, true);
    static const tok_id prompt[3] = {1, 2, 3};
    struct request rq = client_request(prompt, 3, 1);
    request_id id = client_submit(en, &rq);
    while (!reply.ended) {
        assert_true(engine_wait(en, id, -1));
        client_take(en, id, &reply);
    }
    assert_false(engine_wait(en, id, -1));
    engine_close(en, id);
    end(en);
}

/* --- the table of requests ------------------------------------------------------------------------------------------ */

/* The id that ended is nobody's from the moment the slot is free, not only once someone has taken it again. */
static void test_old_ids(void **state)
{
    (void)state;
    struct slot_table t;
    assert_int_equal(slot_table_init(&t, 1, NULL), ST_OK);
    for (uint32_t order = 0; order < 3; order++) {
        struct slot *s = slot_claim(&t, NULL);
        request_id id = slot_id(&t, s);
        assert_true(id != 0);
        assert_null(slot_claim(&t, NULL));
        assert_ptr_equal(slot_find(&t, id, SLOT_ENGINE), s);
        slot_drop(s, order == 0 ? SLOT_ENGINE : order == 1 ? SLOT_CLIENT : SLOT_CLIENT | SLOT_ENGINE);
        assert_true(!slot_find(&t, id, SLOT_ENGINE) == (order != 1));
        assert_true(!slot_find(&t, id, SLOT_CLIENT) == (order != 0));
        if (order < 2)
            slot_drop(s, order == 0 ? SLOT_CLIENT : SLOT_ENGINE);
        atomic_store(&s->owners, SLOT_CLIENT | SLOT_ENGINE); /* as slot_claim() does first */
        assert_null(slot_find(&t, id, SLOT_ENGINE));
        assert_null(slot_find(&t, id, SLOT_CLIENT));
        atomic_store(&s->owners, 0);
    }
    atomic_store(&t.at[0].generation, UINT32_MAX);
    slot_drop(slot_claim(&t, NULL), SLOT_CLIENT | SLOT_ENGINE);
    struct slot *s = slot_claim(&t, NULL);
    assert_true(slot_id(&t, s) == (request_id)1 << 32);
    slot_table_release(&t, NULL);
}

/* A reader that made room is noticed before the engine sleeps, whether its row runs or was put back to the line. */
static void test_reader_came_back(void **state)
{
    (void)state;
    static struct engine en;
    static struct slot slot[2];
    struct row *at[2] = {&slot[0].row, &slot[1].row};
    for (int i = 0; i < 2; i++)
        slot[i].row.slot = &slot[i];
    en.rows = (struct row_list){&at[0], 1};
    en.line = (struct row_list){&at[1], 1};
    for (int paused = 0; paused < 4; paused++) {
        atomic_store(&slot[0].paused, paused & 1);
        atomic_store(&slot[1].paused, paused >> 1);
        assert_true(row_reader_came_back(&en) == (paused != 3));
    }
}

/* While an id is shared its news rings the common descriptor, and its own otherwise; a change loses none. */
static void test_shared_descriptor(void **state)
{
    (void)state;
    uint64_t count;
    struct event ev;
    struct engine *en = begin_gated();
    struct request rq = client_request(three, 3, 3);
    request_id id = client_submit(en, &rq);
    struct pollfd own = {.fd = engine_fd(en, id), .events = POLLIN};
    struct pollfd common = {.fd = engine_shared_fd(en), .events = POLLIN};
    engine_share(en, id, true);
    assert_int_equal(engine_take(en, id, &ev, 1), 0);
    sem_post(&fake.gate);
    assert_int_equal(poll(&common, 1, 60000), 1);
    assert_int_equal(poll(&own, 1, 0), 0);
    assert_int_equal(read(common.fd, &count, sizeof count), sizeof count);
    assert_int_equal(client_take(en, id, &reply), 1);
    assert_int_equal(poll(&common, 1, 20), 0);
    /* Shared when it rang, taken when it is not any more. */
    sem_post(&fake.gate);
    assert_int_equal(poll(&common, 1, 60000), 1);
    assert_int_equal(read(common.fd, &count, sizeof count), sizeof count);
    engine_share(en, id, false);
    assert_true(engine_wait(en, id, 60000));
    assert_int_equal(client_take(en, id, &reply), 1);
    sem_post(&fake.gate);
    assert_int_equal(poll(&own, 1, 60000), 1);
    assert_int_equal(poll(&common, 1, 0), 0);
    while (!reply.ended)
        if (engine_wait(en, id, 60000))
            client_take(en, id, &reply);
    assert_int_equal(reply.n, 3);
    poll(NULL, 0, 20); /* so that the engine has left the slot, and the notifier has rung for the end */
    assert_int_equal(engine_take(en, id, &ev, 1), 0);
    engine_share(en, id, true);
    engine_close(en, id);
    engine_share(en, id, false); /* an id that was closed is nobody's */
    id = client_submit(en, &rq);
    for (int i = 0; i < 3; i++)
        sem_post(&fake.gate);
    own.fd = engine_fd(en, id);
    assert_int_equal(poll(&own, 1, 60000), 1); /* the slot's next request begins unshared */
    engine_close(en, id);
    end(en);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_row),       cmocka_unit_test(test_rest_of_context),
        cmocka_unit_test(test_end_token),     cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_stop_strings_straddle), cmocka_unit_test(test_hold_back),
        cmocka_unit_test(test_long_token),    cmocka_unit_test(test_whole_characters),
        cmocka_unit_test(test_huge_token),    cmocka_unit_test(test_huge_token_unread),
        cmocka_unit_test(test_old_ids),       cmocka_unit_test(test_reader_came_back),
        cmocka_unit_test(test_stop_cuts),     cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_bad_config),
        cmocka_unit_test(test_descriptor),    cmocka_unit_test(test_shared_descriptor),
        cmocka_unit_test(test_wait_after_the_end),
    };
    if (pool_new(&pool, 2, NULL))
        return 1;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pool_free(pool);
    return rc;
}
