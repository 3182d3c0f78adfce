/* weights: what a good model file gives back: metadata, tensors, parts, panels. Bad files: test_weights_refuse.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf_write.h"
#include "quant.h"
#include "weights/gguf.h"
#include "weights/weights.h"

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ffwd-weights-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

static void save(const struct gw *g, const char *path)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 30);
    assert_true(gw_build(g, &b));
    assert_true(gw_save(path, b.data, b.len));
    buf_release(&b);
}

static struct weights *open_ok(const char *path)
{
    struct weights *w;
    struct err e;
    enum status s = weights_open(&w, path, &e);
    if (s != ST_OK)
        fail_msg("%s", e.text);
    return w;
}

/* Saves, opens, and removes the file: the mapping keeps it. */
static struct weights *open_written(struct gw *g)
{
    char path[256];
    snprintf(path, sizeof path, "%s", in_dir("m.gguf"));
    save(g, path);
    gw_release(g);
    struct weights *w = open_ok(path);
    assert_string_equal(weights_path(w), path);
    remove(path);
    return w;
}

#define KEY(g, key, type, ctype, ...)                     \
    do {                                                  \
        ctype v_[] = {__VA_ARGS__};                       \
        gw_key(g, key, type, v_, sizeof v_);              \
    } while (0)
#define ARRAY(g, key, type, ctype, ...)                   \
    do {                                                  \
        ctype v_[] = {__VA_ARGS__};                       \
        gw_array(g, key, type, sizeof v_ / sizeof *v_);   \
        gw_raw(g, v_, sizeof v_);                         \
    } while (0)

static struct weights *scalars(void)
{
    struct gw g;
    gw_init(&g);
    KEY(&g, "u8", GW_U8, uint8_t, 200);
    KEY(&g, "i8", GW_I8, int8_t, -5);
    KEY(&g, "i8+", GW_I8, int8_t, 5);
    KEY(&g, "u16", GW_U16, uint16_t, 65535);
    KEY(&g, "i16", GW_I16, int16_t, 32767);
    KEY(&g, "u32", GW_U32, uint32_t, UINT32_MAX);
    KEY(&g, "i32", GW_I32, int32_t, INT32_MIN);
    KEY(&g, "u64", GW_U64, uint64_t, UINT64_MAX);
    KEY(&g, "i64", GW_I64, int64_t, INT64_MAX);
    KEY(&g, "i64-", GW_I64, int64_t, INT64_MIN);
    KEY(&g, "f32", GW_F32, float, 1.5f);
    KEY(&g, "f64", GW_F64, double, 0.1);
    KEY(&g, "f64+", GW_F64, double, 1e300);
    KEY(&g, "yes", GW_BOOL, uint8_t, 1);
    KEY(&g, "no", GW_BOOL, uint8_t, 0);
    gw_text(&g, "text", "some text");
    gw_text(&g, "empty", "");
    return open_written(&g);
}

static void test_integers(void **state)
{
    (void)state;
    struct weights *w = scalars();
    static const struct {
        const char *key;
        uint64_t value;
    } good[] = {{"u8", 200}, {"i8+", 5}, {"u16", 65535}, {"i16", 32767}, {"u32", UINT32_MAX}, {"u64", UINT64_MAX},
                {"i64", INT64_MAX}};
    uint64_t u;
    uint32_t s;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(weights_u64(w, good[i].key, &u));
        assert_true(u == good[i].value);
        assert_int_equal(weights_u32(w, good[i].key, &s), u <= UINT32_MAX);
        assert_true(u > UINT32_MAX || s == u);
    }
    static const char *const bad[] = {"i8", "i32", "i64-", "f32", "f64", "yes", "text", "absent", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        u = 77;
        assert_false(weights_u64(w, bad[i], &u));
        assert_false(weights_u32(w, bad[i], &s));
        assert_int_equal(u, 77);
    }
    weights_free(w);
}

static void test_other_scalars(void **state)
{
    (void)state;
    struct weights *w = scalars();
    float f;
    bool b;
    struct weights_str s;
    assert_true(weights_f32(w, "f32", &f) && f == 1.5f);
    assert_true(weights_f32(w, "f64", &f) && f == 0.1f);
    assert_false(weights_f32(w, "f64+", &f) || weights_f32(w, "u8", &f) || weights_f32(w, "absent", &f));
    assert_true(weights_bool(w, "yes", &b) && b);
    assert_true(weights_bool(w, "no", &b) && !b);
    assert_false(weights_bool(w, "u8", &b) || weights_bool(w, "absent", &b));
    assert_true(weights_string(w, "text", &s) && s.n == 9 && memcmp(s.s, "some text", 9) == 0);
    assert_true(weights_string(w, "empty", &s) && s.n == 0);
    assert_false(weights_string(w, "yes", &s) || weights_string(w, "absent", &s));
    assert_true(weights_has(w, "empty") && !weights_has(w, "absent") && !weights_has(w, "emp"));
    assert_int_equal(weights_array(w, "text"), 0);
    weights_free(w);
}

