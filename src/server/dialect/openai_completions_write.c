/* openai_completions_write: replies of /v1/completions, streamed and whole. */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_out.h"

/* ---- logprobs: four parallel lists ---- */

enum list { LIST_TOKENS, LIST_LOGPROBS, LIST_TOP, LIST_OFFSETS };
_Static_assert(LIST_OFFSETS < REPLY_LISTS, "one buffer for each list");
static const char *const list_names[REPLY_LISTS] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};

/* A token as a string. One that is not whole characters is spelled "bytes:\xe2\x82", as the API does: the names in
 * top_logprobs must stay different. */
static void write_name(const struct reply *r, tok_id id, struct buf *out)
{
    size_t n;
    const char *s = tok_bytes(r->srv->tok, id, &n);
    if (http_utf8_valid(s, n)) {
        http_json_str(out, s, n);
        return;
    }
    buf_adds(out, "\"bytes:");
    for (size_t i = 0; i < n; i++)
        buf_addf(out, "\\\\x%02x", (unsigned)(unsigned char)s[i]);
    buf_adds(out, "\"");
}

static bool same_name(const struct reply *r, tok_id a, tok_id b)
{
    size_t na, nb;
    const char *sa = tok_bytes(r->srv->tok, a, &na), *sb = tok_bytes(r->srv->tok, b, &nb);
    return na == nb && (!na || memcmp(sa, sb, na) == 0);
}

static bool named_before(const struct reply *r, const struct event *ev, uint32_t i, tok_id id)
{
    for (uint32_t j = 0; j < i; j++)
        if (same_name(r, ev->top[j].id, id))
            return true;
    return false;
}

/* The likeliest tokens, and the chosen one if it is not among them. */
static void write_top(const struct reply *r, const struct event *ev, struct buf *out)
{
    bool first = true;
    buf_adds(out, "{");
    for (uint32_t i = 0; i <= ev->top_n; i++) {
        tok_id id = i < ev->top_n ? ev->top[i].id : ev->id;
        if (named_before(r, ev, i, id))
            continue;
        if (!first)
            buf_adds(out, ",");
        first = false;
        write_name(r, id, out);
        buf_adds(out, ":");
        http_json_fixed(out, i < ev->top_n ? ev->top[i].logprob : ev->logprob);
    }
    buf_adds(out, "}");
}

/* A token that begins inside a character belongs to where that character begins. */
static bool continues(const struct reply *r, tok_id id)
{
    size_t n;
    const char *s = tok_bytes(r->srv->tok, id, &n);
    return n && ((unsigned char)s[0] & 0xC0) == 0x80;
}

/* Characters that begin in a generated token, whether its text is out already or held back. */
static uint32_t spells(const struct reply *r, const struct event *ev)
{
    size_t n;
    if (ev->kind != EVENT_TOKEN || ev->id < 0 || tok_is_special(r->srv->tok, ev->id))
        return 0;
    const char *s = tok_bytes(r->srv->tok, ev->id, &n);
    return openai_chars(s, n);
}

/* The id that ends a reply has one, too, as in the API: who scores a prompt takes the last one for what was generated. */
static bool has_logprob(const struct reply *r, const struct event *ev)
{
    return r->job.logprobs && ev->id >= 0;
}

/* `known`: something came before the token, so that it has a log-probability. */
static void add_logprob(const struct reply *r, struct reply_part *p, const struct event *ev, bool known)
{
    for (int i = 0; i < REPLY_LISTS; i++)
        if (p->lists[i].len)
            buf_adds(&p->lists[i], ",");
    write_name(r, ev->id, &p->lists[LIST_TOKENS]);
    if (known) {
        http_json_fixed(&p->lists[LIST_LOGPROBS], ev->logprob);
        write_top(r, ev, &p->lists[LIST_TOP]);
    } else {
        buf_adds(&p->lists[LIST_LOGPROBS], "null");
        buf_adds(&p->lists[LIST_TOP], "null");
    }
    http_json_u64(&p->lists[LIST_OFFSETS], p->chars - (p->chars && continues(r, ev->id)));
}

static void write_lists(const struct reply_part *p, struct buf *out)
{
    for (int i = 0; i < REPLY_LISTS; i++) {
        buf_addf(out, "%s\"%s\":[", i ? "," : "{", list_names[i]);
        buf_add(out, p->lists[i].data, p->lists[i].len);
        buf_adds(out, "]");
    }
    buf_adds(out, "}");
}

/* ---- echo ---- */

static size_t bytes_of(const struct reply *r, tok_id id)
{
    size_t n;
    (void)tok_bytes(r->srv->tok, id, &n);
    return n;
}

/* A prompt's tokens may spell more than its text: BOS, a space before the first word. That much comes before the text. */
static size_t before_text(const struct reply *r, const struct reply_prompt *prompt)
{
    size_t all = 0;
    for (size_t i = 0; i < prompt->n; i++)
        all += bytes_of(r, prompt->ids[i]);
    return all > prompt->text_n ? all - prompt->text_n : 0;
}

