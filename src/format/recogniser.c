/*
 * recogniser: from a reply's bytes to reasoning, content and calls.
 *
 * One byte at a time, so that how a reply is cut cannot matter. What may still become a mark is held back in `held`: white
 * space first, then the part of a mark. Once it cannot be one, its first byte is content and the others are read again.
 * The inside of a call is read step by step along the format's table; until the name is known to be a tool's, all of it
 * is held back, so what is no call comes out as it was written.
 */
#include <string.h>

#include "format/inside.h"

enum { PHASE_REASONING, PHASE_CONTENT, PHASE_CALL };

#define BLANK_MOST 256u /* bytes of white space that wait for what follows */

/* ---- telling ---- */

static void flush(struct format_run *x)
{
    struct recogniser_event ev = {.kind = x->kind, .text = x->out, .n = x->out_n, .tool = -1};
    if (x->kind == RECOGNISER_ARGUMENTS)
        ev.call = x->r->begun_n - 1, ev.tool = x->r->tool;
    x->out_n = 0;
    if (ev.n)
        x->sink(x->user, &ev);
}

void format_give(struct format_run *x, enum recogniser_kind kind, unsigned char c)
{
    if (x->kind != kind || x->out_n == sizeof x->out)
        flush(x);
    x->kind = kind;
    x->out[x->out_n++] = (char)c;
}

void format_arguments(struct format_run *x, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        format_give(x, RECOGNISER_ARGUMENTS, (unsigned char)text[i]);
}

static void tell(struct format_run *x, enum recogniser_kind kind, const char *text, size_t n, uint64_t at)
{
    flush(x);
    struct recogniser *r = x->r;
    struct recogniser_event ev = {.kind = kind, .text = text, .n = n, .call = r->begun_n - 1, .tool = r->tool,
                                  .from = r->from, .at = at};
    x->sink(x->user, &ev);
}

void format_back(struct format_run *x, size_t n)
{
    struct recogniser *r = x->r;
    if (x->again_at >= n) {
        x->again_at -= n;
    } else {
        memcpy(x->again, r->held + r->held_n - n, n);
        x->again_at = 0;
        x->again_n = n;
    }
    r->held_n -= (uint16_t)n;
    r->fed -= n;
}

static void give_content(struct format_run *x, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        format_give(x, RECOGNISER_CONTENT, (unsigned char)text[i]);
        format_quotes_take(&x->r->quotes, (unsigned char)text[i]);
    }
}

/* The white space in front of `held` is content, or nothing's. */
static void give_blank(struct format_run *x)
{
    struct recogniser *r = x->r;
    if (!r->trim)
        give_content(x, r->held, r->blank);
}

/* ---- marks ---- */

const struct format_mark *format_marked(const struct format_mark *marks, const char *text, size_t n, bool *part)
{
    for (; marks->text; marks++) {
        size_t len = strlen(marks->text);
        if (n <= len && !memcmp(marks->text, text, n)) {
            *part = n < len;
            if (n == len)
                return marks;
            return NULL;
        }
    }
    *part = false;
    return NULL;
}

static bool begins(const char *mark, const char *text, size_t n)
{
    return n <= strlen(mark) && !memcmp(mark, text, n);
}

static bool may_reason(const struct recogniser *r)
{
    return r->cfg.reasoning && r->place != RECOGNISER_AT_TEXT;
}

static bool may_call(const struct recogniser *r)
{
    return r->cfg.format && (!r->cfg.format->at_start || r->place != RECOGNISER_AT_TEXT);
}

/* ---- phases ---- */

static void to_content(struct recogniser *r, enum recogniser_place place)
{
    r->phase = PHASE_CONTENT;
    r->place = (uint8_t)place;
    r->trim = place != RECOGNISER_AT_TEXT;
    r->begun = r->loose = false;
    r->blank = r->mark = 0;
}

/* `held` is white space and something that is no mark: its first byte is content. */
static void no_mark(struct format_run *x)
{
    struct recogniser *r = x->r;
    give_blank(x);
    size_t blank = r->blank, n = r->held_n - blank;
    char first = r->held[blank];
    format_back(x, n - 1);
    give_content(x, &first, 1);
    r->held_n = 0;
    to_content(r, RECOGNISER_AT_TEXT);
}

