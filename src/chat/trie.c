/*
 * trie: from several ways in which a reply may go on to rows.
 *
 * The runs are sorted, so that those with a common beginning lie together. Where all of them go on alike, that is a row:
 * its trigger is what they had in common so far. Where they part, the model has to choose; each part is looked at by
 * itself.
 *
 * How much of a row is determined. A row says how a call goes on that keeps to the schema, with its keys in the schema's
 * order. A model without a grammar may also end early, take another key, or invent one where the schema is open. These
 * other ways are the ghosts: a row is sure up to where a ghost parts from it. The last token before a value of the model's
 * own is never sure, for the value's first character may be part of it ( "/ in place of  "), unless it is a special one.
 */
#include <stdlib.h>
#include <string.h>

#include "chat/rows.h"

#define APPEND_MOST 48u  /* ids of one row */
#define TRIGGER_MOST 64u /* longer beginnings have no rows */

static uint32_t length(const struct chat_run *r)
{
    return r->to - r->from;
}

static tok_id id_at(const struct chat_run *r, uint32_t i)
{
    return r->p->ids[r->from + i];
}

static int compare(const void *va, const void *vb)
{
    const struct chat_run *a = va, *b = vb;
    for (uint32_t i = 0; i < length(a) && i < length(b); i++)
        if (id_at(a, i) != id_at(b, i))
            return id_at(a, i) < id_at(b, i) ? -1 : 1;
    if (length(a) != length(b))
        return length(a) < length(b) ? -1 : 1;
    return a->pair < b->pair ? -1 : a->pair > b->pair;
}

/* Both runs of each pair are there. */
static bool is_whole(struct chat_trie *t, uint32_t lo, uint32_t hi)
{
    bool whole = true;
    if (t->single)
        return true;
    for (uint32_t i = lo; i < hi; i++)
        t->seen[t->runs[i].pair]++;
    for (uint32_t i = lo; i < hi; i++)
        whole = whole && t->seen[t->runs[i].pair] == 2;
    for (uint32_t i = lo; i < hi; i++)
        t->seen[t->runs[i].pair] = 0;
    return whole;
}

/* ---- what is determined ---- */

/* Keys of the schema that begin with the bytes that the run has of its key before id `at`. */
static uint32_t keys_like(const struct chat_trie *t, const struct chat_run *r, uint32_t at)
{
    const struct chat_probe *p = r->p;
    uint32_t w = 0, n = 0, behind = at ? p->ends[r->from + at - 1] : 0;
    while (w < p->keys_n && p->keys[w].keyed <= r->from + at)
        w++;
    if (w == p->keys_n)
        return 0;
    uint32_t from = p->keys[w].name_at, have = behind > from ? behind - from : 0;
    for (uint32_t i = 0; i < t->schema->keys_n; i++) {
        struct cut name = t->schema->keys[i].name;
        if (memchr(name.s, '\\', name.n))
            return 2;
        n += name.n - 2 >= have && !memcmp(name.s + 1, p->text + from, have);
    }
    return n;
}

/* Whether a ghost shares the first `at` ids, all of which are there already, and then goes another way. */
static bool parts(const struct chat_run *ghost, const struct chat_run *r, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (i >= length(ghost) || id_at(ghost, i) != id_at(r, i))
            return false;
    return at >= length(ghost) || id_at(ghost, at) != id_at(r, at);
}

static uint32_t count_sure(const struct chat_trie *t, const struct chat_run *r, uint32_t from, uint32_t to)
{
    if (t->sure)
        return to - from;
    if (t->unknown)
        return 0;
    for (uint32_t at = from; at < to; at++) {
        if (r->p->in_key[r->from + at]) {
            if (t->schema && (!t->schema->closed || keys_like(t, r, at) != 1))
                return at - from;
            continue;
        }
        for (uint32_t g = 0; g < t->ghosts_n; g++)
            if (parts(&t->ghosts[g], r, at))
                return at - from;
    }
    return to - from;
}

/* ---- rows ---- */

static enum template_row_kind kind_of(const struct chat_trie *t, enum recogniser_point point, bool ends)
{
    if (t->value)
        return TEMPLATE_VALUE;
    switch (point) {
    case RECOGNISER_OPENING: return TEMPLATE_SCAFFOLD;
    case RECOGNISER_NAME: return TEMPLATE_NAME;
    case RECOGNISER_VALUE_DONE: return ends ? TEMPLATE_CLOSE : TEMPLATE_AFTER;
    default: return ends ? TEMPLATE_CLOSE : TEMPLATE_KEY;
    }
}

static uint64_t bit(int key)
{
    return key >= 0 && key < 64 ? 1ull << key : 0;
}

/* Whether the row holds elsewhere in the reply that it was found in, and is wrong there: `"` behind a name, and again
 * behind the word "arguments". */
static bool is_ambiguous(const struct chat_probe *p, const struct template_row *row, uint32_t at)
{
    for (uint32_t i = p->begin + row->trigger_n; i < p->end; i++) {
        const struct recogniser_state *s = &p->after[i - 1];
        if (i != at && s->place == RECOGNISER_AT_CALL && row->points >> s->point & 1 && row->tool == s->tool &&
            row->key == s->key && (row->keys & ~s->keys) == 0 && !(row->absent & s->keys) &&
            p->ids[i] != row->append[0] &&
            !memcmp(p->ids + i - row->trigger_n, row->trigger, row->trigger_n * sizeof *row->trigger))
            return true;
    }
    return false;
}

