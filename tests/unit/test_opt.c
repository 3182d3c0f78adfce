/* opt: what a table accepts, what it refuses, and where values land. (Its sentences go to stderr.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/near.h"
#include "cli/opt.h"

struct options {
    const char *text;
    bool flag;
    uint32_t small, choice;
    uint64_t large;
    float real;
    struct opt_list list;
};

static const struct opt opts[] = {
    {"text", 't', OPT_STR, offsetof(struct options, text), 0, 0, "TEXT", "a text"},
    {"flag", 'f', OPT_FLAG, offsetof(struct options, flag), 0, 0, NULL, "a flag"},
    {"small", 0, OPT_U32, offsetof(struct options, small), 3, 4294967295.0, "N", "a number"},
    {"large", 0, OPT_U64, offsetof(struct options, large), 0, 0, "N", "a number"},
    {"real", 0, OPT_F32, offsetof(struct options, real), -1, 1, "X", "a number"},
    {"choice", 'c', OPT_CHOICE, offsetof(struct options, choice), 0, 0, "one|two|three", "a word"},
    {"list", 'l', OPT_LIST, offsetof(struct options, list), 0, 0, "TEXT", "texts"},
};
static const struct opt_verb verb = {"verb", "About.", "[OPTIONS]", opts, sizeof opts / sizeof *opts};

/* Parses up to two words; the status, or -1 when the verb may go on. */
static int parse(struct options *o, const char *a, const char *b)
{
    char name[] = "verb", *argv[] = {name, (char *)(size_t)a, (char *)(size_t)b, NULL};
    int status = -1;
    *o = (struct options){.real = 0.5f};
    return opt_parse(&verb, b ? 3 : a ? 2 : 1, argv, o, &status) ? -1 : status;
}

static void values_land_where_the_table_says(void **state)
{
    (void)state;
    struct options o;
    assert_int_equal(parse(&o, NULL, NULL), -1);
    assert_true(o.real == 0.5f && !o.text && !o.flag);
    assert_int_equal(parse(&o, "--text", "--flag"), -1); /* a value may look like an option */
    assert_string_equal(o.text, "--flag");
    assert_false(o.flag);
    assert_int_equal(parse(&o, "-t", ""), -1);
    assert_string_equal(o.text, "");
    assert_int_equal(parse(&o, "--text=a=b", "-f"), -1);
    assert_string_equal(o.text, "a=b");
    assert_true(o.flag);
    assert_int_equal(parse(&o, "--text=", NULL), -1);
    assert_string_equal(o.text, "");
    assert_int_equal(parse(&o, "--small=3", "--small=4294967295"), -1);
    assert_true(o.small == 4294967295u);
    assert_int_equal(parse(&o, "--large", "18446744073709551615"), -1);
    assert_true(o.large == UINT64_MAX);
    assert_int_equal(parse(&o, "--real", "-0.25"), -1);
    assert_true(o.real == -0.25f);
    assert_int_equal(parse(&o, "-c", "three"), -1);
    assert_int_equal(o.choice, 2);
    assert_int_equal(parse(&o, "-l=x", "--list=y"), 2); /* a letter takes no "=" */
    assert_int_equal(parse(&o, "--list=x", "--list=y"), -1);
    assert_int_equal(o.list.n, 2);
    assert_string_equal(o.list.item[1], "y");
}

static void wrong_usage_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "word", "-x", "--unknown", "-", "--", "--tex", "--texts=1", "-tx", "--flag=1", "--small=", "--small=2",
        "--small=-3", "--small=+3", "--small= 3", "--small=3 ", "--small=0x10", "--small=4294967296", "--small=3.0",
        "--large=18446744073709551616", "--large=-1", "--real=", "--real=nan", "--real=inf", "--real=1.5", "--real=x",
        "--real=0.5x", "--real= 0.5", "--choice=", "--choice=four", "--choice=one|two", "--choice=on", "--text",
        "--list", "-t"};
    struct options o;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (parse(&o, wrong[i], NULL) != 2)
            fail_msg("\"%s\" was accepted", wrong[i]);
    }
}

static void a_list_has_an_end(void **state)
{
    (void)state;
    char name[] = "verb", item[] = "--list=x", *argv[LIMIT_STOPS + 2] = {name};
    struct options o = {0};
    int status = -1;
    for (uint32_t i = 1; i <= LIMIT_STOPS + 1; i++)
        argv[i] = item;
    assert_true(opt_parse(&verb, LIMIT_STOPS + 1, argv, &o, &status));
    o = (struct options){0};
    assert_false(opt_parse(&verb, LIMIT_STOPS + 2, argv, &o, &status));
    assert_int_equal(status, 2);
}

