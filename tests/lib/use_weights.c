/* use_weights: see use_weights.h. */
#include "use_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/gguf.h"

#define CHECK(x) \
    do { \
        if (!(x)) { \
            fprintf(stderr, "use_weights: " #x "\n"); \
            abort(); \
        } \
    } while (0)

static void count_text(void *ctx, const char *key, const char *value)
{
    *(size_t *)ctx += strlen(key) + strlen(value);
}

static void read_arrays(const struct weights *w, const char *key)
{
    size_t n = weights_array(w, key);
    struct weights_str *s = calloc(n + 1, sizeof *s);
    float *f = calloc(n + 1, sizeof *f);
    int32_t *d = calloc(n + 1, sizeof *d);
    CHECK(s && f && d);
    unsigned sum = 0;
    if (weights_strings(w, key, s, n))
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < s[i].n; k++)
                sum += (unsigned char)s[i].s[k];
    (void)weights_f32s(w, key, f, n);
    (void)weights_i32s(w, key, d, n);
    __asm__ volatile("" : : "r"(sum)); /* so that the reading is not left out */
    free(s);
    free(f);
    free(d);
}

static void read_metadata(const struct weights *w)
{
    const struct gguf_file *f = &w->parts[0];
    size_t bytes = 0;
    weights_each_meta(w, count_text, &bytes);
    for (size_t i = 0; i < f->metas; i++) {
        char *key = strndup(f->meta[i].key.s, f->meta[i].key.n);
        uint64_t u;
        float x;
        bool b;
        struct weights_str s;
        CHECK(key && weights_has(w, key));
        int kinds = weights_u64(w, key, &u) + weights_f32(w, key, &x) + weights_bool(w, key, &b)
                    + weights_string(w, key, &s) + (weights_array(w, key) > 0);
        CHECK(kinds <= 1);
        read_arrays(w, key);
        free(key);
    }
}

static void pack_tensors(const struct weights *w, struct pool *pool)
{
    for (size_t i = 0; i < weights_count(w); i++) {
        const struct tensor *t = weights_at(w, i);
        const struct gguf_file *f = gguf_part(w, t);
        const uint8_t *data = t->data;
        CHECK(weights_find(w, t->name) == t);
        CHECK(data >= f->base && t->bytes <= f->size && data - f->base <= (ptrdiff_t)(f->size - t->bytes));
        uint32_t rows = (uint32_t)(t->dim[1] * t->dim[2] * t->dim[3]);
        size_t n = kern_mat_bytes(t->type, rows, (uint32_t)t->dim[0]), values = (size_t)rows * t->dim[0];
        uint8_t *panels = mem_map(n);
        float *x = malloc(values * sizeof *x);
        struct kern_mat m;
        CHECK(panels && x);
        weights_f32_data(w, t, x);
        weights_pack(w, t, pool, panels, &m);
        mem_unmap(panels, n);
        free(x);
    }
}

void use_weights(const struct weights *w, struct pool *pool)
{
    read_metadata(w);
    pack_tensors(w, pool);
}
