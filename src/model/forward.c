/*
 * forward: one pass over the weights for all spans of a step.
 *
 *     x  = embed(ids)
 *     for each layer:
 *         h = norm(x);  q, k, v = Wq h, Wk h, Wv h;  rotate q and k;  store k and v
 *         x = x + Wo attention(q)
 *         h = norm(x)
 *         x = x + Wdown (act(Wgate h) * (Wup h))
 *     logits = Whead norm(x)                                      (only where asked: model_head)
 *
 * Each line below is one job on the pool; a job's tasks write disjoint outputs, and nothing any of them computes depends
 * on how the step was cut into tasks.
 */
#include <string.h>

#include "base/clock.h"
#include "model/run.h"

#define TOKENS_PER_TASK 8u
#define GLU_BLOCK (KERN_QBLOCK / KERN_LANES) /* panels that a block of activations comes from */

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Runs fn for every TOKENS_PER_TASK tokens of the step. */
static void over_tokens(struct model_run *r, pool_fn *fn, void *ctx)
{
    pool_run(r->pool, fn, ctx, ceil_div(r->tokens, TOKENS_PER_TASK));
}

struct token_range {
    uint32_t from, to;
};

static struct token_range range_of(const struct model_run *r, uint32_t task)
{
    uint32_t from = task * TOKENS_PER_TASK, to = from + TOKENS_PER_TASK;
    return (struct token_range){from, to < r->tokens ? to : r->tokens};
}

/* --- linear layers ---------------------------------------------------------------------------------------------------- */

/* How the weights of a job are given to its tasks. Workers take tasks in turn, so task t is the next part of range t % n of
 * n ranges, of which none has two parts more than another: each worker walks along memory, as long as none is much slower
 * than the others. */
struct spread {
    uint32_t tasks, ranges;
};

static struct spread spread_over(const struct model_run *r, uint32_t tasks)
{
    return (struct spread){tasks, (uint32_t)pool_size(r->pool)};
}

/* Which part, in the order of the weights, a task has. */
static uint32_t spread_part(struct spread s, uint32_t task)
{
    uint32_t range = task % s.ranges, longer = s.tasks % s.ranges;
    return range * (s.tasks / s.ranges) + (range < longer ? range : longer) + task / s.ranges;
}

/* Up to three matrices that read the same input, in one job. */
struct linear_job {
    const struct kern_ops *ops;
    struct kern_act act;
    const struct kern_mat *mat[3];
    float *out[3]; /* [tokens][rows] */
    uint32_t n, step, parts[3];
    struct spread spread;
};

static void linear_task(void *ctx, uint32_t task, int worker)
{
    struct linear_job *j = ctx;
    uint32_t i = 0, part = spread_part(j->spread, task);
    (void)worker;
    while (part >= j->parts[i])
        part -= j->parts[i++];
    uint32_t panels = kern_panels(j->mat[i]->rows), p0 = part * j->step, p1 = p0 + j->step;
    j->ops->linear(j->mat[i], p0, p1 < panels ? p1 : panels, &j->act, j->out[i], j->mat[i]->rows);
}

/* How many of the panels one task takes: each worker's share is cut into LINEAR_TASKS, but less where layers are small and
 * tokens few, since taking a task from the others' processors costs as much as some kilobytes of weights. `bytes`: of a
 * panel. */
static uint32_t panels_per_task(const struct model_run *r, uint32_t panels, size_t bytes, uint32_t tokens)
{
    uint32_t workers = (uint32_t)pool_size(r->pool);
    size_t least = LINEAR_TASK_BYTES / (bytes * tokens);
    uint32_t fine = ceil_div(panels, workers * LINEAR_TASKS), coarse = ceil_div(panels, workers * LINEAR_TASKS_LEAST);
    return least > coarse ? coarse : least > fine ? (uint32_t)least : fine;
}

/* Cuts a job into tasks, at most LINEAR_TASKS for each worker and one for each matrix; none where it has no tokens. */
static void linear_cut(const struct model_run *r, struct linear_job *j)
{
    uint32_t panels = 0, tasks = 0;
    j->spread = spread_over(r, 0);
    if (!j->act.tokens)
        return;
    for (uint32_t i = 0; i < j->n; i++)
        panels += kern_panels(j->mat[i]->rows);
    j->ops = r->m->ops;
    j->step = panels_per_task(r, panels, j->mat[0]->stride, j->act.tokens);
    for (uint32_t i = 0; i < j->n; i++)
        tasks += j->parts[i] = ceil_div(kern_panels(j->mat[i]->rows), j->step);
    j->spread.tasks = tasks;
}

