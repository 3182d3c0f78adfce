/*
 * draft: what a smaller model proposes, what it may cost, and that its sequences hold what a fresh run would.
 *
 * The test is the engine: it asks, judges and settles. Where a target is needed, it is a tiny model too; elsewhere any
 * outcome will do, for the source does not know who judges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "feed.h"
#include "tiny.h"

#include "source/draft.h"
#include "source/draft_rows.h"

#define CONTEXT 300u
#define ROWS 4u
#define CHURN 200u /* context of rows that come and go */

/* --- a grammar of the tests: which ids may stand at a place of the row ---------------------------------------------- */

struct matcher {
    uint32_t at;    /* ids walked */
    uint32_t refused, masks;
};

static bool grammatical(uint32_t at, tok_id id)
{
    return ((uint32_t)id + at) % 4 != 0;
}

uint32_t matcher_consume(struct matcher *m, const tok_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, m->at++)
        if (!grammatical(m->at, ids[i])) {
            m->refused++;
            return i;
        }
    return n;
}

size_t matcher_words(const struct matcher *m)
{
    (void)m;
    return (TINY_VOCAB + 31) / 32;
}

enum status matcher_mask(struct matcher *m, uint32_t *mask, struct matcher_next *next, struct err *e)
{
    (void)e;
    memset(mask, 0, matcher_words(m) * sizeof *mask);
    for (uint32_t id = 0; id < TINY_VOCAB; id++)
        mask[id / 32] |= (uint32_t)grammatical(m->at, (tok_id)id) << id % 32;
    m->masks++;
    *next = (struct matcher_next){.n = 2};
    return ST_OK;
}

void matcher_rollback(struct matcher *m, uint32_t n)
{
    assert_true(n <= m->at);
    m->at -= n;
}

/* --- models ---------------------------------------------------------------------------------------------------------- */

static struct feed models[TINY_FAMILIES]; /* of one thread each, for fresh runs */
static struct pool *pool;                /* of two, for drafts */

static struct feed *open_model(const char *family)
{
    uint32_t i = 0;
    while (strcmp(tiny_families[i], family) != 0)
        i++;
    if (models[i].model)
        return &models[i];
    char path[] = "/tmp/ffwd-draft-XXXXXX";
    struct err e = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    enum status st = tiny_write(path, family, TINY_F32, &e);
    if (!st)
        st = feed_open(&models[i], path, 1, KERN_KV_F16, CONTEXT + 200, &e);
    unlink(path);
    if (st)
        fail_msg("%s: %s", family, e.text);
    return &models[i];
}

static int open_pool(void **state)
{
    (void)state;
    return pool_new(&pool, 2, NULL) != ST_OK;
}

static int close_models(void **state)
{
    (void)state;
    pool_free(pool);
    for (uint32_t i = 0; i < TINY_FAMILIES; i++)
        if (models[i].model)
            feed_release(&models[i]);
    return 0;
}

static float fresh[TINY_VOCAB];

/* The logits behind ids[n] of a run that never saw anything else. */
static const float *fresh_logits(struct feed *f, const tok_id *ids, uint32_t n)
{
    struct kv_seq seq;
    assert_int_equal(kv_seq_init(&seq, f->kv, NULL), ST_OK);
    for (uint32_t at = 0, m; at < n; at += m) {
        m = n - at < 64 ? n - at : 64;
        assert_int_equal(kv_seq_reserve(&seq, m, NULL), ST_OK);
        model_forward(f->run, &(struct model_span){&seq, ids + at, m}, 1);
        kv_seq_commit(&seq, m);
    }
    model_head(f->run, &(uint32_t){(n - 1) % 64}, 1, fresh, NULL);
    kv_seq_release(&seq);
    return fresh;
}

/* --- the engine's part ----------------------------------------------------------------------------------------------- */

struct bench {
    struct feed *f; /* the draft model */
    struct source *s;
    uint32_t every;       /* of the logits seen, each such is compared with a fresh run's; 0 = none */
    uint32_t seen, checked;
    double now;           /* seconds, of a clock that moves when it is read */
};

struct line {
    struct source_row row;
    struct sample_params sampling;
    struct source_proposal out;
    tok_id ids[CONTEXT + 200];
    struct matcher matcher;
    float price;
    double worth_ms;
};

