/*
 * quantize: a GGUF file of F32, F16 or BF16 weights into one of smaller types.
 *
 * Matrices change their type, everything else (norms, biases, metadata) stays as it is. The new file is written beside its
 * final place, slice by slice as the workers encode it, and renamed when it is whole. What is lost is measured on the way:
 * each block is decoded again.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bar.h"
#include "cli/cli.h"
#include "cli/store.h"
#include "kern/kern.h"
#include "weights/weights.h"

#define CHUNK 16384u  /* weights of one task: whole blocks of every type */
#define SLICE 512u    /* tasks between two writes */
#define LARGEST 65504 /* what a half float can hold; larger weights are a mistake somewhere */
#define PATH_CAP 4096

struct options {
    const char *model, *out, *type;
    uint32_t threads;
    bool force, json;
};

/* What becomes of matrices, by --type. The head, and the embedding where it is the head, matters most. */
static const struct mixture {
    const char *name;
    enum kern_type type, head;
    uint32_t file_type; /* ggml's number for it; Q4_K with a Q6_K head is its Q4_K_S */
} mixtures[] = {
    {"Q8_0", KERN_Q8_0, KERN_Q8_0, 7},
    {"Q6_K", KERN_Q6_K, KERN_Q6_K, 18},
    {"Q4_K", KERN_Q4_K, KERN_Q6_K, 14},
    {"Q4_0", KERN_Q4_0, KERN_Q6_K, 2},
};

static const struct opt opts[] = {
    CLI_OPT_MODEL(struct options),
    {"out", 'o', OPT_STR, offsetof(struct options, out), 0, 0, "FILE", "the file to write"},
    {"type", 0, OPT_STR, offsetof(struct options, type), 0, 0, "TYPE",
     "what matrices become: Q8_0, Q6_K, Q4_K or Q4_0 (about 8.5, 6.6, 4.5 and 4.5 bits a weight)"},
    {"force", 'f', OPT_FLAG, offsetof(struct options, force), 0, 0, NULL,
     "replace a file that is there already, also FILE.part"},
    CLI_OPT_THREADS(struct options),
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "quantize",
    "Writes a model of F32, F16 or BF16 weights again with quantised ones. Norms, biases, routers and metadata stay. The "
    "head (the embedding, where that is the head) becomes Q6_K with Q4_K and Q4_0; matrices whose rows are no multiple of "
    "256 weights become Q8_0 instead of Q6_K, and Q4_0 instead of Q4_K; those of no multiple of 32 stay. A split model "
    "becomes one file. JSON: {output, type, tensors: {TYPE: count}, bytes_in, bytes_out, bits_per_weight, error}; error is "
    "the relative RMS error of the weights that were quantised.",
    "-m FILE -o FILE --type TYPE [--force] [--json]", opts, sizeof opts / sizeof *opts};

static const struct mixture *find_mixture(const char *name)
{
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (strcasecmp(mixtures[i].name, name) == 0)
            return &mixtures[i];
    return NULL;
}

struct job {
    const struct mixture *mix;
    const struct weights *w;
    struct weights_place *places; /* [weights_count(w)] */
    struct pool *workers;
    const char *path;
    char part[PATH_CAP];
    bool force;
    int fd; /* of the part, locked; -1 = closed */
    struct bar bar;
    uint64_t done, total; /* bytes of the source */
    float *floats;        /* [workers][2][CHUNK] */
    uint8_t *slice;       /* blocks of SLICE chunks */
    double lost, all;     /* sums of squares: of differences, of weights */
    /* the slice at hand */
    const struct tensor *t;
    enum kern_type type;
    uint64_t first, n;    /* weights before the tensor's slice, weights of the tensor */
    double chunk_lost[SLICE], chunk_all[SLICE];
    bool chunk_bad[SLICE];
};

/* --- which types -------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Matrices that are multiplied; not routers and convolutions, which are small and matter much. */
static bool is_quantised(const struct tensor *t)
{
    return t->dims >= 2 && ends_with(t->name, ".weight") && !strstr(t->name, "_norm") && !strstr(t->name, "ffn_gate_inp") &&
           !strstr(t->name, "ssm_");
}