/* A job that reads weights. */
static void run_linear(struct model_run *r, pool_fn *fn, void *ctx, uint32_t tasks)
{
    uint64_t since = r->timed ? clock_ns() : 0;
    pool_run(r->pool, fn, ctx, tasks);
    if (r->timed)
        r->linear_ns += clock_ns() - since;
}

static void linear(struct model_run *r, struct linear_job *j)
{
    linear_cut(r, j);
    run_linear(r, linear_task, j, j->spread.tasks);
}

/* The step's activations x[tokens][cols], to be read by `mat`. */
static struct kern_act act_of(const struct model_run *r, const float *x, uint32_t tokens, uint32_t cols)
{
    return (struct kern_act){.tokens = tokens, .cols = cols, .x = x, .q = r->act_q, .meta = r->act_meta};
}

static bool reads_int8(const struct kern_mat *a)
{
    return kern_type_info(a->type)->quantised;
}

void model_run_dense(struct model_run *r, const struct kern_mat *mat, const float *x, float *out)
{
    struct linear_job j = {
        .act = {.tokens = 1, .cols = mat->cols, .x = x, .q = r->vec_q, .meta = r->vec_meta},
        .n = 1,
        .mat = {mat},
        .out = {out},
    };
    if (reads_int8(mat))
        r->m->ops->quantise(&j.act, 0, 1, 0, mat->cols / KERN_QBLOCK);
    linear(r, &j);
}

/* --- embedding, norms, residual --------------------------------------------------------------------------------------- */

/* x += post(proj), xn = norm(x), and xn quantised for the next linear layer. Parts that do not apply are NULL. */
struct join_job {
    struct model_run *r;
    bool add;
    const float *post_norm, *norm;
    bool quantise;
};

static void join_task(void *ctx, uint32_t task, int worker)
{
    struct join_job *j = ctx;
    struct model_run *r = j->r;
    const struct model *m = r->m;
    const struct kern_ops *ops = m->ops;
    struct token_range t = range_of(r, task);
    uint32_t d = m->info.width;
    (void)worker;
    for (uint32_t i = t.from; i < t.to; i++) {
        float *x = r->x + (size_t)i * d, *proj = r->proj + (size_t)i * d;
        if (j->add) {
            if (j->post_norm)
                ops->rms_norm(proj, j->post_norm, d, m->eps, proj);
            ops->add(x, proj, d);
        } else {
            kern_unpack_row(&m->embed, (uint32_t)r->ids[i], x);
            for (uint32_t c = 0; m->family->embed_scaled && c < d; c++)
                x[c] = x[c] * m->embed_scale;
        }
        if (j->norm)
            ops->rms_norm(x, j->norm, d, m->eps, r->xn + (size_t)i * d);
    }
    struct kern_act a = act_of(r, r->xn, r->tokens, d);
    if (j->quantise)
        ops->quantise(&a, t.from, t.to, 0, d / KERN_QBLOCK);
}

/* Ends one half of a layer (add, with the family's post-norm) and begins the next (norm, for `next` to read). */
static void join(struct model_run *r, bool add, const float *post_norm, const float *norm,
                 const struct kern_mat *const *readers, uint32_t n)
{
    struct join_job j = {r, add, post_norm, norm, false};
    for (uint32_t i = 0; i < n; i++)
        j.quantise |= reads_int8(readers[i]);
    over_tokens(r, join_task, &j);
}

/* --- attention -------------------------------------------------------------------------------------------------------- */

static void project_qkv(struct model_run *r, const struct layer *ly)
{
    struct linear_job j = {.act = act_of(r, r->xn, r->tokens, r->m->info.width),
                           .n = 3,
                           .mat = {&ly->q, &ly->k, &ly->v},
                           .out = {r->q, r->k, r->v}};
    linear(r, &j);
}

struct store_job {
    struct model_run *r;
    const struct layer *ly;
    uint32_t cut; /* tasks per piece: 1, or one for each KV head */
};

/* Bias, norm and rotation of one head of one token, in place. */
static void prepare_head(const struct model *m, const struct layer *ly, const float *cs, float *x, const float *bias,
                         const float *norm)
{
    uint32_t hd = m->info.head_dim;
    if (bias)
        m->ops->add(x, bias, hd);
    if (norm)
        m->ops->rms_norm(x, norm, hd, m->eps, x);
    m->ops->rope(x, cs, ly->rope->pairs, m->family->rope_interleaved);
}