static double tick(void *ctx)
{
    struct bench *b = ctx;
    return b->now += 0.001;
}

static void see(void *ctx, const struct source_row *row, const tok_id *ids, uint32_t n, const float *logits)
{
    struct bench *b = ctx;
    assert_true(n >= row->n);
    assert_memory_equal(ids, row->ids, row->n * sizeof *ids);
    if (!b->every || b->seen++ % b->every)
        return;
    assert_memory_equal(logits, fresh_logits(b->f, ids, n), sizeof fresh);
    b->checked++;
}

static void begin(struct bench *b, const char *family, uint32_t rows, uint32_t context, uint32_t every)
{
    struct err e = {0};
    *b = (struct bench){.f = open_model(family), .every = every};
    struct source_draft_config cfg = {.model = b->f->model, .pool = pool, .vocab = TINY_VOCAB, .rows = rows,
                                      .context = context};
    if (source_draft_new(&b->s, &cfg, &e))
        fail_msg("%s", e.text);
    source_draft_tune(b->s, &(struct source_draft_tuning){.clock = tick, .see = see, .ctx = b});
}

static void end(struct bench *b)
{
    assert_int_equal(source_draft_verify(b->s), 0);
    b->s->ops->free(b->s);
}

static void open_line(struct bench *b, struct line *l, uint32_t prompt_n, uint32_t salt)
{
    memset(l, 0, sizeof *l);
    l->sampling = sample_defaults();
    l->price = 0.01f;
    for (uint32_t i = 0; i < prompt_n; i++)
        l->ids[i] = (tok_id)((salt * 7919u + i * (i + 31) * 31u) % TINY_VOCAB);
    l->row = (struct source_row){.ids = l->ids, .prompt_n = prompt_n, .known = prompt_n, .n = prompt_n};
    assert_int_equal(b->s->ops->open(b->s, &l->row, CONTEXT, NULL), ST_OK);
}

static void close_line(struct bench *b, struct line *l)
{
    b->s->ops->close(b->s, &l->row);
    assert_null(l->row.state[SOURCE_DRAFT]);
}

/* Asks for n lines; those that are NULL are not asked about. */
static void ask(struct bench *b, struct line **lines, uint32_t n, uint32_t most)
{
    struct source_ask asks[16] = {{0}};
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct line *l = lines[i];
        if (!l)
            continue;
        l->row.sampling = &l->sampling;
        l->out.n = 0;
        l->matcher.at = l->row.n;
        asks[m++] = (struct source_ask){.row = &l->row, .most = most, .chance = 1, .price = l->price,
                                        .worth_ms = l->worth_ms, .out = &l->out};
    }
    b->s->ops->propose(b->s, asks, m);
    for (uint32_t i = 0; i < m; i++) {
        struct line *l = (struct line *)asks[i].row;
        assert_int_equal(l->matcher.at, l->row.n); /* the matcher is back */
        assert_true(l->out.n <= most);
        for (uint32_t k = 0; k < l->out.n; k++) {
            assert_in_range(l->out.id[k], 0, TINY_VOCAB - 1);
            assert_true(l->out.chance[k] > 0 && l->out.chance[k] <= 1);
        }
    }
}

/* The first `accepted` ids of the proposal were right, then `then` was chosen. */
static void settle(struct bench *b, struct line *l, uint32_t accepted, tok_id then)
{
    uint32_t from = l->row.known;
    assert_int_equal(l->row.n, from);
    if (l->out.n)
        b->s->ops->settle(b->s, &l->row, l->out.ticket, l->out.n, accepted);
    memcpy(l->ids + from, l->out.id, accepted * sizeof *l->ids);
    l->ids[from + accepted] = then;
    l->row.n = l->row.known = from + accepted + 1;
    b->s->ops->observe(b->s, &l->row, from);
}

static uint32_t draws;
static uint32_t draw(uint32_t below)
{
    uint32_t out[4];
    rng_philox(1234, draws++, 0, out);
    return out[0] % below;
}

/* --- right ids ------------------------------------------------------------------------------------------------------- */

