/* text: tokenizers made of a few tokens, streams, templates, and the marks that keep a client's text harmless. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "words.h"
#include "base/base.h"
#include "ffwd_shim.h"
#include "text/text.h"

enum { NOW = 1767960000 }; /* 2026-01-09 12:00 UTC */

/* --- two small vocabularies ---------------------------------------------------------------------------------------- */

static tok_id add(struct words *w, const char *text, int type, float score)
{
    tok_id id = words_add(w, text, type);
    w->scores[id] = score;
    return id;
}

static struct tok *tok_of(const struct tok_source *src)
{
    struct err e;
    struct tok *t;
    assert_int_equal(tok_new_gguf(&t, src, &e), ST_OK);
    return t;
}

enum { BPE_BOS = 256, BPE_END, BPE_THINK, BPE_HE, BPE_LL, BPE_HELL, BPE_COUNT };

/* Bytes, then the names above. */
static struct tok *byte_level(void)
{
    static struct words w;
    struct tok_source src;
    words_begin_bytes(&w);
    words_add(&w, "<|bos|>", TOK_CONTROL);
    words_add(&w, "<|im_end|>", TOK_CONTROL);
    words_add(&w, "<think>", TOK_USER_DEFINED);
    words_merge(&w, "h", "e");
    words_merge(&w, "l", "l");
    words_merge(&w, "he", "ll");
    src = words_source(&w, "smollm");
    src.bos = BPE_BOS;
    src.eos = BPE_END;
    src.add_bos = 1;
    src.add_eos = 1;
    return tok_of(&src);
}

static struct tok *sentence_piece(void)
{
    static struct words w;
    struct tok_source src;
    char piece[8];
    w.n = 0;
    add(&w, "<unk>", TOK_UNKNOWN, 0);
    add(&w, "<s>", TOK_CONTROL, 0);
    add(&w, "</s>", TOK_CONTROL, 0);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(piece, sizeof piece, "<0x%02X>", b);
        add(&w, piece, TOK_BYTE, 0);
    }
    add(&w, "\xe2\x96\x81", TOK_NORMAL, -10);
    add(&w, "a", TOK_NORMAL, -11);
    add(&w, "b", TOK_NORMAL, -12);
    add(&w, "ab", TOK_NORMAL, -1);
    add(&w, "\xe2\x96\x81"
            "a", TOK_NORMAL, -2);
    tok_source_init(&src);
    src.model = "llama";
    src.tokens = w.tokens;
    src.types = w.types;
    src.scores = w.scores;
    src.n_tokens = w.n;
    return tok_of(&src);
}

static void check_ids(const struct tok *t, const char *text, unsigned flags, const tok_id *want, size_t n)
{
    tok_id *ids;
    size_t count;
    struct err e;
    assert_int_equal(tok_encode(t, text, strlen(text), flags, &ids, &count, &e), ST_OK);
    assert_int_equal(count, n);
    assert_memory_equal(ids, want, n * sizeof *want);
    tok_ids_free(ids, count);
}

#define IDS(...) ((const tok_id[]){__VA_ARGS__}), sizeof((const tok_id[]){__VA_ARGS__}) / sizeof(tok_id)

/* --- tokenizers ------------------------------------------------------------------------------------------------------ */

