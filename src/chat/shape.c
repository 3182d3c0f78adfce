/*
 * shape: how a template writes calls, byte by byte.
 *
 * A call with known names and values is rendered, and what stands between those is read off. Then another call is written
 * with what was read and compared with how the template renders that one: where the two differ, the format's own shape is
 * taken instead.
 */
#include <stdio.h>
#include <string.h>

#include "chat/private.h"
#include "chat/rows.h"

#define NAME "shape_probe"
static const char schema[] = "{\"type\":\"object\",\"properties\":{\"zeta\":{\"type\":\"string\"},"
                             "\"alpha\":{\"type\":\"integer\"},\"flag\":{\"type\":\"boolean\"}}}";
#define TOOLS "[{\"type\":\"function\",\"function\":{\"name\":\"" NAME "\",\"description\":\"d\",\"parameters\":%s}}]"

/* Two keys and their values as they are looked for. */
struct sample {
    const char *arguments, *keys[2], *values[2];
    bool strings[2];
};

static const struct sample first = {
    "{\"zeta\": \"Oslo\", \"alpha\": 41}", {"zeta", "alpha"}, {"Oslo", "41"}, {true, false}};
static const struct sample second = {
    "{\"alpha\": 7, \"zeta\": \"Rio 5\"}", {"alpha", "zeta"}, {"7", "Rio 5"}, {false, true}};
static const struct sample flag = {"{\"flag\": true}", {"flag", ""}, {"true", ""}, {false, false}};

static const struct cut name = {"\"" NAME "\"", sizeof NAME + 1};

static const struct chat_probe *render(struct chat_prober *p, const struct sample *s, int variant)
{
    return chat_probe_call(p, name, s->arguments, strlen(s->arguments), variant);
}

/* The text between two places becomes a piece; false: it is too long. */
static bool take(char piece[FORMAT_PIECE], const char *from, const char *to)
{
    if (to < from || to - from >= (ptrdiff_t)FORMAT_PIECE)
        return false;
    memcpy(piece, from, (size_t)(to - from));
    piece[to - from] = '\0';
    return true;
}

static const char *find(const char *from, const char *end, const char *text)
{
    return from && from < end ? memmem(from, (size_t)(end - from), text, strlen(text)) : NULL;
}

/* JSON arguments: quotes and braces belong to them, what is between is read. */
static bool read_json(const struct sample *s, const char *at, const char *end, struct format_shape *out)
{
    char item[FORMAT_PIECE], key[FORMAT_PIECE], k0[32], k1[32], v0[32];
    snprintf(k0, sizeof k0, "\"%s\"", s->keys[0]);
    snprintf(k1, sizeof k1, "\"%s\"", s->keys[1]);
    snprintf(v0, sizeof v0, s->strings[0] ? "\"%s\"" : "%s", s->values[0]);
    const char *a = find(at, end, k0), *v = a ? find(a + strlen(k0), end, v0) : NULL;
    const char *b = v ? find(v + strlen(v0), end, k1) : NULL, *w = b ? find(b + strlen(k1), end, s->values[1]) : NULL;
    if (!w || a == at || a[-1] != '{')
        return false;
    w += strlen(s->values[1]) + s->strings[1];
    if (w >= end || *w != '}' || !take(out->named, at, a - 1) || !take(key, a + strlen(k0), v) ||
        !take(item, v + strlen(v0), b) || !take(out->close, w + 1, end) || strlen(key) >= sizeof out->key_sep ||
        strlen(item) >= sizeof out->item_sep)
        return false;
    memcpy(out->key_sep, key, strlen(key) + 1);
    memcpy(out->item_sep, item, strlen(item) + 1);
    return true;
}

/* Keys and values apart: what a key begins with is known by the format's own shape. */
static bool read_pairs(const struct sample *s, const char *at, const char *end, struct format_shape *out)
{
    char open[FORMAT_PIECE];
    size_t n = 0;
    for (const char *c = out->key_open; *c && n < sizeof open - 1; c++)
        open[n++] = *c;
    while (n && (open[n - 1] == ' ' || open[n - 1] == '\n'))
        n--;
    open[n] = '\0';
    const char *o = find(at, end, open), *a = o ? find(o + n, end, s->keys[0]) : NULL;
    const char *v = a ? find(a + strlen(s->keys[0]), end, s->values[0]) : NULL;
    const char *p = v ? find(v + strlen(s->values[0]), end, open) : NULL, *b = p ? find(p + n, end, s->keys[1]) : NULL;
    const char *w = b ? find(b + strlen(s->keys[1]), end, s->values[1]) : NULL;
    char tail[FORMAT_PIECE], close[2][FORMAT_PIECE];
    if (!w || !take(out->named, at, o) || !take(out->key_open, o, a) || !take(close[0], a + strlen(s->keys[0]), v) ||
        !take(close[1], b + strlen(s->keys[1]), w) || !take(tail, v + strlen(s->values[0]), p))
        return false;
    const char *rest = w + strlen(s->values[1]);
    size_t close_n = strlen(tail);
    if ((size_t)(end - rest) < close_n || memcmp(rest, tail, close_n) != 0 || !take(out->close, rest + close_n, end))
        return false;
    memcpy(out->value_close, tail, close_n + 1);
    memcpy(out->key_close, close[!s->strings[0]], sizeof out->key_close);
    memcpy(out->key_close_other, close[s->strings[0]], sizeof out->key_close_other);
    if (!strcmp(out->key_close, out->key_close_other))
        out->key_close_other[0] = '\0';
    return true;
}

static bool is_pairs(const struct format_shape *s)
{
    return s->key_open[0] != '\0';
}

