/* replay_report: what `ffwd bench replay` found; see replay.h. Ratios are on ÷ off within a pair, and their medians over
 * all pairs count, with the smallest and largest beside them. Counts are those of the last pair. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/curve.h"
#include "cli/replay.h"
#include "kern/kern.h"
#include "model/model.h"

enum ratio { RATIO_TIME, RATIO_STEPS, RATIO_COST };

struct spread {
    double median, min, max;
};

static const struct replay_total *total(const struct replay_report *r, const struct replay_class *c, uint32_t pair,
                                        uint32_t mode)
{
    return &c->totals[(size_t)pair * r->modes + mode];
}

static const struct replay_total *last(const struct replay_report *r, const struct replay_class *c, uint32_t mode)
{
    return total(r, c, r->pairs - 1, mode);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct spread spread_of(double *values, uint32_t n)
{
    qsort(values, n, sizeof *values, ascending);
    double middle = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return (struct spread){middle, values[0], values[n - 1]};
}

static double measure(const struct replay_report *r, const struct replay_total *t, enum ratio what)
{
    return what == RATIO_TIME ? t->seconds : what == RATIO_STEPS ? (double)t->forwards : replay_cost(&r->cost, t);
}

static struct spread ratio_of(const struct replay_report *r, const struct replay_class *c, uint32_t mode, enum ratio what)
{
    double all[LIMIT_REPLAY_PAIRS];
    for (uint32_t p = 0; p < r->pairs; p++) {
        double off = measure(r, total(r, c, p, REPLAY_OFF), what), on = measure(r, total(r, c, p, mode), what);
        all[p] = off > 0 ? on / off : 1; /* replies of one token have nothing to decode */
    }
    return spread_of(all, r->pairs);
}

static double seconds_of(const struct replay_report *r, const struct replay_class *c, uint32_t mode)
{
    double all[LIMIT_REPLAY_PAIRS];
    for (uint32_t p = 0; p < r->pairs; p++)
        all[p] = total(r, c, p, mode)->seconds;
    return spread_of(all, r->pairs).median;
}

/* The mode that has this source alone; 0 = none was run. */
static uint32_t mode_alone(const struct replay_report *r, const struct replay_class *c, enum source_kind k)
{
    for (uint32_t m = REPLAY_EACH; m < r->modes; m++)
        if (r->alone[m - REPLAY_EACH] == k)
            return last(r, c, m)->tokens ? m : 0;
    return 0;
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static void add_ratios(json_t *to, const struct replay_report *r, const struct replay_class *c, uint32_t mode)
{
    struct spread time = ratio_of(r, c, mode, RATIO_TIME);
    json_object_set_new(to, "ratio_time", json_real(time.median));
    json_object_set_new(to, "ratio_time_range", json_pack("[f, f]", time.min, time.max));
    json_object_set_new(to, "ratio_steps", json_real(ratio_of(r, c, mode, RATIO_STEPS).median));
    json_object_set_new(to, "ratio_cost", json_real(ratio_of(r, c, mode, RATIO_COST).median));
}

static json_t *mode_json(const struct replay_report *r, const struct replay_class *c, uint32_t mode)
{
    const struct replay_total *t = last(r, c, mode);
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I}", "seconds", seconds_of(r, c, mode), "forwards",
                     (json_int_t)t->forwards, "head_positions", (json_int_t)t->heads, "computed", (json_int_t)t->ids,
                     "sampled", (json_int_t)t->sampled, "prompt_fed", (json_int_t)t->prompt_fed);
}

static json_t *sources_json(const struct replay_report *r, const struct replay_class *c)
{
    const struct replay_total *t = last(r, c, REPLAY_ON);
    json_t *all = json_object();
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        if (!(t->sources_on >> k & 1))
            continue;
        uint32_t alone = mode_alone(r, c, (enum source_kind)k);
        json_t *one = json_pack("{s:I, s:I, s:I, s:I}", "proposed", (json_int_t)t->by[k].proposed, "accepted",
                                (json_int_t)t->by[k].accepted, "rejected", (json_int_t)t->by[k].rejected, "asserted",
                                (json_int_t)t->by[k].asserted);
        if (alone) {
            json_t *ratios = mode_json(r, c, alone);
            add_ratios(ratios, r, c, alone);
            json_object_set_new(one, "alone", ratios);
        }
        json_object_set_new(all, source_name((enum source_kind)k), one);
    }
    return all;
}

