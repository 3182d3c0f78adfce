/*
 * rows: see rows.h. How rows are found: by differential rendering.
 *
 * Calls of each tool are rendered, with its real name and its real keys, twice each with other values and ids. What such
 * replies have in common, id by id, is what the template determines; where they part, a model chooses (trie.c). Nothing
 * is made up: every row is a run of ids out of a whole rendering.
 *
 * A call is looked at in parts. Its head, up to the name: all tools together. From the name to the first value, and from
 * the end of each value to the next: one tool at a time. What follows a value depends on how it ends (a string's quote
 * merges with a comma to one token), not on which key it belongs to, so parts are kept by `class`.
 */
#include "chat/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/private.h"

#define TOOL_PROBES 768u /* renderings that look at keys and values, all tools together */

enum { CLASS_STRING, CLASS_OTHER, CLASSES };

/* Where a part begins: behind the key `at` of two replies that differ in what is free. */
struct part {
    const struct chat_probe *p[2];
    uint32_t at;
};

struct tool {
    struct cut name;
    struct chat_schema schema;
    struct part head[CHAT_RUN_LABELS], after[CLASSES][CHAT_RUN_LABELS];
    uint32_t left; /* renderings for this tool */
};

struct compiler {
    struct chat_prober p;
    struct template_rows *rows;
    const struct chat_probe *content[2];
    struct tool tool; /* the current one */
    struct part *calls;     /* [tools] of each tool with all its keys */
    struct chat_run *names; /* [names_n] heads of all tools */
    uint32_t names_n;
    uint8_t *seen;
    struct err e;
};

struct cut chat_rows_name(struct cut tool)
{
    return chat_cut_member(chat_cut_member(tool, "function"), "name");
}

struct cut chat_rows_schema(struct cut tool)
{
    return chat_cut_member(chat_cut_member(tool, "function"), "parameters");
}

/* ---- arguments ---- */

static void put_value(struct buf *b, const struct chat_key *k, int variant, int pick)
{
    static const char *const values[][2] = {{"\"Oslo\"", "\"7 km\""}, {"3", "41"}, {"true", "false"},
                                            {"[]", "[\"Oslo\"]"}, {"{}", "{\"q\": 3}"}, {"\"Oslo\"", "41"}};
    if (k && k->values_n) {
        struct cut v = k->values[pick >= 0 ? (uint32_t)pick : variant && k->values_n > 1];
        buf_add(b, v.s, v.n);
    } else {
        buf_adds(b, values[k ? k->value : CHAT_STRING][variant]);
    }
}

void chat_rows_arguments(struct buf *b, const struct chat_schema *s, const int *keys, uint32_t n, int variant, int pick)
{
    buf_adds(b, "{");
    for (uint32_t i = 0; i < n; i++) {
        const struct chat_key *k = keys[i] >= 0 ? &s->keys[keys[i]] : NULL;
        if (i)
            buf_adds(b, variant ? "," : ", "); /* shows where a template prints a string as it is */
        buf_add(b, k ? k->name.s : "\"zz_other\"", k ? k->name.n : 10);
        buf_adds(b, variant ? ":" : ": ");
        put_value(b, k, variant, i ? -1 : pick);
    }
    buf_adds(b, "}");
}

static const struct chat_probe *render_call(struct chat_prober *p, struct cut name, const struct chat_schema *s,
                                            const int *keys, uint32_t n, int variant, int pick)
{
    struct buf b;
    buf_init(&b, CHAT_LIMIT_PROBE_TEXT);
    chat_rows_arguments(&b, s, keys, n, variant, pick);
    const struct chat_probe *out = b.failed ? NULL : chat_probe_call(p, name, b.data, b.len, variant);
    buf_release(&b);
    return out;
}

/* ---- parts ---- */

/* How a value ends: bit of a class. Of a mixed one neither of two replies shows both. */
static unsigned classes_of(const struct tool *t, int key)
{
    if (key < 0)
        return 1u << CLASS_STRING;
    enum chat_value v = t->schema.keys[key].value;
    return v == CHAT_MIXED ? 3u : v == CHAT_STRING ? 1u << CLASS_STRING : 1u << CLASS_OTHER;
}

