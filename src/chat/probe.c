/* probe: see probe.h. */
#include "chat/probe.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/private.h"

#define NOON 1767960000 /* what templates take for now: rows do not depend on the day */

/* Nine letters and digits, which is what the templates want that check. */
static const char *const call_ids[2][2] = {{"aB3dE5fG7", "qR4sT6uV8"}, {"Xy9Zw2Kv1", "hJ5kL7mN3"}};

const char *chat_probe_id(int variant)
{
    return call_ids[variant & 1][0];
}

static bool refuse(struct chat_prober *p, const char *why)
{
    if (!p->why[0])
        snprintf(p->why, sizeof p->why, "%s", why);
    return false;
}

/* ---- rendering ---- */

static void put_string(struct buf *b, const char *s, size_t n)
{
    buf_adds(b, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)s[i];
        if (ch == '"' || ch == '\\')
            buf_addf(b, "\\%c", ch);
        else if (ch < 0x20)
            buf_addf(b, "\\u%04x", ch);
        else
            buf_add(b, &s[i], 1);
    }
    buf_adds(b, "\"");
}

/* A control token's spelling as a variable: templates print bos_token and the like. */
static void put_token(struct buf *b, const struct chat *c, const char *name, tok_id id)
{
    size_t n = 0;
    const char *text = id == TOK_NONE ? "" : tok_bytes(c->tok, id, &n);
    buf_addf(b, ",\"%s\":", name);
    put_string(b, text, n);
}

static void put_content(const struct chat *c, struct buf *b, const char *text)
{
    buf_adds(b, ",\"content\":");
    if (c->typed_content)
        buf_adds(b, *text ? "[{\"type\":\"text\",\"text\":" : "[");
    if (*text || !c->typed_content)
        put_string(b, text, strlen(text));
    if (c->typed_content)
        buf_adds(b, *text ? "}]" : "]");
}

/* `answer` is the assistant's message without its braces; NULL: the prompt for it. */
static void put_variables(const struct chat_prober *p, struct buf *b, const char *answer)
{
    struct cut key, value;
    buf_adds(b, "{\"messages\":[{\"role\":\"user\"");
    put_content(p->c, b, "What next?");
    buf_addf(b, "}%s%s%s]", answer ? ",{\"role\":\"assistant\"" : "", answer ? answer : "", answer ? "}" : "");
    if (p->ways & CHAT_PROBE_TOOLS) {
        buf_adds(b, ",\"tools\":");
        buf_add(b, p->tools.s, p->tools.n);
    }
    struct cut_iter it = chat_cut_open(p->kwargs);
    while (it.object && chat_cut_next(&it, &key, &value)) {
        if (chat_cut_is(key, "messages") || chat_cut_is(key, "tools") || chat_cut_is(key, "add_generation_prompt"))
            continue;
        buf_adds(b, ",");
        buf_add(b, key.s, key.n);
        buf_adds(b, ":");
        buf_add(b, value.s, value.n);
    }
    put_token(b, p->c, "bos_token", tok_bos(p->c->tok));
    put_token(b, p->c, "eos_token", tok_eos_main(p->c->tok));
    buf_addf(b, ",\"add_generation_prompt\":%s}", answer ? "false" : "true");
}

/* Control tokens in it are believed: whoever calls has made sure that no client's text spells one. */
static bool render(struct chat_prober *p, const char *answer, struct text_rendering *out)
{
    struct err e = {0};
    struct buf vars;
    if (!p->left)
        return refuse(p, "there are too many tools and keys to try all");
    p->left--;
    buf_init(&vars, CHAT_LIMIT_VARIABLES);
    put_variables(p, &vars, answer);
    enum status st = ST_TOO_LONG;
    if (!vars.failed)
        st = chat_template_render(p->c->tpl, NULL, vars.data, vars.len, NOON, out, &e);
    buf_release(&vars);
    if (st == ST_OK)
        return true;
    char why[CHAT_WHY];
    snprintf(why, sizeof why, "the template does not render a trial: %.100s", e.text);
    return refuse(p, why);
}

/* ---- reading along ---- */

struct reader {
    struct recogniser r;
    uint32_t begun, ended;
    bool broken;
    uint64_t from, at; /* of the first call */
};

static void on_event(void *user, const struct recogniser_event *ev)
{
    struct reader *x = user;
    if (ev->kind == RECOGNISER_BEGIN && !x->begun++)
        x->from = ev->from;
    if (ev->kind == RECOGNISER_END && !x->ended++)
        x->at = ev->at;
    if (ev->kind == RECOGNISER_BROKEN)
        x->broken = true;
}

