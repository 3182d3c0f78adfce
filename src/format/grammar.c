/*
 * grammar: what a reply may be, so that its calls are calls.
 *
 * Required: reasoning if there is any, then calls and nothing else. Auto: text in which no opening mark occurs, then a
 * mark, a call, text again. Every call is spelled as the template would render it.
 *
 * llguidance's lexer does not follow two readings of the same text: of several terminals that match, one that is "lazy"
 * ends the moment it matches, the others go on as long as any can. So text that ends with a mark is one lazy terminal
 * that cannot contain the mark, and no two terminals that may come at one place share a beginning that leaves the choice
 * open. A mark that is a control token ends text by itself, since control tokens are never text.
 */
#include <stdio.h>
#include <string.h>

#include "format/inside.h"

/* The opening mark that a shape's calls begin with: an opener of the recogniser. */
static const char *opener(const struct lark *l, const char *text)
{
    for (const struct format_mark *m = l->format->openers; m->text; m++) {
        if (!strncmp(text, m->text, strlen(m->text)))
            return m->text;
    }
    return NULL;
}

static bool has_section(const struct format_shape *s)
{
    return *s->before || *s->after;
}

static bool wanted(const struct format_request *q, size_t tool)
{
    return q->choice != FORMAT_NAMED || tool == q->named;
}

/* A text that a recogniser would end too early contains one of the marks that end it. */
static enum status check(const struct lark *l, enum step_kind kind, const char *text, size_t n, size_t tool,
                         struct err *e)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "tools[%zu]", tool);
    for (const struct format_step *s = l->format->steps; s->kind; s++) {
        for (const struct format_mark *m = s->on; s->kind == kind && m->text; m++) {
            if (memmem(text, n, m->text, strlen(m->text)))
                return err_set(e, ST_ARGUMENT, field, "%.*s: the model's tool format cannot write a name with %s in it",
                               (int)n, text, m->text);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (format_lark_special(l, text + i, n - i) || text[i] == *FORMAT_ID)
            return err_set(e, ST_ARGUMENT, field, "%.*s: a name with a control token of the model in it", (int)n, text);
    }
    return ST_OK;
}

enum status format_lark_check_key(const struct lark *l, size_t tool, const char *key, size_t n, struct err *e)
{
    TRY(check(l, STEP_KEY, key, n, tool, e));
    if (n > LIMIT_CALL_KEY) {
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "tools[%zu].parameters", tool);
        return err_set(e, ST_ARGUMENT, field, "the model's tool format cannot write keys of more than %u bytes",
                       LIMIT_CALL_KEY);
    }
    return ST_OK;
}

/* open + NAME + named, without the first `skip` bytes, in l->piece. */
static void head(struct lark *l, const struct format_tool *t, size_t skip)
{
    struct buf *b = &l->piece;
    buf_clear(b);
    buf_adds(b, l->shape->open);
    if (l->format->form == FORM_OBJECT) {
        for (size_t i = 0; i < t->name_n; i++) {
            if (t->name[i] == '"' || t->name[i] == '\\')
                buf_adds(b, "\\");
            buf_add(b, t->name + i, 1);
        }
    } else {
        buf_add(b, t->name, t->name_n);
    }
    buf_adds(b, l->shape->named);
    if (!b->failed)
        buf_drop(b, skip);
}

/* A rule `name` for one of the calls, its head without the first `skip` bytes. */
static void call_rule(struct lark *l, const char *name, size_t skip)
{
    const struct format_request *q = l->request;
    size_t n = format_tools_n(q->tools), alternatives = 0;
    buf_addf(l->out, "%s:", name);
    for (size_t i = 0; i < n; i++) {
        if (!wanted(q, i))
            continue;
        buf_addf(l->out, "%s", alternatives++ ? "\n  |" : "");
        head(l, format_tools_at(q->tools, i), skip);
        format_lark_piece(l, l->piece.data ? l->piece.data : "", l->piece.len);
        buf_addf(l->out, " args_%zu", i);
        format_lark_piece(l, l->shape->close, strlen(l->shape->close));
    }
    buf_adds(l->out, "\n");
}

static enum status args_rules(struct lark *l, struct err *e)
{
    const struct format_request *q = l->request;
    enum format_form form = l->format->form;
    if (form == FORM_PAIRS)
        format_lark_pairs_shared(l);
    else if (form == FORM_BARE)
        format_lark_bare_shared(l);
    for (size_t i = 0; i < format_tools_n(q->tools); i++) {
        const struct format_tool *t = format_tools_at(q->tools, i);
        if (!wanted(q, i))
            continue;
        TRY(check(l, STEP_NAME, t->name, t->name_n, i, e));
        if (form == FORM_PAIRS) {
            TRY(format_lark_pairs(l, i, e));
        } else if (form == FORM_BARE) {
            TRY(format_lark_bare(l, i, e));
        } else {
            buf_addf(l->out, "args_%zu:", i);
            static const char object[] = "\"type\":\"object\"";
            format_lark_json(l, t->schema, t->schema_n, object, sizeof object - 1);
            buf_adds(l->out, "\n");
        }
    }
    return ST_OK;
}