static int label_of(const struct tool *t, int key)
{
    return key >= 0 && (uint32_t)key < t->schema.keys_n ? key : CHAT_RUN_OTHER;
}

static void keep(struct part *part, const struct chat_probe *a, const struct chat_probe *b, uint32_t at)
{
    if (!part->p[0])
        *part = (struct part){.p = {a, b}, .at = at};
}

static void keep_parts(struct tool *t, const struct chat_probe *a, const struct chat_probe *b)
{
    if (a->keys_n != b->keys_n)
        return;
    for (uint32_t w = 0; w < a->keys_n; w++)
        if (a->keys[w].key != b->keys[w].key || a->keys[w].key >= (int)t->schema.keys_n)
            return;
    keep(&t->head[a->keys_n ? label_of(t, a->keys[0].key) : CHAT_RUN_END], a, b, 0);
    for (uint32_t w = 0; w < a->keys_n; w++) {
        unsigned classes = classes_of(t, a->keys[w].key);
        int label = w + 1 < a->keys_n ? label_of(t, a->keys[w + 1].key) : CHAT_RUN_END;
        if (classes != 3)
            keep(&t->after[classes >> 1][label], a, b, w);
    }
}

/* A template may have an order of its own; the reply has all keys. */
static void take_order(struct chat_schema *s, const struct chat_probe *p)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < p->keys_n; i++)
        set |= p->keys[i].key >= 0 ? 1ull << p->keys[i].key : 0;
    if (p->keys_n != s->keys_n || set != (1ull << s->keys_n) - 1)
        return;
    for (uint32_t i = 0; i < s->keys_n; i++) {
        s->order[i] = (uint8_t)p->keys[i].key;
        s->place[p->keys[i].key] = (uint8_t)i;
    }
}

/* Renders a call of the keys twice and keeps its parts. */
static bool try_keys(struct compiler *c, const int *keys, uint32_t n)
{
    struct tool *t = &c->tool;
    if (t->left < 2)
        return false;
    t->left -= 2;
    const struct chat_probe *a = render_call(&c->p, t->name, &t->schema, keys, n, 0, -1);
    const struct chat_probe *b = a ? render_call(&c->p, t->name, &t->schema, keys, n, 1, -1) : NULL;
    if (b)
        keep_parts(t, a, b);
    return b;
}

/* Which parts are wanted behind key `at` (-1: behind the name): bit of a label. */
static uint64_t wanted(const struct tool *t, int at, bool ghosts)
{
    bool end;
    uint64_t set = chat_schema_next(&t->schema, at, &end);
    if (end)
        set |= 1ull << CHAT_RUN_END;
    if (ghosts && !chat_schema_fixed(&t->schema)) {
        set |= 1ull << CHAT_RUN_OTHER;
        if (at >= 0)
            set |= 1ull << CHAT_RUN_END;
    }
    return set;
}

/* A key whose value is of the class, which comes before `next` if that is a key; the plainest first. */
static int find_key(const struct tool *t, int class, int next)
{
    int found = -1;
    for (int i = 0; i < (int)t->schema.keys_n; i++) {
        if (classes_of(t, i) != 1u << class ||
            (next >= 0 && next < CHAT_RUN_END && t->schema.place[i] >= t->schema.place[next]))
            continue;
        if (!t->schema.keys[i].values_n)
            return i;
        found = found < 0 ? i : found;
    }
    return found;
}

static void try_missing(struct compiler *c)
{
    struct tool *t = &c->tool;
    uint64_t head = wanted(t, -1, true), after[CLASSES] = {0};
    for (int i = 0; i < (int)t->schema.keys_n; i++)
        for (int class = 0; class < CLASSES; class++)
            if (classes_of(t, i) >> class & 1)
                after[class] |= wanted(t, i, true);
    for (int label = 0; label < CHAT_RUN_LABELS; label++) {
        int key = label == CHAT_RUN_OTHER ? -1 : label;
        uint32_t n = label != CHAT_RUN_END;
        if (head >> label & 1 && !t->head[label].p[0])
            (void)try_keys(c, &key, n);
        for (int class = 0; class < CLASSES; class++) {
            int pair[2] = {find_key(t, class, key), key};
            if (after[class] >> label & 1 && !t->after[class][label].p[0] && pair[0] >= 0)
                (void)try_keys(c, pair, 1 + n);
        }
    }
}