static void test_byte_level(void **state)
{
    (void)state;
    struct tok *t = byte_level();
    size_t n;
    check_ids(t, "hello", TOK_PLAIN, IDS(BPE_HELL, 'o'));
    check_ids(t, "he 12", TOK_PLAIN, IDS(BPE_HE, ' ', '1', '2'));
    /* A prompt is gone on with: EOS is not appended, though this vocabulary asks for it. */
    check_ids(t, "hello", TOK_BOS, IDS(BPE_BOS, BPE_HELL, 'o'));
    check_ids(t, "<think>", TOK_PLAIN, IDS(BPE_THINK));
    check_ids(t, "o<|im_end|>", TOK_TRUSTED, IDS('o', BPE_END));
    check_ids(t, "<|bos|>", TOK_PLAIN, IDS('<', '|', 'b', 'o', 's', '|', '>'));
    assert_int_equal(tok_vocab(t), BPE_COUNT);
    assert_true(tok_is_eos(t, BPE_END));
    assert_false(tok_is_eos(t, BPE_BOS));
    assert_int_equal(tok_eos(t, &n)[0], BPE_END);
    assert_int_equal(n, 1);
    assert_true(tok_adds_bos(t) && tok_adds_eos(t));
    assert_true(tok_is_special(t, BPE_END) && !tok_is_special(t, BPE_THINK) && !tok_is_special(t, -5));
    assert_int_equal(tok_find_special(t, "<think>", 7), BPE_THINK);
    assert_int_equal(tok_find_special(t, "hell", 4), TOK_NONE);
    assert_memory_equal(tok_bytes(t, BPE_HELL, &n), "hell", 4);
    assert_int_equal(n, 4);
    tok_bytes(t, 1 << 20, &n);
    assert_int_equal(n, 0);
    tok_free(t);
}

/* A word that is a token is merged the first time only, and one that no merge makes comes apart each time. */
static void test_words_again(void **state)
{
    static struct words w;
    (void)state;
    words_begin_bytes(&w);
    words_merge(&w, "h", "e");
    words_merge(&w, "l", "l");
    words_merge(&w, "he", "ll");
    words_add(&w, "oo", TOK_NORMAL);
    const struct tok_source src = words_source(&w, "smollm");
    struct tok *t = tok_of(&src);
    for (int i = 0; i < 3; i++) {
        check_ids(t, "hell", TOK_PLAIN, IDS(258));
        check_ids(t, "oo", TOK_PLAIN, IDS('o', 'o'));
        check_ids(t, "he", TOK_PLAIN, IDS(256));
    }
    tok_free(t);
}

/* What is known of words ends at 24 bytes; longer ones come out the same. */
static void test_long_words_again(void **state)
{
    static const char a24[] = "aaaaaaaaaaaaaaaaaaaaaaaa";
    enum { A16 = 259, A24, A24B };
    static struct words w;
    (void)state;
    words_begin_bytes(&w);
    for (size_t n = 1; n <= 8; n *= 2)
        words_merge(&w, a24 + 24 - n, a24 + 24 - n);
    words_merge(&w, a24 + 8, a24 + 16);
    words_merge(&w, a24, "b");
    const struct tok_source src = words_source(&w, "smollm");
    struct tok *t = tok_of(&src);
    for (int i = 0; i < 3; i++) {
        check_ids(t, a24, TOK_PLAIN, IDS(A24));
        check_ids(t, "aaaaaaaaaaaaaaaaaaaaaaaab", TOK_PLAIN, IDS(A24B));
        check_ids(t, "aaaaaaaaaaaaaaaaaaaaaaaaa", TOK_PLAIN, IDS(A24, 'a'));
        check_ids(t, a24 + 8, TOK_PLAIN, IDS(A16));
    }
    tok_free(t);
}

/* Of two words only one has a NUL behind it. */
static void test_word_and_nul(void **state)
{
    (void)state;
    struct tok *t = byte_level();
    for (int i = 0; i < 2; i++)
        for (size_t n = 1; n <= 2; n++) {
            static const tok_id want[] = {'!', 0};
            tok_id *ids;
            size_t count;
            struct err e;
            assert_int_equal(tok_encode(t, "!", n, TOK_PLAIN, &ids, &count, &e), ST_OK);
            assert_int_equal(count, n);
            assert_memory_equal(ids, want, n * sizeof *want);
            tok_ids_free(ids, count);
        }
    tok_free(t);
}

/* ---- many threads learn the same words at once ---- */

enum { LETTERS = 12, PAIRS = LETTERS * LETTERS, TRIPLES = PAIRS * LETTERS, READERS = 4, READ = 800, ROUNDS = 10 };

struct reader {
    pthread_t thread;
    const struct tok *t;
    pthread_barrier_t *start;
    uint64_t seed;
    bool ok;
};

/* Ids of a word of three letters: every two are a token, and they and a third; two that come earlier in the alphabet are
 * merged first, and nothing takes a letter in front. */
