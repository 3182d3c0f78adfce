/*
 * anthropic_turns: a conversation of the Messages API in the shape that chat reads.
 *
 *     system, and messages of that role    messages of the system
 *     text                                 a part of the message's content
 *     tool_use of the assistant            tool_calls, their input as it was written
 *     thinking of the assistant            reasoning_content, which templates show or leave out
 *     redacted_thinking                    nothing: only who wrote it can read it
 *     tool_result of the user              a message of the tool; with is_error its text begins with "Error:"
 *     the assistant's text at the end      what the reply begins with; it is no message
 *
 * Texts and inputs are the client's own bytes. Every block is checked here, so that errors name its place in the client's
 * request and not in the translation.
 */
#include <stdio.h>
#include <string.h>

#include "server/dialect/anthropic.h"
#include "server/http/json_in.h"

struct turns {
    struct buf *out, *begun;
    struct err *e;
    char place[ERR_FIELD]; /* of what is being read */
    bool some;             /* messages were written */
    bool open;             /* the last one is the user's, whose content may go on */
};

enum block { BLOCK_TEXT, BLOCK_THINKING, BLOCK_REDACTED, BLOCK_CALL, BLOCK_RESULT };
#define USERS (1u << BLOCK_TEXT | 1u << BLOCK_RESULT)
#define ASSISTANTS (1u << BLOCK_TEXT | 1u << BLOCK_THINKING | 1u << BLOCK_REDACTED | 1u << BLOCK_CALL)

static const char *const names[] = {"text", "thinking", "redacted_thinking", "tool_use", "tool_result"};

static void put(struct turns *t, struct cut v)
{
    buf_add(t->out, v.s, v.n);
}

static bool absent(struct cut v)
{
    return chat_cut_kind_of(v) == CUT_NONE || chat_cut_kind_of(v) == CUT_NULL;
}

static enum status wrong_kind(struct turns *t, const char *member, const char *want, struct cut v)
{
    return err_set(t->e, ST_ARGUMENT, t->place, "%s%s%s must be %s, not %s", t->place, member[0] ? "." : "", member, want,
                   chat_cut_kind_name(v));
}

/* A member that must be a string; t->place is the object's. */
static enum status string_member(struct turns *t, struct cut object, const char *name, struct cut *v)
{
    *v = chat_cut_member(object, name);
    return chat_cut_kind_of(*v) == CUT_STRING ? ST_OK : wrong_kind(t, name, "a string", *v);
}

/* Which of the `allowed` kinds a block is. */
static enum status block_kind(struct turns *t, struct cut block, unsigned allowed, enum block *kind)
{
    struct cut type;
    if (chat_cut_kind_of(block) != CUT_OBJECT)
        return wrong_kind(t, "", "an object", block);
    TRY(string_member(t, block, "type", &type));
    for (unsigned k = 0; k < sizeof names / sizeof *names; k++)
        if (allowed >> k & 1 && chat_cut_is(type, names[k])) {
            *kind = (enum block)k;
            return ST_OK;
        }
    return err_set(t->e, ST_UNSUPPORTED, t->place, "%s has type %.*s, which is not supported here", t->place,
                   (int)(type.n < 40 ? type.n : 40), type.s);
}

/* ---- text ---- */

static void put_part(struct turns *t, struct cut text, bool first)
{
    buf_adds(t->out, first ? "{\"type\":\"text\",\"text\":" : ",{\"type\":\"text\",\"text\":");
    put(t, text);
    buf_adds(t->out, "}");
}