/* The rest of a section, or of a call where there are none, after `skip` bytes of its beginning: a rule `name`. `more`:
 * the calls behind the first belong to it. */
static void calls_rule(struct lark *l, const char *name, size_t skip, bool more)
{
    const struct format_shape *s = l->shape;
    size_t before = strlen(s->before);
    call_rule(l, "first", before ? 0 : skip);
    if (more)
        call_rule(l, "next", 0);
    buf_addf(l->out, "%s:", name);
    if (before > skip)
        format_lark_piece(l, s->before + skip, before - skip);
    buf_adds(l->out, " first");
    if (more) {
        buf_adds(l->out, " (");
        format_lark_piece(l, s->between, strlen(s->between));
        buf_adds(l->out, " next)*");
    }
    format_lark_piece(l, s->after, strlen(s->after));
    buf_adds(l->out, "\n");
}

/* ---- reasoning ---- */

/* The rule `think`: from behind the opening tag to the closing one. */
static void think_rule(struct lark *l)
{
    const struct format_reasoning *g = l->request->reasoning;
    format_lark_until(l, "think", g->close, g->close);
}

/* The rule `think_open`: the opening tag, behind white space. */
static void think_open(struct lark *l)
{
    const char *open = l->request->reasoning->open;
    size_t n = strlen(open), at = 0;
    while (at < n && !format_lark_special(l, open + at, n - at))
        at++;
    buf_adds(l->out, "THINK_OPEN: /[ \\t\\r\\n]*/");
    if (at) {
        buf_adds(l->out, " ");
        format_lark_string(l->out, open, at);
    }
    buf_adds(l->out, at == n ? "\nthink_open[lazy]: THINK_OPEN" : "\nthink_open: THINK_OPEN");
    format_lark_piece(l, open + at, n - at);
    buf_adds(l->out, "\n");
}

/* ---- a call is required ---- */

static void required(struct lark *l)
{
    const struct format_request *q = l->request;
    const struct format_shape *s = l->shape;
    buf_adds(l->out, "start:");
    if (q->thinking == FORMAT_MAY_REASON) {
        buf_adds(l->out, " (");
        format_lark_piece(l, q->reasoning->open, strlen(q->reasoning->open));
        buf_adds(l->out, " think");
        format_lark_piece(l, s->thought, strlen(s->thought));
        buf_adds(l->out, ")?");
    } else if (q->thinking == FORMAT_IN_REASONING) {
        buf_adds(l->out, " think");
        format_lark_piece(l, s->thought, strlen(s->thought));
    }
    buf_adds(l->out, " calls\n");
    calls_rule(l, "calls", 0, q->parallel);
}

/* ---- free text with calls in it ---- */

/* A terminal for text that holds none of the openers; `first`: and does not open reasoning either. */
static void text_terminal(struct lark *l, const char *name, bool first)
{
    struct buf *out = l->out;
    buf_addf(out, "%s: /(?s:.*)/ & ~/(?s:.*)(", name);
    for (const struct format_mark *m = l->format->openers; m->text; m++) {
        if (m > l->format->openers)
            buf_adds(out, "|");
        format_lark_regex(out, m->text, strlen(m->text));
    }
    buf_adds(out, ")(?s:.*)/");
    if (first) {
        buf_adds(out, " & ~/[ \\t\\r\\n]*");
        format_lark_regex(out, l->request->reasoning->open, strlen(l->request->reasoning->open));
        buf_adds(out, "(?s:.*)/");
    }
    buf_adds(out, "\n");
}

/* The same where calls come first: text that begins neither with white space nor like a call. */
static void text_terminal_at_start(struct lark *l)
{
    buf_adds(l->out, "TEXT: /([^ \\t\\r\\n](?s:.*))?/ & ~/((;|<\\|python_tag\\|>)[ \\t\\r\\n]*)?"
                     "\\{[ \\t\\r\\n]*\"(name|id|type)\"(?s:.*)/");
    if (l->request->thinking == FORMAT_MAY_REASON) {
        buf_adds(l->out, " & ~/");
        format_lark_regex(l->out, l->request->reasoning->open, strlen(l->request->reasoning->open));
        buf_adds(l->out, "(?s:.*)/");
    }
    buf_adds(l->out, "\n");
}

/* Rules for text that ends with the mark: open and, where text that opens reasoning is something else, open_first. */
static void open_rule(struct lark *l, const char *rule, const char *text, const char *mark)
{
    const struct format_special *s = format_lark_special(l, mark, strlen(mark));
    if (s && s->n == strlen(mark)) {
        buf_addf(l->out, "%s: %s <[%d]>\n", rule, text, s->id);
        return;
    }
    buf_addf(l->out, "%s_MARK: %s ", text, text);
    format_lark_string(l->out, mark, strlen(mark));
    buf_addf(l->out, "\n%s[lazy]: %s_MARK\n", rule, text);
}

