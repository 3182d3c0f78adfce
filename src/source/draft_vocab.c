/*
 * draft: whether two models mean the same by an id. Sizes and bytes are not enough: an id that ends a reply for one and
 * not for the other would make drafts that are always refused, and one that is control for one and text for the other as
 * well.
 */
#include <string.h>

#include "source/source.h"

#define SHOWN 24u /* bytes of a token that a sentence quotes */

/* A token's bytes for a sentence: printable ASCII, the rest as dots. */
static void show(const struct tok *t, tok_id id, char out[SHOWN + 1])
{
    size_t n;
    const char *s = tok_bytes(t, id, &n);
    n = n < SHOWN ? n : SHOWN;
    for (size_t i = 0; i < n; i++)
        out[i] = s[i] >= 0x20 && s[i] < 0x7f ? s[i] : '.';
    out[n] = '\0';
}

static bool same_bytes(const struct tok *a, const struct tok *b, tok_id id)
{
    size_t na, nb;
    const char *sa = tok_bytes(a, id, &na), *sb = tok_bytes(b, id, &nb);
    return na == nb && (!na || !memcmp(sa, sb, na));
}

/* What an id is to a reply. User-defined tokens are text: files disagree about which added words are. */
static const char *role(const struct tok *t, tok_id id)
{
    return tok_is_special(t, id) ? "control" : tok_kind_of(t, id) == TOK_UNUSED ? "unused" : "text";
}

static enum status same_id(const struct tok *target, const struct tok *draft, tok_id id, struct err *e)
{
    char a[SHOWN + 1], b[SHOWN + 1];
    show(target, id, a);
    show(draft, id, b);
    if (!same_bytes(target, draft, id))
        return err_set(e, ST_ARGUMENT, "draft", "id %d is \"%s\" to the target's tokenizer, \"%s\" to the draft model's",
                       (int)id, a, b);
    if (strcmp(role(target, id), role(draft, id)) != 0)
        return err_set(e, ST_ARGUMENT, "draft", "id %d (\"%s\") is %s to the target's tokenizer, %s to the draft model's",
                       (int)id, a, role(target, id), role(draft, id));
    if (tok_is_eos(target, id) != tok_is_eos(draft, id))
        return err_set(e, ST_ARGUMENT, "draft", "id %d (\"%s\") ends a reply of the %s only", (int)id, a,
                       tok_is_eos(target, id) ? "target" : "draft model");
    return ST_OK;
}

enum status source_draft_same_vocabulary(const struct tok *target, const struct tok *draft, struct err *e)
{
    size_t n = tok_vocab(target);
    if (tok_vocab(draft) != n)
        return err_set(e, ST_ARGUMENT, "draft", "the target's tokenizer has %zu ids, the draft model's %zu", n,
                       tok_vocab(draft));
    for (tok_id id = 0; (size_t)id < n; id++)
        TRY(same_id(target, draft, id, e));
    return ST_OK;
}