static void store_task(void *ctx, uint32_t task, int worker)
{
    struct store_job *j = ctx;
    struct model_run *r = j->r;
    const struct model *m = r->m;
    const struct layer *ly = j->ly;
    const struct piece *p = &r->pieces[task / j->cut];
    uint32_t hd = m->info.head_dim, group = m->info.heads / m->info.kv_heads, pairs = ly->rope->pairs;
    uint32_t h0 = j->cut == 1 ? 0 : task % j->cut, h1 = j->cut == 1 ? m->info.kv_heads : h0 + 1;
    size_t qd = (size_t)m->info.heads * hd, kd = (size_t)m->info.kv_heads * hd;
    const float *angles = ly->rope == &m->rope_full ? r->cs_full : r->cs_local;
    (void)worker;
    for (uint32_t h = h0; h < h1; h++) {
        for (uint32_t t = p->first; t < p->first + p->n; t++) {
            const float *cs = angles + (size_t)t * 2 * pairs;
            for (uint32_t g = h * group; g < (h + 1) * group; g++)
                prepare_head(m, ly, cs, r->q + t * qd + g * hd, ly->q_bias ? ly->q_bias + g * hd : NULL, ly->q_norm);
            prepare_head(m, ly, cs, r->k + t * kd + h * hd, ly->k_bias ? ly->k_bias + h * hd : NULL, ly->k_norm);
            if (ly->v_bias)
                m->ops->add(r->v + t * kd + h * hd, ly->v_bias + h * hd, hd);
        }
        struct kern_kv_view view = kv_view(r->spans[p->span].seq, ly->group, ly->slot, h);
        m->ops->kv_store(&view, r->pos[p->first], p->n, r->k + p->first * kd + h * hd, r->v + p->first * kd + h * hd,
                         kd);
    }
}

static void rotate_and_store(struct model_run *r, const struct layer *ly)
{
    bool many = r->tokens > 4 && r->n_pieces < 4 * (uint32_t)pool_size(r->pool);
    struct store_job j = {r, ly, many ? r->m->info.kv_heads : 1};
    pool_run(r->pool, store_task, &j, r->n_pieces * j.cut);
}

struct quantise_job {
    struct model_run *r;
    struct kern_act act;
};

static void quantise_task(void *ctx, uint32_t task, int worker)
{
    struct quantise_job *j = ctx;
    struct token_range t = range_of(j->r, task);
    (void)worker;
    j->r->m->ops->quantise(&j->act, t.from, t.to, 0, j->act.cols / KERN_QBLOCK);
}

static void project_o(struct model_run *r, const struct layer *ly)
{
    uint32_t qd = r->m->info.heads * r->m->info.head_dim;
    struct quantise_job q = {r, act_of(r, r->att, r->tokens, qd)};
    if (reads_int8(&ly->o))
        over_tokens(r, quantise_task, &q);
    struct linear_job j = {.act = q.act, .n = 1, .mat = {&ly->o}, .out = {r->proj}};
    linear(r, &j);
}

/* --- feed-forward ----------------------------------------------------------------------------------------------------- */

/* Gate, up and their product, for a run of channels at a time: between the matrices nothing leaves the worker's cache. */
struct glu_job {
    struct model_run *r;
    struct kern_mat gate, up;
    struct kern_act in, out; /* out: the input of `down` */
    uint32_t step;           /* panels of a task */
    struct spread spread;
    bool quantise;           /* `down` wants its input in int8 */
};

/* Panels [p0, p1) of a matrix, and a chunk of activations that begins at token c, by themselves. */
static struct kern_mat mat_part(const struct kern_mat *m, uint32_t p0, uint32_t p1)
{
    struct kern_mat part = *m;
    uint32_t first = p0 * KERN_LANES, rows = (p1 - p0) * KERN_LANES;
    part.panels += p0 * m->stride;
    part.rows = rows < m->rows - first ? rows : m->rows - first;
    return part;
}

static struct kern_act act_chunk(const struct kern_act *a, uint32_t c)
{
    return (struct kern_act){.tokens = a->tokens - c < KERN_CHUNK ? a->tokens - c : KERN_CHUNK,
                             .cols = a->cols,
                             .x = a->x + (size_t)c * a->cols,
                             .q = a->q + (size_t)c * a->cols,
                             .meta = a->meta + (size_t)c * (a->cols / KERN_QBLOCK)};
}