/* Marks of which a part is a control token ("<｜DSML｜tool_calls>"): what comes up to and with that token is the mark. */
static size_t mark_bytes(const struct lark *l, const char *mark, char *out, size_t cap)
{
    size_t n = strlen(mark), at = 0;
    const struct format_special *s = NULL;
    while (at < n && !(s = format_lark_special(l, mark + at, n - at)))
        at++;
    size_t len = s ? at + s->n : n;
    snprintf(out, cap, "%.*s", (int)len, mark);
    return len;
}

static void open_rules(struct lark *l, const char *mark, bool first)
{
    char part[FORMAT_PIECE];
    size_t n = mark_bytes(l, mark, part, sizeof part), at = 0;
    const struct format_special *s = NULL;
    while (at < n && !(s = format_lark_special(l, part + at, n - at)))
        at++;
    for (int i = 0; i < 1 + first; i++) {
        const char *rule = i ? "open_first" : "open", *text = i ? "TEXT_FIRST" : "TEXT";
        if (s && at) { /* text that ends with the token's prefix, then the token */
            buf_addf(l->out, "%s_PART: %s ", text, text);
            format_lark_string(l->out, part, at);
            buf_addf(l->out, "\n%s: %s_PART <[%d]>\n", rule, text, s->id);
        } else {
            open_rule(l, rule, text, part);
        }
    }
}

/* Calls come first or not at all. */
static void auto_at_start(struct lark *l)
{
    const struct format_request *q = l->request;
    buf_adds(l->out, "start: GAP? ");
    if (q->thinking == FORMAT_IN_REASONING) {
        buf_adds(l->out, "think GAP? ");
    } else if (q->thinking == FORMAT_MAY_REASON) {
        buf_adds(l->out, "(");
        format_lark_piece(l, q->reasoning->open, strlen(q->reasoning->open));
        buf_adds(l->out, " think GAP?)? ");
    }
    buf_adds(l->out, "(calls | TEXT)\nGAP: /[ \\t\\r\\n]{1,8}/\n");
    text_terminal_at_start(l);
    calls_rule(l, "calls", 0, q->parallel);
}

static enum status automatic(struct lark *l, struct err *e)
{
    const struct format_request *q = l->request;
    const struct format_shape *s = l->shape;
    bool may = q->thinking == FORMAT_MAY_REASON;
    const char *begin = *s->before ? s->before : s->open, *mark = opener(l, begin);
    if (!mark)
        return err_set(e, ST_ARGUMENT, "tools", "a call has to begin with the opening mark of %s", l->format->name);
    buf_addf(l->out, "start: %s\n", may ? "think_open think rest | rest_first"
                                        : q->thinking == FORMAT_IN_REASONING ? "think rest" : "rest");
    buf_addf(l->out, "rest: (open opened)%s TEXT\n", q->parallel ? "*" : "?");
    text_terminal(l, "TEXT", false);
    if (may) {
        think_open(l);
        buf_addf(l->out, "rest_first: open_first opened %s | TEXT_FIRST\n", q->parallel ? "rest" : "TEXT");
        text_terminal(l, "TEXT_FIRST", true);
    }
    char part[FORMAT_PIECE];
    open_rules(l, mark, may);
    calls_rule(l, "opened", mark_bytes(l, mark, part, sizeof part), has_section(s) && q->parallel);
    return ST_OK;
}

enum status format_grammar(const struct format *f, const struct format_shape *s, const struct format_request *q,
                           struct buf *lark, struct err *e)
{
    struct lark l = {.out = lark, .format = f, .shape = s, .request = q};
    if (!format_tools_n(q->tools))
        return err_set(e, ST_ARGUMENT, "tools", "no tools that could be called");
    if (q->choice == FORMAT_NAMED && q->named >= format_tools_n(q->tools))
        return err_set(e, ST_ARGUMENT, "tool_choice", "names none of the tools");
    buf_init(&l.piece, 4 * FORMAT_PIECE + 2 * LIMIT_TOOL_NAME);
    enum status st = ST_OK;
    if (q->left_out)
        buf_adds(q->left_out, "[");
    if (q->choice != FORMAT_AUTO)
        required(&l);
    else if (f->at_start)
        auto_at_start(&l);
    else
        st = automatic(&l, e);
    if (st == ST_OK && q->thinking != FORMAT_NO_REASONING)
        think_rule(&l);
    if (st == ST_OK)
        st = args_rules(&l, e);
    buf_release(&l.piece);
    if (q->left_out)
        buf_adds(q->left_out, "]");
    if (st == ST_OK && lark->failed)
        st = err_set(e, ST_TOO_LONG, "tools", "the grammar of the tools takes more than %zu bytes", lark->limit);
    return st;
}
