/* source: the index of earlier occurrences, copies from it, short n-grams, and what they learn of their own worth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/index.h"
#include "source/rate.h"
#include "source/source.h"

enum { END = 1, MAX = 4000, ROOM = MAX + SOURCE_SPAN };

static uint32_t draw(uint32_t stream, uint32_t i, uint32_t below)
{
    return (uint32_t)(rng_uniform(stream, 0, i, RNG_FINAL) * (float)below);
}

/* Few different ids, so that grams come again. */
static void fill(tok_id *ids, uint32_t n, uint32_t stream, uint32_t kinds)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (tok_id)(10 + draw(stream, i, kinds));
}

/* --- the index ------------------------------------------------------------------------------------------------------- */

/* Ends e < known, e <= cap, of the gram before n: the nearest first. */
static uint32_t brute(const tok_id *ids, uint32_t k, uint32_t known, uint32_t cap, uint32_t n, uint32_t *ends,
                      uint32_t most)
{
    uint32_t found = 0;
    for (uint32_t e = known - 1; e >= k && found < most; e--)
        if (e <= cap && memcmp(ids + e - k, ids + n - k, k * sizeof *ids) == 0)
            ends[found++] = e;
    return found;
}

/* Every place of ids[0, n) as the end of what is looked up. */
static void check_index(const struct source_index *x, const tok_id *ids, uint32_t known, uint32_t n)
{
    static uint32_t got[MAX], want[MAX];
    for (uint32_t most = 1; most <= MAX; most += MAX - 1)
        for (uint32_t at = x->k; at <= n; at++) {
            const uint32_t found = source_index_find(x, ids, at, got, most);
            assert_int_equal(found, brute(ids, x->k, known, x->cap, at, want, most));
            assert_memory_equal(got, want, found * sizeof *got);
        }
}

static void test_index_is_brute_force(void **state)
{
    static const struct {
        uint32_t k, kinds, n;
    } cases[] = {{1, 2, 300},  {2, 3, 600},  {3, 4, 900}, {8, 2, 1500}, {8, 1, 200},
                 {8, 50, 400}, {8, 2, 8},   {8, 2, 9},   {8, 2, 3}};
    tok_id ids[MAX];
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct source_index x;
        fill(ids, cases[i].n, (uint32_t)i, cases[i].kinds);
        assert_int_equal(source_index_init(&x, cases[i].k, cases[i].n, LIMIT_ECHO, &e), ST_OK);
        source_index_extend(&x, ids, cases[i].n);
        check_index(&x, ids, cases[i].n, cases[i].n);
        source_index_release(&x);
    }
}

static void test_index_grows(void **state)
{
    enum { N = 700 };
    tok_id ids[N];
    struct source_index bulk, bits;
    struct err e;
    (void)state;
    fill(ids, N, 3, 2);
    assert_int_equal(source_index_init(&bulk, 8, N, LIMIT_ECHO, &e), ST_OK);
    assert_int_equal(source_index_init(&bits, 8, N, LIMIT_ECHO, &e), ST_OK);
    for (uint32_t n = 0, i = 0; n < N; n += draw(4, i++, 20)) {
        source_index_extend(&bits, ids, n);
        source_index_extend(&bits, ids, n); /* nothing new */
        if (n > 8 && i % 8 == 0)
            check_index(&bits, ids, n, n);
    }
    source_index_extend(&bits, ids, N);
    source_index_extend(&bulk, ids, N);
    assert_int_equal(bits.mask, bulk.mask);
    assert_memory_equal(bits.last, bulk.last, (bits.mask + 1) * sizeof *bits.last);
    assert_memory_equal(bits.before, bulk.before, (bits.cap + 1) * sizeof *bits.before);
    source_index_release(&bits);
    source_index_release(&bulk);
}

static void test_index_freezes(void **state)
{
    enum { N = 900, CAP = 300 };
    tok_id ids[N];
    struct source_index x;
    struct err e;
    (void)state;
    fill(ids, N, 5, 2);
    assert_int_equal(source_index_init(&x, 8, N, CAP, &e), ST_OK);
    assert_int_equal(x.cap, CAP);
    for (uint32_t n = 0; n <= N; n += 50) {
        source_index_extend(&x, ids, n);
        if (n)
            check_index(&x, ids, n, n);
    }
    assert_int_equal(x.next, CAP + 1);
    source_index_release(&x);
    source_index_release(&x);
}

