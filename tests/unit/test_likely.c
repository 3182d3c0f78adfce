/* source: what is likely under a grammar of JSON, with a vocabulary of bytes, and with SmolLM2's where the model is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/rng.h"
#include "source/source.h"
#include "text/text.h"

enum { ROOM = 6000 };

/* --- vocabularies ---------------------------------------------------------------------------------------------------- */

enum { CONTROL = 256, END, QUOTE_COLON, QUOTE_COMMA, BLANK_QUOTE, BLANKS, WORDS };

/* GPT-2's stand-in for a byte, as UTF-8. */
static size_t stand_in(unsigned byte, char *out)
{
    unsigned c = byte, next = 256;
    for (unsigned b = 0; b <= byte; b++) {
        const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        c = printable ? b : next++;
    }
    out[0] = (char)(c < 128 ? c : 0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 63));
    return c < 128 ? 1 : 2;
}

/* All bytes, two control tokens, and four pairs. */
static struct tok *of_bytes(void)
{
    static char store[256][2];
    static const char *const names[] = {"<|x|>", "<|end|>", "\":", "\",", "\xc4\xa0\"", "\xc4\xa0\xc4\xa0"};
    static const struct text_view merges[] = {{"\" :", 3}, {"\" ,", 3}, {"\xc4\xa0 \"", 4}, {"\xc4\xa0 \xc4\xa0", 5}};
    struct text_view tokens[WORDS];
    int32_t types[WORDS];
    struct tok_source src;
    struct err e;
    struct tok *t;
    for (unsigned i = 0; i < WORDS; i++) {
        tokens[i] = i < 256 ? (struct text_view){store[i], stand_in(i, store[i])}
                            : (struct text_view){names[i - 256], strlen(names[i - 256])};
        types[i] = i == CONTROL || i == END ? 3 : 1;
    }
    tok_source_init(&src);
    src.model = "gpt2";
    src.pre = "smollm";
    src.tokens = tokens;
    src.types = types;
    src.n_tokens = WORDS;
    src.merges = merges;
    src.n_merges = 4;
    src.eos = END;
    assert_int_equal(tok_new_gguf(&t, &src, &e), ST_OK);
    return t;
}

static struct tok *bytes_tok, *words_tok; /* the second is NULL without the model */
static struct api_model smollm2;

static int open_vocabularies(void **state)
{
    const struct api_open o = {.path = getenv("SMOLLM2"), .want = API_TOK};
    struct err e;
    (void)state;
    bytes_tok = of_bytes();
    if (!o.path) {
        printf("note: the tests with SmolLM2's vocabulary are skipped: SMOLLM2 does not name the model's file\n");
    } else {
        assert_int_equal(api_open(&smollm2, &o, &e), ST_OK);
        words_tok = smollm2.tok;
    }
    return 0;
}

static int close_vocabularies(void **state)
{
    (void)state;
    tok_free(bytes_tok);
    api_close(&smollm2);
    return 0;
}

/* --- a row ----------------------------------------------------------------------------------------------------------- */

struct bench {
    struct tok *tok;
    struct grammar *grammar;
    struct source_row row;
    struct source_proposal p;
    tok_id ids[ROOM], out[ROOM]; /* the row's, and those that will come */
    uint32_t n;                  /* of out */
    uint32_t proposed, accepted, wrong;
    char asked[4 * ROOM];        /* the ids that nobody proposed right, each with a | behind it */
};

static struct source *new_source(struct tok *tok)
{
    struct source *s;
    struct err e;
    assert_int_equal(source_likely_new(&s, tok, &e), ST_OK);
    return s;
}

static struct grammar *compile(struct tok *tok, enum grammar_kind kind, const char *text, const char *after)
{
    const struct grammar_source src = {
        .kind = kind, .text = text, .n = strlen(text), .after = after, .after_n = after ? strlen(after) : 0};
    struct grammar *g;
    struct err e;
    if (grammar_new(&g, tok, &src, &e) != ST_OK)
        fail_msg("%s", e.text);
    return g;
}

