/* weights: what is wrong with a file is found before it is used, and said in one sentence. Good files: test_weights.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf_write.h"
#include "quant.h"
#include "weights/gguf.h"
#include "weights/weights.h"

static void refused(const char *path, enum status code, const char *text)
{
    struct weights *w;
    struct err e = {0};
    enum status s = weights_open(&w, path, &e);
    assert_null(w);
    if (s != code || e.code != code || !strstr(e.text, text))
        fail_msg("%s, '%s' were expected, got %s: %s", status_name(code), text, status_name(s), e.text);
}

/* --- files that are something else ----------------------------------------------------------------------------------- */

static void test_foreign(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } files[] = {
        {"", 0, "m.gguf is empty; a GGUF model file was expected"},
        {"GG", 2, "is too short to be a model"},
        {"abcdefgh", 8, "begins with the bytes 61 62 63 64; a GGUF model file was expected"},
        {"<!DOCTYPE html><html></html>", 28, "is a web page"},
        {"\xEF\xBB\xBF\r\n  <html>", 13, "is a web page"},
        {"PK\3\4aaaaaaaaaaaaaaaaa", 20, "is a ZIP archive"},
        {"\x02\0\0\0\0\0\0\0{}", 10, "is a safetensors file"},
        {"version https://git-lfs.github.com/spec/v1", 42, "is a Git LFS pointer"},
        {"tjgg\1\0\0\0", 8, "is in the GGML format that GGUF replaced"},
        {"\x80\x02}q", 4, "is a Python pickle"},
        {"\x1f\x8b\x08\0", 4, "is compressed"},
        {"{\"model_type\": 1}", 17, "is a JSON file"},
        {"GGUF", 4, "m.gguf is not a usable GGUF file: it ends inside its header"},
    };
    char dir[] = "/tmp/ffwd-refuse-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_true(gw_save(path, files[i].bytes, files[i].n));
        refused(path, ST_MODEL, files[i].text);
    }
    remove(path);
    refused(path, ST_IO, "m.gguf: No such file or directory");
    refused("", ST_IO, "No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    refused(path, ST_MODEL, "m.gguf is a pipe; a GGUF model file was expected");
    remove(path);
    refused(dir, ST_MODEL, "is a directory; a GGUF model file was expected");
    refused("/dev/zero", ST_MODEL, "/dev/zero is a device; a GGUF model file was expected");
    rmdir(dir);
}

/* A path longer than the error text is shown from its end, whole characters only. */
static void test_long_path(void **state)
{
    (void)state;
    char path[600] = "/";
    while (strlen(path) < 500)
        snprintf(path + strlen(path), sizeof path - strlen(path), "öö/");
    snprintf(path + strlen(path), sizeof path - strlen(path), "x.gguf");
    refused(path, ST_IO, "öö/x.gguf: No such file or directory");
}

/* --- inconsistent files ---------------------------------------------------------------------------------------------- */

#define ONE ((uint64_t[]){1})

static void f32(struct gw *g, const char *name)
{
    gw_tensor(g, name, TINY_F32, 1, ONE, NULL, 4);
}

static void raw_key(struct gw *g, const char *key, uint64_t n)
{
    gw_element(g, key, n);
    gw_raw(g, &(uint32_t){GW_BOOL}, 4);
    gw_raw(g, "\1", 1);
    g->keys++;
}

static void nest(struct gw *g, unsigned depth)
{
    gw_array(g, "deep", depth > 1 ? GW_ARRAY : GW_U8, 1);
    for (unsigned d = depth - 1; d >= 1; d--) {
        gw_raw(g, &(uint32_t){d > 1 ? GW_ARRAY : GW_U8}, 4);
        gw_raw(g, &(uint64_t){1}, 8);
    }
    gw_raw(g, "\1", 1);
}