/* What a model chooses at the end of a line. */
static tok_id chosen_by(struct feed *f, struct sampler *s, const struct line *l, uint32_t n)
{
    tok_id id;
    struct sample_state st;
    sample_state_begin(&st, &l->sampling);
    assert_int_equal(sampler_choose(s, &l->sampling, &st, fresh_logits(f, l->ids, n), NULL, l->ids, n,
                                    n - l->row.prompt_n, &id, NULL), ST_OK);
    return id;
}

/* One step of a target: returns how many ids of the proposal it accepts. */
static uint32_t step(struct bench *b, struct feed *target, struct sampler *s, struct line *l)
{
    uint32_t n = l->row.n, k = 0;
    ask(b, &l, 1, 8);
    tok_id id = chosen_by(target, s, l, n);
    for (; k < l->out.n && id == l->out.id[k]; k++) {
        l->ids[n + k] = id;
        id = chosen_by(target, s, l, n + k + 1);
    }
    settle(b, l, k, id);
    return k;
}

/* The target is the draft model: all it proposes is right, greedy or drawn, with penalties and without. */
static void test_same_model(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 3; way++) {
        struct bench b;
        struct line l;
        struct sampler *s;
        begin(&b, "qwen2", 1, CONTEXT, 5);
        assert_int_equal(sampler_new(&s, TINY_VOCAB, b.f->ops, NULL), ST_OK);
        open_line(&b, &l, 20, way);
        l.sampling.temperature = way ? 0.8f : 0;
        l.sampling.seed = 77 + way;
        l.sampling.repetition_penalty = way == 2 ? 1.3f : 1;
        uint32_t accepted = 0, proposed = 0, steps = 0;
        for (; l.row.n < 100; steps++) {
            accepted += step(&b, b.f, s, &l);
            proposed += l.out.n;
        }
        assert_int_equal(accepted, proposed);
        assert_true(accepted > 50 && steps < 20);
        assert_true(b.checked > 5);
        struct source_draft_counts c = source_draft_counts(b.s);
        assert_int_equal(c.drawn, proposed);
        assert_true(c.fed < 100 + 8); /* nothing twice */
        close_line(&b, &l);
        sampler_free(s);
        end(&b);
    }
}

/* Another model: whatever it says, the target's own ids come out, and it does accept some. */
static void test_other_model(void **state)
{
    (void)state;
    struct bench b;
    struct line l, plain;
    struct sampler *s;
    begin(&b, "smollm2", 1, CONTEXT, 3);
    struct feed *target = open_model("llama");
    assert_int_equal(sampler_new(&s, TINY_VOCAB, b.f->ops, NULL), ST_OK);
    open_line(&b, &l, 15, 3);
    l.sampling.temperature = 1.5f;
    l.sampling.top_k = 4;
    plain = l;
    while (l.row.n < 80)
        step(&b, target, s, &l);
    for (uint32_t n = 15; n < 80; n++)
        plain.ids[n] = chosen_by(target, s, &plain, n);
    assert_memory_equal(plain.ids, l.ids, 80 * sizeof *l.ids);
    assert_true(b.checked > 5);
    close_line(&b, &l);
    sampler_free(s);
    end(&b);
}

/* --- sequences ------------------------------------------------------------------------------------------------------- */

/* Lines come and go, wait, get ids from elsewhere, some of them tentative, and have any part of a proposal refused: every
 * logit drawn from is what a fresh run gives. */
