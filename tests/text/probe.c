/*
 * probe: lets the Python tests of this folder call src/text/.
 *
 *   probe tok FILE.gguf        answers records about texts
 *   probe json tokenizer.json  the same
 *   probe tpl [FILE.gguf]      renders records
 *   probe fmt                  reads replies as the formats of templates do
 *   probe time FILE.gguf       prints what loading and encoding take
 *
 * Records come on stdin: a u32 kind, a u32 length, the bytes. Answers go to stdout the same way. All little-endian.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/base.h"
#include "format/format.h"
#include "text/text.h"

enum { NOON = 1767960000 }; /* 2026-01-09 12:00:00 UTC, what templates take for now */

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        exit((perror(path), 1));
    size_t cap = 1 << 16, len = 0, got;
    char *data = malloc(cap);
    while ((got = fread(data + len, 1, cap - len, f)) > 0) {
        len += got;
        if (len == cap)
            data = realloc(data, cap *= 2);
    }
    fclose(f);
    *n = len;
    return data;
}

static bool next(uint32_t *kind, char **data, uint32_t *n)
{
    uint32_t head[2];
    if (fread(head, sizeof head, 1, stdin) != 1)
        return false;
    *kind = head[0];
    *n = head[1];
    *data = malloc((size_t)*n + 1);
    if (*n && fread(*data, *n, 1, stdin) != 1)
        exit(3);
    (*data)[*n] = '\0';
    return true;
}

static void answer(uint32_t kind, const void *data, size_t n)
{
    uint32_t head[2] = {kind, (uint32_t)n};
    fwrite(head, sizeof head, 1, stdout);
    fwrite(data, 1, n, stdout);
}

static void answer_err(const struct err *e)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%s: %s", status_name(e->code), e->text);
    answer(1, text, (size_t)n);
}

/* 0 when a stream of these ids gives `whole`, in pieces of at most `cap` bytes that are each whole characters. */
static int stream_differs(const struct tok *t, const tok_id *ids, size_t count, bool special, const char *whole,
                          size_t n, size_t cap)
{
    struct tok_stream *s;
    struct err e;
    char piece[512];
    size_t at = 0, got;
    int bad = 0;
    if (tok_stream_new(t, special, false, &s, &e) != ST_OK)
        return 1;
    for (size_t i = 0; i <= count; i++) {
        got = i < count ? tok_stream_put(s, ids[i], piece, cap) : tok_stream_flush(s, piece, cap);
        while (got > 0) {
            if (at + got > n || memcmp(whole + at, piece, got) != 0 || ((unsigned char)piece[0] & 0xC0) == 0x80)
                bad = 1;
            at += got;
            if (bad)
                break;
            got = i < count ? tok_stream_more(s, piece, cap) : tok_stream_flush(s, piece, cap);
        }
    }
    tok_stream_free(s);
    return bad || at != n;
}

/* kind: flags of tok_encode(), and 16 to see specials when decoding. Answers: ids; then what they decode to. */
static void about_text(const struct tok *t, uint32_t kind, const char *data, uint32_t n)
{
    struct err e;
    tok_id *ids;
    size_t count, len;
    char *text;
    bool special = kind & 16;
    if (tok_encode(t, data, n, kind & 15, &ids, &count, &e) != ST_OK) {
        answer_err(&e);
        answer(1, "", 0);
        return;
    }
    answer(0, ids, count * sizeof *ids);
    if (tok_decode(t, ids, count, special, &text, &len, &e) != ST_OK) {
        answer_err(&e);
    } else {
        int bad = stream_differs(t, ids, count, special, text, len, 512) ||
                  stream_differs(t, ids, count, special, text, len, 4);
        answer(bad ? 2 : 0, text, len);
        text_free(text, len);
    }
    tok_ids_free(ids, count);
}

static int answer_texts(struct tok *t)
{
    uint32_t kind, n;
    char *data;
    char head[512];
    size_t n_eos;
    const tok_id *eos = tok_eos(t, &n_eos);
    int at = snprintf(head, sizeof head, "%zu %d %d %d %d %zu", tok_vocab(t), tok_bos(t), tok_eos_main(t),
                      tok_adds_bos(t), tok_adds_eos(t), n_eos);
    for (size_t i = 0; i < n_eos && at < 400; i++)
        at += snprintf(head + at, sizeof head - (size_t)at, " %d", eos[i]);
    answer(0, head, (size_t)at);
    fflush(stdout);
    while (next(&kind, &data, &n)) {
        about_text(t, kind, data, n);
        free(data);
        fflush(stdout);
    }
    tok_free(t);
    return 0;
}

/* One rendering: kind 0 and the text, or 1 and the error; the ids of it if there is a tokenizer; the marked text. */
static void about_variables(const struct chat_template *c, const struct tok *t, const char *data, size_t n)
{
    struct text_rendering r;
    struct err e;
    tok_id *ids = NULL;
    size_t count = 0;
    if (chat_template_render(c, t, data, n, NOON, &r, &e) != ST_OK) {
        answer_err(&e);
        answer(1, "", 0);
        answer(0, "", 0);
        return;
    }
    answer(0, r.text, r.n);
    if (t && tok_encode_rendering(t, &r, &ids, &count, &e) != ST_OK)
        answer_err(&e);
    else
        answer(0, ids, count * sizeof *ids);
    answer(r.marked != NULL, r.marked, r.marked_n);
    tok_ids_free(ids, count);
    text_rendering_release(&r);
}

