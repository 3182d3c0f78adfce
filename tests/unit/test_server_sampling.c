/* server, the fields that say how tokens are chosen: names, ranges, contradictions, and the sets of ids behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

static enum status parse(const char *s, bool chat, struct reply_job *job, struct err *e)
{
    struct openai_chat_request rq;
    server_job_init(job);
    assert_int_equal(http_json_parse(s, strlen(s), &job->root, e), ST_OK);
    return chat ? openai_parse_chat(job->root, job, &rq, e) : openai_parse_completions(job->root, job, e);
}

static void taken(const char *s, struct reply_job *job)
{
    struct err e = {0};
    if (parse(s, false, job, &e) != ST_OK)
        fail_msg("%s: %s", s, e.text);
    server_job_release(job);
    if (parse(s, true, job, &e) != ST_OK)
        fail_msg("%s: %s", s, e.text);
}

static void refuse(const char *s, const char *field)
{
    for (int chat = 0; chat < 2; chat++) {
        struct reply_job job;
        struct err e = {0};
        enum status st = parse(s, chat, &job, &e);
        if (st != ST_ARGUMENT || strcmp(e.field, field) != 0)
            fail_msg("%s: %s '%s', not '%s'", s, status_name(st), e.field, field);
        assert_non_null(strstr(e.text, field));
        server_job_release(&job);
    }
}

/* Nothing given: temperature 1, everything else off. */
static void test_defaults(void **state)
{
    (void)state;
    struct reply_job job;
    struct sample_params want = sample_defaults();
    taken("{}", &job);
    want.temperature = 1;
    want.seed = job.sampling.seed;
    assert_memory_equal(&job.sampling, &want, sizeof want);
    server_job_release(&job);
    taken("{\"logit_bias\":null,\"samplers\":null,\"mirostat\":null,\"repeat_penalty\":null,\"dry_sequence_breakers\":"
           "null,\"top_n_sigma\":-1,\"mirostat_tau\":5.0,\"xtc_threshold\":0.1,\"dry_base\":1.75,\"presence_penalty\":0,"
           "\"repeat_last_n\":-1,\"dry_penalty_last_n\":-1,\"min_tokens\":0}",
           &job);
    server_job_release(&job);
}

static void test_values(void **state)
{
    (void)state;
    struct reply_job job;
    taken("{\"presence_penalty\":-1.5,\"frequency_penalty\":2,\"repeat_penalty\":1.25,\"repeat_last_n\":64,"
           "\"dry_multiplier\":0.75,\"dry_base\":2,\"dry_allowed_length\":3,\"dry_penalty_last_n\":1000,"
           "\"typical_p\":0.5,\"xtc_probability\":0.5,\"xtc_threshold\":0.25,\"top_n_sigma\":1.5,\"top_k\":40,"
           "\"dynatemp_range\":0.25,\"dynatemp_exponent\":2,\"min_p\":0.5,\"top_p\":0.75,\"min_tokens\":5,"
           "\"max_tokens\":5,\"samplers\":[\"penalties\",\"dry\",\"top_k\",\"typ_p\",\"top_p\",\"min_p\",\"xtc\","
           "\"top_n_sigma\",\"temperature\"]}",
           &job);
    const struct sample_params *p = &job.sampling;
    assert_true(p->presence_penalty == -1.5f && p->frequency_penalty == 2 && p->repetition_penalty == 1.25f);
    assert_true(p->penalty_last == 64 && p->dry_last == 1000 && p->dry_multiplier == 0.75f && p->dry_base == 2);
    assert_true(p->dry_allowed == 3 && p->typical_p == 0.5f && p->xtc_probability == 0.5f);
    assert_true(p->xtc_threshold == 0.25f && p->top_n_sigma == 1.5f && p->top_k == 40);
    assert_true(p->dynatemp_range == 0.25f && p->dynatemp_exponent == 2 && p->min_p == 0.5f && p->top_p == 0.75f);
    assert_true(p->min_tokens == 5 && p->order_n == 9 && p->order[2] == SAMPLE_TOP_K);
    assert_true(p->order[3] == SAMPLE_TYPICAL && p->order[8] == SAMPLE_TEMPERATURE);
    server_job_release(&job);
    taken("{\"mirostat\":2,\"mirostat_tau\":4,\"mirostat_eta\":0.5,\"temperature\":0.5}", &job);
    assert_true(p->mirostat == 2 && p->mirostat_tau == 4 && p->mirostat_eta == 0.5f);
    server_job_release(&job);
    taken("{\"min_new_tokens\":7}", &job);
    assert_int_equal(p->min_tokens, 7);
    server_job_release(&job);
    taken("{\"repetition_penalty\":1.5,\"repeat_penalty\":1.5,\"min_tokens\":3,\"min_new_tokens\":3}", &job);
    assert_true(p->repetition_penalty == 1.5f && p->min_tokens == 3);
    server_job_release(&job);
}