static bool in_value(const struct recogniser_state *s)
{
    if (s->place == RECOGNISER_AT_UNSURE)
        return true;
    return s->place == RECOGNISER_AT_CALL && (s->point == RECOGNISER_KEYED || s->point == RECOGNISER_VALUE);
}

/* A byte of id `at` led from one state to the other; offset = bytes of the reply up to its end. */
static bool note_key(struct chat_probe *b, bool *open, uint32_t at, uint32_t offset, const struct recogniser_state *was,
                     const struct recogniser_state *is)
{
    bool was_key = was->place == RECOGNISER_AT_CALL && was->point == RECOGNISER_KEY;
    bool is_key = is->place == RECOGNISER_AT_CALL && is->point == RECOGNISER_KEY;
    if (is_key && !was_key) {
        if (b->keys_n == sizeof b->keys / sizeof *b->keys)
            return false;
        b->keys[b->keys_n] = (struct chat_written){.key = -1, .name_at = offset};
    }
    if (was_key && !is_key) {
        b->keys[b->keys_n].key = is->key;
        b->keys[b->keys_n++].keyed = at + 1;
        *open = true;
    }
    if (*open && !in_value(is)) {
        b->keys[b->keys_n - 1].done = at + 1;
        *open = false;
    }
    return true;
}

/* Feeds the reply, whose first `lead` bytes belong to no id of it, and notes what stands behind each id. */
static bool read_along(struct chat_prober *p, struct chat_probe *b, uint32_t lead, bool call, bool in_reasoning,
                       struct recogniser_state *after, bool *in_key)
{
    struct recogniser_config cfg = p->cfg;
    struct recogniser_state was, is;
    struct reader x = {0};
    bool open = false;
    cfg.in_reasoning = in_reasoning && cfg.reasoning;
    recogniser_init(&x.r, &cfg);
    recogniser_feed(&x.r, b->text, lead, on_event, &x);
    recogniser_look(&x.r, &was);
    for (uint32_t i = 0, at = lead; i < b->n; i++) {
        is = was;
        for (; at < b->ends[i]; at++, was = is) {
            recogniser_feed(&x.r, b->text + at, 1, on_event, &x);
            recogniser_look(&x.r, &is);
            in_key[i] = in_key[i] || (was.place == RECOGNISER_AT_CALL && was.point == RECOGNISER_KEY);
            if (call && !x.ended && !note_key(b, &open, i, at + 1, &was, &is))
                return refuse(p, "a call has more keys than can be tried");
        }
        after[i] = is;
        if (x.ended && !b->end)
            b->end = i + 1;
    }
    uint32_t n = b->n;
    recogniser_end(&x.r, on_event, &x);
    if (!call)
        return true;
    if (x.broken || x.begun != 1 || x.ended != 1)
        return refuse(p, "the template does not write calls in the format that was detected");
    b->mark = (uint32_t)x.from;
    b->close = (uint32_t)x.at;
    /* Where only what follows shows that the call is over, it ends where its own text does. */
    if (!b->end || x.at < (b->end ? b->ends[b->end - 1] : 0)) {
        b->end = n;
        while (b->end && (b->end > 1 ? b->ends[b->end - 2] : lead) >= x.at)
            b->end--;
    }
    while (b->begin < b->end && b->ends[b->begin] <= x.from)
        b->begin++;
    return true;
}

/* ---- cutting ---- */

/* Bytes of the prompt before the reasoning that it opens at its end. */
static size_t before_reasoning(const struct chat_prober *p)
{
    size_t open = p->cfg.reasoning ? strlen(p->cfg.reasoning->open) : 0, at = p->prompt_text_n;
    while (open && at >= open && memcmp(p->prompt_text + at - open, p->cfg.reasoning->open, open) != 0)
        at--;
    return open && at >= open ? at - open : p->prompt_text_n;
}

/* The reply's first id and the text where it begins. Where the prompt's text is no beginning of this one, a past turn may
 * not show the reasoning that the prompt opens; otherwise a reply begins behind the ids that both have. */
