/*
 * machine: what this machine's memory and kernels do at best, all workers together.
 *
 * Measured once for each processor, kernel level and number of threads, in about half a second, and kept in the cache
 * folder. It is where the cost model begins; real steps correct it from then on, so it need not be precise, and any
 * trouble with the file only means measuring again.
 */
#include "cli/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kern/kern.h"

/* --- memory ---------------------------------------------------------------------------------------------------------- */

#define PROBE_BYTES ((size_t)192 << 20) /* several times any last-level cache the project has met in a small machine */
#define PROBE_PIECE ((size_t)1 << 20)

struct memory_probe {
    uint64_t *data;
    uint64_t sum[LIMIT_THREADS]; /* keeps the reads from being left out */
};

static void fill_piece(void *ctx, uint32_t task, int worker)
{
    (void)worker;
    struct memory_probe *p = ctx;
    memset((char *)p->data + task * PROBE_PIECE, 1, PROBE_PIECE);
}

static void read_piece(void *ctx, uint32_t task, int worker)
{
    struct memory_probe *p = ctx;
    const uint64_t *d = p->data + task * (PROBE_PIECE / 8);
    uint64_t a = 0, b = 0, c = 0, f = 0;
    for (size_t i = 0; i < PROBE_PIECE / 8; i += 8) {
        a += d[i] + d[i + 1];
        b += d[i + 2] + d[i + 3];
        c += d[i + 4] + d[i + 5];
        f += d[i + 6] + d[i + 7];
    }
    p->sum[worker] += a + b + c + f;
}

double machine_probe_memory(struct pool *workers)
{
    static struct memory_probe p;
    uint32_t pieces = (uint32_t)(PROBE_BYTES / PROBE_PIECE);
    double best = 0;
    p.data = mem_map(PROBE_BYTES);
    if (!p.data)
        return 0;
    pool_run(workers, fill_piece, &p, pieces);
    for (int i = 0; i < 3; i++) {
        double t = clock_seconds();
        pool_run(workers, read_piece, &p, pieces);
        t = clock_seconds() - t;
        best = fmax(best, (double)PROBE_BYTES / t);
    }
    mem_unmap(p.data, PROBE_BYTES);
    return best;
}

/* --- products -------------------------------------------------------------------------------------------------------- */

#define MACS_ROWS 256u /* a matrix that stays in a core's own cache */
#define MACS_COLS 1024u
#define MACS_TOKENS 32u
#define MACS_TASKS 64u

struct macs_probe {
    const struct kern_ops *ops;
    struct kern_mat mat;
    struct kern_act act;
    float *out; /* [threads][tokens][rows] */
};

static void multiply(void *ctx, uint32_t task, int worker)
{
    (void)task;
    struct macs_probe *p = ctx;
    p->ops->linear(&p->mat, 0, kern_panels(MACS_ROWS), &p->act,
                   p->out + (size_t)worker * MACS_TOKENS * MACS_ROWS, MACS_ROWS);
}

/* Multiply-accumulates per second with 4-bit weights: the common case, and zeros are as fast as other numbers. */
static double probe_macs(struct pool *workers, const struct kern_ops *ops)
{
    size_t mat = kern_mat_bytes(KERN_Q4_0, MACS_ROWS, MACS_COLS), x = (size_t)MACS_TOKENS * MACS_COLS;
    size_t meta = x / 32 * sizeof(struct kern_xmeta);
    size_t out = (size_t)pool_size(workers) * MACS_TOKENS * MACS_ROWS * sizeof(float);
    size_t bytes = mat + 4 * x + x + meta + out;
    uint8_t *at = mem_map(bytes);
    double best = 0;
    if (!at)
        return 0;
    struct macs_probe p = {.ops = ops};
    p.mat = (struct kern_mat){KERN_Q4_0, MACS_ROWS, MACS_COLS, kern_panel_stride(KERN_Q4_0, MACS_COLS), at};
    p.act = (struct kern_act){.tokens = MACS_TOKENS, .cols = MACS_COLS, .x = (float *)(void *)(at + mat),
                              .q = (int8_t *)(at + mat + 4 * x), .meta = (struct kern_xmeta *)(void *)(at + mat + 5 * x)};
    p.out = (float *)(void *)(at + mat + 5 * x + meta);
    ops->quantise(&p.act, 0, MACS_TOKENS, 0, MACS_COLS / 32);
    for (int i = 0; i < 4; i++) { /* the first one warms */
        double t = clock_seconds();
        pool_run(workers, multiply, &p, MACS_TASKS);
        t = clock_seconds() - t;
        if (i)
            best = fmax(best, (double)MACS_TASKS * MACS_ROWS * MACS_COLS * MACS_TOKENS / t);
    }
    mem_unmap(at, bytes);
    return best;
}

/* --- the cache ------------------------------------------------------------------------------------------------------- */

/* "AMD EPYC 7B13, avx2, 2 threads" */
static void describe(struct pool *workers, const struct kern_ops *ops, char *out, size_t cap)
{
    char line[256], name[160] = "unknown processor";
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %159[^\n]", name) == 1)
            break;
    if (f)
        fclose(f);
    snprintf(out, cap, "%s, %s, %d threads", name, ops->name, pool_size(workers));
}

static bool read_entry(const json_t *all, const char *key, struct engine_machine *m)
{
    const json_t *o = json_object_get(all, key);
    m->bytes_per_s = json_number_value(json_object_get(o, "bytes_per_s"));
    m->macs_per_s = json_number_value(json_object_get(o, "macs_per_s"));
    return m->bytes_per_s >= 1e8 && m->bytes_per_s < 1e14 && m->macs_per_s >= 1e8 && m->macs_per_s < 1e16;
}

/* Written beside and renamed: somebody may be reading. */
static void write_entry(json_t *all, const char *path, const char *key, const struct engine_machine *m)
{
    char beside[4200];
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    json_object_set_new(all, key, json_pack("{s:f, s:f}", "bytes_per_s", m->bytes_per_s, "macs_per_s", m->macs_per_s));
    if (json_dump_file(all, beside, JSON_INDENT(2)) || rename(beside, path))
        unlink(beside);
}

void machine_figures(struct pool *workers, const struct kern_ops *ops, struct engine_machine *m)
{
    char dir[4096], path[4160], key[256];
    bool cached = cli_cache_dir("", dir, sizeof dir, NULL) == ST_OK && cli_make_dirs(dir, NULL) == ST_OK &&
                  cli_join(path, sizeof path, dir, "machine.json", NULL) == ST_OK;
    describe(workers, ops, key, sizeof key);
    json_t *all = cached ? json_load_file(path, 0, NULL) : NULL;
    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    if (!read_entry(all, key, m)) {
        m->bytes_per_s = fmax(machine_probe_memory(workers), 1e9);
        m->macs_per_s = fmax(probe_macs(workers, ops), 1e9);
        if (cached)
            write_entry(all, path, key, m);
    }
    json_decref(all);
}
