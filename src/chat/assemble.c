/*
 * assemble: from a reply's text to reasoning, content and calls.
 *
 * A recogniser does the reading. Added here: control tokens that belong to no mark are left out, pieces are whole
 * characters, and a call that turns out to be none, or that nobody wants, comes out as the model wrote it.
 */
#include <stdlib.h>
#include <string.h>

#include "chat/chat.h"

#define HOLES (LIMIT_STOP_BYTES + 2) /* text that is held back for a stop string is shorter than that */
#define PIECE 1024u                  /* bytes of one piece at most */
#define CHARACTER 4u                 /* bytes of a character at most */

struct chat_assembly {
    struct chat_assembly_config cfg;
    struct recogniser recogniser;

    /* Where control tokens are spelled in the text: only an own stream of the same ids knows that, since text may come
     * later than its id. Positions count from the reply's first byte. */
    struct tok_stream *stream; /* owned; NULL: the text has none */
    uint64_t spelled, seen;    /* bytes that the ids so far stand for, and that came */
    struct hole {
        uint64_t from, to;
    } holes[HOLES]; /* a ring: what is yet to come and is to be left out */
    uint32_t first_hole, holes_n;

    /* What the recogniser was fed, from position raw_from of that on: since the open call began, or what one may have
     * begun in. */
    struct buf raw;
    uint64_t raw_from, told_at; /* told_at: no byte before it is content that is still to be told */
    bool open, as_text;         /* a call is open; it is one that nobody wants */
    uint32_t calls;             /* that were told and not taken back */
    char last;                  /* byte of content; 0 = there is none */

    chat_sink *sink;
    void *user;
    enum chat_piece_kind kind; /* of what is in text[n] */
    size_t n;
    char text[PIECE];
};

/* ---- control tokens ---- */

bool chat_reads_special(const struct recogniser_config *cfg)
{
    return (cfg->format && format_keeps_special(cfg->format)) || (cfg->reasoning && cfg->reasoning->keeps_special);
}

static bool contains(const char *text, const char *part, size_t n)
{
    return text && memmem(text, strlen(text), part, n);
}

/* Whether a tag or mark is or contains this spelling. */
static bool is_mark(const struct recogniser_config *cfg, const char *s, size_t n)
{
    const char *mark;
    if (cfg->reasoning && (contains(cfg->reasoning->open, s, n) || contains(cfg->reasoning->close, s, n)))
        return true;
    for (size_t i = 0; cfg->format && (mark = format_mark_at(cfg->format, i)) != NULL; i++)
        if (contains(mark, s, n))
            return true;
    return false;
}

/* Notes where the id's spelling will be in the text, if it is to be left out. */
static void note_id(struct chat_assembly *a, tok_id id)
{
    const struct tok *t = a->cfg.tok;
    const uint64_t before = a->spelled;
    char chunk[256];
    size_t n = tok_stream_put(a->stream, id, chunk, sizeof chunk);
    for (; n; n = tok_stream_more(a->stream, chunk, sizeof chunk))
        a->spelled += n;
    if (!tok_is_special(t, id))
        return;
    const char *s = tok_bytes(t, id, &n);
    if (!tok_is_eos(t, id) && is_mark(&a->cfg.recognise, s, n))
        return;
    /* Half a character before it ends here, too. */
    if (n > a->spelled - before)
        n = (size_t)(a->spelled - before);
    if (!n)
        return;
    if (a->holes_n == HOLES)
        BUG("more text is held back than a stop string has");
    a->holes[(a->first_hole + a->holes_n++) % HOLES] = (struct hole){a->spelled - n, a->spelled};
}

/* ---- pieces ---- */

/* Bytes of s[n] up to the last character's beginning, or all if that is whole. */
static size_t whole_characters(const char *s, size_t n)
{
    for (size_t back = 1; back < CHARACTER && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return length > back ? n - back : n;
    }
    return n;
}

static void tell(struct chat_assembly *a, enum chat_piece_kind kind, const char *text, size_t n)
{
    a->sink(a->user, &(struct chat_piece){kind, text, n, a->calls ? a->calls - 1 : 0});
}

/* `all`: nothing of the same kind comes next, so half a character stays half. */
static void flush(struct chat_assembly *a, bool all)
{
    size_t n = all ? a->n : whole_characters(a->text, a->n);
    if (!n)
        return;
    tell(a, a->kind, a->text, n);
    a->n -= n;
    memmove(a->text, a->text + n, a->n);
}

static void give(struct chat_assembly *a, enum chat_piece_kind kind, const char *text, size_t n)
{
    if (kind != a->kind)
        flush(a, true);
    a->kind = kind;
    if (kind == CHAT_CONTENT && n)
        a->last = text[n - 1];
    while (n) {
        size_t room = PIECE - a->n, m = n < room ? n : room;
        memcpy(a->text + a->n, text, m);
        a->n += m;
        text += m;
        n -= m;
        if (a->n == PIECE)
            flush(a, false);
    }
}

/* ---- calls ---- */

