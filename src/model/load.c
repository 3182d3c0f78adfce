/*
 * load: from a validated model file to a network.
 *
 * Every shape is checked against the metadata, every tensor of the file must be used: a tensor that this build would
 * silently ignore means a variant it does not know, and the answers would be wrong.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/net.h"

#define SOFTCAP_MOST 1e6f
#define KEY_CAP 96 /* "<architecture>.<name>" */

struct loader {
    struct model *m;
    struct weights *w;
    const struct model_options *o;
    struct err *e;
    uint8_t *used;       /* per tensor */
    size_t done, total;  /* source bytes, for progress */
};

/* --- metadata -------------------------------------------------------------------------------------------------------- */

static const char *key_of(struct loader *l, const char *name, char *buf, size_t cap)
{
    snprintf(buf, cap, "%s.%s", l->m->family->arch, name);
    return buf;
}

/* A key that may be absent, but not of another type or out of range: *out is left alone when it is absent. */
static enum status may_u32(struct loader *l, const char *name, uint32_t lo, uint32_t hi, uint32_t *out)
{
    char key[KEY_CAP];
    uint32_t v;
    if (!weights_has(l->w, key_of(l, name, key, sizeof key)))
        return ST_OK;
    if (!weights_u32(l->w, key, &v))
        return err_set(l->e, ST_MODEL, key, "%s: %s is not a whole number that fits 32 bits", weights_shown(l->w), key);
    if (v < lo || v > hi)
        return err_set(l->e, ST_MODEL, key, "%s: %s is %u, expected %u to %u", weights_shown(l->w), key, v, lo, hi);
    *out = v;
    return ST_OK;
}

static enum status need_u32(struct loader *l, const char *name, uint32_t lo, uint32_t hi, uint32_t *out)
{
    char key[KEY_CAP];
    if (!weights_has(l->w, key_of(l, name, key, sizeof key)))
        return err_set(l->e, ST_MODEL, key, "%s: metadata key %s is missing", weights_shown(l->w), key);
    return may_u32(l, name, lo, hi, out);
}

static enum status may_f32(struct loader *l, const char *name, float lo, float hi, float *out)
{
    char key[KEY_CAP];
    return model_may_f32(l->w, key_of(l, name, key, sizeof key), lo, hi, out, l->e);
}

enum status model_may_f32(const struct weights *w, const char *key, float lo, float hi, float *out, struct err *e)
{
    float v;
    uint32_t whole;
    if (!weights_has(w, key))
        return ST_OK;
    if (!weights_f32(w, key, &v)) {
        if (!weights_u32(w, key, &whole))
            return err_set(e, ST_MODEL, key, "%s: %s is not a number", weights_shown(w), key);
        v = (float)whole;
    }
    if (!(v >= lo && v <= hi))
        return err_set(e, ST_MODEL, key, "%s: %s is %g, expected %g to %g", weights_shown(w), key, (double)v, (double)lo,
                       (double)hi);
    *out = v;
    return ST_OK;
}

const char *model_plain(struct weights_str s, char *buf, size_t cap)
{
    size_t n = s.n < cap - 1 ? s.n : cap - 1;
    for (size_t i = 0; i < n; i++)
        buf[i] = s.s[i] >= ' ' && s.s[i] <= '~' ? s.s[i] : '?';
    buf[n] = 0;
    return buf;
}

static enum status find_family(struct loader *l)
{
    struct weights_str arch;
    if (!weights_string(l->w, "general.architecture", &arch))
        return err_set(l->e, ST_MODEL, "general.architecture", "%s: metadata key general.architecture is missing",
                       weights_shown(l->w));
    l->m->family = family_find(arch.s, arch.n);
    char shown[41];
    if (!l->m->family)
        return err_set(l->e, ST_UNSUPPORTED, "general.architecture",
                       "%s: architecture \"%s\" is not supported, expected one of %s", weights_shown(l->w),
                       model_plain(arch, shown, sizeof shown), family_names());
    l->m->info.architecture = l->m->family->arch;
    return ST_OK;
}

