/* chat/replay: generated ids in place of a fresh encoding, over two small tokenizers of the real library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "chat/chat.h"

#define MOST 64

struct words {
    struct text_view tokens[300];
    float scores[300];
    int32_t types[300];
    char store[300][16];
    size_t n;
};

static tok_id add(struct words *w, const char *text, int type, float score)
{
    size_t i = w->n++;
    snprintf(w->store[i], sizeof w->store[i], "%s", text);
    w->tokens[i] = (struct text_view){w->store[i], strlen(text)};
    w->types[i] = type;
    w->scores[i] = score;
    return (tok_id)i;
}

/* SentencePiece's way: a space before the first word, single bytes for what has no piece, the split with the best scores.
 * Of "ab" and "abc" the fresh encoding always takes the longer. */
enum { UNK, BOS, END, TURN = 259, SPACE, A, B, C, AB, BC, ABC, SPACE_A, CALL, PIECES };

static struct tok *pieces(void)
{
    static struct words w;
    struct tok_source src;
    struct err e = {0};
    struct tok *t;
    char byte[8];
    w.n = 0;
    add(&w, "<unk>", TOK_UNKNOWN, 0);
    add(&w, "<s>", TOK_CONTROL, 0);
    add(&w, "</s>", TOK_CONTROL, 0);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(byte, sizeof byte, "<0x%02X>", b);
        add(&w, byte, TOK_BYTE, 0);
    }
    assert_int_equal(add(&w, "<turn>", TOK_CONTROL, 0), TURN);
    add(&w, "\xe2\x96\x81", TOK_NORMAL, -10);
    add(&w, "a", TOK_NORMAL, -11);
    add(&w, "b", TOK_NORMAL, -12);
    add(&w, "c", TOK_NORMAL, -13);
    add(&w, "ab", TOK_NORMAL, -3);
    add(&w, "bc", TOK_NORMAL, -4);
    add(&w, "abc", TOK_NORMAL, -2);
    add(&w, "\xe2\x96\x81"
            "a", TOK_NORMAL, -1);
    assert_int_equal(add(&w, "<call>", TOK_USER_DEFINED, 0), CALL);
    assert_int_equal(w.n, PIECES);
    tok_source_init(&src);
    src.model = "llama";
    src.tokens = w.tokens;
    src.types = w.types;
    src.scores = w.scores;
    src.n_tokens = w.n;
    src.bos = BOS;
    src.eos = END;
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_OK);
    return t;
}

static tok_id byte_id(unsigned char b)
{
    return 3 + b;
}

static void append_bytes(const struct tok *t, const tok_id *ids, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t m;
        const char *s = tok_bytes(t, ids[i], &m);
        buf_add(out, s, m);
    }
}

/* The law: whatever the record, the prompt's bytes stay, and so do its control ids. */
static void check_bytes(const struct tok *t, const tok_id *a, size_t an, const tok_id *b, size_t bn)
{
    struct buf x, y;
    buf_init(&x, 1 << 16);
    buf_init(&y, 1 << 16);
    append_bytes(t, a, an, &x);
    append_bytes(t, b, bn, &y);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.data, y.data, x.len);
    buf_release(&x);
    buf_release(&y);
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < an && tok_kind_of(t, a[i]) != TOK_CONTROL)
            i++;
        while (j < bn && tok_kind_of(t, b[j]) != TOK_CONTROL)
            j++;
        if (i == an || j == bn)
            break;
        assert_int_equal(a[i], b[j]);
    }
    assert_true(i == an && j == bn);
}

struct done {
    struct chat_replay at;
    tok_id ids[2 * MOST];
    bool generated[2 * MOST];
    size_t n;
};

/* The record's ids from `from` on were generated. */
static void replay(const struct tok *t, const tok_id *rec, size_t n, size_t from, const tok_id *fresh, size_t m,
                   struct done *d)
{
    bool generated[MOST] = {false};
    for (size_t i = from; i < n; i++)
        generated[i] = true;
    const struct chat_record record = {rec, generated, n};
    chat_replay_match(t, &record, fresh, m, &d->at);
    assert_true(d->at.recorded <= n && d->at.fresh <= m && d->at.reused <= d->at.recorded);
    d->n = chat_replay_apply(&record, &d->at, fresh, m, d->ids, d->generated);
    assert_int_equal(d->n, d->at.recorded + m - d->at.fresh);
    check_bytes(t, d->ids, d->n, fresh, m);
    size_t count = 0;
    for (size_t i = 0; i < d->n; i++)
        count += d->generated[i];
    assert_int_equal(count, d->at.reused);
}

