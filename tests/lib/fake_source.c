/* fake_source: see fake_source.h. */
#include "fake_source.h"

#include <stdlib.h>
#include <string.h>

/* What a row keeps of a source: how far it was told, and its proposals under way. */
struct fake_row {
    uint32_t seen, out;
};

static enum status fake_open(struct source *s, struct source_row *row, uint32_t longest, struct err *e)
{
    struct fake_source *f = (struct fake_source *)s;
    struct fake_row *r = calloc(1, sizeof *r);
    (void)longest;
    if (!r)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a fake row");
    r->seen = row->known;
    row->state[f->ops.kind] = r;
    __atomic_add_fetch(&f->rows, 1, __ATOMIC_RELAXED);
    return ST_OK;
}

static void fake_close(struct source *s, struct source_row *row)
{
    struct fake_source *f = (struct fake_source *)s;
    struct fake_row *r = row->state[f->ops.kind];
    if (r && r->out)
        BUG("%u proposals of %s were never settled", r->out, source_name(f->ops.kind));
    if (r)
        __atomic_sub_fetch(&f->rows, 1, __ATOMIC_RELAXED);
    free(r);
    row->state[f->ops.kind] = NULL;
}

static uint32_t hash(const struct source_row *row)
{
    uint32_t h = row->n * 2654435761u;
    return (h ^ (uint32_t)row->ids[row->n - 1] * 40503u ^ h >> 13) >> 3;
}

static void say(const struct fake_source *f, uint32_t h, struct source_proposal *p, tok_id id, uint32_t i)
{
    tok_id wrong = (id + 1 + (tok_id)(h % 7)) % FAKE_VOCAB;
    switch (f->habit) {
    case FAKE_HALF:
        id = i < h % 6 ? id : wrong;
        break;
    case FAKE_WRONG:
        id = h % 11 ? wrong : (tok_id)FAKE_VOCAB + 5;
        break;
    case FAKE_POISONS:
        id = FAKE_POISON;
        break;
    default:
        break;
    }
    p->chance[p->n] = f->habit == FAKE_HALF ? 0.7f : 0.95f;
    p->id[p->n++] = id;
}

static void propose_one(struct fake_source *f, const struct source_ask *ask)
{
    const struct source_row *row = ask->row;
    struct fake_row *r = row->state[f->ops.kind];
    uint32_t h = hash(row), most = ask->most < 1 + h % 9 ? ask->most : 1 + h % 9;
    if (row->known != r->seen)
        BUG("a row of %u ids that was told of %u", row->known, r->seen);
    if (h % 3 == 0 || !most)
        return;
    tok_id *ids = calloc(row->n + most, sizeof *ids);
    struct sample_state st;
    struct err e;
    sample_state_begin(&st, row->sampling);
    memcpy(ids, row->ids, row->n * sizeof *ids);
    for (uint32_t i = 0; i < most; i++) {
        float logits[FAKE_VOCAB];
        tok_id id;
        fake_logits(f->model, ids, row->n + i, logits);
        if (sampler_choose(f->sampler, row->sampling, &st, logits, NULL, ids, row->n + i, row->n + i - row->prompt_n,
                           &id, &e))
            break;
        ids[row->n + i] = id;
        say(f, h, ask->out, id, i);
    }
    free(ids);
    if (!ask->out->n)
        return;
    ask->out->trust = f->habit == FAKE_SURE ? SOURCE_ASSERT : SOURCE_VERIFY;
    ask->out->ticket = row->n;
    r->out++;
    f->proposals++;
}

static void fake_propose(struct source *s, const struct source_ask *asks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        propose_one((struct fake_source *)s, &asks[i]);
}

static void fake_settle(struct source *s, const struct source_row *row, uint32_t ticket, uint32_t offered,
                        uint32_t accepted)
{
    struct fake_source *f = (struct fake_source *)s;
    struct fake_row *r = row->state[f->ops.kind];
    if (!r->out || accepted > offered || offered > SOURCE_SPAN || ticket < row->known)
        BUG("a proposal at %u of a row of %u ids settled with %u of %u", ticket, row->known, accepted, offered);
    r->out--;
    f->offered += offered;
    f->accepted += accepted;
    f->declined += !offered;
}

static void fake_observe(struct source *s, const struct source_row *row, uint32_t from)
{
    struct fake_source *f = (struct fake_source *)s;
    struct fake_row *r = row->state[f->ops.kind];
    if (from != r->seen || row->known <= from || row->n != row->known || r->out)
        BUG("ids from %u to %u, after %u; %u proposals open", from, row->known, r->seen, r->out);
    r->seen = row->known;
    f->observed += row->known - from;
}

static void fake_free(struct source *s)
{
    struct fake_source *f = (struct fake_source *)s;
    if (f->rows)
        BUG("%llu rows were never closed", (unsigned long long)f->rows);
    sampler_free(f->sampler);
    free(f);
}

struct source *fake_source_new(struct fake_model *m, enum source_kind kind, enum fake_habit habit)
{
    struct fake_source *f = calloc(1, sizeof *f);
    const struct kern_ops *ops;
    if (!f || kern_choose(&ops, NULL) || sampler_new(&f->sampler, FAKE_VOCAB, ops, NULL))
        BUG("no memory for a fake source");
    f->ops = (struct source_ops){.kind = kind, .open = fake_open, .close = fake_close, .propose = fake_propose,
                                 .settle = fake_settle, .observe = fake_observe, .free = fake_free};
    f->source.ops = &f->ops;
    f->model = m;
    f->habit = habit;
    return &f->source;
}
