/*
 * pack: tensors into kernel panels.
 *
 * A tensor is packed in slices. After each slice its source pages leave this process (they stay in the page cache, so a
 * second start is warm), and before it the system is told to read the slice after, so that a cold disk and the workers
 * are busy at the same time. Peak memory is therefore the panels plus about two slices.
 */
#include "weights/gguf.h"

#define SLICE_BYTES (4u << 20)       /* of source, for a small pool */
#define SLICE_WORKER_BYTES (1u << 20) /* and more for a large one, so that every worker has its share */
#define TASKS_PER_WORKER 4u          /* so that a slow core takes fewer */

struct pack_job {
    enum kern_type type;
    uint32_t rows, cols;
    const void *src;
    uint8_t *dst;
    uint32_t begin, end; /* panels of this slice */
    uint32_t step;       /* panels of a task */
};

static void pack_task(void *ctx, uint32_t task, int worker)
{
    const struct pack_job *j = ctx;
    uint64_t p0 = j->begin + (uint64_t)task * j->step, p1 = p0 + j->step;
    (void)worker;
    kern_pack(j->type, j->rows, j->cols, j->src, (uint32_t)p0, (uint32_t)(p1 < j->end ? p1 : j->end), j->dst);
}

/* Bytes of the tensor's rows in panels [0, p). */
static size_t source_end(const struct tensor *t, uint32_t rows, size_t row_bytes, uint64_t p)
{
    return p * KERN_LANES >= rows ? t->bytes : p * KERN_LANES * row_bytes;
}

void weights_pack(const struct weights *w, const struct tensor *t, struct pool *pool, uint8_t *dst,
                  struct kern_mat *out)
{
    const struct gguf_file *f = gguf_part(w, t);
    const uint8_t *src = t->data;
    uint32_t rows = (uint32_t)(t->dim[1] * t->dim[2] * t->dim[3]), cols = (uint32_t)t->dim[0]; /* fit: gguf.c */
    size_t row_bytes = t->bytes / rows, slice_bytes = (size_t)pool_size(pool) * SLICE_WORKER_BYTES;
    if (slice_bytes < SLICE_BYTES)
        slice_bytes = SLICE_BYTES;
    uint32_t panels = kern_panels(rows);
    uint64_t slice = slice_bytes / (row_bytes * KERN_LANES); /* in panels */
    if (slice < (uint64_t)pool_size(pool)) /* very long rows: still something for everyone */
        slice = (uint64_t)pool_size(pool);
    uint64_t share = slice / ((uint64_t)pool_size(pool) * TASKS_PER_WORKER);
    struct pack_job job = {t->type, rows, cols, src, dst, 0, 0, share ? (uint32_t)share : 1};
    gguf_will_need(f, src, source_end(t, rows, row_bytes, slice));
    for (uint64_t p = 0; p < panels; p += slice) {
        uint64_t next = p + slice < panels ? p + slice : panels;
        size_t from = source_end(t, rows, row_bytes, p), to = source_end(t, rows, row_bytes, next);
        gguf_will_need(f, src + to, source_end(t, rows, row_bytes, next + slice) - to);
        job.begin = (uint32_t)p;
        job.end = (uint32_t)next;
        pool_run(pool, pack_task, &job, (job.end - job.begin + job.step - 1) / job.step);
        gguf_forget(f, src + from, to - from);
    }
    weights_packed_mat(t, dst, out);
}

void weights_packed_mat(const struct tensor *t, const uint8_t *dst, struct kern_mat *out)
{
    uint32_t rows = (uint32_t)(t->dim[1] * t->dim[2] * t->dim[3]), cols = (uint32_t)t->dim[0];
    *out = (struct kern_mat){
        .type = t->type, .rows = rows, .cols = cols, .stride = kern_panel_stride(t->type, cols), .panels = dst};
}

void weights_f32_data(const struct weights *w, const struct tensor *t, float *out)
{
    (void)w;
    kern_to_f32(t->type, t->data, t->bytes / kern_type_info(t->type)->file_bytes * kern_type_info(t->type)->block, out);
}

void weights_drop(const struct weights *w, const struct tensor *t)
{
    gguf_forget(gguf_part(w, t), t->data, t->bytes);
}