static void version_1(struct gw *g) { g->version = 1; }
static void version_4(struct gw *g) { g->version = 4; }
static void version_0(struct gw *g) { g->version = 0; }
static void big_endian(struct gw *g) { g->version = 3u << 24; }
static void many_tensors(struct gw *g) { g->tensors = LIMIT_TENSORS + 1; }
static void most_tensors(struct gw *g) { g->tensors = UINT64_MAX; }
static void many_keys(struct gw *g) { g->keys = LIMIT_META_KEYS + 1; }
static void no_tensors(struct gw *g) { g->tensors = 1000; }
static void no_keys(struct gw *g) { g->keys = 1000; }
static void one_tensor_more(struct gw *g)
{
    gw_tensor(g, "t", TINY_F32, 1, (uint64_t[]){64}, NULL, 256);
    g->tensors = 2;
}
static void key_twice(struct gw *g) { gw_u32(g, "k", 1), gw_u32(g, "l", 1), gw_u32(g, "k", 2); }
static void key_empty(struct gw *g) { gw_u32(g, "", 1); }
static void key_nul(struct gw *g) { raw_key(g, "a\0b", 3); }
static void key_escape(struct gw *g) { gw_u32(g, "a\x1b[2J", 1); }
static void key_latin(struct gw *g) { gw_u32(g, "a\xE9", 1); }
static void key_surrogate(struct gw *g) { gw_u32(g, "a\xED\xA0\x80", 1); }
static void key_overlong(struct gw *g) { gw_u32(g, "a\xC0\xAF", 1); }
static void key_long(struct gw *g)
{
    char *key = malloc(GGUF_KEY + 1);
    assert_non_null(key);
    memset(key, 'k', GGUF_KEY + 1);
    raw_key(g, key, GGUF_KEY + 1);
    free(key);
}
static void key_beyond(struct gw *g)
{
    gw_raw(g, &(uint64_t){UINT64_MAX}, 8);
    gw_raw(g, "01234567", 8);
    g->keys = 1;
}
static void value_type(struct gw *g) { gw_key(g, "k", 13, "1234", 4); }
static void array_type(struct gw *g) { gw_array(g, "k", 13, 0); }
static void array_long(struct gw *g) { gw_array(g, "k", GW_U8, LIMIT_META_ARRAY + 1); }
static void array_beyond(struct gw *g) { gw_array(g, "k", GW_F64, 2), gw_raw(g, "12345678", 8); }
static void strings_beyond(struct gw *g) { gw_array(g, "k", GW_STRING, 3), gw_element(g, "a", 1); }
static void nested_beyond(struct gw *g) { gw_array(g, "k", GW_ARRAY, LIMIT_META_ARRAY); }
static void too_deep(struct gw *g) { nest(g, LIMIT_META_DEPTH + 1); }
static void string_beyond(struct gw *g) { gw_key(g, "k", GW_STRING, &(uint64_t){1ull << 63}, 8); }
static void string_long(struct gw *g)
{
    char *s = calloc(1, LIMIT_META_STRING + 1);
    assert_non_null(s);
    gw_key(g, "k", GW_STRING, "", 0);
    gw_element(g, s, LIMIT_META_STRING + 1);
    free(s);
}
static void bool_2(struct gw *g) { gw_key(g, "k", GW_BOOL, "\2", 1); }
static void bools_2(struct gw *g) { gw_array(g, "k", GW_BOOL, 2), gw_raw(g, "\1\2", 2); }
static void align_0(struct gw *g) { gw_u32(g, "general.alignment", 0); }
static void align_4(struct gw *g) { gw_u32(g, "general.alignment", 4); }
static void align_24(struct gw *g) { gw_u32(g, "general.alignment", 24); }
static void align_text(struct gw *g) { gw_text(g, "general.alignment", "32"); }
static void align_huge(struct gw *g) { gw_key(g, "general.alignment", GW_U64, &(uint64_t){1ull << 63}, 8); }
static void align_far(struct gw *g) { gw_u32(g, "general.alignment", 1u << 31), f32(g, "t"); }

