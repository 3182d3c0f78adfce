/* calls: see calls.h. */
#include "calls.h"

#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x, ...) \
    do { \
        if (!(x)) { \
            fprintf(stderr, "calls: " __VA_ARGS__); \
            fputc('\n', stderr); \
            abort(); \
        } \
    } while (0)

/* ---- a small vocabulary ---- */

struct tok *calls_tok(const char *const *merged, size_t n)
{
    static const char *const specials[] = {"<|bos|>", "<|im_end|>", "<think>", "</think>"};
    static const int kinds[] = {TOK_CONTROL, TOK_CONTROL, TOK_USER_DEFINED, TOK_USER_DEFINED};
    static struct words w;
    struct tok *t;
    struct err e;
    words_begin_bytes(&w);
    for (int i = 0; i < 4; i++)
        words_add(&w, specials[i], kinds[i]);
    for (size_t i = 0; i <= n; i++) {
        char left[WORDS_BYTES], right[WORDS_BYTES];
        const char *pair = i < n ? merged[i] : "q z"; /* one there has to be */
        CHECK(sscanf(pair, "%23s %23s", left, right) == 2, "\"%s\" is no pair", pair);
        words_merge(&w, left, right);
    }
    struct tok_source src = words_source(&w, "qwen2");
    src.bos = 256;
    src.eos = CALLS_END;
    src.add_bos = 0;
    src.add_eos = 0;
    CHECK(tok_new_gguf(&t, &src, &e) == ST_OK, "%s", e.text);
    return t;
}

/* ---- the collection ---- */

const char *calls_corpus(void)
{
    static char path[4096];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        snprintf(path, sizeof path, "%s/ffwd/corpus-0.3.36", cache);
    else
        snprintf(path, sizeof path, "%s/.cache/ffwd/corpus-0.3.36", home ? home : "");
    char probe[4200];
    snprintf(probe, sizeof probe, "%s/templates/Qwen-Qwen2.5-7B-Instruct.jinja", path);
    FILE *f = fopen(probe, "rb");
    if (!f) {
        printf("note: %s is not there (tests/text/fetch_corpus.py fetches it): real templates are NOT TESTED\n", path);
        return NULL;
    }
    fclose(f);
    return path;
}

char *calls_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(4u << 20);
    CHECK(f && data, "%s cannot be read", path);
    *n = fread(data, 1, (4u << 20) - 1, f);
    data[*n] = '\0';
    fclose(f);
    return data;
}

/* ---- tools ---- */

static void read_tools(struct calls *c, const char *tools)
{
    static char request[1u << 20];
    static struct format_tool list[LIMIT_TOOLS];
    static char names[LIMIT_TOOLS][LIMIT_TOOL_NAME];
    struct cut key, v;
    struct err e;
    struct buf b;
    size_t n = 0;
    buf_init(&b, sizeof request);
    struct cut_iter it = chat_cut_open(chat_cut_text(tools, strlen(tools)));
    buf_adds(&b, "[");
    while (chat_cut_next(&it, &key, &v))
        buf_addf(&b, "%s{\"type\":\"function\",\"function\":%.*s}", n++ ? "," : "", (int)v.n, v.s);
    buf_adds(&b, "]");
    CHECK(!b.failed && !it.bad && n <= LIMIT_TOOLS, "bad tools %s", tools);
    c->list = (struct cut){b.data, b.len};
    it = chat_cut_open(c->list);
    for (n = 0; chat_cut_next(&it, &key, &v); n++) {
        struct cut schema = chat_rows_schema(v);
        struct buf name;
        buf_init(&name, LIMIT_TOOL_NAME);
        chat_cut_unescape(chat_rows_name(v), &name);
        memcpy(names[n], name.data, name.len);
        list[n] = (struct format_tool){names[n], name.len, schema.s, schema.n};
        buf_release(&name);
    }
    CHECK(format_tools_new(&c->tools, list, n, &e) == ST_OK, "%s", e.text);
}

void calls_open(struct calls *c, const struct tok *tok, const char *source, size_t n, const char *tools)
{
    struct err e;
    *c = (struct calls){.tok = tok};
    CHECK(chat_new(&c->chat, tok, source, n, &e) == ST_OK, "%s", e.text);
    read_tools(c, tools);
    c->cfg = (struct recogniser_config){.format = format_detect(source, n), .tools = c->tools,
                                        .reasoning = format_detect_reasoning(source, n)};
    c->rows = chat_rows_compile(c->chat, &c->cfg, c->list, (struct cut){0}, c->why);
}

