/* curve: see curve.h. */
#include "cli/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/direct.h"
#include "cli/machine.h"
#include "kern/kern.h"

#define MOST_TOKENS 1024u /* in two rows of LIMIT_SPAN */
#define DEPTH 1024u       /* positions before the ids that the attention term is measured with */
#define DEEP_TOKENS 32u   /* of a chunk of a prompt there */
#define HEADS 4u
#define REPS 7
#define ENOUGH_S 1.5 /* of repetitions of one point, once there was one */
#define FILE_BYTES (64u << 10)

static const uint32_t tokens_of[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512, MOST_TOKENS};
#define POINTS (sizeof tokens_of / sizeof *tokens_of)
_Static_assert(POINTS <= ENGINE_COST_POINTS && MOST_TOKENS == 2 * LIMIT_SPAN, "two rows hold the largest step");

struct sweep {
    struct direct d;
    uint32_t row; /* ids a row takes at most */
    tok_id ids[MOST_TOKENS];
};

/* --- one figure ------------------------------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Milliseconds of one forward of n ids after what the rows hold; they hold the same afterwards. */
static enum status time_forward(struct sweep *s, uint32_t n, double *ms, struct err *e)
{
    struct model_span spans[2];
    uint32_t used = 0;
    for (uint32_t at = 0; at < n; at += s->row, used++) {
        spans[used] = (struct model_span){.seq = &s->d.seq[used], .ids = s->ids + at,
                                          .n = n - at < s->row ? n - at : s->row};
        TRY(kv_seq_reserve(spans[used].seq, spans[used].n, e));
    }
    double t = clock_seconds();
    model_forward(s->d.run, spans, used);
    *ms = (clock_seconds() - t) * 1e3;
    return ST_OK;
}

static enum status time_heads(struct sweep *s, double *ms)
{
    struct kern_top top[HEADS];
    uint32_t at[HEADS];
    for (uint32_t i = 0; i < HEADS; i++)
        at[i] = i;
    double t = clock_seconds();
    model_head(s->d.run, at, HEADS, s->d.logits, top);
    *ms = (clock_seconds() - t) * 1e3;
    return ST_OK;
}

/* The median of some repetitions after one that warms; of the heads when n is 0. */
static enum status measure(struct sweep *s, uint32_t n, double *ms, struct err *e)
{
    double all[REPS], spent = 0;
    int reps = 0;
    for (int i = -1; i < REPS && (reps < 1 || spent < ENOUGH_S); i++) {
        double one = 0;
        TRY(n ? time_forward(s, n, &one, e) : time_heads(s, &one));
        if (cli_interrupted())
            return err_set(e, ST_CANCELLED, "", "interrupted");
        if (i < 0)
            continue;
        all[reps++] = one;
        spent += one * 1e-3;
    }
    qsort(all, (size_t)reps, sizeof *all, ascending);
    *ms = all[reps / 2];
    return ST_OK;
}

/* --- the sweep ------------------------------------------------------------------------------------------------------- */

/* What n ids take longer after `depth` positions than after none, per million keys they look at. */
static double per_mkey(const struct sweep *s, uint32_t depth, uint32_t n, double flat, double deep)
{
    double keys = engine_cost_keys(s->d.info, depth, n) - engine_cost_keys(s->d.info, 0, n);
    return fmax((deep - flat) / fmax(keys * 1e-6, 1e-9), 1e-6);
}

static enum status measure_attention(struct sweep *s, uint32_t depth, struct engine_cost *c, struct err *e)
{
    double flat, deep, flat1, deep1;
    uint32_t last;
    TRY(measure(s, DEEP_TOKENS, &flat, e));
    TRY(measure(s, 1, &flat1, e));
    for (uint32_t at = 0; at < depth; at += MOST_TOKENS)
        TRY(direct_feed(&s->d, 0, s->ids, depth - at < MOST_TOKENS ? depth - at : MOST_TOKENS, &last, e));
    TRY(measure(s, DEEP_TOKENS, &deep, e));
    TRY(measure(s, 1, &deep1, e));
    c->attention_ms = per_mkey(s, depth, DEEP_TOKENS, flat, deep);
    c->decode_attention_ms = per_mkey(s, depth, 1, flat1, deep1);
    kv_seq_clear(&s->d.seq[0]);
    return ST_OK;
}