/* ---- rows of one tool ---- */

/* Ids up to where the name is complete. */
static uint32_t named(const struct chat_probe *p)
{
    uint32_t at = p->begin;
    while (at < p->end && p->after[at].tool < 0)
        at++;
    return at + 1;
}

static bool make_run(struct chat_run *r, const struct chat_probe *p, bool head, uint32_t at, int label)
{
    uint32_t next = head ? 0 : at + 1;
    *r = (struct chat_run){.p = p, .label = label, .prev = head ? -1 : p->keys[at].key};
    r->from = head ? named(p) - 1 : p->keys[at].done - 1;
    r->to = next < p->keys_n ? p->keys[next].done - 1 : p->end;
    return r->from < r->to;
}

/* A ghost whose first id depends on the value before it cannot be compared with anything. */
static bool make_ghost(struct chat_run *r, const struct part *part, bool head, int label)
{
    struct chat_run other;
    return make_run(&other, part->p[1], head, part->at, label) &&
           make_run(r, part->p[0], head, part->at, label) && r->p->ids[r->from] == other.p->ids[other.from];
}

/* What follows key `prev` (-1: the name), whose value ends as the class does. */
static bool rows_after(struct compiler *c, int prev, const struct part *parts)
{
    struct chat_run runs[2 * CHAT_RUN_LABELS], ghosts[2];
    uint8_t seen[CHAT_RUN_LABELS] = {0};
    const struct tool *t = &c->tool;
    struct chat_trie trie = {.tok = c->p.c->tok, .rows = c->rows, .runs = runs, .first = 1, .seen = seen,
                             .schema = &t->schema, .ghosts = ghosts, .prev = prev, .sure = chat_schema_fixed(&t->schema)};
    uint64_t likely = wanted(t, prev, false), all = wanted(t, prev, true);
    for (int label = 0; label < CHAT_RUN_LABELS; label++) {
        const struct part *part = &parts[label];
        if (!(all >> label & 1))
            continue;
        bool there = part->p[0] && (!(likely >> label & 1) || trie.n + 2 <= 2 * CHAT_RUN_LABELS);
        for (uint32_t v = 0; v < 2 && there && likely >> label & 1; v++) {
            there = make_run(&runs[trie.n], part->p[v], prev < 0, part->at, label);
            runs[trie.n++].pair = (uint32_t)label;
        }
        if (likely >> label & 1 && !there)
            return true; /* a way to go on that cannot be compared with: nothing is known */
        if (label >= CHAT_RUN_END && (!there || !make_ghost(&ghosts[trie.ghosts_n++], part, prev < 0, label)))
            trie.unknown = true;
    }
    return chat_trie_rows(&trie, &c->e);
}

/* The values of a key that has few. */
static bool rows_value(struct compiler *c, int key)
{
    struct chat_run runs[CHAT_SCHEMA_VALUES];
    const struct tool *t = &c->tool;
    struct chat_trie trie = {.tok = c->p.c->tok, .rows = c->rows, .runs = runs, .first = 1, .single = true,
                             .schema = &t->schema, .prev = -1, .value = true, .sure = true};
    for (uint32_t i = 0; i < t->schema.keys[key].values_n; i++) {
        if (!c->tool.left)
            return true;
        c->tool.left--;
        const struct chat_probe *p = render_call(&c->p, t->name, &t->schema, &key, 1, 0, (int)i);
        if (!p || p->keys_n != 1 || p->keys[0].key != key)
            return true;
        struct chat_run r = {.p = p, .from = p->keys[0].keyed - 1, .to = p->keys[0].done - 1, .pair = i, .label = key,
                             .prev = -1};
        if (r.from + 1 < r.to)
            runs[trie.n++] = r;
        else
            return true;
    }
    return chat_trie_rows(&trie, &c->e);
}

