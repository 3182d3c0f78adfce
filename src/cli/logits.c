/*
 * logits: a 64-bit hash of every position's logits and the largest of them.
 *
 * This is the eye on law L1: equal hashes mean equal bits, whatever the chunk, the threads, the kernels or the company.
 * `--beside` feeds other rows in the same steps. The output holds nothing that may vary: no times, no level.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cli/cli.h"
#include "cli/direct.h"

#define HEADS 16u       /* positions of one model_head() */
#define BESIDE_SPAN 13u /* the longest span of another row */
#define BESIDE_LEN 96u  /* another row starts anew before it grows longer */
#define BESIDE_MAX 16u
#define FEW 64u         /* up to here an insertion list beats sorting everything */

struct options {
    const char *model, *ids;
    uint32_t chunk, threads, top, kv, beside;
    bool json, no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"ids", 0, OPT_STR, offsetof(struct options, ids), 0, 0, "1,2,3", "the token ids to feed; - reads them from stdin"},
    {"chunk", 0, OPT_U32, offsetof(struct options, chunk), 1, LIMIT_STEP, "N", "ids fed in one step (default: all)"},
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    {"top", 0, OPT_U32, offsetof(struct options, top), 0, LIMIT_VOCAB, "K", "how many of the largest to print (5)"},
    CLI_OPT_KV(struct options),
    {"beside", 0, OPT_U32, offsetof(struct options, beside), 0, BESIDE_MAX, "N",
     "other rows, with ids and lengths of their own, that share the steps"},
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "logits",
    "Feeds token ids and prints, for each position, XXH64 of the f32 logits' bytes and the K largest logits. "
    "JSON: {vocab, kv, positions: [{position, id, hash, top: [{id, logit}]}]}.",
    "-m FILE --ids 1,2,3 [OPTIONS]", opts, sizeof opts / sizeof *opts};

struct entry {
    float value;
    tok_id id;
};

struct job {
    struct direct d;
    const struct options *o;
    tok_id *ids;
    uint32_t n, chunk;
    tok_id other[BESIDE_MAX][BESIDE_SPAN]; /* what the other rows feed in this step */
    struct entry *top;                     /* [vocab] scratch */
};

/* --- the largest ----------------------------------------------------------------------------------------------------- */

/* Largest first, then the lower id; what is not a number comes last. */
static int compare(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    float va = isnan(a->value) ? -INFINITY : a->value, vb = isnan(b->value) ? -INFINITY : b->value;
    if (va != vb)
        return va < vb ? 1 : -1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Puts the k largest of x[n] first in `list`, in order. */
static void find_top(const float *x, uint32_t n, uint32_t k, struct entry *list)
{
    if (k > FEW) {
        for (uint32_t i = 0; i < n; i++)
            list[i] = (struct entry){x[i], (tok_id)i};
        qsort(list, n, sizeof *list, compare);
        return;
    }
    uint32_t held = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct entry new = {x[i], (tok_id)i};
        if (held == k && (k == 0 || compare(&new, &list[k - 1]) > 0))
            continue;
        uint32_t at = held < k ? held++ : k - 1;
        for (; at > 0 && compare(&new, &list[at - 1]) < 0; at--)
            list[at] = list[at - 1];
        list[at] = new;
    }
}

/* --- output ---------------------------------------------------------------------------------------------------------- */