/* What has nothing behind it is not found: neither the gram looked up, nor the one that ends with what is known. */
static void test_index_continues(void **state)
{
    tok_id ids[20];
    uint32_t ends[20];
    struct source_index x;
    struct err e;
    (void)state;
    for (int i = 0; i < 20; i++)
        ids[i] = i % 10;
    assert_int_equal(source_index_init(&x, 8, 20, LIMIT_ECHO, &e), ST_OK);
    source_index_extend(&x, ids, 8);
    assert_int_equal(source_index_find(&x, ids, 8, ends, 20), 0);
    assert_int_equal(source_index_find(&x, ids, 18, ends, 20), 0);
    source_index_extend(&x, ids, 9);
    assert_int_equal(source_index_find(&x, ids, 18, ends, 20), 1);
    assert_int_equal(ends[0], 8);
    assert_int_equal(source_index_find(&x, ids, 7, ends, 20), 0);
    source_index_release(&x);
}

/* Different grams that begin in the same slot: as many as there are probes are told apart, the rest are left out. */
static void test_index_collisions(void **state)
{
    enum { SAME = 100, K = 2, CAP = 4 * SAME };
    static tok_id ids[CAP];
    uint32_t end, found = 0, n = 0;
    struct source_index x;
    struct err e;
    (void)state;
    assert_int_equal(source_index_init(&x, K, CAP, CAP, &e), ST_OK);
    for (tok_id v = 0; n < K * SAME; v++) { /* ids stand for themselves once, so that the grams between differ */
        const tok_id gram[K] = {2 * v, 2 * v + 1};
        if ((source_index_hash(gram, K) & x.mask) != 7)
            continue;
        ids[n++] = gram[0];
        ids[n++] = gram[1];
    }
    source_index_extend(&x, ids, n);
    for (uint32_t at = K; at < n; at += K)
        if (source_index_find(&x, ids, at, &end, 1)) {
            assert_int_equal(end, at);
            found++;
        }
    assert_in_range(found, 30, 64);
    memcpy(ids + n, ids, K * sizeof *ids); /* the first of them, again, behind all */
    assert_int_equal(source_index_find(&x, ids, n + K, &end, 1), 1);
    assert_int_equal(end, K);
    source_index_release(&x);
}

/* --- a row ----------------------------------------------------------------------------------------------------------- */

struct bench {
    struct tok *tok;
    struct source *echo, *ngram;
    struct source_row row;
    tok_id ids[ROOM];
};

static int set_up(void **state)
{
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    static const tok_id end = END;
    struct bench *b = calloc(1, sizeof *b);
    struct err e;
    *state = b;
    if (!b || tok_new_json(&b->tok, json, sizeof json - 1, &end, 1, &e) != ST_OK ||
        source_echo_new(&b->echo, b->tok, &e) != ST_OK || source_ngram_new(&b->ngram, &e) != ST_OK)
        return -1;
    b->row.ids = b->ids;
    return 0;
}

static void put(struct bench *b, tok_id id)
{
    assert_true(b->row.known < MAX);
    b->ids[b->row.known++] = id;
    b->row.n = b->row.known;
}

/* first, first + 1, ... */
static void put_run(struct bench *b, tok_id first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put(b, first + (tok_id)i);
}

static void open_row(struct bench *b)
{
    struct err e;
    b->row.prompt_n = b->row.known;
    assert_int_equal(b->echo->ops->open(b->echo, &b->row, MAX, &e), ST_OK);
    assert_int_equal(b->ngram->ops->open(b->ngram, &b->row, MAX, &e), ST_OK);
}

static void close_row(struct bench *b)
{
    b->echo->ops->close(b->echo, &b->row);
    b->ngram->ops->close(b->ngram, &b->row);
    assert_null(b->row.state[SOURCE_ECHO]);
    assert_null(b->row.state[SOURCE_NGRAM]);
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    close_row(b);
    b->echo->ops->free(b->echo);
    b->ngram->ops->free(b->ngram);
    tok_free(b->tok);
    free(b);
    return 0;
}

static const struct source_proposal *ask(struct bench *b, struct source *s, uint32_t most, float chance, float price)
{
    static struct source_proposal p;
    const struct source_ask a = {.row = &b->row, .most = most, .chance = chance, .price = price, .out = &p};
    memset(&p, 0x77, sizeof p);
    p.n = 0;
    s->ops->propose(s, &a, 1);
    if (p.n) {
        assert_in_range(p.n, 2, most);
        assert_int_equal(p.trust, SOURCE_VERIFY);
        for (uint32_t j = 0; j < p.n; j++) {
            assert_true(p.chance[j] > 0 && p.chance[j] <= 1);
            chance *= p.chance[j];
        }
        assert_true(chance >= price);
    }
    return &p;
}