static void churn(const char *family, uint32_t turns)
{
    struct bench b;
    static struct line lines[ROWS + 2];
    bool alive[ROWS + 2] = {0};
    begin(&b, family, ROWS, CHURN, 13);
    draws = 0;
    for (uint32_t turn = 0; turn < turns; turn++) {
        struct line *asked[ROWS + 2] = {0};
        for (uint32_t i = 0; i < ROWS + 2; i++) {
            struct line *l = &lines[i];
            if (alive[i] && (l->row.n > CHURN + 20 || draw(40) == 0)) {
                close_line(&b, l);
                alive[i] = false;
            }
            if (!alive[i] && draw(3) == 0) {
                open_line(&b, l, 1 + draw(90), turn);
                alive[i] = true;
            }
            if (!alive[i])
                continue;
            uint32_t imposed = draw(6) == 0 ? draw(40) : 0; /* known ids that the draft model did not propose */
            for (uint32_t k = 0; k < imposed; k++)
                l->ids[l->row.n++] = (tok_id)draw(TINY_VOCAB);
            l->row.known = l->row.n;
            uint32_t tentative = draw(4) == 0 ? draw(60) : 0;
            for (uint32_t k = 0; k < tentative; k++)
                l->ids[l->row.n++] = (tok_id)draw(TINY_VOCAB);
            asked[i] = draw(5) ? l : NULL;
        }
        ask(&b, asked, ROWS + 2, 1 + draw(10));
        for (uint32_t i = 0; i < ROWS + 2; i++) {
            struct line *l = &lines[i];
            if (!alive[i])
                continue;
            uint32_t tentative = l->row.n - l->row.known, right = tentative ? draw(2) * draw(tentative + 1) : 0;
            if (right == tentative && asked[i]) { /* the draft's ids were compared, too */
                l->row.known = l->row.n;
                settle(&b, l, draw(l->out.n + 1), (tok_id)draw(TINY_VOCAB));
                continue;
            }
            if (asked[i] && l->out.n)
                b.s->ops->settle(b.s, &l->row, l->out.ticket, l->out.n, 0);
            uint32_t from = l->row.known;
            l->ids[from + right] = (tok_id)draw(TINY_VOCAB);
            l->row.n = l->row.known = from + right + 1;
            b.s->ops->observe(b.s, &l->row, from);
        }
        assert_true(source_draft_verify(b.s) <= ROWS);
    }
    for (uint32_t i = 0; i < ROWS + 2; i++)
        if (alive[i])
            close_line(&b, &lines[i]);
    assert_true(b.checked > turns / 8);
    end(&b);
}

static void test_churn(void **state)
{
    (void)state;
    churn("llama", 60);
    churn("gemma3", 60); /* windows of 16 */
}

/* A row that turns out to be another one, further back than windows are kept: from the beginning again. */
static void test_lost_window(void **state)
{
    (void)state;
    struct feed *f = open_model("gemma3");
    struct draft_rows r;
    struct source_draft_config cfg = {.model = f->model, .pool = pool, .vocab = TINY_VOCAB, .rows = 1,
                                      .context = CONTEXT};
    struct source_row row = {.prompt_n = 1};
    tok_id ids[CONTEXT];
    assert_int_equal(source_draft_rows_init(&r, &cfg, NULL), ST_OK);
    struct draft_seq *s = source_draft_take(&r);
    assert_null(source_draft_take(&r));
    for (uint32_t i = 0; i < CONTEXT; i++)
        ids[i] = (tok_id)(i * 13 % TINY_VOCAB);
    row.ids = ids;
    static const struct {
        uint32_t n, differs, left;
    } cases[] = {
        {250, 250, 250}, /* all is new */
        {250, 250, 1},   /* at least the last */
        {251, 200, 51},  /* 50 taken back */
        {251, 123, 251 - 123},
        {251, 60, 251},  /* too far: 0 is where it begins */
        {130, 130, 1},   /* a shorter row, not as far back */
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        row.n = cases[i].n;
        for (uint32_t k = cases[i].differs; k < CONTEXT; k++)
            ids[k] = (tok_id)((k * 7 + i * 31) % TINY_VOCAB);
        uint32_t left = source_draft_sync(s, &row);
        assert_int_equal(left, cases[i].left);
        assert_true(source_draft_reserve(s, left));
        struct model_span span = {&s->kv, s->ids + s->kv.len, left};
        source_draft_forward(&r, &span, 1);
        model_head(r.run, &(uint32_t){left - 1}, 1, r.logits, NULL);
        assert_memory_equal(r.logits, fresh_logits(f, ids, row.n), sizeof fresh);
    }
    source_draft_give(s);
    source_draft_rows_release(&r);
}

/* --- limits ---------------------------------------------------------------------------------------------------------- */

