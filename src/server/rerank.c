/* rerank: see rerank.h. */
#include "server/rerank.h"

#include <string.h>

#include "server/http/json_out.h"
#include "server/limits.h"

/* Copies the source to `out` with {word} as a variable of a chat template. False: it is not there. */
static bool replace(const char *source, const char *word, const char *variable, struct buf *out)
{
    const char *at = source;
    for (const char *hit; (hit = strstr(at, word)); at = hit + strlen(word)) {
        buf_add(out, at, (size_t)(hit - at));
        buf_adds(out, variable);
    }
    buf_adds(out, at);
    return at != source;
}

static enum status translate(const char *source, struct buf *half, struct buf *out, struct err *e)
{
    static const char key[] = "tokenizer.chat_template.rerank";
    if (strstr(source, "{{") || strstr(source, "{%") || strstr(source, "{#"))
        return err_set(e, ST_UNSUPPORTED, key, "%s is a program; only {query} and {document} are supported", key);
    if (!replace(source, "{query}", "{{ query }}", half) || !replace(half->data, "{document}", "{{ document }}", out))
        return err_set(e, ST_MODEL, key, "%s lacks {query} or {document}", key);
    buf_adds(out, "{{ '' }}"); /* a line break at the very end would be taken away */
    return half->failed || out->failed ? err_set(e, ST_NO_MEMORY, key, "no memory for %s", key) : ST_OK;
}

enum status server_rerank_template(struct chat_template **out, const char *source, size_t n, struct err *e)
{
    struct buf text, half, whole;
    *out = NULL;
    buf_init(&text, LIMIT_RERANK_TEMPLATE);
    buf_init(&half, 2 * LIMIT_RERANK_TEMPLATE);
    buf_init(&whole, 4 * LIMIT_RERANK_TEMPLATE);
    enum status st = ST_OK;
    if (!buf_add(&text, source, n) || strlen(text.data) != n)
        st = err_set(e, ST_MODEL, "tokenizer.chat_template.rerank", "the template for reranking must be a text of up to %u "
                     "bytes", LIMIT_RERANK_TEMPLATE);
    if (st == ST_OK)
        st = translate(text.data, &half, &whole, e);
    if (st == ST_OK)
        st = chat_template_new(out, whole.data, whole.len, e);
    buf_release(&text);
    buf_release(&half);
    buf_release(&whole);
    return st;
}

enum status server_rerank_prompt(const struct chat_template *t, const struct tok *tok, struct text_view query,
                                 struct text_view document, const char *field, tok_id **ids, size_t *n, struct err *e)
{
    struct text_rendering text;
    struct err why;
    struct buf vars;
    buf_init(&vars, (size_t)8 * LIMIT_BODY);
    buf_adds(&vars, "{\"query\":");
    http_json_str(&vars, query.data, query.n);
    buf_adds(&vars, ",\"document\":");
    http_json_str(&vars, document.data, document.n);
    buf_adds(&vars, "}");
    *ids = NULL;
    *n = 0;
    enum status st = vars.failed ? err_set(&why, ST_NO_MEMORY, "", "no memory for a document of %zu bytes", document.n)
                                 : chat_template_render(t, tok, vars.data, vars.len, 0, &text, &why);
    buf_release(&vars);
    if (st == ST_OK) {
        st = tok_encode_rendering(tok, &text, ids, n, &why);
        text_rendering_release(&text);
    }
    return st == ST_OK ? ST_OK : err_set(e, st, field, "%s: %s", field, why.text);
}