static bool cut_reply(struct chat_prober *p, const struct text_rendering *r, const tok_id *ids, size_t n, size_t *first,
                      size_t *from, bool *follows)
{
    size_t cut = p->prompt_text_n, same = 0, at = r->n, i = n;
    if (r->n < cut || memcmp(r->text, p->prompt_text, cut) != 0)
        cut = before_reasoning(p);
    *follows = r->n >= cut && !memcmp(r->text, p->prompt_text, cut);
    while (same < n && same < p->prompt_n && ids[same] == p->prompt[same])
        same++;
    if (!*follows)
        cut = 0;
    while (i > (*follows ? 0 : same) && at > cut) {
        size_t len;
        const char *text = tok_bytes(p->c->tok, ids[i - 1], &len);
        if (len > at || memcmp(r->text + at - len, text, len) != 0) {
            if (len > at)
                break;
            return refuse(p, "the tokens of a trial do not spell its text");
        }
        at -= len;
        i--;
    }
    if (at > cut && *follows)
        return refuse(p, "the tokens of a trial do not spell its text");
    *first = at < cut ? i + 1 : i; /* an id across the seam is not the reply's own */
    *from = *follows ? cut : at;
    return true;
}

static uint32_t count_reply(const struct chat_prober *p, const tok_id *ids, size_t n, size_t first)
{
    size_t end = first;
    while (end < n && !tok_is_eos(p->c->tok, ids[end]))
        end++;
    return (uint32_t)(end - first);
}

static const struct chat_probe *make(struct chat_prober *p, const struct text_rendering *r, const tok_id *ids, size_t n,
                                     bool call)
{
    size_t first = 0, from = 0;
    bool follows;
    if (!cut_reply(p, r, ids, n, &first, &from, &follows))
        return NULL;
    uint32_t count = count_reply(p, ids, n, first), end = 0;
    if (r->n - from > CHAT_LIMIT_PROBE_TEXT || !count) {
        refuse(p, "a trial's reply is empty or too long");
        return NULL;
    }
    struct chat_probe *b = arena_try(&p->arena, sizeof *b);
    tok_id *own = arena_try(&p->arena, count * sizeof *own);
    struct recogniser_state *after = arena_try(&p->arena, count * sizeof *after);
    uint32_t *ends = arena_try(&p->arena, count * sizeof *ends);
    bool *in_key = arena_try(&p->arena, count);
    char *text = arena_copy(&p->arena, r->text + from, r->n - from);
    if (!b || !own || !after || !ends || !in_key || !text) {
        refuse(p, "the trials need too much memory");
        return NULL;
    }
    size_t behind = 0, len;
    for (size_t i = first; i < n; i++) {
        (void)tok_bytes(p->c->tok, ids[i], &len);
        behind += len;
    }
    uint32_t lead = (uint32_t)(r->n - from - behind);
    end = lead;
    for (uint32_t i = 0; i < count; i++) {
        (void)tok_bytes(p->c->tok, ids[first + i], &len);
        own[i] = ids[first + i];
        ends[i] = end += (uint32_t)len;
    }
    *b = (struct chat_probe){.ids = own, .after = after, .ends = ends, .in_key = in_key, .text = text, .n = count,
                             .text_n = end};
    bool in_reasoning = from == p->prompt_text_n && p->cfg.in_reasoning;
    return read_along(p, b, lead, call, in_reasoning, after, in_key) ? b : NULL;
}

static const struct chat_probe *probe(struct chat_prober *p, const char *answer, bool call)
{
    struct text_rendering r;
    struct err e = {0};
    tok_id *ids;
    size_t n;
    if (!render(p, answer, &r))
        return NULL;
    const struct chat_probe *b = NULL;
    if (tok_encode(p->c->tok, r.text, r.n, TOK_TRUSTED | TOK_BOS, &ids, &n, &e) == ST_OK) {
        b = make(p, &r, ids, n, call);
        tok_ids_free(ids, n);
    } else {
        refuse(p, e.text);
    }
    text_rendering_release(&r);
    return b;
}

/* Whether text means the same ids whoever wrote it. */
static bool is_plain(const struct chat *c, const char *s, size_t n)
{
    tok_id *a = NULL, *b = NULL;
    size_t an = 0, bn = 0;
    struct err e;
    bool same = tok_encode(c->tok, s, n, TOK_TRUSTED | TOK_INNER, &a, &an, &e) == ST_OK &&
                tok_encode(c->tok, s, n, TOK_PLAIN | TOK_INNER, &b, &bn, &e) == ST_OK && an == bn &&
                !memcmp(a, b, an * sizeof *a);
    tok_ids_free(a, an);
    tok_ids_free(b, bn);
    return same;
}

