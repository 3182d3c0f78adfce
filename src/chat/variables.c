/*
 * variables: a request's messages and tools, as the template is to see them.
 *
 * Works on pieces of the client's own bytes (cut.h) and writes them out again in the same order; only what chat.h lists
 * is written differently. Also the place where a conversation is checked, so that every dialect refuses the same things.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "chat/chat.h"
#include "chat/cut.h"
#include "chat/private.h"

struct writer {
    const struct chat *c;
    struct buf *out;
    struct err *e;
    uint32_t message;     /* index of the one being written */
    size_t arguments_left; /* of CHAT_LIMIT_ARGUMENTS */
    struct buf *told;      /* what the system has still to say of tools; NULL = nothing */
};

enum role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_COUNT };
static const char *const role_names[ROLE_COUNT] = {"system", "developer", "user", "assistant", "tool"};

static void put(struct writer *w, struct cut v)
{
    buf_add(w->out, v.s, v.n);
}

static void put_key(struct writer *w, struct cut key, bool *first)
{
    if (!*first)
        buf_adds(w->out, ",");
    *first = false;
    put(w, key);
    buf_adds(w->out, ":");
}

static enum status malformed(struct writer *w, const char *field)
{
    return err_set(w->e, ST_ARGUMENT, field, "%s is not valid JSON", field);
}

/* ---- content ---- */

/* The string of one content part, or an error that names the part. */
static enum status part_text(struct writer *w, uint32_t index, struct cut part, struct cut *text)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "messages[%u].content[%u]", w->message, index);
    if (chat_cut_kind_of(part) != CUT_OBJECT)
        return err_set(w->e, ST_ARGUMENT, field, "%s must be an object, not %s", field, chat_cut_kind_name(part));
    struct cut type = chat_cut_member(part, "type");
    const char *member = chat_cut_is(type, "refusal") ? "refusal" : "text";
    if (chat_cut_kind_of(type) != CUT_STRING)
        return err_set(w->e, ST_ARGUMENT, field, "%s.type must be a string, not %s", field, chat_cut_kind_name(type));
    if (!chat_cut_is(type, member))
        return err_set(w->e, ST_UNSUPPORTED, field, "%s has type %.*s; only \"text\" is supported", field,
                       (int)(type.n < 40 ? type.n : 40), type.s);
    *text = chat_cut_member(part, member);
    if (chat_cut_kind_of(*text) != CUT_STRING)
        return err_set(w->e, ST_ARGUMENT, field, "%s.%s must be a string, not %s", field, member,
                       chat_cut_kind_name(*text));
    return ST_OK;
}

/* Parts become one string by joining what stands between their quotes: no escape is touched, so no byte can change. */
static enum status put_parts(struct writer *w, struct cut list)
{
    struct cut key, part, text;
    uint32_t index = 0;
    struct cut_iter it = chat_cut_open(list);
    buf_adds(w->out, w->c->typed_content ? "[" : "\"");
    for (; chat_cut_next(&it, &key, &part); index++) {
        TRY(part_text(w, index, part, &text));
        if (w->c->typed_content) {
            buf_adds(w->out, index ? ",{\"type\":\"text\",\"text\":" : "{\"type\":\"text\",\"text\":");
            put(w, text);
            buf_adds(w->out, "}");
            continue;
        }
        if (index)
            buf_adds(w->out, "\\n");
        buf_add(w->out, text.s + 1, text.n - 2);
    }
    buf_adds(w->out, w->c->typed_content ? "]" : "\"");
    return it.bad ? malformed(w, "messages") : ST_OK;
}

static enum status put_content(struct writer *w, enum role role, struct cut v)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "messages[%u].content", w->message);
    switch (chat_cut_kind_of(v)) {
    case CUT_STRING:
        if (w->c->typed_content)
            buf_adds(w->out, "[{\"type\":\"text\",\"text\":");
        put(w, v);
        if (w->c->typed_content)
            buf_adds(w->out, "}]");
        return ST_OK;
    case CUT_ARRAY:
        return put_parts(w, v);
    case CUT_NONE:
    case CUT_NULL:
        /* Only an assistant may have said nothing (it called tools); many templates would print a null as "None". */
        if (role == ROLE_ASSISTANT) {
            buf_adds(w->out, w->c->typed_content ? "[]" : "\"\"");
            return ST_OK;
        }
        return err_set(w->e, ST_ARGUMENT, field, "%s is missing", field);
    default:
        return err_set(w->e, ST_ARGUMENT, field, "%s must be a string or a list of parts, not %s", field,
                       chat_cut_kind_name(v));
    }
}