static size_t triple_ids(const uint32_t c[3], tok_id *to)
{
    const uint32_t left = c[0] * LETTERS + c[1], right = c[1] * LETTERS + c[2];
    if (left <= right) {
        to[0] = (tok_id)(256 + PAIRS + left * LETTERS + c[2]);
        return 1;
    }
    to[0] = (tok_id)('a' + c[0]);
    to[1] = (tok_id)(256 + right);
    return 2;
}

/* Words in an order of its own, each on a line; the line break is a word, too. There are so many that more of them share a
 * place than it has room for. */
static void *read_words(void *arg)
{
    struct reader *r = arg;
    char text[4 * READ];
    tok_id want[3 * READ], *ids = NULL;
    size_t n = 0, count = 0;
    struct err e;
    for (uint32_t i = 0; i < READ; i++) {
        uint32_t c[4];
        rng_philox(r->seed, i, 0, c);
        for (int k = 0; k < 3; k++) {
            c[k] %= LETTERS;
            text[4 * i + (uint32_t)k] = (char)('a' + c[k]);
        }
        text[4 * i + 3] = '\n';
        n += triple_ids(c, want + n);
        want[n++] = '\n';
    }
    pthread_barrier_wait(r->start);
    r->ok = tok_encode(r->t, text, sizeof text, TOK_PLAIN, &ids, &count, &e) == ST_OK && count == n &&
            memcmp(ids, want, n * sizeof *want) == 0;
    tok_ids_free(ids, count);
    return NULL;
}

static void merge_letters(struct words *w)
{
    for (int i = 0; i < PAIRS + TRIPLES; i++) {
        const int pair = i < PAIRS ? i / LETTERS : (i - PAIRS) / LETTERS;
        const char right[] = {(char)('a' + i % LETTERS), 0};
        const char left[] = {(char)('a' + (i < PAIRS ? pair : pair / LETTERS)),
                             (char)(i < PAIRS ? 0 : 'a' + pair % LETTERS), 0};
        words_merge(w, left, right);
    }
}

static void test_words_of_many_threads(void **state)
{
    static struct words w;
    (void)state;
    words_begin_bytes(&w);
    merge_letters(&w);
    const struct tok_source src = words_source(&w, "smollm");
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct reader readers[READERS];
        pthread_barrier_t start;
        struct tok *t = tok_of(&src);
        pthread_barrier_init(&start, NULL, READERS);
        for (uint64_t i = 0; i < READERS; i++) {
            readers[i] = (struct reader){.t = t, .start = &start, .seed = READERS * round + i};
            if (pthread_create(&readers[i].thread, NULL, read_words, &readers[i]))
                abort(); /* others use what is on this stack */
        }
        for (size_t i = 0; i < READERS; i++)
            pthread_join(readers[i].thread, NULL);
        for (size_t i = 0; i < READERS; i++)
            assert_true(readers[i].ok);
        pthread_barrier_destroy(&start);
        tok_free(t);
    }
}

/* The last of some spaces goes with the word behind them; at the end of what is cut they stay together. */
static void test_spaces(void **state)
{
    enum { TWO = 256, WITH_X };
    static struct words w;
    (void)state;
    words_begin_bytes(&w);
    words_merge(&w, "\xc4\xa0", "\xc4\xa0");
    words_merge(&w, "\xc4\xa0", "x");
    const struct tok_source src = words_source(&w, "smollm");
    struct tok *t = tok_of(&src);
    check_ids(t, " x", TOK_PLAIN, IDS(WITH_X));
    check_ids(t, "  x", TOK_PLAIN, IDS(' ', WITH_X));
    check_ids(t, "   x", TOK_PLAIN, IDS(TWO, WITH_X));
    check_ids(t, "x  ", TOK_PLAIN, IDS('x', TWO));
    check_ids(t, "1  2", TOK_PLAIN, IDS('1', TWO, '2')); /* digits are cut out first */
    tok_free(t);
}