#define REPLAY(t, rec, from, fresh, d) \
    replay(t, rec, sizeof(rec) / sizeof *(rec), from, fresh, sizeof(fresh) / sizeof *(fresh), d)

static void check_is(const struct done *d, const tok_id *want, size_t n, size_t reused)
{
    assert_int_equal(d->n, n);
    assert_memory_equal(d->ids, want, n * sizeof *want);
    assert_int_equal(d->at.reused, reused);
}

#define IS(d, want, reused) check_is(d, want, sizeof(want) / sizeof *(want), reused)

/* "abc" was generated as "a" "bc"; encoded again it is one piece. The turns around it are alike. */
static void test_another_split(void **state)
{
    struct tok *t = *state;
    struct done d;
    const tok_id rec[] = {BOS, TURN, C, TURN, A, BC, A};
    const tok_id fresh[] = {BOS, TURN, C, TURN, ABC, A, END, TURN, B};
    const tok_id want[] = {BOS, TURN, C, TURN, A, BC, A, END, TURN, B};
    REPLAY(t, rec, 4, fresh, &d);
    IS(&d, want, 3);
    /* the other way round: fewer ids than the fresh encoding has */
    const tok_id one[] = {BOS, TURN, ABC}, three[] = {BOS, TURN, A, B, C, END}, whole[] = {BOS, TURN, ABC, END};
    REPLAY(t, one, 2, three, &d);
    IS(&d, whole, 1);
    /* borders that cross twice before they meet */
    const tok_id zig[] = {TURN, AB, C, A, BC}, zag[] = {TURN, A, BC, AB, C}, same[] = {TURN, AB, C, A, BC};
    REPLAY(t, zig, 1, zag, &d);
    IS(&d, same, 4);
    /* alike in ids: nothing to exchange, but the ids count as replayed */
    REPLAY(t, rec, 4, rec, &d);
    IS(&d, rec, 3);
}

/* Bytes of the text that were single tokens, against a piece. */
static void test_bytes(void **state)
{
    struct tok *t = *state;
    struct done d;
    const tok_id rec[] = {TURN, byte_id('a'), byte_id('b'), C}, fresh[] = {TURN, ABC, END};
    const tok_id want[] = {TURN, byte_id('a'), byte_id('b'), C, END};
    REPLAY(t, rec, 1, fresh, &d);
    IS(&d, want, 3);
    /* a record may end inside a character: what counts are borders of tokens */
    const tok_id half[] = {TURN, A, byte_id(0xC3)}, full[] = {TURN, A, byte_id(0xC3), byte_id(0xA9), END};
    REPLAY(t, half, 1, full, &d);
    IS(&d, full, 2);
}

/* A prompt id may never be exchanged, even where bytes agree: the client's text is encoded as it always is. */
static void test_only_generated_ids(void **state)
{
    struct tok *t = *state;
    struct done d;
    const tok_id rec[] = {BOS, A, BC, TURN, AB}, fresh[] = {BOS, ABC, TURN, AB, END};
    REPLAY(t, rec, 4, fresh, &d);
    IS(&d, fresh, 0);
    assert_int_equal(d.at.fresh, 1);
    /* nor one side of a border inside a piece: "a" of the prompt, "bc" generated */
    const tok_id seam[] = {BOS, A, BC}, joined[] = {BOS, ABC};
    REPLAY(t, seam, 2, joined, &d);
    IS(&d, joined, 0);
}

static void spell(const char *s, tok_id *out, size_t *n)
{
    for (*n = 0; s[*n]; ++*n)
        out[*n] = byte_id((unsigned char)s[*n]);
}

/* A control token and the same characters as text are two things, whichever side has which. */
static void test_control_tokens(void **state)
{
    struct tok *t = *state;
    struct done d;
    size_t n;
    tok_id text[MOST] = {BOS};
    const tok_id token[] = {BOS, TURN};
    spell("<turn>", text + 1, &n);
    replay(t, text, n + 1, 1, token, 2, &d);
    IS(&d, token, 0);
    replay(t, token, 2, 1, text, n + 1, &d);
    check_is(&d, text, n + 1, 0);
    /* the same for tokens that a vocabulary calls user-defined: a template means something by them */
    const tok_id call[] = {BOS, CALL};
    spell("<call>", text + 1, &n);
    replay(t, text, n + 1, 1, call, 2, &d);
    IS(&d, call, 0);
    replay(t, call, 2, 1, text, n + 1, &d);
    check_is(&d, text, n + 1, 0);
    /* as an id it agrees with itself, in the middle of what differs in split */
    const tok_id rec[] = {BOS, A, BC, CALL, A, B}, fresh[] = {BOS, ABC, CALL, AB, END};
    const tok_id want[] = {BOS, A, BC, CALL, A, B, END};
    REPLAY(t, rec, 1, fresh, &d);
    IS(&d, want, 5);
}

