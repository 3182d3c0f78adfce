/*
 * replay: the ids that a model really generated, in place of those that encoding its text again would give.
 *
 * A text can be split into tokens in more than one way, and a model does not always choose the split that the tokenizer
 * would. When the text comes back as a message of a later turn, its fresh encoding then differs from what was fed, and
 * keys and values from there on could not be reused. Walking both sequences over their bytes finds where they say the
 * same, and no byte of the prompt ever changes.
 */
#include "chat/chat.h"

#include <string.h>

/* One of the two sequences, and the part of its current token that has no counterpart yet. */
struct side {
    const tok_id *ids;
    size_t n, at; /* at: the next token to take */
    const char *s;
    size_t left;
};

/* Whether an id is text that may be split differently: all others mean more than their spelling. */
static bool is_text(const struct tok *t, tok_id id)
{
    enum tok_kind kind = tok_kind_of(t, id);
    return kind == TOK_NORMAL || kind == TOK_BYTE;
}

/* Takes the next token; false at the end or where it is no text. */
static bool take(const struct tok *t, struct side *x)
{
    if (x->at == x->n || !is_text(t, x->ids[x->at]))
        return false;
    x->s = tok_bytes(t, x->ids[x->at++], &x->left);
    return x->left > 0;
}

/* From a place where the ids differ to the next where both sides are between tokens again; false when bytes differ or
 * an id on the way may not be exchanged. */
static bool cross(const struct tok *t, struct side *r, const bool *generated, struct side *f)
{
    r->left = f->left = 0;
    do {
        if (!r->left && (r->at == r->n || !generated[r->at] || !take(t, r)))
            return false;
        if (!f->left && !take(t, f))
            return false;
        size_t n = r->left < f->left ? r->left : f->left;
        if (memcmp(r->s, f->s, n) != 0)
            return false;
        r->s += n;
        r->left -= n;
        f->s += n;
        f->left -= n;
    } while (r->left || f->left);
    return true;
}

void chat_replay_match(const struct tok *t, const struct chat_record *record, const tok_id *fresh, size_t n,
                       struct chat_replay *out)
{
    struct side r = {.ids = record->ids, .n = record->n}, f = {.ids = fresh, .n = n};
    *out = (struct chat_replay){0};
    for (;;) {
        if (r.at < r.n && f.at < f.n && r.ids[r.at] == f.ids[f.at])
            r.at++, f.at++;
        else if (!cross(t, &r, record->generated, &f))
            break;
        for (; out->recorded < r.at; out->recorded++)
            out->reused += record->generated[out->recorded];
        out->fresh = f.at;
    }
}

size_t chat_replay_apply(const struct chat_record *record, const struct chat_replay *at, const tok_id *fresh, size_t n,
                         tok_id *ids, bool *generated)
{
    size_t rest = n - at->fresh;
    if (at->recorded) {
        memcpy(ids, record->ids, at->recorded * sizeof *ids);
        memcpy(generated, record->generated, at->recorded * sizeof *generated);
    }
    if (rest) {
        memcpy(ids + at->recorded, fresh + at->fresh, rest * sizeof *ids);
        memset(generated + at->recorded, 0, rest * sizeof *generated);
    }
    return at->recorded + rest;
}