static void enter(struct format_run *x, uint8_t step)
{
    struct recogniser *r = x->r;
    const struct format_step *s = &r->cfg.format->steps[step];
    r->step = step;
    r->sub = 0;
    if (r->begun)
        r->held_n = 0;
    r->mark = r->held_n;
    if (s->kind == STEP_OBJECT)
        format_object_enter(r);
    else if (s->kind == STEP_ARGS)
        format_args_enter(r);
    else if (s->kind == STEP_VALUE || s->kind == STEP_STRING || s->kind == STEP_JSON)
        format_value_enter(x, s);
    else if (s->kind == STEP_BARE)
        format_bare_enter(x);
}

static void open_call(struct format_run *x, const struct format_mark *m)
{
    struct recogniser *r = x->r;
    for (size_t i = 0; i < r->blank; i++)
        format_quotes_take(&r->quotes, (unsigned char)r->held[i]);
    r->phase = PHASE_CALL;
    r->loose = format_quotes_open(&r->quotes);
    r->from = r->fed - (r->held_n - r->blank);
    r->tool = r->key = -1;
    format_follow(x, m);
}

static void content(struct format_run *x)
{
    struct recogniser *r = x->r;
    const char *text = r->held + r->blank;
    size_t n = r->held_n - r->blank;
    if (n == 1 && format_blank((unsigned char)*text)) {
        if (++r->blank == BLANK_MOST) {
            give_blank(x);
            r->held_n = r->blank = 0;
        }
        return;
    }
    bool part = false;
    const struct format_mark *m = may_call(r) ? format_marked(r->cfg.format->openers, text, n, &part) : NULL;
    if (m) {
        open_call(x, m);
    } else if (may_reason(r) && begins(r->cfg.reasoning->open, text, n)) {
        if (r->cfg.reasoning->open[n])
            return;
        r->held_n = r->blank = 0;
        r->phase = PHASE_REASONING;
        r->trim = r->fresh = true;
    } else if (!part) {
        no_mark(x);
    }
}

static void reasoning(struct format_run *x)
{
    struct recogniser *r = x->r;
    const struct format_reasoning *g = r->cfg.reasoning;
    const char *text = r->held + r->blank;
    size_t n = r->held_n - r->blank;
    if (n == 1 && format_blank((unsigned char)*text)) {
        if (++r->blank < BLANK_MOST)
            return;
        n = 0;
    } else if (begins(g->close, text, n)) {
        if (g->close[n])
            return;
        r->held_n = 0;
        to_content(r, r->calls ? RECOGNISER_AT_BETWEEN : RECOGNISER_AT_START);
        return;
    } else if (r->fresh && begins(g->open, text, n)) { /* a model may open again what the prompt has opened */
        if (!g->open[n])
            r->held_n = r->blank = 0, r->fresh = false;
        return;
    }
    size_t keep = n ? n - 1 : 0, first = r->blank + (n ? 1 : 0);
    char give[BLANK_MOST + 1];
    memcpy(give, r->held, first);
    size_t from = r->trim ? r->blank : 0;
    format_back(x, keep);
    for (size_t i = from; i < first; i++)
        format_give(x, RECOGNISER_REASONING, (unsigned char)give[i]);
    r->trim &= !n;
    r->fresh &= !n;
    r->held_n = r->blank = 0;
}

/* ---- calls ---- */

bool format_begin(struct format_run *x, const char *name, size_t n)
{
    struct recogniser *r = x->r;
    if (!n || n > LIMIT_TOOL_NAME)
        return false;
    r->tool = r->cfg.tools ? format_tools_find(r->cfg.tools, name, n) : -1;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)name[i] < 0x20)
            return false;
    }
    if (r->cfg.tools && r->tool < 0)
        return false;
    r->begun = true;
    r->begun_n++;
    r->keys = 0;
    r->keys_n = r->other_keys = 0;
    r->key = -1;
    tell(x, RECOGNISER_BEGIN, name, n, r->fed);
    return true;
}

/* The open call is complete; what is in `held` no longer belongs to it. */
static void end_call(struct format_run *x, uint64_t at)
{
    struct recogniser *r = x->r;
    if (r->cfg.format->form == FORM_PAIRS)
        format_arguments(x, "{}" + !!r->keys_n, 2 - !!r->keys_n);
    tell(x, RECOGNISER_END, "", 0, at);
    r->calls++;
    r->begun = r->loose = false;
    r->place = RECOGNISER_AT_BETWEEN;
    r->from = at;
    r->held_n = r->blank = 0;
}

void format_fail(struct format_run *x)
{
    struct recogniser *r = x->r;
    if (!r->begun) {
        no_mark(x);
        return;
    }
    tell(x, RECOGNISER_BROKEN, "", 0, r->fed - r->held_n);
    r->broken = true;
    to_content(r, RECOGNISER_AT_TEXT);
    format_back(x, r->held_n);
}

