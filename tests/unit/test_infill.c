/* infill: the tokens that a vocabulary has for it, and the prompts that are made with them. Bytes are ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "words.h"
#include "server/infill.h"

enum { BYTES = 256 };

/* Ids from BYTES on are control tokens of these names. The file says of them what `said` does. */
static struct tok *make_tok(const char *const *names, struct tok_infill said, bool bos)
{
    static struct words w;
    struct tok *t;
    struct err e = {0};
    words_begin_bytes(&w);
    for (; *names; names++)
        words_add(&w, *names, TOK_CONTROL);
    words_merge(&w, "h", "e");
    struct tok_source src = words_source(&w, "smollm");
    src.infill = said;
    src.bos = BYTES;
    src.add_bos = bos;
    if (tok_new_gguf(&t, &src, &e) != ST_OK)
        fail_msg("%s", e.text);
    return t;
}

static const struct tok_infill none = {TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE};

static void check_tokens(const char *const *names, struct tok_infill said, struct tok_infill want)
{
    struct tok *t = make_tok(names, said, false);
    const struct tok_infill *got = tok_infill(t);
    if (memcmp(got, &want, sizeof want) != 0)
        fail_msg("%d %d %d %d %d", got->prefix, got->suffix, got->middle, got->repo, got->file);
    tok_free(t);
}

static void test_tokens(void **state)
{
    static const char *const qwen[] = {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                                       "<|repo_name|>", "<|file_sep|>", NULL};
    static const char *const llama[] = {"<s>", " <PRE>", " <SUF>", " <MID>", NULL};
    static const char *const deepseek[] = {"<s>", "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>", NULL};
    static const char *const plain[] = {"<s>", "</s>", NULL};
    (void)state;
    check_tokens(qwen, none, (struct tok_infill){257, 259, 258, 260, 261});
    check_tokens(llama, none, (struct tok_infill){257, 258, 259, TOK_NONE, TOK_NONE});
    check_tokens(deepseek, none, (struct tok_infill){258, 257, 259, TOK_NONE, TOK_NONE});
    check_tokens(plain, none, none);
    /* what the file says comes first */
    check_tokens(qwen, (struct tok_infill){1, 2, 3, 4, 5}, (struct tok_infill){1, 2, 3, 4, 5});
    check_tokens(qwen, (struct tok_infill){1, TOK_NONE, 3, TOK_NONE, TOK_NONE}, (struct tok_infill){1, 259, 3, 260, 261});
}

/* The prompt as text: control tokens are the capital letters from A on, in their order. */
static void check_prompt(const struct server *s, const struct server_infill *in, const char *want)
{
    struct reply_prompt p = {0};
    struct err e = {0};
    char text[300];
    if (server_infill(s, in, &p, &e) != ST_OK)
        fail_msg("%s", e.text);
    assert_true(p.n < sizeof text && !p.from_tok);
    for (size_t i = 0; i < p.n; i++)
        text[i] = (char)(p.ids[i] < BYTES ? p.ids[i] : 'A' + p.ids[i] - BYTES);
    text[p.n] = 0;
    assert_string_equal(text, want);
    free(p.ids);
}

#define TEXT(s) {s, sizeof(s) - 1}

static void test_prompts(void **state)
{
    static const char *const names[] = {"<s>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", NULL};
    static const char *const project[] = {"<s>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_repo|>",
                                          "<|file_sep|>", NULL};
    const struct server_infill_file files[] = {{TEXT("a.c"), TEXT("x <s>")}, {TEXT("tmp"), TEXT("")}};
    struct server_infill in = {.field = "suffix", .before = TEXT("int <s>"), .after = TEXT(" end"), .line = TEXT(" i")};
    (void)state;
    struct server s = {.tok = make_tok(names, none, true)};
    check_prompt(&s, &in, "ABint <s> iC endD");
    in.project = true;
    in.files = files;
    in.files_n = 2;
    check_prompt(&s, &in, "A\n\n--- snippet ---\n\nx <s>\n\n--- snippet ---\n\nBint <s> iC endD");
    tok_free((struct tok *)s.tok);

    s.tok = make_tok(project, none, false);
    check_prompt(&s, &in, "Emyproject\nFa.c\nx <s>Ftmp\nFfilename\nBint <s> iC endD");
    in.project = false;
    check_prompt(&s, &in, "Bint <s> iC endD");
    check_prompt(&s, &(struct server_infill){.field = "suffix"}, "BCD");
    tok_free((struct tok *)s.tok);
}

static void test_refused(void **state)
{
    static const char *const names[] = {"<s>", "<|fim_prefix|>", "<|fim_suffix|>", NULL};
    const struct server_infill in = {.field = "suffix", .before = TEXT("a"), .after = TEXT("b")};
    struct reply_prompt p = {0};
    struct err e = {0};
    (void)state;
    struct server s = {.tok = make_tok(names, none, false)};
    assert_int_equal(server_infill(&s, &in, &p, &e), ST_UNSUPPORTED);
    assert_string_equal(e.text, "suffix: this model has no tokens for filling in a text");
    tok_free((struct tok *)s.tok);
    s = (struct server){.tok = make_tok(names, (struct tok_infill){1, 2, 3, TOK_NONE, TOK_NONE}, false), .prompt_bytes = 1};
    assert_int_equal(server_infill(&s, &in, &p, &e), ST_NEVER_FITS);
    assert_string_equal(e.field, "suffix");
    assert_null(p.ids);
    tok_free((struct tok *)s.tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