/* ---- tool calls ---- */

static bool is_json_object(const struct buf *b)
{
    if (!b->len || chat_cut_depth(b->data, b->len) > CHAT_LIMIT_ARGUMENTS_DEPTH)
        return false;
    json_t *v = json_loadb(b->data, b->len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    bool object = json_is_object(v);
    json_decref(v);
    return object;
}

/* The protocol carries arguments as a string of JSON, templates expect the object itself. What is not an object (a model
 * may have broken off) stays a string: opaque text that some templates print as it is. */
static enum status put_arguments(struct writer *w, struct cut v)
{
    struct buf text;
    if (chat_cut_kind_of(v) != CUT_STRING) {
        put(w, v);
        return ST_OK;
    }
    if (v.n > w->arguments_left) {
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "messages[%u].tool_calls", w->message);
        return err_set(w->e, ST_TOO_LONG, field, "the arguments of all tool calls together exceed %u bytes",
                       CHAT_LIMIT_ARGUMENTS);
    }
    w->arguments_left -= v.n;
    buf_init(&text, v.n);
    chat_cut_unescape(v, &text);
    if (!text.failed && is_json_object(&text))
        buf_add(w->out, text.data, text.len);
    else
        put(w, v);
    buf_release(&text);
    return ST_OK;
}

/* Appends a call as text to what w->out holds. */
static enum status tell_call(struct writer *w, struct cut call)
{
    struct cut function = chat_cut_member(call, "function"), name = chat_cut_member(function, "name");
    struct cut arguments = chat_cut_member(function, "arguments");
    struct buf text, *out = w->out;
    if (chat_cut_kind_of(name) != CUT_STRING) {
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "messages[%u].tool_calls", w->message);
        return err_set(w->e, ST_ARGUMENT, field, "%s: function.name must be a string, not %s", field,
                       chat_cut_kind_name(name));
    }
    buf_init(&text, CHAT_LIMIT_VARIABLES);
    w->out = &text;
    enum status st = chat_cut_kind_of(arguments) == CUT_NONE ? ST_OK : put_arguments(w, arguments);
    w->out = out;
    if (st == ST_OK)
        chat_tell_call(name, text.len ? text.data : "{}", text.len ? text.len : 2, out);
    out->failed = out->failed || text.failed;
    buf_release(&text);
    return st;
}

static enum status put_function(struct writer *w, struct cut function)
{
    struct cut key, value;
    bool first = true;
    struct cut_iter it = chat_cut_open(function);
    buf_adds(w->out, "{");
    while (chat_cut_next(&it, &key, &value)) {
        put_key(w, key, &first);
        if (chat_cut_is(key, "arguments"))
            TRY(put_arguments(w, value));
        else
            put(w, value);
    }
    buf_adds(w->out, "}");
    return it.bad ? malformed(w, "messages") : ST_OK;
}

static enum status put_call(struct writer *w, struct cut call)
{
    struct cut key, value;
    bool first = true;
    struct cut_iter it = chat_cut_open(call);
    buf_adds(w->out, "{");
    while (chat_cut_next(&it, &key, &value)) {
        put_key(w, key, &first);
        if (chat_cut_is(key, "function") && chat_cut_kind_of(value) == CUT_OBJECT)
            TRY(put_function(w, value));
        else
            put(w, value);
    }
    buf_adds(w->out, "}");
    return it.bad ? malformed(w, "messages") : ST_OK;
}

/* Writes an array of calls, or tells of them: then w->out holds text. */
static enum status put_calls(struct writer *w, struct cut calls)
{
    struct cut key, call;
    char field[ERR_FIELD];
    uint32_t index = 0;
    struct cut_iter it = chat_cut_open(calls);
    snprintf(field, sizeof field, "messages[%u].tool_calls", w->message);
    if (chat_cut_kind_of(calls) != CUT_ARRAY)
        return err_set(w->e, ST_ARGUMENT, field, "%s must be an array, not %s", field, chat_cut_kind_name(calls));
    bool tell = w->c->tells_tools;
    buf_adds(w->out, tell ? "" : "[");
    for (; chat_cut_next(&it, &key, &call); index++) {
        if (chat_cut_kind_of(call) != CUT_OBJECT)
            return err_set(w->e, ST_ARGUMENT, field, "%s[%u] must be an object, not %s", field, index,
                           chat_cut_kind_name(call));
        if (index && !tell)
            buf_adds(w->out, ",");
        TRY(tell ? tell_call(w, call) : put_call(w, call));
    }
    buf_adds(w->out, tell ? "" : "]");
    return it.bad ? malformed(w, "messages") : ST_OK;
}