void format_follow(struct format_run *x, const struct format_mark *m)
{
    struct recogniser *r = x->r;
    if (m->flags & MARK_AGAIN)
        format_back(x, 1);
    if (m->flags & MARK_END && r->begun)
        end_call(x, r->fed);
    if (m->next != STEP_OUT) {
        enter(x, m->next);
        return;
    }
    r->held_n = 0;
    to_content(r, RECOGNISER_AT_BETWEEN);
}

static void marks(struct format_run *x, const struct format_step *s, unsigned char c)
{
    struct recogniser *r = x->r;
    size_t n = r->held_n - r->mark;
    bool part;
    if (n == 1 && s->flags & STEP_WS && format_blank(c)) {
        r->mark++;
        return;
    }
    const struct format_mark *m = format_marked(s->on, r->held + r->mark, n, &part);
    if (m) {
        format_follow(x, m);
    } else if (!part && s->flags & STEP_SOFT && r->begun) {
        size_t held = r->held_n;
        end_call(x, r->fed - held);
        r->held_n = (uint16_t)held;
        to_content(r, RECOGNISER_AT_BETWEEN);
        format_back(x, held);
    } else if (!part) {
        format_fail(x);
    }
}

/* A name, or text that is skipped. */
static void name(struct format_run *x, const struct format_step *s)
{
    struct recogniser *r = x->r;
    const char *text = r->held + r->mark;
    size_t n = r->held_n - r->mark;
    for (const struct format_mark *m = s->on; m->text; m++) {
        size_t len = strlen(m->text), from = 0;
        if (n < len || memcmp(text + n - len, m->text, len))
            continue;
        size_t end = n - len;
        while (s->flags & STEP_WS && from < end && format_blank((unsigned char)text[from]))
            from++;
        while (s->flags & STEP_WS && end > from && format_blank((unsigned char)text[end - 1]))
            end--;
        if (s->kind == STEP_NAME && from == end && format_blank((unsigned char)*m->text))
            continue; /* a line feed before the name */
        if (s->kind == STEP_SKIP || format_begin(x, text + from, end - from))
            format_follow(x, m);
        else
            format_fail(x);
        return;
    }
    if (n > LIMIT_TOOL_NAME + 64)
        format_fail(x);
}

static void call(struct format_run *x, unsigned char c)
{
    struct recogniser *r = x->r;
    const struct format_step *s = &r->cfg.format->steps[r->step];
    switch (s->kind) {
    case STEP_MARKS: marks(x, s, c); break;
    case STEP_NAME:
    case STEP_SKIP: name(x, s); break;
    case STEP_OBJECT: format_object_take(x, s, c); break;
    case STEP_ARGS: format_args_take(x, s, c); break;
    case STEP_KEY: format_key_take(x, s); break;
    case STEP_BARE: format_bare_take(x, s, c); break;
    default: format_value_take(x, s); break;
    }
    if (r->phase == PHASE_CALL && r->held_n == RECOGNISER_HELD)
        format_fail(x);
}

static void take(struct format_run *x, unsigned char c)
{
    struct recogniser *r = x->r;
    r->held[r->held_n++] = (char)c;
    r->fed++;
    if (r->phase == PHASE_CALL)
        call(x, c);
    else if (r->phase == PHASE_CONTENT)
        content(x);
    else
        reasoning(x);
}

/* ---- the interface ---- */

void recogniser_init(struct recogniser *r, const struct recogniser_config *cfg)
{
    memset(r, 0, sizeof *r);
    r->cfg = *cfg;
    recogniser_clear(r);
}

void recogniser_clear(struct recogniser *r)
{
    struct recogniser_config cfg = r->cfg;
    memset(r, 0, offsetof(struct recogniser, hashes));
    r->cfg = cfg;
    r->tool = r->key = -1;
    format_quotes_clear(&r->quotes);
    r->phase = cfg.in_reasoning && cfg.reasoning ? PHASE_REASONING : PHASE_CONTENT;
    r->place = RECOGNISER_AT_START;
    r->trim = r->fresh = r->phase == PHASE_REASONING;
}

static void read_again(struct format_run *x)
{
    while (x->again_at < x->again_n)
        take(x, (unsigned char)x->again[x->again_at++]);
    x->again_at = x->again_n = 0;
}