static struct weights *arrays(void)
{
    struct gw g;
    gw_init(&g);
    gw_array(&g, "strings", GW_STRING, 3);
    gw_element(&g, "one", 3);
    gw_element(&g, "", 0);
    gw_element(&g, "t\0\xFF", 3);
    ARRAY(&g, "f32", GW_F32, float, 1.0f, -2.5f);
    ARRAY(&g, "f64", GW_F64, double, 0.25);
    ARRAY(&g, "f64+", GW_F64, double, 0.25, 1e200);
    ARRAY(&g, "i8", GW_I8, int8_t, -1, 2, -3);
    ARRAY(&g, "u16", GW_U16, uint16_t, 65535);
    ARRAY(&g, "u32", GW_U32, uint32_t, 1, 1u << 31);
    ARRAY(&g, "i64", GW_I64, int64_t, INT32_MIN, INT32_MAX);
    ARRAY(&g, "i64-", GW_I64, int64_t, (int64_t)INT32_MIN - 1);
    ARRAY(&g, "bools", GW_BOOL, uint8_t, 1, 0);
    gw_array(&g, "none", GW_STRING, 0);
    gw_array(&g, "nested", GW_ARRAY, 2);
    for (int i = 0; i < 2; i++) { /* type and count of the inner array, then its elements */
        uint32_t inner[] = {GW_U32, 1, 0, 7};
        gw_raw(&g, inner, sizeof inner);
    }
    gw_u32(&g, "after", 9);
    return open_written(&g);
}

static void test_string_arrays(void **state)
{
    (void)state;
    struct weights *w = arrays();
    struct weights_str s[4];
    uint32_t after;
    assert_int_equal(weights_array(w, "strings"), 3);
    assert_false(weights_strings(w, "strings", s, 2));
    assert_true(weights_strings(w, "strings", s, 3));
    assert_true(s[0].n == 3 && memcmp(s[0].s, "one", 3) == 0);
    assert_true(s[1].n == 0);
    assert_true(s[2].n == 3 && memcmp(s[2].s, "t\0\xFF", 3) == 0);
    assert_true(weights_strings(w, "none", s, 0));
    assert_int_equal(weights_array(w, "none"), 0);
    assert_false(weights_strings(w, "f32", s, 4) || weights_strings(w, "nested", s, 4)
                 || weights_strings(w, "absent", s, 4));
    assert_int_equal(weights_array(w, "nested"), 2);
    assert_true(weights_u32(w, "after", &after) && after == 9);
    weights_free(w);
}

static void test_number_arrays(void **state)
{
    (void)state;
    struct weights *w = arrays();
    float f[4];
    int32_t i[4];
    assert_true(weights_f32s(w, "f32", f, 4) && f[0] == 1.0f && f[1] == -2.5f);
    assert_true(weights_f32s(w, "f64", f, 1) && f[0] == 0.25f);
    assert_false(weights_f32s(w, "f64+", f, 4) || weights_f32s(w, "f32", f, 1) || weights_f32s(w, "i8", f, 4));
    assert_true(weights_i32s(w, "i8", i, 4) && i[0] == -1 && i[1] == 2 && i[2] == -3);
    assert_true(weights_i32s(w, "u16", i, 4) && i[0] == 65535);
    assert_true(weights_i32s(w, "i64", i, 4) && i[0] == INT32_MIN && i[1] == INT32_MAX);
    assert_true(weights_i32s(w, "bools", i, 4) && i[0] == 1 && i[1] == 0);
    assert_false(weights_i32s(w, "u32", i, 4) || weights_i32s(w, "i64-", i, 4) || weights_i32s(w, "f32", i, 4));
    assert_false(weights_i32s(w, "strings", i, 4) || weights_i32s(w, "nested", i, 4)
                 || weights_i32s(w, "absent", i, 4) || weights_i32s(w, "i8", i, 2));
    weights_free(w);
}

static void collect(void *ctx, const char *key, const char *value)
{
    struct buf *b = ctx;
    buf_addf(b, "%s=%s\n", key, value);
}