static uint32_t encode(struct tok *tok, const char *text, unsigned flags, tok_id *out)
{
    tok_id *ids;
    size_t n;
    struct err e;
    assert_int_equal(tok_encode(tok, text, strlen(text), flags | TOK_INNER, &ids, &n, &e), ST_OK);
    assert_true(n <= ROOM);
    memcpy(out, ids, n * sizeof *ids);
    tok_ids_free(ids, n);
    return (uint32_t)n;
}

/* A row of three prompt ids under the grammar, which it takes over. */
static void open_row(struct bench *b, struct source *s, struct grammar *g)
{
    struct err e;
    b->grammar = g;
    b->row = (struct source_row){.ids = b->ids, .prompt_n = 3, .known = 3, .n = 3, .grammar = g};
    for (int i = 0; i < 3; i++)
        b->ids[i] = 'p';
    b->proposed = b->accepted = b->wrong = 0;
    b->asked[0] = 0;
    if (g)
        assert_int_equal(matcher_new(&b->row.matcher, g, &e), ST_OK);
    assert_int_equal(s->ops->open(s, &b->row, ROOM, &e), ST_OK);
}

static void close_row(struct bench *b, struct source *s)
{
    s->ops->close(s, &b->row);
    assert_null(b->row.state[SOURCE_LIKELY]);
    matcher_free(b->row.matcher);
    grammar_free(b->grammar);
}

static const struct source_proposal *ask(struct bench *b, struct source *s, uint32_t most, float chance, float price)
{
    const struct source_ask a = {.row = &b->row, .most = most, .chance = chance, .price = price, .out = &b->p};
    memset(&b->p, 0x77, sizeof b->p);
    b->p.n = 0;
    s->ops->propose(s, &a, 1);
    if (b->p.n) {
        assert_in_range(b->p.n, 2, most);
        assert_int_equal(b->p.trust, SOURCE_VERIFY);
        for (uint32_t j = 0; j < b->p.n; j++) {
            assert_true(b->p.chance[j] > 0 && b->p.chance[j] <= 1);
            assert_false(tok_is_eos(b->tok, b->p.id[j]) || tok_is_special(b->tok, b->p.id[j]));
            chance *= b->p.chance[j];
        }
        assert_true(chance >= price);
    }
    return &b->p;
}

/* ids become known; the grammar has to allow them. */
static void put(struct bench *b, struct source *s, const tok_id *ids, uint32_t n)
{
    const uint32_t from = b->row.known;
    assert_true(from + n <= ROOM);
    memcpy(b->ids + from, ids, n * sizeof *ids);
    if (b->row.matcher)
        assert_int_equal(matcher_consume(b->row.matcher, ids, n), n);
    b->row.known = b->row.n = from + n;
    s->ops->observe(s, &b->row, from);
}

static void put_text(struct bench *b, struct source *s, const char *text)
{
    put(b, s, b->out, b->n = encode(b->tok, text, TOK_PLAIN, b->out));
}

static void note(struct bench *b, tok_id id)
{
    size_t n, at = strlen(b->asked);
    const char *piece = tok_bytes(b->tok, id, &n);
    assert_true(at + n + 2 < sizeof b->asked);
    memcpy(b->asked + at, piece, n);
    memcpy(b->asked + at + n, "|", 2);
}

/* out[from, to) come, with as many at once as were proposed right; behind each, the next is asked for. What is proposed
 * right has to be what the grammar's own matcher allows, which put() sees to. */
static void walk(struct bench *b, struct source *s, uint32_t from, uint32_t to)
{
    b->proposed = b->accepted = b->wrong = 0;
    b->asked[0] = 0;
    while (from < to) {
        const struct source_proposal *p = ask(b, s, SOURCE_SPAN, 1, 0);
        uint32_t k = 0;
        while (k < p->n && from + k < to && p->id[k] == b->out[from + k])
            k++;
        b->proposed += p->n;
        b->accepted += k;
        b->wrong += k < p->n && from + k < to;
        if (from + k < to)
            note(b, b->out[from + k]);
        k += from + k < to;
        put(b, s, b->out + from, k);
        from += k;
    }
}

