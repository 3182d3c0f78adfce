/* ops: the remaining operations and the table of the reference level. */
#include <math.h>

#include "kern/ref/math.h"
#include "kern/ref/ref.h"

/* Σ x² in 16 partial sums (k mod 16), one tree, then 1 / sqrt: no approximate reciprocal anywhere. */
static void rms_norm(const float *x, const float *w, uint32_t n, float eps, float *y)
{
    float sum[16] = {0};
    for (uint32_t k = 0; k < n; k++)
        sum[k % 16] = fmaf(x[k], x[k], sum[k % 16]);
    float scale = 1.0f / sqrtf(ref_sum16(sum) / (float)n + eps);
    for (uint32_t k = 0; k < n; k++)
        y[k] = x[k] * scale * w[k];
}

static void glu(enum kern_glu kind, const float *gate, const float *up, uint32_t n, float *y)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (kind == KERN_SILU ? ref_silu(gate[i]) : ref_gelu_tanh(gate[i])) * up[i];
}

static void add(float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = x[i] + y[i];
}

static void softcap(float *x, uint32_t n, float cap)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = cap * ref_tanh(x[i] / cap);
}

static void rope(float *x, const float *cs, uint32_t n, bool interleaved)
{
    for (uint32_t i = 0; i < n; i++) {
        float *a = interleaved ? &x[2 * i] : &x[i], *b = interleaved ? &x[2 * i + 1] : &x[i + n];
        float c = cs[i], s = cs[n + i], u = *a, v = *b;
        *a = fmaf(u, c, -(v * s));
        *b = fmaf(v, c, u * s);
    }
}

static struct kern_top argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    bool finite = true;
    for (uint32_t i = 0; i < n; i++) {
        finite &= (f32_bits(x[i]) & 0x7F800000u) != 0x7F800000u;
        if (x[i] > x[best])
            best = i;
    }
    return (struct kern_top){finite, best, x[best]};
}

static float exp_sum(const float *x, uint32_t n, float max)
{
    float sum[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        sum[i % 16] += ref_exp(x[i] - max);
    return ref_sum16(sum);
}

float kern_exp(float x)
{
    return ref_exp(x);
}

const struct kern_ops kern_ref_ops = {
    .name = "ref",
    .linear = kern_ref_linear,
    .quantise = kern_ref_quantise,
    .rms_norm = rms_norm,
    .glu = glu,
    .add = add,
    .softcap = softcap,
    .rope = rope,
    .kv_store = kern_ref_kv_store,
    .attn = kern_ref_attn,
    .attn_fold = kern_ref_attn_fold,
    .attn_finish = kern_ref_attn_finish,
    .argmax = argmax,
    .exp_sum = exp_sum,
};