static enum status load_heads(struct loader *l, uint32_t *rotated)
{
    struct model_info *in = &l->m->info;
    uint32_t value_dim, key_dim;
    TRY(need_u32(l, "attention.head_count", 1, LIMIT_HEADS, &in->heads));
    in->kv_heads = in->heads;
    TRY(may_u32(l, "attention.head_count_kv", 1, in->heads, &in->kv_heads));
    if (in->heads % in->kv_heads)
        return err_set(l->e, ST_MODEL, "attention.head_count_kv", "%s: %u heads do not share %u KV heads evenly",
                       weights_shown(l->w), in->heads, in->kv_heads);
    if (in->heads / in->kv_heads > KERN_ATTN_VECTORS)
        return err_set(l->e, ST_UNSUPPORTED, "attention.head_count", "%s: %u heads share a KV head, at most %u can",
                       weights_shown(l->w), in->heads / in->kv_heads, KERN_ATTN_VECTORS);
    key_dim = in->width / in->heads;
    TRY(may_u32(l, "attention.key_length", 1, LIMIT_HEAD_DIM, &key_dim));
    value_dim = key_dim;
    TRY(may_u32(l, "attention.value_length", 1, LIMIT_HEAD_DIM, &value_dim));
    if (key_dim != value_dim || key_dim % 16 || !key_dim || key_dim > LIMIT_HEAD_DIM)
        return err_set(l->e, ST_UNSUPPORTED, "attention.key_length",
                       "%s: heads of %u keys and %u values, expected equal multiples of 16 up to %u",
                       weights_shown(l->w), key_dim, value_dim, LIMIT_HEAD_DIM);
    in->head_dim = key_dim;
    *rotated = key_dim;
    TRY(may_u32(l, "rope.dimension_count", 2, key_dim, rotated));
    if (*rotated % 2)
        return err_set(l->e, ST_MODEL, "rope.dimension_count", "%s: %u rotated channels, expected an even number",
                       weights_shown(l->w), *rotated);
    return ST_OK;
}

/* Who may look ahead, and what a text's vector is made of. */
static enum status load_pooling(struct loader *l)
{
    struct model_info *in = &l->m->info;
    const struct family *f = l->m->family;
    uint32_t pooling = f->pooling;
    bool causal = !f->bidirectional;
    char key[KEY_CAP];
    key_of(l, "attention.causal", key, sizeof key);
    if (weights_has(l->w, key) && !weights_bool(l->w, key, &causal))
        return err_set(l->e, ST_MODEL, key, "%s: %s is not a bool", weights_shown(l->w), key);
    TRY(may_u32(l, "pooling_type", POOLING_NONE, POOLING_RANK, &pooling));
    in->bidirectional = !causal;
    if (in->bidirectional && in->context > LIMIT_STEP) /* a text is one span of a step */
        in->context = LIMIT_STEP;
    in->matryoshka = f->matryoshka;
    in->pooling = (enum model_pooling)pooling;
    return ST_OK;
}

static enum status load_scalars(struct loader *l)
{
    struct model *m = l->m;
    const struct model_info *in = &m->info;
    char key[KEY_CAP];
    uint32_t experts = 0;
    TRY(may_u32(l, "expert_count", 0, UINT32_MAX, &experts));
    if (experts)
        return err_set(l->e, ST_UNSUPPORTED, "expert_count", "%s: mixtures of experts are not supported yet",
                       weights_shown(l->w));
    if (!weights_has(l->w, key_of(l, "attention.layer_norm_rms_epsilon", key, sizeof key)))
        return err_set(l->e, ST_MODEL, key, "%s: metadata key %s is missing", weights_shown(l->w), key);
    TRY(may_f32(l, "attention.layer_norm_rms_epsilon", 0, 1, &m->eps));
    TRY(may_f32(l, "attn_logit_softcapping", 0, SOFTCAP_MOST, &m->attn_softcap));
    TRY(may_f32(l, "final_logit_softcapping", 0, SOFTCAP_MOST, &m->final_softcap));
    bool by_width = in->layers == m->family->scale_by_width;
    m->attn_scale = (float)(1.0 / sqrt(by_width ? (double)in->width / in->heads : (double)in->head_dim));
    m->embed_scale = m->family->embed_scaled ? (float)sqrt((double)in->width) : 1;
    return ST_OK;
}

