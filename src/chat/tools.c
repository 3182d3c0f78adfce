/*
 * tools: what is known of a request's tools, and the latest that were asked for.
 *
 * Sets of tools are told apart by their bytes, as they stand in the request, with everything else that rows depend on.
 * Two threads that ask for a new set at the same time both compile it; the later result is kept.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/private.h"
#include "chat/rows.h"

#define TAIL_IDS 32u /* of a prompt, in which reasoning is opened */

struct entry {
    char *key; /* [key_n] */
    size_t key_n;
    uint64_t used; /* when last; 0: free */
    struct format_shape shape;
    struct format_tools *tools; /* retained, as are the rows */
    struct template_rows *rows;
    char why[CHAT_WHY];
};

struct chat_tools_cache {
    const struct chat *c;
    pthread_mutex_t lock; /* of what follows; nothing is waited for while it is held */
    uint64_t clock;
    struct entry entries[CHAT_LIMIT_TOOL_SETS];
};

enum status chat_tools_cache_new(struct chat_tools_cache **out, const struct chat *c, struct err *e)
{
    struct chat_tools_cache *k = *out = calloc(1, sizeof *k);
    if (!k)
        return err_set(e, ST_NO_MEMORY, "", "no memory for what is known of tools");
    k->c = c;
    pthread_mutex_init(&k->lock, NULL);
    return ST_OK;
}

static void release_entry(struct entry *x)
{
    free(x->key);
    format_tools_free(x->tools);
    template_rows_free(x->rows);
    *x = (struct entry){0};
}

void chat_tools_cache_free(struct chat_tools_cache *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < CHAT_LIMIT_TOOL_SETS; i++)
        release_entry(&k->entries[i]);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* Names and schemas of the request's tools, as a template sees them. */
static enum status read_tools(struct cut list, struct format_tools **out, struct err *e)
{
    struct cut key, tool;
    struct cut_iter it = chat_cut_open(list);
    size_t n = 0, at = 0;
    while (chat_cut_next(&it, &key, &tool))
        n++;
    *out = NULL;
    if (it.bad)
        return err_set(e, ST_ARGUMENT, "tools", "tools is not valid JSON");
    if (!n)
        return ST_OK;
    if (n > LIMIT_TOOLS)
        return err_set(e, ST_TOO_LONG, "tools", "tools has more than %u entries", LIMIT_TOOLS);
    struct format_tool *tools = calloc(n, sizeof *tools);
    struct buf *names = calloc(n, sizeof *names);
    enum status st = tools && names ? ST_OK : err_set(e, ST_NO_MEMORY, "tools", "no memory for the tools");
    for (it = chat_cut_open(list); st == ST_OK && chat_cut_next(&it, &key, &tool); at++) {
        struct cut schema = chat_rows_schema(tool);
        buf_init(&names[at], LIMIT_BODY);
        chat_cut_unescape(chat_rows_name(tool), &names[at]);
        bool object = chat_cut_kind_of(schema) == CUT_OBJECT;
        tools[at] = (struct format_tool){names[at].data, names[at].len, object ? schema.s : NULL, object ? schema.n : 0};
    }
    if (st == ST_OK)
        st = format_tools_new(out, tools, n, e);
    for (size_t i = 0; i < at; i++)
        buf_release(&names[i]);
    free(names);
    free(tools);
    return st;
}

static bool opens_reasoning(const struct chat *c, const struct format_reasoning *g, const tok_id *ids, size_t n)
{
    struct err e;
    char *text;
    size_t len, from = n > TAIL_IDS ? n - TAIL_IDS : 0;
    if (!g || !n || tok_decode(c->tok, ids + from, n - from, true, &text, &len, &e) != ST_OK)
        return false;
    bool opens = format_opens_reasoning(g, text, len);
    text_free(text, len);
    return opens;
}

/* What rows depend on, in bytes. */
static void put_key(struct buf *b, const struct chat_tools *t, struct cut tools, struct cut kwargs, bool no_rows)
{
    buf_addf(b, "%p %p %d%d %zu ", (const void *)t->format, (const void *)t->reasoning, t->in_reasoning, no_rows, tools.n);
    buf_add(b, tools.s, tools.n);
    buf_add(b, kwargs.s, kwargs.n);
}