/* As in llama-server: -1 is all of it, 0 switches off what looks at the window. */
static void test_windows(void **state)
{
    (void)state;
    struct reply_job job;
    taken("{\"presence_penalty\":1,\"repeat_last_n\":-1,\"dry_multiplier\":1,\"dry_penalty_last_n\":-1}", &job);
    assert_true(job.sampling.penalty_last == 0 && job.sampling.presence_penalty == 1);
    assert_true(job.sampling.dry_last == 0 && job.sampling.dry_multiplier == 1);
    server_job_release(&job);
    taken("{\"repetition_context_size\":20,\"presence_context_size\":0,\"frequency_context_size\":30}", &job);
    assert_true(job.sampling.penalty_last == 20 && job.sampling.presence_last == UINT32_MAX);
    assert_true(job.sampling.frequency_last == 30);
    server_job_release(&job);
    taken("{\"repeat_last_n\":40,\"presence_context_size\":10}", &job);
    assert_true(job.sampling.penalty_last == 40 && job.sampling.presence_last == 10 && !job.sampling.frequency_last);
    server_job_release(&job);
    taken("{\"presence_penalty\":1,\"frequency_penalty\":1,\"repeat_penalty\":2,\"repeat_last_n\":0,"
           "\"dry_multiplier\":1,\"dry_penalty_last_n\":0}",
           &job);
    assert_true(job.sampling.presence_penalty == 0 && job.sampling.frequency_penalty == 0);
    assert_true(job.sampling.repetition_penalty == 1 && job.sampling.dry_multiplier == 0);
    server_job_release(&job);
}

static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *field, *values; /* separated by blanks */
    } bad[] = {
        {"presence_penalty", "-2.01 2.01 \"x\" 1e300"}, {"frequency_penalty", "-2.01 2.01 true"},
        {"repetition_penalty", "0 -1 100.5 []"},        {"repeat_penalty", "0 -1 100.5 \"x\""},
        {"repeat_last_n", "-2 0.5 99999999999"},        {"dry_multiplier", "-0.1 101"},
        {"dry_base", "0.99 101"},                       {"dry_allowed_length", "0 -1 1025 1.5"},
        {"presence_context_size", "-1 99999999999"},    {"repetition_context_size", "-1"},
        {"dry_penalty_last_n", "-2 99999999999"},       {"typical_p", "0 1.01 -1"},
        {"xtc_probability", "-0.1 1.1"},                {"xtc_threshold", "-0.1 1.1"},
        {"top_n_sigma", "-1.5 101"},                    {"mirostat", "3 -1 1.5 true"},
        {"mirostat_tau", "-1 101"},                     {"mirostat_eta", "-0.1 1.1"},
        {"dynatemp_range", "-0.1 101"},                 {"dynatemp_exponent", "-0.1 101"},
        {"min_tokens", "-1 0.5 \"5\""},                 {"min_new_tokens", "-1 {}"},
        {"samplers", "\"topk\" [] [5] [\"greedy\"] [\"top_k\",\"top_k\"] [\"top_k\",\"dry\"] {}"},
        {"logit_bias", "[] \"x\" {\"a\":1} {\"-1\":1} {\"\":1} {\"1.0\":1} {\"05\":1} {\"99999999999\":1}"},
        {"logit_bias", "{\"2147483648\":1} {\"2147483647\":1}"},
        {"logit_bias", "{\"5\":101} {\"5\":-100.5} {\"5\":\"1\"} {\"5\":null} {\"5\":true} {\"5\":1e300}"},
        {"dry_sequence_breakers", "\"x\" {} [5] [\"\"] [\"a\",null]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (const char *v = bad[i].values; *v; v += strcspn(v, " "), v += *v == ' ') {
            char body[200];
            snprintf(body, sizeof body, "{\"%s\":%.*s}", bad[i].field, (int)strcspn(v, " "), v);
            refuse(body, bad[i].field);
        }
}

static void test_contradictions(void **state)
{
    (void)state;
    refuse("{\"repetition_penalty\":1.5,\"repeat_penalty\":1.25}", "repeat_penalty");
    refuse("{\"min_tokens\":5,\"min_new_tokens\":6}", "min_tokens");
    refuse("{\"min_tokens\":6,\"max_tokens\":5}", "min_tokens");
    refuse("{\"mirostat\":1,\"top_p\":0.9}", "top_p");
    refuse("{\"mirostat\":2,\"top_k\":40}", "top_k");
    refuse("{\"mirostat\":2,\"min_p\":0.05}", "min_p");
    refuse("{\"mirostat\":2,\"dynatemp_range\":0.5}", "dynatemp_range");
    refuse("{\"mirostat\":2,\"samplers\":[\"temperature\"]}", "samplers");
    refuse("{\"samplers\":[\"top_k\"],\"top_p\":0.9}", "top_p");
    refuse("{\"samplers\":[\"top_k\",\"temperature\"],\"presence_penalty\":1}", "presence_penalty");
    refuse("{\"samplers\":[\"top_k\"],\"temperature\":0.7}", "temperature");
}

