/*
 * check: the program. `kern_check [--seed N]` compares and closes with "N passed, N failed"; `--bench[=linear|attn]` times
 * instead; `--once=f16|f32` only decodes once with such a cache, on the level in use.
 *
 * For each level there is a line "digest LEVEL HEX" before, over all bytes that ref gave: with the same seed it is the
 * same for all levels on all machines (the emulated one, which takes fewer cases, apart). See tests/cross.
 */
#define XXH_INLINE_ALL
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#if defined(__x86_64__)
extern const struct kern_ops kern_avx512_emulated_ops;
#endif

#define GUARDS 4096
static struct {
    void *p;
    size_t n;
} guards[GUARDS];
static int guard_count;

uint32_t rnd(struct check *c)
{
    uint32_t r[4];
    rng_philox(c->seed, c->counter++, 0, r);
    return r[0];
}

uint32_t rnd_below(struct check *c, uint32_t n)
{
    return (uint32_t)((uint64_t)rnd(c) * n >> 32);
}

void shuffled(struct check *c, uint32_t *table, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        table[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = rnd_below(c, i), t = table[i - 1];
        table[i - 1] = table[j];
        table[j] = t;
    }
}

float rnd_float(struct check *c, float scale)
{
    return ((float)(rnd(c) >> 8) * 0x1p-23f - 1.0f) * scale;
}

void *guard_alloc(size_t n, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), need = mem_round(n ? n : 1, align), body = mem_round(need, page);
    if (guard_count == GUARDS)
        BUG("more than %d guarded buffers", GUARDS);
    uint8_t *p = mmap(NULL, body + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        BUG("no memory");
    mprotect(p, page, PROT_NONE);
    mprotect(p + page + body, page, PROT_NONE);
    guards[guard_count].p = p;
    guards[guard_count++].n = body + 2 * page;
    return p + page + body - need;
}

void guard_release(void)
{
    while (guard_count) {
        guard_count--;
        munmap(guards[guard_count].p, guards[guard_count].n);
    }
}

bool same(struct check *c, const char *what, const void *want, const void *got, size_t n)
{
    const uint8_t *a = want, *b = got;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) {
            size_t f = i & ~(size_t)3;
            float x = 0, y = 0;
            if (f + 4 <= n) {
                memcpy(&x, a + f, 4);
                memcpy(&y, b + f, 4);
            }
            printf("FAIL %s: %s differs from ref at byte %zu of %zu (as f32 %.9g, expected %.9g)\n", c->level, what, i,
                   n, (double)y, (double)x);
            c->failed++;
            return false;
        }
    c->passed++;
    c->digest = XXH64(want, n, c->digest);
    return true;
}

static void bench_level(const struct check *all, const struct kern_ops *ops, const char *level)
{
    struct check c = {.ops = ops, .level = level, .seed = all->seed};
    if (strcmp(all->bench, "attn"))
        bench_linear(&c);
    if (strcmp(all->bench, "linear"))
        bench_attn(&c);
}

static void run_level(struct check *all, const struct kern_ops *ops, const char *level)
{
    struct check c = *all;
    c.ops = ops;
    c.level = level;
    c.passed = c.failed = 0;
    check_linear(&c);
    check_attn(&c);
    check_ops(&c);
    printf("note: kernels, level %s: %d comparisons equal to ref, %d not\n", level, c.passed, c.failed);
    printf("digest %s %016llx\n", level, (unsigned long long)c.digest);
    all->passed += c.passed;
    all->failed += c.failed;
}

static int once(struct check *c, enum kern_kv format)
{
    struct err e;
    if (kern_choose(&c->ops, &e))
        return fprintf(stderr, "kern_check: %s\n", e.text), 1;
    pool_set_fp_mode();
    attn_once(c, format);
    return 0;
}

int main(int argc, char **argv)
{
    struct check all = {.seed = 20240607};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            all.bench = "all";
        else if (!strcmp(argv[i], "--bench=linear") || !strcmp(argv[i], "--bench=attn"))
            all.bench = strchr(argv[i], '=') + 1;
        else if (!strcmp(argv[i], "--once=f16") || !strcmp(argv[i], "--once=f32"))
            return once(&all, strstr(argv[i], "f32") ? KERN_KV_F32 : KERN_KV_F16);
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
            all.seed = strtoull(argv[++i], NULL, 10);
        else
            return fprintf(stderr, "usage: kern_check [--seed N] [--bench[=linear|attn] | --once=f16|f32]\n"), 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    pool_set_fp_mode();
    if (all.bench)
        bench_barrier();
    printf("seed %llu\n", (unsigned long long)all.seed);
    if (!all.bench)
        check_pack(&all);
    for (int level = 1; level < KERN_LEVELS; level++) {
        const struct kern_ops *ops = kern_level_ops((enum kern_level)level);
        const char *name = kern_level_name((enum kern_level)level);
        if (!ops)
            printf("note: kernels, level %s: not run natively, this processor lacks it\n", name);
        else if (all.bench)
            bench_level(&all, ops, name);
        else
            run_level(&all, ops, name);
    }
#if defined(__x86_64__)
    if (!all.bench)
        run_level(&all, &kern_avx512_emulated_ops, "avx512 (emulated)");
#endif
    printf("%d passed, %d failed\n", all.passed, all.failed);
    return all.failed != 0;
}