static void test_nothing_to_say(void **state)
{
    (void)state;
    struct bench b;
    struct line l, *one = &l;
    begin(&b, "qwen2", 1, CONTEXT, 0);
    b.s->ops->propose(b.s, NULL, 0);
    open_line(&b, &l, 10, 1);
    ask(&b, &one, 1, 0);
    l.price = 1; /* too dear */
    ask(&b, &one, 1, 8);
    l.row.n = l.row.known = 5; /* within the prompt */
    l.price = 0.01f;
    ask(&b, &one, 1, 8);
    assert_int_equal(source_draft_counts(b.s).fed, 0);
    l.row.n = l.row.known = 10;
    l.row.n += DRAFT_BACK; /* more tentative than windows are kept for */
    ask(&b, &one, 1, 8);
    assert_int_equal(source_draft_counts(b.s).fed, 0);
    l.row.n = 10;
    ask(&b, &one, 1, 8);
    assert_true(l.out.n > 0 && l.out.n <= 8);
    ask(&b, &one, 1, 8); /* again at the same place: it was never run */
    assert_true(l.out.n > 0);
    b.s->ops->settle(b.s, &l.row, l.out.ticket, 0, 0);
    settle(&b, &l, l.out.n, 3);
    close_line(&b, &l);
    b.s->ops->close(b.s, &l.row);
    end(&b);
}

/* The draft model's context ends before the row's. */
static void test_context_end(void **state)
{
    (void)state;
    struct bench b;
    struct line l, *one = &l;
    begin(&b, "llama_yarn", 1, CONTEXT, 5); /* made for 128 */
    open_line(&b, &l, 100, 1);
    l.price = 0.0001f;
    for (; l.row.n < 126; settle(&b, &l, 0, 9)) {
        ask(&b, &one, 1, 16);
        uint32_t room = 129 - l.row.n; /* the last one drawn is not fed */
        assert_true(l.out.n > 0 && l.out.n <= room);
    }
    ask(&b, &one, 1, 16);
    assert_int_equal(l.out.n, 3);
    settle(&b, &l, 1, 9);
    ask(&b, &one, 1, 16);
    assert_int_equal(l.out.n, 1);
    assert_int_equal(source_draft_verify(b.s), 1);
    settle(&b, &l, 0, 9);
    ask(&b, &one, 1, 16);
    assert_int_equal(l.out.n, 0);
    assert_int_equal(source_draft_verify(b.s), 0); /* given back: the row is beyond it for good */
    settle(&b, &l, 0, 9);
    close_line(&b, &l);
    end(&b);
}

static void test_more_rows_than_sequences(void **state)
{
    (void)state;
    struct bench b;
    static struct line lines[4];
    struct line *all[4] = {&lines[0], &lines[1], &lines[2], &lines[3]};
    begin(&b, "qwen2", 2, CONTEXT, 1);
    for (uint32_t i = 0; i < 4; i++)
        open_line(&b, &lines[i], 10 + i, i);
    for (uint32_t k = 0; k < 3; k++) {
        ask(&b, all, 4, 4);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(lines[i].out.n > 0, i < 2);
            settle(&b, &lines[i], lines[i].out.n, (tok_id)(i + k));
        }
    }
    close_line(&b, &lines[0]);
    all[0] = NULL;
    ask(&b, all, 4, 4);
    assert_true(lines[1].out.n && lines[2].out.n && !lines[3].out.n);
    for (uint32_t i = 1; i < 4; i++)
        close_line(&b, &lines[i]);
    end(&b);
}

/* A long prompt is caught up with over several steps, and does not hold up a row that is up to date. */
static void test_catching_up(void **state)
{
    (void)state;
    struct bench b;
    static struct line lines[3];
    struct line *all[3] = {&lines[0], &lines[1], &lines[2]};
    begin(&b, "qwen2", 3, 480, 1);
    open_line(&b, &lines[0], 400, 1);
    open_line(&b, &lines[1], 12, 2);
    open_line(&b, &lines[2], 250, 3);
    uint32_t first[3] = {0};
    for (uint32_t k = 1; k < 5; k++) {
        uint64_t fed = source_draft_counts(b.s).fed;
        ask(&b, all, 3, 4);
        assert_true(source_draft_counts(b.s).fed - fed <= DRAFT_FEED + 3 * 4);
        for (uint32_t i = 0; i < 3; i++) {
            if (lines[i].out.n && !first[i])
                first[i] = k;
            settle(&b, &lines[i], lines[i].out.n, (tok_id)i);
        }
    }
    assert_int_equal(first[1], 1);
    assert_int_equal(first[2], 2);
    assert_int_equal(first[0], 3);
    for (uint32_t i = 0; i < 3; i++)
        close_line(&b, &lines[i]);
    end(&b);
}

