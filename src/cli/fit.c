/*
 * fit: whether a model fits this machine, and how fast it should run.
 *
 * The model's header says how large everything gets; nothing of it is loaded. Memory is what `ffwd serve` would take with
 * all rows at the full context: packed weights, keys and values, the scratch of a step, logits, the program itself. Speed
 * is the cost model's first guess (engine_cost_guess()) from what this machine's memory and kernels were measured to do at
 * best: weights are read once for a token, keys and values once, and prompts are bound by products.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/machine.h"
#include "kern/kern.h"
#include "model/model.h"
#include "weights/weights.h"

#define PROMPT 512u    /* tokens of the prompt whose speed is told */
#define PATH_CAP 4096
#define HEADS_EACH 64u /* positions with logits in a step, beside one for each row: see engine/memory.c */
#define PROGRAM_BYTES ((size_t)24 << 20) /* the program and a small tokenizer: 30 MB with 49,000 tokens, */
#define TOKEN_BYTES 80u                  /* 41 MB with 262,000 */

struct options {
    const char *model;
    uint32_t ctx, rows, threads, kv;
    bool json;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"ctx", 'c', OPT_U32, offsetof(struct options, ctx), 1, LIMIT_CONTEXT, "N",
     "tokens of a sequence (default: the model's own context)"},
    {"rows", 0, OPT_U32, offsetof(struct options, rows), 1, LIMIT_ROWS, "N",
     "sequences of that length at the same time (default 1)"},
    CLI_OPT_KV(struct options),
    CLI_OPT_THREADS(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "fit",
    "Says whether a model fits this machine's free memory at a context length, and how fast it should run, without loading "
    "it. Status 0 when it fits, 1 when it does not. JSON: {model, types, context, rows, kv, fits, largest_context, memory: "
    "{weights, kv, scratch, logits, program, needed, available, machine}, speed: {decode_tokens_per_s, "
    "decode_tokens_per_s_at_context, prompt_tokens_per_s}, machine: {isa, threads, gbytes_per_s, gmacs_per_s}}; memory is "
    "in bytes, largest_context is for these rows and 0 where not even the weights fit.",
    "-m FILE [--ctx N] [--rows N] [--json]", opts, sizeof opts / sizeof *opts};

struct answer {
    const struct model *model;
    const struct model_info *info;
    struct pool *workers;
    struct engine_machine machine;
    uint32_t context, rows, largest;
    size_t kv, scratch, logits, program;
    uint64_t needed, available;
    double decode, decode_full, prompt; /* tokens per second */
};

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* What keys and values of `rows` sequences of `context` positions take; SIZE_MAX when that overflows. */
static size_t kv_bytes(const struct answer *a, enum kern_kv format, uint32_t context)
{
    uint64_t positions = (uint64_t)a->rows * kv_blocks(context) * KV_BLOCK;
    struct kv_config kv = {.format = format, .groups = a->info->kv_groups, .rows = a->rows, .context = context,
                           .span = a->info->bidirectional ? context : 0};
    if (positions > UINT32_MAX)
        return SIZE_MAX;
    kv.positions = (uint32_t)positions;
    memcpy(kv.group, a->info->kv_group, sizeof kv.group);
    return kv_config_bytes(&kv);
}

/* The scratch of a step: what attention takes of it grows with the context. */
static size_t scratch_bytes(const struct answer *a, uint32_t context)
{
    uint32_t span = a->info->bidirectional ? context : LIMIT_SPAN;
    uint32_t step = a->rows * span < LIMIT_STEP ? a->rows * span : LIMIT_STEP;
    return model_run_bytes(a->model, a->workers, step, context);
}

/* Everything but keys and values. */
static void count_memory(struct answer *a)
{
    a->scratch = scratch_bytes(a, a->context);
    a->logits = (size_t)(a->rows + HEADS_EACH) * a->info->vocab * sizeof(float);
    a->program = PROGRAM_BYTES + (size_t)a->info->vocab * TOKEN_BYTES;
    a->needed = a->info->weight_bytes + a->scratch + a->logits + a->program;
    a->available = mem_available();
}

/* The longest context whose keys, values and scratch fit beside the rest, at most the model's own. `needed` is yet without
 * keys and values. */
