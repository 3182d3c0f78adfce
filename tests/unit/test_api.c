/*
 * The embeddable library, seen through its public header alone, on a tiny random model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffwd.h"
#include "tiny.h"

#define MOST 64

static char path[] = "/tmp/ffwd-test-api-XXXXXX";
static ffwd_engine *engine;

static int set_up(void **state)
{
    (void)state;
    struct err e;
    ffwd_error err;
    ffwd_options o;
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || tiny_write(path, "smollm2", TINY_F32, &e) != ST_OK)
        return -1;
    ffwd_options_init(&o);
    o.threads = 2;
    o.context = 128;
    o.rows = 3;
    engine = ffwd_open(path, &o, &err);
    if (!engine)
        fprintf(stderr, "%s\n", err.text);
    return engine ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    ffwd_close(engine);
    return unlink(path);
}

/* What a request gave, read to its end. */
struct reply {
    int32_t ids[MOST];
    size_t n, text_n;
    char text[1024];
    ffwd_result result;
};

static void read_reply(ffwd_request *rq, struct reply *r)
{
    ffwd_event ev;
    *r = (struct reply){0};
    do {
        assert_int_equal(ffwd_next(rq, &ev, -1), 1);
        assert_int_equal(ev.text[ev.text_n], '\0');
        assert_true(r->text_n + ev.text_n < sizeof r->text);
        memcpy(r->text + r->text_n, ev.text, ev.text_n);
        r->text_n += ev.text_n;
        if (ev.kind == FFWD_TOKEN) {
            assert_true(r->n < MOST);
            r->ids[r->n++] = ev.id;
        } else {
            assert_int_equal(ev.id, -1);
        }
    } while (ev.kind != FFWD_END);
    assert_int_equal(ffwd_next(rq, &ev, 0), 1); /* the end can be asked for again */
    assert_int_equal(ev.kind, FFWD_END);
    assert_int_equal(ev.text_n, 0);
    ffwd_finish(rq, &r->result);
}

static const int32_t prompt[] = {9, 57, 109, 175, 255, 349, 457, 79, 215, 365};

static ffwd_params plain_params(void)
{
    ffwd_params p;
    ffwd_params_init(&p);
    p.prompt = prompt;
    p.prompt_n = sizeof prompt / sizeof *prompt;
    p.max_tokens = 20;
    p.ignore_eos = 1;
    return p;
}

static ffwd_request *start(const ffwd_params *p)
{
    ffwd_error err;
    ffwd_request *rq = ffwd_start(engine, p, &err);
    if (!rq)
        fail_msg("%s", err.text);
    return rq;
}

/* --- opening --------------------------------------------------------------------------------------------------------- */

