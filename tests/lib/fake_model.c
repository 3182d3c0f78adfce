/* fake_model: see fake_model.h. */
#include "fake_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_state {
    uint64_t hash;
    tok_id next;
    bool poisoned;
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 29;
}

/* The state after ids[0, n): every id counts, and those in the window count once more. */
static struct fake_state state_of(const struct fake_model *f, const tok_id *ids, const tok_id *windowed, uint32_t n)
{
    struct fake_state s = {.hash = n};
    uint32_t first = n > FAKE_WINDOW ? n - FAKE_WINDOW : 0;
    for (uint32_t i = 0; i < n; i++) {
        s.hash = mix(s.hash, (uint64_t)ids[i]);
        s.poisoned |= ids[i] == FAKE_POISON;
    }
    for (uint32_t i = first; i < n; i++)
        s.hash = mix(s.hash, (uint64_t)windowed[i]);
    if (f->next)
        s.next = f->next(ids, n);
    return s;
}

static void logits_of(const struct fake_model *f, const struct fake_state *s, float *out)
{
    for (uint32_t v = 0; v < FAKE_VOCAB; v++) {
        out[v] = (float)(mix(s->hash, v) >> 40) * 0x1p-24f * 6.0f;
        if (f->next)
            out[v] = v == (uint32_t)s->next ? 60.0f : 0.0f;
    }
    out[FAKE_POISON] = -20.0f; /* never chosen, only prompted */
    if (f->no_eos && !f->next)
        out[FAKE_EOS] = -20.0f;
    if (s->poisoned)
        out[s->hash % FAKE_VOCAB] = NAN;
}

static float *cell(const struct kv_seq *seq, uint32_t group, uint32_t pos)
{
    struct kern_kv_view v = kv_view(seq, group, 0, 0);
    if (v.table[pos / KV_BLOCK] == KV_NONE)
        BUG("position %u of group %u has no block", pos, group);
    return (float *)(v.base + v.table[pos / KV_BLOCK] * v.block_bytes + v.k_offset) + pos % KV_BLOCK;
}

static void feed(struct fake_model *f, const struct model_span *span, uint32_t at)
{
    uint32_t len = span->seq->len, end = len + span->n;
    if (f->whole && len)
        BUG("a prompt that cannot be cut goes on at %u", len);
    if (end > span->seq->room)
        BUG("span up to %u, room for %u", end, span->seq->room);
    tok_id *ids = calloc(end, sizeof *ids), *windowed = calloc(end, sizeof *windowed);
    for (uint32_t i = 0; i < span->n; i++) {
        if ((uint32_t)span->ids[i] >= FAKE_VOCAB)
            BUG("id %d was fed", (int)span->ids[i]);
        for (uint32_t g = 0; g < 2; g++)
            *cell(span->seq, g, len + i) = (float)span->ids[i];
    }
    for (uint32_t i = 0; i < end; i++)
        ids[i] = (tok_id)*cell(span->seq, 0, i);
    for (uint32_t i = len + 1 > FAKE_WINDOW ? len + 1 - FAKE_WINDOW : 0; i < end; i++)
        windowed[i] = (tok_id)*cell(span->seq, 1, i);
    for (uint32_t i = 0; i < span->n; i++)
        f->state[at + i] = state_of(f, ids, windowed, len + i + 1);
    free(ids);
    free(windowed);
}

static enum status prepare(void *ctx, struct pool *pool, uint32_t tokens, uint32_t context, struct err *e)
{
    struct fake_model *f = ctx;
    (void)pool;
    (void)context;
    f->state = calloc(tokens, sizeof *f->state);
    f->tokens = tokens;
    return f->state ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a fake model");
}

static void forward(void *ctx, const struct model_span *spans, uint32_t n)
{
    struct fake_model *f = ctx;
    if (f->gated) {
        sem_post(&f->entered);
        sem_wait(&f->gate);
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; at += spans[i++].n) {
        if (!spans[i].n || at + spans[i].n > f->tokens)
            BUG("a step of %u tokens or more, %u are possible", at + spans[i].n, f->tokens);
        feed(f, &spans[i], at);
        for (uint32_t p = spans[i].seq->len + 1, k = 0; k < spans[i].n; k++, p++)
            *(spans[i].n > 1 ? &f->keys : &f->decode_keys) += p + (p < FAKE_WINDOW ? p : FAKE_WINDOW);
    }
    f->steps++;
    f->spans += n;
    f->fed += at;
    if (at > f->most_tokens)
        f->most_tokens = at;
    if (n > f->most_spans)
        f->most_spans = n;
}

static void head(void *ctx, const uint32_t *at, uint32_t n, float *out, struct kern_top *top)
{
    struct fake_model *f = ctx;
    f->heads += n;
    for (uint32_t i = 0; i < n; i++) {
        float *logits = out + (size_t)i * FAKE_VOCAB;
        logits_of(f, &f->state[at[i]], logits);
        if (top)
            top[i] = kern_level_ops(KERN_REF)->argmax(logits, FAKE_VOCAB);
    }
}

static float number_of(const struct fake_state *s)
{
    return s->poisoned ? NAN : (float)(s->hash >> 52);
}

static void pool_states(void *ctx, uint32_t at, uint32_t n, float *sum)
{
    const struct fake_model *f = ctx;
    for (uint32_t i = 0; i < n; i++)
        *sum += number_of(&f->state[at + i]);
}

static bool make_vector(void *ctx, const float *sum, uint32_t n, float *out)
{
    (void)ctx;
    out[0] = *sum;
    out[1] = (float)n;
    return isfinite(*sum);
}

static void release(void *ctx)
{
    struct fake_model *f = ctx;
    free(f->state);
    f->state = NULL;
    f->released = true;
}