/* The ceiling holds a row and a half: one of two gives its blocks back when they run out, and the other goes on. */
static void test_memory(void **state)
{
    (void)state;
    struct bench b = {.f = open_model("qwen2")};
    struct source_draft_config cfg = {.model = b.f->model, .pool = pool, .vocab = TINY_VOCAB, .rows = 2,
                                      .context = 256};
    const struct model_info *in = model_info(b.f->model);
    struct kv_config kv = {.format = KERN_KV_F16, .groups = in->kv_groups, .positions = 384, .rows = 2, .context = 256};
    memcpy(kv.group, in->kv_group, sizeof kv.group);
    cfg.kv_bytes = kv_config_bytes(&kv) * 2 / 3 - 1;
    struct err e = {0};
    assert_int_equal(source_draft_new(&b.s, &cfg, &e), ST_NEVER_FITS);
    assert_non_null(strstr(e.text, "256 ids"));
    cfg.kv_bytes = kv_config_bytes(&kv);
    assert_int_equal(source_draft_new(&b.s, &cfg, &e), ST_OK);
    assert_int_equal(source_draft_counts(b.s).kv_bytes, cfg.kv_bytes);
    static struct line lines[2];
    struct line *both[2] = {&lines[0], &lines[1]};
    uint32_t late[2] = {0}, alone = 0;
    for (uint32_t i = 0; i < 2; i++)
        open_line(&b, &lines[i], 100, i);
    while (lines[0].row.n < 248 && lines[1].row.n < 248) {
        ask(&b, both, 2, 4);
        alone += source_draft_verify(b.s) == 1;
        for (uint32_t i = 0; i < 2; i++) {
            late[i] += lines[i].row.n > 200 && lines[i].out.n;
            settle(&b, &lines[i], lines[i].out.n, 1);
        }
    }
    assert_true(alone > 0);
    assert_true(late[0] + late[1] > 3);
    for (uint32_t i = 0; i < 2; i++)
        close_line(&b, &lines[i]);
    end(&b);
}

/* Drafts obey the row's grammar, whose matcher comes back to where it stood (ask() looks). */
static void test_grammar(void **state)
{
    (void)state;
    struct bench b;
    struct line l, *one = &l;
    begin(&b, "qwen3", 1, CONTEXT, 0);
    open_line(&b, &l, 10, 1);
    l.row.matcher = &l.matcher;
    l.sampling.temperature = 2;
    uint32_t proposed = 0;
    for (uint32_t k = 0; k < 20; k++) {
        ask(&b, &one, 1, 8);
        for (uint32_t i = 0; i < l.out.n; i++)
            assert_true(grammatical(l.row.n + i, l.out.id[i]));
        proposed += l.out.n;
        settle(&b, &l, l.out.n, (tok_id)draw(TINY_VOCAB));
    }
    assert_true(proposed > 10 && l.matcher.masks > 3 && !l.matcher.refused);
    close_line(&b, &l);
    end(&b);
}

/* --- what it costs --------------------------------------------------------------------------------------------------- */

struct served {
    uint32_t ids, proposed, accepted;
    double ms;
};

/* `lines` short replies, one after another, by a target that always thinks alike, or never. */
static struct served serve(struct bench *b, uint32_t lines, bool right, double worth_ms, float price)
{
    struct served r = {.ms = -source_draft_counts(b->s).ms};
    static struct line l;
    struct line *one = &l;
    for (uint32_t i = 0; i < lines; i++) {
        open_line(b, &l, 20, i);
        l.worth_ms = worth_ms;
        l.price = price;
        while (l.row.n < 120) {
            ask(b, &one, 1, 8);
            uint32_t k = right ? l.out.n : 0;
            r.proposed += l.out.n;
            r.accepted += k;
            r.ids += k + 1;
            settle(b, &l, k, (tok_id)draw(TINY_VOCAB));
        }
        close_line(b, &l);
    }
    r.ms += source_draft_counts(b->s).ms;
    return r;
}

/* A model that is never right costs less than 2 % of the work once that is known, its own time and its refused ids
 * counted; and one that turns out to be right is used again. */