/* What it would say if ids cost nothing. */
static const struct source_proposal *ask_free(struct bench *b, struct source *s)
{
    return ask(b, s, SOURCE_SPAN, 1, 0);
}

static void check_run(const struct source_proposal *p, tok_id first, uint32_t n)
{
    assert_int_equal(p->n, n);
    for (uint32_t j = 0; j < n; j++)
        assert_int_equal(p->id[j], first + (tok_id)j);
}

/* --- echo: what is copied -------------------------------------------------------------------------------------------- */

static void test_copy(void **state)
{
    struct bench *b = *state;
    put_run(b, 100, 40);
    put_run(b, 200, 5);
    put_run(b, 110, 7);
    open_row(b);
    assert_int_equal(ask_free(b, b->echo)->n, 0); /* seven match, not eight */
    put(b, 117);
    b->echo->ops->observe(b->echo, &b->row, b->row.known - 1);
    const struct source_proposal *p = ask_free(b, b->echo);
    assert_in_range(p->n, 22, SOURCE_SPAN);
    for (uint32_t j = 0; j < 22; j++)
        assert_int_equal(p->id[j], 118 + j);
    assert_int_equal(p->id[22], 200);
    assert_int_equal(p->n, 22 + 5 + 8); /* up to the end of the row, where the occurrence is exhausted */
    check_run(ask(b, b->echo, 5, 1, 0), 118, 5);
    check_run(ask(b, b->echo, 2, 1, 0), 118, 2);
    assert_int_equal(ask(b, b->echo, 1, 1, 0)->n, 0);
    assert_int_equal(ask(b, b->echo, 0, 1, 0)->n, 0);
    assert_int_equal(ask(b, b->echo, 9, 1, 1)->n, 0); /* nothing is that certain */
    assert_int_equal(ask(b, b->echo, 9, 0.1f, 0.2f)->n, 0);
}

static void test_fork(void **state)
{
    struct bench *b = *state;
    put_run(b, 100, 8);
    put_run(b, 300, 9);
    put_run(b, 100, 8);
    put_run(b, 400, 9);
    put_run(b, 100, 8);
    open_row(b);
    assert_int_equal(ask_free(b, b->echo)->n, 0);
}

static void test_branch(void **state)
{
    struct bench *b = *state;
    for (tok_id other = 400; other < 402; other++) {
        put_run(b, other, 1);
        put_run(b, 100, 14);
        put_run(b, 10 * other, 9);
    }
    put_run(b, 100, 9);
    open_row(b);
    check_run(ask_free(b, b->echo), 109, 5);
}

/* One more id before them decides, once it makes the match long enough to be of another class. */
static void test_longest_match(void **state)
{
    struct bench *b = *state;
    put_run(b, 96, 12);
    put_run(b, 300, 9);
    put_run(b, 100, 8);
    put_run(b, 400, 9);
    put_run(b, 96, 12);
    open_row(b);
    const struct source_proposal *p = ask(b, b->echo, 9, 1, 0);
    check_run(p, 300, 9);
}

/* At the end of the row an occurrence has nothing more to say, unless what matches reaches back to it: a period. */
static void test_exhausted(void **state)
{
    struct bench *b = *state;
    for (uint32_t period = 9; period < 30; period++)
        for (uint32_t match = 8; match < 2 * period; match++) {
            b->row.known = 0;
            put(b, 900);
            for (uint32_t i = 0; i < period + match; i++)
                put(b, (tok_id)(100 + i % period));
            open_row(b);
            const struct source_proposal *p = ask_free(b, b->echo);
            assert_int_equal(p->n, match < period ? period : SOURCE_SPAN);
            for (uint32_t j = 0; j < p->n; j++)
                assert_int_equal(p->id[j], 100 + (match + j) % period);
            close_row(b);
        }
}