/* The place among out's ids of the byte at this offset of their text. */
static uint32_t id_at(const struct bench *b, size_t offset)
{
    size_t at = 0, n;
    uint32_t i = 0;
    for (; i < b->n && at < offset; i++) {
        tok_bytes(b->tok, b->out[i], &n);
        at += n;
    }
    return i;
}

/* --- ways to write JSON ---------------------------------------------------------------------------------------------- */

struct manner {
    const char *name;
    const char *line;         /* a line break; NULL: all on one line */
    const char *unit;         /* of indentation */
    const char *pad;          /* within brackets, on one line */
    const char *comma;        /* behind one, on one line */
    const char *before_colon, *colon; /* before and behind one */
};

static const struct manner manners[] = {
    {"compact", NULL, "", "", "", "", ""},
    {"one line", NULL, "", "", " ", "", " "},
    {"padded", NULL, "", " ", " ", "", " "},
    {"two blanks", "\n", "  ", "", "", "", " "},
    {"four blanks", "\n", "    ", "", "", "", " "},
    {"tabs", "\n", "\t", "", "", "", " "},
    {"lines without indentation", "\n", "", "", "", "", " "},
    {"CRLF", "\r\n", "  ", "", "", "", " "},
    {"blank before colons", "\n", "  ", "", "", " ", " "},
};
enum { MANNERS = sizeof manners / sizeof *manners };

static char *put_string(char *to, const char *text)
{
    const size_t n = strlen(text);
    memcpy(to, text, n + 1);
    return to + n;
}

static char *put_line(char *to, const struct manner *m, int depth, const char *in_line)
{
    if (!m->line)
        return put_string(to, in_line);
    to = put_string(to, m->line);
    for (int i = 0; i < depth; i++)
        to = put_string(to, m->unit);
    return to;
}

/* A compact text that begins at this depth, in the manner. Returns its end. */
static char *format(char *to, const char *compact, const struct manner *m, int depth)
{
    bool in_string = false;
    for (const char *c = compact; *c; c++) {
        const bool opens = *c == '{' || *c == '[', closes = *c == '}' || *c == ']';
        if (in_string) {
            *to++ = *c;
            if (*c == '\\')
                *to++ = *++c;
            else
                in_string = *c != '"';
            continue;
        }
        in_string = *c == '"';
        depth -= closes;
        if (closes && c > compact && c[-1] != '{' && c[-1] != '[')
            to = put_line(to, m, depth, m->pad);
        if (*c == ':')
            to = put_string(to, m->before_colon);
        *to++ = *c;
        depth += opens;
        if (opens && c[1] != '}' && c[1] != ']')
            to = put_line(to, m, depth, m->pad);
        else if (*c == ',')
            to = put_line(to, m, depth, m->comma);
        else if (*c == ':')
            to = put_string(to, m->colon);
    }
    *to = 0;
    return to;
}

static const char people_schema[] =
    "{\"type\":\"object\",\"properties\":{\"people\":{\"type\":\"array\",\"minItems\":4,\"maxItems\":4,\"items\":{"
    "\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"},"
    "\"home\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"kind\":{\"const\":\"flat\"}},"
    "\"required\":[\"city\",\"kind\"],\"additionalProperties\":false},\"member\":{\"type\":\"boolean\"},"
    "\"marks\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":2},"
    "\"extras\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}},"
    "\"required\":[\"name\",\"age\",\"home\",\"member\",\"marks\",\"extras\"],\"additionalProperties\":false}}},"
    "\"required\":[\"people\"],\"additionalProperties\":false}";

static const char *const people[] = {
    "{\"people\":[{\"name\":\"Ann\",\"age\":1,\"home\":{\"city\":\"Bonn\",\"kind\":\"flat\"},\"member\":true,"
    "\"marks\":[1,2],\"extras\":{}},",
    "{\"name\":\"B \\\"]}, {\\\\\",\"age\":22,\"home\":{\"city\":\"x [y,\",\"kind\":\"flat\"},\"member\":false,"
    "\"marks\":[3,4],\"extras\":{}},",
    "{\"name\":\"Cara\",\"age\":3,\"home\":{\"city\":\"Rome\",\"kind\":\"flat\"},\"member\":true,"
    "\"marks\":[5,6],\"extras\":{}}]}"};

