/*
 * cmocka: what the unit tests of tests/cross use of it, since distributions have the library for their own processor
 * only. The first failed assertion ends the program. Apart from that it does and prints what the real one does.
 */
#ifndef TESTS_CROSS_CMOCKA_H
#define TESTS_CROSS_CMOCKA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
};

#define cmocka_unit_test(f) {#f, f}
#define cmocka_run_group_tests(tests, setup, teardown)                        \
    cross_run(tests, sizeof(tests) / sizeof *(tests), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) cmocka_run_group_tests(tests, setup, teardown)

/* For the group; NULL = none. */
typedef int cross_step(void **state);

static inline int cross_run(const struct CMUnitTest *tests, size_t n, cross_step *setup, cross_step *teardown)
{
    void *state = NULL;
    int failed = setup && setup(&state);
    for (size_t i = 0; i < n && !failed; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        fflush(stdout);
        tests[i].test(&state);
    }
    failed |= teardown && teardown(&state);
    printf(failed ? "[  FAILED  ] %d test(s): before or after them\n" : "[  PASSED  ] %d test(s).\n", failed ? 1 : (int)n);
    return failed;
}

#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...) (printf(__VA_ARGS__), cross_assert(0, "", __FILE__, __LINE__))

static inline void cross_assert(int holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    printf("%s:%d: failed: %s\n[  FAILED  ] 1 test(s)\n", file, line, what);
    exit(1);
}

#define CROSS_ASSERT(holds, what) cross_assert(holds, what, __FILE__, __LINE__)
#define assert_true(x) CROSS_ASSERT(!!(x), #x)
#define assert_false(x) CROSS_ASSERT(!(x), "not " #x)
#define assert_null(p) CROSS_ASSERT((p) == NULL, #p " is NULL")
#define assert_non_null(p) CROSS_ASSERT((p) != NULL, #p " is not NULL")
#define assert_ptr_equal(a, b) CROSS_ASSERT((const void *)(a) == (const void *)(b), #a " is " #b)
#define assert_int_equal(a, b) CROSS_ASSERT((uintmax_t)(a) == (uintmax_t)(b), #a " == " #b)
#define assert_in_range(x, low, high) CROSS_ASSERT(cross_between(x, low, high), #x " in " #low " to " #high)
#define assert_string_equal(a, b) CROSS_ASSERT(strcmp(a, b) == 0, #a " equals " #b)
#define assert_string_not_equal(a, b) CROSS_ASSERT(strcmp(a, b) != 0, #a " differs from " #b)
#define assert_memory_equal(a, b, n) CROSS_ASSERT(memcmp(a, b, n) == 0, #a " equals " #b)

static inline int cross_between(uintmax_t x, uintmax_t low, uintmax_t high)
{
    return x >= low && x <= high;
}

#endif