/* Groups: sliding layers, where there are any, then full ones. */
static enum status load_groups(struct loader *l)
{
    struct model *m = l->m;
    struct model_info *in = &m->info;
    uint32_t period = m->family->window_period;
    if (period) {
        TRY(need_u32(l, "attention.sliding_window", 1, LIMIT_CONTEXT, &in->window));
        TRY(may_u32(l, "attention.sliding_window_pattern", 1, LIMIT_LAYERS, &period));
    }
    m->layers = arena_try(&m->arena, in->layers * sizeof *m->layers);
    if (!m->layers)
        return err_set(l->e, ST_NO_MEMORY, "", "no memory for %u layers", in->layers);
    uint32_t group_of[2] = {UINT32_MAX, UINT32_MAX}; /* full, sliding */
    for (uint32_t i = 0; i < in->layers; i++) {
        struct layer *ly = &m->layers[i];
        int sliding = period && i % period != period - 1;
        if (group_of[sliding] == UINT32_MAX) {
            group_of[sliding] = in->kv_groups;
            in->kv_group[in->kv_groups++] =
                (struct kv_shape){.heads = in->kv_heads, .head_dim = in->head_dim, .window = sliding ? in->window : 0};
        }
        ly->group = group_of[sliding];
        ly->slot = in->kv_group[ly->group].layers++;
        ly->window = sliding ? in->window : 0;
        ly->rope = sliding ? &m->rope_local : &m->rope_full;
    }
    return ST_OK;
}

static enum status load_config(struct loader *l, uint32_t *rotated)
{
    struct model_info *in = &l->m->info;
    TRY(find_family(l));
    TRY(need_u32(l, "block_count", 1, LIMIT_LAYERS, &in->layers));
    TRY(need_u32(l, "embedding_length", 1, LIMIT_WIDTH, &in->width));
    TRY(need_u32(l, "feed_forward_length", 1, LIMIT_WIDTH, &in->ffn));
    TRY(need_u32(l, "context_length", 1, LIMIT_CONTEXT, &in->context));
    TRY(load_heads(l, rotated));
    TRY(load_scalars(l));
    TRY(load_pooling(l));
    return load_groups(l);
}

/* --- tensors --------------------------------------------------------------------------------------------------------- */

static const struct tensor *take(struct loader *l, const char *name)
{
    const struct tensor *t = weights_find(l->w, name);
    if (t)
        l->used[weights_index(l->w, t)] = 1;
    return t;
}

static enum status need(struct loader *l, const char *name, uint64_t cols, uint64_t rows, const struct tensor **out)
{
    const struct tensor *t = *out = take(l, name);
    if (!t)
        return err_set(l->e, ST_MODEL, name, "%s: tensor %s is missing", weights_shown(l->w), name);
    if (t->dim[0] != cols || t->dim[1] != rows || t->dim[2] != 1 || t->dim[3] != 1)
        return err_set(l->e, ST_MODEL, name,
                       "%s: tensor %s is %" PRIu64 " × %" PRIu64 ", expected %" PRIu64 " × %" PRIu64,
                       weights_shown(l->w), name, t->dim[0], t->dim[1], cols, rows);
    return ST_OK;
}