static void test_sentence_piece(void **state)
{
    (void)state;
    struct tok *t = sentence_piece();
    const tok_id space = 259, a = 260, ab = 262, space_a = 263;
    struct err e;
    char *text;
    size_t n;
    check_ids(t, "a", TOK_PLAIN, IDS(space_a));
    check_ids(t, "ab", TOK_PLAIN, IDS(space, ab)); /* "ab" scores better than " a" */
    check_ids(t, "a", TOK_INNER, IDS(a));
    check_ids(t, "a\n", TOK_BOS, IDS(1, space_a, 3 + 10));
    check_ids(t, "a</s>a", TOK_TRUSTED, IDS(space_a, 2, space_a));
    check_ids(t, "", TOK_PLAIN, NULL, 0);
    assert_int_equal(tok_decode(t, (tok_id[]){space_a, 2, space_a}, 3, false, &text, &n, &e), ST_OK);
    assert_string_equal(text, "aa");
    text_free(text, n);
    assert_int_equal(tok_decode(t, (tok_id[]){9999}, 1, false, &text, &n, &e), ST_ARGUMENT);
    assert_null(text);
    tok_free(t);
}

static void test_refusals(void **state)
{
    (void)state;
    static struct words w;
    struct tok_source src;
    struct tok *t;
    struct err e;
    w.n = 0;
    add(&w, "a", TOK_NORMAL, 0);
    tok_source_init(&src);
    src.model = "gpt2";
    src.pre = "no-such-cut";
    src.tokens = w.tokens;
    src.n_tokens = w.n;
    src.merges = &(struct text_view){"h e", 3};
    src.n_merges = 1;
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_UNSUPPORTED);
    assert_non_null(strstr(e.text, "no-such-cut"));
    assert_null(t);
    src.model = "wordpiece";
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_UNSUPPORTED);
    assert_non_null(strstr(e.text, "wordpiece"));
    src.model = "llama";
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_MODEL); /* no scores */
    src.model = "gpt2";
    src.pre = "qwen2";
    src.tokens = &(struct text_view){"\xff\xfe", 2};
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_MODEL);
    src.n_tokens = 0;
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_MODEL);
    assert_int_equal(tok_new_json(&t, "{", 1, NULL, 0, &e), ST_MODEL);
    assert_int_equal(tok_new_json(&t, "{\"model\":{\"type\":\"Unigram\"}}", 28, NULL, 0, &e), ST_UNSUPPORTED);
    tok_free(NULL);
}

/* A reply ends with whatever the file calls EOS, EOT or EOM, and with whatever is spelled like the end of a turn. */
static void test_ends(void **state)
{
    static const char *const names[] = {"<one>", "<two>", "<three>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>",
                                        "<|endoftext|>", "<other>"};
    static struct words w;
    struct tok_source src;
    size_t n;
    (void)state;
    words_begin_bytes(&w);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        words_add(&w, names[i], i == 4 ? TOK_NORMAL : TOK_CONTROL);
    words_merge(&w, "h", "e");
    src = words_source(&w, "smollm");
    src.eos = 258, src.eot = 256, src.eom = 257;
    struct tok *t = tok_of(&src);
    const tok_id *ends = tok_eos(t, &n);
    assert_int_equal(n, 7);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ends[i], 256 + (tok_id)i);
        assert_true(tok_is_eos(t, ends[i]) && tok_is_special(t, ends[i]));
    }
    assert_false(tok_is_eos(t, 263));
    assert_int_equal(tok_eos_main(t), 258);
    tok_free(t);
}