static bool rows_tool(struct compiler *c)
{
    const struct tool *t = &c->tool;
    try_missing(c);
    if (!rows_after(c, -1, t->head))
        return false;
    for (int i = 0; i < (int)t->schema.keys_n; i++) {
        for (int class = 0; class < CLASSES; class++)
            if (classes_of(t, i) >> class & 1 && !rows_after(c, i, t->after[class]))
                return false;
        if (t->schema.keys[i].values_n && !rows_value(c, i))
            return false;
    }
    return true;
}

/* ---- all tools ---- */

/* How many ids of a call have to be there before it is one: the first that no reply without a call has, and a letter. */
static uint32_t decided(const struct compiler *c, const struct chat_probe *p)
{
    uint32_t same = 0, at = p->begin, byte = p->begin ? p->ends[p->begin - 1] : 0;
    for (int i = 0; i < 2; i++) {
        uint32_t n = 0;
        while (n < p->n && n < c->content[i]->n && p->ids[n] == c->content[i]->ids[n])
            n++;
        same = n > same ? n : same;
    }
    bool letter = false;
    for (; at < p->end; at++) {
        for (; byte < p->ends[at]; byte++)
            letter = letter || ((unsigned char)p->text[byte] | 32u) - 'a' < 26u;
        if (letter && at >= same && p->after[at].place == RECOGNISER_AT_CALL)
            break;
    }
    return at + 1 - p->begin;
}

static bool add_names(struct compiler *c, const struct chat_probe *const p[2], uint32_t index, uint32_t *first)
{
    for (int v = 0; v < 2; v++) {
        struct chat_run *r = &c->names[c->names_n++];
        uint32_t least = decided(c, p[v]);
        *r = (struct chat_run){.p = p[v], .from = p[v]->begin, .to = named(p[v]), .pair = index,
                               .label = CHAT_RUN_OTHER, .prev = -1};
        if (r->to > p[v]->end || p[v]->after[r->to - 1].tool != (int32_t)index) {
            snprintf(c->p.why, sizeof c->p.why, "the template does not write the names of tools as they are");
            return false;
        }
        *first = least > *first ? least : *first;
    }
    return true;
}

static void begin_tool(struct compiler *c, struct cut tool)
{
    struct tool *t = &c->tool;
    t->name = chat_rows_name(tool);
    chat_schema_read(chat_rows_schema(tool), &t->schema);
    memset(t->head, 0, sizeof t->head);
    memset(t->after, 0, sizeof t->after);
}

/* Each tool with all its keys, and what is common up to the names. */
static bool compile_names(struct compiler *c, struct cut tools, uint32_t n)
{
    struct cut key, tool;
    int keys[CHAT_SCHEMA_KEYS];
    uint32_t first = 0;
    struct cut_iter it = chat_cut_open(tools);
    for (int i = 0; i < (int)CHAT_SCHEMA_KEYS; i++)
        keys[i] = i;
    for (uint32_t i = 0; i < n && chat_cut_next(&it, &key, &tool); i++) {
        struct part all = {0};
        begin_tool(c, tool);
        for (int v = 0; v < 2; v++) {
            all.p[v] = render_call(&c->p, c->tool.name, &c->tool.schema, keys, c->tool.schema.keys_n, v, -1);
            if (!all.p[v])
                return false;
        }
        if (!add_names(c, all.p, i, &first))
            return false;
        c->calls[i] = all;
    }
    struct chat_trie trie = {.tok = c->p.c->tok, .rows = c->rows, .runs = c->names, .n = c->names_n, .first = first,
                             .seen = c->seen, .sure = true, .prev = -1};
    return chat_trie_rows(&trie, &c->e);
}

/* A limit ends it; the rows so far stand. */
static void compile_tools(struct compiler *c, struct cut tools, uint32_t n)
{
    struct cut key, tool;
    uint32_t left = TOOL_PROBES;
    struct cut_iter it = chat_cut_open(tools);
    for (uint32_t i = 0; i < n && chat_cut_next(&it, &key, &tool); i++) {
        uint32_t most = left / (n - i);
        begin_tool(c, tool);
        if (!c->tool.schema.whole)
            continue;
        take_order(&c->tool.schema, c->calls[i].p[0]);
        keep_parts(&c->tool, c->calls[i].p[0], c->calls[i].p[1]);
        c->tool.left = most;
        if (!rows_tool(c))
            return;
        left -= most - c->tool.left;
    }
}