/* x[n][w], the channels from c0 on of a chunk's tokens, to where `down` reads them. */
static void glu_store(const struct glu_job *j, const struct kern_act *chunk, const float *x, uint32_t c0, uint32_t w)
{
    uint32_t n = chunk->tokens;
    if (j->quantise) {
        struct kern_act part = {.tokens = n,
                                .cols = w,
                                .x = x,
                                .q = chunk->q + (size_t)c0 * n,
                                .meta = chunk->meta + (size_t)c0 / KERN_QBLOCK * n};
        j->r->m->ops->quantise(&part, 0, n, 0, w / KERN_QBLOCK);
        return;
    }
    float *to = j->r->ffn + (chunk->x - j->out.x) + c0;
    for (uint32_t t = 0; t < n; t++)
        memcpy(to + (size_t)t * chunk->cols, x + (size_t)t * w, w * sizeof *x);
}

static void glu_task(void *ctx, uint32_t task, int worker)
{
    const struct glu_job *j = ctx;
    const struct model *m = j->r->m;
    uint32_t panels = kern_panels(j->gate.rows), p0 = spread_part(j->spread, task) * j->step;
    uint32_t p1 = p0 + j->step < panels ? p0 + j->step : panels;
    struct kern_mat gate = mat_part(&j->gate, p0, p1), up = mat_part(&j->up, p0, p1);
    uint32_t w = gate.rows;
    float *a = (float *)(j->r->worker + (size_t)worker * j->r->worker_bytes), *b = a + KERN_CHUNK * GLU_PANELS * KERN_LANES;
    for (uint32_t c = 0; c < j->in.tokens; c += KERN_CHUNK) {
        struct kern_act in = act_chunk(&j->in, c), out = act_chunk(&j->out, c);
        m->ops->linear(&gate, 0, p1 - p0, &in, a, w);
        m->ops->linear(&up, 0, p1 - p0, &in, b, w);
        m->ops->glu(m->family->glu, a, b, in.tokens * w, a);
        glu_store(j, &out, a, p0 * KERN_LANES, w);
    }
}

static void feed_forward(struct model_run *r, const struct layer *ly)
{
    uint32_t ffn = r->m->info.ffn, panels = kern_panels(ffn);
    struct glu_job g = {.r = r,
                        .gate = ly->gate,
                        .up = ly->up,
                        .in = act_of(r, r->xn, r->tokens, r->m->info.width),
                        .out = {.tokens = r->tokens, .cols = ffn, .x = r->ffn, .q = r->ffn_q, .meta = r->ffn_meta},
                        .step = panels_per_task(r, panels, ly->gate.stride + ly->up.stride, r->tokens),
                        .quantise = reads_int8(&ly->down)};
    g.step = ceil_div(g.step, GLU_BLOCK) * GLU_BLOCK;
    g.step = g.step < GLU_PANELS ? g.step : GLU_PANELS;
    g.spread = spread_over(r, ceil_div(panels, g.step));
    run_linear(r, glu_task, &g, g.spread.tasks);
    struct linear_job down = {.act = g.out, .n = 1, .mat = {&ly->down}, .out = {r->proj}};
    linear(r, &down);
}

/* --- the pass --------------------------------------------------------------------------------------------------------- */

static void angles_task(void *ctx, uint32_t task, int worker)
{
    struct model_run *r = ctx;
    struct token_range t = range_of(r, task);
    uint32_t pairs = r->m->rope_full.pairs;
    (void)worker;
    for (uint32_t i = t.from; i < t.to; i++) {
        rope_angles(&r->m->rope_full, r->pos[i], r->cs_full + (size_t)i * 2 * pairs);
        if (r->m->family->rope_base_local > 0)
            rope_angles(&r->m->rope_local, r->pos[i], r->cs_local + (size_t)i * 2 * pairs);
    }
}

/* Flattens the spans: ids and positions per token, pieces per KV block. */
static void begin(struct model_run *r, const struct model_span *spans, uint32_t n)
{
    r->spans = spans;
    r->n_spans = n;
    r->tokens = r->n_pieces = 0;
    for (uint32_t s = 0; s < n; s++) {
        if (spans[s].n > r->cap - r->tokens || spans[s].seq->len + (uint64_t)spans[s].n > r->context)
            BUG("span of %u tokens at %u in a step of %u", spans[s].n, spans[s].seq->len, r->tokens);
        if (r->m->info.bidirectional && spans[s].seq->len)
            BUG("a span that looks ahead begins at %u", spans[s].seq->len);
        r->tokens += spans[s].n;
    }
    model_run_lay_out(r);
    for (uint32_t s = 0, t = 0; s < n; s++) {
        uint32_t at = spans[s].seq->len;
        for (uint32_t i = 0; i < spans[s].n; i++, t++) {
            if ((uint32_t)spans[s].ids[i] >= r->m->info.vocab)
                BUG("token id %d of %u", spans[s].ids[i], r->m->info.vocab);
            r->ids[t] = spans[s].ids[i];
            r->pos[t] = at + i;
            if (i == 0 || (at + i) % KV_BLOCK == 0)
                r->pieces[r->n_pieces++] = (struct piece){s, t, 0};
            r->pieces[r->n_pieces - 1].n++;
        }
    }
    attention_plan(r);
    over_tokens(r, angles_task, r);
}

