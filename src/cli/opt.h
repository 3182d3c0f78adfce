/*
 * opt: one table per verb says what it takes; parsing, ranges, sentences for wrong usage and --help come from it.
 *
 * Options are written `--name VALUE`, `--name=VALUE` or `-x VALUE`; flags take no value; the last one given wins, except
 * for lists. Values land in the verb's own struct, at the offset its table names.
 */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

/* What lies at `at`. */
enum opt_kind {
    OPT_FLAG,   /* bool */
    OPT_STR,    /* const char * */
    OPT_U32,    /* uint32_t in [lo, hi] */
    OPT_U64,    /* uint64_t, any */
    OPT_F32,    /* float in [lo, hi] */
    OPT_CHOICE, /* uint32_t: which of the words in `arg`, which are separated by '|' */
    OPT_LIST    /* struct opt_list: may be given several times. Without a name: the words that are no options */
};

struct opt_list {
    const char *item[LIMIT_STOPS];
    uint32_t n;
};

struct opt {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none */
    enum opt_kind kind;
    size_t at;
    double lo, hi;    /* of numbers; ignored otherwise */
    const char *arg;  /* how help names the value */
    const char *help;
};

struct opt_verb {
    const char *name;
    const char *about; /* one or more sentences */
    const char *usage; /* what follows `ffwd NAME` */
    const struct opt *opts;
    size_t n;
};

/* Reads argv[1..argc) into `out`. False means that the verb must return *status at once: help was asked for and
 * printed (0), or the usage was wrong and said so (2). An unknown option is answered with the one that is nearest to it. */
bool opt_parse(const struct opt_verb *v, int argc, char **argv, void *out, int *status);

/* What --help prints, and the same as a JSON object, which --help=json prints for tools (opt_help.c). */
void opt_help(const struct opt_verb *v);
json_t *opt_json(const struct opt_verb *v); /* NULL without memory */

/* The values of options, by name, on as few lines as it takes. Of flags, choices and numbers alone. */
void opt_show(const struct opt_verb *v, const void *values, FILE *to);

/* For what a table cannot say: prints "ffwd VERB: <sentence>; see `ffwd help VERB`" and returns 2. */
int opt_wrong(const struct opt_verb *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A comma-separated list of token ids, "1,2,3", as a new array for free(). False when it is not one. */
bool opt_ids(const char *s, tok_id **ids, size_t *n);

#endif
