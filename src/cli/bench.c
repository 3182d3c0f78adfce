/*
 * bench: prompt and decode speed of the forward pass, with random ids and without the engine.
 *
 * Prefill feeds --pp ids of each row, one row after the other, in steps of at most LIMIT_SPAN and takes the head of the
 * last one: a prompt fills a step by itself, so rows beside it would change little. Decode feeds one id of each row a
 * step and takes the head and the arg-max of every one. Both start after --depth ids, which are not timed. A first
 * repetition without them warms. A memory probe beside them says what the machine's memory gave at that time, since it
 * differs from hour to hour.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/direct.h"
#include "cli/machine.h"
#include "cli/profile.h"
#include "kern/kern.h"

#define MAX_REPS 100u

struct options {
    const char *model;
    uint32_t pp, tg, depth, batch, threads, ctx, reps, kv;
    bool json, no_probe, profile, no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"pp", 0, OPT_U32, offsetof(struct options, pp), 0, LIMIT_CONTEXT, "N", "prompt tokens to time (512); 0 = none"},
    {"tg", 0, OPT_U32, offsetof(struct options, tg), 0, LIMIT_CONTEXT, "N", "decoded tokens to time (128); 0 = none"},
    {"depth", 0, OPT_U32, offsetof(struct options, depth), 0, LIMIT_CONTEXT, "N", "tokens fed beforehand (0)"},
    {"batch", 0, OPT_U32, offsetof(struct options, batch), 1, LIMIT_ROWS, "N",
     "rows: decoded together in each step, prefilled one after the other (1)"},
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    {"ctx", 'c', OPT_U32, offsetof(struct options, ctx), 1, LIMIT_CONTEXT, "N",
     "positions a row may have, also more than the model was trained for: speed is the same (default: as many as that)"},
    {"reps", 0, OPT_U32, offsetof(struct options, reps), 1, MAX_REPS, "R", "timed repetitions, after one that warms (5)"},
    CLI_OPT_KV(struct options),
    {"no-probe", 0, OPT_FLAG, offsetof(struct options, no_probe), 0, 0, NULL, "do not measure memory bandwidth"},
    {"profile", 0, OPT_FLAG, offsetof(struct options, profile), 0, 0, NULL,
     "decode --tg tokens of --batch rows through the engine, and say where its steps' time goes, instead of all else"},
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "bench",
    "Times prefill and decode with random ids: median and range of tokens per second, all rows together. JSON: {model, "
    "architecture, types, isa, threads, kv, depth, batch, reps, weight_bytes, token_bytes, load_seconds, peak_bytes, "
    "pp: {tokens, median, min, max, runs}, tg: {the same, gbytes_per_second}, probe_gbytes_per_second}; "
    "with --profile {rows, steps, overhead_us: {p50, p95, mean}, forward_ms, head_ms, sample_ms}. A server under load is "
    "measured by `ffwd bench load`, what fast-forwarding saves by `ffwd bench replay`; both have options of their own: "
    "`ffwd help bench load`.",
    "-m FILE [OPTIONS]", opts, sizeof opts / sizeof *opts};

struct series {
    double rate[MAX_REPS]; /* tokens per second */
    uint32_t n;
};

struct job {
    struct direct d;
    const struct kern_ops *ops;
    const struct options *o;
    tok_id *ids; /* [max(pp, depth)] */
    struct series pp, tg;
    double probe, load_seconds;
};

/* --- figures --------------------------------------------------------------------------------------------------------- */

