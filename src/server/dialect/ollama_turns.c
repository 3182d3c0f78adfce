/*
 * ollama_turns: a conversation of Ollama's API in the shape that chat reads.
 *
 *     thinking of the assistant          reasoning_content, which templates show or leave out
 *     tool_calls                         the same, of type "function"; an id is made up where there is none
 *     tool_name                          name
 *     a tool's result without an id      gets that of the first call before it that has no result yet
 *     the assistant's text at the end    what the reply begins with; it is no message
 *     system and prompt of /api/generate two messages
 *
 * Texts, arguments and tools are the client's own bytes. Messages keep their places, so that what chat finds wrong with
 * one is named as the client knows it. Ids that are made up count calls: the same conversation always has the same.
 */
#include <stdio.h>
#include <string.h>

#include "server/dialect/ollama.h"

#define MOST_OPEN 64u /* calls of one message whose results find them without an id */

struct open_call {
    struct cut id;   /* as the client gave it, or none */
    uint32_t number; /* what its id is made of then */
    bool answered;
};

struct turns {
    struct buf *out, *begun;
    struct err *e;
    char place[ERR_FIELD];  /* of the message that is being read */
    uint32_t calls;         /* so far */
    struct open_call open[MOST_OPEN]; /* the calls of the last message that had any, */
    uint32_t open_n;                  /* and how many they are */
};

static bool absent(struct cut v)
{
    return chat_cut_kind_of(v) == CUT_NONE || chat_cut_kind_of(v) == CUT_NULL;
}

static enum status wrong_kind(struct turns *t, const char *member, const char *want, struct cut v)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "%.40s%s%s", t->place, member[0] ? "." : "", member);
    return err_set(t->e, ST_ARGUMENT, field, "%s must be %s, not %s", field, want, chat_cut_kind_name(v));
}

/* A string of the message, under another name, if it is there. */
static enum status put_string(struct turns *t, struct cut message, const char *from, const char *to)
{
    struct cut v = chat_cut_member(message, from);
    if (absent(v))
        return ST_OK;
    if (chat_cut_kind_of(v) != CUT_STRING)
        return wrong_kind(t, from, "a string", v);
    buf_addf(t->out, ",\"%s\":", to);
    buf_add(t->out, v.s, v.n);
    return ST_OK;
}

static bool is_id(struct cut id)
{
    return chat_cut_kind_of(id) == CUT_STRING && id.n > 2;
}

/* `id` if that is one, otherwise one made of a number: nine letters and digits, as some templates insist. */
static void put_id(struct turns *t, struct cut id, uint32_t number)
{
    if (is_id(id))
        buf_add(t->out, id.s, id.n);
    else
        buf_addf(t->out, "\"call%05u\"", number);
}

static void put_call_id(struct turns *t, struct cut id)
{
    const struct open_call call = {.id = id, .number = t->calls++};
    if (t->open_n < MOST_OPEN)
        t->open[t->open_n++] = call;
    put_id(t, id, call.number);
}

/* The call of that id, or without one the first that has no result yet; NULL: there is none. */
static struct open_call *find_call(struct turns *t, struct cut id)
{
    for (uint32_t i = 0; i < t->open_n; i++) {
        struct open_call *call = &t->open[i];
        const bool same = is_id(call->id) && call->id.n == id.n && memcmp(call->id.s, id.s, id.n) == 0;
        if (is_id(id) ? same : !call->answered)
            return call;
    }
    return NULL;
}

/* A result that answers no call has an id that no other has. */
static void put_result_id(struct turns *t, struct cut id)
{
    struct open_call *call = find_call(t, id);
    if (call)
        call->answered = true;
    if (call && !is_id(id))
        put_id(t, call->id, call->number);
    else
        put_id(t, id, is_id(id) ? 0 : t->calls++);
}

static enum status put_call(struct turns *t, struct cut call, bool first)
{
    const struct cut function = chat_cut_member(call, "function"), name = chat_cut_member(function, "name");
    const struct cut arguments = chat_cut_member(function, "arguments");
    if (chat_cut_kind_of(function) != CUT_OBJECT)
        return wrong_kind(t, "tool_calls", "calls of functions", call);
    if (chat_cut_kind_of(name) != CUT_STRING)
        return wrong_kind(t, "tool_calls", "calls whose function.name is a string", name);
    if (!absent(arguments) && chat_cut_kind_of(arguments) != CUT_OBJECT)
        return wrong_kind(t, "tool_calls", "calls whose function.arguments is an object", arguments);
    buf_adds(t->out, first ? "{\"id\":" : ",{\"id\":");
    put_call_id(t, chat_cut_member(call, "id"));
    buf_adds(t->out, ",\"type\":\"function\",\"function\":{\"name\":");
    buf_add(t->out, name.s, name.n);
    buf_adds(t->out, ",\"arguments\":");
    if (absent(arguments))
        buf_adds(t->out, "{}");
    else
        buf_add(t->out, arguments.s, arguments.n);
    buf_adds(t->out, "}}");
    return ST_OK;
}

static enum status put_calls(struct turns *t, struct cut message)
{
    struct cut calls = chat_cut_member(message, "tool_calls"), key, call;
    bool first = true;
    if (!absent(calls) && chat_cut_kind_of(calls) != CUT_ARRAY)
        return wrong_kind(t, "tool_calls", "an array", calls);
    for (struct cut_iter it = chat_cut_open(calls); chat_cut_next(&it, &key, &call); first = false) {
        buf_adds(t->out, first ? ",\"tool_calls\":[" : "");
        t->open_n = first ? 0 : t->open_n;
        TRY(put_call(t, call, first));
    }
    buf_adds(t->out, first ? "" : "]");
    return ST_OK;
}

