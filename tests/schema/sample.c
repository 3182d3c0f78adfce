/*
 * sample: walks matchers with a random model and says what came of it.
 *
 *   sample write FILE.gguf N [KIND]   sources on stdin, one a line (JSON: a schema, or a string for other kinds);
 *                                     answers on stdout, one JSON object a line, with N texts each
 *   sample time FILE.gguf N [KIND]    the same walks, and only the time of a mask: "masks p50 p99 max"
 *
 * KIND: json, schema (the default), regex, choice, lark, gbnf. RELAX=1 leaves out what cannot be enforced.
 *
 * The random model likes quotes, brackets and ends, so that most texts are complete after some dozen tokens; after LENGTH
 * tokens it takes nothing else where it can, and the text counts as cut. Draws are a function of source, text and
 * position. On the way some steps are taken back and done again: the masks must be the same.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "base/base.h"
#include "text/text.h"

enum { LENGTH = 160, MOST = 1200, TIMES = 4u << 20 };

struct bench {
    uint64_t *ns;
    size_t n;
};

struct walk {
    const struct tok *t;
    struct matcher *m;
    uint32_t words, *mask, *again, *liked, *closing, *both;
    tok_id ids[MOST];
    uint32_t n, forced;
    uint64_t seed;
    bool cut, done;
    const char *broken; /* what must not happen */
    struct bench *bench;
};

static double draw(const struct walk *w, uint32_t purpose)
{
    uint32_t out[4];
    rng_philox(w->seed, w->n, purpose, out);
    return (out[0] >> 8) / 16777216.0;
}

/* Sets of ids that the model likes: short ones with a quote, a bracket or a comma; and those that close. */
static void likes(struct walk *w)
{
    for (size_t id = 0; id < tok_vocab(w->t); id++) {
        size_t n;
        const char *b = tok_bytes(w->t, (tok_id)id, &n);
        bool close = n > 0 && n <= 3 && memchr("\"}]", b[n - 1], 3);
        if (n > 0 && n <= 3 && (close || memchr("{[,:\"0123456789", b[n - 1], 15)))
            w->liked[id / 32] |= 1u << id % 32;
        if (close)
            w->closing[id / 32] |= 1u << id % 32;
    }
}

static uint32_t count(const uint32_t *set, uint32_t words)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < words; i++)
        n += (uint32_t)__builtin_popcount(set[i]);
    return n;
}

static tok_id nth(const uint32_t *set, uint32_t words, uint32_t n)
{
    for (uint32_t i = 0; i < words; i++) {
        uint32_t here = (uint32_t)__builtin_popcount(set[i]);
        if (n >= here) {
            n -= here;
            continue;
        }
        uint32_t w = set[i];
        while (n--)
            w &= w - 1;
        return (tok_id)(i * 32 + (uint32_t)__builtin_ctz(w));
    }
    return TOK_NONE;
}

static bool only_from(struct walk *w, const uint32_t *liked)
{
    for (uint32_t i = 0; i < w->words; i++)
        w->both[i] = w->mask[i] & liked[i];
    return count(w->both, w->words) > 0;
}

static tok_id choose(struct walk *w)
{
    const uint32_t *from = w->mask;
    size_t n_eos;
    const tok_id *eos = tok_eos(w->t, &n_eos);
    for (size_t i = 0; i < n_eos; i++)
        w->mask[eos[i] / 32] &= ~(1u << eos[i] % 32);
    if ((w->cut && only_from(w, w->closing)) || (draw(w, 1) < 0.75 && only_from(w, w->liked)))
        from = w->both;
    return nth(from, w->words, (uint32_t)(draw(w, 2) * count(from, w->words)));
}

/* Of this thread alone: what else the machine does is not the mask's fault. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool mask(struct walk *w, uint32_t *out, struct matcher_next *next, struct err *e)
{
    uint64_t t0 = cpu_ns();
    bool ok = matcher_mask(w->m, out, next, e) == ST_OK;
    if (w->bench && w->bench->n < TIMES)
        w->bench->ns[w->bench->n++] = cpu_ns() - t0;
    return ok;
}

/* Back some steps and on again. */
static void retrace(struct walk *w)
{
    struct matcher_next next;
    struct err e;
    uint32_t back = (uint32_t)(draw(w, 4) * (w->n + 1));
    matcher_rollback(w->m, back);
    if (matcher_consume(w->m, w->ids + w->n - back, back) != back)
        w->broken = "the same ids were refused after going back";
    else if (matcher_mask(w->m, w->again, &next, &e) != ST_OK || memcmp(w->mask, w->again, w->words * 4) != 0)
        w->broken = "another mask after going back";
}

static void walk(struct walk *w)
{
    struct matcher_next next;
    struct err e;
    w->n = w->forced = 0;
    w->cut = w->done = false;
    w->broken = NULL;
    while (w->n < MOST && !w->broken) {
        if (!mask(w, w->mask, &next, &e)) {
            w->broken = "no mask";
            return;
        }
        w->cut |= w->n >= LENGTH;
        if (next.n == 0 || (next.end && (w->cut || draw(w, 0) < 0.5))) {
            w->done = next.end;
            return;
        }
        if (!w->bench && draw(w, 3) < 0.03)
            retrace(w);
        tok_id id = choose(w);
        w->forced += next.n == 1;
        if (next.n == 1 && id != next.only)
            w->broken = "not the only id";
        if (matcher_consume(w->m, &id, 1) != 1)
            w->broken = "an id of the mask was refused";
        w->ids[w->n++] = id;
    }
    w->cut = true;
}

