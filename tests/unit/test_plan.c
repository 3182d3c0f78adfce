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
    for (unsigned bits = 0; bits < 8; bits++) {
        const struct plan_facts f = {.ns = 7 + bits,
                                     .prompt_logprobs = bits & 1,
                                     .no_prefix_cache = bits & 2};
        const struct plan_means m = {.prefix_cache = bits & 4};
        struct plan p = plan_make(&f, &m);
        const char *cache = !m.prefix_cache     ? "the server keeps no prefixes"
                            : f.no_prefix_cache ? "the request asked for none"
                                                : NULL;
        is(p.publish, cache);
        is(p.match, cache               ? cache
                    : f.prompt_logprobs ? "log-probabilities of the prompt need every position computed"
                                        : NULL);
        assert_int_equal(p.ns, 7 + bits);
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
        cmocka_unit_test(test_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
