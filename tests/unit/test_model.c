/* What model_new() refuses, with its words, that a row's bad numbers stay its own (law L4), and a long past. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "feed.h"
#include "gguf_write.h"

#define WIDTH 32
#define VOCAB 8
#define HEADS 2

/* A llama of one layer, and where it departs from a sound one. */
struct odd {
    uint32_t ffn;
    bool vector_gate;           /* ffn_gate.weight as a vector: same bytes, one axis */
    bool no_tensors;
    const char *arch;
    const char *extra_tensor;
    const char *text_key;       /* a key given as a string */
    const char *float_key;
    float value;
    int nan_row;                /* embedding of this id is NaN; -1 = none */
    uint32_t context, kv_heads;
};

static const struct odd sound = {.ffn = 32, .arch = "llama", .nan_row = -1, .context = 64, .kv_heads = 2};

static void put_matrix(struct gw *w, const char *name, uint32_t rows, uint32_t cols, int nan_row, uint32_t dims)
{
    uint64_t dim[2] = {cols, rows};
    float *x = calloc((size_t)rows * cols, sizeof *x);
    for (uint32_t i = 0; i < rows * cols; i++)
        x[i] = nan_row >= 0 && i / cols == (uint32_t)nan_row ? NAN : (float)((i * 37 + 11) % 64) / 256 - 0.125f;
    gw_tensor(w, name, 0, dims, dim, x, (size_t)rows * cols * sizeof *x);
    free(x);
}

static void put_model(struct gw *w, const struct odd *o)
{
    float eps = 1e-5f;
    gw_text(w, "general.architecture", o->arch);
    gw_u32(w, "llama.block_count", 1);
    gw_u32(w, "llama.embedding_length", WIDTH);
    gw_u32(w, "llama.feed_forward_length", o->ffn);
    gw_u32(w, "llama.context_length", o->context);
    gw_u32(w, "llama.attention.head_count", HEADS);
    gw_u32(w, "llama.attention.head_count_kv", o->kv_heads);
    gw_key(w, "llama.attention.layer_norm_rms_epsilon", GW_F32, &eps, sizeof eps);
    if (o->text_key)
        gw_text(w, o->text_key, "many");
    if (o->float_key)
        gw_key(w, o->float_key, GW_F32, &o->value, sizeof o->value);
    if (o->no_tensors)
        return;
    put_matrix(w, "token_embd.weight", VOCAB, WIDTH, o->nan_row, 2);
    put_matrix(w, "output_norm.weight", 1, WIDTH, -1, 1);
    put_matrix(w, "blk.0.attn_norm.weight", 1, WIDTH, -1, 1);
    put_matrix(w, "blk.0.ffn_norm.weight", 1, WIDTH, -1, 1);
    put_matrix(w, "blk.0.attn_q.weight", WIDTH, WIDTH, -1, 2);
    put_matrix(w, "blk.0.attn_k.weight", WIDTH / HEADS * o->kv_heads, WIDTH, -1, 2);
    put_matrix(w, "blk.0.attn_v.weight", WIDTH / HEADS * o->kv_heads, WIDTH, -1, 2);
    put_matrix(w, "blk.0.attn_output.weight", WIDTH, WIDTH, -1, 2);
    put_matrix(w, "blk.0.ffn_gate.weight", o->ffn, WIDTH, -1, o->vector_gate ? 1 : 2);
    put_matrix(w, "blk.0.ffn_up.weight", o->ffn, WIDTH, -1, 2);
    put_matrix(w, "blk.0.ffn_down.weight", WIDTH, o->ffn, -1, 2);
    if (o->extra_tensor)
        put_matrix(w, o->extra_tensor, 1, WIDTH, -1, 1);
}

static enum status open_odd(struct feed *f, const struct odd *o, struct err *e)
{
    char path[] = "/tmp/ffwd-model-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct gw w;
    struct buf file;
    gw_init(&w);
    put_model(&w, o);
    buf_init(&file, 1 << 20);
    assert_true(gw_build(&w, &file) && gw_save(path, file.data, file.len));
    enum status st = feed_open(f, path, 2, KERN_KV_F16, o->context, e);
    unlink(path);
    buf_release(&file);
    gw_release(&w);
    return st;
}

static void refused(struct odd o, enum status want, const char *words)
{
    struct feed f;
    struct err e = {0};
    enum status st = open_odd(&f, &o, &e);
    feed_release(&f);
    if (st != want || !strstr(e.text, words))
        fail_msg("expected %s with \"%s\", got %s: %s", status_name(want), words, status_name(st), e.text);
}

static struct odd with_text(const char *key)
{
    struct odd o = sound;
    o.text_key = key;
    return o;
}

static struct odd with_float(const char *key, float value)
{
    struct odd o = sound;
    o.float_key = key;
    o.value = value;
    return o;
}

static void test_sound(void **state)
{
    (void)state;
    struct feed f;
    struct err e;
    assert_int_equal(open_odd(&f, &sound, &e), ST_OK);
    assert_int_equal(model_info(f.model)->vocab, VOCAB);
    feed_release(&f);
}