/* kind 1: the template to use from here on; kind 0: variables to render it with, answered three times. */
static int answer_renderings(struct tok *t)
{
    struct chat_template *c = NULL;
    struct err e;
    uint32_t kind, n;
    char *data;
    while (next(&kind, &data, &n)) {
        if (kind == 1) {
            chat_template_free(c);
            c = NULL;
            if (chat_template_new(&c, data, n, &e) != ST_OK)
                answer_err(&e);
            else
                answer(0, "", 0);
        } else if (c) {
            about_variables(c, t, data, n);
        } else {
            return 4;
        }
        free(data);
        fflush(stdout);
    }
    chat_template_free(c);
    tok_free(t);
    return 0;
}

/* One line for each event: its kind and its text. */
static void note(void *user, const struct recogniser_event *ev)
{
    struct buf *b = user;
    buf_addf(b, "%d ", (int)ev->kind);
    for (size_t i = 0; i < ev->n; i++)
        buf_addf(b, "%02x", (unsigned char)ev->text[i]);
    buf_adds(b, "\n");
}

/* Kind 1: a template; answers the names of its format and reasoning. 2: the end of a prompt; answers whether it opens
 * reasoning. 0: a reply; answers what is in it. Any name is a tool's. */
static int answer_replies(void)
{
    struct recogniser_config cfg = {0};
    static struct recogniser r;
    uint32_t kind, n;
    char *data, text[128];
    struct buf events;
    buf_init(&events, 1u << 24);
    while (next(&kind, &data, &n)) {
        if (kind == 1) {
            cfg = (struct recogniser_config){.format = format_detect(data, n)};
            cfg.reasoning = format_detect_reasoning(data, n);
            int k = snprintf(text, sizeof text, "%s %s", cfg.format ? format_name(cfg.format) : "-",
                             cfg.reasoning ? cfg.reasoning->name : "-");
            answer(0, text, (size_t)k);
        } else if (kind == 2) {
            cfg.in_reasoning = cfg.reasoning && format_opens_reasoning(cfg.reasoning, data, n);
            answer(cfg.in_reasoning, "", 0);
        } else {
            buf_clear(&events);
            recogniser_init(&r, &cfg);
            for (size_t i = 0; i < n; i++)
                recogniser_feed(&r, data + i, 1, note, &events);
            recogniser_end(&r, note, &events);
            answer(0, events.data, events.len);
        }
        free(data);
        fflush(stdout);
    }
    buf_release(&events);
    return 0;
}

static struct tok *open_tok(const char *path)
{
    struct api_model m;
    struct api_open o = {.path = path, .want = API_TOK};
    struct err e;
    if (api_open(&m, &o, &e) != ST_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    struct tok *t = m.tok;
    m.tok = NULL;
    api_close(&m);
    return t;
}

static int time_load(const char *path)
{
    uint64_t before = mem_resident(), start = clock_ns();
    struct tok *t = open_tok(path);
    double ms = (double)(clock_ns() - start) / 1e6;
    printf("load %.0f ms, resident +%.0f MB, peak +%.0f MB\n", ms, (double)(mem_resident() - before) / 1e6,
           (double)(mem_peak() - before) / 1e6);
    size_t n, count, len, want = 1000000;
    char *some = read_file("/usr/share/common-licenses/GPL-3", &n), *text = malloc(want + n), *back;
    for (len = 0; len < want; len += n)
        memcpy(text + len, some, n);
    for (int round = 0; round < 3; round++) {
        tok_id *ids;
        struct err e;
        start = clock_ns();
        if (tok_encode(t, text, len, 0, &ids, &count, &e) != ST_OK)
            return 1;
        double enc = (double)(clock_ns() - start) / 1e9;
        start = clock_ns();
        if (tok_decode(t, ids, count, false, &back, &n, &e) != ST_OK)
            return 1;
        double dec = (double)(clock_ns() - start) / 1e9;
        printf("%zu bytes, %zu ids: encode %.2f MB/s, decode %.0f MB/s, peak +%.0f MB\n", len, count,
               (double)len / enc / 1e6, (double)len / dec / 1e6, (double)(mem_peak() - before) / 1e6);
        tok_ids_free(ids, count);
        text_free(back, n);
    }
    free(text);
    free(some);
    tok_free(t);
    return 0;
}

int main(int argc, char **argv)
{
    struct err e;
    if (argc > 1 && !strcmp(argv[1], "tpl"))
        return answer_renderings(argc > 2 ? open_tok(argv[2]) : NULL);
    if (argc > 1 && !strcmp(argv[1], "fmt"))
        return answer_replies();
    if (argc < 3)
        return fprintf(stderr, "usage: probe tok|json|tpl|fmt|time FILE\n"), 2;
    if (!strcmp(argv[1], "tok"))
        return answer_texts(open_tok(argv[2]));
    if (!strcmp(argv[1], "time"))
        return time_load(argv[2]);
    size_t n;
    char *json = read_file(argv[2], &n);
    struct tok *t;
    if (tok_new_json(&t, json, n, NULL, 0, &e) != ST_OK)
        return fprintf(stderr, "%s\n", e.text), 1;
    free(json);
    return answer_texts(t);
}