static void test_as_text(void **state)
{
    (void)state;
    struct gw g;
    struct buf b;
    char *lines = malloc(3001);
    assert_non_null(lines);
    memset(lines, 'x', 3000);
    lines[3000] = 0;
    gw_init(&g);
    KEY(&g, "a", GW_I8, int8_t, -5);
    KEY(&g, "b", GW_U64, uint64_t, UINT64_MAX);
    KEY(&g, "c", GW_F32, float, 1e-6f);
    KEY(&g, "d", GW_BOOL, uint8_t, 1);
    gw_text(&g, "e", "l\n\t\x1b[31m\\ é\xff");
    gw_text(&g, "f", "");
    ARRAY(&g, "g", GW_F32, float, 1, 2);
    KEY(&g, "h", GW_F64, double, 1e300);
    gw_text(&g, "i", lines);
    struct weights *w = open_written(&g);
    buf_init(&b, 1 << 20);
    weights_each_meta(w, collect, &b);
    static const char start[] = "a=-5\nb=18446744073709551615\nc=1e-06\nd=true\ne=l\\n\\t\\x1b[31m\\\\ é\\xff\nf=\n"
                                "g=float32[2]\nh=1.0000000000000001e+300\ni=xxx";
    assert_true(b.len > strlen(start));
    assert_memory_equal(b.data, start, strlen(start));
    assert_non_null(strstr(b.data, "xxx… (3000 bytes)\n"));
    assert_true(b.len < 2000);
    buf_release(&b);
    weights_free(w);
    free(lines);
}

/* --- tensors --------------------------------------------------------------------------------------------------------- */

static void test_tensors(void **state)
{
    (void)state;
    static const float values[6] = {1, 2, 3, 4, 5, -6};
    static const uint32_t aligns[] = {8, 32, 64, 4096};
    for (size_t i = 0; i < 2 * sizeof aligns / sizeof *aligns; i++) {
        struct gw g;
        gw_init(&g);
        g.version = i % 2 ? 2 : 3;
        g.align = aligns[i / 2];
        if (g.align != 32) /* the default, when the key is absent */
            gw_u32(&g, "general.alignment", g.align);
        gw_tensor(&g, "z.weight", TINY_F32, 2, (uint64_t[]){3, 2}, values, sizeof values);
        gw_tensor(&g, "a.bias", TINY_F16, 1, (uint64_t[]){5}, NULL, 10);
        gw_tensor(&g, "q", TINY_Q8_0, 4, (uint64_t[]){32, 2, 1, 3}, NULL, 6 * 34);
        struct weights *w = open_written(&g);
        assert_int_equal(weights_count(w), 3);
        const struct tensor *t = weights_find(w, "z.weight");
        assert_ptr_equal(t, weights_at(w, 0));
        assert_int_equal((uintptr_t)t->data % aligns[i / 2], 0);
        assert_true(t->type == KERN_F32 && t->dims == 2 && t->dim[0] == 3 && t->dim[1] == 2 && t->dim[2] == 1
                    && t->dim[3] == 1 && t->bytes == sizeof values && t->part == 0);
        assert_memory_equal(t->data, values, sizeof values);
        float out[6];
        weights_f32_data(w, t, out);
        assert_memory_equal(out, values, sizeof values);
        t = weights_find(w, "q");
        assert_true(t->type == KERN_Q8_0 && t->bytes == 6 * 34 && t->dim[3] == 3);
        assert_string_equal(weights_find(w, "a.bias")->name, "a.bias");
        assert_null(weights_find(w, "a"));
        assert_null(weights_find(w, "a.biases"));
        assert_null(weights_find(w, ""));
        weights_free(w);
    }
}

static void test_all_types(void **state)
{
    (void)state;
    struct gw g;
    uint8_t data[1024];
    float x[256], want[256], got[256];
    gw_init(&g);
    for (size_t i = 0; i < TINY_TYPES; i++) {
        size_t n = tiny_row_bytes(tiny_types[i], 256);
        for (int k = 0; k < 256; k++)
            x[k] = (float)((k * 37 + (int)i) % 101 - 50) / 25;
        tiny_encode(tiny_types[i], x, 256, data);
        gw_tensor(&g, tiny_type_name(tiny_types[i]), tiny_types[i], 1, (uint64_t[]){256}, data, n);
    }
    struct weights *w = open_written(&g);
    assert_int_equal(weights_count(w), KERN_TYPES);
    for (size_t i = 0; i < TINY_TYPES; i++) {
        const struct tensor *t = weights_find(w, tiny_type_name(tiny_types[i]));
        assert_string_equal(kern_type_info(t->type)->name, t->name);
        assert_int_equal(t->bytes, tiny_row_bytes(tiny_types[i], 256));
        tiny_decode(tiny_types[i], t->data, 256, want);
        weights_f32_data(w, t, got);
        for (int k = 0; k < 256; k++)
            assert_true(got[k] == want[k]); /* by value: the sign of a zero depends on the form of the formula */
    }
    weights_free(w);
}