static enum status vector(struct loader *l, const char *name, uint64_t n, const float **out)
{
    const struct tensor *t;
    TRY(need(l, name, n, 1, &t));
    float *data = arena_try(&l->m->arena, n * sizeof *data);
    if (!data)
        return err_set(l->e, ST_NO_MEMORY, name, "no memory for tensor %s", name);
    weights_f32_data(l->w, t, data);
    *out = data;
    return ST_OK;
}

static enum status matrix(struct loader *l, const char *name, uint64_t cols, uint64_t rows, struct kern_mat *out)
{
    const struct tensor *t;
    TRY(need(l, name, cols, rows, &t));
    if (t->dims < 2)
        return err_set(l->e, ST_MODEL, name, "%s: tensor %s is a vector, expected a matrix", weights_shown(l->w), name);
    if (l->o->outline) {
        *out = (struct kern_mat){t->type, (uint32_t)rows, (uint32_t)cols, kern_panel_stride(t->type, (uint32_t)cols), NULL};
        return ST_OK;
    }
    packed_matrix(l->m->packed, t, l->o->pool, out);
    l->done += t->bytes;
    if (l->o->progress)
        l->o->progress(l->o->progress_ctx, l->done, l->total);
    return ST_OK;
}

/* "blk.7.attn_q.weight" */
static const char *layer_name(char *buf, size_t cap, uint32_t layer, const char *part)
{
    snprintf(buf, cap, "blk.%u.%s", layer, part);
    return buf;
}

static enum status load_layer(struct loader *l, uint32_t i)
{
    struct model *m = l->m;
    struct layer *ly = &m->layers[i];
    const struct model_info *in = &m->info;
    uint64_t d = in->width, qd = (uint64_t)in->heads * in->head_dim, kd = (uint64_t)in->kv_heads * in->head_dim;
    char n[64];
#define NAME(part) layer_name(n, sizeof n, i, part)
    TRY(vector(l, NAME("attn_norm.weight"), d, &ly->attn_norm));
    TRY(vector(l, NAME("ffn_norm.weight"), d, &ly->ffn_norm));
    if (m->family->sandwich) {
        TRY(vector(l, NAME("post_attention_norm.weight"), d, &ly->post_attn_norm));
        TRY(vector(l, NAME("post_ffw_norm.weight"), d, &ly->post_ffn_norm));
    }
    if (m->family->qk_norm) {
        TRY(vector(l, NAME("attn_q_norm.weight"), in->head_dim, &ly->q_norm));
        TRY(vector(l, NAME("attn_k_norm.weight"), in->head_dim, &ly->k_norm));
    }
    if (m->family->qkv_bias) {
        TRY(vector(l, NAME("attn_q.bias"), qd, &ly->q_bias));
        TRY(vector(l, NAME("attn_k.bias"), kd, &ly->k_bias));
        TRY(vector(l, NAME("attn_v.bias"), kd, &ly->v_bias));
    }
    TRY(matrix(l, NAME("attn_q.weight"), d, qd, &ly->q));
    TRY(matrix(l, NAME("attn_k.weight"), d, kd, &ly->k));
    TRY(matrix(l, NAME("attn_v.weight"), d, kd, &ly->v));
    TRY(matrix(l, NAME("attn_output.weight"), qd, d, &ly->o));
    TRY(matrix(l, NAME("ffn_gate.weight"), d, in->ffn, &ly->gate));
    TRY(matrix(l, NAME("ffn_up.weight"), d, in->ffn, &ly->up));
    TRY(matrix(l, NAME("ffn_down.weight"), in->ffn, d, &ly->down));
#undef NAME
    return ST_OK;
}

/* As many outputs as the tensor says, within the limits. */
static enum status out_matrix(struct loader *l, const char *name, uint64_t cols, struct kern_mat *out)
{
    uint64_t rows = weights_find(l->w, name)->dim[1];
    if (rows > LIMIT_WIDTH)
        return err_set(l->e, ST_UNSUPPORTED, name, "%s: tensor %s has %" PRIu64 " outputs, at most %u are possible",
                       weights_shown(l->w), name, rows, LIMIT_WIDTH);
    return matrix(l, name, cols, rows, out);
}