static void test_json(void **state)
{
    (void)state;
    static const char json[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
        "{\"id\":3,\"content\":\"<|end|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":true,\"normalized\":false,"
        "\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
        "{\"SpecialToken\":{\"id\":\"<|end|>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"
        "\"special_tokens\":{\"<|end|>\":{\"id\":\"<|end|>\",\"ids\":[3],\"tokens\":[\"<|end|>\"]}}},"
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},"
        "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
        "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,"
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    struct tok *t;
    struct err e;
    assert_int_equal(tok_new_json(&t, json, sizeof json - 1, NULL, 0, &e), ST_OK);
    check_ids(t, "abba", TOK_PLAIN, IDS(2, 1, 0));
    check_ids(t, "ab<|end|>  a", TOK_TRUSTED | TOK_BOS, IDS(3, 2, 3, 0));
    assert_true(tok_is_eos(t, 3) && tok_adds_bos(t));
    assert_int_equal(tok_bos(t), 3);
    tok_free(t);
    static char twice[sizeof json];
    memcpy(twice, json, sizeof json);
    strstr(twice, "\"ab\":2")[5] = '1';
    assert_int_equal(tok_new_json(&t, twice, sizeof json - 1, NULL, 0, &e), ST_MODEL);
    assert_non_null(strstr(e.text, "the id of another word, 1"));
}

/* --- streams --------------------------------------------------------------------------------------------------------- */

static void test_stream(void **state)
{
    (void)state;
    struct tok *t = byte_level();
    struct tok_stream *s;
    struct err e;
    char out[16];
    assert_int_equal(tok_stream_new(t, false, false, &s, &e), ST_OK);
    /* U+1F600 comes out with its last byte, the control token not at all. */
    assert_int_equal(tok_stream_put(s, 0xF0, out, sizeof out), 0);
    assert_int_equal(tok_stream_put(s, BPE_BOS, out, sizeof out), 0);
    assert_int_equal(tok_stream_put(s, 0x9F, out, sizeof out), 0);
    assert_int_equal(tok_stream_put(s, 0x98, out, sizeof out), 0);
    assert_int_equal(tok_stream_put(s, 0x80, out, sizeof out), 4);
    assert_memory_equal(out, "\xF0\x9F\x98\x80", 4);
    /* What can become no character is replaced at once; what might have, at the end. */
    assert_int_equal(tok_stream_put(s, 0xFF, out, sizeof out), 3);
    assert_int_equal(tok_stream_put(s, 0xE2, out, sizeof out), 0);
    assert_int_equal(tok_stream_put(s, 'a', out, sizeof out), 4);
    assert_memory_equal(out, "\xEF\xBF\xBD" "a", 4);
    assert_int_equal(tok_stream_put(s, 0xC3, out, sizeof out), 0);
    assert_int_equal(tok_stream_flush(s, out, sizeof out), 3);
    assert_int_equal(tok_stream_flush(s, out, sizeof out), 0);
    /* A small buffer loses nothing. */
    tok_stream_clear(s);
    assert_int_equal(tok_stream_put(s, BPE_THINK, out, 4), 4);
    assert_int_equal(tok_stream_more(s, out + 4, 4), 3);
    assert_memory_equal(out, "<think>", 7);
    assert_int_equal(tok_stream_more(s, out, 4), 0);
    assert_int_equal(tok_stream_put(s, 1 << 30, out, 4), 0);
    assert_int_equal(tok_stream_put(s, -1, out, 4), 0);
    tok_stream_free(s);
    tok_stream_free(NULL);
    tok_free(t);
}

/* --- templates ------------------------------------------------------------------------------------------------------- */

static enum status render(const char *source, const struct tok *t, const char *vars, struct text_rendering *r,
                          struct err *e)
{
    struct chat_template *c;
    enum status st = chat_template_new(&c, source, strlen(source), e);
    if (st != ST_OK)
        return st;
    st = chat_template_render(c, t, vars, strlen(vars), NOW, r, e);
    chat_template_free(c);
    return st;
}

static void check_text(const char *source, const char *vars, const char *want)
{
    struct text_rendering r;
    struct err e = {0};
    enum status st = render(source, NULL, vars, &r, &e);
    if (st != ST_OK)
        fail_msg("%s", e.text);
    assert_string_equal(r.text, want);
    assert_int_equal(r.n, strlen(want));
    text_rendering_release(&r);
}