static void copy_entry(const struct entry *x, struct chat_tools *t)
{
    t->shape = x->shape;
    if (x->rows)
        template_rows_retain(x->rows);
    t->rows = x->rows;
    memcpy(t->why, x->why, sizeof t->why);
}

static bool look_up(struct chat_tools_cache *k, const struct buf *key, struct chat_tools *t)
{
    bool found = false;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < CHAT_LIMIT_TOOL_SETS && !found; i++) {
        struct entry *x = &k->entries[i];
        found = x->used && x->key_n == key->len && !memcmp(x->key, key->data, key->len);
        if (!found)
            continue;
        x->used = ++k->clock;
        copy_entry(x, t);
        format_tools_free(t->tools); /* the rows' own, so that both are the same */
        format_tools_retain(x->tools);
        t->tools = x->tools;
    }
    pthread_mutex_unlock(&k->lock);
    return found;
}

/* In place of the one that was not asked for the longest. Takes the key's memory. */
static void keep(struct chat_tools_cache *k, struct buf *key, const struct chat_tools *t)
{
    struct entry made = {.key = key->data, .key_n = key->len, .shape = t->shape, .tools = t->tools, .rows = t->rows};
    memcpy(made.why, t->why, sizeof made.why);
    format_tools_retain(t->tools);
    if (t->rows)
        template_rows_retain(t->rows);
    key->data = NULL;
    key->len = key->cap = 0;
    pthread_mutex_lock(&k->lock);
    struct entry *oldest = &k->entries[0];
    for (size_t i = 1; i < CHAT_LIMIT_TOOL_SETS; i++)
        if (k->entries[i].used < oldest->used)
            oldest = &k->entries[i];
    struct entry old = *oldest;
    made.used = ++k->clock;
    *oldest = made;
    pthread_mutex_unlock(&k->lock);
    release_entry(&old);
}

static void find_out(struct chat_tools_cache *k, struct cut tools, struct cut kwargs, bool no_rows, struct chat_tools *t)
{
    struct recogniser_config cfg = {.format = t->format, .reasoning = t->reasoning, .tools = t->tools,
                                    .in_reasoning = t->in_reasoning};
    (void)chat_shape(k->c, t->format, t->reasoning, kwargs.s, kwargs.n, &t->shape);
    if (no_rows)
        snprintf(t->why, sizeof t->why, "template rows were not asked for");
    else
        t->rows = chat_rows_compile(k->c, &cfg, tools, kwargs, t->why);
}

enum status chat_tools_get(struct chat_tools_cache *k, const char *request, size_t n,
                           const struct chat_tools_options *o, const tok_id *prompt, size_t prompt_n,
                           struct chat_tools *out, struct err *e)
{
    struct cut root = chat_cut_text(request, n), tools = chat_cut_member(root, "tools");
    struct cut kwargs = chat_cut_member(root, "chat_template_kwargs");
    *out = (struct chat_tools){.format = o->format ? o->format : k->c->format,
                               .reasoning = o->reasoning ? o->reasoning : k->c->reasoning};
    if (o->no_reasoning)
        out->reasoning = NULL;
    out->in_reasoning = opens_reasoning(k->c, out->reasoning, prompt, prompt_n);
    if (o->no_calls)
        out->format = NULL;
    else
        TRY(read_tools(tools, &out->tools, e));
    if (out->format)
        format_shape_init(out->format, &out->shape);
    if (!out->format || !out->tools) {
        snprintf(out->why, sizeof out->why, "%s", o->no_calls   ? "no calls are looked for"
                                                  : out->format ? "the request has no tools"
                                                                : "the template writes calls in a way that is not known");
        return ST_OK;
    }
    struct buf key;
    buf_init(&key, CHAT_LIMIT_TOOL_SET);
    put_key(&key, out, tools, kwargs, o->no_rows);
    if (key.failed || !look_up(k, &key, out)) {
        find_out(k, tools, kwargs, o->no_rows, out);
        if (!key.failed)
            keep(k, &key, out);
    }
    buf_release(&key);
    return ST_OK;
}

void chat_tools_release(struct chat_tools *t)
{
    template_rows_free(t->rows);
    format_tools_free(t->tools);
    *t = (struct chat_tools){0};
}
