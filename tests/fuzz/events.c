/* events: any bytes as another server's stream, to `ffwd bench load`. However they are cut, the same is read from them. */
#include "cli/stream.h"
#include "fuzz/kit/fuzz.h"

/* In pieces of so many bytes; `tokens` in all. */
static enum status read_stream(const char *s, size_t n, size_t piece, struct stream *out, uint64_t *tokens)
{
    enum status st = ST_OK;
    struct err e;
    *tokens = 0;
    for (size_t at = 0; at < n && st == ST_OK; at += piece) {
        size_t part = piece < n - at ? piece : n - at;
        char *copy = fuzz_copy(s + at, part);
        uint32_t with_text;
        st = stream_feed(out, copy, part, &with_text, &e);
        *tokens += with_text;
        free(copy);
    }
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct stream whole, cut;
    uint64_t tokens, cut_tokens;
    char text[200];
    stream_init(&whole);
    stream_init(&cut);
    enum status a = read_stream((const char *)data, n, n ? n : 1, &whole, &tokens);
    enum status b = read_stream((const char *)data, n, n ? 1 + data[0] % 7 : 1, &cut, &cut_tokens);
    FUZZ_CHECK(a == b && tokens == cut_tokens, "%s and %s", status_name(a), status_name(b));
    FUZZ_CHECK(whole.done == cut.done && whole.finished == cut.finished && whole.chunks == cut.chunks &&
               whole.tokens_out == cut.tokens_out && whole.tokens_in == cut.tokens_in &&
               whole.tokens_cached == cut.tokens_cached && whole.has_usage == cut.has_usage, "another reply");
    stream_clear(&cut);
    FUZZ_CHECK(!cut.line.len && !cut.data.len && !cut.done, "it is not empty");
    stream_error_text((const char *)data, n, text, sizeof text);
    FUZZ_CHECK(strlen(text) < sizeof text, "the text has no end");
    stream_release(&whole);
    stream_release(&cut);
    return 0;
}