static void test_own_output(void **state)
{
    struct bench *b = *state;
    put_run(b, 900, 20);
    open_row(b);
    assert_int_equal(ask_free(b, b->echo)->n, 0);
    const uint32_t from = b->row.known;
    put_run(b, 100, 12);
    put_run(b, 300, 1);
    put_run(b, 100, 8);
    b->echo->ops->observe(b->echo, &b->row, from);
    const struct source_proposal *p = ask(b, b->echo, 5, 1, 0);
    check_run((&(struct source_proposal){.n = 4, .id = {p->id[0], p->id[1], p->id[2], p->id[3]}}), 108, 4);
    assert_int_equal(p->id[4], 300);
}

static void test_end_of_turn(void **state)
{
    struct bench *b = *state;
    put_run(b, 100, 12);
    put(b, END);
    put_run(b, 112, 12);
    put_run(b, 100, 8);
    open_row(b);
    check_run(ask_free(b, b->echo), 108, 4);
    put_run(b, 108, 2);
    check_run(ask_free(b, b->echo), 110, 2);
    put(b, 110);
    assert_int_equal(ask_free(b, b->echo)->n, 0); /* one id before the end */
    put(b, 111);
    assert_int_equal(ask_free(b, b->echo)->n, 0);
}

static void test_periodic(void **state)
{
    struct bench *b = *state;
    for (uint32_t period = 1; period <= 12; period++) {
        b->row.known = 0;
        put_run(b, 900, 3);
        for (uint32_t i = 0; i < 5 * period + 8; i++)
            put(b, (tok_id)(100 + i % period));
        open_row(b);
        const struct source_proposal *p = ask_free(b, b->echo);
        assert_int_equal(p->n, SOURCE_SPAN);
        for (uint32_t j = 0; j < p->n; j++)
            assert_int_equal(p->id[j], 100 + (5 * period + 8 + j) % period);
        p = ask_free(b, b->ngram);
        assert_int_equal(p->n, period == 9 ? 9 : 10); /* it compares 8 ids: longer periods are none to it */
        for (uint32_t j = 0; j < p->n; j++)
            assert_int_equal(p->id[j], 100 + (5 * period + 8 + j) % period);
        close_row(b);
    }
}

/* Behind another source's piece, which is not in the row yet. */
static void test_tentative(void **state)
{
    struct bench *b = *state;
    put_run(b, 100, 40);
    put_run(b, 500, 1);
    put_run(b, 110, 5);
    open_row(b);
    assert_int_equal(ask_free(b, b->echo)->n, 0);
    for (tok_id id = 115; id < 118; id++)
        b->ids[b->row.n++] = id;
    check_run(ask(b, b->echo, 22, 1, 0), 118, 22);
    assert_int_equal(b->row.n, b->row.known + 3);
    b->ids[b->row.n - 1] = 7; /* it says something else after all */
    assert_int_equal(ask_free(b, b->echo)->n, 0);
    assert_int_equal(ask_free(b, b->ngram)->n, 0);
    b->ids[b->row.n - 1] = 130;
    check_run(ask(b, b->ngram, 9, 1, 0), 131, 9);
}

static void test_ngram(void **state)
{
    struct bench *b = *state;
    put_run(b, 100, 20);
    put_run(b, 300, 1);
    put_run(b, 108, 1);
    put_run(b, 400, 12);
    put_run(b, 107, 2);
    open_row(b);
    check_run(ask_free(b, b->ngram), 109, 10); /* two match there, one nearer */
    put(b, 300);
    const struct source_proposal *p = ask_free(b, b->ngram);
    assert_int_equal(p->id[0], 108);
    assert_int_equal(p->id[1], 400);
    put(b, 888);
    assert_int_equal(ask_free(b, b->ngram)->n, 0);
    assert_int_equal(ask(b, b->ngram, 1, 1, 0)->n, 0);
}

/* More ids than its tables have slots: what is found is right, the latest among it. */
static void test_ngram_forgets(void **state)
{
    enum { N = 3000, SLOTS = 64 };
    struct bench *b = *state;
    struct err e;
    uint32_t late = 0;
    put_run(b, 1000, N);
    assert_int_equal(b->ngram->ops->open(b->ngram, &b->row, SLOTS, &e), ST_OK);
    for (uint32_t i = 0; i + 20 < N; i++) {
        b->row.n = b->row.known;
        for (uint32_t j = 0; j < 3; j++)
            b->ids[b->row.n++] = (tok_id)(1000 + i + j);
        const struct source_proposal *p = ask_free(b, b->ngram);
        if (p->n)
            check_run(p, 1003 + (tok_id)i, 10);
        if (i + 3 * SLOTS < N)
            continue;
        late += p->n > 0;
    }
    assert_in_range(late, SLOTS / 2, 3 * SLOTS);
}