static int compare(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

static double quantile(const struct series *s, double q)
{
    double sorted[MAX_REPS], at = q * (s->n - 1);
    memcpy(sorted, s->rate, s->n * sizeof *sorted);
    qsort(sorted, s->n, sizeof *sorted, compare);
    uint32_t low = (uint32_t)at, high = low + 1 < s->n ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

/* --- what is timed ---------------------------------------------------------------------------------------------------- */

static enum status feed_depth(struct job *j, uint32_t depth, struct err *e)
{
    for (uint32_t r = 0; r < j->o->batch; r++) {
        uint32_t last;
        kv_seq_clear(&j->d.seq[r]);
        for (uint32_t i = 0; i < depth; i++)
            j->ids[i] = direct_random_id(&j->d, r, i);
        TRY(direct_feed(&j->d, r, j->ids, depth, &last, e));
    }
    return ST_OK;
}

static enum status time_prefill(struct job *j, uint32_t depth, double *rate, struct err *e)
{
    TRY(feed_depth(j, depth, e));
    for (uint32_t i = 0; i < j->o->pp; i++)
        j->ids[i] = direct_random_id(&j->d, 1000, i);
    double t = clock_seconds();
    for (uint32_t r = 0; r < j->o->batch; r++) {
        uint32_t last;
        TRY(direct_feed(&j->d, r, j->ids, j->o->pp, &last, e));
        last--;
        model_head(j->d.run, &last, 1, j->d.logits, NULL);
    }
    *rate = (double)j->o->pp * j->o->batch / (clock_seconds() - t);
    return ST_OK;
}

static enum status decode_step(struct job *j, uint32_t step, struct err *e)
{
    struct model_span spans[LIMIT_ROWS];
    struct kern_top top[LIMIT_ROWS];
    tok_id id[LIMIT_ROWS];
    uint32_t at[LIMIT_ROWS];
    for (uint32_t r = 0; r < j->o->batch; r++) {
        id[r] = direct_random_id(&j->d, 2000 + r, step);
        at[r] = r;
        spans[r] = (struct model_span){.seq = &j->d.seq[r], .ids = &id[r], .n = 1};
        TRY(kv_seq_reserve(spans[r].seq, 1, e));
    }
    model_forward(j->d.run, spans, j->o->batch);
    for (uint32_t r = 0; r < j->o->batch; r++)
        kv_seq_commit(&j->d.seq[r], 1);
    model_head(j->d.run, at, j->o->batch, j->d.logits, top);
    return ST_OK;
}

static enum status time_decode(struct job *j, uint32_t depth, double *rate, struct err *e)
{
    TRY(feed_depth(j, depth, e));
    double t = clock_seconds();
    for (uint32_t i = 0; i < j->o->tg; i++)
        TRY(decode_step(j, i, e));
    *rate = (double)j->o->tg * j->o->batch / (clock_seconds() - t);
    return ST_OK;
}

static enum status run_all(struct job *j, struct err *e)
{
    for (uint32_t i = 0; i <= j->o->reps; i++) { /* the first one warms: page tables, caches, clocks */
        uint32_t depth = i ? j->o->depth : 0;
        double rate;
        cli_progress("repetition %u of %u", i, j->o->reps);
        if (j->o->pp) {
            TRY(time_prefill(j, depth, &rate, e));
            if (i)
                j->pp.rate[j->pp.n++] = rate;
        }
        if (j->o->tg) {
            TRY(time_decode(j, depth, &rate, e));
            if (i)
                j->tg.rate[j->tg.n++] = rate;
        }
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted in repetition %u of %u", i, j->o->reps);
    }
    return ST_OK;
}

static enum status prepare(struct job *j, const struct api_model *m, struct err *e)
{
    const struct options *o = j->o;
    const struct model_info *info = model_info(m->model);
    uint32_t most = o->pp > o->tg ? o->pp : o->tg, context = o->ctx ? o->ctx : info->context;
    if (most > context || o->depth > context - most)
        return err_set(e, ST_TOO_LONG, "--depth", "%u tokens after %u are more than a context of %u", most, o->depth,
                       context);
    uint32_t ids = o->pp > o->depth ? o->pp : o->depth, step = ids < LIMIT_SPAN ? ids : LIMIT_SPAN;
    j->ids = malloc((ids + (size_t)1) * sizeof *j->ids);
    if (!j->ids)
        return err_set(e, ST_NO_MEMORY, "", "no memory for %u ids", ids);
    struct direct_config c = {.rows = o->batch,
                              .context = o->depth + most,
                              .step = step > o->batch ? step : o->batch,
                              .heads = o->batch,
                              .format = o->kv ? KERN_KV_F32 : KERN_KV_F16};
    j->ops = m->ops;
    return direct_new(&j->d, m, &c, e);
}

/* --- output ---------------------------------------------------------------------------------------------------------- */

static json_t *series_json(const struct series *s, uint32_t tokens)
{
    json_t *runs = json_array();
    for (uint32_t i = 0; i < s->n; i++)
        json_array_append_new(runs, json_real(s->rate[i]));
    return json_pack("{s:i, s:f, s:f, s:f, s:o}", "tokens", (int)tokens, "median", quantile(s, 0.5), "min",
                     quantile(s, 0), "max", quantile(s, 1), "runs", runs);
}

static int print_json(const struct job *j)
{
    const struct model_info *i = j->d.info;
    const struct options *o = j->o;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:I, s:I, s:f, s:I}", "model", i->name, "architecture",
        i->architecture, "types", i->types, "isa", j->ops->name, "threads", pool_size(j->d.workers), "kv",
        o->kv ? "f32" : "f16", "depth", (int)o->depth, "batch", (int)o->batch, "reps", (int)o->reps, "weight_bytes",
        (json_int_t)i->weight_bytes, "token_bytes", (json_int_t)i->token_bytes, "load_seconds", j->load_seconds,
        "peak_bytes", (json_int_t)mem_peak());
    if (j->pp.n)
        json_object_set_new(root, "pp", series_json(&j->pp, o->pp));
    if (j->tg.n) {
        json_t *tg = series_json(&j->tg, o->tg);
        double passes = quantile(&j->tg, 0.5) / o->batch;
        json_object_set_new(tg, "gbytes_per_second", json_real(passes * (double)i->token_bytes / 1e9));
        json_object_set_new(root, "tg", tg);
    }
    if (!o->no_probe)
        json_object_set_new(root, "probe_gbytes_per_second", json_real(j->probe / 1e9));
    return cli_print_json(root);
}