void recogniser_feed(struct recogniser *r, const char *text, size_t n, recogniser_sink *sink, void *user)
{
    struct format_run x;
    x.r = r, x.sink = sink, x.user = user;
    x.kind = RECOGNISER_CONTENT;
    x.out_n = x.again_n = x.again_at = 0;
    for (size_t i = 0; i < n; i++) {
        take(&x, (unsigned char)text[i]);
        read_again(&x);
    }
    flush(&x);
}

/* Ends what is open; what was held back may then be read again, and leave something open again. */
static void end_open(struct format_run *x)
{
    struct recogniser *r = x->r;
    if (r->phase == PHASE_REASONING) {
        size_t from = r->trim ? r->blank : 0, to = r->held_n > r->blank ? r->held_n : from;
        for (size_t i = from; i < to; i++)
            format_give(x, RECOGNISER_REASONING, (unsigned char)r->held[i]);
        r->held_n = r->blank = 0;
    } else if (r->phase == PHASE_CALL) {
        const struct format_step *s = &r->cfg.format->steps[r->step];
        if (!(s->flags & STEP_FINAL)) {
            if (r->begun || r->held_n)
                format_fail(x);
            else
                to_content(r, RECOGNISER_AT_BETWEEN);
            return;
        }
        if (r->begun)
            end_call(x, r->fed);
        r->held_n = 0;
        to_content(r, RECOGNISER_AT_BETWEEN);
    } else if (r->held_n > r->blank) {
        no_mark(x);
    } else {
        give_blank(x);
        r->held_n = r->blank = 0;
    }
}

void recogniser_end(struct recogniser *r, recogniser_sink *sink, void *user)
{
    struct format_run x;
    x.r = r, x.sink = sink, x.user = user;
    x.kind = RECOGNISER_CONTENT;
    x.out_n = x.again_n = x.again_at = 0;
    do {
        end_open(&x);
        read_again(&x);
    } while (r->held_n || r->phase == PHASE_CALL);
    flush(&x);
}

/* ---- where it stands ---- */

static enum recogniser_point point(const struct recogniser *r)
{
    const struct format_step *s = &r->cfg.format->steps[r->step];
    switch (s->kind) {
    case STEP_NAME: return RECOGNISER_NAME;
    case STEP_OBJECT: return format_object_point(r);
    case STEP_ARGS: return format_args_point(r);
    case STEP_BARE: return format_bare_point(r);
    case STEP_KEY: return RECOGNISER_KEY;
    case STEP_VALUE:
    case STEP_STRING:
    case STEP_JSON: return r->held_n || r->value ? RECOGNISER_VALUE : RECOGNISER_KEYED;
    default: break;
    }
    if (!r->begun)
        return RECOGNISER_OPENING;
    return s->flags & STEP_FINAL ? RECOGNISER_CLOSING : (enum recogniser_point)s->point;
}

void recogniser_look(const struct recogniser *r, struct recogniser_state *out)
{
    *out = (struct recogniser_state){.tool = -1, .key = -1, .calls = r->calls, .broken = r->broken};
    if (r->phase == PHASE_REASONING) {
        out->place = RECOGNISER_AT_REASONING;
        return;
    }
    if (r->broken || (r->phase == PHASE_CALL && r->loose)) {
        out->place = RECOGNISER_AT_UNSURE;
        return;
    }
    if (r->phase == PHASE_CALL) {
        out->place = RECOGNISER_AT_CALL;
        out->point = point(r);
        if (!r->begun)
            return;
        out->tool = r->tool;
        out->key = out->point >= RECOGNISER_KEYED && out->point <= RECOGNISER_VALUE_DONE ? r->key : -1;
        out->keys = r->keys;
        out->other_keys = r->other_keys;
        return;
    }
    struct recogniser_quotes quotes = r->quotes;
    for (size_t i = 0; i < r->blank; i++)
        format_quotes_take(&quotes, (unsigned char)r->held[i]);
    out->place = format_quotes_open(&quotes) ? RECOGNISER_AT_QUOTED : (enum recogniser_place)r->place;
    if (r->held_n == r->blank)
        return;
    const char *text = r->held + r->blank;
    size_t n = r->held_n - r->blank;
    bool also = may_reason(r) && begins(r->cfg.reasoning->open, text, n);
    if (out->place == RECOGNISER_AT_QUOTED || also) {
        out->place = RECOGNISER_AT_UNSURE;
    } else {
        out->place = RECOGNISER_AT_CALL;
        out->point = RECOGNISER_OPENING;
        out->opening = true;
    }
}