static void words_need_a_place_in_the_table(void **state)
{
    (void)state;
    static const struct opt with_words[] = {
        {"flag", 'f', OPT_FLAG, offsetof(struct options, flag), 0, 0, NULL, "a flag"},
        {NULL, 0, OPT_LIST, offsetof(struct options, list), 0, 0, "NAME", "names"},
    };
    static const struct opt_verb words = {"words", "About.", "[NAME...]", with_words, 2};
    char name[] = "words", one[] = "one=1", flag[] = "-f", two[] = "", wrong[] = "--none", minus[] = "-";
    char *good[] = {name, one, flag, two}, *bad[] = {name, one, wrong}, *dash[] = {name, minus};
    struct options o = {0};
    int status = -1;
    assert_true(opt_parse(&words, 4, good, &o, &status));
    assert_true(o.flag && o.list.n == 2);
    assert_string_equal(o.list.item[0], "one=1");
    assert_string_equal(o.list.item[1], "");
    assert_false(opt_parse(&words, 3, bad, &o, &status));
    assert_int_equal(status, 2);
    assert_false(opt_parse(&words, 2, dash, &o, &status));
    assert_int_equal(status, 2);
}

static void lists_of_ids(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", ",", "1,", ",1", "1,,2", "1 2", "-1", "+1", "x", "1,x", "2147483648",
                                        "99999999999999999999999", "0x1", "1;2"};
    tok_id *ids;
    size_t n;
    assert_true(opt_ids("0,17,2147483647", &ids, &n));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 17);
    assert_int_equal(ids[2], INT32_MAX);
    free(ids);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (opt_ids(wrong[i], &ids, &n))
            fail_msg("\"%s\" was accepted", wrong[i]);
        assert_null(ids);
    }
}

static const char *nearest(const char *typed)
{
    static const char *const words[] = {"temp", "top-k", "top-p", "max-tokens", "min-tokens", "seed", "stop"};
    struct near near;
    near_init(&near, typed, strlen(typed));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        near_offer(&near, words[i], strlen(words[i]));
    return near.best ? near.best : "";
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    assert_string_equal(nearest("tmep"), "temp");        /* swapped */
    assert_string_equal(nearest("temmp"), "temp");       /* one too many */
    assert_string_equal(nearest("top-q"), "top-k");      /* of two as near the first */
    assert_string_equal(nearest("topp"), "top-p");       /* one missing */
    assert_string_equal(nearest("max-token"), "max-tokens");
    assert_string_equal(nearest("mim_token"), "min-tokens"); /* three of nine */
    assert_string_equal(nearest("ma"), "max-tokens");    /* only begun */
    assert_string_equal(nearest("st"), "stop");
    assert_string_equal(nearest("sede"), "seed");
    assert_string_equal(nearest(""), "");
    assert_string_equal(nearest("t"), "");
    assert_string_equal(nearest("xemx"), ""); /* two edits in four letters */
    assert_string_equal(nearest("frobnicate-the-whole-thing-at-once-please"), "");
}

static void a_table_as_json(void **state)
{
    (void)state;
    json_t *root = opt_json(&verb), *list = json_object_get(root, "options"), *choice = json_array_get(list, 5);
    assert_string_equal(json_string_value(json_object_get(root, "name")), "verb");
    assert_int_equal(json_array_size(list), sizeof opts / sizeof *opts);
    assert_string_equal(json_string_value(json_object_get(choice, "letter")), "c");
    assert_string_equal(json_string_value(json_object_get(choice, "kind")), "choice");
    assert_int_equal(json_array_size(json_object_get(choice, "words")), 3);
    assert_string_equal(json_string_value(json_array_get(json_object_get(choice, "words"), 2)), "three");
    assert_true(json_is_null(json_object_get(json_array_get(list, 1), "value"))); /* a flag's */
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_land_where_the_table_says),
        cmocka_unit_test(wrong_usage_is_refused),
        cmocka_unit_test(a_list_has_an_end),
        cmocka_unit_test(words_need_a_place_in_the_table),
        cmocka_unit_test(lists_of_ids),
        cmocka_unit_test(the_nearest_word_is_found),
        cmocka_unit_test(a_table_as_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