static uint32_t find_largest(const struct answer *a, enum kern_kv format)
{
    uint64_t rest = a->needed - a->scratch, room = a->available > rest ? a->available - rest : 0;
    uint32_t lo = 0, hi = a->info->context + 1; /* lo fits, hi does not */
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        size_t kv = kv_bytes(a, format, mid), scratch = scratch_bytes(a, mid);
        if (kv <= room && scratch <= room - kv)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* --- speed -------------------------------------------------------------------------------------------------------- */

/* Milliseconds that the next token of a sequence of `len` takes. */
static double decode_ms(const struct answer *a, const struct engine_cost *c, enum kern_kv format, uint32_t len)
{
    double keys = engine_cost_keys(a->info, len, 1), size = format == KERN_KV_F32 ? 4 : 2;
    double read = keys * 2 * a->info->kv_heads * a->info->head_dim * size / a->machine.bytes_per_s;
    return c->point[0].ms + c->head_ms + fmax(1e3 * read, c->decode_attention_ms * keys / 1e6);
}

static void guess_speed(struct answer *a, enum kern_kv format)
{
    struct engine_cost c;
    engine_cost_guess(&c, a->info, &a->machine);
    a->decode = 1e3 / decode_ms(a, &c, format, 0);
    a->decode_full = 1e3 / decode_ms(a, &c, format, a->context - 1);
    double keys = engine_cost_keys(a->info, 0, PROMPT), ms = c.head_ms + c.attention_ms * keys / 1e6;
    for (uint32_t i = 0; i < c.n; i++)
        if (c.point[i].tokens == PROMPT)
            a->prompt = PROMPT * 1e3 / (ms + c.point[i].ms);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

static void print_answer(const struct answer *a, bool fits)
{
    char weights[BAR_BYTES], kv[BAR_BYTES], rest[BAR_BYTES], all[BAR_BYTES], free_now[BAR_BYTES];
    printf("%s (%s), %u sequence%s of %u tokens\n", a->info->name, a->info->types, a->rows, a->rows == 1 ? "" : "s",
           a->context);
    bar_bytes(a->scratch + a->logits + a->program, rest);
    printf("memory: weights %s, keys and values %s, the rest %s; together %s of %s free\n",
           bar_bytes(a->info->weight_bytes, weights), bar_bytes(a->kv, kv), rest, bar_bytes(a->needed, all),
           bar_bytes(a->available, free_now));
    if (fits)
        printf("it fits");
    else
        printf("it does not fit");
    if (a->largest)
        printf("; the longest context that does is %u%s\n", a->largest,
               a->largest == a->info->context ? ", the model's own" : "");
    else
        printf(", whatever the context\n");
    printf("speed, about: %.1f tokens/s in an empty context, %.1f at its end; prompts %.0f tokens/s\n", a->decode,
           a->decode_full, a->prompt);
    printf("measured here: memory %.1f GB/s, products %.0f G/s\n", a->machine.bytes_per_s / 1e9,
           a->machine.macs_per_s / 1e9);
}

static json_t *describe(const struct answer *a, bool fits, const struct options *o, const char *isa, int threads)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"weights", a->info->weight_bytes}, {"kv", a->kv},         {"scratch", a->scratch},
                 {"logits", a->logits},              {"program", a->program}, {"needed", a->needed},
                 {"available", a->available},        {"machine", mem_total()}};
    json_t *memory = json_object();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        json_object_set_new(memory, parts[i].name, json_integer((json_int_t)parts[i].bytes));
    json_t *speed = json_pack("{s:f, s:f, s:f}", "decode_tokens_per_s", a->decode, "decode_tokens_per_s_at_context",
                              a->decode_full, "prompt_tokens_per_s", a->prompt);
    json_t *machine = json_pack("{s:s, s:i, s:f, s:f}", "isa", isa, "threads", threads, "gbytes_per_s",
                                a->machine.bytes_per_s / 1e9, "gmacs_per_s", a->machine.macs_per_s / 1e9);
    return json_pack("{s:s, s:s, s:i, s:i, s:s, s:b, s:i, s:o, s:o, s:o}", "model", a->info->name, "types",
                     a->info->types, "context", (int)a->context, "rows", (int)a->rows, "kv", o->kv ? "f32" : "f16",
                     "fits", (int)fits, "largest_context", (int)a->largest, "memory", memory, "speed", speed, "machine",
                     machine);
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static enum status answer(const struct options *o, const struct model *m, const struct kern_ops *ops,
                          struct pool *workers, bool *fits, struct err *e)
{
    enum kern_kv format = o->kv ? KERN_KV_F32 : KERN_KV_F16;
    struct answer a = {.model = m, .info = model_info(m), .workers = workers, .rows = o->rows};
    a.context = o->ctx ? o->ctx : a.info->context;
    if (a.context > a.info->context)
        return err_set(e, ST_TOO_LONG, "--ctx", "--ctx: %u is more than the model's context of %u", a.context,
                       a.info->context);
    count_memory(&a);
    a.largest = find_largest(&a, format);
    a.kv = kv_bytes(&a, format, a.context);
    if (a.kv == SIZE_MAX)
        return err_set(e, ST_NEVER_FITS, "--ctx", "%u sequences of %u tokens are more than any machine can hold", a.rows,
                       a.context);
    a.needed += a.kv;
    *fits = a.needed <= a.available;
    machine_figures(workers, ops, &a.machine);
    guess_speed(&a, format);
    if (o->json)
        cli_print_json(describe(&a, *fits, o, ops->name, pool_size(workers)));
    else
        print_answer(&a, *fits);
    return ST_OK;
}

static enum status fit(const struct options *o, bool *fits, struct err *e)
{
    char path[PATH_CAP];
    struct weights *w = NULL;
    struct model *m = NULL;
    struct pool *workers = NULL;
    struct model_options outline = {.outline = true};
    enum status st;
    TRY(kern_choose(&outline.ops, e));
    TRY(cli_model_path(o->model, path, sizeof path, e));
    if ((st = weights_open(&w, path, e)) == ST_OK && (st = model_new(&m, w, &outline, e)) == ST_OK &&
        (st = pool_new(&workers, (int)o->threads, e)) == ST_OK)
        st = answer(o, m, outline.ops, workers, fits, e);
    pool_free(workers);
    model_free(m);
    weights_free(w);
    return st;
}

int verb_fit(int argc, char **argv)
{
    struct options o = {.rows = 1};
    struct err e = {0};
    bool fits = false;
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model)
        return opt_wrong(&verb, "-m FILE is missing");
    if (fit(&o, &fits, &e) != ST_OK)
        return cli_fail(&e);
    status = cli_flush();
    return status ? status : !fits;
}