/* A string, or blocks of text alone, as a list of parts, of which `some` are there already. t->place is that of v. */
static enum status put_parts(struct turns *t, struct cut v, bool some)
{
    char place[ERR_FIELD];
    struct cut key, block, text;
    uint32_t i = 0;
    if (chat_cut_kind_of(v) == CUT_STRING) {
        put_part(t, v, !some);
        return ST_OK;
    }
    if (chat_cut_kind_of(v) != CUT_ARRAY)
        return wrong_kind(t, "", "a string or a list of blocks", v);
    memcpy(place, t->place, sizeof place);
    for (struct cut_iter it = chat_cut_open(v); chat_cut_next(&it, &key, &block); i++) {
        enum block kind;
        snprintf(t->place, sizeof t->place, "%.48s[%u]", place, i);
        TRY(block_kind(t, block, 1u << BLOCK_TEXT, &kind));
        TRY(string_member(t, block, "text", &text));
        put_part(t, text, !some && i == 0);
    }
    return ST_OK;
}

static void close_user(struct turns *t)
{
    buf_adds(t->out, t->open ? "]}" : "");
    t->open = false;
}

static void open_message(struct turns *t, const char *role)
{
    close_user(t);
    buf_addf(t->out, "%s{\"role\":\"%s\"", t->some ? "," : "", role);
    t->some = true;
}

/* t->place is that of the text or blocks. */
static enum status put_system(struct turns *t, struct cut system)
{
    open_message(t, "system");
    buf_adds(t->out, ",\"content\":[");
    TRY(put_parts(t, system, false));
    buf_adds(t->out, "]}");
    return ST_OK;
}

/* ---- the user's turns ---- */

static enum status put_result(struct turns *t, struct cut block)
{
    struct cut id, content = chat_cut_member(block, "content"), failed = chat_cut_member(block, "is_error");
    TRY(string_member(t, block, "tool_use_id", &id));
    if (!absent(failed) && chat_cut_kind_of(failed) != CUT_BOOL)
        return wrong_kind(t, "is_error", "a boolean", failed);
    bool error = !absent(failed) && failed.s[0] == 't';
    open_message(t, "tool");
    buf_adds(t->out, ",\"tool_call_id\":");
    put(t, id);
    buf_adds(t->out, ",\"content\":[");
    if (error)
        put_part(t, chat_cut_text("\"Error:\"", 8), true);
    if (!absent(content)) {
        size_t n = strlen(t->place);
        snprintf(t->place + n, sizeof t->place - n, ".content");
        TRY(put_parts(t, content, error));
    }
    buf_adds(t->out, "]}");
    return ST_OK;
}

static void put_user_text(struct turns *t, struct cut text)
{
    bool more = t->open;
    if (!more) {
        open_message(t, "user");
        buf_adds(t->out, ",\"content\":[");
    }
    t->open = true;
    put_part(t, text, !more);
}

/* Texts in a row are one message, also those of several turns; each result is one of its own. */
static enum status put_user(struct turns *t, struct cut content, uint32_t message)
{
    struct cut key, block, text;
    uint32_t i = 0;
    if (chat_cut_kind_of(content) == CUT_STRING)
        put_user_text(t, content);
    for (struct cut_iter it = chat_cut_open(content); chat_cut_next(&it, &key, &block); i++) {
        enum block kind;
        snprintf(t->place, sizeof t->place, "messages[%u].content[%u]", message, i);
        TRY(block_kind(t, block, USERS, &kind));
        if (kind == BLOCK_RESULT) {
            TRY(put_result(t, block));
        } else {
            TRY(string_member(t, block, "text", &text));
            put_user_text(t, text);
        }
    }
    return ST_OK;
}

/* ---- the assistant's ---- */

static enum status put_call(struct turns *t, struct cut block, bool first)
{
    struct cut id, name, input = chat_cut_member(block, "input");
    TRY(string_member(t, block, "id", &id));
    TRY(string_member(t, block, "name", &name));
    if (chat_cut_kind_of(input) != CUT_OBJECT)
        return wrong_kind(t, "input", "an object", input);
    buf_adds(t->out, first ? "{\"id\":" : ",{\"id\":");
    put(t, id);
    buf_adds(t->out, ",\"type\":\"function\",\"function\":{\"name\":");
    put(t, name);
    buf_adds(t->out, ",\"arguments\":");
    put(t, input);
    buf_adds(t->out, "}}");
    return ST_OK;
}