static void test_many_tensors(void **state)
{
    (void)state;
    struct gw g;
    char name[32];
    gw_init(&g);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "t%u", i * 7919 % 5000);
        gw_tensor(&g, name, TINY_F32, 1, (uint64_t[]){1}, &i, sizeof i);
    }
    struct weights *w = open_written(&g);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "t%u", i * 7919 % 5000);
        const struct tensor *t = weights_find(w, name);
        assert_ptr_equal(t, weights_at(w, i));
        assert_memory_equal(t->data, &i, sizeof i);
    }
    weights_free(w);
}

/* --- packing --------------------------------------------------------------------------------------------------------- */

/* A tensor of several slices equals the same packed in one call, its source can be dropped and read again. */
static void pack_one(struct pool *pool, enum tiny_type type, uint32_t cols, uint32_t rows)
{
    struct gw g;
    size_t bytes = tiny_row_bytes(type, (size_t)cols * rows);
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    gw_init(&g);
    gw_tensor(&g, "before", TINY_F32, 1, (uint64_t[]){7}, NULL, 28);
    gw_tensor(&g, "m", type, 2, (uint64_t[]){cols, rows}, data, bytes);
    gw_tensor(&g, "after", TINY_F32, 1, (uint64_t[]){7}, NULL, 28);
    struct weights *w = open_written(&g);
    const struct tensor *t = weights_find(w, "m");
    size_t n = kern_mat_bytes(t->type, rows, cols);
    uint8_t *got = mem_map(n), *want = mem_map(n);
    assert_true(got && want);
    struct kern_mat m;
    weights_pack(w, t, pool, got, &m);
    assert_true(m.type == t->type && m.rows == rows && m.cols == cols && m.panels == got
                && m.stride == kern_panel_stride(t->type, cols));
    kern_pack(t->type, rows, cols, data, 0, kern_panels(rows), want);
    assert_memory_equal(got, want, n);
    assert_memory_equal(t->data, data, bytes);
    weights_drop(w, t);
    assert_memory_equal(t->data, data, bytes);
    weights_free(w);
    mem_unmap(got, n);
    mem_unmap(want, n);
    free(data);
}

static void test_pack(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pool *pool;
        assert_int_equal(pool_new(&pool, threads, NULL), ST_OK);
        for (size_t i = 0; i < TINY_TYPES; i++) {
            pack_one(pool, tiny_types[i], 256, 1);
            pack_one(pool, tiny_types[i], 512, 83);
        }
        pack_one(pool, TINY_F32, 512, 5003);
        pack_one(pool, TINY_Q4_1, 1024, 20001);
        pack_one(pool, TINY_F32, 1 << 18, 33); /* one panel is larger than a slice */
        pool_free(pool);
    }
}

/* The source of a packed model never stays resident beside its panels. */
static void test_pack_memory(void **state)
{
    (void)state;
    const uint32_t cols = 4096, rows = 30000;
    struct gw g;
    struct pool *pool;
    gw_init(&g);
    gw_tensor(&g, "m", TINY_Q8_0, 2, (uint64_t[]){cols, rows}, NULL, (size_t)cols / 32 * 34 * rows);
    struct weights *w = open_written(&g);
    const struct tensor *t = weights_at(w, 0);
    size_t n = kern_mat_bytes(t->type, rows, cols);
    uint8_t *panels = mem_map(n);
    struct kern_mat m;
    assert_non_null(panels);
    assert_int_equal(pool_new(&pool, 2, NULL), ST_OK);
    uint64_t before = mem_resident();
    weights_pack(w, t, pool, panels, &m);
    uint64_t after = mem_resident();
    assert_true(n > (100u << 20));
    assert_true(after < before + n + (12u << 20));
    pool_free(pool);
    weights_free(w);
    mem_unmap(panels, n);
}

/* --- split models ---------------------------------------------------------------------------------------------------- */

static char part_path[3][256];