/* ---- messages ---- */

static enum status message_role(struct writer *w, struct cut message, enum role *role)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "messages[%u].role", w->message);
    struct cut v = chat_cut_member(message, "role");
    if (chat_cut_kind_of(v) != CUT_STRING)
        return err_set(w->e, ST_ARGUMENT, field, "%s must be a string, not %s", field, chat_cut_kind_name(v));
    for (int i = 0; i < ROLE_COUNT; i++)
        if (chat_cut_is(v, role_names[i])) {
            *role = (enum role)i;
            return ST_OK;
        }
    return err_set(w->e, ST_ARGUMENT, field, "%s must be system, developer, user, assistant or tool, not %.*s", field,
                   (int)(v.n < 40 ? v.n : 40), v.s);
}

/* ---- messages of a template that knows no tools ---- */

/* The content, and behind it what the message has beside it: calls, or what the system says of tools. */
static enum status tell_content(struct writer *w, enum role role, struct cut content, struct cut calls)
{
    struct buf text, *out = w->out;
    buf_init(&text, CHAT_LIMIT_VARIABLES);
    w->out = &text;
    enum status st = role == ROLE_TOOL ? put_content(w, role, content) : ST_OK;
    if (st == ST_OK && role != ROLE_TOOL && chat_cut_kind_of(calls) != CUT_NONE && chat_cut_kind_of(calls) != CUT_NULL)
        st = put_calls(w, calls);
    w->out = out;
    if (st == ST_OK && role == ROLE_TOOL)
        chat_tell_result(out, &text);
    else if (st == ST_OK)
        st = put_content(w, role, content);
    if (st == ST_OK && role != ROLE_TOOL && (text.len || text.failed))
        chat_tell_append(out, "\\n", &text);
    buf_release(&text);
    if (st == ST_OK && w->told && (role == ROLE_SYSTEM || role == ROLE_DEVELOPER)) {
        chat_tell_append(out, "\\n\\n", w->told);
        w->told = NULL;
    }
    return st;
}

/* A message of the system before the first, where that is not the system's. */
static void tell_first(struct writer *w, enum role role)
{
    if (!w->told || role == ROLE_SYSTEM || role == ROLE_DEVELOPER)
        return;
    buf_adds(w->out, w->c->typed_content ? "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":"
                                         : "{\"role\":\"system\",\"content\":");
    chat_tell_string(w->out, w->told);
    buf_adds(w->out, w->c->typed_content ? "}]}," : "},");
    w->told = NULL;
}

static bool is_tool_part(struct cut key)
{
    return chat_cut_is(key, "content") || chat_cut_is(key, "tool_calls");
}

static enum status tell_message(struct writer *w, struct cut message)
{
    struct cut key, value;
    enum role role = ROLE_USER;
    TRY(message_role(w, message, &role));
    struct cut_iter it = chat_cut_open(message);
    const char *name = role == ROLE_TOOL                                    ? "user"
                       : role == ROLE_DEVELOPER && !w->c->knows_developer ? "system"
                                                                            : role_names[role];
    if (w->message == 0)
        tell_first(w, role);
    buf_addf(w->out, "{\"role\":\"%s\"", name);
    while (chat_cut_next(&it, &key, &value)) {
        bool first = false;
        if (is_tool_part(key) || chat_cut_is(key, "role"))
            continue;
        put_key(w, key, &first);
        put(w, value);
    }
    if (it.bad)
        return malformed(w, "messages");
    buf_adds(w->out, ",\"content\":");
    TRY(tell_content(w, role, chat_cut_member(message, "content"), chat_cut_member(message, "tool_calls")));
    buf_adds(w->out, "}");
    return ST_OK;
}

/* Whether the message has to do with tools: others are written as always. */
static bool has_tools(const struct writer *w, struct cut message)
{
    struct cut calls = chat_cut_member(message, "tool_calls");
    return w->told || chat_cut_is(chat_cut_member(message, "role"), "tool") ||
           (chat_cut_kind_of(calls) != CUT_NONE && chat_cut_kind_of(calls) != CUT_NULL);
}