void model_forward(struct model_run *r, const struct model_span *spans, uint32_t n_spans)
{
    const struct model *m = r->m;
    const struct layer *first = &m->layers[0];
    begin(r, spans, n_spans);
    join(r, false, NULL, first->attn_norm, (const struct kern_mat *[]){&first->q, &first->k, &first->v}, 3);
    for (uint32_t i = 0; i < m->info.layers; i++) {
        const struct layer *ly = &m->layers[i], *next = i + 1 < m->info.layers ? ly + 1 : NULL;
        project_qkv(r, ly);
        rotate_and_store(r, ly);
        attention(r, ly);
        project_o(r, ly);
        join(r, true, ly->post_attn_norm, ly->ffn_norm, (const struct kern_mat *[]){&ly->gate, &ly->up}, 2);
        feed_forward(r, ly);
        if (next)
            join(r, true, ly->post_ffn_norm, next->attn_norm,
                 (const struct kern_mat *[]){&next->q, &next->k, &next->v}, 3);
        else
            join(r, true, ly->post_ffn_norm, NULL, NULL, 0);
    }
}

/* --- head ------------------------------------------------------------------------------------------------------------- */

struct head_job {
    struct linear_job linear;
    struct model_run *r;
    const uint32_t *at;
    struct kern_top *tops; /* [part][n]; NULL = not asked */
};

static void head_norm_task(void *ctx, uint32_t task, int worker)
{
    struct head_job *j = ctx;
    const struct model *m = j->r->m;
    uint32_t d = m->info.width;
    (void)worker;
    m->ops->rms_norm(j->r->x + (size_t)j->at[task] * d, m->final_norm, d, m->eps, j->r->xn + (size_t)task * d);
    if (reads_int8(&m->head))
        m->ops->quantise(&j->linear.act, task, task + 1, 0, d / KERN_QBLOCK);
}

/* Logits of a run of panels, capped, and the largest of them. */
static void head_task(void *ctx, uint32_t task, int worker)
{
    struct head_job *j = ctx;
    const struct model *m = j->r->m;
    uint32_t n = j->linear.act.tokens, part = spread_part(j->linear.spread, task);
    uint32_t from = part * j->linear.step * KERN_LANES, to = from + j->linear.step * KERN_LANES;
    linear_task(&j->linear, task, worker);
    to = to < m->info.vocab ? to : m->info.vocab;
    for (uint32_t i = 0; i < n; i++) {
        float *logits = j->linear.out[0] + (size_t)i * m->info.vocab + from;
        if (m->final_softcap > 0)
            m->ops->softcap(logits, to - from, m->final_softcap);
        if (!j->tops)
            continue;
        struct kern_top top = m->ops->argmax(logits, to - from);
        top.index += from;
        j->tops[(size_t)part * n + i] = top;
    }
}

/* The first of the largest: parts are in the order of their outputs. */
static struct kern_top head_top(const struct head_job *j, uint32_t i)
{
    struct kern_top top = j->tops[i];
    for (uint32_t t = 1; t < j->linear.spread.tasks; t++) {
        const struct kern_top *p = &j->tops[(size_t)t * j->linear.act.tokens + i];
        top.finite &= p->finite;
        if (p->value > top.value) {
            top.index = p->index;
            top.value = p->value;
        }
    }
    return top;
}

void model_head(struct model_run *r, const uint32_t *at, uint32_t n, float *out, struct kern_top *top)
{
    const struct model *m = r->m;
    for (uint32_t i = 0; i < n; i++)
        if (at[i] >= r->tokens)
            BUG("head of token %u of %u", at[i], r->tokens);
    if (n > r->tokens)
        BUG("%u heads of %u tokens", n, r->tokens);
    struct head_job h = {
        .linear = {.act = act_of(r, r->xn, n, m->info.width), .n = 1, .mat = {&m->head}, .out = {out}},
        .r = r,
        .at = at,
        .tops = top ? r->tops : NULL,
    };
    pool_run(r->pool, head_norm_task, &h, n);
    linear_cut(r, &h.linear);
    pool_run(r->pool, head_task, &h, h.linear.spread.tasks);
    for (uint32_t i = 0; top && i < n; i++)
        top[i] = head_top(&h, i);
}