/* What vectors and classes are made with, where the file has it. */
static enum status load_vector(struct loader *l)
{
    static const char *const dense[] = {"dense_2.weight", "dense_3.weight"};
    struct model *m = l->m;
    m->info.vector = m->info.width;
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        if (weights_find(l->w, dense[i])) {
            TRY(out_matrix(l, dense[i], m->info.vector, &m->dense[m->dense_n]));
            m->info.vector = m->dense[m->dense_n++].rows;
        }
    if (!weights_find(l->w, "cls.output.weight"))
        return ST_OK;
    TRY(out_matrix(l, "cls.output.weight", m->info.width, &m->classes));
    m->info.classes = m->classes.rows;
    return weights_find(l->w, "cls.output.bias") ? vector(l, "cls.output.bias", m->classes.rows, &m->classes_bias) : ST_OK;
}

/* Room for every matrix as panels. */
static enum status reserve_panels(struct loader *l)
{
    for (size_t i = 0; i < weights_count(l->w); i++) {
        const struct tensor *t = weights_at(l->w, i);
        if (t->dims < 2)
            continue;
        if (t->dim[0] > LIMIT_WIDTH || t->dim[1] > LIMIT_VOCAB || t->dim[2] != 1 || t->dim[3] != 1)
            return err_set(l->e, ST_UNSUPPORTED, t->name, "%s: tensor %.64s is too large or has too many axes",
                           weights_shown(l->w), t->name);
        l->total += t->bytes;
    }
    if (l->o->outline)
        return ST_OK;
    return packed_new(&l->m->packed, l->w, l->o->store, l->o->pool, l->e);
}

/* The vocabulary is as long as its embedding. */
static enum status load_vocab(struct loader *l)
{
    const struct tensor *t = weights_find(l->w, "token_embd.weight");
    if (!t)
        return err_set(l->e, ST_MODEL, "token_embd.weight",
                       "%s: tensor token_embd.weight is missing: is this a file with a vocabulary only?",
                       weights_shown(l->w));
    if (t->dim[1] > LIMIT_VOCAB)
        return err_set(l->e, ST_MODEL, "token_embd.weight", "%s: %" PRIu64 " token embeddings, at most %u are possible",
                       weights_shown(l->w), t->dim[1], LIMIT_VOCAB);
    l->m->info.vocab = (uint32_t)t->dim[1];
    return ST_OK;
}

static enum status load_tensors(struct loader *l, uint32_t rotated)
{
    struct model *m = l->m;
    struct model_info *in = &m->info;
    const float *factors = NULL;
    if (weights_find(l->w, "rope_freqs.weight"))
        TRY(vector(l, "rope_freqs.weight", rotated / 2, &factors));
    for (uint32_t i = 0; factors && i < rotated / 2; i++)
        if (!(factors[i] > 0 && factors[i] < 1e9f))
            return err_set(l->e, ST_MODEL, "rope_freqs.weight", "%s: rope_freqs.weight has values out of range",
                           weights_shown(l->w));
    TRY(rope_load(m, l->w, rotated / 2, factors, l->e));
    TRY(vector(l, "output_norm.weight", in->width, &m->final_norm));
    for (uint32_t i = 0; i < in->layers; i++)
        TRY(load_layer(l, i));
    TRY(matrix(l, "token_embd.weight", in->width, in->vocab, &m->embed));
    m->head = m->embed;
    if (weights_find(l->w, "output.weight"))
        TRY(matrix(l, "output.weight", in->width, in->vocab, &m->head));
    TRY(load_vector(l));
    for (size_t i = 0; i < weights_count(l->w); i++)
        if (!l->used[i])
            return err_set(l->e, ST_UNSUPPORTED, weights_at(l->w, i)->name,
                           "%s: tensor %.64s belongs to a variant of %s that is not supported", weights_shown(l->w),
                           weights_at(l->w, i)->name, m->family->arch);
    return ST_OK;
}