/* Puts ids in front of the trigger, those that all runs have there, until it is found where it belongs alone. */
static bool make_unique(const struct chat_trie *t, uint32_t lo, uint32_t hi, uint32_t from, struct template_row *row)
{
    const struct chat_run *r = &t->runs[lo];
    while (is_ambiguous(r->p, row, r->from + from)) {
        uint32_t back = row->trigger_n - from + 1;
        if (row->trigger_n == TRIGGER_MOST)
            return false;
        for (uint32_t i = lo; i < hi; i++) {
            const struct chat_run *x = &t->runs[i];
            if (x->from < back + x->p->begin || x->p->ids[x->from - back] != r->p->ids[r->from - back])
                return false;
        }
        row->trigger--;
        row->trigger_n++;
    }
    return true;
}

/* What comes behind the ids that all have in common. */
enum then { THEN_CHOICE, THEN_VALUE };

/* The ids [from, to) of runs [lo, hi), which all have them, become a row; `made` unless that would be ambiguous. */
static enum status add_at(struct chat_trie *t, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to, enum then then,
                          bool *made, struct err *e)
{
    const struct chat_run *r = &t->runs[lo];
    const struct recogniser_state *s = &r->p->after[r->from + from - 1];
    *made = s->place != RECOGNISER_AT_CALL || from > TRIGGER_MOST;
    if (*made)
        return ST_OK;
    struct template_row row = {.points = 1u << s->point, .tool = s->tool, .key = s->key,
                               .trigger = r->p->ids + r->from, .trigger_n = from,
                               .append = r->p->ids + r->from + from, .append_n = to - from};
    bool ends = true;
    for (uint32_t i = lo; i < hi; i++) {
        ends = ends && t->runs[i].label == CHAT_RUN_END;
        if (t->schema && !t->value && t->runs[i].label < CHAT_RUN_END)
            row.absent |= bit(t->runs[i].label);
    }
    if (t->schema && s->key >= 0) {
        row.key = s->key == r->prev ? t->prev : s->key;
        row.absent &= ~bit(row.key);
    }
    row.keys = t->schema ? bit(t->prev) : 0;
    row.kind = kind_of(t, s->point, t->schema && ends);
    *made = make_unique(t, lo, hi, from, &row);
    if (!*made)
        return ST_OK;
    row.sure_n = s->opening ? 0 : count_sure(t, r, from, to);
    if (row.sure_n == row.append_n && then == THEN_VALUE &&
        tok_kind_of(t->tok, row.append[row.append_n - 1]) == TOK_NORMAL)
        row.sure_n--;
    return template_rows_add(t->rows, &row, e);
}

/* The same from the first id on where it is not ambiguous. */
static enum status add(struct chat_trie *t, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to, enum then then,
                       struct err *e)
{
    for (bool made = false; from < to && !made; from++)
        TRY(add_at(t, lo, hi, from, to, then, &made, e));
    return ST_OK;
}

/* A mark that is only partly there may yet become another word: what follows is determined from its end on. */
static enum status add_run(struct chat_trie *t, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to, enum then then,
                           struct err *e)
{
    const struct chat_run *r = &t->runs[lo];
    uint32_t whole = from;
    while (whole < to && r->p->after[r->from + whole - 1].opening)
        whole++;
    for (uint32_t at = from, n; at < to; at += n) {
        n = to - at < APPEND_MOST ? to - at : APPEND_MOST;
        enum then behind = at + n == to ? then : THEN_CHOICE;
        TRY(add(t, lo, hi, at, at + n, behind, e));
        if (at < whole && at + n > whole)
            TRY(add(t, lo, hi, whole, at + n, behind, e));
    }
    return ST_OK;
}

/* The end of those runs from `lo` on that have the same id at `at`; lo + 1 if the first ends there. */
static uint32_t group(const struct chat_trie *t, uint32_t lo, uint32_t hi, uint32_t at)
{
    uint32_t end = lo + 1;
    while (end < hi && length(&t->runs[lo]) > at && id_at(&t->runs[end], at) == id_at(&t->runs[lo], at))
        end++;
    return end;
}

/* Runs [lo, hi) have their first `at` ids in common. */
static enum status walk(struct chat_trie *t, uint32_t lo, uint32_t hi, uint32_t at, struct err *e)
{
    const struct chat_run *a = &t->runs[lo], *b = &t->runs[hi - 1];
    uint32_t to = at, from = at > t->first ? at : t->first;
    enum then then = THEN_CHOICE;
    if (!is_whole(t, lo, hi))
        return ST_OK;
    while (to < length(a) && to < length(b) && id_at(a, to) == id_at(b, to))
        to++;
    for (uint32_t i = lo, j; i < hi; i = j) {
        j = group(t, i, hi, to);
        if (!is_whole(t, i, j) && length(&t->runs[i]) > to)
            then = THEN_VALUE;
    }
    if (to > from)
        TRY(add_run(t, lo, hi, from, to, then, e));
    for (uint32_t i = lo, j; i < hi; i = j) {
        j = group(t, i, hi, to);
        if (length(&t->runs[i]) > to)
            TRY(walk(t, i, j, to + 1, e));
    }
    return ST_OK;
}

bool chat_trie_rows(struct chat_trie *t, struct err *e)
{
    if (!t->n)
        return true;
    qsort(t->runs, t->n, sizeof *t->runs, compare);
    return walk(t, 0, t->n, 0, e) == ST_OK;
}
