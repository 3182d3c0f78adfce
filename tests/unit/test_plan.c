/* engine: plans and admission, as the whole table of cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/plan.h"

static void is(struct plan_feature f, const char *why)
{
    assert_int_equal(f.on, !why);
    if (why)
        assert_string_equal(f.why, why);
    else
        assert_null(f.why);
}

/* Every combination of facts and means: what each feature must be, written as rules of its own. */
static void test_table(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 32; bits++) {
        const struct plan_facts f = {.ns = 7 + bits,
                                     .prompt_logprobs = bits & 1,
                                     .no_prefix_cache = bits & 2,
                                     .whole = bits & 8,
                                     .pooled = bits & 16};
        const struct plan_means m = {.prefix_cache = bits & 4};
        struct plan p = plan_make(&f, &m);
        const char *cache = !m.prefix_cache     ? "the server keeps no prefixes"
                            : f.no_prefix_cache ? "the request asked for none"
                                                : NULL;
        const char *vector = f.whole    ? "keys and values depend on what follows them"
                             : f.pooled ? "the vector needs every position computed"
                                        : NULL;
        is(p.publish, cache ? cache : f.prompt_logprobs ? NULL : vector);
        is(p.match, cache               ? cache
                    : f.prompt_logprobs ? "log-probabilities of the prompt need every position computed"
                                        : vector);
        assert_int_equal(p.ns, 7 + bits);
    }
}

/* Each source under every combination of what decides about it. */
static void test_sources(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 64; bits++)
        for (unsigned k = 0; k < SOURCE_KINDS; k++) {
            bool grammar = k == SOURCE_GRAMMAR || k == SOURCE_LIKELY;
            const struct plan_facts f = {.off = bits & 1, .nothing = bits & 2, .sources_off = bits & 4 ? 1u << k : 0,
                                         .grammar = bits & 16, .rows = bits & 32};
            const struct plan_means m = {.sources = bits & 8 ? 1u << k : 0};
            const char *why = f.off                          ? "the request asked for one id a step"
                              : f.nothing                    ? "nothing is generated"
                              : f.sources_off                ? "the request switched it off"
                              : !m.sources && k == SOURCE_DRAFT ? "the server has no draft model"
                              : !m.sources                   ? "the server has it switched off"
                              : grammar && !f.grammar        ? "nothing constrains the reply"
                              : k == SOURCE_TEMPLATE && !f.rows
                                  ? "the chat template determines nothing: there are no tools, or it does not say how "
                                    "calls are written"
                                  : NULL;
            struct plan p = plan_make(&f, &m);
            is(p.source[k], why);
            for (unsigned other = 0; other < SOURCE_KINDS; other++) /* what one has says nothing of another */
                assert_true(other == k || !p.source[other].on);
        }
}

/* Whoever needs the distribution gets a head for each id; penalties, bias and seeds exclude nothing. */
static void test_heads(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 4; bits++) {
        const struct plan_facts f = {.logprobs = bits & 1, .needs_dist = bits & 2, .grammar = true, .rows = true};
        const struct plan_means m = {.sources = (1u << SOURCE_KINDS) - 1};
        struct plan p = plan_make(&f, &m);
        is(p.skip_head, f.logprobs     ? "log-probabilities need the distribution at each position"
                        : f.needs_dist ? "mirostat learns from the distribution at each position"
                                       : NULL);
        for (unsigned k = 0; k < SOURCE_KINDS; k++)
            assert_true(p.source[k].on);
    }
}

static void test_admission(void **state)
{
    (void)state;
    static const struct {
        struct plan_room room;
        enum plan_admission want;
    } t[] = {
        {{.need = 3, .whole = 5, .free = 10, .all = 10}, PLAN_RUN},
        {{.need = 3, .whole = 5, .free = 3, .all = 10}, PLAN_RUN},
        {{.need = 3, .whole = 5, .free = 2, .all = 10}, PLAN_WAIT},
        {{.need = 3, .whole = 10, .free = 0, .all = 10}, PLAN_WAIT},
        {{.need = 3, .whole = 10, .free = 0, .all = 10, .alone = true}, PLAN_RUN},
        {{.need = 3, .whole = 11, .free = 10, .all = 10}, PLAN_NEVER},
        {{.need = 3, .whole = 11, .free = 10, .all = 10, .alone = true}, PLAN_NEVER},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        assert_int_equal(plan_admit(&t[i].room), t[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
