/* server_fake_text: the text library's place below a real server: a token is a byte, a template shows the first message. */
#ifndef TESTS_SERVER_FAKE_TEXT_H
#define TESTS_SERVER_FAKE_TEXT_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <jansson.h>

#include "server_fake_grammar.h"
#include "text/text.h"

static char all_bytes[256]; /* each at its own index */

/* Ids that are control tokens, by their spelling, where a program names some; id 0 always is. */
static const char *fake_special[8];

static inline const char *special_of(tok_id id)
{
    return id >= 0 && id < 8 ? fake_special[id] : NULL;
}

/* The tokens for filling in that the model has. */
static struct tok_infill fake_infill = {TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE, TOK_NONE};

struct chat_template {
    int unused;
};

/* To be called first by main(). */
static inline void fake_init(void)
{
    for (int i = 0; i < 256; i++)
        all_bytes[i] = (char)i;
    log_set_level(LOG_ERROR);
}

/* Bytes at the end of s[n] that begin a character and are not all of it. */
static inline uint32_t unfinished(const char *s, uint32_t n)
{
    for (uint32_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char c = (unsigned char)s[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        uint32_t bytes = c < 0xC0 || c >= 0xF8 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        return bytes > back ? back : 0;
    }
    return 0;
}

size_t tok_vocab(const struct tok *t)
{
    (void)t;
    return 256;
}

bool tok_is_eos(const struct tok *t, tok_id id)
{
    (void)t;
    return id == 0;
}

const tok_id *tok_eos(const struct tok *t, size_t *n)
{
    static const tok_id end = 0;
    (void)t;
    *n = 1;
    return &end;
}

const char *tok_bytes(const struct tok *t, tok_id id, size_t *n)
{
    const char *special = special_of(id);
    (void)t;
    *n = special ? strlen(special) : 1;
    return special ? special : &all_bytes[id];
}

bool tok_is_special(const struct tok *t, tok_id id)
{
    enum tok_kind kind = tok_kind_of(t, id);
    return kind == TOK_CONTROL || kind == TOK_UNKNOWN;
}

enum tok_kind tok_kind_of(const struct tok *t, tok_id id)
{
    (void)t;
    return id == 0 || special_of(id) ? TOK_CONTROL : TOK_NORMAL;
}

struct tok_stream {
    bool special;
};

enum status tok_stream_new(const struct tok *t, bool special, bool inner, struct tok_stream **out, struct err *e)
{
    (void)t;
    (void)inner;
    (void)e;
    *out = calloc(1, sizeof **out);
    (*out)->special = special;
    return ST_OK;
}

void tok_stream_free(struct tok_stream *s)
{
    free(s);
}

size_t tok_stream_put(struct tok_stream *s, tok_id id, char *out, size_t cap)
{
    size_t n;
    const char *text = tok_bytes(NULL, id, &n);
    if ((tok_is_special(NULL, id) && !s->special) || n > cap)
        return 0;
    memcpy(out, text, n);
    return n;
}

size_t tok_stream_more(struct tok_stream *s, char *out, size_t cap)
{
    (void)s;
    (void)out;
    (void)cap;
    return 0;
}

enum status tok_decode(const struct tok *t, const tok_id *ids, size_t count, bool special, char **text, size_t *n,
                       struct err *e)
{
    (void)t;
    (void)special;
    (void)e;
    *text = malloc(count + 1);
    for (size_t i = 0; i < count; i++)
        (*text)[i] = (char)ids[i];
    *n = count;
    return ST_OK;
}

void text_free(char *text, size_t n)
{
    (void)n;
    free(text);
}

/* The special token that s[n] begins with, of trusted text alone; otherwise its first byte. */
static inline tok_id first_id(const char *s, size_t n, unsigned flags)
{
    for (tok_id id = 0; id < 8 && flags & TOK_TRUSTED; id++)
        if (special_of(id) && strlen(special_of(id)) <= n && memcmp(s, special_of(id), strlen(special_of(id))) == 0)
            return id;
    return (unsigned char)*s;
}

static atomic_int encoder_nice; /* of the thread that rendered or encoded last */

static inline void note_nice(void)
{
    atomic_store(&encoder_nice, getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)));
}

enum status tok_encode(const struct tok *t, const char *text, size_t n, unsigned flags, tok_id **ids, size_t *count,
                       struct err *e)
{
    (void)t;
    (void)e;
    note_nice();
    *ids = calloc(n + 1, sizeof **ids);
    *count = 0;
    for (size_t i = 0, bytes = 0; i < n; i += bytes) {
        tok_id id = first_id(text + i, n - i, flags);
        (void)tok_bytes(t, id, &bytes);
        (*ids)[(*count)++] = id;
    }
    return ST_OK;
}

/* Those that a program names. */
tok_id tok_find_special(const struct tok *t, const char *text, size_t n)
{
    (void)t;
    for (tok_id id = 0; id < 8; id++)
        if (special_of(id) && strlen(special_of(id)) == n && memcmp(special_of(id), text, n) == 0)
            return id;
    return TOK_NONE;
}

void tok_ids_free(tok_id *ids, size_t count)
{
    (void)count;
    free(ids);
}

enum status chat_template_new(struct chat_template **out, const char *source, size_t n, struct err *e)
{
    (void)source;
    (void)n;
    (void)e;
    *out = calloc(1, sizeof **out);
    return ST_OK;
}

void chat_template_free(struct chat_template *c)
{
    free(c);
}

/* The prompt is the first message's content. */
enum status chat_template_render(const struct chat_template *c, const struct tok *t, const char *vars, size_t n,
                                 int64_t unix_time, struct text_rendering *out, struct err *e)
{
    (void)c;
    (void)t;
    (void)unix_time;
    note_nice();
    if (memmem(vars, n, "\"fuel\"", 6))
        return err_set(e, ST_TOO_LONG, "messages", "the chat template did not end within its limit of steps");
    json_t *v = json_loadb(vars, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    const json_t *text = json_object_get(json_array_get(json_object_get(v, "messages"), 0), "content");
    bool ok = json_is_string(text) && json_string_length(text);
    *out = (struct text_rendering){.n = ok ? json_string_length(text) : 1};
    out->text = malloc(out->n + 1);
    memcpy(out->text, ok ? json_string_value(text) : "?", out->n + 1);
    json_decref(v);
    return ST_OK;
}

void text_rendering_release(struct text_rendering *r)
{
    free(r->text);
}

enum status tok_encode_rendering(const struct tok *t, const struct text_rendering *r, tok_id **ids, size_t *count,
                                 struct err *e)
{
    return tok_encode(t, r->text, r->n, 0, ids, count, e);
}

const struct tok_infill *tok_infill(const struct tok *t)
{
    (void)t;
    return &fake_infill;
}

bool tok_adds_bos(const struct tok *t)
{
    (void)t;
    return false;
}

tok_id tok_bos(const struct tok *t)
{
    (void)t;
    return TOK_NONE;
}

tok_id tok_eos_main(const struct tok *t)
{
    (void)t;
    return 0;
}

#endif
