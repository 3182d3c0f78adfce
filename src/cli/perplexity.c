/*
 * perplexity: how surprised a model is by a text.
 *
 * The text is cut into windows of --ctx tokens, by default one window where the model's context holds it all. A token is
 * scored with the logits of the position before it, and every token after the first is scored once: each window starts
 * with BOS where the model wants one, and otherwise the second and later ones start with the last token of the window
 * before, as context alone. nll is the mean over scored tokens, ppl = exp(nll).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/direct.h"
#include "kern/kern.h"
#include "text/text.h"

#define HEADS 32u /* positions of one model_head() */

struct options {
    const char *model, *file;
    uint32_t ctx, threads, kv;
    bool json, no_packed_cache;
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"file", 'f', OPT_STR, offsetof(struct options, file), 0, 0, "TEXTFILE", "the text; - is stdin"},
    {"ctx", 'c', OPT_U32, offsetof(struct options, ctx), 2, LIMIT_CONTEXT, "N",
     "tokens of a window (default: the whole text, at most the model's context)"},
    CLI_OPT_THREADS(struct options),
    CLI_OPT_PACKED(struct options),
    CLI_OPT_KV(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "perplexity",
    "Scores every token of a text after the first, in windows of --ctx tokens. The text is plain: control tokens written "
    "in it are not meant. JSON: {tokens, scored, windows, ctx, bos, nll, ppl, top1}.",
    "-m FILE -f TEXTFILE [OPTIONS]", opts, sizeof opts / sizeof *opts};

struct job {
    struct direct d;
    const struct kern_ops *ops;
    tok_id *ids; /* the text's, without BOS */
    size_t n;
    tok_id bos;          /* TOK_NONE = windows start with text */
    tok_id *window;      /* [ctx]: the ids of the window at hand */
    uint32_t ctx;
    const tok_id *want;  /* [HEADS] what each head has to predict */
    struct kern_top top[HEADS];
    double score[HEADS]; /* nll of each, where the logits are finite */
    double nll;          /* sum */
    size_t scored, top1, windows;
};

/* nll = log(sum of exp(x - max)) + max - x[want]. One task is one position. */
static void score_one(void *ctx, uint32_t task, int worker)
{
    (void)worker;
    struct job *j = ctx;
    uint32_t vocab = j->d.info->vocab;
    const float *x = j->d.logits + (size_t)task * vocab;
    float max = j->top[task].value;
    if (j->top[task].finite)
        j->score[task] = log((double)j->ops->exp_sum(x, vocab, max)) + (double)max - (double)x[j->want[task]];
}

/* Scores window ids (at, at + n]: the predictions of hidden states [first, first + n) of the last forward. */
static enum status score_step(struct job *j, uint32_t at, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i += HEADS) {
        uint32_t m = n - i < HEADS ? n - i : HEADS, index[HEADS];
        for (uint32_t k = 0; k < m; k++)
            index[k] = i + k;
        model_head(j->d.run, index, m, j->d.logits, j->top);
        j->want = j->window + at + i + 1;
        pool_run(j->d.workers, score_one, j, m);
        for (uint32_t k = 0; k < m; k++) {
            if (!j->top[k].finite)
                return err_set(e, ST_STEP_FAILED, "", "the logits of token %zu are not finite", j->scored);
            j->nll += j->score[k];
            j->top1 += j->top[k].index == (uint32_t)j->want[k];
            j->scored++;
        }
    }
    return ST_OK;
}

static void show_progress(const struct job *j)
{
    cli_progress("scored %zu of %zu tokens, ppl %.4f", j->scored, j->n, exp(j->nll / (double)j->scored));
}

static enum status score_window(struct job *j, uint32_t n, struct err *e)
{
    kv_seq_clear(&j->d.seq[0]);
    j->windows++;
    for (uint32_t at = 0; at + 1 < n; at += j->d.step) {
        uint32_t fed = n - at < j->d.step ? n - at : j->d.step, last;
        TRY(direct_feed(&j->d, 0, j->window + at, fed, &last, e));
        TRY(score_step(j, at, at + fed == n ? fed - 1 : fed, e));
        show_progress(j);
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted after %zu of %zu tokens", j->scored, j->n);
    }
    return ST_OK;
}

