/*
 * likely: what a grammar of JSON would leave no choice about if white space went on as it did so far.
 *
 * A grammar lets white space stand between any two parts of a JSON text, so hardly anything is certain in it, though the
 * order of keys is, and a model writes all of a text in one style. This source follows a row's reply with a second matcher
 * of the same JSON that knows no white space, over bytes, and learns the style (likely_json). Where that matcher leaves
 * one byte only, this byte comes next, behind the white space of the style: keys, the structure around them, constants.
 * The text found so is split as the tokenizer would split it behind the ids that are there already, and cut where what
 * comes next is open and could still change the split.
 *
 * How likely that is, is counted by the weakest byte of an id: in the row, behind that in all rows, behind that a prior.
 * What was guessed is counted when it is known what came, proposed or not, so a bad guess that is not offered any more
 * can become a good one again.
 *
 * tok_encode() allocates, and takes some 10 microseconds for 40 bytes; nothing else here allocates behind open().
 */
#include <stdlib.h>
#include <string.h>

#include "source/likely_json.h"
#include "source/source.h"

enum {
    BYTES = 256,           /* of one guess, at most */
    BYTES_ID = 12,         /* of one id, mostly fewer */
    TAIL = 8,              /* ids before it that it is split with */
    TAIL_BYTES = 128,      /* of them */
    LEAST = 2,             /* ids of a proposal */
    MASK = 256 / 32
};

/* What has to come true for a byte, or an id. The later, the less likely. */
enum { FIXED, SEEN, GUESSED, OPEN, CLASSES };

static const float prior[CLASSES] = {0.95f, 0.9f, 0.6f, 0.6f};

#define PULL 4.0f         /* guesses that the next wider counts weigh as */
#define KEEP_OWN 0.96875f /* of a row's counts, at each guess */
#define KEEP_ALL 0.998f   /* of the engine's */

struct counts {
    float seen[CLASSES], right[CLASSES];
};

struct likely {
    struct source base;
    const struct tok *tok;
    struct counts all;
    struct json_style style; /* of the texts so far */
};

/* How far a reply is followed. */
struct walk {
    struct source_json json;
    bool free;        /* the grammar has not begun */
    uint32_t matched; /* bytes of the text after which it begins */
    uint32_t put;     /* bytes that the matcher took */
};

struct guess {
    uint32_t at, n;
    tok_id id[SOURCE_SPAN];
    uint8_t class[SOURCE_SPAN];
};

struct likely_row {
    struct matcher *matcher; /* of bytes; stands behind what `walk` followed */
    struct walk walk;
    uint32_t followed;       /* ids */
    bool begun, behind_text;
    struct counts own;
    struct guess guess;      /* the first since ids were last observed */
    tok_id control;          /* the grammar begins behind it; or TOK_NONE, and behind */
    uint32_t after_n;
    char after[TEXT_LIMIT_AFTER];      /* [after_n] this text, */
    uint16_t border[TEXT_LIMIT_AFTER]; /* of whose first i + 1 bytes so many last ones are the first ones too */
};

/* --- following a reply ----------------------------------------------------------------------------------------------- */

static void put_byte(struct likely_row *st, struct walk *w, char b)
{
    const tok_id id = (unsigned char)b;
    if (w->json.lost || !source_json_put(&w->json, b) || w->json.lost)
        return;
    if (matcher_consume(st->matcher, &id, 1) == 1)
        w->put++;
    else
        w->json.lost = true;
}

/* One byte of the free part (Knuth, Morris and Pratt). */
static void put_free(const struct likely_row *st, struct walk *w, char b)
{
    while (w->matched && st->after[w->matched] != b)
        w->matched = st->border[w->matched - 1];
    w->matched += st->after[w->matched] == b;
    w->free = w->matched < st->after_n;
}