int replay_print_json(const struct replay_report *r)
{
    const struct model_info *i = model_info(r->model->model);
    json_t *classes = json_object();
    json_t *root = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:o, s:o}", "model", i->name, "isa", r->model->ops->name,
                             "threads", pool_size(r->model->pool), "batch", (int)r->batch, "pairs", (int)r->pairs, "fill",
                             r->mode[REPLAY_ON].fill == FILL_STRICT ? "strict" : "lossless", "cost",
                             curve_json(&r->cost), "classes", classes);
    for (uint32_t n = 0; n < r->classes && root; n++) {
        const struct replay_class *c = &r->cls[n];
        json_t *one = json_pack("{s:I, s:I, s:I}", "lines", (json_int_t)c->lines, "left_out",
                                (json_int_t)c->left_out, "tokens", (json_int_t)last(r, c, REPLAY_ON)->tokens);
        add_ratios(one, r, c, REPLAY_ON);
        json_object_set_new(one, "off", mode_json(r, c, REPLAY_OFF));
        json_object_set_new(one, "on", mode_json(r, c, REPLAY_ON));
        json_object_set_new(one, "by_source", sources_json(r, c));
        json_object_set_new(classes, c->name, one);
    }
    return cli_print_json(root);
}

/* --- for people ------------------------------------------------------------------------------------------------------ */

static void print_mode(const struct replay_report *r, const struct replay_class *c, const char *name, uint32_t mode)
{
    const struct replay_total *t = last(r, c, mode);
    printf("%-22.22s %8llu %9llu %8llu %9llu %9.3f", name, (unsigned long long)t->tokens,
           (unsigned long long)t->forwards, (unsigned long long)t->heads, (unsigned long long)t->ids,
           seconds_of(r, c, mode));
    if (mode != REPLAY_OFF) {
        struct spread time = ratio_of(r, c, mode, RATIO_TIME);
        printf("  %.3f [%.3f-%.3f] %6.3f %6.3f", time.median, time.min, time.max,
               ratio_of(r, c, mode, RATIO_STEPS).median, ratio_of(r, c, mode, RATIO_COST).median);
    }
    putchar('\n');
}

static void print_sources(const struct replay_report *r, const struct replay_class *c)
{
    const struct replay_total *t = last(r, c, REPLAY_ON);
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        if (t->sources_on >> k & 1)
            printf("    %-18s proposed %llu, accepted %llu, rejected %llu, asserted %llu\n",
                   source_name((enum source_kind)k), (unsigned long long)t->by[k].proposed,
                   (unsigned long long)t->by[k].accepted, (unsigned long long)t->by[k].rejected,
                   (unsigned long long)t->by[k].asserted);
    }
    for (unsigned k = 0; k < SOURCE_KINDS; k++) {
        uint32_t alone = mode_alone(r, c, (enum source_kind)k);
        char name[40];
        snprintf(name, sizeof name, "  %s alone", source_name((enum source_kind)k));
        if (alone)
            print_mode(r, c, name, alone);
    }
}

int replay_print_plain(const struct replay_report *r)
{
    const struct model_info *i = model_info(r->model->model);
    printf("%s, %s; %s, %d threads, %u at a time, %u pairs of runs\n", i->name, i->types, r->model->ops->name,
           pool_size(r->model->pool), r->batch, r->pairs);
    printf("%-22s %8s %9s %8s %9s %9s  %-19s %6s %6s\n", "", "tokens", "forwards", "heads", "computed", "seconds",
           "time, on ÷ off", "steps", "cost");
    for (uint32_t n = 0; n < r->classes; n++) {
        const struct replay_class *c = &r->cls[n];
        printf("\n%s, %u replies", c->name, c->lines);
        printf(c->left_out ? ", %u left out\n" : "\n", c->left_out);
        print_mode(r, c, "  off", REPLAY_OFF);
        print_mode(r, c, "  on", REPLAY_ON);
        print_sources(r, c);
    }
    return cli_flush();
}