/* What is not proposed of a text's last person, whose values are the last above. */
struct rest {
    const char *of_bytes, *of_words;
};

static void walk_people(struct bench *b, struct source *s, const struct manner *first, const struct manner *then)
{
    static char text[4 * ROOM];
    char *at = format(text, people[0], first, 0);
    const size_t second = (size_t)(at - text);
    at = format(format(at, people[1], then, 2), people[1], then, 2); /* every place, then every place again */
    const size_t third = (size_t)(at - text);
    format(at, people[2], then, 2);
    b->n = encode(b->tok, text, TOK_PLAIN, b->out);
    walk(b, s, 0, id_at(b, second));
    walk(b, s, b->row.known - 3, id_at(b, third));
    if (first == then && b->wrong)
        fail_msg("%s: %u wrong proposals once the manner was seen", then->name, b->wrong);
    const char *extras = strstr(text + third, "extras");
    walk(b, s, b->row.known - 3, id_at(b, (size_t)(strchr(extras, '}') - text)));
    if (b->wrong)
        fail_msg("%s, %s: %u wrong proposals once the manner was seen twice", first->name, then->name, b->wrong);
}

static bool begin(struct bench *b, struct tok *tok)
{
    b->tok = tok;
    return tok != NULL;
}

/* --- styles ---------------------------------------------------------------------------------------------------------- */

static const struct rest rests[MANNERS] = {
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|6|]|", "C|ara|\",\"|3|,\"|Rome|\",\"|true|5|,|6|]|"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,| |6|]|", "C|ara|\",|3|,|Rome|\",| true|5|,| |6|],|"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,| |6| |", "C|ara|\",|3|,|Rome|\",| true|5|,| |6| ],|"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|6|\n|", "C|ara|\",|3|,|Rome|\",| true|5|,|\n        |6|\n     |"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|6|\n|", "C|ara|\",|3|,|Rome|\",| true|5|,|\n                |6|\n           |"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|6|\n|", "C|ara|\",|3|,|Rome|\",| true|5|,|\n\t\t\t\t|6|\n\t\t|"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|\n|6|\n|", "C|ara|\",|3|,|Rome|\",| true|5|,|\n|6|\n|"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|6|\r|", "C|ara|\",|3|,|Rome|\",| true|5|,|\r\n        |6|\r\n     |"},
    {"C|a|r|a|\",|3|,|R|o|m|e|\",|t|5|,|6|\n|", "C|ara|\",|3|,|Rome|\",| true|5|,|\n        |6|\n     |"},
};

/* Keys, structure and constants are proposed once the manner was seen, and nothing else is; also when it changes. */
static void check_styles(struct tok *tok, bool words)
{
    static struct bench b;
    if (!begin(&b, tok))
        skip();
    for (int then = 0; then < MANNERS; then++)
        for (int first = 0; first < MANNERS; first++) {
            struct source *s = new_source(tok);
            open_row(&b, s, compile(tok, GRAMMAR_SCHEMA, people_schema, NULL));
            walk_people(&b, s, &manners[first], &manners[then]);
            assert_string_equal(b.asked, words ? rests[then].of_words : rests[then].of_bytes);
            walk(&b, s, b.row.known - 3, b.n); /* the last brackets, of which the second manner has shown nothing */
            assert_in_range(b.wrong, 0, first == then ? 0 : 2);
            close_row(&b, s);
            s->ops->free(s);
        }
}

static void test_styles(void **state)
{
    (void)state;
    check_styles(bytes_tok, false);
}

static void test_styles_in_words(void **state)
{
    (void)state;
    check_styles(words_tok, true);
}