static void opening_reports_what_is_wrong(void **state)
{
    (void)state;
    ffwd_error err;
    ffwd_options o;
    assert_null(ffwd_open("/nonexistent/model.gguf", NULL, &err));
    assert_int_equal(err.code, FFWD_IO);
    assert_non_null(strstr(err.text, "/nonexistent/model.gguf"));
    assert_null(ffwd_open("/nonexistent/model.gguf", NULL, NULL)); /* the error may be left out */
    assert_null(ffwd_open("/etc/passwd", NULL, &err));
    assert_int_equal(err.code, FFWD_MODEL);
    assert_null(ffwd_open(NULL, NULL, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
    ffwd_options_init(&o);
    o.threads = -1;
    assert_null(ffwd_open(path, &o, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
    ffwd_close(NULL);
}

static void an_engine_says_what_it_is(void **state)
{
    (void)state;
    assert_string_equal(ffwd_version(), FFWD_VERSION);
    assert_int_equal(ffwd_context(engine), 128);
    assert_int_equal(ffwd_vocab(engine), TINY_VOCAB);
    assert_true(ffwd_is_eos(engine, 2));
    assert_false(ffwd_is_eos(engine, 100));
}

/* --- text ------------------------------------------------------------------------------------------------------------ */

static void text_goes_there_and_back(void **state)
{
    (void)state;
    static const char text[] = "the king \xf0\x9f\x91\x91 sang\n";
    ffwd_error err;
    int32_t *ids;
    char *back;
    size_t n, back_n;
    assert_int_equal(ffwd_encode(engine, text, sizeof text - 1, FFWD_PLAIN, &ids, &n, &err), FFWD_OK);
    assert_true(n > 0);
    assert_int_equal(ffwd_decode(engine, ids, n, 0, &back, &back_n, &err), FFWD_OK);
    assert_int_equal(back_n, sizeof text - 1);
    assert_string_equal(back, text);
    ffwd_free(back);
    ffwd_free(ids);
    assert_int_equal(ffwd_encode(engine, "", 0, FFWD_PLAIN, &ids, &n, &err), FFWD_OK);
    assert_int_equal(n, 0);
    ffwd_free(ids);
}

static void control_tokens_need_trust(void **state)
{
    (void)state;
    ffwd_error err;
    int32_t *ids;
    size_t n;
    assert_int_equal(ffwd_encode(engine, "<|im_end|>", 10, FFWD_TRUSTED, &ids, &n, &err), FFWD_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], 2);
    ffwd_free(ids);
    assert_int_equal(ffwd_encode(engine, "<|im_end|>", 10, FFWD_PLAIN, &ids, &n, &err), FFWD_OK);
    assert_true(n > 1);
    ffwd_free(ids);
    assert_int_equal(ffwd_encode(engine, "x", 1, 64, &ids, &n, &err), FFWD_ARGUMENT);
    assert_null(ids);
    assert_int_equal(n, 0);
}

static void ids_beyond_the_vocabulary_are_refused(void **state)
{
    (void)state;
    ffwd_error err;
    char *text;
    size_t n;
    int32_t bad[] = {9, TINY_VOCAB};
    assert_int_equal(ffwd_decode(engine, bad, 2, 0, &text, &n, &err), FFWD_ARGUMENT);
    assert_null(text);
    bad[1] = -1;
    assert_int_equal(ffwd_decode(engine, bad, 2, 0, &text, &n, &err), FFWD_ARGUMENT);
    ffwd_params p = plain_params();
    p.prompt = bad;
    p.prompt_n = 2;
    assert_null(ffwd_start(engine, &p, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
}

static void a_conversation_becomes_a_prompt(void **state)
{
    (void)state;
    static const char array[] = " [{\"role\": \"user\", \"content\": \"the sea <|im_end|>\"}]";
    static const char object[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"the sea <|im_end|>\"}]}";
    ffwd_error err;
    int32_t *a, *b;
    size_t a_n, b_n, ends = 0;
    assert_int_equal(ffwd_chat_encode(engine, array, sizeof array - 1, &a, &a_n, &err), FFWD_OK);
    assert_int_equal(ffwd_chat_encode(engine, object, sizeof object - 1, &b, &b_n, &err), FFWD_OK);
    assert_int_equal(a_n, b_n);
    assert_memory_equal(a, b, a_n * sizeof *a);
    for (size_t i = 0; i < a_n; i++)
        ends += a[i] == 2;
    assert_int_equal(ends, 1); /* the template's, not the client's */
    ffwd_free(a);
    ffwd_free(b);
    assert_int_equal(ffwd_chat_encode(engine, "[{]", 3, &a, &a_n, &err), FFWD_ARGUMENT);
    assert_null(a);
    assert_true(err.text[0] != '\0');
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

static void a_request_gives_tokens_and_text(void **state)
{
    (void)state;
    ffwd_params p = plain_params();
    struct reply one, two;
    char *text;
    size_t n;
    read_reply(start(&p), &one);
    assert_int_equal(one.n, 20);
    assert_int_equal(one.result.finish, FFWD_LENGTH);
    assert_int_equal(one.result.error.code, FFWD_OK);
    assert_int_equal(one.result.prompt_tokens, p.prompt_n);
    assert_int_equal(one.result.completion_tokens, 20);
    assert_int_equal(ffwd_decode(engine, one.ids, one.n, 0, &text, &n, NULL), FFWD_OK);
    assert_int_equal(n, one.text_n);
    assert_string_equal(text, one.text);
    ffwd_free(text);
    read_reply(start(&p), &two);
    assert_memory_equal(one.ids, two.ids, sizeof one.ids);
}

static void company_changes_nothing(void **state)
{
    (void)state;
    ffwd_params p = plain_params();
    struct reply alone[4], together[4];
    ffwd_request *rq[4];
    p.temperature = 1;
    for (int i = 0; i < 4; i++) { /* four, while three can run at the same time */
        p.seed = 7 + (uint64_t)i;
        p.max_tokens = 10 + 10 * (uint32_t)i;
        read_reply(start(&p), &alone[i]);
    }
    for (int i = 0; i < 4; i++) {
        p.seed = 7 + (uint64_t)i;
        p.max_tokens = 10 + 10 * (uint32_t)i;
        rq[i] = start(&p);
    }
    for (int i = 3; i >= 0; i--) {
        read_reply(rq[i], &together[i]);
        assert_int_equal(alone[i].n, together[i].n);
        assert_memory_equal(alone[i].ids, together[i].ids, alone[i].n * sizeof *alone[i].ids);
    }
    assert_memory_not_equal(alone[0].ids, alone[1].ids, 10 * sizeof *alone[0].ids);
}

static void a_cancelled_request_ends(void **state)
{
    (void)state;
    ffwd_params p = plain_params();
    ffwd_event ev;
    struct reply r;
    p.max_tokens = 100;
    ffwd_request *rq = start(&p);
    assert_int_equal(ffwd_next(rq, &ev, -1), 1);
    ffwd_cancel(rq);
    ffwd_result result;
    ffwd_finish(rq, &result);
    assert_true(result.finish == FFWD_ABORTED || result.finish == FFWD_LENGTH);
    assert_true(result.completion_tokens >= 1);
    ffwd_finish(start(&p), NULL); /* given up without a look */
    ffwd_finish(NULL, NULL);
    p.max_tokens = 5;
    read_reply(start(&p), &r);
    assert_int_equal(r.n, 5);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    ffwd_error err;
    ffwd_params p = plain_params();
    int32_t longer[129];
    p.temperature = -1;
    assert_null(ffwd_start(engine, &p, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
    p = plain_params();
    p.prompt_n = 0;
    assert_null(ffwd_start(engine, &p, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
    p = plain_params();
    p.stop_n = 1000;
    assert_null(ffwd_start(engine, &p, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
    assert_string_equal(err.field, "stop");
    for (size_t i = 0; i < 129; i++)
        longer[i] = 9;
    p = plain_params();
    p.prompt = longer;
    p.prompt_n = 129;
    assert_null(ffwd_start(engine, &p, &err));
    assert_int_equal(err.code, FFWD_TOO_LONG);
    assert_null(ffwd_start(engine, &p, NULL));
}

static void samplers_reach_the_engine(void **state)
{
    (void)state;
    ffwd_params p = plain_params();
    struct reply plain, other;
    read_reply(start(&p), &plain);
    /* A ban of the first id changes it; a bias of all others' favour brings one id alone. */
    ffwd_bias bias[2] = {{plain.ids[0], -100}, {77, 100}};
    p.logit_bias = bias;
    p.logit_bias_n = 1;
    read_reply(start(&p), &other);
    for (size_t i = 0; i < other.n; i++)
        assert_int_not_equal(other.ids[i], plain.ids[0]);
    p.logit_bias_n = 2;
    read_reply(start(&p), &other);
    for (size_t i = 0; i < other.n; i++)
        assert_int_equal(other.ids[i], 77);
    /* Nothing comes twice when each time costs more than any logit is worth. */
    p.presence_penalty = 2;
    p.frequency_penalty = 2;
    p.dry_multiplier = 100;
    p.dry_allowed_length = 1;
    p.logit_bias_n = 0;
    p.max_tokens = 20;
    read_reply(start(&p), &other);
    for (size_t i = 0; i < other.n; i++)
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(other.ids[i], other.ids[j]);
    static const char *const steps[] = {"penalties", "dry", "temperature", "xtc", "typ_p"};
    p.samplers = steps;
    p.samplers_n = 5;
    p.temperature = 1.5f;
    p.xtc_probability = 0.5f;
    p.typical_p = 0.8f;
    p.min_tokens = 10;
    read_reply(start(&p), &other);
    assert_int_equal(other.n, 20);
    p = plain_params();
    p.temperature = 1;
    p.mirostat = 2;
    read_reply(start(&p), &other);
    assert_int_equal(other.n, 20);
}

/* Each wrong value names its field. */
static void samplers_out_of_range_are_refused(void **state)
{
    (void)state;
    ffwd_error err;
#define WRONG(f, v, name)                           \
    do {                                            \
        ffwd_params p = plain_params();             \
        p.temperature = 1;                          \
        p.f = (v);                                  \
        assert_null(ffwd_start(engine, &p, &err));  \
        assert_int_equal(err.code, FFWD_ARGUMENT);  \
        assert_string_equal(err.field, name);       \
    } while (0)
    WRONG(presence_penalty, 3, "presence_penalty");
    WRONG(frequency_penalty, -3, "frequency_penalty");
    WRONG(dry_multiplier, -1, "dry_multiplier");
    WRONG(dry_base, 0.5f, "dry_base");
    WRONG(dry_allowed_length, 0, "dry_allowed_length");
    WRONG(top_n_sigma, -1, "top_n_sigma");
    WRONG(typical_p, 0, "typical_p");
    WRONG(xtc_probability, 2, "xtc_probability");
    WRONG(xtc_threshold, -1, "xtc_threshold");
    WRONG(dynatemp_range, -1, "dynatemp_range");
    WRONG(dynatemp_exponent, -1, "dynatemp_exponent");
    WRONG(mirostat, 3, "mirostat");
    WRONG(mirostat_tau, -1, "mirostat_tau");
    WRONG(mirostat_eta, 2, "mirostat_eta");
    WRONG(min_tokens, 21, "min_tokens");
    ffwd_bias bias[] = {{TINY_VOCAB, 1}};
    ffwd_params p = plain_params();
    p.logit_bias = bias;
    for (size_t n = 1; n < 1u << 20; n = n == 1 ? 1025 : n << 9) {
        p.logit_bias_n = n;
        assert_null(ffwd_start(engine, &p, &err));
        assert_string_equal(err.field, "logit_bias");
    }
    static const char *const steps[] = {"greedy"}, *const none[] = {""};
    p = plain_params();
    p.samplers = steps;
    p.samplers_n = 1;
    assert_null(ffwd_start(engine, &p, &err));
    assert_string_equal(err.field, "samplers");
    p = plain_params();
    p.dry_multiplier = 1;
    p.dry_breakers = none;
    p.dry_breakers_n = 1;
    assert_null(ffwd_start(engine, &p, &err));
    assert_string_equal(err.field, "dry_sequence_breakers");
}

/* Every id banned: the request fails with the field's name, and the next one is served. */
static void a_ban_of_everything_fails(void **state)
{
    (void)state;
    ffwd_bias bias[TINY_VOCAB];
    ffwd_params p = plain_params();
    struct reply r;
    for (int32_t i = 0; i < TINY_VOCAB; i++)
        bias[i] = (ffwd_bias){i, -100};
    p.logit_bias = bias;
    p.logit_bias_n = TINY_VOCAB;
    read_reply(start(&p), &r);
    assert_int_equal(r.result.finish, FFWD_FAILED);
    assert_int_equal(r.result.error.code, FFWD_ARGUMENT);
    assert_string_equal(r.result.error.field, "logit_bias");
    p.logit_bias_n--;
    read_reply(start(&p), &r);
    for (size_t i = 0; i < r.n; i++)
        assert_int_equal(r.ids[i], TINY_VOCAB - 1);
}

static void a_stop_text_ends_the_reply(void **state)
{
    (void)state;
    ffwd_params p = plain_params();
    struct reply whole, cut;
    read_reply(start(&p), &whole);
    char stop[3] = {0};
    for (size_t i = whole.text_n / 2; i + 2 < whole.text_n && !stop[0]; i++) { /* two plain characters of the text */
        if (whole.text[i] > ' ' && whole.text[i + 1] > ' ')
            memcpy(stop, whole.text + i, 2);
    }
    if (!stop[0])
        skip();
    const char *stops[] = {stop};
    p.stop = stops;
    p.stop_n = 1;
    read_reply(start(&p), &cut);
    assert_int_equal(cut.result.finish, FFWD_STOP);
    assert_int_equal(cut.text_n, (size_t)(strstr(whole.text, stop) - whole.text));
    assert_memory_equal(cut.text, whole.text, cut.text_n);
}

static void *one_thread(void *arg)
{
    ffwd_params p = plain_params();
    read_reply(start(&p), arg);
    return NULL;
}

static void threads_may_share_an_engine(void **state)
{
    (void)state;
    pthread_t thread[6];
    struct reply r[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, one_thread, &r[i]), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i < 6; i++)
        assert_memory_equal(r[0].ids, r[i].ids, sizeof r[0].ids);
}

static void waiting_can_be_bounded(void **state)
{
    (void)state;
    ffwd_params p = plain_params();
    ffwd_event ev;
    ffwd_request *rq = start(&p);
    int got, calls = 0;
    do {
        got = ffwd_next(rq, &ev, 5);
        assert_true(calls++ < 100000);
    } while (got == 0 || ev.kind != FFWD_END);
    ffwd_finish(rq, NULL);
}

/* --- how it is served ------------------------------------------------------------------------------------------------ */

static void salts_keep_prefixes_apart(void **state)
{
    (void)state;
    struct reply r;
    int32_t long_prompt[70];
    for (int i = 0; i < 70; i++)
        long_prompt[i] = 30 + i;
    static const char *const salts[] = {"tenant a", "tenant a", "tenant b"};
    static const unsigned cached[] = {0, 69, 0};
    for (int i = 0; i < 3; i++) {
        ffwd_params p;
        ffwd_params_init(&p);
        p.prompt = long_prompt;
        p.prompt_n = 70;
        p.max_tokens = 3;
        p.ignore_eos = 1;
        p.cache_salt = salts[i];
        p.cache_salt_n = 8;
        p.priority = i - 1;
        read_reply(start(&p), &r);
        assert_int_equal(r.result.cached_tokens, cached[i]);
        assert_false(r.result.kv_exhausted);
    }
}

static void deadlines_and_priorities_are_checked(void **state)
{
    (void)state;
    ffwd_error err;
    ffwd_params p = plain_params();
    p.priority = 101;
    assert_null(ffwd_start(engine, &p, &err));
    assert_int_equal(err.code, FFWD_ARGUMENT);
    assert_string_equal(err.field, "priority");
    p.priority = 0;
    p.cache_salt = "x";
    p.cache_salt_n = 257;
    assert_null(ffwd_start(engine, &p, &err));
    assert_string_equal(err.field, "cache_salt");
    p.cache_salt = NULL;
    p.deadline_ms = UINT32_MAX;
    assert_null(ffwd_start(engine, &p, &err));
    assert_string_equal(err.field, "deadline_ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_reports_what_is_wrong),
        cmocka_unit_test(an_engine_says_what_it_is),
        cmocka_unit_test(text_goes_there_and_back),
        cmocka_unit_test(control_tokens_need_trust),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(a_conversation_becomes_a_prompt),
        cmocka_unit_test(a_request_gives_tokens_and_text),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(a_cancelled_request_ends),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(samplers_reach_the_engine),
        cmocka_unit_test(samplers_out_of_range_are_refused),
        cmocka_unit_test(a_ban_of_everything_fails),
        cmocka_unit_test(a_stop_text_ends_the_reply),
        cmocka_unit_test(threads_may_share_an_engine),
        cmocka_unit_test(waiting_can_be_bounded),
        cmocka_unit_test(salts_keep_prefixes_apart),
        cmocka_unit_test(deadlines_and_priorities_are_checked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