/* --- what info says -------------------------------------------------------------------------------------------------- */

static size_t mat_bytes(const struct kern_mat *a)
{
    return a->stride * kern_panels(a->rows);
}

static void count_work(struct model *m, bool tied)
{
    struct model_info *in = &m->info;
    in->head_macs = (size_t)m->head.rows * m->head.cols;
    in->token_bytes = mat_bytes(&m->head);
    in->weight_bytes = mat_bytes(&m->embed) + (tied ? 0 : mat_bytes(&m->head)) + mat_bytes(&m->dense[0])
                       + mat_bytes(&m->dense[1]) + mat_bytes(&m->classes);
    for (uint32_t i = 0; i < in->layers; i++) {
        const struct layer *ly = &m->layers[i];
        const struct kern_mat *all[] = {&ly->q, &ly->k, &ly->v, &ly->o, &ly->gate, &ly->up, &ly->down};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
            in->token_macs += (size_t)all[j]->rows * all[j]->cols;
            in->token_bytes += mat_bytes(all[j]);
            in->weight_bytes += mat_bytes(all[j]);
        }
    }
}

static enum status describe(struct loader *l)
{
    struct model_info *in = &l->m->info;
    uint32_t count[KERN_TYPES] = {0};
    for (size_t i = 0; i < weights_count(l->w); i++) {
        const struct tensor *t = weights_at(l->w, i);
        count[t->type]++;
        in->parameters += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    }
    struct buf b;
    buf_init(&b, 512);
    for (int t = 0; t < KERN_TYPES; t++)
        if (count[t])
            buf_addf(&b, "%s%u %s", b.len ? ", " : "", count[t], kern_type_info((enum kern_type)t)->name);
    struct weights_str name;
    const char *path = weights_shown(l->w), *slash = strrchr(path, '/');
    if (!weights_string(l->w, "general.name", &name) || !name.n) {
        name.s = slash ? slash + 1 : path;
        name.n = strlen(name.s);
    }
    char plain[LIMIT_NAME + 1];
    model_plain(name, plain, sizeof plain);
    in->types = b.failed || !b.data ? NULL : arena_copy(&l->m->arena, b.data, b.len);
    in->name = arena_copy(&l->m->arena, plain, strlen(plain));
    buf_release(&b);
    count_work(l->m, !weights_find(l->w, "output.weight"));
    return in->types && in->name ? ST_OK : err_set(l->e, ST_NO_MEMORY, "", "no memory to describe the model");
}

enum status model_new(struct model **out, struct weights *w, const struct model_options *o, struct err *e)
{
    *out = NULL;
    struct model *m = calloc(1, sizeof *m);
    struct loader l = {.m = m, .w = w, .o = o, .e = e, .used = calloc(weights_count(w) + 1, 1)};
    uint32_t rotated = 0;
    enum status st = ST_OK;
    if (!m || !l.used) {
        st = err_set(e, ST_NO_MEMORY, "", "no memory for a model");
        goto done;
    }
    arena_init(&m->arena, LIMIT_MODEL_ARENA);
    m->ops = o->ops;
    if ((st = load_config(&l, &rotated)) == ST_OK && (st = load_vocab(&l)) == ST_OK && (st = reserve_panels(&l)) == ST_OK
        && (st = load_tensors(&l, rotated)) == ST_OK) {
        if (!o->outline) {
            packed_keep(m->packed, o->pool);
            m->info.panels = packed_origin(m->packed);
        }
        st = describe(&l);
    }
done:
    free(l.used);
    if (st == ST_OK)
        *out = m;
    else
        model_free(m);
    return st;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    packed_free(m->packed);
    arena_release(&m->arena);
    free(m);
}

const struct model_info *model_info(const struct model *m)
{
    return &m->info;
}