static enum status score_all(struct job *j, struct err *e)
{
    bool bos = j->bos != TOK_NONE;
    for (size_t at = 0; at < j->n;) {
        uint32_t lead = bos || at; /* the window's first id, which nothing predicts here */
        uint32_t take = j->n - at < j->ctx - lead ? (uint32_t)(j->n - at) : j->ctx - lead;
        if (lead)
            j->window[0] = bos ? j->bos : j->ids[at - 1];
        memcpy(j->window + lead, j->ids + at, take * sizeof *j->ids);
        TRY(score_window(j, take + lead, e));
        at += take;
    }
    return ST_OK;
}

/* --- set-up and output ------------------------------------------------------------------------------------------------ */

static enum status encode(struct job *j, const struct api_model *m, const char *path, struct err *e)
{
    struct buf in;
    tok_id *ids = NULL;
    TRY(cli_read(path[0] == '-' && !path[1] ? NULL : path, CLI_LIMIT_TEXT, &in, e));
    enum status st = tok_encode(m->tok, in.data, in.len, TOK_PLAIN, &ids, &j->n, e);
    buf_release(&in);
    j->ids = ids;
    j->bos = tok_adds_bos(m->tok) ? tok_bos(m->tok) : TOK_NONE;
    return st;
}

static enum status prepare(struct job *j, const struct api_model *m, const struct options *o, struct err *e)
{
    const struct model_info *info = model_info(m->model);
    TRY(encode(j, m, o->file, e));
    size_t whole = j->n + (j->bos != TOK_NONE);
    if (whole < 2)
        return err_set(e, ST_ARGUMENT, o->file, "%s: a text of at least two tokens is needed", o->file);
    if (o->ctx > info->context)
        return err_set(e, ST_TOO_LONG, "--ctx", "--ctx: %u is more than the model's context of %u", o->ctx,
                       info->context);
    j->ctx = o->ctx ? o->ctx : info->context;
    if (j->ctx > whole)
        j->ctx = (uint32_t)whole;
    j->window = malloc(j->ctx * sizeof *j->window);
    if (!j->window)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a window of %u tokens", j->ctx);
    j->ops = m->ops;
    struct direct_config c = {.rows = 1,
                              .context = j->ctx,
                              .step = j->ctx < LIMIT_SPAN ? j->ctx : LIMIT_SPAN,
                              .heads = HEADS,
                              .format = o->kv ? KERN_KV_F32 : KERN_KV_F16};
    return direct_new(&j->d, m, &c, e);
}

static int print_result(const struct job *j, bool json)
{
    double nll = j->nll / (double)j->scored, top1 = (double)j->top1 / (double)j->scored;
    size_t tokens = j->n + (j->bos != TOK_NONE ? 1 : 0);
    bool bos = j->bos != TOK_NONE;
    cli_progress("%s", "");
    if (json)
        printf("{\"tokens\": %zu, \"scored\": %zu, \"windows\": %zu, \"ctx\": %u, \"bos\": %s, \"nll\": %.9g, "
               "\"ppl\": %.9g, \"top1\": %.6g}\n",
               tokens, j->scored, j->windows, j->ctx, bos ? "true" : "false", nll, exp(nll), top1);
    else
        printf("%zu tokens, %zu of them scored in %zu window%s of at most %u%s: nll %.6f, ppl %.4f, top-1 %.4f\n",
               tokens, j->scored, j->windows, j->windows == 1 ? "" : "s", j->ctx, bos ? " (BOS first)" : "", nll,
               exp(nll), top1);
    return cli_flush();
}

int verb_perplexity(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model || !o.file)
        return opt_wrong(&verb, "%s is missing", o.model ? "-f TEXTFILE" : "-m FILE");
    struct job j = {.bos = TOK_NONE};
    struct api_model m;
    struct err e = {0};
    enum status st = cli_load(&m, o.model, o.threads, API_MODEL | API_TOK, o.no_packed_cache, &e);
    if (st != ST_OK)
        return cli_fail(&e);
    cli_catch_signals();
    st = prepare(&j, &m, &o, &e);
    if (st == ST_OK)
        st = score_all(&j, &e);
    status = st == ST_OK ? print_result(&j, o.json) : cli_fail(&e);
    direct_free(&j.d);
    free(j.window);
    if (j.ids)
        tok_ids_free(j.ids, j.n);
    api_close(&m);
    return status;
}
