/* Attention over a long past: cut into few tasks or into many, its bits are the same (law L1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "feed.h"
#include "tiny.h"

#define PAST 2880u  /* more partials than there are tasks for each worker */
#define CHUNK 20u   /* then a span of two tiles, */
#define SINGLE 3u   /* and some of one id in steps that hold no more */
#define CONTEXT (PAST + CHUNK + SINGLE)

static void step(struct model_run *run, struct kv_seq *seq, const tok_id *ids, uint32_t n)
{
    struct err e = {0};
    struct model_span span = {seq, ids, n};
    if (kv_seq_reserve(seq, n, &e))
        fail_msg("%s", e.text);
    model_forward(run, &span, 1);
    kv_seq_commit(seq, n);
}

/* Logits of the last CHUNK + SINGLE positions. */
static float *logits_with(const char *path, int threads)
{
    struct feed f;
    struct model_run *narrow;
    struct kv_seq seq;
    struct err e = {0};
    tok_id ids[CONTEXT];
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = tiny_prompt(i);
    if (feed_open(&f, path, threads, KERN_KV_F16, CONTEXT, &e) || kv_seq_init(&seq, f.kv, &e)
        || model_run_new(&narrow, f.model, f.pool, 1, CONTEXT, &e))
        fail_msg("%s", e.text);
    float *logits = malloc((CHUNK + SINGLE) * TINY_VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (uint32_t at = 0; at < PAST; at += PAST / 10)
        step(f.run, &seq, ids + at, PAST / 10);
    step(f.run, &seq, ids + PAST, CHUNK);
    for (uint32_t i = 0; i < CHUNK; i++)
        model_head(f.run, &i, 1, logits + i * TINY_VOCAB, NULL);
    for (uint32_t i = CHUNK, first = 0; i < CHUNK + SINGLE; i++) {
        step(narrow, &seq, ids + PAST + i, 1);
        model_head(narrow, &first, 1, logits + i * TINY_VOCAB, NULL);
    }
    kv_seq_release(&seq);
    model_run_free(narrow);
    feed_release(&f);
    return logits;
}

/* One KV head, two, and layers with a window beside layers without. With one worker nothing is split. */
static void test_workers(void **state)
{
    (void)state;
    static const char *const names[] = {"smollm2", "mistral", "gemma3"};
    static const int threads[] = {2, 3, 5};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[] = "/tmp/ffwd-attention-XXXXXX";
        struct err e = {0};
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        if (tiny_write(path, names[i], TINY_Q8_0, &e))
            fail_msg("%s: %s", names[i], e.text);
        float *alone = logits_with(path, 1);
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            float *shared = logits_with(path, threads[t]);
            if (memcmp(alone, shared, (CHUNK + SINGLE) * TINY_VOCAB * sizeof *alone))
                fail_msg("%s: %d workers give other logits than one", names[i], threads[t]);
            free(shared);
        }
        free(alone);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