/* --- what they learn ------------------------------------------------------------------------------------------------- */

static void test_rate_learns(void **state)
{
    struct source_rates all = {.from = {8, 12, 16, 24, 32, 64}, .prior = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f}};
    struct source_rate r, other;
    (void)state;
    source_rate_begin(&r);
    source_rate_begin(&other);
    const float first = source_rate_chance(&all, &r, 20);
    source_rate_guessed(&all, &r, 20, true);
    assert_true(source_rate_chance(&all, &r, 23) > first);
    assert_true(source_rate_chance(&all, &r, 24) == first && source_rate_chance(&all, &r, 15) == first);
    assert_true(source_rate_chance(&all, &other, 16) > first); /* by what others saw, and less */
    assert_true(source_rate_chance(&all, &other, 16) < source_rate_chance(&all, &r, 16));
    for (int i = 0; i < 2000; i++)
        source_rate_guessed(&all, &r, 1000, i % 4 != 0);
    assert_true(source_rate_chance(&all, &r, 64) > 0.7f && source_rate_chance(&all, &r, 64) < 0.8f);
    for (int i = 0; i < 60; i++)
        source_rate_guessed(&all, &r, 64, false);
    assert_true(source_rate_chance(&all, &r, 64) < 0.2f);     /* soon, in a row */
    assert_true(source_rate_chance(&all, &other, 64) > 0.6f); /* and not for all */
    assert_int_equal(source_rate_class(&all, 0), 0);
    assert_int_equal(source_rate_class(&all, 11), 0);
    assert_int_equal(source_rate_class(&all, UINT32_MAX), 5);
}

static void test_settle(void **state)
{
    struct bench *b = *state;
    const struct source_rates all = {.from = {8, 12, 16, 24, 32, 64}, .prior = {1, 1, 1, 1, 1, 1}};
    struct source_rate r;
    struct source_proposal p;
    const struct source_ask a = {.row = &b->row, .most = SOURCE_SPAN, .chance = 1, .price = 0.25f, .out = &p};
    source_rate_begin(&r);
    const float begin = r.credit;
    source_rate_propose(&all, &r, 8, 30, &a);
    assert_int_equal(p.n, 4); /* what the credit pays for */
    assert_true(r.credit == begin - 1);
    const uint32_t ticket = p.ticket;
    source_rate_propose(&all, &r, 8, 30, &a);
    assert_int_equal(p.n, 0); /* not twice */
    source_rate_settle(&r, ticket, 0, 0);
    assert_true(r.credit == begin && r.losses == 0); /* never run: no rejection */
    source_rate_propose(&all, &r, 8, 30, &a);
    source_rate_settle(&r, p.ticket, 4, 3);
    assert_true(r.credit == begin + 2 && r.losses == 0);
    source_rate_propose(&all, &r, 8, 30, &a);
    assert_int_equal(p.n, 12);
    source_rate_settle(&r, p.ticket, 8, 1); /* four were not computed */
    assert_true(r.credit == begin + 1 && r.losses == 1);
    for (int i = 0; i < 9; i++) {
        r.credit = 3;
        source_rate_propose(&all, &r, 8, 12, &a);
        source_rate_settle(&r, p.ticket, 12, 0);
    }
    assert_true(r.losses == 4);
    assert_true(r.credit == 0);
    source_rate_propose(&all, &r, 8, 12, &a);
    assert_int_equal(p.n, 0);
    r.credit = 20;
    source_rate_propose(&all, &r, 8, 64, &a);
    assert_int_equal(p.n, 64);
    source_rate_settle(&r, p.ticket, 64, 64);
    assert_true(r.losses == 0 && r.credit < 30);
}

struct run {
    uint32_t offered, accepted, ids;
};

/* One id after another as `next` says, asking each time; what is proposed is offered whole. */
static void go(struct bench *b, struct source *s, uint32_t n, tok_id (*next)(uint32_t at), struct run *sum)
{
    const uint32_t end = b->row.known + n;
    *sum = (struct run){.ids = n};
    while (b->row.known < end) {
        const uint32_t known = b->row.known;
        const struct source_proposal p = *ask(b, s, 15, 1, 0.45f);
        uint32_t right = 0;
        while (right < p.n && p.id[right] == next(known + right))
            right++;
        for (uint32_t i = 0; i <= right; i++)
            put(b, next(b->row.known));
        if (p.n)
            s->ops->settle(s, &b->row, p.ticket, p.n, right);
        s->ops->observe(s, &b->row, known);
        sum->offered += p.n;
        sum->accepted += right;
    }
}

