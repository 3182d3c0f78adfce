/*
 * template: any chat template over any variables (the shim's Rust is not followed).
 *
 * A rendering ends, within its limits; with a tokenizer it is the same text as without one; and what a client says is no
 * control token. An input is the source, a NUL, and the variables as JSON.
 */
#include "calls.h"
#include "fuzz/kit/fuzz.h"
#include "text/text.h"

#define ENCODED_MOST (64u << 10) /* bytes of a rendering that is encoded: millions of ids would take all the time */

static struct tok *tok;

/* A source that cannot spell a control token itself: without their first character, escapes, and names of tokens. */
static bool spells_none(struct fuzz source)
{
    return !source.n || (!memchr(source.at, '<', source.n) && !memchr(source.at, '\\', source.n) &&
                         !memchr(source.at, '_', source.n) && !memchr(source.at, '[', source.n));
}

static void check_ids(const struct text_rendering *r, bool none)
{
    struct err e;
    tok_id *ids;
    size_t n, len;
    char *text;
    if (tok_encode_rendering(tok, r, &ids, &n, &e) != ST_OK)
        return;
    for (size_t i = 0; i < n && none; i++)
        FUZZ_CHECK(tok_kind_of(tok, ids[i]) != TOK_CONTROL, "control token %d of a client", ids[i]);
    FUZZ_CHECK(tok_decode(tok, ids, n, true, &text, &len, &e) == ST_OK, "%s", e.text);
    text_free(text, len);
    tok_ids_free(ids, n);
}

static void check_renderings(const struct chat_template *c, struct fuzz source, struct fuzz vars)
{
    struct text_rendering plain, guarded;
    struct err e;
    bool none = spells_none(source);
    enum status st = chat_template_render(c, NULL, vars.at, vars.n, 0, &plain, &e);
    FUZZ_CHECK(st == ST_OK || (e.text[0] && !plain.text), "no reason");
    enum status with = chat_template_render(c, tok, vars.at, vars.n, 0, &guarded, &e);
    FUZZ_CHECK(with == ST_OK || (e.text[0] && !guarded.text), "no reason");
    if (st == ST_OK && with == ST_OK && none)
        FUZZ_CHECK(plain.n == guarded.n && memcmp(plain.text, guarded.text, plain.n) == 0, "'%s' and '%s'", plain.text,
                   guarded.text);
    FUZZ_CHECK(st != ST_OK || plain.n <= TEXT_LIMIT_RENDERING, "%zu bytes", plain.n);
    if (with == ST_OK && guarded.n <= ENCODED_MOST)
        check_ids(&guarded, none);
    text_rendering_release(&plain);
    text_rendering_release(&guarded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz vars = {(const char *)data, n}, source = fuzz_until(&vars, '\0');
    struct chat_template *c;
    struct err e;
    if (!tok)
        tok = calls_tok(NULL, 0);
    if (chat_template_new(&c, source.at, source.n, &e) != ST_OK) {
        FUZZ_CHECK(!c && e.text[0], "no reason");
        return 0;
    }
    check_renderings(c, source, vars);
    chat_template_free(c);
    return 0;
}