static void test_differences(void **state)
{
    struct tok *t = *state;
    struct done d;
    /* in the middle of a piece: back to the last common border */
    const tok_id rec[] = {TURN, A, BC, A, B, A}, fresh[] = {TURN, ABC, ABC, END}, want[] = {TURN, A, BC, ABC, END};
    REPLAY(t, rec, 1, fresh, &d);
    IS(&d, want, 2);
    /* at once */
    const tok_id other[] = {END, A};
    REPLAY(t, other, 1, fresh, &d);
    IS(&d, fresh, 0);
    assert_int_equal(d.at.recorded, 0);
    /* a template that drops the beginning of a reply */
    const tok_id spaced[] = {TURN, SPACE, A, BC}, trimmed[] = {TURN, ABC, END};
    REPLAY(t, spaced, 1, trimmed, &d);
    IS(&d, trimmed, 0);
}

/* A reply that was cut by its limit, or by a stop string that lies inside a piece. */
static void test_truncated(void **state)
{
    struct tok *t = *state;
    struct done d;
    const tok_id rec[] = {TURN, A, BC, A}, fresh[] = {TURN, ABC, ABC, END}, want[] = {TURN, A, BC, ABC, END};
    REPLAY(t, rec, 1, fresh, &d);
    IS(&d, want, 2);
    const tok_id longer[] = {TURN, A, BC, A, BC}, stopped[] = {TURN, ABC, AB, END}, cut[] = {TURN, A, BC, AB, END};
    REPLAY(t, longer, 1, stopped, &d);
    IS(&d, cut, 2);
}

static void test_small(void **state)
{
    struct tok *t = *state;
    struct done d;
    const tok_id a[] = {A}, b[] = {B};
    REPLAY(t, a, 0, a, &d);
    IS(&d, a, 1);
    REPLAY(t, a, 0, b, &d);
    IS(&d, b, 0);
    replay(t, a, 1, 0, NULL, 0, &d);
    assert_int_equal(d.n, 0);
    replay(t, NULL, 0, 0, a, 1, &d);
    IS(&d, a, 0);
    const tok_id foreign[] = {PIECES + 5};
    REPLAY(t, foreign, 0, a, &d);
    IS(&d, a, 0);
}

/* The tokenizer itself makes the fresh side: the space before the first word belongs to the text's bytes. */
static void test_with_the_tokenizer(void **state)
{
    struct tok *t = *state;
    struct done d;
    struct err e = {0};
    tok_id *ids;
    size_t n;
    assert_int_equal(tok_encode(t, "abc abcab", 9, TOK_PLAIN, &ids, &n, &e), ST_OK);
    const tok_id rec[] = {SPACE, A, B, C, SPACE, AB, C, A, B};
    replay(t, rec, 9, 0, ids, n, &d);
    IS(&d, rec, 9);
    tok_ids_free(ids, n);
}

/* Random splits of random texts, with beginnings that were not generated: replay() checks the law each time. */
static void test_random_splits(void **state)
{
    struct tok *t = *state;
    static const tok_id units[] = {A, B, C, AB, BC, ABC, SPACE, SPACE_A, TURN, CALL};
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 20000; round++) {
        tok_id rec[MOST], fresh[MOST];
        size_t n = 0, m = 0;
        for (int k = 0; k < 2; k++) {
            tok_id *out = k ? fresh : rec;
            size_t *count = k ? &m : &n;
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            for (size_t left = x % 12; left > 0; left--) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                out[(*count)++] = units[x % 100 < 96 ? x / 100 % 6 : 6 + x / 100 % 4];
            }
        }
        struct done d;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        replay(t, rec, n, x % 3 ? 0 : n / 2, fresh, m, &d);
    }
}

static int make(void **state)
{
    *state = pieces();
    return 0;
}

static int drop(void **state)
{
    tok_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_split),       cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_only_generated_ids),  cmocka_unit_test(test_control_tokens),
        cmocka_unit_test(test_differences),         cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_small),               cmocka_unit_test(test_random_splits),
        cmocka_unit_test(test_with_the_tokenizer),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