/* An EVENT_PROMPT: its offset is where its bytes begin in the prompt's text. */
static void add_prompt_logprob(const struct reply *r, struct reply_part *p, const struct event *ev)
{
    const struct reply_prompt *prompt = server_reply_prompt(r, p);
    if (!p->told)
        p->before = before_text(r, prompt);
    size_t at = p->told_bytes > p->before ? p->told_bytes - p->before : 0;
    at = at < prompt->text_n ? at : prompt->text_n;
    if (at > p->told_at) {
        p->chars += openai_chars(prompt->text + p->told_at, at - p->told_at);
        p->told_at = at;
    }
    add_logprob(r, p, ev, p->told > 0);
    p->told_bytes += bytes_of(r, ev->id);
    p->told++;
}

/* ---- streamed ---- */

static void open_chunk(struct reply *r, const struct reply_part *p, struct buf *out)
{
    if (!r->head.len) {
        buf_adds(&r->head, "data: ");
        openai_head(r, "text_completion", &r->head);
        if (r->job.include_usage)
            buf_adds(&r->head, "\"usage\":null,");
        buf_adds(&r->head, "\"choices\":[{\"index\":");
    }
    buf_add(out, r->head.data, r->head.len);
    http_json_u64(out, p->index);
    buf_adds(out, ",\"text\":");
}

/* A chunk of text, with the lists if they hold anything. */
static void write_chunk(struct reply *r, struct reply_part *p, const char *text, size_t n, struct buf *out)
{
    open_chunk(r, p, out);
    http_json_str(out, text, n);
    buf_adds(out, ",\"logprobs\":");
    if (p->lists[LIST_TOKENS].len) {
        write_lists(p, out);
        for (int i = 0; i < REPLY_LISTS; i++)
            buf_clear(&p->lists[i]);
    } else {
        buf_adds(out, "null");
    }
    buf_adds(out, ",\"finish_reason\":null}]}\n\n");
}

/* The prompt in one piece, with whatever is known of its tokens. */
static void begin(struct reply *r, struct reply_part *p, struct buf *out)
{
    const struct reply_prompt *prompt = server_reply_prompt(r, p);
    if (p->begun)
        return;
    p->begun = true;
    if (!prompt->text)
        return;
    p->chars = openai_chars(prompt->text, prompt->text_n);
    write_chunk(r, p, prompt->text, prompt->text_n, out);
}

static void chunk(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    if (ev->kind == EVENT_PROMPT) {
        add_prompt_logprob(r, p, ev);
        return;
    }
    begin(r, p, out);
    bool logprob = has_logprob(r, ev);
    if (logprob)
        add_logprob(r, p, ev, true);
    p->chars += spells(r, ev);
    if (ev->text_n || logprob)
        write_chunk(r, p, ev->text, ev->text_n, out);
}

static void progress(struct reply *r, struct reply_part *p, const struct event *ev, struct buf *out)
{
    open_chunk(r, p, out);
    buf_adds(out, "\"\",\"logprobs\":null,\"finish_reason\":null}]");
    openai_progress(r, p, ev, out);
    buf_adds(out, "}\n\n");
}

static void part_end(struct reply *r, struct reply_part *p, struct buf *out)
{
    begin(r, p, out);
    open_chunk(r, p, out);
    buf_adds(out, "\"\",\"logprobs\":null,\"finish_reason\":");
    openai_finish(p, out);
    openai_end_choice(r, p, out);
}

static void end(struct reply *r, struct buf *out)
{
    openai_end_stream(r, "text_completion", out);
}

/* ---- whole ---- */

static void collect(struct reply *r, struct reply_part *p, const struct event *ev)
{
    const struct reply_prompt *prompt = server_reply_prompt(r, p);
    if (ev->kind == EVENT_PROMPT) {
        add_prompt_logprob(r, p, ev);
        return;
    }
    if (!p->begun && prompt->text)
        p->chars = openai_chars(prompt->text, prompt->text_n);
    p->begun = true;
    if (has_logprob(r, ev))
        add_logprob(r, p, ev, true);
    p->chars += spells(r, ev);
    buf_add(&p->text, ev->text, ev->text_n);
}

static void whole(struct reply *r, struct buf *out)
{
    openai_head(r, "text_completion", out);
    buf_adds(out, "\"choices\":[");
    for (uint32_t i = 0; i < r->parts_n; i++) {
        const struct reply_part *p = &r->parts[i];
        buf_adds(out, i ? ",{\"index\":" : "{\"index\":");
        http_json_u64(out, p->index);
        buf_adds(out, ",\"text\":");
        http_json_str(out, p->text.data, p->text.len);
        buf_adds(out, ",\"logprobs\":");
        if (r->job.logprobs)
            write_lists(p, out);
        else
            buf_adds(out, "null");
        buf_adds(out, ",\"finish_reason\":");
        openai_finish(p, out);
        openai_trace(r, p, out);
        buf_adds(out, "}");
    }
    buf_adds(out, "],\"usage\":");
    openai_usage(r, out);
    openai_trace(r, &r->parts[0], out);
    buf_adds(out, "}");
}

const struct reply_ops openai_completions_ops = {
    .id_prefix = "cmpl-",
    .prompt_field = "prompt",
    .scores_end = true,
    .quiet = server_reply_comment,
    .chunk = chunk,
    .progress = progress,
    .part_end = part_end,
    .end = end,
    .broken = openai_broken,
    .collect = collect,
    .whole = whole,
    .refuse = openai_refuse_reply,
};