static enum status check_images(struct turns *t, struct cut message)
{
    struct cut images = chat_cut_member(message, "images"), key, one;
    struct cut_iter it = chat_cut_open(images);
    char field[ERR_FIELD];
    if (absent(images) || (chat_cut_kind_of(images) == CUT_ARRAY && !chat_cut_next(&it, &key, &one)))
        return ST_OK;
    snprintf(field, sizeof field, "%.40s.images", t->place);
    return err_set(t->e, ST_UNSUPPORTED, field, "%s: this model reads no images", field);
}

static enum status put_message(struct turns *t, struct cut message)
{
    struct cut role = chat_cut_member(message, "role"), content = chat_cut_member(message, "content");
    const bool tool = chat_cut_is(role, "tool");
    if (chat_cut_kind_of(role) != CUT_STRING)
        return wrong_kind(t, "role", "a string", role);
    buf_adds(t->out, "{\"role\":");
    buf_add(t->out, role.s, role.n);
    buf_adds(t->out, ",\"content\":");
    if (absent(content))
        buf_adds(t->out, "null");
    else
        buf_add(t->out, content.s, content.n);
    TRY(put_string(t, message, "thinking", "reasoning_content"));
    TRY(put_string(t, message, "tool_name", "name"));
    if (tool) {
        buf_adds(t->out, ",\"tool_call_id\":");
        put_result_id(t, chat_cut_member(message, "tool_call_id"));
    }
    TRY(put_calls(t, message));
    buf_adds(t->out, "}");
    return ST_OK;
}

/* The last message, which is the assistant's. */
static enum status begin_reply(struct turns *t, struct cut message)
{
    struct cut content = chat_cut_member(message, "content");
    if (!absent(chat_cut_member(message, "tool_calls")) || !absent(chat_cut_member(message, "thinking")))
        return err_set(t->e, ST_ARGUMENT, t->place, "%s: the last message can only begin the reply's text", t->place);
    if (chat_cut_kind_of(content) != CUT_STRING)
        return wrong_kind(t, "content", "a string", content);
    chat_cut_unescape(content, t->begun);
    return ST_OK;
}

static enum status put_messages(struct turns *t, struct cut messages)
{
    struct cut key, message, next;
    struct cut_iter it = chat_cut_open(messages);
    bool more = chat_cut_next(&it, &key, &message);
    for (uint32_t i = 0; more; i++, message = next) {
        more = chat_cut_next(&it, &key, &next);
        snprintf(t->place, sizeof t->place, "messages[%u]", i);
        if (i >= LIMIT_MESSAGES)
            return err_set(t->e, ST_TOO_LONG, "messages", "messages has more than %u entries", LIMIT_MESSAGES);
        if (chat_cut_kind_of(message) != CUT_OBJECT)
            return wrong_kind(t, "", "an object", message);
        TRY(check_images(t, message));
        if (!more && i && chat_cut_is(chat_cut_member(message, "role"), "assistant"))
            return begin_reply(t, message);
        buf_adds(t->out, i ? "," : "");
        TRY(put_message(t, message));
    }
    return ST_OK;
}

static void put_prompt(struct turns *t, struct cut root)
{
    struct cut system = chat_cut_member(root, "system"), prompt = chat_cut_member(root, "prompt");
    if (chat_cut_kind_of(system) == CUT_STRING && system.n > 2) {
        buf_adds(t->out, "{\"role\":\"system\",\"content\":");
        buf_add(t->out, system.s, system.n);
        buf_adds(t->out, "},");
    }
    buf_adds(t->out, "{\"role\":\"user\",\"content\":");
    buf_add(t->out, prompt.s, prompt.n);
    buf_adds(t->out, "}");
}

enum status ollama_translate(const struct ollama_request *rq, struct text_view body, struct buf *out, struct buf *begun,
                             struct err *e)
{
    struct turns t = {.out = out, .begun = begun, .e = e};
    const struct cut root = chat_cut_text(body.data, body.n), tools = chat_cut_member(root, "tools");
    buf_adds(out, "{\"messages\":[");
    if (rq->chat)
        TRY(put_messages(&t, chat_cut_member(root, "messages")));
    else
        put_prompt(&t, root);
    buf_adds(out, "]");
    if (rq->tools.n) {
        buf_adds(out, ",\"tools\":");
        buf_add(out, tools.s, tools.n);
    }
    /* The two names under which templates let thinking be switched, and that of how much there is of it. */
    const char *on = rq->thinking == OLLAMA_ON ? "true" : "false";
    if (rq->thinking != OLLAMA_UNSAID)
        buf_addf(out, ",\"chat_template_kwargs\":{\"enable_thinking\":%s,\"thinking\":%s", on, on);
    if (rq->level)
        buf_addf(out, ",\"reasoning_effort\":\"%s\"", rq->level);
    buf_adds(out, rq->thinking != OLLAMA_UNSAID ? "}}" : "}");
    return out->failed || begun->failed ? err_set(e, ST_TOO_LONG, "messages", "the conversation is too large") : ST_OK;
}
