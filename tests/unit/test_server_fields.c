/*
 * server, the pure part: JSON in and out, and the fields of the OpenAI API.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"
#include "server/http/json_out.h"

/* ---- JSON ---- */

static void check_str(const char *s, size_t n, const char *want)
{
    struct buf b;
    buf_init(&b, 4096);
    http_json_str(&b, s, n);
    assert_string_equal(b.data, want);
    buf_release(&b);
}

static void test_json_str(void **state)
{
    (void)state;
    check_str(NULL, 0, "\"\"");
    check_str("a\"\\/\b\n\x1f\0z", 10, "\"a\\\"\\\\/\\u0008\\n\\u001f\\u0000z\\u0000\"");
    check_str("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7f", 10, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7f\"");
    /* lone continuation, overlong, surrogate, beyond U+10FFFF, cut off */
    check_str("\x80", 1, "\"\xEF\xBF\xBD\"");
    check_str("\xC0\xAF", 2, "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_str("\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_str("\xF4\x90\x80\x80", 4, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_str("x\xE2\x82", 3, "\"x\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void check_fixed(double v, const char *want)
{
    struct buf b;
    buf_init(&b, 100);
    http_json_fixed(&b, v);
    assert_string_equal(b.data, want);
    buf_release(&b);
}

static void test_json_fixed(void **state)
{
    (void)state;
    check_fixed(0, "0.000000");
    check_fixed(-0.5, "-0.500000");
    check_fixed(-1e-9, "0.000000");
    check_fixed(12345.6789, "12345.678900");
    check_fixed(-__builtin_inf(), "-9999.000000");
    check_fixed(__builtin_nan(""), "-9999.000000");
}

static void check_parse(const char *s, size_t n, enum status want)
{
    struct err e = {0};
    json_t *v;
    enum status st = http_json_parse(s, n, &v, &e);
    if (st != want)
        fail_msg("%.60s: %s, not %s", s, status_name(st), status_name(want));
    assert_true((st == ST_OK) == (v != NULL));
    json_decref(v);
}

static void test_json_parse(void **state)
{
    (void)state;
    check_parse("{}", 2, ST_OK);
    check_parse("{\"a\":\"\\u0000\"}", 14, ST_OK);
    check_parse("{\"a\":18446744073709551615}", 26, ST_OK);
    check_parse(NULL, 0, ST_ARGUMENT);
    check_parse("[]", 2, ST_ARGUMENT);
    check_parse("{\"a\":1,\"a\":2}", 13, ST_ARGUMENT);
    check_parse("{\"a\":\"\\ud800\"}", 14, ST_ARGUMENT);
    check_parse("{\"a\":\"\xFF\"}", 9, ST_ARGUMENT);
    check_parse("{\"a\":1e999}", 11, ST_ARGUMENT);
    check_parse("{} x", 4, ST_ARGUMENT);
    char deep[600];
    memset(deep, '[', sizeof deep);
    check_parse(deep, sizeof deep, ST_TOO_LONG);
    deep[0] = '{';
    memcpy(deep + 1, "\"a\":", 4);
    memset(deep + 5, '[', 127);
    memset(deep + 132, ']', 127);
    deep[259] = '}';
    check_parse(deep, 260, ST_OK);
    size_t many = 3u << 20;
    char *commas = malloc(many);
    memset(commas, ',', many);
    check_parse(commas, many, ST_TOO_LONG);
    memset(commas, 'x', many); /* in a string, nothing counts */
    memcpy(commas, "{\"a\":\"", 6);
    memset(commas + 6, '[', many / 2);
    memcpy(commas + many - 2, "\"}", 2);
    check_parse(commas, many, ST_OK);
    free(commas);
}

/* ---- fields ---- */

static enum status parse(const char *s, bool chat, struct reply_job *job, struct err *e)
{
    struct openai_chat_request rq;
    server_job_init(job);
    assert_int_equal(http_json_parse(s, strlen(s), &job->root, e), ST_OK);
    return chat ? openai_parse_chat(job->root, job, &rq, e) : openai_parse_completions(job->root, job, e);
}

static void test_fields(void **state)
{
    (void)state;
    struct reply_job job;
    struct err e = {0};
    assert_int_equal(parse("{\"max_tokens\":7,\"temperature\":0,\"top_p\":0.5,\"top_k\":-1,\"min_p\":0.1,\"seed\":9,"
                           "\"repetition_penalty\":1.5,\"stop\":[\"a\",\"b\\u0000c\"],\"stream\":true,\"n\":3,"
                           "\"stream_options\":{\"include_usage\":true},\"logprobs\":true,\"top_logprobs\":2,"
                           "\"tools\":null,\"presence_penalty\":0.0,\"logit_bias\":{},\"user\":5,\"unknown\":[1],"
                           "\"response_format\":{\"type\":\"text\"},\"tool_choice\":\"auto\",\"typical_p\":1,"
                           "\"min_tokens\":0,\"stop_token_ids\":[],\"regex\":null,\"use_beam_search\":false}",
                           true, &job, &e),
                     ST_OK);
    assert_int_equal(job.max_tokens, 7);
    assert_true(job.sampling.temperature == 0 && job.sampling.top_p == 0.5f && job.sampling.top_k == 0);
    assert_true(job.sampling.seed == 9 && job.sampling.repetition_penalty == 1.5f && job.sampling.min_p == 0.1f);
    assert_true(job.stops_n == 2 && job.stops[1].n == 3 && memcmp(job.stops[1].s, "b\0c", 3) == 0);
    assert_true(job.stream && job.include_usage && job.n == 3 && job.logprobs == 3);
    server_job_release(&job);

    assert_int_equal(parse("{\"logprobs\":0,\"stop\":\"x\",\"max_completion_tokens\":16.0,\"echo\":false}", false,
                           &job, &e),
                     ST_OK);
    assert_true(job.logprobs == 1 && job.stops_n == 1 && job.max_tokens == 16);
    assert_true(job.sampling.temperature == 1 && job.sampling.top_p == 1 && job.sampling.seed < 1ull << 53);
    uint64_t seed = job.sampling.seed;
    server_job_release(&job);
    assert_int_equal(parse("{\"seed\":null}", true, &job, &e), ST_OK);
    assert_true(job.sampling.seed != seed && job.logprobs == 0 && job.max_tokens == 0);
    server_job_release(&job);
}

static bool same(struct server_name n, const char *s)
{
    return n.n == strlen(s) && memcmp(n.s, s, n.n) == 0;
}

static void test_extra_fields(void **state)
{
    (void)state;
    struct reply_job job;
    struct err e = {0};
    assert_int_equal(parse("{\"priority\":-100,\"deadline_ms\":86400000,\"cache_salt\":\"a\\u0000b\",\"prompt_cache_key\":"
                           "\"key\",\"ffwd\":{\"plan\":true,\"session\":\"s-1\",\"trace\":true,\"fill\":\"strict\","
                           "\"sources\":[\"grammar\",\"echo\"]}}",
                           true, &job, &e),
                     ST_OK);
    assert_true(job.priority == -100 && job.deadline_ms == 86400000 && job.plan && job.trace);
    assert_int_equal(job.fill, FILL_STRICT);
    assert_int_equal(job.sources_off,
                     1u << SOURCE_LIKELY | 1u << SOURCE_TEMPLATE | 1u << SOURCE_NGRAM | 1u << SOURCE_DRAFT);
    assert_true(job.salt.n == 3 && memcmp(job.salt.s, "a\0b", 3) == 0);
    assert_true(same(job.cache_key, "key") && same(job.session, "s-1"));
    assert_true(job.lookups_n == 2 && same(job.lookups[0], "s-1") && same(job.lookups[1], "key"));
    server_job_release(&job);
    assert_int_equal(parse("{\"priority\":null,\"prompt_cache_key\":\"\",\"ffwd\":{\"fill\":null}}", false, &job, &e),
                     ST_OK);
    assert_true(job.priority == 0 && job.deadline_ms == 0 && !job.salt.n && !job.plan && !job.lookups_n);
    assert_true(job.fill == FILL_LOSSLESS && !job.sources_off && !job.trace);
    server_job_release(&job);
    assert_int_equal(parse("{\"ffwd\":{\"fill\":\"off\",\"sources\":[]}}", false, &job, &e), ST_OK);
    assert_true(job.fill == FILL_OFF && job.sources_off == (1u << SOURCE_KINDS) - 1);
    server_job_release(&job);
    assert_int_equal(parse("{\"echo\":true,\"max_tokens\":0}", false, &job, &e), ST_OK);
    assert_true(job.echo && job.nothing && job.max_tokens == 0);
    server_job_release(&job);
}

static void check_long(const char *field, size_t n, bool ok)
{
    struct reply_job job;
    struct err e = {0};
    char body[600];
    snprintf(body, sizeof body, "{\"%s\":\"%0*d\"}", field, (int)n, 0);
    enum status st = parse(body, true, &job, &e);
    assert_int_equal(st, ok ? ST_OK : ST_ARGUMENT);
    server_job_release(&job);
}

static void test_longest_names(void **state)
{
    (void)state;
    check_long("cache_salt", LIMIT_SALT, true);
    check_long("cache_salt", LIMIT_SALT + 1, false);
    check_long("prompt_cache_key", LIMIT_REPLAY_NAME, true);
    check_long("prompt_cache_key", LIMIT_REPLAY_NAME + 1, false);
}

/* The latest messages come first, and there is an end to it; an id of another type names nothing. */
static void test_names_in_messages(void **state)
{
    (void)state;
    struct reply_job job;
    struct err e = {0};
    assert_int_equal(parse("{\"messages\":[{\"id\":\"m1\",\"tool_calls\":[{\"id\":\"c1\"},{\"id\":7},{\"id\":\"c2\"}]},"
                           "{\"tool_call_id\":\"c1\"},{\"id\":5},[],{\"id\":\"m2\"}]}",
                           true, &job, &e),
                     ST_OK);
    openai_name_messages(job.root, &job);
    static const char *const want[] = {"m2", "c1", "m1", "c2"};
    assert_int_equal(job.lookups_n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(same(job.lookups[i], want[i]));
    server_job_release(&job);

    struct buf b;
    buf_init(&b, 1 << 20);
    buf_adds(&b, "{\"messages\":[");
    for (int i = 0; i < 100; i++)
        buf_addf(&b, "%s{\"id\":\"m%d\",\"tool_calls\":[{\"id\":\"a\"},{\"id\":\"b\"}]}", i ? "," : "", i);
    buf_adds(&b, "]}");
    assert_int_equal(parse(b.data, true, &job, &e), ST_OK);
    openai_name_messages(job.root, &job);
    assert_int_equal(job.lookups_n, LIMIT_REPLAY_LOOKUPS);
    assert_true(same(job.lookups[0], "m99"));
    server_job_release(&job);
    buf_release(&b);
}

/* -1 means a fresh seed, as absent and null do; every other number is meant. */
static void test_seed_minus_one(void **state)
{
    (void)state;
    struct reply_job job;
    struct err e = {0};
    assert_int_equal(parse("{\"seed\":-1}", true, &job, &e), ST_OK);
    uint64_t seed = job.sampling.seed;
    assert_true(seed < 1ull << 53);
    server_job_release(&job);
    assert_int_equal(parse("{\"seed\":-1}", true, &job, &e), ST_OK);
    assert_true(job.sampling.seed != seed);
    server_job_release(&job);
    assert_int_equal(parse("{\"seed\":-2}", true, &job, &e), ST_OK);
    assert_true(job.sampling.seed == UINT64_MAX - 1);
    server_job_release(&job);
    assert_int_equal(parse("{\"seed\":0}", true, &job, &e), ST_OK);
    assert_true(job.sampling.seed == 0);
    server_job_release(&job);
}

static void check_refused(const char *s, bool chat, enum status want, const char *field)
{
    struct reply_job job;
    struct err e = {0};
    enum status st = parse(s, chat, &job, &e);
    if (st != want || strcmp(e.field, field) != 0)
        fail_msg("%s: %s '%s', not %s '%s'", s, status_name(st), e.field, status_name(want), field);
    server_job_release(&job);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
        enum status code;
    } both[] = {
        {"{\"temperature\":\"hot\"}", "temperature", ST_ARGUMENT},
        {"{\"temperature\":-0.1}", "temperature", ST_ARGUMENT},
        {"{\"temperature\":true}", "temperature", ST_ARGUMENT},
        {"{\"top_p\":0}", "top_p", ST_ARGUMENT},
        {"{\"top_p\":1.01}", "top_p", ST_ARGUMENT},
        {"{\"min_p\":1}", "min_p", ST_ARGUMENT},
        {"{\"top_k\":1.5}", "top_k", ST_ARGUMENT},
        {"{\"max_tokens\":0}", "max_tokens", ST_ARGUMENT},
        {"{\"max_tokens\":\"5\"}", "max_tokens", ST_ARGUMENT},
        {"{\"max_tokens\":5,\"max_completion_tokens\":6}", "max_tokens", ST_ARGUMENT},
        {"{\"seed\":18446744073709551615}", "seed", ST_ARGUMENT},
        {"{\"seed\":0.5}", "seed", ST_ARGUMENT},
        {"{\"n\":0}", "n", ST_ARGUMENT},
        {"{\"n\":1000}", "n", ST_ARGUMENT},
        {"{\"stop\":[\"\"]}", "stop[0]", ST_ARGUMENT},
        {"{\"stop\":[\"a\",5]}", "stop[1]", ST_ARGUMENT},
        {"{\"stop\":{}}", "stop", ST_ARGUMENT},
        {"{\"stop\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "stop", ST_ARGUMENT},
        {"{\"stream\":1}", "stream", ST_ARGUMENT},
        {"{\"stream_options\":{\"include_usage\":true}}", "stream_options", ST_ARGUMENT},
        {"{\"stream\":true,\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage", ST_ARGUMENT},
        {"{\"stream\":true,\"stream_options\":{\"include_obfuscation\":true}}", "stream_options.include_obfuscation",
         ST_UNSUPPORTED},
        {"{\"stream\":true,\"stream_options\":{\"include_obfuscation\":1}}", "stream_options.include_obfuscation",
         ST_ARGUMENT},
        {"{\"presence_penalty\":\"x\"}", "presence_penalty", ST_ARGUMENT},
        {"{\"stop_token_ids\":[2]}", "stop_token_ids", ST_UNSUPPORTED},
        {"{\"bad_words\":[\"a\"]}", "bad_words", ST_UNSUPPORTED},
        {"{\"allowed_token_ids\":[]}", "allowed_token_ids", ST_UNSUPPORTED},
        {"{\"structural_tag\":{}}", "structural_tag", ST_UNSUPPORTED},
        {"{\"grammar_lazy\":true}", "grammar_lazy", ST_UNSUPPORTED},
        {"{\"guided_whitespace_pattern\":\" \"}", "guided_whitespace_pattern", ST_UNSUPPORTED},
        {"{\"repeat_penalty\":\"x\"}", "repeat_penalty", ST_ARGUMENT},
        {"{\"use_beam_search\":true}", "use_beam_search", ST_UNSUPPORTED},
        {"{\"priority\":101}", "priority", ST_ARGUMENT},
        {"{\"priority\":-101}", "priority", ST_ARGUMENT},
        {"{\"priority\":\"high\"}", "priority", ST_ARGUMENT},
        {"{\"deadline_ms\":0}", "deadline_ms", ST_ARGUMENT},
        {"{\"deadline_ms\":86400001}", "deadline_ms", ST_ARGUMENT},
        {"{\"cache_salt\":\"\"}", "cache_salt", ST_ARGUMENT},
        {"{\"cache_salt\":5}", "cache_salt", ST_ARGUMENT},
        {"{\"prompt_cache_key\":[]}", "prompt_cache_key", ST_ARGUMENT},
        {"{\"ffwd\":1}", "ffwd", ST_ARGUMENT},
        {"{\"ffwd\":{\"plan\":1}}", "ffwd.plan", ST_ARGUMENT},
        {"{\"ffwd\":{\"plan\":true,\"trace\":1}}", "ffwd.trace", ST_ARGUMENT},
        {"{\"ffwd\":{\"plan\":true,\"colour\":true}}", "ffwd.colour", ST_ARGUMENT},
        {"{\"ffwd\":{\"fill\":true}}", "ffwd.fill", ST_ARGUMENT},
        {"{\"ffwd\":{\"fill\":\"lossy\"}}", "ffwd.fill", ST_ARGUMENT},
        {"{\"ffwd\":{\"sources\":\"echo\"}}", "ffwd.sources", ST_ARGUMENT},
        {"{\"ffwd\":{\"sources\":[\"echo\",5]}}", "ffwd.sources", ST_ARGUMENT},
        {"{\"ffwd\":{\"sources\":[\"echo\",\"oracle\"]}}", "ffwd.sources", ST_ARGUMENT},
        {"{\"ffwd\":{\"session\":\"\"}}", "ffwd.session", ST_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        check_refused(both[i].body, true, both[i].code, both[i].field);
        check_refused(both[i].body, false, both[i].code, both[i].field);
    }
    check_refused("{\"tool_choice\":\"required\"}", true, ST_ARGUMENT, "tool_choice");
    check_refused("{\"tools\":{}}", true, ST_ARGUMENT, "tools");
    check_refused("{\"tools\":[{\"function\":{\"strict\":1}}]}", true, ST_ARGUMENT, "tools[0].function.strict");
    check_refused("{\"top_logprobs\":1}", true, ST_ARGUMENT, "top_logprobs");
    check_refused("{\"logprobs\":true,\"top_logprobs\":21}", true, ST_ARGUMENT, "top_logprobs");
    check_refused("{\"verbosity\":\"low\"}", true, ST_UNSUPPORTED, "verbosity");
    check_refused("{\"moderation\":{}}", true, ST_UNSUPPORTED, "moderation");
    check_refused("{\"chat_template\":\"x\"}", true, ST_UNSUPPORTED, "chat_template");
    check_refused("{\"modalities\":[\"audio\"]}", true, ST_UNSUPPORTED, "modalities");
    check_refused("{\"logprobs\":true}", false, ST_ARGUMENT, "logprobs");
    check_refused("{\"echo\":1}", false, ST_ARGUMENT, "echo");
    check_refused("{\"echo\":true}", true, ST_UNSUPPORTED, "echo");
    check_refused("{\"echo\":true,\"max_tokens\":-1}", false, ST_ARGUMENT, "max_tokens");
    check_refused("{\"echo\":true,\"max_tokens\":0,\"max_completion_tokens\":1}", false, ST_ARGUMENT, "max_tokens");
    check_refused("{\"best_of\":2}", false, ST_UNSUPPORTED, "best_of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_str), cmocka_unit_test(test_json_fixed), cmocka_unit_test(test_json_parse),
        cmocka_unit_test(test_extra_fields), cmocka_unit_test(test_longest_names), cmocka_unit_test(test_names_in_messages),
        cmocka_unit_test(test_fields),   cmocka_unit_test(test_refused),  cmocka_unit_test(test_seed_minus_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