static void follow(const struct likely *s, struct likely_row *st, struct walk *w, const tok_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n && !w->json.lost; i++) {
        size_t bytes;
        const char *text = tok_bytes(s->tok, ids[i], &bytes);
        if (w->free && st->control != TOK_NONE) {
            w->free = ids[i] != st->control;
            continue;
        }
        for (size_t b = 0; b < bytes; b++)
            if (w->free)
                put_free(st, w, text[b]);
            else
                put_byte(st, w, text[b]);
    }
}

static void catch_up(const struct likely *s, struct likely_row *st, const struct source_row *row)
{
    if (!st->begun)
        source_json_begin(&st->walk.json, &s->style, st->behind_text);
    st->begun = true;
    follow(s, st, &st->walk, row->ids + st->followed, row->known - st->followed);
    st->followed = row->known;
}

/* --- the text that comes next ---------------------------------------------------------------------------------------- */

struct text {
    char data[BYTES];
    uint8_t class[BYTES];
    uint32_t n;
    bool whole;     /* the reply ends there */
    char next[2];   /* else, what may come next, by example */
    uint32_t nexts; /* 0: nothing is known about it */
};

static bool add(struct text *t, const char *bytes, uint32_t n, uint8_t class)
{
    if (n > BYTES - t->n)
        return false;
    memcpy(t->data + t->n, bytes, n);
    memset(t->class + t->n, class, n);
    t->n += n;
    return true;
}

static bool in_mask(const uint32_t *mask, char b)
{
    return mask[(unsigned char)b / 32] >> ((unsigned char)b % 32) & 1;
}

/* The bytes that may come, without those that the white space before them rules out. */
struct choice {
    uint32_t mask[MASK];
    uint32_t n;
    char lowest, highest;
    bool end; /* the reply may end */
};

static bool choose(struct likely_row *st, const struct walk *w, struct choice *c)
{
    struct matcher_next next;
    c->n = 0;
    if (matcher_mask(st->matcher, c->mask, &next, NULL) != ST_OK) {
        st->walk.json.lost = true;
        return false;
    }
    c->end = next.end;
    for (unsigned b = 0; b < 256; b++) {
        if (!in_mask(c->mask, (char)b))
            continue;
        if (!source_json_fits(&w->json, (char)b)) {
            c->mask[b / 32] &= ~(1u << b % 32);
            continue;
        }
        c->lowest = c->n++ ? c->lowest : (char)b;
        c->highest = (char)b;
    }
    return true;
}

/* The white space before a choice, where it is the same for all of it. */
static bool add_common_gap(const struct walk *w, const struct choice *c, struct text *t)
{
    const char likes[] = {c->lowest, c->highest, '"', '1', '{', '[', '}', ']', ','};
    char gap[JSON_GAP], other[JSON_GAP];
    bool seen, other_seen;
    if (!source_json_parts(&w->json, c->lowest))
        return true;
    const uint32_t n = source_json_gap(&w->json, c->lowest, gap, &seen);
    for (unsigned i = 1; i < sizeof likes && n != UINT32_MAX; i++) {
        if (!in_mask(c->mask, likes[i]))
            continue;
        if (!source_json_parts(&w->json, likes[i]) || source_json_gap(&w->json, likes[i], other, &other_seen) != n ||
            memcmp(gap, other, n) != 0)
            return true;
        seen &= other_seen;
    }
    return n != UINT32_MAX && add(t, gap, n, seen ? SEEN : GUESSED);
}

static void add_open(const struct walk *w, const struct choice *c, struct text *t)
{
    static const char typical[] = {'a', '"', '1'};
    if (!add_common_gap(w, c, t))
        return;
    for (unsigned i = 0; c->n > 8 && i < sizeof typical && !t->nexts; i++)
        if (in_mask(c->mask, typical[i]))
            t->next[t->nexts++] = typical[i];
    if (!t->nexts) {
        t->next[t->nexts++] = c->lowest;
        t->next[t->nexts++] = c->highest;
    }
}

