/* cli/pick: which files of a list make up the model that somebody names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/pick.h"

static void split_names(void **state)
{
    (void)state;
    uint32_t no, of;
    size_t stem;
    assert_true(pick_split("a/m-00002-of-00003.gguf", &no, &of, &stem));
    assert_int_equal(no, 2);
    assert_int_equal(of, 3);
    assert_int_equal(stem, 3);
    assert_true(pick_split("m-00001-of-00001.gguf", &no, &of, &stem));
    no = of = 7;
    stem = 9;
    static const char *const none[] = {"m.gguf", "-00001-of-00002.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf",
                                       "m-00001-of-99999.gguf", "m-0000x-of-00002.gguf", "m-00001-of-00002.ggu", ""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (pick_split(none[i], &no, &of, &stem))
            fail_msg("taken for a part: %s", none[i]);
    assert_true(no == 7 && of == 7 && stem == 9);
}

static void safe_paths(void **state)
{
    (void)state;
    static const char *const good[] = {"m.gguf", "a/b/m.gguf", "a b/ü..x", "\xc2\xa0"};
    static const char *const bad[] = {"", "/m", "a//m", "a/", "../m", "a/../m", ".m", "a/.m", "a\nb", "a\x7f", "a\\b",
                                      "a\xc2\x9b" "31m"};
    char longest[LIMIT_PULL_PATH + 1];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(pick_is_safe(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (pick_is_safe(bad[i]))
            fail_msg("taken for a safe path: %s", bad[i]);
    memset(longest, 'a', sizeof longest - 1);
    longest[LIMIT_PULL_PATH] = '\0';
    assert_false(pick_is_safe(longest));
    assert_true(pick_is_safe(longest + 1));
}

#define FILES 16

/* What `want` picks of a list that ends with NULL: paths joined by blanks, or the text of the error. */
static void expect(const char *const *paths, const char *want, const char *picked)
{
    struct pick_file files[FILES];
    uint32_t out[LIMIT_SPLITS], count;
    struct err e = {0};
    char got[ERR_TEXT + 64] = "";
    size_t n = 0;
    for (; paths[n]; n++)
        files[n] = (struct pick_file){.path = (char *)paths[n]};
    if (pick_model(files, n, want, "repo", out, &count, &e) != ST_OK)
        snprintf(got, sizeof got, "%s", e.text);
    for (uint32_t i = 0; e.code == ST_OK && i < count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", files[out[i]].path);
    assert_string_equal(got, picked);
}

static void quants(void **state)
{
    (void)state;
    const char *const list[] = {"m.Q4_K_M.gguf", "m.Q4_K_S.gguf", "m.Q4_K.gguf",      "UD/m-UD-Q4_K_XL.gguf",
                          "m-f16.gguf",    "readme.md",     "mmproj-q8_0.gguf", NULL};
    expect(list, NULL, "m.Q4_K_M.gguf");
    expect(list, "Q4_K", "m.Q4_K.gguf");
    expect(list, "q4_k_s", "m.Q4_K_S.gguf");
    expect(list, "Q4_K_XL", "UD/m-UD-Q4_K_XL.gguf");
    expect(list, "F16", "m-f16.gguf");
    expect(list, "m-f16.gguf", "m-f16.gguf");
    expect(list, "mmproj-q8_0.gguf", "mmproj-q8_0.gguf");
    expect(list, "Q8_0", "repo holds no Q8_0, only m.Q4_K_M.gguf, m.Q4_K_S.gguf, m.Q4_K.gguf, m-UD-Q4_K_XL.gguf, "
                         "m-f16.gguf");
    expect(list, "4_K_M", "repo holds no 4_K_M, only m.Q4_K_M.gguf, m.Q4_K_S.gguf, m.Q4_K.gguf, m-UD-Q4_K_XL.gguf, "
                          "m-f16.gguf");
}

static void several(void **state)
{
    (void)state;
    const char *const two[] = {"a-Q8_0.gguf", "b-Q8_0.gguf", "c-IQ2.gguf", NULL};
    expect(two, "Q8_0", "repo holds more than one such model; say which: a-Q8_0.gguf, b-Q8_0.gguf, c-IQ2.gguf");
    expect(two, NULL, "repo holds more than one such model; say which: a-Q8_0.gguf, b-Q8_0.gguf, c-IQ2.gguf");
    expect(two, "a-Q8_0.gguf", "a-Q8_0.gguf");
    const char *const top[] = {"m.gguf", "x/m.gguf", "y/m.gguf", "x/q_Q8_0.gguf", NULL};
    expect(top, "m.gguf", "m.gguf");
    expect(top, "y/m.gguf", "y/m.gguf");
    expect(top, "Q8_0", "x/q_Q8_0.gguf");
    const char *const one[] = {"x/odd.gguf", "x/config.json", NULL};
    expect(one, NULL, "x/odd.gguf");
    const char *const none[] = {"config.json", NULL};
    expect(none, NULL, "repo holds no GGUF file");
    expect(none, "config.json", "repo holds no GGUF file");
}

static void parts(void **state)
{
    (void)state;
    const char *const list[] = {"m-Q8_0-00002-of-00002.gguf", "n-Q6_K-00001-of-00003.gguf", "m-Q8_0-00001-of-00002.gguf",
                          "n-Q6_K-00003-of-00003.gguf", NULL};
    expect(list, "Q8_0", "m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf");
    expect(list, "m-Q8_0-00002-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf");
    expect(list, "Q6_K", "repo: part 2 of 3 of n-Q6_K-00001-of-00003.gguf is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_names), cmocka_unit_test(safe_paths), cmocka_unit_test(quants),
        cmocka_unit_test(several),     cmocka_unit_test(parts),
    };
    return cmocka_run_group_tests_name("pick", tests, NULL, NULL);
}