/* --- text ------------------------------------------------------------------------------------------------------------ */

struct fake_stream {
    const struct fake_model *f;
    char left[65536];
    size_t n;
};

const char *fake_text(const struct fake_model *f, tok_id id)
{
    static const char letters[] = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0m\0n\0o\0p\0q\0r\0s\0t\0u\0v\0w\0x\0y\0z";
    return f->text && f->text[id] ? f->text[id] : letters + 2 * (id % 26);
}

static enum status open_stream(const void *ctx, bool special, void **stream, struct err *e)
{
    struct fake_stream *s = calloc(1, sizeof *s);
    (void)special;
    if (s)
        s->f = ctx;
    *stream = s;
    return s ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a stream");
}

static void clear_stream(void *stream)
{
    ((struct fake_stream *)stream)->n = 0;
}

static size_t more(void *stream, char *out, size_t cap)
{
    struct fake_stream *s = stream;
    size_t n = s->n < cap ? s->n : cap;
    while (n < s->n && n && ((unsigned char)s->left[n] & 0xC0) == 0x80)
        n--;
    memcpy(out, s->left, n);
    s->n -= n;
    memmove(s->left, s->left + n, s->n);
    return n;
}

static size_t put(void *stream, tok_id id, char *out, size_t cap)
{
    struct fake_stream *s = stream;
    const char *t = fake_text(s->f, id);
    size_t n = strlen(t);
    if (n > sizeof s->left - s->n)
        BUG("too much fake text");
    memcpy(s->left + s->n, t, n);
    s->n += n;
    return more(s, out, cap);
}

static bool ends(const void *ctx, tok_id id)
{
    (void)ctx;
    return id == FAKE_EOS;
}

/* --- using it -------------------------------------------------------------------------------------------------------- */

void fake_init(struct fake_model *f, uint32_t context)
{
    memset(f, 0, sizeof *f);
    f->context = context;
    sem_init(&f->gate, 0, 0);
    sem_init(&f->entered, 0, 0);
}

void fake_release(struct fake_model *f)
{
    sem_destroy(&f->gate);
    sem_destroy(&f->entered);
}

enum status fake_engine(struct engine **out, struct fake_model *f, const struct engine_config *cfg, bool words,
                        struct err *e)
{
    struct engine_config c = *cfg;
    c.kv_format = KERN_KV_F32;
    struct engine_net net = {
        .ctx = f,
        .vocab = FAKE_VOCAB,
        .context = f->context,
        .whole = f->whole,
        .pooling = f->pooling,
        .width = 1,
        .vector = f->pooling ? 2 : 0,
        .kv_groups = 2,
        .kv_group = {{.layers = 1, .heads = 1, .head_dim = 8}, {.layers = 1, .heads = 1, .head_dim = 8,
                                                                 .window = FAKE_WINDOW}},
        .cost = {.n = 1, .point = {{1, 0.001}}, .head_ms = 0.001, .attention_ms = 0.001, .decode_attention_ms = 0.001,
                 .frozen = true},
        .prepare = prepare,
        .forward = forward,
        .head = head,
        .pool = pool_states,
        .make = make_vector,
        .release = release,
    };
    enum status st = kern_choose(&net.ops, e);
    if (st)
        return st;
    const struct engine_words w = {.ctx = f,    .open = open_stream, .close = free, .clear = clear_stream,
                                   .put = put, .more = more,        .flush = more, .ends = ends};
    return engine_new_net(out, &c, &net, words ? &w : NULL, &f->tuning, e);
}

uint32_t fake_expect(const struct fake_model *f, const struct request *rq, uint32_t max, tok_id *out)
{
    const struct kern_ops *ops;
    struct sampler *s;
    float logits[FAKE_VOCAB];
    tok_id *ids = calloc(rq->prompt_n + max, sizeof *ids);
    if (!ids || kern_choose(&ops, NULL) || sampler_new(&s, FAKE_VOCAB, ops, NULL))
        BUG("no memory for what to expect");
    memcpy(ids, rq->prompt, rq->prompt_n * sizeof *ids);
    uint32_t n = 0;
    struct sample_state sample;
    sample_state_begin(&sample, &rq->sampling);
    while (n < max) {
        struct fake_state st = state_of(f, ids, ids, rq->prompt_n + n);
        logits_of(f, &st, logits);
        if (sampler_choose(s, &rq->sampling, &sample, logits, NULL, ids, rq->prompt_n + n, n, &out[n], NULL))
            break;
        ids[rq->prompt_n + n] = out[n];
        if (out[n++] == FAKE_EOS && !rq->ignore_eos)
            break;
    }
    sampler_free(s);
    free(ids);
    return n;
}

void fake_logits(const struct fake_model *f, const tok_id *ids, uint32_t n, float *out)
{
    struct fake_state st = state_of(f, ids, ids, n);
    logits_of(f, &st, out);
}

void fake_vector(const struct fake_model *f, const tok_id *ids, uint32_t n, float out[2])
{
    uint32_t from = f->pooling == POOLING_LAST ? n - 1 : 0, to = f->pooling == POOLING_CLS ? 1 : n;
    out[0] = 0;
    out[1] = (float)(to - from);
    for (uint32_t i = from; i < to; i++) {
        struct fake_state s = state_of(f, ids, ids, i + 1);
        out[0] += number_of(&s);
    }
}

float fake_logprob(const struct fake_model *f, const tok_id *ids, uint32_t n, tok_id id)
{
    float logits[FAKE_VOCAB];
    double sum = 0;
    struct fake_state st = state_of(f, ids, ids, n);
    logits_of(f, &st, logits);
    for (uint32_t v = 0; v < FAKE_VOCAB; v++)
        sum += exp((double)logits[v]);
    return (float)((double)logits[id] - log(sum));
}
