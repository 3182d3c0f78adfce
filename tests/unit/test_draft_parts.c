/* draft: the arithmetic of what pays, and whether two vocabularies are one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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
struct vocabulary {
    struct text_view tokens[264];
    char store[264][16];
    int32_t types[264];
    size_t n;
    tok_id eos;
};

static void add(struct vocabulary *v, const char *text, int32_t type)
{
    memcpy(v->store[v->n], text, strlen(text) + 1);
    v->tokens[v->n] = (struct text_view){v->store[v->n], strlen(text)};
    v->types[v->n++] = type;
}

static void vocabulary(struct vocabulary *v)
{
    *v = (struct vocabulary){.eos = 258};
    for (unsigned i = 0, spare = 256; i < 256; i++) { /* GPT-2's character for a byte */
        bool plain = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        unsigned c = plain ? i : spare++;
        char text[3] = {(char)c};
        if (c >= 128) {
            text[0] = (char)(0xc0 | c >> 6);
            text[1] = (char)(0x80 | (c & 63));
        }
        add(v, text, TOK_NORMAL);
    }
    add(v, "he", TOK_NORMAL);
    add(v, "<|begin|>", TOK_CONTROL);
    add(v, "<|end|>", TOK_CONTROL);
    add(v, "<|turn|>", TOK_CONTROL);
}

static struct tok *tokenizer(const struct vocabulary *v)
{
    struct tok_source src;
    struct tok *t;
    tok_source_init(&src);
    src.model = "gpt2";
    src.pre = "smollm";
    src.tokens = v->tokens;
    src.types = v->types;
    src.n_tokens = v->n;
    src.merges = &(struct text_view){"h e", 3};
    src.n_merges = 1;
    src.eos = v->eos;
    struct err e;
    if (tok_new_gguf(&t, &src, &e))
        fail_msg("%s", e.text);
    return t;
}

static void differs(const struct tok *target, const struct vocabulary *v, const char *words)
{
    struct tok *t = tokenizer(v);
    struct err e = {.text = ""};
    enum status st = source_draft_same_vocabulary(target, t, &e);
    tok_free(t);
    if (st != (words ? ST_ARGUMENT : ST_OK) || (words && !strstr(e.text, words)))
        fail_msg("expected \"%s\", got %s: %s", words ? words : "the same", status_name(st), e.text);
}

static void test_same_vocabulary(void **state)
{
    (void)state;
    static struct vocabulary v;
    vocabulary(&v);
    struct tok *target = tokenizer(&v);
    differs(target, &v, NULL);
    add(&v, "<|more|>", TOK_CONTROL);
    differs(target, &v, "the target's tokenizer has 260 ids, the draft model's 261");
    vocabulary(&v);
    v.n = 259;
    add(&v, "<|torn|>", TOK_CONTROL);
    differs(target, &v, "id 259 is \"<|turn|>\" to the target's tokenizer, \"<|torn|>\" to the draft model's");
    vocabulary(&v);
    v.types[259] = TOK_USER_DEFINED;
    differs(target, &v, "id 259 (\"<|turn|>\") is control to the target's tokenizer, text to the draft model's");
    vocabulary(&v);
    v.eos = 259;
    differs(target, &v, "id 259 (\"<|turn|>\") ends a reply of the draft model only");
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