static enum status put_message(struct writer *w, struct cut message)
{
    struct cut key, value;
    enum role role = ROLE_USER;
    bool first = true, content = false;
    if (chat_cut_kind_of(message) != CUT_OBJECT) {
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "messages[%u]", w->message);
        return err_set(w->e, ST_ARGUMENT, field, "%s must be an object, not %s", field, chat_cut_kind_name(message));
    }
    if (w->c->tells_tools && has_tools(w, message))
        return tell_message(w, message);
    TRY(message_role(w, message, &role));
    struct cut_iter it = chat_cut_open(message);
    buf_adds(w->out, "{");
    while (chat_cut_next(&it, &key, &value)) {
        put_key(w, key, &first);
        if (chat_cut_is(key, "role") && role == ROLE_DEVELOPER && !w->c->knows_developer) {
            buf_adds(w->out, "\"system\"");
        } else if (chat_cut_is(key, "content")) {
            content = true;
            TRY(put_content(w, role, value));
        } else if (chat_cut_is(key, "tool_calls") && chat_cut_kind_of(value) != CUT_NULL) {
            TRY(put_calls(w, value));
        } else {
            put(w, value);
        }
    }
    if (it.bad)
        return malformed(w, "messages");
    if (!content) {
        put_key(w, (struct cut){"\"content\"", 9}, &first);
        TRY(put_content(w, role, (struct cut){0}));
    }
    buf_adds(w->out, "}");
    return ST_OK;
}

static enum status put_messages(struct writer *w, struct cut messages)
{
    struct cut key, message;
    if (chat_cut_kind_of(messages) == CUT_NONE || chat_cut_kind_of(messages) == CUT_NULL)
        return err_set(w->e, ST_ARGUMENT, "messages", "messages is missing");
    if (chat_cut_kind_of(messages) != CUT_ARRAY)
        return err_set(w->e, ST_ARGUMENT, "messages", "messages must be an array, not %s", chat_cut_kind_name(messages));
    struct cut_iter it = chat_cut_open(messages);
    buf_adds(w->out, "\"messages\":[");
    for (w->message = 0; chat_cut_next(&it, &key, &message); w->message++) {
        if (w->message >= LIMIT_MESSAGES)
            return err_set(w->e, ST_TOO_LONG, "messages", "messages has more than %u entries", LIMIT_MESSAGES);
        if (w->message)
            buf_adds(w->out, ",");
        TRY(put_message(w, message));
    }
    if (it.bad)
        return malformed(w, "messages");
    if (!w->message)
        return err_set(w->e, ST_ARGUMENT, "messages", "messages is empty; at least one message was expected");
    buf_adds(w->out, "]");
    return ST_OK;
}

/* ---- tools and template variables ---- */

static enum status check_tool(struct writer *w, uint32_t index, struct cut tool)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "tools[%u]", index);
    if (chat_cut_kind_of(tool) != CUT_OBJECT)
        return err_set(w->e, ST_ARGUMENT, field, "%s must be an object, not %s", field, chat_cut_kind_name(tool));
    struct cut type = chat_cut_member(tool, "type");
    if (!chat_cut_is(type, "function"))
        return err_set(w->e, ST_UNSUPPORTED, field, "%s.type must be \"function\", the only kind of tool supported",
                       field);
    struct cut function = chat_cut_member(tool, "function");
    if (chat_cut_kind_of(function) != CUT_OBJECT)
        return err_set(w->e, ST_ARGUMENT, field, "%s.function must be an object, not %s", field,
                       chat_cut_kind_name(function));
    struct cut name = chat_cut_member(function, "name");
    if (chat_cut_kind_of(name) != CUT_STRING || name.n <= 2)
        return err_set(w->e, ST_ARGUMENT, field, "%s.function.name must be a string that is not empty", field);
    struct cut schema = chat_cut_member(function, "parameters");
    const enum cut_kind kind = chat_cut_kind_of(schema);
    if (kind == CUT_NONE || kind == CUT_NULL || kind == CUT_OBJECT || kind == CUT_BOOL)
        return ST_OK;
    snprintf(field, sizeof field, "tools[%u].function.parameters", index);
    return err_set(w->e, ST_ARGUMENT, field, "%s must be a JSON Schema, not %s", field, chat_cut_kind_name(schema));
}