/* A row begins as earlier ones were written. */
static void test_style_of_earlier_rows(void **state)
{
    static char text[ROOM];
    static struct bench b;
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    char *at = text;
    for (int i = 0; i < 4; i++)
        at = format(at, people[(i + 1) / 2], &manners[4], i ? 2 : 0);
    b.n = encode(b.tok, text, TOK_PLAIN, b.out);
    for (int i = 0; i < 2; i++) {
        open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, people_schema, NULL));
        walk(&b, s, 0, b.n);
        assert_true(i ? b.wrong == 0 : b.wrong > 0);
        close_row(&b, s);
    }
    /* Another manner: what was taken over is forgotten at the first difference. */
    at = text;
    for (int i = 0; i < 4; i++)
        at = format(at, people[(i + 1) / 2], &manners[0], i ? 2 : 0);
    b.n = encode(b.tok, text, TOK_PLAIN, b.out);
    open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, people_schema, NULL));
    walk(&b, s, 0, b.n);
    assert_in_range(b.wrong, 1, 2);
    close_row(&b, s);
    s->ops->free(s);
}

/* --- where a choice is ----------------------------------------------------------------------------------------------- */

/* The text of what is proposed. */
static const char *said(struct bench *b, struct source *s)
{
    static char text[1024];
    const struct source_proposal *p = ask(b, s, SOURCE_SPAN, 1, 0);
    size_t at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        size_t n;
        const char *piece = tok_bytes(b->tok, p->id[i], &n);
        assert_true(at + n < sizeof text);
        memcpy(text + at, piece, n);
        at += n;
    }
    text[at] = 0;
    return text;
}

static void test_choices(void **state)
{
    static struct bench b;
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"integer\"},\"note\":{\"type\":\"string\"},\"nose\":"
        "{\"type\":\"boolean\"},\"list\":{\"type\":\"array\",\"items\":{\"enum\":[\"up\",\"down\"]}},"
        "\"last\":{\"const\":null}},\"required\":[\"id\",\"list\",\"last\"],\"additionalProperties\":false}", NULL));
    assert_string_equal(said(&b, s), "{\"id\": ");
    put_text(&b, s, "{ \"id\": ");
    assert_string_equal(said(&b, s), ""); /* a number */
    put_text(&b, s, "12");
    assert_string_equal(said(&b, s), "");
    put_text(&b, s, " ");
    assert_string_equal(said(&b, s), ""); /* one id: the comma, for a number has ended */
    put_text(&b, s, ",\t");
    assert_string_equal(said(&b, s), ""); /* one id: the quote; "note", "nose" or "list" */
    put_text(&b, s, "\"no");
    assert_string_equal(said(&b, s), "");
    put_text(&b, s, "s");
    assert_string_equal(said(&b, s), "e\": "); /* then true or false */
    put_text(&b, s, "e\":f");
    assert_string_equal(said(&b, s), "alse ,\t\"list\":["); /* an empty one or not */
    put_text(&b, s, "alse,\"list\":[");
    assert_string_equal(said(&b, s), "");
    put_text(&b, s, "]");
    assert_string_equal(said(&b, s), ",\"last\":null }");
    put_text(&b, s, ",\"last\":null");
    assert_string_equal(said(&b, s), " }");
    put_text(&b, s, " }");
    assert_string_equal(said(&b, s), "");
    close_row(&b, s);
    s->ops->free(s);
}

/* An empty string is one way for a string to begin; it costs one id, and nothing behind it. */
static void test_empty_strings(void **state)
{
    static struct bench b;
    (void)state;
    if (!begin(&b, words_tok))
        skip();
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, "{\"type\":\"object\",\"properties\":{\"first\":{\"type\":"
        "\"string\"},\"second\":{\"type\":\"string\"}},\"required\":[\"first\",\"second\"],\"additionalProperties\":"
        "false}", NULL));
    b.n = encode(b.tok, "{\"first\": \"\", \"second\": \"\"}", TOK_PLAIN, b.out);
    walk(&b, s, 0, b.n);
    assert_int_equal(b.wrong, 2);
    assert_string_equal(b.asked, " \"\",| \"\"|}|");
    close_row(&b, s);
    s->ops->free(s);
}

