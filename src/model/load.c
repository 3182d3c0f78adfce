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

#define ARENA_LIMIT ((size_t)1 << 30) /* norms and biases of the largest models are far below */

struct loader {
    struct model *m;
    struct weights *w;
    const struct model_options *o;
    struct err *e;
    uint8_t *used;       /* per tensor */
    size_t fill;         /* bytes of panels given out */
    size_t done, total;  /* source bytes, for progress */
};

/* --- metadata -------------------------------------------------------------------------------------------------------- */

static bool meta_u32(struct loader *l, const char *name, uint32_t *out)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", l->m->family->arch, name);
    return weights_u32(l->w, key, out);
}

static enum status need_u32(struct loader *l, const char *name, uint32_t lo, uint32_t hi, uint32_t *out)
{
    if (!meta_u32(l, name, out))
        return err_set(l->e, ST_MODEL, name, "%s: metadata key %s.%s is missing", weights_path(l->w),
                       l->m->family->arch, name);
    if (*out < lo || *out > hi)
        return err_set(l->e, ST_MODEL, name, "%s: %s.%s is %u, expected %u to %u", weights_path(l->w),
                       l->m->family->arch, name, *out, lo, hi);
    return ST_OK;
}

static enum status find_family(struct loader *l)
{
    struct weights_str arch;
    if (!weights_string(l->w, "general.architecture", &arch))
        return err_set(l->e, ST_MODEL, "general.architecture", "%s: metadata key general.architecture is missing",
                       weights_path(l->w));
    l->m->family = family_find(arch.s, arch.n);
    if (!l->m->family)
        return err_set(l->e, ST_UNSUPPORTED, "general.architecture",
                       "%.100s: architecture \"%.*s\" is not supported, expected one of %s", weights_path(l->w),
                       (int)(arch.n < 40 ? arch.n : 40), arch.s, family_names());
    l->m->info.architecture = l->m->family->arch;
    return ST_OK;
}

static enum status load_heads(struct loader *l, uint32_t *rotated)
{
    struct model_info *in = &l->m->info;
    uint32_t value_dim, key_dim;
    TRY(need_u32(l, "attention.head_count", 1, LIMIT_HEADS, &in->heads));
    in->kv_heads = in->heads;
    char key[96];
    snprintf(key, sizeof key, "%s.attention.head_count_kv", l->m->family->arch);
    if (weights_has(l->w, key))
        TRY(need_u32(l, "attention.head_count_kv", 1, in->heads, &in->kv_heads));
    if (in->heads % in->kv_heads)
        return err_set(l->e, ST_MODEL, "attention.head_count_kv", "%s: %u heads do not share %u KV heads evenly",
                       weights_path(l->w), in->heads, in->kv_heads);
    if (in->heads / in->kv_heads > KERN_ATTN_VECTORS)
        return err_set(l->e, ST_UNSUPPORTED, "attention.head_count", "%s: %u heads share a KV head, at most %u can",
                       weights_path(l->w), in->heads / in->kv_heads, KERN_ATTN_VECTORS);
    key_dim = in->width / in->heads;
    meta_u32(l, "attention.key_length", &key_dim);
    value_dim = key_dim;
    meta_u32(l, "attention.value_length", &value_dim);
    if (key_dim != value_dim || key_dim % 16 || !key_dim || key_dim > LIMIT_HEAD_DIM)
        return err_set(l->e, ST_UNSUPPORTED, "attention.key_length",
                       "%s: heads of %u keys and %u values, expected equal multiples of 16 up to %u",
                       weights_path(l->w), key_dim, value_dim, LIMIT_HEAD_DIM);
    in->head_dim = key_dim;
    *rotated = key_dim;
    meta_u32(l, "rope.dimension_count", rotated);
    if (*rotated < 2 || *rotated % 2 || *rotated > key_dim)
        return err_set(l->e, ST_MODEL, "rope.dimension_count", "%s: %u rotated channels of %u", weights_path(l->w),
                       *rotated, key_dim);
    return ST_OK;
}

