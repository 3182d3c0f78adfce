/*
 * matrix: law L1 through the whole engine.
 *
 *     matrix [--pairwise | --best | --full] [--prompt N] [--ref N] MODEL…
 *
 * Options count for the models after them.
 *
 * A MODEL is a GGUF file, or the name of a tiny random one (tests/lib/tiny.h), or `tiny` for all of those. For each, one
 * request is run alone, cold, in one chunk, on one thread; its ids and the hash of the logits behind each of them are
 * what every other way has to give, bit by bit:
 *
 *     company   alone; in a batch of eight that join, leave and end on the way
 *     chunk     1, 7, 32, 512 prompt ids in one step
 *     threads   1, 2
 *     past      cold; prefix cached, as a whole or in part; put back for want of blocks, and computed again or resumed
 *     sampling  greedy; with temperature, penalty, top-p and a seed
 *     fill      off; a source that knows the reply: right, wrong now and then, not asked whether it is right; our own
 *     level     FFWD_CPU: what this machine has of avx2, avx512 and neon, and ref
 *
 * Who is "alone" and put back has one neighbour, the one that takes its blocks. A run that did not do what its way says
 * (nobody beside it, nothing put back, nothing cached) fails.
 *
 * --full runs the product. --pairwise runs a cover: any two values of any two factors meet in some run (cover.h). --best
 * runs the product on the fastest level, and on each other one a cover of the rest. ref is slow: it is a level only of
 * the tiny models; of others it does N tokens, prompt included, in one run more (--ref). --prompt: how many ids the
 * request has, 6 less than a multiple of 32.
 *
 * Beside the product, for each model and level, two cases by name: CC6 (the same seed, the same text under any load) and
 * PC6 (nothing is left of a recycled slot's last user).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cover.h"
#include "scene.h"
#include "tiny.h"

#define LEVELS ((uint32_t)KERN_LEVELS)

enum { FACTOR_LEVEL, FACTOR_COMPANY, FACTOR_CHUNK, FACTOR_THREADS, FACTOR_PAST, FACTOR_SAMPLING, FACTOR_FILL, FACTORS };

static const uint32_t chunks[] = {1, 7, 32, 512};
#define CHUNKS (sizeof chunks / sizeof *chunks)

static const char *const company_names[COMPANIES] = {"alone", "batch of 8"};
static const char *const past_names[PASTS] = {"cold", "warm", "warm in part", "put back", "put back and resumed"};
static const char *const sampling_names[SAMPLINGS] = {"greedy", "seeded"};
static const char *const fill_names[FILLS] = {"no sources", "told", "told in part wrongly", "told for certain", "sources"};

/* In the order of tiny_families. Q4_K and Q6_K need widths of 256; F32 and F16 are slow on ref. */
static const enum tiny_type types[TINY_FAMILIES] = {TINY_Q8_0, TINY_Q4_1, TINY_F32,  TINY_Q4_0, TINY_Q5_0,
                                                    TINY_Q4_K, TINY_F16, TINY_Q5_1, TINY_Q8_0, TINY_Q6_K};

enum mode { MODE_PAIRWISE, MODE_BEST, MODE_FULL };

static struct {
    enum mode mode;
    uint32_t prompt, ref_tokens; /* 0 = as fits the model; none */
} options;

static uint32_t passed, failed, combinations;
static bool level_used[KERN_LEVELS];

/* A model under test. */
struct subject {
    const char *name, *path;
    bool tiny;
    struct scale scale;
    uint32_t levels, level[KERN_LEVELS]; /* the first gives what is expected */
    struct outcome want[SAMPLINGS];
};

static void count(const char *why, const struct subject *m, uint32_t level, const char *what)
{
    passed += !why;
    failed += !!why;
    if (why)
        printf("FAILED: %s, %s, %s: %s\n", m->name, kern_level_name((enum kern_level)level), what, why);
    fflush(stdout);
}

static void open_level(struct scene *s, const struct subject *m, uint32_t level)
{
    struct err e = {.text = ""};
    setenv("FFWD_CPU", kern_level_name((enum kern_level)level), 1);
    if (scene_init(s, m->path, m->scale, &e))
        BUG("%s: %s", m->path, e.text);
    level_used[level] = true;
}