/* --- where JSON begins ----------------------------------------------------------------------------------------------- */

static const char short_schema[] = "{\"type\":\"object\",\"properties\":{\"first\":{\"type\":\"integer\"},\"second\":{"
    "\"type\":\"integer\"}},\"required\":[\"first\",\"second\"],\"additionalProperties\":false}";

static void test_after_a_text(void **state)
{
    static struct bench b;
    (void)state;
    for (int v = 0; v < 2; v++) {
        if (!begin(&b, v ? words_tok : bytes_tok))
            skip();
        struct source *s = new_source(b.tok);
        for (int row = 0; row < 2; row++) {
            open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, short_schema, "ab</abac>"));
            put_text(&b, s, "{\"first\": 1, ab</ab</aba");
            assert_string_equal(said(&b, s), "");
            put_text(&b, s, v ? "b</abac>" : "b</abac");
            if (!v)
                put_text(&b, s, ">");
            assert_string_equal(said(&b, s), row ? "\n\n{\"first\": " : "{\"first\": ");
            put_text(&b, s, "\n\n");
            assert_string_equal(said(&b, s), row ? "{\"first\": " : ""); /* more blank lines than were to be expected */
            put_text(&b, s, "{\"first\": 1,");
            assert_string_equal(said(&b, s), " \"second\": ");
            put_text(&b, s, " \"second\": 2}");
            close_row(&b, s);
        }
        /* Another kind of reply does not begin with blank lines. */
        open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, short_schema, NULL));
        assert_string_equal(said(&b, s), "{\"first\": ");
        close_row(&b, s);
        s->ops->free(s);
    }
}

static void test_after_a_control_token(void **state)
{
    static const tok_id control = CONTROL;
    static struct bench b;
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, short_schema, "<|x|>"));
    put_text(&b, s, "{ <|x|>");
    assert_string_equal(said(&b, s), ""); /* only its letters */
    put(&b, s, &control, 1);
    assert_string_equal(said(&b, s), "{\"first\": ");
    close_row(&b, s);
    s->ops->free(s);
}

static void test_what_is_no_json(void **state)
{
    static struct bench b;
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_REGEX, "yes, certainly", NULL));
    assert_null(b.row.state[SOURCE_LIKELY]);
    assert_string_equal(said(&b, s), "");
    put_text(&b, s, "yes");
    close_row(&b, s);
    open_row(&b, s, NULL);
    assert_null(b.row.state[SOURCE_LIKELY]);
    assert_string_equal(said(&b, s), "");
    put_text(&b, s, "yes");
    close_row(&b, s);
    s->ops->free(s);
}

/* Any JSON: little is known, and what the second matcher does not follow, or what is nested too deeply, ends it. */
static void test_any_json(void **state)
{
    static struct bench b;
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_JSON, "", NULL));
    put_text(&b, s, "{\"a\" : 1 , \"b\"");
    assert_string_equal(said(&b, s), " :"); /* a blank may be a part of what comes next */
    put_text(&b, s, " : \"\\u001b\"");
    put_text(&b, s, " , \"c\"");
    assert_string_equal(said(&b, s), "");
    close_row(&b, s);
    open_row(&b, s, compile(b.tok, GRAMMAR_JSON, "", NULL));
    for (int i = 0; i < 63; i++)
        put_text(&b, s, "{\"a\" :");
    put_text(&b, s, "{\"a\"");
    assert_string_equal(said(&b, s), " :");
    for (int i = 0; i < 3; i++)
        put_text(&b, s, " :{\"a\"");
    assert_string_equal(said(&b, s), "");
    put_text(&b, s, " :1");
    for (int i = 0; i < 67; i++)
        put_text(&b, s, "}");
    close_row(&b, s);
    s->ops->free(s);
}

/* --- tentative ids, prices, worth ------------------------------------------------------------------------------------ */