/* Joins what stands between the quotes of the thoughts: no escape is touched. */
static enum status put_thought(struct turns *t, struct cut block, bool first)
{
    struct cut text;
    TRY(string_member(t, block, "thinking", &text));
    buf_adds(t->out, first ? "" : "\\n");
    buf_add(t->out, text.s + 1, text.n - 2);
    return ST_OK;
}

/* The blocks of one kind, as a member of the message, which is left out when there are none. */
static enum status put_blocks(struct turns *t, struct cut blocks, uint32_t message, enum block kind, const char *before,
                              const char *after)
{
    struct cut key, block, text;
    bool first = true;
    uint32_t i = 0;
    for (struct cut_iter it = chat_cut_open(blocks); chat_cut_next(&it, &key, &block); i++) {
        enum block is;
        snprintf(t->place, sizeof t->place, "messages[%u].content[%u]", message, i);
        TRY(block_kind(t, block, ASSISTANTS, &is));
        if (is != kind)
            continue;
        buf_adds(t->out, first ? before : "");
        if (kind == BLOCK_TEXT) {
            TRY(string_member(t, block, "text", &text));
            put_part(t, text, first);
        } else {
            TRY(kind == BLOCK_CALL ? put_call(t, block, first) : put_thought(t, block, first));
        }
        first = false;
    }
    buf_adds(t->out, first ? "" : after);
    return ST_OK;
}

static enum status put_assistant(struct turns *t, struct cut content, uint32_t message)
{
    open_message(t, "assistant");
    if (chat_cut_kind_of(content) == CUT_STRING) {
        buf_adds(t->out, ",\"content\":");
        put(t, content);
    }
    TRY(put_blocks(t, content, message, BLOCK_TEXT, ",\"content\":[", "]"));
    TRY(put_blocks(t, content, message, BLOCK_THINKING, ",\"reasoning_content\":\"", "\""));
    TRY(put_blocks(t, content, message, BLOCK_CALL, ",\"tool_calls\":[", "]"));
    buf_adds(t->out, "}");
    return ST_OK;
}

/* ---- what the reply begins with ---- */

static enum status begin_reply(struct turns *t, struct cut content, uint32_t message)
{
    struct cut key, block, text;
    uint32_t i = 0;
    if (chat_cut_kind_of(content) == CUT_STRING)
        chat_cut_unescape(content, t->begun);
    for (struct cut_iter it = chat_cut_open(content); chat_cut_next(&it, &key, &block); i++) {
        enum block kind;
        snprintf(t->place, sizeof t->place, "messages[%u].content[%u]", message, i);
        TRY(block_kind(t, block, ASSISTANTS, &kind));
        if (kind != BLOCK_TEXT)
            return err_set(t->e, ST_ARGUMENT, t->place, "%s is %s, but the last message can only begin the reply's text",
                           t->place, names[kind]);
        TRY(string_member(t, block, "text", &text));
        buf_adds(t->begun, i ? "\n" : "");
        chat_cut_unescape(text, t->begun);
    }
    if (t->begun->len && memchr(" \t\r\n", t->begun->data[t->begun->len - 1], 4))
        return err_set(t->e, ST_ARGUMENT, t->place, "%s: the beginning of a reply cannot end with white space", t->place);
    return ST_OK;
}

/* ---- all of it ---- */