static bool compile(struct compiler *c, struct cut tools, uint32_t n)
{
    for (int i = 0; i < 2; i++) {
        c->content[i] = chat_probe_content(&c->p, i ? "42 is the answer." : "Sure, here it is.");
        if (!c->content[i])
            return false;
    }
    if (!compile_names(c, tools, n))
        return false;
    compile_tools(c, tools, n);
    return true;
}

/* ---- the template's ways ---- */

/* A call of the first tool with all its keys. */
static const struct chat_probe *trial(struct chat_prober *p)
{
    struct cut key, tool;
    struct chat_schema s;
    int keys[CHAT_SCHEMA_KEYS];
    struct cut_iter it = chat_cut_open(p->tools);
    if (!chat_cut_next(&it, &key, &tool))
        return NULL;
    chat_schema_read(chat_rows_schema(tool), &s);
    for (uint32_t i = 0; i < s.keys_n; i++)
        keys[i] = (int)i;
    return render_call(p, chat_rows_name(tool), &s, keys, s.keys_n, 0, -1);
}

bool chat_rows_prober(struct chat_prober *p, const struct chat *c, const struct recogniser_config *cfg, struct cut tools,
                      struct cut kwargs)
{
    const struct chat_probe *with = NULL, *without = NULL;
    struct chat_prober plain;
    unsigned ways = 0;
    char why[CHAT_WHY] = "";
    for (; ways < CHAT_PROBE_TOOLS && !with; ways++) {
        if (ways == 1)
            snprintf(why, sizeof why, "%s", p->why);
        if (ways)
            chat_prober_close(p);
        if (!chat_prober_open(p, c, cfg, tools, kwargs, ways | CHAT_PROBE_TOOLS))
            return false;
        with = trial(p);
    }
    if (!with) {
        snprintf(p->why, sizeof p->why, "%s", why);
        return false;
    }
    p->why[0] = '\0';
    if (chat_prober_open(&plain, c, cfg, tools, kwargs, p->ways & ~CHAT_PROBE_TOOLS))
        without = trial(&plain);
    if (without && without->n == with->n && !memcmp(without->ids, with->ids, with->n * sizeof *with->ids)) {
        struct chat_prober was = *p;
        *p = plain;
        plain = was;
    }
    chat_prober_close(&plain);
    return true;
}

struct template_rows *chat_rows_compile(const struct chat *c, const struct recogniser_config *cfg, struct cut tools,
                                        struct cut kwargs, char why[CHAT_WHY])
{
    size_t n = cfg->tools ? format_tools_n(cfg->tools) : 0;
    struct compiler *k = calloc(1, sizeof *k);
    why[0] = '\0';
    if (!k)
        return snprintf(why, CHAT_WHY, "no memory"), NULL;
    bool done = n && chat_rows_prober(&k->p, c, cfg, tools, kwargs);
    if (done) {
        k->names = calloc(2 * n, sizeof *k->names);
        k->calls = calloc(n, sizeof *k->calls);
        k->seen = calloc(n, 1);
        done = k->names && k->calls && k->seen && template_rows_new(&k->rows, cfg, &k->e) == ST_OK &&
               compile(k, tools, (uint32_t)n);
    }
    if (!n)
        snprintf(why, CHAT_WHY, "the request has no tools");
    else if (!done)
        snprintf(why, CHAT_WHY, "%.*s", CHAT_WHY - 1, k->p.why[0] ? k->p.why : k->e.code ? k->e.text : "no memory");
    else if (!template_rows_n(k->rows))
        snprintf(why, CHAT_WHY, "calls of these tools have nothing in common that tokens could show");
    if (why[0]) {
        template_rows_free(k->rows);
        k->rows = NULL;
    }
    struct template_rows *rows = k->rows;
    if (n)
        chat_prober_close(&k->p);
    free(k->names);
    free(k->calls);
    free(k->seen);
    free(k);
    return rows;
}
