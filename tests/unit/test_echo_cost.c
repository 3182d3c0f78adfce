/*
 * source: what copying costs and gains.
 *
 * Texts are replayed: a sampler that chooses what the text says, sources asked as the engine asks them, and instead of a
 * forward pass a price list of two machines. What is added up is time in steps of one id. Copies must pay; where text only
 * looks as if it were copied, and in plain text, sources may cost 2 % at most.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/source.h"

enum { MAX_IDS = 60000, MOST = 31, END = 1, WORD = 6 };

/* --- machines -------------------------------------------------------------------------------------------------------- */

struct machine {
    const char *name;
    int n;
    struct {
        double tokens, steps;
    } point[6];
};

static const struct machine machines[] = {
    {"avx2", 6, {{1, 1}, {2, 1.7}, {4, 3}, {8, 4.2}, {16, 7.5}, {32, 15}}},
    {"vnni", 6, {{1, 1}, {2, 1}, {4, 1.2}, {8, 1.8}, {16, 3.5}, {32, 7}}},
};
enum { MACHINES = sizeof machines / sizeof machines[0] };

static double cost_of(const struct machine *m, double tokens)
{
    int i = 1;
    while (i + 1 < m->n && m->point[i].tokens < tokens)
        i++;
    const double a = m->point[i - 1].tokens, b = m->point[i].tokens;
    return m->point[i - 1].steps + (tokens - a) / (b - a) * (m->point[i].steps - m->point[i - 1].steps);
}

/* Of one more id where that is cheapest, if there are four or more. (One is free with VNNI: that would say that nothing can
 * be lost.) */
static double price_of(const struct machine *m)
{
    double least = 1;
    for (int extra = 4; extra <= MOST; extra++) {
        const double p = (cost_of(m, 1 + extra) - 1) / extra;
        least = p < least ? p : least;
    }
    return least;
}

/* --- texts ----------------------------------------------------------------------------------------------------------- */

struct text {
    tok_id *ids;
    uint32_t prompt_n, n;
    bool spiteful; /* another id wherever one was offered: no sampler can, and no text could be worse */
};

static struct text new_text(void)
{
    struct text t = {.ids = malloc(MAX_IDS * sizeof *t.ids)};
    assert_non_null(t.ids);
    return t;
}

static void put(struct text *t, tok_id id)
{
    if (t->n < MAX_IDS)
        t->ids[t->n++] = id;
}

static uint32_t draw(uint32_t stream, uint32_t i, uint32_t below)
{
    return (uint32_t)(rng_uniform(stream, 0, i, RNG_FINAL) * (float)below);
}

/* Words in pieces, each with the blank before it, and single signs: about as many ids as a vocabulary of today gives. */
static void put_words(struct text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t first = i;
        uint32_t h = 2166136261u;
        if (s[i] == ' ' && i + 1 < n)
            i++;
        const size_t word = i;
        while (i < n && i - word < WORD && ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z'))
            i++;
        i += i == word;
        for (; first < i; first++)
            h = (h ^ (unsigned char)s[first]) * 16777619u;
        put(t, (tok_id)(2 + (h ^ h >> 16) % 49000));
    }
}

static void put_file(struct text *t, const char *path)
{
    static char bytes[1 << 20];
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s is not there: tests run in the project's root", path);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    put_words(t, bytes, n);
}