static void test_refused(void **state)
{
    (void)state;
    struct odd o = sound;
    o.ffn = 1;
    o.vector_gate = true;
    refused(o, ST_MODEL, "blk.0.ffn_gate.weight is a vector, expected a matrix");
    o = sound;
    o.no_tensors = true;
    refused(o, ST_MODEL, "token_embd.weight is missing");
    o = sound;
    o.arch = "llama\x1b[2J";
    refused(o, ST_UNSUPPORTED, "\"llama?[2J\" is not supported, expected one of llama, qwen2, qwen3, gemma3, "
                               "gemma-embedding");
    o = sound;
    o.extra_tensor = "blk.0.attn_q.bias";
    refused(o, ST_UNSUPPORTED, "blk.0.attn_q.bias belongs to a variant of llama");
}

/* An optional key that is there but makes no sense is an error, not its default. */
static void test_refused_keys(void **state)
{
    (void)state;
    refused(with_text("llama.attention.key_length"), ST_MODEL, "llama.attention.key_length is not a whole number");
    refused(with_text("llama.rope.freq_base"), ST_MODEL, "llama.rope.freq_base is not a number");
    refused(with_text("llama.rope.scaling.type"), ST_UNSUPPORTED, "\"many\", expected none, linear or yarn");
    refused(with_text("llama.expert_count"), ST_MODEL, "llama.expert_count is not a whole number");
    refused(with_float("llama.rope.dimension_count", 16), ST_MODEL, "llama.rope.dimension_count is not a whole number");
    refused(with_float("llama.attn_logit_softcapping", INFINITY), ST_MODEL, "llama.attn_logit_softcapping is inf");
    refused(with_float("llama.final_logit_softcapping", -1), ST_MODEL, "llama.final_logit_softcapping is -1");
    refused(with_float("llama.rope.freq_base", NAN), ST_MODEL, "llama.rope.freq_base is");
    refused(with_float("llama.rope.freq_base", 1), ST_MODEL, "rotation bases must be above 1");
    refused(with_float("llama.rope.scaling.factor", 0), ST_MODEL, "llama.rope.scaling.factor is 0");
}

/* Two rows in one step, one of which feeds an id whose embedding is NaN. */
static void test_nan_stays_in_its_row(void **state)
{
    (void)state;
    struct odd o = sound;
    struct feed f;
    struct err e;
    struct kv_seq seq[2];
    o.nan_row = 5;
    assert_int_equal(open_odd(&f, &o, &e), ST_OK);
    static const tok_id good[] = {1, 2, 3, 4}, bad[] = {1, 5, 3};
    float alone[4 * VOCAB], beside[7 * VOCAB];
    feed_logits(&f, good, 4, 4, alone);
    struct kv_config cfg = *kv_pool_config(f.kv);
    cfg.rows = 2;
    cfg.positions = 128;
    struct kv_pool *pool;
    assert_int_equal(kv_pool_new(&pool, &cfg, &e), ST_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kv_seq_init(&seq[i], pool, &e), ST_OK);
        assert_int_equal(kv_seq_reserve(&seq[i], 4, &e), ST_OK);
    }
    struct model_span spans[] = {{&seq[0], bad, 3}, {&seq[1], good, 4}};
    static const uint32_t at[] = {0, 1, 2, 3, 4, 5, 6};
    model_forward(f.run, spans, 2);
    struct kern_top top[7];
    model_head(f.run, at, 7, beside, top);
    for (int i = 0; i < 7; i++) {
        struct kern_top whole = kern_level_ops(KERN_REF)->argmax(beside + i * VOCAB, VOCAB);
        assert_int_equal(top[i].finite, whole.finite);
        if (whole.finite)
            assert_true(top[i].index == whole.index && top[i].value == whole.value);
    }
    assert_memory_equal(alone, beside + 3 * VOCAB, sizeof alone);
    assert_memory_equal(alone, beside, VOCAB * sizeof *alone); /* before the bad id all is well */
    for (int i = VOCAB; i < 3 * VOCAB; i++)
        assert_true(isnan(beside[i]));
    for (int i = 0; i < 2; i++)
        kv_seq_release(&seq[i]);
    kv_pool_free(pool);
    feed_release(&f);
}

/* One KV head and a long past: the attention of a step of one token is cut into more tasks than it has tokens and heads
 * together. */
static void test_long_past(void **state)
{
    (void)state;
    enum { IDS = 4096 };
    static tok_id ids[IDS];
    static float by_one[IDS * VOCAB], at_once[IDS * VOCAB];
    struct odd o = sound;
    struct feed f;
    struct err e;
    o.context = IDS;
    o.kv_heads = 1;
    for (int i = 0; i < IDS; i++)
        ids[i] = (tok_id)(rng_uniform(5, 0, (uint32_t)i, RNG_FINAL) * VOCAB);
    assert_int_equal(open_odd(&f, &o, &e), ST_OK);
    feed_logits(&f, ids, IDS, 1, by_one);
    feed_logits(&f, ids, IDS, LIMIT_SPAN, at_once);
    assert_memory_equal(by_one, at_once, sizeof by_one);
    feed_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_keys),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_long_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