static void test_templates(void **state)
{
    (void)state;
    struct text_rendering r;
    struct err e;
    check_text("{% for m in messages %}\n  {{ m.role }}: {{ m.content | trim }}\n{% endfor %}",
               "{\"messages\":[{\"role\":\"user\",\"content\":\" hi \"}]}", "  user: hi\n");
    check_text("{{ x | tojson }} {{ y }} {{ z }}",
               "{\"x\":{\"b\":9007199254740993,\"a\":[0.1,null,\"<\"]},\"y\":true,\"z\":[1,\"a\"]}",
               "{\"b\": 9007199254740993, \"a\": [0.1, null, \"<\"]} True [1, 'a']");
    check_text("{{ x | tojson(indent=2) }}", "{\"x\":{\"b\":[1]}}", "{\n  \"b\": [\n    1\n  ]\n}");
    check_text("{{ strftime_now('%d %b %Y') }}", "{}", "09 Jan 2026");
    /* Local time, as in transformers. */
    setenv("TZ", "XYZ-13", 1);
    tzset();
    check_text("{{ strftime_now('%d %H:%M') }}", "{}", "10 01:00");
    setenv("TZ", "UTC", 1);
    tzset();
    check_text("{% generation %}{{ '%s!' % 'x' }}{% endgeneration %}{{ missing }}", "{}", "x!");
    assert_int_equal(render("{{ raise_exception('roles must alternate') }}", NULL, "{}", &r, &e), ST_ARGUMENT);
    assert_string_equal(e.text, "roles must alternate");
    assert_null(r.text);
    assert_int_equal(render("{% if %}", NULL, "{}", &r, &e), ST_MODEL);
    assert_int_equal(render("x", NULL, "[1]", &r, &e), ST_ARGUMENT);
    assert_int_equal(render("x", NULL, "{\"a\":", &r, &e), ST_ARGUMENT);
    assert_int_equal(render("{% for x in none %}{% endfor %}", NULL, "{}", &r, &e), ST_ARGUMENT);
}

static void test_limits(void **state)
{
    (void)state;
    struct text_rendering r;
    struct err e;
    static const char endless[] = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}"
                                  "{% endfor %}{% endfor %}{% endfor %}";
    static const char large[] = "{% set x = 'xxxxxxxxxxxxxxxx' * 1000000 %}{{ x }}{{ x }}{{ x }}{{ x }}{{ x }}";
    static const char deep[] = "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}";
    assert_int_equal(render(endless, NULL, "{}", &r, &e), ST_TOO_LONG);
    assert_int_equal(render(large, NULL, "{}", &r, &e), ST_TOO_LONG);
    assert_int_equal(render(deep, NULL, "{}", &r, &e), ST_ARGUMENT);
}

/* Values nested a million deep: an error each time, and the process lives. */
static void test_nesting(void **state)
{
    (void)state;
    static const char *const makes[] = {"[ns.x]", "(ns.x,)", "{'a': ns.x}", "{'a': [ns.x, 1]}", "namespace(a=ns.x)",
                                        "[[[[[[[[ns.x]]]]]]]]", "[ns.x, ns.x]"};
    static const char *const uses[] = {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x | string }}", "{{ '%r' % ns.x }}",
                                       "{{ [ns.x] | join }}", "{{ raise_exception(ns.x) }}", "{{ ns }}"};
    struct text_rendering r;
    struct err e;
    char source[512];
    for (size_t i = 0; i < sizeof makes / sizeof *makes; i++) {
        for (size_t k = 0; k < sizeof uses / sizeof *uses; k++) {
            bool many = k == 0;
            snprintf(source, sizeof source,
                     "{%% set ns = namespace(x=[]) %%}{%% for i in range(%d) %%}{%% for j in range(1000) %%}"
                     "{%% set ns.x = %s -%%}{%% endfor %%}{%% endfor %%}%s", many ? 1000 : 1, makes[i], uses[k]);
            if (render(source, NULL, "{}", &r, &e) == ST_OK)
                fail_msg("%s gives %.40s", source, r.text);
            assert_null(r.text);
        }
    }
    /* Straight down, without a loop. */
    enum { DOWN = 900000 };
    char *down = malloc(DOWN);
    size_t n = 0;
    for (int i = 0; i < 40000; i++)
        n += (size_t)snprintf(down + n, DOWN - n, "{%% set b=[b] %%}");
    snprintf(down + n, DOWN - n, "{{ b }}");
    assert_int_not_equal(render(down, NULL, "{}", &r, &e), ST_OK);
    free(down);
    check_text("{% set a, b = [1, 2] %}{% set c %}x{% endset %}{% set d = 3 if a > 1 else 4 %}{{ [a, b, c, d] }}", "{}",
               "[1, 2, 'x', 4]");
}

