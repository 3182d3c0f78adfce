/*
 * open: from a path to everything that a model's users need; see api.h.
 *
 * The tokenizer is described to text/ from the file's metadata here, because text/ knows no model files and weights/
 * knows no metadata keys.
 */
#include "api/api.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/home.h"
#include "chat/chat.h"
#include "model/model.h" /* and with it weights and kern */
#include "text/text.h"

/* --- the tokenizer --------------------------------------------------------------------------------------------------- */

/* The arrays a tok_source points to; freed once the tokenizer is built. */
struct vocabulary {
    char *model, *pre, *name;
    struct text_view *tokens, *merges;
    float *scores;
    int32_t *types;
};

static void vocabulary_release(struct vocabulary *v)
{
    free(v->model);
    free(v->pre);
    free(v->name);
    free(v->tokens);
    free(v->merges);
    free(v->scores);
    free(v->types);
}

static enum status no_memory(struct err *e, const struct weights *w)
{
    return err_set(e, ST_NO_MEMORY, weights_path(w), "%s: no memory for the vocabulary", weights_path(w));
}

/* A NUL-terminated copy of a metadata string, NULL when the key is absent. */
static enum status copy_string(const struct weights *w, const char *key, char **out, struct err *e)
{
    struct weights_str s;
    *out = NULL;
    if (!weights_string(w, key, &s))
        return ST_OK;
    *out = malloc(s.n + 1);
    if (!*out)
        return no_memory(e, w);
    memcpy(*out, s.s, s.n);
    (*out)[s.n] = '\0';
    return ST_OK;
}

static enum status copy_strings(const struct weights *w, const char *key, struct text_view **out, size_t *n,
                                struct err *e)
{
    *n = weights_array(w, key);
    *out = NULL;
    if (*n == 0)
        return ST_OK;
    struct weights_str *s = malloc(*n * sizeof *s);
    *out = malloc(*n * sizeof **out);
    enum status st = ST_OK;
    if (!s || !*out) {
        st = no_memory(e, w);
    } else if (!weights_strings(w, key, s, *n)) {
        st = err_set(e, ST_MODEL, key, "%s: %s must be an array of strings", weights_path(w), key);
    } else {
        for (size_t i = 0; i < *n; i++)
            (*out)[i] = (struct text_view){s[i].s, s[i].n};
    }
    free(s);
    return st;
}

static enum status copy_numbers(const struct weights *w, size_t n, struct vocabulary *v, struct err *e)
{
    static const char scores[] = "tokenizer.ggml.scores", types[] = "tokenizer.ggml.token_type";
    size_t n_scores = weights_array(w, scores), n_types = weights_array(w, types);
    if ((n_scores && n_scores != n) || (n_types && n_types != n))
        return err_set(e, ST_MODEL, n_scores && n_scores != n ? scores : types,
                       "%s: %s has %zu entries, but there are %zu tokens", weights_path(w),
                       n_scores && n_scores != n ? scores : types, n_scores && n_scores != n ? n_scores : n_types, n);
    if (n_scores && !(v->scores = malloc(n * sizeof *v->scores)))
        return no_memory(e, w);
    if (n_types && !(v->types = malloc(n * sizeof *v->types)))
        return no_memory(e, w);
    if (n_scores && !weights_f32s(w, scores, v->scores, n))
        return err_set(e, ST_MODEL, scores, "%s: %s must be an array of numbers", weights_path(w), scores);
    if (n_types && !weights_i32s(w, types, v->types, n))
        return err_set(e, ST_MODEL, types, "%s: %s must be an array of integers", weights_path(w), types);
    return ST_OK;
}

static tok_id special_id(const struct weights *w, const char *key, size_t n_tokens)
{
    uint32_t id;
    return weights_u32(w, key, &id) && id < n_tokens ? (tok_id)id : TOK_NONE;
}

/* Under its name, or under the one that older files have. */
static tok_id infill_id(const struct weights *w, const char *key, const char *older, size_t n_tokens)
{
    tok_id id = special_id(w, key, n_tokens);
    return id != TOK_NONE ? id : special_id(w, older, n_tokens);
}

static int said_flag(const struct weights *w, const char *key)
{
    bool flag;
    return weights_bool(w, key, &flag) ? flag : -1;
}

static void fill_source(const struct weights *w, const struct vocabulary *v, struct tok_source *src)
{
    src->model = v->model;
    src->pre = v->pre;
    src->name = v->name;
    src->tokens = v->tokens;
    src->scores = v->scores;
    src->types = v->types;
    src->merges = v->merges;
    src->bos = special_id(w, "tokenizer.ggml.bos_token_id", src->n_tokens);
    src->eos = special_id(w, "tokenizer.ggml.eos_token_id", src->n_tokens);
    src->unk = special_id(w, "tokenizer.ggml.unknown_token_id", src->n_tokens);
    src->eot = special_id(w, "tokenizer.ggml.eot_token_id", src->n_tokens);
    src->eom = special_id(w, "tokenizer.ggml.eom_token_id", src->n_tokens);
    src->pad = special_id(w, "tokenizer.ggml.padding_token_id", src->n_tokens);
    src->infill = (struct tok_infill){
        .prefix = infill_id(w, "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id", src->n_tokens),
        .suffix = infill_id(w, "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id", src->n_tokens),
        .middle = infill_id(w, "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id", src->n_tokens),
        .repo = special_id(w, "tokenizer.ggml.fim_rep_token_id", src->n_tokens),
        .file = special_id(w, "tokenizer.ggml.fim_sep_token_id", src->n_tokens),
    };
    src->add_bos = said_flag(w, "tokenizer.ggml.add_bos_token");
    src->add_eos = said_flag(w, "tokenizer.ggml.add_eos_token");
    src->add_space_prefix = said_flag(w, "tokenizer.ggml.add_space_prefix");
}