static void test_always_wrong(void **state)
{
    (void)state;
    struct bench b;
    const double worth = 20, price = 0.1; /* a forward of the draft model takes 2 */
    begin(&b, "qwen2", 1, CONTEXT, 0);
    struct served r = serve(&b, 20, false, worth, (float)price);
    assert_true(r.ms + r.proposed * price * worth < 65 * worth + 0.02 * r.ids * worth);
    r = serve(&b, 40, false, worth, (float)price);
    double share = (r.ms + r.proposed * price * worth) / (r.ids * worth);
    if (share >= 0.02)
        fail_msg("a model that is never right cost %.2f %%", share * 100);
    assert_true(r.proposed > 0); /* it is still tried */
    r = serve(&b, 40, true, worth, (float)price);
    assert_true(r.accepted > r.ids / 2);
    end(&b);
}

/* One row, refused every time: the ids it feeds and the forwards it runs become few. */
static void test_backs_off(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < 3; way++) {
        struct bench b;
        struct line l, *one = &l;
        begin(&b, "qwen2", 1, 480, 0);
        open_line(&b, &l, 20, 1);
        l.price = 0.3f;
        l.worth_ms = way == 0 ? 1e9 : way == 1 ? 0.001 : 0; /* time does not matter; it is all that does; not known */
        uint32_t tries[2] = {0};
        for (uint32_t n = l.row.n; n < 480; n++) {
            ask(&b, &one, 1, 8);
            tries[n > 200] += l.out.n > 0;
            settle(&b, &l, 0, (tok_id)draw(TINY_VOCAB));
        }
        struct source_draft_counts c = source_draft_counts(b.s);
        if (way == 1) {
            assert_int_equal(c.fed, 0);
        } else {
            assert_in_range(tries[0], 3, 24);
            assert_in_range(tries[1], 0, 8);
            assert_in_range(c.forwards, 3, 100);
            assert_true(c.fed < 480 + c.forwards);
        }
        close_line(&b, &l);
        end(&b);
    }
}

/* A forward of a millisecond is run for two rows that save 0.7 each, not for one. */
static void test_rows_share_a_forward(void **state)
{
    (void)state;
    struct bench b;
    static struct line lines[2];
    struct line *both[2] = {&lines[0], &lines[1]};
    begin(&b, "qwen2", 2, CONTEXT, 0);
    for (uint32_t i = 0; i < 2; i++) {
        open_line(&b, &lines[i], 10, i);
        lines[i].worth_ms = 1.2; /* × (0.6 - 0.01) = 0.7 */
    }
    ask(&b, both, 1, 1);
    assert_int_equal(lines[0].out.n, 0);
    ask(&b, both, 2, 1);
    assert_int_equal(lines[0].out.n, 1);
    assert_int_equal(lines[1].out.n, 1);
    for (uint32_t i = 0; i < 2; i++)
        close_line(&b, &lines[i]);
    end(&b);
}

/* --- refusals -------------------------------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    struct feed *f = open_model("qwen2");
    struct source *s;
    struct err e = {0};
    struct source_draft_config cfg = {.model = f->model, .pool = pool, .vocab = 513, .rows = 1, .context = 64};
    assert_int_equal(source_draft_new(&s, &cfg, &e), ST_ARGUMENT);
    assert_null(s);
    assert_non_null(strstr(e.text, "tiny qwen2 has 512 token ids, the target 513"));
    cfg.vocab = 512;
    cfg.rows = LIMIT_ROWS + 1;
    assert_int_equal(source_draft_new(&s, &cfg, &e), ST_ARGUMENT);
    cfg.rows = LIMIT_ROWS;
    assert_int_equal(source_draft_new(&s, &cfg, &e), ST_OK);
    s->ops->free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_model),     cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_churn),          cmocka_unit_test(test_lost_window),
        cmocka_unit_test(test_nothing_to_say), cmocka_unit_test(test_context_end),
        cmocka_unit_test(test_more_rows_than_sequences), cmocka_unit_test(test_catching_up),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_always_wrong),   cmocka_unit_test(test_backs_off),
        cmocka_unit_test(test_rows_share_a_forward), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, open_pool, close_models);
}
