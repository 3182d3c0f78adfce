/*
 * embed: from final states to the vector of a text.
 *
 * States are added up in the order of their positions, channel by channel, so a sum that goes on in a later step has the
 * bits of one that was made at once. What follows is small: a mean, up to two dense layers, a division by the length.
 */
#include <math.h>
#include <string.h>

#include "model/run.h"

#define NORMS_PER_TASK 8u
#define CHANNELS_PER_TASK 64u

struct pool_job {
    struct model_run *r;
    uint32_t at, n;
    float *sum;
};

static void norm_task(void *ctx, uint32_t task, int worker)
{
    const struct pool_job *j = ctx;
    const struct model *m = j->r->m;
    uint32_t d = m->info.width, from = task * NORMS_PER_TASK, to = from + NORMS_PER_TASK;
    (void)worker;
    for (uint32_t i = from; i < to && i < j->n; i++)
        m->ops->rms_norm(j->r->x + (size_t)(j->at + i) * d, m->final_norm, d, m->eps, j->r->xn + (size_t)i * d);
}

static void sum_task(void *ctx, uint32_t task, int worker)
{
    const struct pool_job *j = ctx;
    const struct model *m = j->r->m;
    uint32_t d = m->info.width, from = task * CHANNELS_PER_TASK;
    uint32_t n = d - from < CHANNELS_PER_TASK ? d - from : CHANNELS_PER_TASK;
    (void)worker;
    for (uint32_t i = 0; i < j->n; i++)
        m->ops->add(j->sum + from, j->r->xn + (size_t)i * d + from, n);
}

void model_pool(struct model_run *r, uint32_t at, uint32_t n, float *sum)
{
    struct pool_job j = {r, at, n, sum};
    if (at > r->tokens || n > r->tokens - at)
        BUG("states [%u, %u + %u) of %u tokens", at, at, n, r->tokens);
    pool_run(r->pool, norm_task, &j, (n + NORMS_PER_TASK - 1) / NORMS_PER_TASK);
    pool_run(r->pool, sum_task, &j, (r->m->info.width + CHANNELS_PER_TASK - 1) / CHANNELS_PER_TASK);
}

/* x[n] to probabilities. */
static void softmax(float *x, uint32_t n)
{
    float top = x[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] = kern_exp(x[i] - top);
    for (uint32_t i = 0; i < n; i++)
        x[i] /= sum;
}

/* x[n] to length 1; nothing but zeros stays so. */
static void normalise(float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n && sum > 0; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

static bool is_finite(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* x[width], in the run's room; the result is there or in the other half of it. */
static const float *through_dense(struct model_run *r, float *x)
{
    for (uint32_t i = 0; i < r->m->dense_n; i++) {
        float *to = x == r->vec[0] ? r->vec[1] : r->vec[0];
        model_run_dense(r, &r->m->dense[i], x, to);
        x = to;
    }
    return x;
}

bool model_vector(struct model_run *r, const float *sum, uint32_t n, bool rank, float *out)
{
    const struct model *m = r->m;
    uint32_t size = rank ? m->info.classes : m->info.vector;
    float *mean = r->vec[0];
    for (uint32_t c = 0; c < m->info.width; c++)
        mean[c] = sum[c] / (float)n;
    if (rank)
        model_run_dense(r, &m->classes, mean, out);
    else
        memcpy(out, through_dense(r, mean), size * sizeof *out);
    if (rank && m->classes_bias)
        m->ops->add(out, m->classes_bias, size);
    if (!is_finite(out, size))
        return false;
    if (!rank)
        normalise(out, size);
    else if (size > 1)
        softmax(out, size);
    return true;
}