static enum status check_tools(struct writer *w, struct cut tools, uint32_t *count)
{
    struct cut key, tool;
    *count = 0;
    if (chat_cut_kind_of(tools) == CUT_NONE || chat_cut_kind_of(tools) == CUT_NULL)
        return ST_OK;
    if (chat_cut_kind_of(tools) != CUT_ARRAY)
        return err_set(w->e, ST_ARGUMENT, "tools", "tools must be an array, not %s", chat_cut_kind_name(tools));
    struct cut_iter it = chat_cut_open(tools);
    for (; chat_cut_next(&it, &key, &tool); ++*count)
        TRY(check_tool(w, *count, tool));
    return it.bad ? malformed(w, "tools") : ST_OK;
}

static enum status put_tools(struct writer *w, struct cut tools)
{
    uint32_t count;
    TRY(check_tools(w, tools, &count));
    if (!count || w->c->tells_tools)
        return ST_OK;
    /* Tools that the model never gets to see would be silently ignored. */
    if (!w->c->knows_tools)
        return err_set(w->e, ST_UNSUPPORTED, "tools", "this model's chat template cannot show tools to the model");
    buf_adds(w->out, ",\"tools\":");
    put(w, tools);
    return ST_OK;
}

/* The messages, with what the system says of the tools among them. */
static enum status tell_messages(struct writer *w, struct cut messages, struct cut tools)
{
    struct buf told;
    uint32_t count;
    TRY(check_tools(w, tools, &count));
    buf_init(&told, CHAT_LIMIT_VARIABLES);
    if (count) {
        chat_tell_tools(tools, &told);
        w->told = &told;
    }
    enum status st = put_messages(w, messages);
    w->told = NULL;
    buf_release(&told);
    return st;
}

static enum status put_kwargs(struct writer *w, struct cut kwargs, bool *generation)
{
    const char *const field = "chat_template_kwargs";
    struct cut key, value;
    if (chat_cut_kind_of(kwargs) == CUT_NONE || chat_cut_kind_of(kwargs) == CUT_NULL)
        return ST_OK;
    if (chat_cut_kind_of(kwargs) != CUT_OBJECT)
        return err_set(w->e, ST_ARGUMENT, field, "%s must be an object, not %s", field, chat_cut_kind_name(kwargs));
    struct cut_iter it = chat_cut_open(kwargs);
    while (chat_cut_next(&it, &key, &value)) {
        if (chat_cut_is(key, "messages") || chat_cut_is(key, "tools"))
            return err_set(w->e, ST_ARGUMENT, field, "%s may not set %.*s", field, (int)key.n, key.s);
        if (chat_cut_is(key, "add_generation_prompt"))
            *generation = false;
        buf_adds(w->out, ",");
        put(w, key);
        buf_adds(w->out, ":");
        put(w, value);
    }
    return it.bad ? malformed(w, field) : ST_OK;
}

enum status chat_variables(const struct chat *c, const char *request, size_t n, const struct chat_options *o,
                           struct buf *out, struct err *e)
{
    struct writer w = {.c = c, .out = out, .e = e, .arguments_left = CHAT_LIMIT_ARGUMENTS};
    struct cut root = chat_cut_text(request, n);
    bool generation = true; /* still to be written */
    if (chat_cut_kind_of(root) != CUT_OBJECT)
        return err_set(e, ST_ARGUMENT, "", "the conversation must be a JSON object with messages, not %s",
                       chat_cut_kind_name(root));
    buf_adds(out, "{");
    if (!o->hide_tools && c->tells_tools)
        TRY(tell_messages(&w, chat_cut_member(root, "messages"), chat_cut_member(root, "tools")));
    else
        TRY(put_messages(&w, chat_cut_member(root, "messages")));
    if (!o->hide_tools)
        TRY(put_tools(&w, chat_cut_member(root, "tools")));
    TRY(put_kwargs(&w, chat_cut_member(root, "chat_template_kwargs"), &generation));
    if (generation)
        buf_addf(out, ",\"add_generation_prompt\":%s", o->no_generation ? "false" : "true");
    buf_adds(out, "}");
    if (out->failed)
        return err_set(e, ST_TOO_LONG, "messages", "the conversation is too large to be rendered");
    return ST_OK;
}