static void tensor_twice(struct gw *g) { f32(g, "a"), f32(g, "b"), f32(g, "a"); }
static void tensor_empty(struct gw *g) { f32(g, ""); }
static void tensor_nul(struct gw *g) { gw_entry(g, "a\0b", 3, TINY_F32, 1, ONE, 0); }
static void tensor_long(struct gw *g)
{
    f32(g, "01234567890123456789012345678901234567890123456789012345678901234");
}
static void dims_0(struct gw *g) { gw_tensor(g, "t", TINY_F32, 0, ONE, NULL, 4); }
static void dims_5(struct gw *g) { gw_tensor(g, "t", TINY_F32, 5, (uint64_t[]){1, 1, 1, 1, 1}, NULL, 4); }
static void dim_empty(struct gw *g) { gw_tensor(g, "t", TINY_F32, 2, (uint64_t[]){1, 0}, NULL, 4); }
static void dim_wide(struct gw *g) { gw_tensor(g, "t", TINY_F32, 1, (uint64_t[]){1ull << 31}, NULL, 4); }
static void dim_overflow(struct gw *g)
{
    gw_tensor(g, "t", TINY_F32, 4, (uint64_t[]){1, 1ull << 32, 1ull << 32, 1}, NULL, 4);
}
static void dim_most(struct gw *g)
{
    gw_tensor(g, "t", TINY_F32, 4, (uint64_t[]){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}, NULL, 4);
}
static void dim_block(struct gw *g) { gw_tensor(g, "t", TINY_Q4_K, 2, (uint64_t[]){128, 2}, NULL, 144); }
static void type_known(struct gw *g) { gw_tensor(g, "t", 16, 1, (uint64_t[]){256}, NULL, 66); }
static void type_removed(struct gw *g) { gw_tensor(g, "t", 31, 1, (uint64_t[]){256}, NULL, 84); }
static void type_unknown(struct gw *g) { gw_tensor(g, "t", 1000, 1, ONE, NULL, 4); }
static void unaligned(struct gw *g) { f32(g, "a"), gw_entry(g, "t", 1, TINY_F32, 1, ONE, 4), f32(g, "b"); }
static void offset_beyond(struct gw *g) { f32(g, "a"), gw_entry(g, "t", 1, TINY_F32, 1, ONE, 32); }
static void offset_huge(struct gw *g) { f32(g, "a"), gw_entry(g, "t", 1, TINY_F32, 1, ONE, UINT64_MAX - 31); }
static void data_beyond(struct gw *g) { gw_tensor(g, "t", TINY_F32, 1, (uint64_t[]){2}, NULL, 7); }
static void overlap(struct gw *g)
{
    gw_tensor(g, "b", TINY_F32, 1, (uint64_t[]){32}, NULL, 128);
    gw_entry(g, "a", 1, TINY_F32, 1, ONE, 96);
}
static void same_place(struct gw *g) { f32(g, "a"), gw_entry(g, "b", 1, TINY_F32, 1, ONE, 0); }
static void split_no_keys(struct gw *g) { gw_u32(g, "split.count", 2); }
static void split_many(struct gw *g)
{
    gw_u32(g, "split.count", LIMIT_SPLITS + 1), gw_u32(g, "split.no", 0), gw_u32(g, "split.tensors.count", 0);
}
static void split_text(struct gw *g) { gw_text(g, "split.count", "2"); }

#define UNUSABLE "m.gguf is not a usable GGUF file: "

static const struct bad {
    void (*write)(struct gw *g);
    enum status code;
    const char *text;
} bad[] = {
    {version_1, ST_UNSUPPORTED, UNUSABLE "it has version 1 of the format, versions 2 and 3 can be read"},
    {version_4, ST_UNSUPPORTED, "it has version 4"},
    {version_0, ST_UNSUPPORTED, "it has version 0"},
    {big_endian, ST_UNSUPPORTED, "it is for big-endian machines, a little-endian file was expected"},
    {many_tensors, ST_MODEL, UNUSABLE "it claims 65537 tensors, at most 65536 were expected"},
    {most_tensors, ST_MODEL, "it claims 18446744073709551615 tensors"},
    {many_keys, ST_MODEL, "it claims 65537 metadata keys"},
    {no_tensors, ST_MODEL, "it is too short for the 1000 tensors it claims"},
    {no_keys, ST_MODEL, "it is too short for the 1000 metadata keys it claims"},
    {one_tensor_more, ST_MODEL, "the name of tensor 2 is empty"},
    {key_twice, ST_MODEL, "metadata key 'k' occurs twice"},
    {key_empty, ST_MODEL, "the name of metadata key 1 is empty"},
    {key_nul, ST_MODEL, "the name of metadata key 1 holds a control byte"},
    {key_escape, ST_MODEL, "holds a control byte"},
    {key_latin, ST_MODEL, "is not UTF-8"},
    {key_surrogate, ST_MODEL, "is not UTF-8"},
    {key_overlong, ST_MODEL, "is not UTF-8"},
    {key_long, ST_MODEL, "the name of metadata key 1 is a longer string than any model has"},
    {key_beyond, ST_MODEL, "the name of metadata key 1 reaches beyond the end of the file"},
    {value_type, ST_MODEL, "the value of 'k' has an unknown type"},
    {array_type, ST_MODEL, "the value of 'k' is an array of an unknown type"},
    {array_long, ST_MODEL, "the value of 'k' is a longer array than any model has"},
    {array_beyond, ST_MODEL, "the value of 'k' reaches beyond the end of the file"},
    {strings_beyond, ST_MODEL, "the value of 'k' reaches beyond the end of the file"},
    {nested_beyond, ST_MODEL, "the value of 'k' reaches beyond the end of the file"},
    {too_deep, ST_MODEL, "the value of 'deep' nests arrays deeper than any model does"},
    {string_beyond, ST_MODEL, "the value of 'k' reaches beyond the end of the file"},
    {string_long, ST_MODEL, "the value of 'k' is a longer string than any model has"},
    {bool_2, ST_MODEL, "the value of 'k' is a bool other than 0 and 1"},
    {bools_2, ST_MODEL, "the value of 'k' is a bool other than 0 and 1"},
    {align_0, ST_MODEL, "general.alignment is 0, a power of two from 8 on was expected"},
    {align_4, ST_MODEL, "general.alignment is 4"},
    {align_24, ST_MODEL, "general.alignment is 24"},
    {align_text, ST_MODEL, "general.alignment is not a positive integer"},
    {align_huge, ST_MODEL, "general.alignment is 9223372036854775808"},
    {align_far, ST_MODEL, "it ends before its tensor data"},
    {tensor_twice, ST_MODEL, "tensor 'a' occurs twice"},
    {tensor_empty, ST_MODEL, "the name of tensor 1 is empty"},
    {tensor_nul, ST_MODEL, "the name of tensor 1 holds a control byte"},
    {tensor_long, ST_MODEL, "the name of tensor 1 is a longer string"},
    {dims_0, ST_MODEL, "tensor 't' has 0 dimensions, 1 to 4 were expected"},
    {dims_5, ST_MODEL, "tensor 't' has 5 dimensions, 1 to 4 were expected"},
    {dim_empty, ST_MODEL, "tensor 't' has an empty dimension"},
    {dim_wide, ST_MODEL, "tensor 't' is impossibly large"},
    {dim_overflow, ST_MODEL, "tensor 't' is impossibly large"},
    {dim_most, ST_MODEL, "tensor 't' is impossibly large"},
    {dim_block, ST_MODEL, "tensor 't' has rows of 128 values, Q4_K needs a multiple of 256"},
    {type_known, ST_UNSUPPORTED, "m.gguf: tensor 't' has type IQ2_XXS, which this build cannot read"},
    {type_removed, ST_UNSUPPORTED, "tensor 't' has type Q4_0_4_4, which this build cannot read"},
    {type_unknown, ST_UNSUPPORTED, "tensor 't' has type number 1000, which is not known"},
    {unaligned, ST_MODEL, "the data of tensor 't' is not aligned to 32 bytes"},
    {offset_beyond, ST_MODEL, "the data of tensor 't' reaches beyond the end of the file"},
    {offset_huge, ST_MODEL, "the data of tensor 't' reaches beyond the end of the file"},
    {data_beyond, ST_MODEL, "the data of tensor 't' reaches beyond the end of the file"},
    {overlap, ST_MODEL, "the data of 'b' and 'a' overlap"},
    {same_place, ST_MODEL, "overlap"},
    {split_no_keys, ST_MODEL, "split.no or split.tensors.count is missing"},
    {split_many, ST_MODEL, "it says to be part 1 of 1025, at most 1024 parts were expected"},
    {split_text, ST_MODEL, "split.count is not a positive integer"},
};