static void test_tentative_ids(void **state)
{
    static struct bench b;
    char before[256];
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, people_schema, NULL));
    put_text(&b, s, "{\n  \"people\": [\n    {\n      \"name\": \"A");
    snprintf(before, sizeof before, "%s", said(&b, s));
    assert_string_equal(before, "");
    for (int i = 0; i < 3; i++) {
        b.row.n += encode(b.tok, "nn\",", TOK_PLAIN, b.ids + b.row.known);
        assert_string_equal(said(&b, s), "\n      \"age\": ");
        b.row.n = b.row.known + encode(b.tok, i ? "\",\"age\"," : "\"]", TOK_PLAIN, b.ids + b.row.known);
        assert_string_equal(said(&b, s), ""); /* which the grammar forbids */
        b.row.n = b.row.known;
        assert_string_equal(said(&b, s), "");
    }
    put_text(&b, s, "\",");
    assert_string_equal(said(&b, s), "\n      \"age\": ");
    close_row(&b, s);
    s->ops->free(s);
}

static void test_price(void **state)
{
    static struct bench b;
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, short_schema, NULL));
    const uint32_t all = ask(&b, s, SOURCE_SPAN, 1, 0)->n;
    assert_in_range(all, 9, 11);
    assert_int_equal(ask(&b, s, 4, 1, 0)->n, 4);
    assert_int_equal(ask(&b, s, 2, 1, 0)->n, 2);
    assert_int_equal(ask(&b, s, 1, 1, 0)->n, 0);
    assert_int_equal(ask(&b, s, 0, 1, 0)->n, 0);
    assert_int_equal(ask(&b, s, SOURCE_SPAN, 1, 1)->n, 0);
    assert_int_equal(ask(&b, s, SOURCE_SPAN, 0.1f, 0.2f)->n, 0);
    assert_in_range(ask(&b, s, SOURCE_SPAN, 1, 0.5f)->n, 2, all - 1); /* the blank behind the colon is only a guess */
    close_row(&b, s);
    s->ops->free(s);
}

/* What was guessed wrong again and again is offered no more, until it would have been right often enough; without being
 * offered meanwhile. */
static void test_worth_of_guesses(void **state)
{
    static struct bench b;
    uint32_t offered[3] = {0};
    (void)state;
    begin(&b, bytes_tok);
    struct source *s = new_source(b.tok);
    for (int i = 0; i < 150; i++) {
        const struct manner *m = i < 50 && i % 2 ? &manners[0] : &manners[3];
        char text[256];
        format(text, "{\"first\":1,\"second\":2}", m, 0);
        open_row(&b, s, compile(b.tok, GRAMMAR_SCHEMA, short_schema, NULL));
        put_text(&b, s, "{");
        if (i >= 30)
            offered[i < 50 ? 0 : i < 60 ? 1 : 2] += ask(&b, s, SOURCE_SPAN, 1, 0.5f)->n > 0;
        else
            ask(&b, s, SOURCE_SPAN, 1, 0.5f);
        put_text(&b, s, text + 1);
        close_row(&b, s);
    }
    s->ops->free(s);
    assert_in_range(offered[0], 0, 10);
    assert_in_range(offered[2], 60, 90);
}

/* --- anything -------------------------------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t stream, uint32_t at, uint32_t n)
{
    return (uint32_t)(rng_uniform(4711, stream, at, RNG_FINAL) * (float)n);
}

static const char wild_schema[] =
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\",\"maxLength\":12},\"long_text\":{\"const\":"
    "\"a \\\"b\\\", \\u00e4{[\"},\"numbers\":{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"maxItems\":4},"
    "\"rows\":{\"type\":\"array\",\"maxItems\":3,\"items\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"anyOf\":[{"
    "\"type\":\"boolean\"},{\"type\":\"null\"},{\"enum\":[\"up\",\"upper\",3]}]}}},\"more\":{\"type\":\"object\","
    "\"maxProperties\":2,\"additionalProperties\":{\"type\":\"integer\"}}},\"required\":[\"text\",\"rows\"],"
    "\"additionalProperties\":false}";

/* A random id of those that may come. */
static bool choose(struct bench *b, uint32_t *mask, size_t words, uint32_t stream, tok_id *out)
{
    struct matcher_next next;
    struct err e;
    uint32_t may = 0, at;
    assert_int_equal(matcher_mask(b->row.matcher, mask, &next, &e), ST_OK);
    for (size_t i = 0; i < tok_vocab(b->tok); i++)
        may += !tok_is_eos(b->tok, (tok_id)i) && mask[i / 32] >> i % 32 & 1;
    if (!may || (next.end && draw(stream, b->row.known, 2)))
        return false;
    at = draw(stream + 1, b->row.known, may);
    for (size_t i = 0; i < words * 32; i++)
        if (!tok_is_eos(b->tok, (tok_id)i) && mask[i / 32] >> i % 32 & 1 && !at--) {
            *out = (tok_id)i;
            return true;
        }
    return false;
}

