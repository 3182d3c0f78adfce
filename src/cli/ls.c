/* ls: lists the model cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bar.h"
#include "cli/cached.h"
#include "cli/cli.h"
#include "cli/package.h"

struct options {
    bool json;
};

static const struct opt opts[] = {
    CLI_OPT_JSON(struct options),
};
static const struct opt_verb verb = {
    "ls",
    "Lists the models in the cache: name, size, age, and what is odd about them. -m takes the names, and so does "
    "`ffwd rm`. JSON: {folder, bytes, models: [{name, path, known, bytes, modified, parts, of, unfinished}]}; "
    "`modified` is in seconds since 1970, `known` the short name or null; a split model has more than one part.",
    "[--json]", opts, sizeof opts / sizeof *opts};

/* The short name of a known model, or NULL. */
static const char *known_as(const struct cached *m)
{
    const struct package_model *k;
    for (size_t i = 0; (k = package_at(i)); i++)
        if (strcmp(k->file, m->name) == 0)
            return k->name;
    return NULL;
}

/* "3 days" */
static const char *age(int64_t modified, char out[32])
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = {{"year", 31557600}, {"month", 2629800}, {"day", 86400}, {"hour", 3600}, {"minute", 60}};
    int64_t s = (int64_t)time(NULL) - modified;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int64_t n = s / units[i].seconds;
        if (n > 0) {
            snprintf(out, 32, "%lld %s%s", (long long)n, units[i].name, n == 1 ? "" : "s");
            return out;
        }
    }
    snprintf(out, 32, "just now");
    return out;
}

static void print_model(const struct cached *m, int width)
{
    char size[BAR_BYTES], old[32], parts[48] = "", notes[160];
    const char *known = known_as(m);
    if (m->of > 1)
        snprintf(parts, sizeof parts, "  %u of %u parts", m->parts, m->of);
    snprintf(notes, sizeof notes, "%s%s%s%s", parts, m->unfinished ? "  unfinished" : "", known ? "  = " : "",
             known ? known : "");
    printf("%-*s %8s  %-*s%s\n", width, m->name, bar_bytes(m->bytes, size), notes[0] ? 10 : 0, age(m->modified, old),
           notes);
}

static int print_list(const struct cached_list *l)
{
    char size[BAR_BYTES];
    uint64_t bytes = 0;
    int width = 20;
    for (size_t i = 0; i < l->n; i++)
        if ((int)strlen(l->models[i].name) > width)
            width = (int)strlen(l->models[i].name);
    for (size_t i = 0; i < l->n; i++) {
        print_model(&l->models[i], width < 60 ? width : 60);
        bytes += l->models[i].bytes;
    }
    if (l->n)
        printf("%zu model%s, %s in %s\n", l->n, l->n == 1 ? "" : "s", bar_bytes(bytes, size), l->dir);
    else
        printf("no models in %s; `ffwd pull` fetches some\n", l->dir);
    return cli_flush();
}

static json_t *describe(const struct cached_list *l, const struct cached *m)
{
    char path[sizeof l->dir];
    if (cached_path(l, m, 1, path, sizeof path, NULL) != ST_OK)
        return NULL;
    return json_pack("{s:s, s:s, s:s?, s:I, s:I, s:i, s:i, s:b}", "name", m->name, "path", path, "known", known_as(m),
                     "bytes", (json_int_t)m->bytes, "modified", (json_int_t)m->modified, "parts", (int)m->parts, "of",
                     (int)m->of, "unfinished", (int)m->unfinished);
}

static int print_json(const struct cached_list *l)
{
    json_t *models = json_array();
    json_int_t bytes = 0;
    for (size_t i = 0; i < l->n; i++) {
        json_t *m = describe(l, &l->models[i]);
        if (m) /* a name that is not UTF-8 cannot be said in JSON */
            json_array_append_new(models, m);
        bytes += (json_int_t)l->models[i].bytes;
    }
    return cli_print_json(json_pack("{s:s, s:I, s:o}", "folder", l->dir, "bytes", bytes, "models", models));
}

int verb_ls(int argc, char **argv)
{
    struct options o = {0};
    struct cached_list l;
    struct err e = {0};
    int status;
    if (!opt_parse(&verb, argc, argv, &o, &status))
        return status;
    if (cached_read(&l, &e) != ST_OK)
        return cli_fail(&e);
    status = o.json ? print_json(&l) : print_list(&l);
    cached_free(&l);
    return status;
}