static void test_inconsistent(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gw g;
        struct buf b;
        struct weights *w;
        struct err e = {0};
        gw_init(&g);
        buf_init(&b, 64u << 20);
        bad[i].write(&g);
        assert_true(gw_build(&g, &b));
        enum status s = gguf_open_bytes(&w, "m.gguf", b.data, b.len, &e);
        assert_null(w);
        if (s != bad[i].code || e.code != s || !strstr(e.text, bad[i].text))
            fail_msg("case %zu: %s, '%s' were expected, got %s: %s", i, status_name(bad[i].code), bad[i].text,
                     status_name(s), e.text);
        buf_release(&b);
        gw_release(&g);
    }
}

/* What lies just inside each limit is fine. */
static void test_just_good(void **state)
{
    (void)state;
    struct gw g;
    struct buf b;
    struct weights *w;
    struct err e = {0};
    gw_init(&g);
    buf_init(&b, 64u << 20);
    nest(&g, LIMIT_META_DEPTH);
    gw_u32(&g, "general.alignment", 8);
    g.align = 8;
    gw_u32(&g, "schlüssel.\xF0\x9F\x94\x91", 1);
    f32(&g, "0123456789012345678901234567890123456789012345678901234567890123");
    gw_tensor(&g, "next", TINY_F32, 2, (uint64_t[]){2, 1}, NULL, 8);
    assert_true(gw_build(&g, &b));
    if (gguf_open_bytes(&w, "m.gguf", b.data, b.len, &e) != ST_OK)
        fail_msg("%s", e.text);
    assert_int_equal(strlen(weights_at(w, 0)->name), GGUF_NAME);
    assert_true(weights_has(w, "schlüssel.\xF0\x9F\x94\x91"));
    weights_free(w);
    buf_release(&b);
    gw_release(&g);
}

/* Errors do not depend on somebody wanting to read them. */
static void test_without_err(void **state)
{
    (void)state;
    struct weights *w;
    assert_int_equal(weights_open(&w, "/nowhere", NULL), ST_IO);
    assert_null(w);
    weights_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign),   cmocka_unit_test(test_long_path),   cmocka_unit_test(test_inconsistent),
        cmocka_unit_test(test_just_good), cmocka_unit_test(test_without_err),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
