/*
 * Vectors of tiny models: those of transformers (tests/golden), and the same bits on every level, with every number of
 * workers, beside other texts and however a text is cut.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "feed.h"
#include "source/source.h"
#include "tiny.h"

#define WIDTH 128
#define LONG 300u /* ids: more than a partial of the attention */

static void open_as(struct feed *f, const char *family, enum tiny_type type, int threads, enum kern_kv format)
{
    char path[] = "/tmp/ffwd-vectors-XXXXXX";
    struct err e = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    enum status st = tiny_write(path, family, type, &e);
    if (!st)
        st = feed_open(f, path, threads, format, 512, &e);
    unlink(path);
    if (st)
        fail_msg("%s: %s", family, e.text);
}

static void make_ids(tok_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = tiny_prompt(i);
}

static json_t *recorded(const char *family, const char *key)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/tiny/%s.json", family);
    json_t *j = json_load_file(path, 0, NULL), *list = json_incref(json_object_get(j, key));
    assert_true(json_is_array(list));
    json_decref(j);
    return list;
}

/* Both are of length 1; f32 rounding alone leaves about 1e-6. */
static void test_vector(void **state)
{
    (void)state;
    struct feed f;
    tok_id ids[TINY_PROMPT];
    float got[WIDTH];
    double far = 0, dot = 0;
    json_t *want = recorded("gemma_embedding", "vector");
    open_as(&f, "gemma_embedding", TINY_F32, 2, KERN_KV_F32);
    const struct model_info *in = model_info(f.model);
    assert_true(in->bidirectional && in->matryoshka && in->pooling == POOLING_MEAN && in->vector == WIDTH);
    make_ids(ids, TINY_PROMPT);
    feed_vector(&f, ids, TINY_PROMPT, TINY_PROMPT, false, got);
    assert_int_equal(json_array_size(want), WIDTH);
    for (size_t i = 0; i < WIDTH; i++) {
        double w = json_number_value(json_array_get(want, i));
        far = fmax(far, fabs(w - (double)got[i]));
        dot += w * (double)got[i];
    }
    print_message("gemma_embedding: at most %.1e from transformers, cosine 1 - %.1e\n", far, 1 - dot);
    assert_true(far < 5e-6 && dot > 1 - 1e-6);
    json_decref(want);
    feed_release(&f);
}

static void test_classes(void **state)
{
    (void)state;
    struct feed f;
    tok_id ids[TINY_PROMPT];
    float got[TINY_CLASSES];
    json_t *want = recorded("qwen3_rank", "classes");
    open_as(&f, "qwen3_rank", TINY_F32, 2, KERN_KV_F32);
    const struct model_info *in = model_info(f.model);
    assert_true(!in->bidirectional && in->pooling == POOLING_RANK && in->classes == TINY_CLASSES && in->vector == WIDTH);
    make_ids(ids, TINY_PROMPT);
    feed_vector(&f, ids, TINY_PROMPT, TINY_PROMPT, true, got);
    for (size_t i = 0; i < TINY_CLASSES; i++)
        assert_true(fabs(json_number_value(json_array_get(want, i)) - (double)got[i]) < 1e-5);
    json_decref(want);
    feed_release(&f);
}

/* Vectors of LONG ids, and of 70 others beside them in the same step. */
static void two_texts(struct feed *f, float *out)
{
    struct kv_config cfg = *kv_pool_config(f->kv);
    struct kv_pool *pool;
    struct kv_seq seq[2];
    struct err e;
    tok_id ids[LONG];
    float sum[2][WIDTH] = {{0}};
    make_ids(ids, LONG);
    cfg.rows = 2;
    cfg.positions = 1024;
    assert_int_equal(kv_pool_new(&pool, &cfg, &e), ST_OK);
    struct model_span spans[] = {{&seq[0], ids + 9, 70}, {&seq[1], ids, LONG}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kv_seq_init(&seq[i], pool, &e), ST_OK);
        assert_int_equal(kv_seq_reserve(&seq[i], spans[i].n, &e), ST_OK);
    }
    model_forward(f->run, spans, 2);
    model_pool(f->run, 70, LONG, sum[0]);
    model_pool(f->run, 0, 70, sum[1]);
    assert_true(model_vector(f->run, sum[0], LONG, false, out) && model_vector(f->run, sum[1], 70, false, out + WIDTH));
    for (int i = 0; i < 2; i++)
        kv_seq_release(&seq[i]);
    kv_pool_free(pool);
}

static void test_same_bits(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 5};
    float first[WIDTH] = {0}, got[WIDTH], both[2 * WIDTH];
    tok_id ids[LONG];
    make_ids(ids, LONG);
    for (int level = KERN_REF; level < KERN_LEVELS; level++)
        for (size_t t = 0; kern_level_ops((enum kern_level)level) && t < sizeof threads / sizeof *threads; t++) {
            struct feed f;
            setenv("FFWD_CPU", kern_level_name((enum kern_level)level), 1);
            open_as(&f, "gemma_embedding", TINY_Q8_0, threads[t], KERN_KV_F16);
            feed_vector(&f, ids, LONG, LONG, false, got);
            two_texts(&f, both);
            if (level == KERN_REF && t == 0)
                memcpy(first, got, sizeof first);
            if (memcmp(first, got, sizeof first) || memcmp(first, both, sizeof first))
                fail_msg("%s with %d workers gives another vector", kern_level_name((enum kern_level)level), threads[t]);
            feed_vector(&f, ids + 9, 70, 70, false, got);
            assert_memory_equal(got, both + WIDTH, sizeof got);
            feed_release(&f);
        }
    unsetenv("FFWD_CPU");
}

static void test_cut(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 7, 33, LONG};
    struct feed f;
    float first[WIDTH], got[WIDTH], classes[2][TINY_CLASSES];
    tok_id ids[LONG];
    make_ids(ids, LONG);
    open_as(&f, "qwen3_rank", TINY_Q8_0, 2, KERN_KV_F16);
    feed_vector(&f, ids, LONG, 100, false, first);
    feed_vector(&f, ids, LONG, 100, true, classes[0]);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        feed_vector(&f, ids, LONG, chunks[i], false, got);
        feed_vector(&f, ids, LONG, chunks[i], true, classes[1]);
        assert_memory_equal(first, got, sizeof got);
        assert_memory_equal(classes[0], classes[1], sizeof classes[0]);
    }
    feed_release(&f);
}

/* It would be fed ids that go on behind others. */
static void test_drafts_nothing(void **state)
{
    (void)state;
    struct feed f;
    struct source *s;
    struct err e = {0};
    open_as(&f, "gemma_embedding", TINY_Q8_0, 1, KERN_KV_F16);
    const struct source_draft_config cfg = {.model = f.model,
                                            .pool = f.pool,
                                            .vocab = model_info(f.model)->vocab,
                                            .rows = 1,
                                            .context = 64};
    assert_int_equal(source_draft_new(&s, &cfg, &e), ST_UNSUPPORTED);
    assert_null(s);
    feed_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vector), cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_same_bits), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_drafts_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