static enum status load_scalars(struct loader *l)
{
    struct model *m = l->m;
    char key[96];
    uint32_t experts = 0;
    if (meta_u32(l, "expert_count", &experts) && experts)
        return err_set(l->e, ST_UNSUPPORTED, "expert_count", "%s: mixtures of experts are not supported yet",
                       weights_path(l->w));
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", m->family->arch);
    if (!weights_f32(l->w, key, &m->eps) || !(m->eps >= 0 && m->eps < 1))
        return err_set(l->e, ST_MODEL, key, "%s: metadata key %s is missing or out of range", weights_path(l->w), key);
    m->attn_scale = (float)(1.0 / sqrt((double)m->info.head_dim));
    m->embed_scale = m->family->embed_scaled ? (float)sqrt((double)m->info.width) : 1;
    if (m->family == &family_gemma3 && m->info.layers == 62) /* 27B alone: 1 / sqrt(width / heads) */
        m->attn_scale = (float)(1.0 / sqrt((double)m->info.width / m->info.heads));
    snprintf(key, sizeof key, "%s.attn_logit_softcapping", m->family->arch);
    weights_f32(l->w, key, &m->attn_softcap);
    snprintf(key, sizeof key, "%s.final_logit_softcapping", m->family->arch);
    weights_f32(l->w, key, &m->final_softcap);
    if (!(m->attn_softcap >= 0 && m->final_softcap >= 0))
        return err_set(l->e, ST_MODEL, key, "%s: softcapping must not be negative", weights_path(l->w));
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
        meta_u32(l, "attention.sliding_window_pattern", &period);
        if (period < 1 || period > in->layers + 1 || period > 1000)
            period = m->family->window_period;
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
        return err_set(l->e, ST_MODEL, name, "%.120s: tensor %s is missing", weights_path(l->w), name);
    if (t->dim[0] != cols || t->dim[1] != rows || t->dim[2] != 1 || t->dim[3] != 1)
        return err_set(l->e, ST_MODEL, name,
                       "%.100s: tensor %s is %" PRIu64 " × %" PRIu64 ", expected %" PRIu64 " × %" PRIu64,
                       weights_path(l->w), name, t->dim[0], t->dim[1], cols, rows);
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
    weights_pack(l->w, t, l->o->pool, l->m->panels + l->fill, out);
    l->fill += mem_round(kern_mat_bytes(t->type, (uint32_t)rows, (uint32_t)cols), 64);
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

/* Room for every matrix as panels, rounded so that each begins on a cache line. */
static enum status reserve_panels(struct loader *l)
{
    size_t sum = 0;
    for (size_t i = 0; i < weights_count(l->w); i++) {
        const struct tensor *t = weights_at(l->w, i);
        if (t->dims < 2)
            continue;
        if (t->dim[0] > LIMIT_WIDTH || t->dim[1] > LIMIT_VOCAB || t->dim[2] != 1 || t->dim[3] != 1)
            return err_set(l->e, ST_UNSUPPORTED, t->name, "%.100s: tensor %.64s is too large or has too many axes",
                           weights_path(l->w), t->name);
        sum = mem_add(sum, mem_add(kern_mat_bytes(t->type, (uint32_t)t->dim[1], (uint32_t)t->dim[0]), 64));
        l->total += t->bytes;
    }
    l->m->panels = mem_map(sum);
    l->m->panels_bytes = sum;
    if (!l->m->panels)
        return err_set(l->e, ST_NO_MEMORY, "", "%.100s: no memory for %zu MB of weights", weights_path(l->w), sum >> 20);
    return ST_OK;
}

static enum status load_tensors(struct loader *l, uint32_t rotated)
{
    struct model *m = l->m;
    struct model_info *in = &m->info;
    const struct tensor *t = weights_find(l->w, "token_embd.weight");
    if (!t || t->dim[1] > LIMIT_VOCAB)
        return err_set(l->e, ST_MODEL, "token_embd.weight", "%.100s: tensor token_embd.weight is missing or too large",
                       weights_path(l->w));
    in->vocab = (uint32_t)t->dim[1];
    const float *factors = NULL;
    if (weights_find(l->w, "rope_freqs.weight"))
        TRY(vector(l, "rope_freqs.weight", rotated / 2, &factors));
    for (uint32_t i = 0; factors && i < rotated / 2; i++)
        if (!(factors[i] > 0 && factors[i] < 1e9f))
            return err_set(l->e, ST_MODEL, "rope_freqs.weight", "%.100s: rope_freqs.weight has values out of range",
                           weights_path(l->w));
    TRY(rope_load(m, l->w, rotated / 2, factors, l->e));
    TRY(vector(l, "output_norm.weight", in->width, &m->final_norm));
    for (uint32_t i = 0; i < in->layers; i++)
        TRY(load_layer(l, i));
    TRY(matrix(l, "token_embd.weight", in->width, in->vocab, &m->embed));
    m->head = m->embed;
    if (weights_find(l->w, "output.weight"))
        TRY(matrix(l, "output.weight", in->width, in->vocab, &m->head));
    for (size_t i = 0; i < weights_count(l->w); i++)
        if (!l->used[i])
            return err_set(l->e, ST_UNSUPPORTED, weights_at(l->w, i)->name,
                           "%.100s: tensor %.64s belongs to a variant of %s that is not supported", weights_path(l->w),
                           weights_at(l->w, i)->name, m->family->arch);
    return ST_OK;
}

/* --- what info says -------------------------------------------------------------------------------------------------- */

static size_t mat_bytes(const struct kern_mat *a)
{
    return a->stride * kern_panels(a->rows);
}

static void count_work(struct model *m)
{
    struct model_info *in = &m->info;
    in->head_macs = (size_t)m->head.rows * m->head.cols;
    in->token_bytes = mat_bytes(&m->head);
    in->weight_bytes = mat_bytes(&m->embed) + (m->head.panels == m->embed.panels ? 0 : mat_bytes(&m->head));
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
    const char *path = weights_path(l->w), *slash = strrchr(path, '/');
    if (!weights_string(l->w, "general.name", &name) || !name.n || name.n > 200) {
        name.s = slash ? slash + 1 : path;
        name.n = strlen(name.s);
    }
    in->types = b.failed || !b.data ? NULL : arena_copy(&l->m->arena, b.data, b.len);
    in->name = arena_copy(&l->m->arena, name.s, name.n);
    buf_release(&b);
    count_work(l->m);
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
    arena_init(&m->arena, ARENA_LIMIT);
    m->ops = o->ops;
    if ((st = load_config(&l, &rotated)) == ST_OK && (st = reserve_panels(&l)) == ST_OK
        && (st = load_tensors(&l, rotated)) == ST_OK)
        st = describe(&l);
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
    mem_unmap(m->panels, m->panels_bytes);
    arena_release(&m->arena);
    free(m);
}

const struct model_info *model_info(const struct model *m)
{
    return &m->info;
}