/* The only byte that may come, and the white space before it. */
static bool add_only(struct likely_row *st, struct walk *w, char b, struct text *t)
{
    uint8_t class = FIXED;
    if (source_json_parts(&w->json, b)) {
        char gap[JSON_GAP];
        bool seen;
        const uint32_t n = source_json_gap(&w->json, b, gap, &seen);
        class = seen ? SEEN : GUESSED;
        if (n == UINT32_MAX || !add(t, gap, n, class))
            return false;
        for (uint32_t i = 0; i < n; i++)
            put_byte(st, w, gap[i]);
    }
    if (!add(t, &b, 1, class))
        return false;
    put_byte(st, w, b);
    return !w->json.lost;
}

static void look_ahead(struct likely_row *st, struct walk *w, uint32_t most, struct text *t)
{
    struct choice c;
    while (t->n < most && choose(st, w, &c)) {
        if (c.n == 1 && !c.end) {
            if (!add_only(st, w, c.lowest, t))
                return;
            continue;
        }
        t->whole = !c.n && c.end;
        if (c.n && !c.end)
            add_open(w, &c, t);
        return;
    }
}

/* --- from text to ids ------------------------------------------------------------------------------------------------ */

static bool is_of_word(char b)
{
    return (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b & 0x80);
}

/* Bytes of the text whose split is settled: not a word that may go on. */
static uint32_t settled(const struct text *t)
{
    uint32_t n = t->n;
    if (t->nexts && (is_of_word(t->next[0]) || is_of_word(t->next[t->nexts - 1])))
        while (n && is_of_word(t->data[n - 1]))
            n--;
    return n;
}

/* Splits before[tail_bytes] + t + next. What comes behind the ids of `before`: at most SOURCE_SPAN of those that lie
 * within the first `upto` bytes of t. UINT32_MAX: the tokenizer would split `before` in another way. */
static uint32_t split(const struct likely *s, const tok_id *tail, uint32_t tail_n, const char *before, uint32_t before_n,
                      const struct text *t, const char *next, uint32_t upto, tok_id *out)
{
    char all[TAIL_BYTES + BYTES + 1];
    tok_id *ids;
    size_t count;
    uint32_t n = 0, at = 0;
    memcpy(all, before, before_n);
    memcpy(all + before_n, t->data, t->n);
    if (next)
        all[before_n + t->n] = *next;
    if (tok_encode(s->tok, all, before_n + t->n + (next != NULL), TOK_PLAIN | TOK_INNER, &ids, &count, NULL) != ST_OK)
        return UINT32_MAX;
    if (count < tail_n || (tail_n && memcmp(ids, tail, tail_n * sizeof *ids) != 0))
        n = UINT32_MAX;
    for (size_t i = tail_n; n < SOURCE_SPAN && i < count; i++) {
        size_t bytes;
        const char *piece = tok_bytes(s->tok, ids[i], &bytes);
        if (!bytes || at + bytes > upto || memcmp(piece, t->data + at, bytes) != 0 || tok_is_special(s->tok, ids[i]) ||
            tok_is_eos(s->tok, ids[i]))
            break;
        at += (uint32_t)bytes;
        out[n++] = ids[i];
    }
    tok_ids_free(ids, count);
    return n;
}

/* The same behind the last `most` ids of the reply, for all that may come next. */
static uint32_t split_behind(const struct likely *s, const struct source_row *row, uint32_t most, const struct text *t,
                             tok_id *out)
{
    char before[TAIL_BYTES];
    uint32_t from = row->n, bytes = 0;
    while (from > row->prompt_n && row->n - from < most) {
        size_t n;
        tok_bytes(s->tok, row->ids[from - 1], &n);
        if (tok_is_special(s->tok, row->ids[from - 1]) || bytes + n > TAIL_BYTES)
            break;
        bytes += (uint32_t)n;
        from--;
    }
    for (uint32_t i = from, at = 0; i < row->n; i++) {
        size_t n;
        const char *piece = tok_bytes(s->tok, row->ids[i], &n);
        if (n)
            memcpy(before + at, piece, n);
        at += (uint32_t)n;
    }
    const tok_id *tail = row->ids + from;
    const uint32_t tail_n = row->n - from, upto = settled(t);
    uint32_t n = split(s, tail, tail_n, before, bytes, t, t->nexts ? &t->next[0] : NULL, upto, out);
    if (t->nexts == 2 && t->next[0] != t->next[1] && n && n != UINT32_MAX) {
        tok_id other[SOURCE_SPAN];
        const uint32_t m = split(s, tail, tail_n, before, bytes, t, &t->next[1], upto, other);
        uint32_t same = 0;
        while (m != UINT32_MAX && same < n && same < m && out[same] == other[same])
            same++;
        n = same;
    }
    return n;
}