static void run_way(struct scene *s, const struct subject *m, uint32_t level, const struct way *w)
{
    struct outcome got;
    char what[128];
    const char *why = scene_run(s, w, &got);
    snprintf(what, sizeof what, "%s, chunk %u, threads %d, %s, %s, %s", company_names[w->company], w->chunk, w->threads,
             past_names[w->past], sampling_names[w->sampling], fill_names[w->fill]);
    why = why ? why : scene_differs(&m->want[w->sampling], &got);
    combinations++;
    count(why, m, level, what);
}

static void run_cases(struct scene *s, const struct subject *m, uint32_t level)
{
    struct outcome got;
    const char *why;
    for (int t = 1; t <= SCENE_THREADS; t++) {
        why = scene_copies(s, t, &got);
        count(why ? why : scene_differs(&m->want[SAMPLING_SEEDED], &got), m, level, "CC6, copies under load");
    }
    for (int k = 0; k < SAMPLINGS; k++) {
        why = scene_recycled(s, (enum sampling)k, &got);
        count(why ? why : scene_differs(&m->want[k], &got), m, level, "PC6, a recycled slot");
    }
}

/* What is expected, and that it is worth comparing: logits that differ from position to position. */
static void expect(struct scene *s, struct subject *m)
{
    for (int k = 0; k < SAMPLINGS; k++) {
        const struct way plain = {COMPANY_ALONE, 512, 1, PAST_COLD, (enum sampling)k, FILL_NONE};
        struct outcome *want = &m->want[k];
        const char *why = scene_run(s, &plain, want);
        for (uint32_t i = 1; i < want->n && !why; i++)
            if (want->hash[i] == want->hash[i - 1])
                why = "two positions have the same logits";
        if (!why && k == SAMPLING_SEEDED && !memcmp(want->ids, m->want[0].ids, sizeof want->ids))
            why = "the seed chooses what greedy does";
        count(why, m, m->level[0], "what is expected");
    }
}

/* The combinations of `c` whose level is `level`, on level l. */
static void run_cover(struct scene *s, const struct subject *m, uint32_t l, const struct cover *c, uint32_t level)
{
    if (cover_missing(c))
        BUG("%u pairs are not covered", cover_missing(c));
    for (uint32_t i = 0; i < c->n; i++) {
        const uint8_t *at = c->at[i];
        const struct way way = {.company = at[FACTOR_COMPANY], .chunk = chunks[at[FACTOR_CHUNK]],
                                .threads = at[FACTOR_THREADS] + 1, .past = at[FACTOR_PAST],
                                .sampling = at[FACTOR_SAMPLING], .fill = at[FACTOR_FILL]};
        if (at[FACTOR_LEVEL] == level)
            run_way(s, m, m->level[l], &way);
    }
}

static void run_levels(struct subject *m)
{
    static struct cover all, rest;
    uint32_t values[FACTORS] = {m->levels, COMPANIES, CHUNKS, SCENE_THREADS, PASTS, SAMPLINGS, FILLS};
    if (options.mode == MODE_PAIRWISE)
        cover_pairs(&all, values, FACTORS);
    else
        cover_full(&all, values, FACTORS);
    values[FACTOR_LEVEL] = 1;
    cover_pairs(&rest, values, FACTORS);
    for (uint32_t l = 0; l < m->levels; l++) {
        struct scene s;
        open_level(&s, m, m->level[l]);
        if (!l)
            expect(&s, m);
        for (int k = 0; k < SAMPLINGS; k++)
            s.want[k] = &m->want[k];
        if (options.mode == MODE_BEST && l + 1 < m->levels)
            run_cover(&s, m, l, &rest, 0);
        else
            run_cover(&s, m, l, &all, l);
        run_cases(&s, m, m->level[l]);
        scene_release(&s);
    }
}