/* Three parts with one tensor each, t0 to t2; metadata in the first alone. `name` is the tensor of part 2. */
static void write_parts(const char *name, uint32_t count, uint32_t second_no)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct gw g;
        char tensor[8];
        snprintf(tensor, sizeof tensor, "t%u", i);
        gw_init(&g);
        if (i == 0)
            gw_text(&g, "general.name", "split");
        KEY(&g, "split.no", GW_U16, uint16_t, (uint16_t)(i == 1 ? second_no : i));
        KEY(&g, "split.count", GW_U16, uint16_t, 3);
        KEY(&g, "split.tensors.count", GW_I32, int32_t, (int32_t)count);
        gw_tensor(&g, i == 1 ? name : tensor, TINY_F32, 1, (uint64_t[]){1}, &(float){(float)i}, sizeof(float));
        snprintf(part_path[i], sizeof part_path[i], "%s/model-%05u-of-00003.gguf", dir, i + 1);
        save(&g, part_path[i]);
        gw_release(&g);
    }
}

static void remove_parts(void)
{
    for (int i = 0; i < 3; i++)
        remove(part_path[i]);
}

static void test_split(void **state)
{
    (void)state;
    write_parts("t1", 3, 1);
    for (int i = 0; i < 3; i++) {
        struct weights *w = open_ok(part_path[i]);
        struct weights_str s;
        uint64_t no;
        assert_int_equal(weights_count(w), 3);
        assert_string_equal(weights_path(w), part_path[i]);
        assert_true(weights_string(w, "general.name", &s) && s.n == 5);
        assert_true(weights_u64(w, "split.no", &no) && no == 0);
        for (uint32_t k = 0; k < 3; k++) {
            char name[8];
            float x;
            snprintf(name, sizeof name, "t%u", k);
            const struct tensor *t = weights_find(w, name);
            weights_f32_data(w, t, &x);
            assert_true(t->part == k && x == (float)k);
        }
        weights_free(w);
    }
    remove_parts();
}

static void split_refused(const char *path, enum status code, const char *text)
{
    struct weights *w;
    struct err e;
    assert_int_equal(weights_open(&w, path, &e), code);
    assert_null(w);
    if (!strstr(e.text, text))
        fail_msg("'%s' was expected in: %s", text, e.text);
}

static void test_split_refused(void **state)
{
    (void)state;
    char other[256];
    write_parts("t1", 4, 1);
    split_refused(part_path[0], ST_MODEL, "the parts hold 3 tensors, split.tensors.count says 4");
    write_parts("t0", 3, 1);
    split_refused(part_path[2], ST_MODEL, "tensor 't0' occurs twice");
    write_parts("t1", 3, 2);
    split_refused(part_path[0], ST_MODEL, "model-00002-of-00003.gguf is not a usable GGUF file: its split.no");
    split_refused(part_path[1], ST_MODEL, "its name was expected to end in -00003-of-00003.gguf");
    write_parts("t1", 3, 3);
    split_refused(part_path[1], ST_MODEL, "it says to be part 4 of 3");
    write_parts("t1", 3, 1);
    snprintf(other, sizeof other, "%s/renamed.gguf", dir);
    assert_int_equal(rename(part_path[0], other), 0);
    split_refused(other, ST_MODEL, "renamed.gguf is part 1 of 3 of a split model; its name was expected to end in -00001");
    split_refused(part_path[1], ST_IO, "model-00001-of-00003.gguf, part 1 of 3 of the model: No such file");
    assert_int_equal(rename(other, part_path[0]), 0);
    remove(part_path[2]);
    split_refused(part_path[0], ST_IO, "model-00003-of-00003.gguf, part 3 of 3 of the model: No such file");
    assert_true(gw_save(part_path[2], "<html>", 6));
    split_refused(part_path[0], ST_MODEL, "model-00003-of-00003.gguf is a web page");
    remove_parts();
}

/* Joined parts keep the keys with a count of 0; one that says 1 is whole as well. */
static void test_joined(void **state)
{
    (void)state;
    for (uint16_t count = 0; count < 2; count++) {
        struct gw g;
        gw_init(&g);
        KEY(&g, "split.count", GW_U16, uint16_t, count);
        gw_tensor(&g, "t", TINY_F32, 1, (uint64_t[]){1}, NULL, 4);
        struct weights *w = open_written(&g);
        assert_int_equal(weights_count(w), 1);
        assert_int_equal(weights_file_bytes(w), w->parts[0].size);
        weights_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),      cmocka_unit_test(test_other_scalars), cmocka_unit_test(test_string_arrays),
        cmocka_unit_test(test_number_arrays), cmocka_unit_test(test_as_text),       cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_all_types),     cmocka_unit_test(test_many_tensors),  cmocka_unit_test(test_pack),
        cmocka_unit_test(test_pack_memory),   cmocka_unit_test(test_split),         cmocka_unit_test(test_split_refused),
        cmocka_unit_test(test_joined),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