static bool is_head(const struct weights *w, const struct tensor *t)
{
    const char *head = weights_find(w, "output.weight") ? "output.weight" : "token_embd.weight";
    return strcmp(t->name, head) == 0;
}

static enum kern_type choose(const struct weights *w, const struct tensor *t, const struct mixture *m)
{
    if (!is_quantised(t))
        return t->type;
    enum kern_type type = is_head(w, t) ? m->head : m->type;
    if (t->dim[0] % kern_type_info(type)->block) /* the nearest with blocks of 32 */
        type = type == KERN_Q4_K ? KERN_Q4_0 : KERN_Q8_0;
    return t->dim[0] % kern_type_info(type)->block ? t->type : type;
}

static enum status choose_all(struct job *j, struct err *e)
{
    for (size_t i = 0; i < weights_count(j->w); i++) {
        const struct tensor *t = weights_at(j->w, i);
        const struct kern_type_info *ti = kern_type_info(t->type);
        if (is_quantised(t) && ti->quantised)
            return err_set(e, ST_UNSUPPORTED, t->name, "%s: tensor %s is %s already; F32, F16 or BF16 is needed",
                           weights_shown(j->w), t->name, ti->name);
        j->places[i].type = choose(j->w, t, j->mix);
        j->total += t->bytes;
    }
    return ST_OK;
}

/* --- encoding ----------------------------------------------------------------------------------------------------- */

static void encode_chunk(void *ctx, uint32_t task, int worker)
{
    struct job *j = ctx;
    uint64_t at = j->first + (uint64_t)task * CHUNK;
    size_t n = j->n - at < CHUNK ? (size_t)(j->n - at) : CHUNK;
    const struct kern_type_info *from = kern_type_info(j->t->type), *to = kern_type_info(j->type);
    float *x = j->floats + (size_t)worker * 2 * CHUNK, *y = x + CHUNK;
    uint8_t *out = j->slice + (size_t)task * (CHUNK / to->block * to->file_bytes);
    double lost = 0, all = 0;
    kern_to_f32(j->t->type, (const uint8_t *)j->t->data + at * from->file_bytes, n, x);
    j->chunk_bad[task] = false;
    for (size_t i = 0; i < n; i++)
        j->chunk_bad[task] |= !(fabsf(x[i]) <= LARGEST);
    if (j->chunk_bad[task])
        return;
    kern_from_f32(j->type, x, n, out);
    kern_to_f32(j->type, out, n, y);
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];
        lost += d * d;
        all += (double)x[i] * (double)x[i];
    }
    j->chunk_lost[task] = lost;
    j->chunk_all[task] = all;
}

static enum status put(struct job *j, const void *data, size_t n, uint64_t at, struct err *e)
{
    for (const uint8_t *p = data; n;) {
        ssize_t wrote = pwrite(j->fd, p, n, (off_t)at);
        if (wrote < 0 && errno != EINTR)
            return err_errno(e, ST_IO, j->part, "cannot write %s", j->part);
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, j->path, "interrupted; %s was not written", j->path);
        if (wrote > 0) {
            p += wrote;
            n -= (size_t)wrote;
            at += (uint64_t)wrote;
        }
    }
    return ST_OK;
}

/* Weights [first, first + count) of the tensor at hand. */
static enum status encode_slice(struct job *j, uint64_t count, uint64_t at, struct err *e)
{
    const struct kern_type_info *to = kern_type_info(j->type);
    uint32_t tasks = (uint32_t)((count + CHUNK - 1) / CHUNK);
    pool_run(j->workers, encode_chunk, j, tasks);
    for (uint32_t i = 0; i < tasks; i++) { /* in order, so that the sums do not depend on the workers */
        if (j->chunk_bad[i])
            return err_set(e, ST_MODEL, j->t->name, "%s: tensor %s has weights that are not finite, or beyond %d",
                           weights_shown(j->w), j->t->name, LARGEST);
        j->lost += j->chunk_lost[i];
        j->all += j->chunk_all[i];
    }
    return put(j, j->slice, (size_t)(count / to->block * to->file_bytes), at + j->first / to->block * to->file_bytes, e);
}