static enum status sweep(struct sweep *s, uint32_t context, struct engine_cost *c, struct err *e)
{
    s->row = context < LIMIT_SPAN ? context : LIMIT_SPAN;
    *c = (struct engine_cost){.n = 0};
    for (uint32_t i = 0; i < MOST_TOKENS; i++)
        s->ids[i] = direct_random_id(&s->d, 1, i);
    uint32_t depth = context > DEEP_TOKENS ? context - DEEP_TOKENS : 0;
    depth = depth < DEPTH ? depth : DEPTH;
    cli_progress("measuring attention");
    c->attention_ms = c->decode_attention_ms = 1e-6;
    if (depth)
        TRY(measure_attention(s, depth, c, e));
    for (uint32_t i = 0; i < POINTS && tokens_of[i] <= 2 * s->row; i++) {
        double ms, keys = 0;
        cli_progress("measuring steps of %u tokens", tokens_of[i]);
        TRY(measure(s, tokens_of[i], &ms, e));
        for (uint32_t at = 0; at < tokens_of[i]; at += s->row) /* the ids look at each other, too */
            keys += engine_cost_keys(s->d.info, 0, tokens_of[i] - at < s->row ? tokens_of[i] - at : s->row);
        ms = fmax(ms - c->attention_ms * keys * 1e-6, ms * 0.1);
        if (c->n && ms < c->point[c->n - 1].ms)
            ms = c->point[c->n - 1].ms; /* noise */
        c->point[c->n++] = (struct engine_cost_point){tokens_of[i], fmax(ms, 1e-6)};
    }
    cli_progress("measuring heads");
    TRY(measure(s, 0, &c->head_ms, e));
    c->head_ms = fmax(c->head_ms / HEADS, 1e-6);
    return ST_OK;
}

enum status curve_sweep(const struct api_model *m, struct engine_cost *c, struct err *e)
{
    uint32_t context = model_info(m->model)->context;
    uint32_t positions = context < DEPTH + LIMIT_SPAN ? context : DEPTH + LIMIT_SPAN;
    const struct direct_config dc = {
        .rows = 2, .context = positions, .step = MOST_TOKENS, .heads = HEADS, .format = KERN_KV_F16};
    struct sweep *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, ST_NO_MEMORY, "", "no memory to measure with");
    enum status st = direct_new(&s->d, m, &dc, e);
    if (st == ST_OK)
        st = sweep(s, positions, c, e);
    cli_progress("%s", "");
    direct_free(&s->d);
    free(s);
    return st;
}

/* --- the file -------------------------------------------------------------------------------------------------------- */

enum status curve_choose(const char *path, const struct api_model *m, struct engine_cost *c, struct err *e)
{
    struct engine_machine machine;
    if (path)
        return curve_read(path, c, e);
    machine_figures(m->pool, m->ops, &machine);
    engine_cost_guess(c, model_info(m->model), &machine);
    return ST_OK;
}

json_t *curve_json(const struct engine_cost *c)
{
    json_t *points = json_array();
    for (uint32_t i = 0; i < c->n; i++)
        json_array_append_new(points, json_pack("{s:I, s:f}", "tokens", (json_int_t)c->point[i].tokens, "ms",
                                                c->point[i].ms));
    return json_pack("{s:o, s:f, s:f, s:f}", "points", points, "head_ms_per_position", c->head_ms,
                     "attention_ms_per_mkey", c->attention_ms, "decode_attention_ms_per_mkey", c->decode_attention_ms);
}

static enum status parse(const json_t *root, struct engine_cost *c, struct err *e)
{
    const json_t *points = json_object_get(root, "points"), *attention = json_object_get(root, "attention_ms_per_mkey"),
                 *decode = json_object_get(root, "decode_attention_ms_per_mkey");
    *c = (struct engine_cost){.frozen = true, .attention_ms = 1e-6};
    if (!json_is_array(points) || json_array_size(points) > ENGINE_COST_POINTS)
        return err_set(e, ST_ARGUMENT, "points", "points must be an array of at most %u points", ENGINE_COST_POINTS);
    for (; c->n < json_array_size(points); c->n++) {
        const json_t *p = json_array_get(points, c->n), *tokens = json_object_get(p, "tokens");
        json_int_t n = json_integer_value(tokens);
        if (!json_is_integer(tokens) || n < 1 || n > LIMIT_CONTEXT)
            return err_set(e, ST_ARGUMENT, "points", "points[%u].tokens must be a whole number from 1 on", c->n);
        c->point[c->n] = (struct engine_cost_point){(uint32_t)n, json_number_value(json_object_get(p, "ms"))};
    }
    c->head_ms = json_number_value(json_object_get(root, "head_ms_per_position"));
    if (attention)
        c->attention_ms = json_number_value(attention);
    c->decode_attention_ms = decode ? json_number_value(decode) : c->attention_ms;
    return engine_cost_check(c, e);
}

enum status curve_read(const char *path, struct engine_cost *c, struct err *e)
{
    struct buf in;
    json_error_t je;
    struct err why = {0};
    TRY(cli_read(path, FILE_BYTES, &in, e));
    json_t *root = json_loadb(in.data, in.len, 0, &je);
    enum status st = root ? parse(root, c, &why)
                          : err_set(&why, ST_ARGUMENT, "", "line %d is no JSON: %.100s", je.line, je.text);
    json_decref(root);
    buf_release(&in);
    return st == ST_OK ? ST_OK : err_set(e, st, path, "%s: %s", path, why.text);
}