/* The client's words in it are checked with their escapes undone, as the template will write them. */
static bool are_plain(struct chat_prober *p, struct cut name, const char *arguments, size_t n)
{
    struct buf b;
    buf_init(&b, CHAT_LIMIT_PROBE_TEXT);
    chat_cut_unescape(name, &b);
    buf_adds(&b, " ");
    chat_cut_unescape((struct cut){arguments, n}, &b); /* of no string: nothing */
    struct cut key, value, object = {arguments, n};
    struct cut_iter it = chat_cut_open(object);
    while (chat_cut_next(&it, &key, &value)) {
        chat_cut_unescape(key, &b);
        buf_adds(&b, " ");
        chat_cut_unescape(value, &b);
        buf_adds(&b, " ");
    }
    bool plain = !b.failed && is_plain(p->c, b.data, b.len);
    buf_release(&b);
    return plain || refuse(p, "a name, a key or a value spells a control token");
}

static void put_calls(const struct chat_prober *p, struct buf *b, struct cut name, const char *arguments, size_t n,
                      int variant, uint32_t calls)
{
    if (p->ways & CHAT_PROBE_NULL)
        buf_adds(b, ",\"content\":null");
    else
        put_content(p->c, b, "");
    buf_adds(b, ",\"tool_calls\":[");
    for (uint32_t i = 0; i < calls; i++) {
        buf_addf(b, "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", i ? "," : "",
                 call_ids[variant & 1][i & 1]);
        buf_add(b, name.s, name.n);
        buf_adds(b, ",\"arguments\":");
        if (p->ways & CHAT_PROBE_STRING)
            put_string(b, arguments, n);
        else
            buf_add(b, arguments, n);
        buf_adds(b, "}}");
    }
    buf_adds(b, "]");
}

const struct chat_probe *chat_probe_call(struct chat_prober *p, struct cut name, const char *arguments, size_t n,
                                         int variant)
{
    struct buf b;
    if (!are_plain(p, name, arguments, n))
        return NULL;
    buf_init(&b, CHAT_LIMIT_VARIABLES);
    put_calls(p, &b, name, arguments, n, variant, 1);
    const struct chat_probe *out = b.failed ? NULL : probe(p, b.data, true);
    buf_release(&b);
    return out;
}

const struct chat_probe *chat_probe_content(struct chat_prober *p, const char *text)
{
    struct buf b;
    buf_init(&b, 4096);
    put_content(p->c, &b, text);
    const struct chat_probe *out = b.failed ? NULL : probe(p, b.data, false);
    buf_release(&b);
    return out;
}

const char *chat_probe_text(struct chat_prober *p, struct cut name, const char *arguments, size_t arguments_n,
                            uint32_t calls, const char *reasoning, size_t *n)
{
    struct text_rendering r;
    struct buf b;
    char *out = NULL;
    *n = 0;
    buf_init(&b, CHAT_LIMIT_VARIABLES);
    put_calls(p, &b, name, arguments, arguments_n, 0, calls);
    if (reasoning) {
        buf_adds(&b, ",\"reasoning_content\":");
        put_string(&b, reasoning, strlen(reasoning));
    }
    if (!b.failed && render(p, b.data, &r)) {
        size_t from = 0;
        while (from < r.n && from < p->prompt_text_n && r.text[from] == p->prompt_text[from])
            from++;
        out = arena_copy(&p->arena, r.text + from, r.n - from);
        *n = out ? r.n - from : 0;
        text_rendering_release(&r);
    }
    buf_release(&b);
    return out;
}

/* ---- opening ---- */

static bool open_prompt(struct chat_prober *p)
{
    struct text_rendering r;
    struct err e = {0};
    if (!render(p, NULL, &r))
        return false;
    p->prompt_text = arena_copy(&p->arena, r.text, r.n);
    p->prompt_text_n = r.n;
    enum status st = tok_encode(p->c->tok, r.text, r.n, TOK_TRUSTED | TOK_BOS, &p->prompt, &p->prompt_n, &e);
    p->cfg.in_reasoning = p->cfg.reasoning && format_opens_reasoning(p->cfg.reasoning, r.text, r.n);
    text_rendering_release(&r);
    return (st == ST_OK && p->prompt_text) || refuse(p, e.text);
}

bool chat_prober_open(struct chat_prober *p, const struct chat *c, const struct recogniser_config *cfg, struct cut tools,
                      struct cut kwargs, unsigned ways)
{
    *p = (struct chat_prober){.c = c, .cfg = *cfg, .tools = tools, .kwargs = kwargs, .ways = ways,
                              .left = CHAT_LIMIT_PROBES};
    arena_init(&p->arena, CHAT_LIMIT_PROBE_ARENA);
    if (!c->tpl)
        return refuse(p, "this model has no chat template");
    if (!cfg->format)
        return refuse(p, "the template writes calls in a way that is not known here");
    return open_prompt(p);
}

void chat_prober_close(struct chat_prober *p)
{
    tok_ids_free(p->prompt, p->prompt_n);
    arena_release(&p->arena);
}