static int print_plain(const struct job *j)
{
    const struct model_info *i = j->d.info;
    printf("%s, %s; %s, %d threads, %.1f MB read per token\n", i->name, i->types, j->ops->name,
           pool_size(j->d.workers), (double)i->token_bytes / 1e6);
    if (j->pp.n)
        printf("prefill %u%s: %.1f tok/s [%.1f-%.1f]\n", j->o->pp, j->o->batch > 1 ? " (each row)" : "",
               quantile(&j->pp, 0.5), quantile(&j->pp, 0), quantile(&j->pp, 1));
    if (j->tg.n)
        printf("decode %u x %u after %u: %.1f tok/s [%.1f-%.1f], %.1f GB/s of weights\n", j->o->tg, j->o->batch,
               j->o->depth, quantile(&j->tg, 0.5), quantile(&j->tg, 0), quantile(&j->tg, 1),
               quantile(&j->tg, 0.5) / j->o->batch * (double)i->token_bytes / 1e9);
    if (!j->o->no_probe)
        printf("memory probe: %.1f GB/s\n", j->probe / 1e9);
    return cli_flush();
}

int verb_bench(int argc, char **argv)
{
    struct options o = {.pp = 512, .tg = 128, .batch = 1, .reps = 5};
    int status;
    if (argc > 1 && strcmp(argv[1], "load") == 0)
        return verb_bench_load(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "replay") == 0)
        return verb_bench_replay(argc - 1, argv + 1);
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model)
        return opt_wrong(&verb, "-m FILE is missing");
    if (o.profile && (o.tg == 0 || o.depth || o.ctx))
        return opt_wrong(&verb, "--profile needs --tg, and takes no --depth and no --ctx");
    if (o.pp == 0 && o.tg == 0)
        return opt_wrong(&verb, "--pp and --tg are both 0");
    struct api_model m;
    struct err e = {0};
    struct job j = {.o = &o};
    double t = clock_seconds();
    enum status st = cli_load(&m, o.model, o.threads, API_MODEL, o.no_packed_cache, &e);
    if (st != ST_OK)
        return cli_fail(&e);
    j.load_seconds = clock_seconds() - t;
    cli_catch_signals();
    if (o.profile) {
        status = profile_run(&m, o.batch, o.tg, o.kv ? KERN_KV_F32 : KERN_KV_F16, o.json);
        api_close(&m);
        return status;
    }
    st = prepare(&j, &m, &e);
    if (st == ST_OK)
        st = run_all(&j, &e);
    cli_progress("%s", "");
    if (st == ST_OK && !o.no_probe)
        j.probe = machine_probe_memory(m.pool);
    status = st != ST_OK ? cli_fail(&e) : o.json ? print_json(&j) : print_plain(&j);
    direct_free(&j.d);
    free(j.ids);
    api_close(&m);
    return status;
}