/* Fills in g->id, g->class and g->n. */
static void guess_ids(const struct likely *s, const struct source_row *row, const struct text *t, struct guess *g)
{
    static const uint32_t tails[] = {TAIL, 3, 0}; /* the shortest fits always */
    uint32_t n = UINT32_MAX;
    *g = (struct guess){.at = row->n};
    for (unsigned i = 0; i < 3 && n == UINT32_MAX; i++)
        n = split_behind(s, row, tails[i], t, g->id);
    for (uint32_t at = 0; n != UINT32_MAX && g->n < n; g->n++) {
        size_t bytes;
        tok_bytes(s->tok, g->id[g->n], &bytes);
        uint8_t *class = &g->class[g->n];
        *class = FIXED;
        for (size_t b = 0; b < bytes; b++)
            *class = *class > t->class[at + b] ? *class : t->class[at + b];
        at += (uint32_t)bytes;
        if (at == t->n && !t->whole) {
            *class = OPEN;
            g->n -= !t->nexts; /* who knows what it would grow to */
            n -= !t->nexts;
        }
    }
}

/* --- what it is worth ------------------------------------------------------------------------------------------------ */

static float chance_of(const struct likely *s, const struct likely_row *st, unsigned class)
{
    const float wide = (s->all.right[class] + PULL * prior[class]) / (s->all.seen[class] + PULL);
    return (st->own.right[class] + PULL * wide) / (st->own.seen[class] + PULL);
}

static void count(struct counts *k, unsigned class, float keep, bool right)
{
    k->seen[class] = k->seen[class] * keep + 1;
    k->right[class] = k->right[class] * keep + (right ? 1 : 0);
}

/* Ids that could pay if all were as likely as can be; at least what is needed to learn. */
static uint32_t reach(const struct likely *s, const struct likely_row *st, const struct source_ask *ask)
{
    const float most = chance_of(s, st, FIXED);
    float chance = ask->chance * most;
    uint32_t n = 0;
    for (; n < ask->most && n < SOURCE_SPAN && chance >= ask->price; n++)
        chance *= most;
    return n < LEAST ? LEAST : n;
}

static void fill_in(const struct likely *s, const struct likely_row *st, const struct guess *g,
                    const struct source_ask *ask)
{
    struct source_proposal *p = ask->out;
    float chance = ask->chance;
    uint32_t n = 0;
    for (; n < g->n && n < ask->most; n++) {
        p->id[n] = g->id[n];
        p->chance[n] = chance_of(s, st, g->class[n]);
        chance *= p->chance[n];
        if (chance < ask->price)
            break;
    }
    p->trust = SOURCE_VERIFY;
    p->n = n < LEAST ? 0 : n;
}

/* --- the source ------------------------------------------------------------------------------------------------------ */

static void propose_one(const struct likely *s, struct likely_row *st, const struct source_ask *ask)
{
    const struct source_row *row = ask->row;
    struct text t = {.n = 0};
    struct guess g;
    catch_up(s, st, row);
    struct walk w = st->walk;
    w.put = 0;
    follow(s, st, &w, row->ids + row->known, row->n - row->known);
    if (!w.free && !w.json.lost) {
        const uint32_t most = reach(s, st, ask) * BYTES_ID;
        look_ahead(st, &w, most < BYTES ? most : BYTES, &t);
    }
    matcher_rollback(st->matcher, w.put);
    if (!t.n)
        return;
    guess_ids(s, row, &t, &g);
    if (!st->guess.n)
        st->guess = g;
    fill_in(s, st, &g, ask);
}