static enum status write_tensor(struct job *j, size_t i, struct err *e)
{
    const struct tensor *t = j->t = weights_at(j->w, i);
    const struct weights_place *p = &j->places[i];
    j->type = p->type;
    j->n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    if (p->type == t->type)
        TRY(put(j, t->data, t->bytes, p->at, e));
    for (j->first = 0; p->type != t->type && j->first < j->n; j->first += (uint64_t)SLICE * CHUNK) {
        uint64_t left = j->n - j->first, most = (uint64_t)SLICE * CHUNK;
        TRY(encode_slice(j, left < most ? left : most, p->at, e));
        bar_show(&j->bar, j->done + j->first * (t->bytes / j->n), j->total);
    }
    j->done += t->bytes;
    bar_show(&j->bar, j->done, j->total);
    weights_drop(j->w, t);
    return ST_OK;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* The part may be the model that is being read, or what another process is writing: nothing of it is touched before. */
static enum status claim_part(const struct job *j, int fd, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_errno(e, ST_IO, j->part, "cannot examine %s", j->part);
    if (weights_has_file(j->w, st.st_dev, st.st_ino))
        return err_set(e, ST_ARGUMENT, "-o", "-o: %s would be overwritten, which the weights are read from", j->part);
    bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK)
        return err_errno(e, ST_IO, j->part, "cannot lock %s", j->part);
    if (!locked || !store_is_still(fd, j->part))
        return err_set(e, ST_BUSY, j->part, "%s is being written by another process", j->part);
    return ftruncate(fd, 0) == 0 ? ST_OK : err_errno(e, ST_IO, j->part, "cannot empty %s", j->part);
}

static enum status open_part(struct job *j, struct err *e)
{
    int fd = open(j->part, O_WRONLY | O_CREAT | O_CLOEXEC | (j->force ? 0 : O_EXCL), 0666);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, ST_ARGUMENT, "-o", "%s is there already; --force replaces it", j->part);
    if (fd < 0)
        return err_errno(e, ST_IO, j->part, "cannot create %s", j->part);
    enum status st = claim_part(j, fd, e);
    if (st == ST_OK)
        j->fd = fd;
    else
        close(fd);
    return st;
}

static enum status fill(struct job *j, const struct buf *head, uint64_t end, struct err *e)
{
    const char *slash = strrchr(j->path, '/');
    char dir[PATH_CAP];
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - j->path) + 1 : 1, slash ? j->path : ".");
    TRY(store_room(dir, j->path, end, e));
    TRY(open_part(j, e));
    if (ftruncate(j->fd, (off_t)end) != 0)
        return err_errno(e, ST_IO, j->part, "cannot write %s", j->part);
    TRY(put(j, head->data, head->len, 0, e));
    for (size_t i = 0; i < weights_count(j->w); i++)
        TRY(write_tensor(j, i, e));
    if (fsync(j->fd) != 0)
        return err_errno(e, ST_IO, j->part, "cannot write %s", j->part);
    if (rename(j->part, j->path) != 0)
        return err_errno(e, ST_IO, j->path, "cannot rename the new file to %s", j->path);
    return ST_OK;
}

