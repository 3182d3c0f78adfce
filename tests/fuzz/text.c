/*
 * text: any text through the tokenizer (the shim's Rust is not followed: what it does wrong shows in what comes out).
 *
 * A client's text has no control token, ids are in the vocabulary, they spell what was encoded, and a stream of them says
 * what they spell all at once.
 */
#include "calls.h"
#include "fuzz/kit/fuzz.h"
#include "text/text.h"

static void check_stream(const struct tok *t, const tok_id *ids, size_t n, bool special, const struct buf *want)
{
    struct tok_stream *s;
    struct buf text;
    struct err e;
    char out[7];
    size_t got;
    FUZZ_CHECK(tok_stream_new(t, special, false, &s, &e) == ST_OK, "%s", e.text);
    buf_init(&text, want->len + 64);
    for (size_t i = 0; i < n; i++)
        for (got = tok_stream_put(s, ids[i], out, sizeof out); got; got = tok_stream_more(s, out, sizeof out)) {
            char *copy = fuzz_copy(out, got);
            struct buf clean;
            buf_init(&clean, 4 * sizeof out);
            fuzz_utf8(copy, got, &clean);
            FUZZ_CHECK(clean.len == got && memcmp(clean.data, copy, got) == 0, "half a character");
            buf_add(&text, out, got);
            buf_release(&clean);
            free(copy);
        }
    while ((got = tok_stream_flush(s, out, sizeof out)) > 0)
        buf_add(&text, out, got);
    fuzz_same(&text, want, "a stream, and all at once");
    buf_release(&text);
    tok_stream_free(s);
}

static void spell(const struct tok *t, const tok_id *ids, size_t n, bool special, struct buf *out)
{
    char *text;
    size_t len;
    struct err e;
    FUZZ_CHECK(tok_decode(t, ids, n, special, &text, &len, &e) == ST_OK, "%s", e.text);
    buf_init(out, len + 1);
    buf_add(out, text, len);
    text_free(text, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const merged[] = {"t h", "th e", "Ġ a", "Ġ the", "i n"};
    static struct tok *t;
    struct fuzz f = {(const char *)data, n};
    struct buf spelt, again;
    struct err e;
    tok_id *ids, *more;
    size_t count, more_n;
    if (!t)
        t = calls_tok(merged, sizeof merged / sizeof *merged);
    uint8_t flags = fuzz_byte(&f) & (TOK_TRUSTED | TOK_BOS | TOK_INNER);
    char *text = fuzz_copy(f.at, f.n);
    FUZZ_CHECK(tok_encode(t, text, f.n, flags, &ids, &count, &e) == ST_OK, "%s", e.text);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(ids[i] >= 0 && (size_t)ids[i] < tok_vocab(t), "the id %d", ids[i]);
        FUZZ_CHECK(flags & TOK_TRUSTED || tok_kind_of(t, ids[i]) != TOK_CONTROL, "control token %d of a client", ids[i]);
    }
    spell(t, ids, count, true, &spelt);
    check_stream(t, ids, count, true, &spelt);
    FUZZ_CHECK(tok_encode(t, spelt.data, spelt.len, flags, &more, &more_n, &e) == ST_OK, "%s", e.text);
    spell(t, more, more_n, true, &again);
    fuzz_same(&spelt, &again, "what is spelt, encoded again");
    buf_release(&again);
    spell(t, ids, count, false, &again);
    check_stream(t, ids, count, false, &again);
    buf_release(&again);
    buf_release(&spelt);
    tok_ids_free(ids, count);
    tok_ids_free(more, more_n);
    free(text);
    return 0;
}