static void propose(struct source *base, const struct source_ask *asks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct likely_row *st = asks[i].row->state[SOURCE_LIKELY];
        if (st && !st->walk.json.lost && asks[i].most >= LEAST)
            propose_one((const struct likely *)base, st, &asks[i]);
    }
}

static void observe(struct source *base, const struct source_row *row, uint32_t from)
{
    struct likely *s = (struct likely *)base;
    struct likely_row *st = row->state[SOURCE_LIKELY];
    (void)from;
    if (!st)
        return;
    const struct guess *g = &st->guess;
    bool right = true;
    for (uint32_t i = 0; right && i < g->n && g->at + i < row->known; i++) {
        right = g->id[i] == row->ids[g->at + i];
        count(&st->own, g->class[i], KEEP_OWN, right);
        count(&s->all, g->class[i], KEEP_ALL, right);
    }
    st->guess.n = 0;
    catch_up(s, st, row);
}

static void close_row(struct source *base, struct source_row *row)
{
    struct likely *s = (struct likely *)base;
    struct likely_row *st = row->state[SOURCE_LIKELY];
    if (!st)
        return;
    if (st->begun && !st->walk.free)
        source_json_pass_on(&st->walk.json, &s->style, st->behind_text);
    matcher_free(st->matcher);
    free(st);
    row->state[SOURCE_LIKELY] = NULL;
}

static void begin_after(const struct likely *s, struct likely_row *st, const char *after, size_t n)
{
    const tok_id id = tok_find_special(s->tok, after, n);
    st->walk.free = st->behind_text = true;
    if (id != TOK_NONE && tok_is_special(s->tok, id)) {
        st->control = id;
        return;
    }
    memcpy(st->after, after, n);
    st->after_n = (uint32_t)n;
    for (uint32_t i = 1, k = 0; i < n; i++) {
        while (k && after[i] != after[k])
            k = st->border[k - 1];
        k += after[i] == after[k];
        st->border[i] = (uint16_t)k;
    }
}

static enum status open_row(struct source *base, struct source_row *row, uint32_t longest, struct err *e)
{
    struct likely *s = (struct likely *)base;
    struct matcher *m = NULL;
    size_t after_n;
    (void)longest;
    row->state[SOURCE_LIKELY] = NULL;
    /* A grammar that is no JSON, or whose JSON cannot be compiled once more: the reply comes without. */
    if (!row->grammar || matcher_new_compact(&m, row->grammar, NULL) != ST_OK || !m)
        return ST_OK;
    if (matcher_words(m) != MASK)
        BUG("a matcher over bytes has %zu words", matcher_words(m));
    struct likely_row *st = calloc(1, sizeof *st);
    if (!st) {
        matcher_free(m);
        return err_set(e, ST_NO_MEMORY, "grammar", "no memory for what is likely in a row");
    }
    st->matcher = m;
    st->followed = row->prompt_n;
    st->control = TOK_NONE;
    const char *after = grammar_after(row->grammar, &after_n);
    if (after)
        begin_after(s, st, after, after_n);
    row->state[SOURCE_LIKELY] = st;
    return ST_OK;
}

static void free_likely(struct source *base)
{
    free(base);
}

static const struct source_ops likely_source = {
    .kind = SOURCE_LIKELY,
    .open = open_row,
    .close = close_row,
    .propose = propose,
    .observe = observe,
    .free = free_likely,
};

enum status source_likely_new(struct source **out, const struct tok *t, struct err *e)
{
    struct likely *s = calloc(1, sizeof *s);
    *out = (struct source *)s;
    if (!s)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a source");
    s->base.ops = &likely_source;
    s->tok = t;
    source_json_style_init(&s->style);
    return ST_OK;
}