static enum status write_file(struct job *j, struct err *e)
{
    struct buf head;
    uint64_t end;
    enum status st = weights_write_head(j->w, j->places, j->mix->file_type, &head, &end, e);
    if (st == ST_OK)
        st = fill(j, &head, end, e);
    if (j->fd >= 0) {
        close(j->fd);
        if (st != ST_OK)
            unlink(j->part);
    }
    buf_release(&head);
    cli_progress("%s", "");
    return st;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static int report(const struct job *j, bool json)
{
    size_t count[KERN_TYPES] = {0};
    uint64_t weights = 0, bytes = 0;
    char in[BAR_BYTES], out[BAR_BYTES];
    double error = j->all > 0 ? sqrt(j->lost / j->all) : 0;
    json_t *types = json_object();
    for (size_t i = 0; i < weights_count(j->w); i++) {
        const struct tensor *t = weights_at(j->w, i);
        count[j->places[i].type]++;
        weights += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        bytes += j->places[i].bytes;
    }
    double bits = weights ? 8.0 * (double)bytes / (double)weights : 0;
    for (int t = 0; t < KERN_TYPES; t++)
        if (count[t])
            json_object_set_new(types, kern_type_info((enum kern_type)t)->name, json_integer((json_int_t)count[t]));
    if (json)
        return cli_print_json(json_pack("{s:s, s:s, s:o, s:I, s:I, s:f, s:f}", "output", j->path, "type", j->mix->name,
                                        "tensors", types, "bytes_in", (json_int_t)j->total, "bytes_out",
                                        (json_int_t)bytes, "bits_per_weight", bits, "error", error));
    printf("%s:", j->path);
    for (int t = 0; t < KERN_TYPES; t++)
        if (count[t])
            printf(" %zu %s,", count[t], kern_type_info((enum kern_type)t)->name);
    printf(" %s of weights from %s, %.2f bits a weight, error %.5f\n", bar_bytes(bytes, out), bar_bytes(j->total, in), bits,
           error);
    json_decref(types);
    return cli_flush();
}

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static enum status prepare(struct job *j, const struct options *o, struct weights **w, struct err *e)
{
    char path[PATH_CAP];
    int n = snprintf(j->part, sizeof j->part, "%s" STORE_PART, o->out);
    if (n < 0 || (size_t)n >= sizeof j->part)
        return err_set(e, ST_ARGUMENT, "-o", "-o: the path is too long");
    if (!o->force && access(o->out, F_OK) == 0)
        return err_set(e, ST_ARGUMENT, "-o", "%s is there already; --force replaces it", o->out);
    TRY(cli_model_path(o->model, path, sizeof path, e));
    TRY(weights_open(w, path, e));
    TRY(pool_new(&j->workers, (int)o->threads, e));
    j->w = *w;
    j->path = o->out;
    j->force = o->force;
    j->places = calloc(weights_count(*w) + 1, sizeof *j->places);
    j->floats = calloc((size_t)pool_size(j->workers) * 2 * CHUNK, sizeof *j->floats);
    j->slice = malloc((size_t)SLICE * CHUNK / 32 * 34); /* Q8_0 is the largest */
    if (!j->places || !j->floats || !j->slice)
        return err_set(e, ST_NO_MEMORY, "", "no memory to quantize a model");
    bar_begin(&j->bar, o->out, 0);
    return choose_all(j, e);
}

int verb_quantize(int argc, char **argv)
{
    struct options o = {0};
    struct err e = {0};
    struct weights *w = NULL;
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (!o.model || !o.out || !o.type)
        return opt_wrong(&verb, "%s is missing", !o.model ? "-m FILE" : !o.out ? "-o FILE" : "--type TYPE");
    const struct mixture *mix = find_mixture(o.type);
    if (!mix)
        return opt_wrong(&verb, "--type must be Q8_0, Q6_K, Q4_K or Q4_0, not \"%s\"", o.type);
    struct job *j = calloc(1, sizeof *j);
    if (!j) {
        (void)err_set(&e, ST_NO_MEMORY, "", "no memory to quantize a model");
        return cli_fail(&e);
    }
    j->fd = -1;
    j->mix = mix;
    cli_catch_signals();
    enum status st = prepare(j, &o, &w, &e);
    if (st == ST_OK)
        st = write_file(j, &e);
    status = st == ST_OK ? report(j, o.json) : cli_fail(&e);
    pool_free(j->workers);
    free(j->places);
    free(j->floats);
    free(j->slice);
    free(j);
    weights_free(w);
    return status;
}