void calls_close(struct calls *c)
{
    template_rows_free(c->rows);
    format_tools_free(c->tools);
    chat_free(c->chat);
    free((char *)c->list.s);
}

size_t calls_reply(const struct calls *c, const char *message, size_t more, tok_id **ids)
{
    struct chat_options prompt = {.unix_time = 1767960000}, whole = {.no_generation = true, .unix_time = 1767960000};
    tok_id *before, *all;
    size_t before_n, n, from = 0, to;
    struct err e;
    struct buf b;
    *ids = NULL;
    buf_init(&b, 1u << 20);
    struct cut tools = chat_knows_tools(c->chat) ? c->list : (struct cut){"[]", 2};
    buf_addf(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"What next?\"}],\"tools\":%.*s}", (int)tools.n, tools.s);
    enum status st = chat_prompt(c->chat, b.data, b.len, &prompt, &before, &before_n, &e);
    CHECK(st == ST_OK, "%s", e.text);
    buf_clear(&b);
    buf_addf(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"What next?\"},{\"role\":\"assistant\",%s}],"
                 "\"tools\":%.*s}",
             message, (int)tools.n, tools.s);
    st = chat_prompt(c->chat, b.data, b.len, &whole, &all, &n, &e);
    buf_release(&b);
    while (st == ST_OK && from < n && from < before_n && all[from] == before[from])
        from++;
    from = st == ST_OK && from > more ? from - more : from;
    for (to = from; st == ST_OK && to < n && !tok_is_eos(c->tok, all[to]); to++)
        continue;
    if (st == ST_OK && to > from) {
        *ids = malloc((to - from) * sizeof **ids);
        memcpy(*ids, all + from, (to - from) * sizeof **ids);
    }
    tok_ids_free(before, before_n);
    if (st == ST_OK)
        tok_ids_free(all, n);
    return st == ST_OK ? to - from : 0;
}

/* ---- a model ---- */

#define CHAIN 4 /* proposals of one span */

/* Asks until nobody knows more, each time at the end of what is tentative. Returns how many proposals there are. */
static uint32_t ask_span(struct source *s, struct source_row *row, tok_id *stand, uint32_t most,
                         struct source_proposal p[CHAIN])
{
    uint32_t n = 0;
    while (n < CHAIN) {
        p[n] = (struct source_proposal){0};
        struct source_ask ask = {.row = row, .most = most, .chance = 1, .out = &p[n]};
        s->ops->propose(s, &ask, 1);
        CHECK(p[n].n <= most && p[n].sure <= p[n].n && p[n].trust == SOURCE_VERIFY, "a bad proposal");
        if (!p[n].n)
            break;
        memcpy(stand + row->n, p[n].id, p[n].n * sizeof *stand);
        row->n += p[n++].n;
    }
    return n;
}

void calls_write(struct source *s, const struct calls *c, const tok_id *ids, size_t n, uint32_t most,
                 struct calls_run *out)
{
    size_t room = n + CHAIN * SOURCE_SPAN + 1;
    tok_id *stand = calloc(room, sizeof *stand); /* one id of a prompt, then the reply */
    struct source_row row = {.ids = stand, .prompt_n = 1, .known = 1, .n = 1, .rows = c->rows};
    struct err e;
    *out = (struct calls_run){0};
    CHECK(s->ops->open(s, &row, (uint32_t)room, &e) == ST_OK, "%s", e.text);
    while (row.known < n + 1) {
        struct source_proposal p[CHAIN];
        uint32_t from = row.known, count = ask_span(s, &row, stand, most, p);
        bool right = true;
        out->asked++;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t same = 0, offered = right ? p[i].n : 0;
            while (same < offered && row.known < n + 1 && p[i].id[same] == ids[row.known - 1]) {
                stand[row.known++] = p[i].id[same++];
            }
            right = same == p[i].n;
            out->proposed += offered > 0;
            out->offered += offered;
            out->accepted += same;
            out->sure_wrong += offered && same < p[i].sure && row.known < n + 1;
            s->ops->settle(s, &row, p[i].ticket, offered, same);
        }
        if (row.known < n + 1) {
            stand[row.known] = ids[row.known - 1];
            row.known++;
        }
        row.n = row.known;
        s->ops->observe(s, &row, from);
    }
    CHECK(!memcmp(stand + 1, ids, n * sizeof *ids), "other ids came out than the model wrote");
    out->disarmed = s->ops->disarmed(s, &row);
    s->ops->close(s, &row);
    CHECK(!row.state[SOURCE_TEMPLATE], "the state is still there");
    free(stand);
}
