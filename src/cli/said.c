/* said: see said.h. */
#include "cli/said.h"

#include "cli/cli.h"
#include "cli/paint.h"

enum status said_init(struct said *s, const struct tok *tok, struct chat_tools_cache *formats, const char *request,
                      size_t n, const tok_id *prompt, size_t prompt_n, struct err *e)
{
    const struct chat_tools_options o = {.no_calls = true, .no_rows = true};
    struct chat_tools t;
    *s = (struct said){0};
    buf_init(&s->answer, CLI_LIMIT_TEXT);
    buf_init(&s->reasoning, CLI_LIMIT_TEXT);
    TRY(chat_tools_get(formats, request, n, &o, prompt, prompt_n, &t, e));
    const struct chat_assembly_config c = {.tok = tok,
                                           .recognise = {.reasoning = t.reasoning, .in_reasoning = t.in_reasoning}};
    chat_tools_release(&t);
    if (!c.recognise.reasoning)
        return ST_OK;
    s->keeps_special = chat_reads_special(&c.recognise);
    return chat_assembly_new(&s->assembly, &c, e);
}

void said_release(struct said *s)
{
    chat_assembly_free(s->assembly);
    buf_release(&s->answer);
    buf_release(&s->reasoning);
    s->assembly = NULL;
}

static void take_piece(void *user, const struct chat_piece *piece)
{
    struct said *s = user;
    if (piece->kind == CHAT_REASONING) {
        buf_add(&s->reasoning, piece->text, piece->n);
        paint_aside(piece->text, piece->n);
    } else if (piece->kind == CHAT_CONTENT) {
        buf_add(&s->answer, piece->text, piece->n);
        paint_write(s->origin, piece->text, piece->n);
    }
}

static void take_event(void *user, const struct event *ev)
{
    struct said *s = user;
    const struct chat_piece all = {CHAT_CONTENT, ev->text, ev->text_n, 0};
    s->origin = ev->origin;
    if (!s->assembly && ev->text_n)
        take_piece(s, &all);
    if (s->assembly)
        chat_assembly_put(s->assembly, ev->kind == EVENT_TOKEN ? ev->id : -1, ev->text, ev->text_n, take_piece, s);
    if (s->assembly && ev->kind == EVENT_END)
        chat_assembly_end(s->assembly, take_piece, s);
}

void said_listen(struct said *s, struct reply_options *how)
{
    how->keep_special = s->keeps_special;
    how->listen = take_event;
    how->listener = s;
}

bool said_nothing(const struct said *s)
{
    return s->answer.len == 0 && s->reasoning.len == 0;
}

json_t *said_message(const struct said *s)
{
    if (s->answer.failed || s->reasoning.failed)
        return NULL;
    json_t *m = json_pack("{s:s, s:s%}", "role", "assistant", "content", s->answer.data ? s->answer.data : "",
                          s->answer.len);
    if (m && s->reasoning.len)
        json_object_set_new(m, "reasoning_content", json_stringn(s->reasoning.data, s->reasoning.len));
    return m;
}