static void write_pair(const struct format_shape *s, const struct sample *x, int i, struct buf *b)
{
    if (is_pairs(s)) {
        bool other = s->key_close_other[0] && !x->strings[i];
        buf_addf(b, "%s%s%s%s%s", s->key_open, x->keys[i], other ? s->key_close_other : s->key_close, x->values[i],
                 s->value_close);
    } else {
        const char *quote = x->strings[i] ? "\"" : "";
        buf_addf(b, "\"%s\"%s%s%s%s", x->keys[i], s->key_sep, quote, x->values[i], quote);
    }
}

/* Ids of calls in text become what stands for them in a shape, or the other way round. */
static void exchange(struct buf *b, const char *from, const char *to)
{
    struct buf out;
    buf_init(&out, b->limit);
    const char *at = b->data, *end = b->data + b->len, *hit;
    for (; at && (hit = find(at, end, from)); at = hit + strlen(from)) {
        buf_add(&out, at, (size_t)(hit - at));
        buf_adds(&out, to);
    }
    if (at)
        buf_add(&out, at, (size_t)(end - at));
    buf_release(b);
    *b = out;
}

static void exchange_piece(char piece[FORMAT_PIECE])
{
    struct buf b;
    buf_init(&b, FORMAT_PIECE - 1);
    buf_adds(&b, piece);
    exchange(&b, chat_probe_id(0), FORMAT_ID);
    if (!b.failed && b.data)
        memcpy(piece, b.data, b.len + 1);
    buf_release(&b);
}

/* Whether the shape gives the call that was rendered. */
static bool gives(const struct format_shape *s, const struct sample *x, int variant, const struct chat_probe *p)
{
    struct buf b;
    bool swap = s->sorted && strcmp(x->keys[0], x->keys[1]) > 0;
    buf_init(&b, 4096);
    buf_addf(&b, "%s%s" NAME "%s%s", s->before, s->open, s->named, is_pairs(s) ? "" : "{");
    write_pair(s, x, swap, &b);
    buf_adds(&b, is_pairs(s) ? "" : s->item_sep);
    write_pair(s, x, !swap, &b);
    buf_addf(&b, "%s%s", is_pairs(s) ? "" : "}", s->close);
    exchange(&b, FORMAT_ID, chat_probe_id(variant));
    bool same = !b.failed && p->text_n >= p->mark + b.len && !memcmp(b.data, p->text + p->mark, b.len);
    buf_release(&b);
    return same;
}

/* Behind reasoning: the white space between its end and a call. */
static void read_thought(struct chat_prober *p, const struct chat_probe *call, struct format_shape *out)
{
    size_t n;
    const struct format_reasoning *g = p->cfg.reasoning;
    const char *said = "Let me think.";
    const char *text = g ? chat_probe_text(p, name, first.arguments, strlen(first.arguments), 1, said, &n) : NULL;
    const char *thought = text ? find(text, text + n, said) : NULL;
    const char *close = thought ? find(thought, text + n, g->close) : NULL;
    const char *from = close ? close + strlen(g->close) : NULL, *to = from;
    while (to && to < text + n && (*to == '\n' || *to == ' '))
        to++;
    if (to && to < text + n && *to == call->text[call->mark])
        (void)take(out->thought, from, to);
}

static bool read_shape(struct chat_prober *p, struct format_shape *out)
{
    const struct chat_probe *a = render(p, &first, 0), *b = render(p, &second, 1);
    if (!a || !b || a->keys_n != 2 || b->keys_n != 2)
        return false;
    const struct format_shape own = *out;
    struct sample x = first;
    out->sorted = a->keys[0].key == 1 && b->keys[0].key == 1; /* alpha */
    if (out->sorted)
        x = (struct sample){first.arguments, {"alpha", "zeta"}, {"41", "Oslo"}, {false, true}};
    read_thought(p, a, out);
    if (is_pairs(out)) {
        const struct chat_probe *f = render(p, &flag, 0);
        if (f)
            out->python_words = find(f->text + f->mark, f->text + f->close, "True") != NULL;
    }
    if (gives(out, &first, 0, a) && gives(out, &second, 1, b))
        return true;
    struct format_shape was = *out;
    const char *at = a->text + a->mark, *end = a->text + a->close, *n = find(at, end, NAME);
    size_t before = strlen(own.before);
    bool read = n && (size_t)(n - at) >= before && !memcmp(at, own.before, before) && take(out->open, at + before, n) &&
                (is_pairs(out) ? read_pairs : read_json)(&x, n + sizeof NAME - 1, end, out);
    if (read) {
        exchange_piece(out->open);
        exchange_piece(out->named);
        exchange_piece(out->close);
    }
    if (read && gives(out, &first, 0, a) && gives(out, &second, 1, b))
        return true;
    *out = was;
    return false;
}

bool chat_shape(const struct chat *c, const struct format *f, const struct format_reasoning *g, const char *kwargs,
                size_t n, struct format_shape *out)
{
    const struct format_tool tool = {NAME, sizeof NAME - 1, schema, sizeof schema - 1};
    struct format_tools *list;
    struct chat_prober p;
    struct err e;
    struct buf tools;
    *out = (struct format_shape){0};
    if (!f)
        return false;
    format_shape_init(f, out);
    if (format_tools_new(&list, &tool, 1, &e) != ST_OK)
        return false;
    buf_init(&tools, 4096);
    buf_addf(&tools, TOOLS, schema);
    struct recogniser_config cfg = {.format = f, .reasoning = g, .tools = list};
    bool known = chat_rows_prober(&p, c, &cfg, (struct cut){tools.data, tools.len}, (struct cut){kwargs, n}) &&
                 read_shape(&p, out);
    chat_prober_close(&p);
    buf_release(&tools);
    format_tools_free(list);
    return known;
}