static enum status read_vocabulary(const struct weights *w, struct vocabulary *v, struct tok_source *src,
                                   struct err *e)
{
    TRY(copy_string(w, "tokenizer.ggml.model", &v->model, e));
    TRY(copy_string(w, "tokenizer.ggml.pre", &v->pre, e));
    TRY(copy_string(w, "general.name", &v->name, e));
    TRY(copy_strings(w, "tokenizer.ggml.tokens", &v->tokens, &src->n_tokens, e));
    if (!v->model || !v->tokens)
        return err_set(e, ST_MODEL, "tokenizer.ggml.tokens", "%s: the file has no tokenizer (%s is missing)",
                       weights_path(w), v->model ? "tokenizer.ggml.tokens" : "tokenizer.ggml.model");
    TRY(copy_strings(w, "tokenizer.ggml.merges", &v->merges, &src->n_merges, e));
    TRY(copy_numbers(w, src->n_tokens, v, e));
    fill_source(w, v, src);
    return ST_OK;
}

static enum status open_tok(const struct weights *w, struct tok **out, struct err *e)
{
    struct vocabulary v = {0};
    struct tok_source src;
    tok_source_init(&src);
    enum status st = read_vocabulary(w, &v, &src, e);
    if (st == ST_OK) {
        struct err why;
        st = tok_new_gguf(out, &src, &why);
        if (st != ST_OK)
            err_set(e, why.code, why.field, "%s: %s", weights_path(w), why.text);
    }
    vocabulary_release(&v);
    return st;
}

/* A template that does not compile leaves a chat without one, and chat_err with the reason. */
static enum status open_chat(struct api_model *m, struct err *e)
{
    static const char key[] = "tokenizer.chat_template";
    struct weights_str s;
    if (weights_string(m->weights, key, &s)) {
        struct err why;
        if (chat_new(&m->chat, m->tok, s.s, s.n, &why) == ST_OK)
            return ST_OK;
        err_set(&m->chat_err, why.code, key, "%s: %s", weights_path(m->weights), why.text);
    }
    return chat_new(&m->chat, m->tok, NULL, 0, e);
}

/* --- both at once ---------------------------------------------------------------------------------------------------- */

static enum status open_text(struct api_model *m, unsigned want, struct err *e)
{
    if (want & API_TOK)
        TRY(open_tok(m->weights, &m->tok, e));
    return want & API_CHAT ? open_chat(m, e) : ST_OK;
}

struct model_job {
    struct api_model *m;
    const struct api_open *o;
    enum status st;
    struct err err;
};

static enum status open_model(struct api_model *m, const struct api_open *o, struct err *e)
{
    TRY(kern_choose(&m->ops, e));
    TRY(pool_new(&m->pool, (int)o->threads, e));
    struct model_options mo = {.pool = m->pool,
                               .ops = m->ops,
                               .store = o->store,
                               .progress = o->progress,
                               .progress_ctx = o->progress_ctx};
    return model_new(&m->model, m->weights, &mo, e);
}

static void run_job(struct model_job *j)
{
    j->st = open_model(j->m, j->o, &j->err);
}

/* This thread is worker 0 while weights are packed, so it keeps to the others' memory node. */
static void *model_main(void *arg)
{
    home_thread(home_here());
    run_job(arg);
    return NULL;
}

/* The tokenizer is built on the calling thread, because it is many small allocations: in the heap of the process they
 * take half the system calls that they take in the heap of another thread. */
static enum status open_both(struct api_model *m, const struct api_open *o, struct err *e)
{
    struct model_job job = {.m = m, .o = o};
    pthread_t thread;
    if (o->want & API_MODEL)
        home_choose(weights_file_bytes(m->weights), o->threads);
    bool beside = (o->want & API_MODEL) && (o->want & (API_TOK | API_CHAT)) &&
                  pthread_create(&thread, NULL, model_main, &job) == 0;
    if ((o->want & API_MODEL) && !beside)
        run_job(&job);
    struct err why = {0};
    enum status st = beside || job.st == ST_OK ? open_text(m, o->want, &why) : ST_OK;
    if (beside)
        pthread_join(thread, NULL);
    if (job.st != ST_OK)
        return err_set(e, job.err.code, job.err.field, "%s", job.err.text);
    return st == ST_OK ? ST_OK : err_set(e, why.code, why.field, "%s", why.text);
}

/* A vocabulary larger than the network's output would let a prompt name ids that have no embedding. */
static enum status check_sizes(const struct api_model *m, struct err *e)
{
    if (!m->model || !m->tok || tok_vocab(m->tok) <= model_info(m->model)->vocab)
        return ST_OK;
    return err_set(e, ST_MODEL, "tokenizer.ggml.tokens", "%s: the tokenizer has %zu tokens, but the network only %u",
                   weights_path(m->weights), tok_vocab(m->tok), model_info(m->model)->vocab);
}

enum status api_open(struct api_model *out, const struct api_open *o, struct err *e)
{
    *out = (struct api_model){0};
    TRY(weights_open(&out->weights, o->path, e));
    enum status st = open_both(out, o, e);
    if (st == ST_OK)
        st = check_sizes(out, e);
    if (st != ST_OK)
        api_close(out);
    return st;
}

void api_close(struct api_model *m)
{
    chat_free(m->chat);
    tok_free(m->tok);
    model_free(m->model);
    pool_free(m->pool);
    weights_free(m->weights);
    *m = (struct api_model){0};
}