static void print_position(struct job *j, uint32_t position, const float *x)
{
    uint32_t vocab = j->d.info->vocab, k = j->o->top < vocab ? j->o->top : vocab;
    bool json = j->o->json;
    unsigned long long hash = XXH64(x, (size_t)vocab * sizeof *x, 0);
    find_top(x, vocab, k, j->top);
    printf(json ? "%s{\"position\":%u,\"id\":%d,\"hash\":\"%016llx\",\"top\":[" : "%s%u %d %016llx",
           json && position ? ",\n" : "", position, j->ids[position], hash);
    for (uint32_t i = 0; i < k; i++) {
        const struct entry *t = &j->top[i];
        if (!json)
            printf(" %d:%.9g", t->id, (double)t->value);
        else if (isfinite(t->value))
            printf("%s{\"id\":%d,\"logit\":%.9g}", i ? "," : "", t->id, (double)t->value);
        else /* JSON has no spelling for it */
            printf("%s{\"id\":%d,\"logit\":null}", i ? "," : "", t->id);
    }
    puts(json ? "]}" : "");
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

/* What other row `b` (1, 2, …) feeds in this step: spans of changing lengths, and a fresh start now and then. */
static enum status other_span(struct job *j, uint32_t b, uint32_t step, struct model_span *out, struct err *e)
{
    struct kv_seq *seq = &j->d.seq[b];
    uint32_t n = 1 + (step * 5 + b * 7) % BESIDE_SPAN;
    if (seq->len + n > BESIDE_LEN - 11 * (b % 5))
        kv_seq_clear(seq);
    TRY(kv_seq_reserve(seq, n, e));
    for (uint32_t i = 0; i < n; i++)
        j->other[b - 1][i] = direct_random_id(&j->d, b, step * BESIDE_SPAN + i);
    *out = (struct model_span){.seq = seq, .ids = j->other[b - 1], .n = n};
    return ST_OK;
}

/* Heads and prints positions [at, at + n), whose hidden states start at index `first` of the last forward. One hidden
 * state of the step that may be another row's rides along in every head. */
static void print_heads(struct job *j, uint32_t at, uint32_t n, uint32_t first)
{
    for (uint32_t i = 0; i < n && !cli_broken(); i += HEADS - 1) {
        uint32_t m = n - i < HEADS - 1 ? n - i : HEADS - 1, index[HEADS];
        for (uint32_t k = 0; k < m; k++)
            index[k] = first + i + k;
        index[m] = 0;
        model_head(j->d.run, index, j->o->beside ? m + 1 : m, j->d.logits, NULL);
        for (uint32_t k = 0; k < m; k++)
            print_position(j, at + i + k, j->d.logits + (size_t)k * j->d.info->vocab);
    }
}

/* One step: the asked row's span in the midst of the others. */
static enum status run_step(struct job *j, uint32_t at, uint32_t n, struct err *e)
{
    struct model_span spans[BESIDE_MAX + 1];
    uint32_t before = (j->o->beside + 1) / 2, first = 0, step = at / j->chunk;
    for (uint32_t s = 0; s <= j->o->beside; s++) {
        if (s == before) {
            TRY(kv_seq_reserve(&j->d.seq[0], n, e));
            spans[s] = (struct model_span){.seq = &j->d.seq[0], .ids = j->ids + at, .n = n};
        } else {
            TRY(other_span(j, s < before ? s + 1 : s, step, &spans[s], e));
        }
        first += s < before ? spans[s].n : 0;
    }
    model_forward(j->d.run, spans, j->o->beside + 1);
    for (uint32_t s = 0; s <= j->o->beside; s++)
        kv_seq_commit(spans[s].seq, spans[s].n);
    print_heads(j, at, n, first);
    return ST_OK;
}

static enum status prepare(struct job *j, const struct api_model *m, struct err *e)
{
    const struct model_info *info = model_info(m->model);
    TRY(direct_check_ids(info, j->ids, j->n, e));
    if (j->n > info->context)
        return err_set(e, ST_TOO_LONG, "--ids", "--ids: %u ids, but the model's context is %u", j->n, info->context);
    uint32_t room = LIMIT_STEP - j->o->beside * BESIDE_SPAN;
    j->chunk = j->o->chunk ? j->o->chunk : j->n;
    j->chunk = j->chunk < room ? j->chunk : room;
    struct direct_config c = {.rows = j->o->beside + 1,
                              .context = j->n > BESIDE_LEN ? j->n : BESIDE_LEN,
                              .step = j->chunk + j->o->beside * BESIDE_SPAN,
                              .heads = HEADS,
                              .format = j->o->kv ? KERN_KV_F32 : KERN_KV_F16};
    j->top = malloc((size_t)info->vocab * sizeof *j->top);
    if (!j->top)
        return err_set(e, ST_NO_MEMORY, "", "no memory for %u logits", info->vocab);
    return direct_new(&j->d, m, &c, e);
}

static enum status run_job(struct job *j, const struct api_model *m, struct err *e)
{
    TRY(prepare(j, m, e));
    if (j->o->json)
        printf("{\"vocab\":%u,\"kv\":\"%s\",\"positions\":[\n", j->d.info->vocab, j->o->kv ? "f32" : "f16");
    for (uint32_t at = 0; at < j->n && !cli_broken(); at += j->chunk)
        TRY(run_step(j, at, j->n - at < j->chunk ? j->n - at : j->chunk, e));
    if (j->o->json)
        puts("]}");
    return ST_OK;
}

/* From the option or from stdin; leaves none when they are not a list of ids. */
static enum status read_ids(struct job *j, struct err *e)
{
    struct buf in = {0};
    bool piped = strcmp(j->o->ids, "-") == 0;
    size_t n = 0;
    if (piped)
        TRY(cli_read(NULL, LIMIT_BODY, &in, e));
    while (piped && in.len && in.data[in.len - 1] == '\n')
        in.data[--in.len] = '\0';
    (void)opt_ids(piped ? in.data : j->o->ids, &j->ids, &n);
    j->n = n < LIMIT_CONTEXT ? (uint32_t)n : LIMIT_CONTEXT;
    buf_release(&in);
    return ST_OK;
}

int verb_logits(int argc, char **argv)
{
    struct options o = {.top = 5};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model || !o.ids)
        return opt_wrong(&verb, "%s is missing", o.model ? "--ids 1,2,3" : "-m FILE");
    struct job j = {.o = &o};
    struct api_model m;
    struct err e = {0};
    if (read_ids(&j, &e) != ST_OK)
        return cli_fail(&e);
    if (!j.ids)
        return opt_wrong(&verb, "--ids must be token ids with commas between them, like 1,2,3");
    enum status st = cli_load(&m, o.model, o.threads, API_MODEL, o.no_packed_cache, &e);
    if (st == ST_OK) {
        st = run_job(&j, &m, &e);
        direct_free(&j.d);
        api_close(&m);
    }
    free(j.top);
    free(j.ids);
    return st == ST_OK ? cli_flush() : cli_fail(&e);
}