/* Asked anywhere, with any tail, a source says what one says that was never asked before; and the row's own matcher
 * stays where it was. */
static void walk_wild(struct bench *b, struct tok *tok, uint32_t stream, uint32_t longest)
{
    const size_t words = (tok_vocab(tok) + 31) / 32;
    uint32_t *mask = malloc(words * sizeof *mask);
    tok_id id;
    assert_non_null(mask);
    begin(b, tok);
    struct source *s = new_source(tok);
    open_row(b, s, compile(tok, GRAMMAR_SCHEMA, wild_schema, stream % 3 ? NULL : "</t>"));
    if (stream % 3 == 0)
        put_text(b, s, "</t>");
    while (b->row.known < longest && choose(b, mask, words, stream, &id)) {
        const uint32_t tail = draw(stream + 2, b->row.known, 4);
        for (uint32_t i = 0; i < tail; i++)
            b->ids[b->row.known + i] = (tok_id)draw(stream + 3 + i, b->row.known, (uint32_t)tok_vocab(tok));
        b->row.n = b->row.known + tail;
        ask(b, s, draw(stream + 8, b->row.known, SOURCE_SPAN), 0.9f, 0.3f * (float)draw(stream + 9, b->row.known, 3));
        b->row.n = b->row.known;
        if (draw(stream + 10, b->row.known, 8) == 0) {
            struct source *other = new_source(tok);
            struct source_row row = b->row;
            struct source_proposal p = {.n = 0};
            const struct source_ask a = {.row = &row, .most = SOURCE_SPAN, .chance = 1, .price = 0, .out = &p};
            struct err e;
            memset(row.state, 0, sizeof row.state);
            assert_int_equal(other->ops->open(other, &row, ROOM, &e), ST_OK);
            other->ops->propose(other, &a, 1);
            const struct source_proposal *same = ask(b, s, SOURCE_SPAN, 1, 0);
            assert_int_equal(same->n, p.n);
            assert_memory_equal(same->id, p.id, p.n * sizeof *p.id);
            other->ops->close(other, &row);
            other->ops->free(other);
        }
        put(b, s, &id, 1);
    }
    close_row(b, s);
    s->ops->free(s);
    free(mask);
}

static void test_anything(void **state)
{
    static struct bench b;
    (void)state;
    for (uint32_t i = 0; i < 120; i++)
        walk_wild(&b, bytes_tok, 100 * i, 400);
    for (uint32_t i = 0; i < 12 && words_tok; i++)
        walk_wild(&b, words_tok, 100 * i, 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_styles_in_words),
        cmocka_unit_test(test_style_of_earlier_rows),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_empty_strings),
        cmocka_unit_test(test_after_a_text),
        cmocka_unit_test(test_after_a_control_token),
        cmocka_unit_test(test_what_is_no_json),
        cmocka_unit_test(test_any_json),
        cmocka_unit_test(test_tentative_ids),
        cmocka_unit_test(test_price),
        cmocka_unit_test(test_worth_of_guesses),
        cmocka_unit_test(test_anything),
    };
    return cmocka_run_group_tests(tests, open_vocabularies, close_vocabularies);
}