static void test_bias(void **state)
{
    (void)state;
    struct reply_job job;
    taken("{\"logit_bias\":{\"50256\":-100,\"0\":2.5,\"7\":100}}", &job);
    assert_int_equal(job.sampling.bias_n, 3);
    float sum = 0;
    for (uint32_t i = 0; i < 3; i++)
        sum += job.sampling.bias[i].bias * (job.sampling.bias[i].id == 0 ? 1000.0f : 1.0f);
    assert_true(sum == 2500.0f);
    server_job_release(&job);
    assert_null(job.sampling.bias);
    for (uint32_t n = LIMIT_BIAS; n <= LIMIT_BIAS + 1; n++) {
        struct buf b;
        char one[32];
        buf_init(&b, 1u << 20);
        buf_adds(&b, "{\"logit_bias\":{");
        for (uint32_t i = 0; i < n; i++) {
            snprintf(one, sizeof one, "%s\"%u\":1", i ? "," : "", i);
            buf_adds(&b, one);
        }
        buf_adds(&b, "}}");
        if (n == LIMIT_BIAS) {
            taken(b.data, &job);
            server_job_release(&job);
        } else {
            refuse(b.data, "logit_bias");
        }
        buf_release(&b);
    }
}

static void test_breaker_limits(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        struct reply_job job;
        char body[4000], text[LIMIT_BREAKER_BYTES + 2];
        size_t at = (size_t)snprintf(body, sizeof body, "{\"dry_sequence_breakers\":[");
        for (uint32_t i = 0; i < LIMIT_BREAKERS + more; i++)
            at += (size_t)snprintf(body + at, sizeof body - at, "%s\"x\"", i ? "," : "");
        snprintf(body + at, sizeof body - at, "]}");
        if (more)
            refuse(body, "dry_sequence_breakers");
        else
            taken(body, &job);
        if (!more)
            server_job_release(&job);
        memset(text, 'x', sizeof text);
        text[LIMIT_BREAKER_BYTES + more] = '\0';
        snprintf(body, sizeof body, "{\"dry_sequence_breakers\":[\"%s\"]}", text);
        if (more)
            refuse(body, "dry_sequence_breakers");
        else
            taken(body, &job);
        if (!more)
            server_job_release(&job);
    }
}

/* ---- sets of ids ---- */

/* 0 a, 1 newline, 2 colon, 3 a:, 4 quote, 5 star, 6 b, 7 two newlines, 8 the end, 9 bb */
static struct tok *ten_ids(void)
{
    static const char json[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
        "{\"id\":8,\"content\":\"<|end|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
        "\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},"
        "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
        "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
        "\"vocab\":{\"a\":0,\"\xC4\x8A\":1,\":\":2,\"a:\":3,\"\\\"\":4,\"*\":5,\"b\":6,\"\xC4\x8A\xC4\x8A\":7,\"bb\":9},"
        "\"merges\":[]}}";
    static const tok_id end = 8;
    struct tok *t;
    struct err e;
    if (tok_new_json(&t, json, sizeof json - 1, &end, 1, &e) != ST_OK)
        fail_msg("%s", e.text);
    return t;
}

static void check_set(const struct sample_set *s, uint32_t want)
{
    uint32_t mask = 0;
    for (uint32_t id = 0; id < s->n; id++)
        mask |= (uint32_t)(s->bits[id / 8] >> id % 8 & 1) << id;
    if (mask != want)
        fail_msg("%#x, not %#x", mask, want);
}

static void test_sets(void **state)
{
    (void)state;
    struct server srv = {.tok = NULL};
    struct tok *t = ten_ids();
    struct reply_job job;
    srv.tok = t;
    assert_int_equal(server_sets_init(&srv, NULL), ST_OK);
    taken("{}", &job); /* what is not asked for is not there */
    assert_int_equal(server_job_sets(&srv, &job, NULL), ST_OK);
    assert_true(!job.sampling.ends.n && !job.sampling.protect.n && !job.sampling.breakers.n);
    server_job_release(&job);
    taken("{\"dry_multiplier\":1,\"xtc_probability\":1,\"min_tokens\":2}", &job);
    assert_int_equal(server_job_sets(&srv, &job, NULL), ST_OK);
    assert_int_equal(job.sampling.ends.n, tok_vocab(t));
    check_set(&job.sampling.ends, 1u << 8);
    check_set(&job.sampling.protect, 1u << 8 | 1u << 1);
    check_set(&job.sampling.breakers, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 7);
    server_job_release(&job);
    taken("{\"dry_multiplier\":1,\"dry_sequence_breakers\":[\"bb\",\"a\"]}", &job);
    assert_int_equal(server_job_sets(&srv, &job, NULL), ST_OK);
    check_set(&job.sampling.breakers, 1u << 9 | 1u << 0 | 1u << 3);
    server_job_release(&job);
    taken("{\"dry_multiplier\":1,\"dry_sequence_breakers\":[]}", &job); /* none at all */
    assert_int_equal(server_job_sets(&srv, &job, NULL), ST_OK);
    check_set(&job.sampling.breakers, 0);
    server_job_release(&job);
    server_sets_release(&srv);
    tok_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),         cmocka_unit_test(test_windows),
        cmocka_unit_test(test_ranges),   cmocka_unit_test(test_contradictions), cmocka_unit_test(test_bias),
        cmocka_unit_test(test_sets),     cmocka_unit_test(test_breaker_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