static enum status put_message(struct turns *t, struct cut message, uint32_t i, bool last)
{
    struct cut role, content;
    snprintf(t->place, sizeof t->place, "messages[%u]", i);
    if (chat_cut_kind_of(message) != CUT_OBJECT)
        return wrong_kind(t, "", "an object", message);
    TRY(string_member(t, message, "role", &role));
    bool user = chat_cut_is(role, "user"), system = chat_cut_is(role, "system");
    if (!user && !system && !chat_cut_is(role, "assistant"))
        return err_set(t->e, ST_ARGUMENT, t->place, "%s.role must be user, assistant or system, not %.*s", t->place,
                       (int)(role.n < 40 ? role.n : 40), role.s);
    content = chat_cut_member(message, "content");
    struct cut_iter it = chat_cut_open(content);
    struct cut key, block;
    if (chat_cut_kind_of(content) != CUT_STRING && chat_cut_kind_of(content) != CUT_ARRAY)
        return wrong_kind(t, "content", "a string or a list of blocks", content);
    if (chat_cut_kind_of(content) == CUT_ARRAY && !chat_cut_next(&it, &key, &block))
        return err_set(t->e, ST_ARGUMENT, t->place, "%s.content is empty", t->place);
    snprintf(t->place, sizeof t->place, "messages[%u].content", i);
    if (user)
        return put_user(t, content, i);
    return system ? put_system(t, content) : last ? begin_reply(t, content, i) : put_assistant(t, content, i);
}

static enum status put_messages(struct turns *t, struct cut messages)
{
    struct cut key, message, next;
    struct cut_iter it = chat_cut_open(messages);
    bool more = chat_cut_next(&it, &key, &message);
    if (chat_cut_kind_of(messages) != CUT_ARRAY)
        return err_set(t->e, ST_ARGUMENT, "messages", "messages must be an array, not %s", chat_cut_kind_name(messages));
    if (!more)
        return err_set(t->e, ST_ARGUMENT, "messages", "messages is empty; at least one message was expected");
    for (uint32_t i = 0; more; i++, message = next) {
        if (i >= LIMIT_MESSAGES)
            return err_set(t->e, ST_TOO_LONG, "messages", "messages has more than %u entries", LIMIT_MESSAGES);
        more = chat_cut_next(&it, &key, &next);
        TRY(put_message(t, message, i, !more));
    }
    return ST_OK;
}

enum status anthropic_translate(const struct anthropic_request *rq, struct text_view body, struct buf *out,
                                struct buf *begun, struct err *e)
{
    struct turns t = {.out = out, .begun = begun, .e = e};
    const struct cut root = chat_cut_text(body.data, body.n), system = chat_cut_member(root, "system");
    buf_adds(out, "{\"messages\":[");
    snprintf(t.place, sizeof t.place, "system");
    if (!absent(system))
        TRY(put_system(&t, system));
    TRY(put_messages(&t, chat_cut_member(root, "messages")));
    close_user(&t);
    buf_adds(out, "]");
    if (!t.some)
        return err_set(e, ST_ARGUMENT, "messages", "messages has nothing but the beginning of a reply");
    if (rq->tools && !rq->hidden) {
        buf_adds(out, ",\"tools\":");
        anthropic_write_tools(body, out);
    }
    /* The two names under which templates let thinking be switched. */
    const char *on = rq->thinking >= THINKING_FREE ? "true" : "false";
    buf_addf(out, ",\"chat_template_kwargs\":{\"enable_thinking\":%s,\"thinking\":%s}}", on, on);
    return out->failed || begun->failed ? err_set(e, ST_TOO_LONG, "messages", "the conversation is too large") : ST_OK;
}

/* ---- names of earlier replies ---- */

static void name_block(const json_t *block, struct reply_job *job)
{
    static const char *const members[] = {"signature", "id", "tool_use_id"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *v = json_object_get(block, members[i]);
        if (json_is_string(v))
            server_look_up(job, (struct server_name){json_string_value(v), json_string_length(v)});
    }
}

void anthropic_name_messages(const json_t *root, struct reply_job *job)
{
    const json_t *messages = http_get(root, "messages");
    for (size_t i = json_array_size(messages); i-- > 0 && job->lookups_n < LIMIT_REPLAY_LOOKUPS;) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        for (size_t k = 0; k < json_array_size(content) && job->lookups_n < LIMIT_REPLAY_LOOKUPS; k++)
            name_block(json_array_get(content, k), job);
    }
}