/* Nine ids of something that comes again and again, then one that never did. */
static tok_id always_wrong(uint32_t at)
{
    return at % 10 ? (tok_id)(100 + at % 10) : (tok_id)(10000 + at);
}

static tok_id again(uint32_t at)
{
    return (tok_id)(200 + at * 7 % 97);
}

static void test_backs_off_and_recovers(void **state)
{
    struct bench *b = *state;
    struct run wrong, right;
    put_run(b, 2, 1);
    open_row(b);
    go(b, b->echo, 1500, always_wrong, &wrong);
    assert_true(wrong.offered - wrong.accepted <= wrong.ids / 100);
    go(b, b->echo, 1000, again, &right);
    assert_true(right.accepted > 750); /* of 900 that can be copied */
    assert_true(right.offered - right.accepted <= 10);
    go(b, b->echo, 300, always_wrong, &wrong);
    assert_true(wrong.offered - wrong.accepted <= 30);
}

/* Ids count where the source was asked, and behind: others knew those before. */
static void test_learns_where_asked(void **state)
{
    struct bench *b = *state;
    put_run(b, 100, 100);
    put_run(b, 100, 64);
    open_row(b);
    const float before = ask(b, b->echo, 9, 1, 0)->chance[0];
    b->echo->ops->observe(b->echo, &b->row, b->row.known); /* nothing came */
    uint32_t from = b->row.known;
    put_run(b, 164, 12); /* never asked */
    b->echo->ops->observe(b->echo, &b->row, from);
    const struct source_proposal p = *ask(b, b->echo, 9, 1, 0);
    assert_true(p.chance[0] == before);
    from = b->row.known;
    put_run(b, 176, 2);
    put(b, 777);
    b->echo->ops->settle(b->echo, &b->row, p.ticket, 9, 2);
    b->echo->ops->observe(b->echo, &b->row, from);
    put_run(b, 100, 70);
    assert_true(ask(b, b->echo, 9, 1, 0)->chance[0] < before); /* two right and one wrong, behind 64 or more */
    b->echo->ops->observe(b->echo, &b->row, b->row.known);

    for (tok_id id = 170; id < 173; id++)
        b->ids[b->row.n++] = id; /* someone else's */
    const float now = ask(b, b->echo, 9, 1, 0)->chance[0];
    from = b->row.known;
    put_run(b, 170, 2);
    put(b, 888); /* wrong, and not where echo was asked */
    b->echo->ops->observe(b->echo, &b->row, from);
    put_run(b, 100, 70);
    assert_true(ask(b, b->echo, 9, 1, 0)->chance[0] == now);
}

static void test_nothing_to_copy(void **state)
{
    struct bench *b = *state;
    struct err e;
    for (uint32_t longest = 0; longest < 12; longest++) {
        b->row.known = b->row.n = 0;
        assert_int_equal(b->echo->ops->open(b->echo, &b->row, longest, &e), ST_OK);
        assert_int_equal(b->ngram->ops->open(b->ngram, &b->row, longest, &e), ST_OK);
        for (uint32_t i = 0; i < longest; i++) {
            ask_free(b, b->echo);
            ask_free(b, b->ngram);
            put(b, 5);
            b->echo->ops->observe(b->echo, &b->row, i);
            b->ngram->ops->observe(b->ngram, &b->row, i);
        }
        close_row(b);
    }
}

#define ROW_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_is_brute_force),
        cmocka_unit_test(test_index_grows),
        cmocka_unit_test(test_index_freezes),
        cmocka_unit_test(test_index_continues),
        cmocka_unit_test(test_index_collisions),
        ROW_TEST(test_copy),
        ROW_TEST(test_fork),
        ROW_TEST(test_branch),
        ROW_TEST(test_longest_match),
        ROW_TEST(test_exhausted),
        ROW_TEST(test_own_output),
        ROW_TEST(test_end_of_turn),
        ROW_TEST(test_periodic),
        ROW_TEST(test_tentative),
        ROW_TEST(test_ngram),
        ROW_TEST(test_ngram_forgets),
        cmocka_unit_test(test_rate_learns),
        ROW_TEST(test_settle),
        ROW_TEST(test_backs_off_and_recovers),
        ROW_TEST(test_learns_where_asked),
        ROW_TEST(test_nothing_to_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
