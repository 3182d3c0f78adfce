/* types: what the bytes of a block stand for, against the values that the gguf package gives (tests/golden/types.json):
 * ours in src/kern, and the tests' own decoder, whose word other tests take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "kern/kern.h"
#include "quant.h"

#define MOST_VALUES (3 * 256)

/* The bytes that a member's hexadecimal digits spell, at most `room`. */
static size_t read_hex(const json_t *type, const char *member, void *out, size_t room)
{
    const char *hex = json_string_value(json_object_get(type, member));
    assert_non_null(hex);
    size_t n = strlen(hex) / 2;
    assert_in_range(n, 1, room);
    for (size_t i = 0; i < n; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0}, *end;
        ((uint8_t *)out)[i] = (uint8_t)strtoul(digits, &end, 16);
        assert_true(end == digits + 2);
    }
    return n;
}

static enum kern_type kern_named(const char *name)
{
    for (int t = 0; t < KERN_TYPES; t++)
        if (strcmp(kern_type_info((enum kern_type)t)->name, name) == 0)
            return (enum kern_type)t;
    fail_msg("no type %s", name);
    return KERN_TYPES;
}

static enum tiny_type tiny_named(const char *name)
{
    for (size_t i = 0; i < TINY_TYPES; i++)
        if (strcmp(tiny_type_name(tiny_types[i]), name) == 0)
            return tiny_types[i];
    fail_msg("no type %s", name);
    return TINY_F32;
}

static void check_type(const char *name, const json_t *type)
{
    static uint8_t blocks[3 * 256];
    static float want[MOST_VALUES], got[MOST_VALUES], tiny[MOST_VALUES];
    const struct kern_type_info *info = kern_type_info(kern_named(name));
    size_t bytes = read_hex(type, "blocks", blocks, sizeof blocks), n = read_hex(type, "values", want, sizeof want) / 4;
    assert_int_equal(bytes % info->file_bytes, 0);
    assert_int_equal(n, bytes / info->file_bytes * info->block);
    kern_to_f32(kern_named(name), blocks, n, got);
    tiny_decode(tiny_named(name), blocks, n, tiny);
    for (size_t i = 0; i < n; i++) /* by value: the sign of a zero depends on the form of the formula */
        if (!(got[i] == want[i] && tiny[i] == want[i]))
            fail_msg("%s, value %zu: %.9g here, %.9g by the tests' decoder, %.9g expected", name, i, (double)got[i],
                     (double)tiny[i], (double)want[i]);
}

static void test_values(void **state)
{
    (void)state;
    json_error_t je;
    json_t *all = json_load_file("tests/golden/types.json", 0, &je), *type;
    if (!all)
        fail_msg("types.json: %s", je.text);
    const char *name;
    json_object_foreach(all, name, type)
        check_type(name, type);
    size_t quantised = 0;
    for (int t = 0; t < KERN_TYPES; t++)
        quantised += kern_type_info((enum kern_type)t)->quantised;
    assert_int_equal(json_object_size(all), quantised);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