static void put_docs(struct text *t)
{
    static const char *const files[] = {"docs/architecture.md", "CONTRIBUTING.md", "docs/dependencies.md", "docs/speed.md"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        put_file(t, files[i]);
}

/* --- a request ------------------------------------------------------------------------------------------------------- */

struct copying {
    struct tok *tok;
    struct source *source[2];
};

static void make(struct copying *c)
{
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    static const tok_id end = END;
    struct err e;
    if (tok_new_json(&c->tok, json, sizeof json - 1, &end, 1, &e) != ST_OK ||
        source_echo_new(&c->source[0], c->tok, &e) != ST_OK || source_ngram_new(&c->source[1], &e) != ST_OK)
        fail_msg("%s", e.text);
}

static void drop(struct copying *c)
{
    for (int k = 0; k < 2; k++)
        c->source[k]->ops->free(c->source[k]);
    tok_free(c->tok);
}

struct tally {
    double steps, ids;
    uint32_t offered[2], accepted[2];
};

struct piece {
    struct source_proposal p;
    int source;
    uint32_t from; /* tentative ids before it */
};

/* Asks at the tentative end until nobody knows more. ids[row->n ..] is written over. */
static int build(struct copying *c, struct source_row *row, tok_id *ids, double price, struct piece *piece, float *chance)
{
    int n = 0;
    float all = 1;
    for (int k = 0; k < 2 && n < 8; k++) {
        struct piece *p = &piece[n];
        const struct source_ask ask = {.row = row, .most = MOST - (row->n - row->known), .chance = all,
                                       .price = (float)price, .out = &p->p};
        p->p.n = 0;
        p->source = k;
        p->from = row->n - row->known;
        c->source[k]->ops->propose(c->source[k], &ask, 1);
        assert_true(p->p.n <= ask.most);
        if (p->p.n == 0)
            continue;
        for (uint32_t j = 0; j < p->p.n; j++) {
            ids[row->n] = p->p.id[j];
            chance[row->n++ - row->known] = all *= p->p.chance[j];
        }
        n++;
        k = -1;
    }
    return n;
}

/* As many of the tentative ids as make a token cheapest, by 3 % at least. */
static uint32_t fit(const struct machine *m, const float *chance, uint32_t n)
{
    double best = 1.03, worth = 1;
    uint32_t take = 0;
    for (uint32_t j = 1; j <= n; j++) {
        worth += chance[j - 1];
        if (worth / cost_of(m, 1 + j) > best) {
            best = worth / cost_of(m, 1 + j);
            take = j;
        }
    }
    return take;
}

static uint32_t share(uint32_t whole, const struct piece *p)
{
    const uint32_t rest = whole > p->from ? whole - p->from : 0;
    return rest < p->p.n ? rest : p->p.n;
}

static void step(struct copying *c, const struct machine *m, struct source_row *row, tok_id *ids, struct text *t,
                 struct tally *sum)
{
    struct piece piece[8];
    float chance[MOST + 1];
    const uint32_t known = row->known;
    const int n = build(c, row, ids, price_of(m), piece, chance);
    const uint32_t offered = fit(m, chance, row->n - known);
    uint32_t right = 0;
    if (t->spiteful && offered)
        t->ids[known] = (tok_id)(100000 + known);
    while (right < offered && known + right + 1 < t->n && ids[known + right] == t->ids[known + right])
        right++;
    row->known = row->n = known + right + 1;
    memcpy(ids + known, t->ids + known, (right + 1) * sizeof *ids);
    for (int i = 0; i < n; i++) {
        const uint32_t some = share(offered, &piece[i]), good = share(right, &piece[i]);
        struct source *s = c->source[piece[i].source];
        s->ops->settle(s, row, piece[i].p.ticket, some, good);
        sum->offered[piece[i].source] += some;
        sum->accepted[piece[i].source] += good;
    }
    for (int k = 0; k < 2; k++)
        c->source[k]->ops->observe(c->source[k], row, known);
    sum->steps += cost_of(m, 1 + offered);
    sum->ids += right + 1;
}

static void replay(struct copying *c, const struct machine *m, struct text *t, struct tally *sum)
{
    tok_id *ids = malloc((t->n + MOST + 1) * sizeof *ids);
    struct source_row row = {.ids = ids, .prompt_n = t->prompt_n, .known = t->prompt_n, .n = t->prompt_n};
    struct err e;
    assert_non_null(ids);
    memcpy(ids, t->ids, t->prompt_n * sizeof *ids);
    for (int k = 0; k < 2; k++)
        assert_int_equal(c->source[k]->ops->open(c->source[k], &row, t->n + MOST, &e), ST_OK);
    while (row.known < t->n)
        step(c, m, &row, ids, t, sum);
    for (int k = 0; k < 2; k++)
        c->source[k]->ops->close(c->source[k], &row);
    free(ids);
}

/* Time per id with sources; 1 without. `after`: other requests that the sources have served before. */
static double relative(const struct machine *m, const struct text *t, struct text *after, const char *what)
{
    struct copying c;
    struct tally sum = {0}, before = {0};
    make(&c);
    for (int i = 0; after && i < 3; i++)
        replay(&c, m, after, &before);
    struct text same = *t;
    same.ids = malloc(t->n * sizeof *t->ids);
    assert_non_null(same.ids);
    memcpy(same.ids, t->ids, t->n * sizeof *t->ids);
    replay(&c, m, &same, &sum);
    free(same.ids);
    drop(&c);
    if (getenv("VERBOSE"))
        printf("%-5s %-24s %6.0f ids %.3f  echo %u/%u ngram %u/%u\n", m->name, what, sum.ids, sum.steps / sum.ids,
               sum.accepted[0], sum.offered[0], sum.accepted[1], sum.offered[1]);
    return sum.steps / sum.ids;
}

static void costs_at_most(const struct text *t, struct text *after, const char *what, double avx2, double vnni)
{
    const double most[MACHINES] = {avx2, vnni};
    for (int i = 0; i < MACHINES; i++) {
        const double r = relative(&machines[i], t, after, what);
        if (r > most[i])
            fail_msg("%s, %s: %.3f of the time without sources, not %.3f", machines[i].name, what, r, most[i]);
    }
}

/* --- copies ---------------------------------------------------------------------------------------------------------- */

/* The documents and a copy with a word in `every` changed. */
static struct text copy_with_edits(uint32_t every, uint32_t stream)
{
    struct text t = new_text();
    put_docs(&t);
    t.prompt_n = t.n < 6000 ? t.n : 6000;
    t.n = t.prompt_n;
    for (uint32_t i = 0; i < t.prompt_n; i++)
        put(&t, draw(stream, i, every) ? t.ids[i] : (tok_id)(50000 + draw(stream + 1, i, 1000)));
    return t;
}

/* Runs of least .. least + spread - 1 ids from anywhere in the documents, each cut off by ids that stand nowhere. */
static struct text near_copy(uint32_t least, uint32_t spread, uint32_t n, uint32_t stream)
{
    struct text t = new_text();
    put_docs(&t);
    t.prompt_n = t.n < 6000 ? t.n : 6000;
    t.n = t.prompt_n;
    for (uint32_t i = 0; t.n < t.prompt_n + n; i++) {
        const uint32_t at = draw(stream, i, t.prompt_n - 200), run = least + draw(stream + 1, i, spread);
        for (uint32_t j = 0; j < run; j++)
            put(&t, t.ids[at + j]);
        put(&t, (tok_id)(60000 + i));
    }
    return t;
}

static void test_copies_pay(void **state)
{
    (void)state;
    struct text whole = copy_with_edits(1u << 20, 5), edited = copy_with_edits(60, 7), much = copy_with_edits(20, 9);
    costs_at_most(&whole, NULL, "a copy", 0.55, 0.3);
    costs_at_most(&edited, NULL, "1 word in 60 changed", 0.75, 0.5);
    costs_at_most(&much, NULL, "1 word in 20 changed", 1.0, 0.7);
    free(whole.ids);
    free(edited.ids);
    free(much.ids);
}

static void test_short_copy(void **state)
{
    (void)state;
    struct text t = copy_with_edits(1u << 20, 5);
    t.n = t.prompt_n + 200;
    costs_at_most(&t, NULL, "200 ids copied", 0.8, 0.5);
    free(t.ids);
}

/* --- what only looks like it ----------------------------------------------------------------------------------------- */

static void test_plain_text(void **state)
{
    (void)state;
    struct text t = new_text(), copies = copy_with_edits(60, 7);
    put_docs(&t);
    t.prompt_n = t.n / 3;
    costs_at_most(&t, NULL, "plain text", 1.02, 1.02);
    costs_at_most(&t, &copies, "plain text after copies", 1.02, 1.02);
    t.prompt_n = 10;
    costs_at_most(&t, NULL, "plain text, no prompt", 1.02, 1.02);
    free(t.ids);
    free(copies.ids);
}

static void test_near_copies(void **state)
{
    static const struct {
        uint32_t least, spread, n;
    } runs[] = {{8, 1, 4000},   {9, 1, 4000},  {10, 1, 4000},  {12, 1, 4000},  {13, 1, 4000}, {15, 1, 4000}, {17, 1, 4000},
                {20, 1, 4000},  {25, 1, 4000}, {33, 1, 4000},  {40, 1, 4000},  {65, 1, 4000}, {6, 10, 4000}, {8, 20, 4000},
                {12, 30, 4000}, {8, 1, 300},   {12, 1, 300},   {17, 1, 300},   {25, 1, 300},  {33, 1, 300},  {6, 10, 300},
                {8, 20, 300},   {2, 4, 4000},  {3, 1, 4000},   {4, 1, 300},    {5, 1, 300}};
    struct text copies = copy_with_edits(60, 7);
    char what[64];
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct text t = near_copy(runs[i].least, runs[i].spread, runs[i].n, 11);
        snprintf(what, sizeof what, "%u of runs of %u + %u", (unsigned)runs[i].n, (unsigned)runs[i].least,
                 (unsigned)runs[i].spread);
        costs_at_most(&t, NULL, what, 1.02, 1.02);
        costs_at_most(&t, &copies, what, 1.02, 1.02);
        free(t.ids);
    }
    free(copies.ids);
}

static void test_spite(void **state)
{
    (void)state;
    struct text t = copy_with_edits(1u << 20, 5), copies = copy_with_edits(60, 7);
    t.spiteful = true;
    costs_at_most(&t, NULL, "spite", 1.04, 1.04);
    costs_at_most(&t, &copies, "spite after copies", 1.04, 1.04);
    t.n = t.prompt_n + 300;
    costs_at_most(&t, NULL, "short spite", 1.04, 1.04);
    free(t.ids);
    free(copies.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_pay),
        cmocka_unit_test(test_short_copy),
        cmocka_unit_test(test_plain_text),
        cmocka_unit_test(test_near_copies),
        cmocka_unit_test(test_spite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
