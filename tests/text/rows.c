/*
 * rows: what templates determine of tool calls.
 *
 *   rows VOCAB.gguf TEMPLATE…       one line a template: name, format, counts of rows by kind, why there are none
 *   rows -v VOCAB.gguf TEMPLATE…    and every row
 *   rows -t N VOCAB.gguf TEMPLATE   compiles for N tools and prints how long it took
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "chat/rows.h"
#include "text/text.h"

static const char TOOLS[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Weather\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
    "\"unit\":{\"type\":\"string\",\"enum\":[\"celsius\",\"fahrenheit\"]}},\"required\":[\"city\",\"days\",\"unit\"],"
    "\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"find_flight\",\"description\":\"Flights\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"origin\":{\"type\":\"string\"},\"destination\":{\"type\":\"string\"},"
    "\"departure_date\":{\"type\":\"string\"},\"departure_time\":{\"type\":\"string\"}},"
    "\"required\":[\"origin\",\"destination\"]}}}]";

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(4u << 20);
    if (!f || !data)
        exit((perror(path), 1));
    *n = fread(data, 1, 4u << 20, f);
    fclose(f);
    return data;
}

static void print_ids(const struct tok *t, const tok_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t len;
        const char *s = tok_bytes(t, ids[i], &len);
        putchar('[');
        for (size_t k = 0; k < len; k++)
            if (s[k] == '\n')
                fputs("\\n", stdout);
            else
                putchar(s[k]);
        putchar(']');
    }
}

static const char *const KINDS[] = {"scaffold", "name", "key", "after", "close", "value"};

static void print_rows(const struct tok *t, const struct template_rows *rows)
{
    static const char *const points[] = {"opening", "name",  "named",      "args",   "key",
                                         "keyed",   "value", "value done", "closing"};
    for (size_t i = 0; rows && i < template_rows_n(rows); i++) {
        const struct template_row *r = template_rows_at(rows, i);
        uint32_t point = 0;
        while (r->points >> point > 1)
            point++;
        printf("  %-8s %-10s tool %2d key %2d keys %llx absent %llx sure %u: ", KINDS[r->kind], points[point], r->tool,
               r->key, (unsigned long long)r->keys, (unsigned long long)r->absent, r->sure_n);
        print_ids(t, r->trigger, r->trigger_n);
        fputs("  ->  ", stdout);
        print_ids(t, r->append, r->append_n);
        putchar('\n');
    }
}

static char *many_tools(unsigned n, size_t *len)
{
    struct buf b;
    buf_init(&b, 16u << 20);
    buf_adds(&b, "[");
    for (unsigned i = 0; i < n; i++)
        buf_addf(&b, "%s{\"type\":\"function\",\"function\":{\"name\":\"tool_%u_%s\",\"parameters\":{\"type\":\"object\","
                 "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},\"note\":{\"type\":"
                 "\"string\"}},\"required\":[\"city\"]}}}", i ? "," : "", i, i % 2 ? "read" : "write");
    buf_adds(&b, "]");
    *len = b.len;
    return b.data;
}

static void one(const struct tok *t, const char *path, struct cut tools, bool verbose, bool timed)
{
    size_t n;
    char *source = read_file(path, &n), why[CHAT_WHY];
    struct format_tool list[2048];
    struct format_tools *ft;
    struct chat *c;
    struct err e;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (chat_new(&c, t, source, n, &e) != ST_OK) {
        printf("%s\t-\t%s\n", name, e.text);
        return;
    }
    struct cut key, tool;
    struct cut_iter it = chat_cut_open(tools);
    size_t tools_n = 0;
    while (chat_cut_next(&it, &key, &tool) && tools_n < 2048) {
        struct cut nm = chat_rows_name(tool), schema = chat_rows_schema(tool);
        list[tools_n++] = (struct format_tool){nm.s + 1, nm.n - 2, schema.s, schema.n};
    }
    if (format_tools_new(&ft, list, tools_n, &e) != ST_OK)
        exit((fprintf(stderr, "%s\n", e.text), 1));
    struct recogniser_config cfg = {.format = format_detect(source, n), .tools = ft,
                                    .reasoning = format_detect_reasoning(source, n)};
    uint64_t start = clock_ns();
    struct template_rows *rows = chat_rows_compile(c, &cfg, tools, (struct cut){0}, why);
    double ms = (double)(clock_ns() - start) / 1e6;
    unsigned counts[TEMPLATE_ROW_KINDS] = {0};
    for (size_t i = 0; rows && i < template_rows_n(rows); i++)
        counts[template_rows_at(rows, i)->kind]++;
    printf("%s\t%s", name, cfg.format ? format_name(cfg.format) : "none");
    for (int i = 0; i < TEMPLATE_ROW_KINDS; i++)
        printf("\t%u", counts[i]);
    struct format_shape shape;
    bool known = chat_shape(c, cfg.format, cfg.reasoning, NULL, 0, &shape);
    printf("\t%s\t%s", known ? "read" : "assumed", why);
    if (timed)
        printf("\t%.1f ms", ms);
    putchar('\n');
    if (verbose)
        print_rows(t, rows);
    template_rows_free(rows);
    format_tools_free(ft);
    chat_free(c);
    free(source);
}

int main(int argc, char **argv)
{
    bool verbose = argc > 1 && !strcmp(argv[1], "-v"), timed = argc > 2 && !strcmp(argv[1], "-t");
    int at = 1 + verbose + 2 * timed;
    struct cut tools = {TOOLS, sizeof TOOLS - 1};
    if (argc < at + 2)
        return 2;
    struct api_model m;
    struct api_open o = {.path = argv[at], .want = API_TOK};
    struct err e;
    if (api_open(&m, &o, &e) != ST_OK)
        return fprintf(stderr, "%s\n", e.text), 1;
    if (timed)
        tools.s = many_tools((unsigned)strtoul(argv[2], NULL, 10), &tools.n);
    for (int i = at + 1; i < argc; i++)
        one(m.tok, argv[i], tools, verbose, timed);
    if (timed)
        free((char *)tools.s);
    api_close(&m);
    return 0;
}
