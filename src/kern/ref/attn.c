/*
 * attn: attention over a paged cache, the defining loops.
 *
 * For one query and one partial of 256 keys: score = (Σ over d ascending of fmaf(k, q)) × scale, softcapped; m = the
 * largest live score; e = exp(score - m); l = Σ e in 16 partial sums (key mod 16); o = Σ over live keys ascending of
 * fmaf(e, v). Partials are merged in order, rescaling only between them.
 */
#include <math.h>
#include <string.h>

#include "kern/ref/math.h"
#include "kern/ref/ref.h"

static const uint8_t *block_of(const struct kern_kv_view *kv, uint64_t pos)
{
    return kv->base + (size_t)kv->table[pos / KERN_KV_TOKENS] * kv->block_bytes;
}

static float kv_load(const struct kern_kv_view *kv, const uint8_t *p, size_t i)
{
    if (kv->format == KERN_KV_F32) {
        float f;
        memcpy(&f, p + 4 * i, sizeof f);
        return f;
    }
    uint16_t h;
    memcpy(&h, p + 2 * i, sizeof h);
    return half_f32(h);
}

static void kv_save(const struct kern_kv_view *kv, uint8_t *p, size_t i, float x)
{
    if (kv->format == KERN_KV_F32) {
        memcpy(p + 4 * i, &x, sizeof x);
        return;
    }
    uint16_t h = f32_half(x);
    memcpy(p + 2 * i, &h, sizeof h);
}

/* One query against the keys [lo, hi) of one partial. */
static void partial(const struct kern_attn *a, const float *q, uint64_t lo, uint64_t hi, float *acc)
{
    uint32_t hd = a->kv.head_dim;
    float e[KERN_PARTIAL], m = -INFINITY, sum[16] = {0};
    memset(acc, 0, (hd + KERN_ACC_EXTRA) * sizeof *acc);
    for (uint64_t t = lo; t < hi; t++) {
        const uint8_t *k = block_of(&a->kv, t) + a->kv.k_offset;
        float s = 0;
        for (uint32_t d = 0; d < hd; d++)
            s = fmaf(kv_load(&a->kv, k, (size_t)d * KERN_KV_TOKENS + t % KERN_KV_TOKENS), q[d], s);
        s = s * a->scale;
        if (a->softcap > 0)
            s = a->softcap * ref_tanh(s / a->softcap);
        e[t - lo] = s;
        m = s > m ? s : m;
    }
    for (uint64_t t = lo; t < hi; t++) {
        e[t - lo] = ref_exp(e[t - lo] - m);
        sum[t % 16] += e[t - lo];
    }
    for (uint64_t t = lo; t < hi; t++) {
        const uint8_t *v = block_of(&a->kv, t) + a->kv.v_offset;
        for (uint32_t c = 0; c < hd; c++)
            acc[c] = fmaf(e[t - lo], kv_load(&a->kv, v, (size_t)(t % KERN_KV_TOKENS) * hd + c), acc[c]);
    }
    acc[hd] = m;
    acc[hd + 1] = ref_sum16(sum);
}

void kern_ref_attn(const struct kern_attn *a, float *acc, void *scratch)
{
    (void)scratch;
    uint32_t hd = a->kv.head_dim;
    for (uint64_t p = a->part0; p < a->part1; p++)
        for (uint32_t i = 0; i < a->queries; i++)
            for (uint32_t h = 0; h < a->heads; h++, acc += hd + KERN_ACC_EXTRA) {
                uint64_t lo, hi, first = p * KERN_PARTIAL, end = first + KERN_PARTIAL;
                kern_attn_sees(a->window, a->keys, a->pos0 + i, &lo, &hi);
                lo = lo > first ? lo : first;
                hi = hi < end ? hi : end;
                if (lo < hi)
                    partial(a, a->q + i * a->q_token + (size_t)h * hd, lo, hi, acc);
                else
                    memset(acc, 0, (hd + KERN_ACC_EXTRA) * sizeof *acc);
            }
}

void kern_ref_attn_fold(float *run, const float *part, uint32_t head_dim)
{
    float m = run[head_dim], l = run[head_dim + 1], m2 = part[head_dim], l2 = part[head_dim + 1];
    if (l2 == 0)
        return;
    if (l == 0) {
        memcpy(run, part, (head_dim + KERN_ACC_EXTRA) * sizeof *run);
        return;
    }
    float top = m > m2 ? m : m2, a = ref_exp(m - top), b = ref_exp(m2 - top);
    for (uint32_t c = 0; c < head_dim; c++)
        run[c] = fmaf(part[c], b, run[c] * a);
    run[head_dim] = top;
    run[head_dim + 1] = fmaf(l2, b, l * a);
}

void kern_ref_attn_finish(const float *run, uint32_t head_dim, float *out)
{
    float inv = 1.0f / run[head_dim + 1];
    for (uint32_t c = 0; c < head_dim; c++)
        out[c] = run[c] * inv;
}

void kern_ref_kv_store(const struct kern_kv_view *kv, uint64_t pos, uint32_t n, const float *k, const float *v,
                       size_t stride)
{
    for (uint32_t i = 0; i < n; i++, pos++, k += stride, v += stride) {
        uint8_t *block = kv->base + (size_t)kv->table[pos / KERN_KV_TOKENS] * kv->block_bytes;
        uint32_t t = (uint32_t)(pos % KERN_KV_TOKENS);
        for (uint32_t d = 0; d < kv->head_dim; d++) {
            kv_save(kv, block + kv->k_offset, (size_t)d * KERN_KV_TOKENS + t, k[d]);
            kv_save(kv, block + kv->v_offset, (size_t)t * kv->head_dim + d, v[d]);
        }
    }
}