/* ref's own short run, against the same on the level that gave what was expected. */
static void run_ref(const struct subject *m)
{
    struct subject brief = *m;
    const struct way on_one = {COMPANY_ALONE, 512, 1, PAST_COLD, SAMPLING_GREEDY, FILL_NONE};
    const struct way on_two = {COMPANY_ALONE, 1, 2, PAST_COLD, SAMPLING_GREEDY, FILL_NONE};
    struct scene s;
    brief.scale.tokens = options.ref_tokens / 2;
    brief.scale.prompt = options.ref_tokens - brief.scale.tokens;
    open_level(&s, &brief, brief.level[0]);
    const char *why = scene_run(&s, &on_one, &brief.want[0]);
    count(why, &brief, brief.level[0], "what ref has to give");
    scene_release(&s);
    open_level(&s, &brief, KERN_REF);
    run_way(&s, &brief, KERN_REF, &on_two);
    scene_release(&s);
}

static void run_model(const char *name, const char *path, bool tiny, uint32_t context)
{
    struct subject m = {.name = name, .path = path, .tiny = tiny};
    /* A block's edge is crossed after six tokens: 64, unless --prompt says another. */
    m.scale = (struct scale){options.prompt && options.prompt + 50 <= context ? options.prompt : 58, 16};
    if (tiny)
        m.level[m.levels++] = KERN_REF;
    for (uint32_t level = 1; level < LEVELS; level++)
        if (kern_level_ops((enum kern_level)level))
            m.level[m.levels++] = level;
    if (!m.levels)
        m.level[m.levels++] = KERN_REF; /* no other here: slow, and still what the test is for */
    run_levels(&m);
    if (!tiny && options.ref_tokens > 1)
        run_ref(&m);
}

static void run_tiny(const char *family)
{
    char path[] = "/tmp/ffwd-matrix-XXXXXX";
    struct err e = {.text = ""};
    uint32_t i = 0;
    while (i < TINY_FAMILIES && strcmp(tiny_families[i], family) != 0)
        i++;
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) || i == TINY_FAMILIES || tiny_write(path, family, types[i], &e))
        BUG("%s: cannot make the model: %s", family, e.text);
    run_model(family, path, true, strcmp(family, "llama_yarn") != 0 ? 512 : 128);
    unlink(path);
}

static void run_named(const char *name)
{
    bool all = !strcmp(name, "tiny"), file = strchr(name, '/') != NULL;
    const char *slash = strrchr(name, '/');
    if (file)
        run_model(slash + 1, name, false, UINT32_MAX);
    else if (!all)
        run_tiny(name);
    for (uint32_t i = 0; i < TINY_FAMILIES && all; i++)
        run_tiny(tiny_families[i]);
}

static void say_levels(void)
{
    uint32_t skipped = 0;
    printf("note: %u combinations on", combinations);
    for (uint32_t level = 0; level < LEVELS; level++)
        if (level_used[level])
            printf(" %s", kern_level_name((enum kern_level)level));
    for (uint32_t level = 0; level < LEVELS; level++)
        skipped += !level_used[level];
    printf("; %u levels skipped%s", skipped, skipped ? " (not on this machine):" : "");
    for (uint32_t level = 0; level < LEVELS; level++)
        if (!level_used[level])
            printf(" %s", kern_level_name((enum kern_level)level));
    printf("\n%u passed, %u failed\n", passed, failed);
}

static bool take_number(int argc, char **argv, int *i, const char *name, uint32_t *out)
{
    if (strcmp(argv[*i], name) != 0 || *i + 1 == argc)
        return false;
    *out = (uint32_t)strtoul(argv[++*i], NULL, 10);
    return true;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"--pairwise", "--best", "--full"};
    for (int i = 1; i < argc; i++) {
        if (take_number(argc, argv, &i, "--prompt", &options.prompt)
            || take_number(argc, argv, &i, "--ref", &options.ref_tokens))
            continue;
        if (options.prompt && !scene_prompt_fits(options.prompt)) {
            fprintf(stderr, "matrix: --prompt must be a multiple of %u plus %u, not %u\n", KV_BLOCK, SCENE_BEFORE_EDGE,
                    options.prompt);
            return 2;
        }
        int mode = 0;
        while (mode < 3 && strcmp(argv[i], modes[mode]) != 0)
            mode++;
        if (mode < 3)
            options.mode = (enum mode)mode;
        else
            run_named(argv[i]);
    }
    if (!combinations) {
        fprintf(stderr, "usage: matrix [--pairwise | --best | --full] [--prompt N] [--ref N] MODEL...\n");
        return 2;
    }
    say_levels();
    return failed != 0;
}