static json_t *text_of(const struct walk *w)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    for (uint32_t i = 0; i < w->n; i++) {
        size_t len;
        const char *p = tok_bytes(w->t, w->ids[i], &len);
        buf_add(&b, p, len);
    }
    json_t *s = json_stringn(b.data ? b.data : "", b.len); /* NULL where it ends in half a character */
    buf_release(&b);
    return s ? s : json_null();
}

static void one(struct walk *w, const struct grammar_source *src, uint64_t number, unsigned samples, json_t *answer)
{
    struct grammar *g;
    struct err e;
    uint64_t t0 = clock_ns();
    enum status st = grammar_new(&g, w->t, src, &e);
    json_object_set_new(answer, "ms", json_real((double)(clock_ns() - t0) / 1e6));
    json_object_set_new(answer, "status", json_string(status_name(st)));
    if (st != ST_OK) {
        json_object_set_new(answer, "why", json_string(e.text));
        return;
    }
    size_t n;
    const char *relaxed = grammar_relaxed(g, &n);
    json_object_set_new(answer, "relaxed", json_loadb(relaxed, n, 0, NULL));
    json_t *texts = json_array();
    for (unsigned s = 0; s < samples; s++) {
        if (matcher_new(&w->m, g, &e) != ST_OK)
            break;
        w->seed = number * 1000 + s;
        walk(w);
        matcher_free(w->m);
        json_array_append_new(texts, json_pack("{s:o, s:b, s:b, s:i, s:i, s:s?}", "text", text_of(w), "done", w->done,
                                               "cut", w->cut, "tokens", (int)w->n, "forced", (int)w->forced, "broken",
                                               w->broken));
    }
    json_object_set_new(answer, "samples", texts);
    grammar_free(g);
}

static enum grammar_kind kind_of(const char *name)
{
    static const char *const names[] = {"json", "schema", "regex", "choice", "lark", "gbnf"};
    for (unsigned i = 0; name && i < 6; i++)
        if (strcmp(name, names[i]) == 0)
            return (enum grammar_kind)i;
    return GRAMMAR_SCHEMA;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void report(const struct bench *b)
{
    qsort(b->ns, b->n, sizeof *b->ns, by_time);
    if (b->n)
        printf("%zu masks, p50 %.1f us, p99 %.1f us, max %.1f us\n", b->n, (double)b->ns[b->n / 2] / 1e3,
               (double)b->ns[b->n * 99 / 100] / 1e3, (double)b->ns[b->n - 1] / 1e3);
}

int main(int argc, char **argv)
{
    struct api_model model;
    struct err e;
    struct bench bench = {0};
    if (argc < 4 || (strcmp(argv[1], "write") != 0 && strcmp(argv[1], "time") != 0)) {
        fprintf(stderr, "usage: sample write|time FILE.gguf N [KIND] < SOURCES\n");
        return 2;
    }
    unsigned samples = (unsigned)strtoul(argv[3], NULL, 10);
    bool timing = strcmp(argv[1], "time") == 0;
    struct api_open o = {.path = argv[2], .want = API_TOK};
    if (api_open(&model, &o, &e) != ST_OK) {
        fprintf(stderr, "%s: %s\n", argv[2], e.text);
        return 1;
    }
    uint32_t words = (uint32_t)(tok_vocab(model.tok) + 31) / 32;
    struct walk w = {.t = model.tok, .words = words};
    uint32_t *sets = calloc(5, words * sizeof *sets);
    w.mask = sets, w.again = sets + words, w.liked = sets + 2 * words, w.closing = sets + 3 * words;
    w.both = sets + 4 * words;
    likes(&w);
    if (timing) {
        bench.ns = malloc(TIMES * sizeof *bench.ns);
        w.bench = &bench;
    }
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    for (uint64_t number = 0; (len = getline(&line, &cap, stdin)) > 0; number++) {
        json_t *answer = json_object(), *text = NULL;
        struct grammar_source src = {.kind = kind_of(argc > 4 ? argv[4] : NULL), .text = line, .n = (size_t)len};
        src.relax = getenv("RELAX") != NULL;
        if (src.kind == GRAMMAR_REGEX || src.kind == GRAMMAR_LARK || src.kind == GRAMMAR_GBNF) {
            text = json_loadb(line, (size_t)len, JSON_DECODE_ANY, NULL);
            src.text = json_string_value(text);
            src.n = json_string_length(text);
        }
        one(&w, &src, number, samples, answer);
        json_decref(text);
        if (!timing) {
            char *out = json_dumps(answer, JSON_COMPACT);
            puts(out);
            free(out);
        }
        json_decref(answer);
    }
    if (timing)
        report(&bench);
    free(line);
    free(sets);
    free(bench.ns);
    api_close(&model);
    return 0;
}