/* --- trust ----------------------------------------------------------------------------------------------------------- */

static const char plain_chat[] = "{{ bos_token }}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}";

static size_t count_of(const tok_id *ids, size_t n, tok_id id)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += ids[i] == id;
    return found;
}

/* Renders and encodes; returns how many <|im_end|> came out. */
static size_t ends(const char *source, const char *vars, const char *text)
{
    struct tok *t = byte_level();
    struct text_rendering r;
    struct err e = {0};
    tok_id *ids;
    size_t n;
    if (render(source, NULL, vars, &r, &e) == ST_OK) {
        assert_int_equal(tok_encode_rendering(t, &r, &ids, &n, &e), ST_BUG);
        text_rendering_release(&r);
    }
    if (render(source, t, vars, &r, &e) != ST_OK)
        fail_msg("%s", e.text);
    if (text)
        assert_string_equal(r.text, text);
    assert_int_equal(tok_encode_rendering(t, &r, &ids, &n, &e), ST_OK);
    assert_int_equal(ids[0], BPE_BOS);
    if (r.text[r.n - 1] == '\n')
        assert_int_equal(ids[n - 1], '\n'); /* nothing behind the generation prompt */
    size_t found = count_of(ids, n, BPE_END);
    assert_int_equal(count_of(ids, n, BPE_BOS), 1);
    tok_ids_free(ids, n);
    text_rendering_release(&r);
    tok_free(t);
    return found;
}

static void test_trust(void **state)
{
    (void)state;
    struct tok *t = byte_level();
    struct text_rendering r;
    struct err e;
    assert_int_equal(ends(plain_chat, "{\"messages\":[{\"content\":\"hi\"}]}", "<|bos|>hi<|im_end|>"), 1);
    assert_int_equal(ends(plain_chat, "{\"messages\":[{\"content\":\"x<|im_end|>y<|bos|>\"}],\"bos_token\":\"no\"}",
                          "<|bos|>x<|im_end|>y<|bos|><|im_end|>"), 1);
    /* Put together across two strings, and from a string and the template. */
    assert_int_equal(ends("{{ messages[0] }}{{ messages[1] }}<|im_end|>", "{\"messages\":[\"<|im_\",\"end|>\"]}",
                          "<|im_end|><|im_end|>"), 1);
    assert_int_equal(ends("<|{{ messages[0] }}|>.", "{\"messages\":[\"im_end\"]}", "<|im_end|>."), 0);
    assert_int_equal(ends("<|{{ messages[0] }}|><|im_end|>", "{\"messages\":[\"im_end\"]}", NULL), 1);
    /* Tokens inside tokens. */
    assert_int_equal(ends(plain_chat, "{\"messages\":[{\"content\":\"<|im_<|im_end|>end|><<|bos|>|im_end|>\"}]}", NULL), 1);
    /* A word the template itself uses is the protocol's. */
    assert_int_equal(ends("{% if x == 'im_end' %}<|{{ x }}|>{% endif %}", "{\"x\":\"im_end\"}", "<|im_end|>"), 1);
    /* A template that looks for the token: quoted instead of parted, and still not believed. */
    assert_int_equal(ends("{% if '<|im_end|>' in m %}yes {% endif %}{{ m }}<|im_end|>", "{\"m\":\"a<|im_end|>b\"}",
                          "yes a<|im_end|>b<|im_end|>"), 1);
    /* Put together by what the template deletes or trims, in front of its own tokens or inside them. */
    static const char deleting[] = "{{ m | replace('/no_think', '') }}<|im_end|>";
    assert_int_equal(ends(deleting, "{\"m\":\"<|im_/no_thinkend|>\"}", "<|im_end|><|im_end|>"), 1);
    assert_int_equal(ends(deleting, "{\"m\":\"</no_think|im_end|>\"}", "<|im_end|><|im_end|>"), 1);
    assert_int_equal(ends(deleting, "{\"m\":\"<|im_end|/no_think>\"}", "<|im_end|><|im_end|>"), 1);
    assert_int_equal(ends("{{ m.replace('<think>', '') }}<|im_end|>", "{\"m\":\"<|im_<think>end|>\"}",
                          "<|im_end|><|im_end|>"), 1);
    assert_int_equal(ends("{{ a | trim }}{{ b | trim }}<|im_end|>", "{\"a\":\"<|im_ \",\"b\":\" end|>\"}",
                          "<|im_end|><|im_end|>"), 1);
    assert_int_equal(ends("<|{{ m | replace('/no_think', '') }}|>.", "{\"m\":\"im_/no_thinkend\"}", "<|im_end|>."), 0);
    assert_int_equal(ends("<|{{ m.split('/')[1] }}|><|im_end|>", "{\"m\":\"a/im_end/b\"}", "<|im_end|><|im_end|>"), 1);
    /* Harmless text needs no proof that a template leaves it alone. */
    assert_int_equal(ends("{{ m | length }}<|im_end|>", "{\"m\":\"a<b\"}", "3<|im_end|>"), 1);
    assert_int_equal(ends("{{ m | upper }}<|im_end|>{{ '\\n' }}", "{\"m\":\"<b>\"}", "<B><|im_end|>\n"), 1);
    assert_int_equal(ends("{{ m.split('</think>')[-1].lstrip('\\n') }}<|im_end|>", "{\"m\":\"a</think>\\n<|im_end|>\"}",
                          "<|im_end|><|im_end|>"), 1);
    /* One that counts characters leaves no way. */
    assert_int_equal(render("{{ m|length }}<|im_end|>", t, "{\"m\":\"<|im_end|>\"}", &r, &e), ST_ARGUMENT);
    assert_non_null(strstr(e.text, "<|im_end|>"));
    tok_free(t);
}