static bool keeps_raw(const struct chat_assembly *a)
{
    return a->cfg.take_back || a->cfg.one_call;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* What the model wrote in [from, at), as content; behind other content, with the white space between. */
static void give_raw(struct chat_assembly *a, uint64_t from, uint64_t at)
{
    const uint64_t lowest = a->raw_from > a->told_at ? a->raw_from : a->told_at;
    if (a->raw.failed || from < a->raw_from || at < from || at - a->raw_from > a->raw.len)
        return; /* only without memory, which chat_assembly_held() tells */
    if (a->last && !is_blank(a->last))
        while (from > lowest && is_blank(a->raw.data[from - 1 - a->raw_from]))
            from--;
    give(a, CHAT_CONTENT, a->raw.data + (from - a->raw_from), (size_t)(at - from));
}

static void begin_call(struct chat_assembly *a, const struct recogniser_event *ev)
{
    a->open = true;
    a->as_text = a->cfg.one_call && a->calls;
    if (a->as_text)
        return;
    flush(a, true);
    a->calls++;
    tell(a, CHAT_CALL, ev->text, ev->n);
}

static void end_call(struct chat_assembly *a, const struct recogniser_event *ev)
{
    a->open = false;
    if (a->as_text) {
        give_raw(a, ev->from, ev->at);
    } else {
        flush(a, true);
        tell(a, CHAT_CALL_END, NULL, 0);
    }
    a->told_at = ev->at;
}

static void break_call(struct chat_assembly *a, const struct recogniser_event *ev)
{
    a->open = false;
    if (!a->as_text) {
        flush(a, true);
        tell(a, CHAT_CALL_BROKEN, NULL, 0);
        a->calls -= a->cfg.take_back;
    }
    if (a->as_text || a->cfg.take_back)
        give_raw(a, ev->from, ev->at);
    a->told_at = ev->at;
}

static void recognised(void *user, const struct recogniser_event *ev)
{
    struct chat_assembly *a = user;
    switch (ev->kind) {
    case RECOGNISER_REASONING:
        give(a, CHAT_REASONING, ev->text, ev->n);
        break;
    case RECOGNISER_CONTENT:
        give(a, CHAT_CONTENT, ev->text, ev->n);
        break;
    case RECOGNISER_BEGIN:
        begin_call(a, ev);
        break;
    case RECOGNISER_ARGUMENTS:
        if (!a->as_text)
            give(a, CHAT_ARGUMENTS, ev->text, ev->n);
        break;
    case RECOGNISER_END:
        end_call(a, ev);
        break;
    case RECOGNISER_BROKEN:
        break_call(a, ev);
    }
}

static void feed(struct chat_assembly *a, const char *text, size_t n)
{
    if (!n)
        return;
    if (keeps_raw(a))
        buf_add(&a->raw, text, n);
    recogniser_feed(&a->recogniser, text, n, recognised, a);
    /* A call that is yet to be told lies within what the recogniser holds back. */
    if (!a->open && a->raw.len > RECOGNISER_HELD && !a->raw.failed) {
        size_t gone = a->raw.len - RECOGNISER_HELD;
        buf_drop(&a->raw, gone);
        a->raw_from += gone;
    }
}

/* ---- the interface ---- */

enum status chat_assembly_new(struct chat_assembly **out, const struct chat_assembly_config *cfg, struct err *e)
{
    struct chat_assembly *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a reply");
    a->cfg = *cfg;
    buf_init(&a->raw, cfg->most);
    recogniser_init(&a->recogniser, &cfg->recognise);
    if (chat_reads_special(&cfg->recognise)) {
        enum status st = tok_stream_new(cfg->tok, true, true, &a->stream, e);
        if (st != ST_OK) {
            chat_assembly_free(a);
            return st;
        }
    }
    *out = a;
    return ST_OK;
}

void chat_assembly_free(struct chat_assembly *a)
{
    if (!a)
        return;
    if (a->stream)
        tok_stream_free(a->stream);
    buf_release(&a->raw);
    free(a);
}

void chat_assembly_put(struct chat_assembly *a, tok_id id, const char *text, size_t n, chat_sink *sink, void *user)
{
    a->sink = sink;
    a->user = user;
    if (a->stream && id >= 0)
        note_id(a, id);
    while (n) {
        const struct hole *h = a->holes_n ? &a->holes[a->first_hole] : NULL;
        bool inside = h && h->from <= a->seen;
        uint64_t end = h ? inside ? h->to : h->from : a->seen + n;
        size_t m = end - a->seen < n ? (size_t)(end - a->seen) : n;
        if (!inside)
            feed(a, text, m);
        a->seen += m;
        text += m;
        n -= m;
        if (inside && a->seen == h->to) {
            a->first_hole = (a->first_hole + 1) % HOLES;
            a->holes_n--;
        }
    }
    flush(a, false);
}

void chat_assembly_end(struct chat_assembly *a, chat_sink *sink, void *user)
{
    a->sink = sink;
    a->user = user;
    recogniser_end(&a->recogniser, recognised, a);
    flush(a, true);
}

size_t chat_assembly_held(const struct chat_assembly *a)
{
    return a->raw.failed ? SIZE_MAX : a->raw.len;
}
