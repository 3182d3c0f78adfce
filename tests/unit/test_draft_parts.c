/* draft: the arithmetic of what pays, and whether two vocabularies are one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "words.h"
#include "source/draft_pay.h"
#include "source/source.h"

static void test_pay(void **state)
{
    (void)state;
    struct draft_rate r;
    source_draft_rate_begin(&r);
    assert_true(fabs(source_draft_rate(&r) - DRAFT_PRIOR) < 1e-6);
    source_draft_rate_learn(&r, true);
    assert_true(fabs(source_draft_rate(&r) - 3.55 / 5.25) < 1e-6);
    source_draft_rate_learn(&r, false);
    assert_true(fabs(source_draft_rate(&r) - 3.0175 / 5.4625) < 1e-6);
    struct draft_times t = {0};
    assert_true(source_draft_round_ms(&t, 5) == 0);
    source_draft_times_round(&t, 1, 4);
    source_draft_times_feed(&t, 8, 100); /* too short to say anything */
    source_draft_times_feed(&t, 64, 32);
    assert_true(source_draft_round_ms(&t, 5) == 4 && source_draft_round_ms(&t, 256) == 4);
    assert_true(source_draft_feed_ms(&t, 100) == 54 && source_draft_feed_ms(&t, 31) == 4);
    source_draft_times_round(&t, 7, 10);
    assert_true(source_draft_round_ms(&t, 5) == 10 && source_draft_round_ms(&t, 4) == 4);
    source_draft_times_round(&t, 1, 1000); /* a bad moment */
    assert_true(source_draft_round_ms(&t, 1) > 200);
    for (int i = 0; i < 1000; i++)
        source_draft_times_rest(&t);
    assert_true(source_draft_round_ms(&t, 1) < 4.1);
    struct draft_purse p = {0};
    source_draft_purse_see(&p, 0);
    assert_false(p.open);
    source_draft_purse_see(&p, 10);
    source_draft_purse_earn(&p, -700, 10);
    assert_true(source_draft_purse_has(&p) == -60 && source_draft_purse_goes_on(&p, 10));
    source_draft_purse_work(&p, 400, 10);
    assert_true(fabs(source_draft_purse_has(&p)) < 1e-9);
    source_draft_purse_earn(&p, 1e9, 10);
    assert_true(source_draft_purse_has(&p) == 5120);
}

/* A vocabulary of the 256 bytes and four more. */
static void vocabulary(struct words *w)
{
    words_begin_bytes(w);
    words_merge(w, "h", "e");
    words_add(w, "<|begin|>", TOK_CONTROL);
    words_add(w, "<|end|>", TOK_CONTROL);
    words_add(w, "<|turn|>", TOK_CONTROL);
}

static struct tok *tokenizer(const struct words *w, tok_id eos)
{
    struct tok_source src = words_source(w, "smollm");
    struct tok *t;
    struct err e;
    src.eos = eos;
    if (tok_new_gguf(&t, &src, &e))
        fail_msg("%s", e.text);
    return t;
}

static void differs(const struct tok *target, const struct words *v, tok_id eos, const char *words)
{
    struct tok *t = tokenizer(v, eos);
    struct err e = {.text = ""};
    enum status st = source_draft_same_vocabulary(target, t, &e);
    tok_free(t);
    if (st != (words ? ST_ARGUMENT : ST_OK) || (words && !strstr(e.text, words)))
        fail_msg("expected \"%s\", got %s: %s", words ? words : "the same", status_name(st), e.text);
}

static void test_same_vocabulary(void **state)
{
    (void)state;
    enum { END = 258, TURN };
    static struct words v;
    vocabulary(&v);
    struct tok *target = tokenizer(&v, END);
    differs(target, &v, END, NULL);
    words_add(&v, "<|more|>", TOK_CONTROL);
    differs(target, &v, END, "the target's tokenizer has 260 ids, the draft model's 261");
    vocabulary(&v);
    v.n = 259;
    words_add(&v, "<|torn|>", TOK_CONTROL);
    differs(target, &v, END, "id 259 is \"<|turn|>\" to the target's tokenizer, \"<|torn|>\" to the draft model's");
    vocabulary(&v);
    v.types[259] = TOK_USER_DEFINED;
    differs(target, &v, END, "id 259 (\"<|turn|>\") is control to the target's tokenizer, text to the draft model's");
    vocabulary(&v);
    differs(target, &v, TURN, "id 259 (\"<|turn|>\") ends a reply of the draft model only");
    tok_free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pay),
        cmocka_unit_test(test_same_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