/* What a template's own words are depends on the vocabulary; one template may meet several. */
static void test_two_vocabularies(void **state)
{
    static const char source[] = "<|{{ m }}|><|im_end|><x>", vars[] = "{\"m\":\"im_end\"}";
    static struct words w;
    (void)state;
    words_begin_bytes(&w);
    words_merge(&w, "h", "e");
    words_add(&w, "<x>", TOK_CONTROL);
    const struct tok_source src = words_source(&w, "smollm");
    struct tok *toks[] = {tok_of(&src), byte_level(), tok_of(&src)};
    struct chat_template *c;
    struct err e;
    assert_int_equal(chat_template_new(&c, source, sizeof source - 1, &e), ST_OK);
    for (size_t i = 0; i < 3; i++) {
        struct text_rendering r;
        tok_id *ids;
        size_t n, controls = 0;
        assert_int_equal(chat_template_render(c, toks[i], vars, sizeof vars - 1, NOW, &r, &e), ST_OK);
        assert_int_equal(tok_encode_rendering(toks[i], &r, &ids, &n, &e), ST_OK);
        for (size_t k = 1; k < n; k++)
            controls += tok_is_special(toks[i], ids[k]);
        assert_int_equal(controls, 1);
        tok_ids_free(ids, n);
        text_rendering_release(&r);
    }
    chat_template_free(c);
    for (size_t i = 0; i < 3; i++)
        tok_free(toks[i]);
}

static void test_shim(void **state)
{
    (void)state;
    assert_non_null(strstr(text_versions(), "tokenizers"));
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_words_again),
        cmocka_unit_test(test_long_words_again),
        cmocka_unit_test(test_word_and_nul),
        cmocka_unit_test(test_words_of_many_threads),
        cmocka_unit_test(test_two_vocabularies),
        cmocka_unit_test(test_spaces),     cmocka_unit_test(test_sentence_piece), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_json),       cmocka_unit_test(test_stream),         cmocka_unit_test(test_templates),
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_nesting),        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_shim),       cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
