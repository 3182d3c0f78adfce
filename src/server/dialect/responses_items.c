/*
 * responses_items: the items of a request of the Responses API, and of the responses that it continues, in the shape that
 * chat reads.
 *
 *     instructions, and messages of system and developer at the beginning    one message of the system
 *     message of the user, system or developer                               a message
 *     reasoning, message of the assistant, function_call                     in a row: one message of the assistant
 *     function_call_output                                                   a message of the tool
 *     item_reference                                                         the item of an earlier response
 *
 * Of reasoning its `content` counts, which templates show or leave out; what is only encrypted, or a summary, is left
 * out. Texts and arguments are the client's own bytes. Every item is checked here, so that errors name its place in
 * the client's request and not in the translation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/responses.h"
#include "server/http/json_in.h"

#define MOST_INPUT LIMIT_BODY /* bytes of the items, with those that they refer to */

static bool absent(struct cut v)
{
    return chat_cut_kind_of(v) == CUT_NONE || chat_cut_kind_of(v) == CUT_NULL;
}

static void put(struct buf *out, struct cut v)
{
    buf_add(out, v.s, v.n);
}

/* ---- what the request brings ---- */

static enum status take_reference(struct cut item, uint32_t i, struct responses_own *own, struct err *e)
{
    char field[ERR_FIELD];
    const struct cut id = chat_cut_member(item, "id");
    snprintf(field, sizeof field, "input[%u].id", i);
    if (chat_cut_kind_of(id) != CUT_STRING)
        return err_set(e, ST_ARGUMENT, field, "%s must be a string, not %s", field, chat_cut_kind_name(id));
    const struct server_name owner = {own->owner, sizeof own->owner}, name = {id.s + 1, id.n - 2};
    if (own->store && server_responses_item(own->store, owner, name, &own->input))
        return ST_OK;
    return err_set(e, ST_ARGUMENT, field, "%s: there is no item %.*s here (any more); send the item itself", field,
                   (int)(id.n < 60 ? id.n : 60), id.s);
}

/* Of references the type may be missing. */
static bool is_reference(struct cut item)
{
    const struct cut type = chat_cut_member(item, "type");
    if (!absent(type))
        return chat_cut_is(type, "item_reference");
    return absent(chat_cut_member(item, "role")) && !absent(chat_cut_member(item, "id"));
}

bool responses_refers(const json_t *root)
{
    const json_t *input = http_get(root, "input"), *item;
    size_t i;
    json_array_foreach((json_t *)input, i, item) {
        const json_t *type = http_get(item, "type");
        if (type ? json_is_string(type) && strcmp(json_string_value(type), "item_reference") == 0
                 : !http_get(item, "role") && http_get(item, "id"))
            return true;
    }
    return false;
}

static enum status take_items(struct cut input, struct responses_own *own, struct err *e)
{
    struct cut_iter it = chat_cut_open(input);
    struct cut key, item;
    uint32_t references = 0;
    buf_adds(&own->input, "[");
    for (uint32_t i = 0; chat_cut_next(&it, &key, &item); i++) {
        if (i >= LIMIT_MESSAGES)
            return err_set(e, ST_TOO_LONG, "input", "input has more than %u items", LIMIT_MESSAGES);
        buf_adds(&own->input, i ? "," : "");
        if (!is_reference(item)) {
            put(&own->input, item);
            continue;
        }
        if (++references > LIMIT_RESPONSE_REFERENCES)
            return err_set(e, ST_TOO_LONG, "input", "input refers to more than %u items", LIMIT_RESPONSE_REFERENCES);
        TRY(take_reference(item, i, own, e));
    }
    buf_adds(&own->input, "]");
    return ST_OK;
}

enum status responses_take_input(const json_t *root, struct text_view body, struct responses_own *own, struct err *e)
{
    const struct cut input = chat_cut_member(chat_cut_text(body.data, body.n), "input");
    if (absent(input) && !http_get(root, "previous_response_id"))
        return err_set(e, ST_ARGUMENT, "input", "input is missing");
    if (chat_cut_kind_of(input) == CUT_STRING) {
        buf_adds(&own->input, "[{\"type\":\"message\",\"role\":\"user\",\"content\":");
        put(&own->input, input);
        buf_adds(&own->input, "}]");
    } else if (absent(input) || chat_cut_kind_of(input) == CUT_ARRAY) {
        TRY(take_items(input, own, e));
    } else {
        return err_set(e, ST_ARGUMENT, "input", "input must be a string or a list of items, not %s",
                       chat_cut_kind_name(input));
    }
    return own->input.failed ? err_set(e, ST_TOO_LONG, "input", "the items are too large") : ST_OK;
}

/* ---- what kind of item each is ---- */

enum kind { ITEM_SYSTEM, ITEM_USER, ITEM_SAID, ITEM_CALL, ITEM_THOUGHT, ITEM_RESULT };

struct item {
    struct cut v;
    enum kind kind;
    int32_t place; /* its index in the request's input; negative: an earlier response's */
};

struct turns {
    struct buf *out;
    struct err *e;
    struct item *items;
    size_t n;
    bool some;             /* messages were written */
    char place[ERR_FIELD]; /* of what is being read */
};

static void set_place(struct turns *t, const struct item *item)
{
    if (item->place < 0)
        snprintf(t->place, sizeof t->place, "previous_response_id");
    else
        snprintf(t->place, sizeof t->place, "input[%d]", item->place);
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

static enum status message_kind(struct turns *t, struct item *item)
{
    struct cut role, content = chat_cut_member(item->v, "content");
    TRY(string_member(t, item->v, "role", &role));
    if (chat_cut_kind_of(content) != CUT_STRING && chat_cut_kind_of(content) != CUT_ARRAY)
        return wrong_kind(t, "content", "a string or a list of parts", content);
    if (chat_cut_is(role, "user"))
        item->kind = ITEM_USER;
    else if (chat_cut_is(role, "assistant"))
        item->kind = ITEM_SAID;
    else if (chat_cut_is(role, "system") || chat_cut_is(role, "developer"))
        item->kind = ITEM_SYSTEM;
    else
        return err_set(t->e, ST_ARGUMENT, t->place, "%s.role must be user, assistant, system or developer, not %.*s",
                       t->place, (int)(role.n < 40 ? role.n : 40), role.s);
    return ST_OK;
}

static enum status item_kind(struct turns *t, struct item *item)
{
    static const struct {
        const char *type;
        enum kind kind;
    } kinds[] = {{"function_call", ITEM_CALL}, {"reasoning", ITEM_THOUGHT}, {"function_call_output", ITEM_RESULT}};
    set_place(t, item);
    if (chat_cut_kind_of(item->v) != CUT_OBJECT)
        return wrong_kind(t, "", "an object", item->v);
    const struct cut type = chat_cut_member(item->v, "type");
    if (absent(type) || chat_cut_is(type, "message"))
        return message_kind(t, item);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (chat_cut_is(type, kinds[k].type)) {
            item->kind = kinds[k].kind;
            return ST_OK;
        }
    return err_set(t->e, ST_UNSUPPORTED, t->place, "%s has type %.*s, which is not supported here", t->place,
                   (int)(type.n < 40 ? type.n : 40), type.s);
}

static size_t count(struct text_view array)
{
    return chat_cut_count(chat_cut_text(array.data, array.n));
}

/* Puts the items of an array at t->items + at; returns the place behind them. */
static size_t list(struct turns *t, struct text_view array, bool earlier, size_t at)
{
    struct cut_iter it = chat_cut_open(chat_cut_text(array.data, array.n));
    struct cut key, one;
    for (int32_t i = 0; chat_cut_next(&it, &key, &one); i++)
        t->items[at++] = (struct item){.v = one, .place = earlier ? -1 : i};
    return at;
}

/* All items, the oldest first: a chain of responses is walked from its end. */
static enum status list_items(struct turns *t, const struct responses_own *own)
{
    const struct text_view input = {own->input.data, own->input.len};
    const struct server_response *r;
    t->n = count(input);
    for (r = own->before; r; r = r->before)
        t->n += count(r->input) + r->items_n;
    if (!t->n)
        return err_set(t->e, ST_ARGUMENT, "input", "input is empty; at least one item was expected");
    if (t->n > LIMIT_MESSAGES)
        return err_set(t->e, ST_TOO_LONG, "input", "the conversation has more than %u items", LIMIT_MESSAGES);
    t->items = calloc(t->n, sizeof *t->items);
    if (!t->items)
        return err_set(t->e, ST_NO_MEMORY, "input", "no memory for %zu items", t->n);
    size_t at = t->n - count(input);
    (void)list(t, input, false, at);
    for (r = own->before; r; r = r->before) {
        at -= count(r->input) + r->items_n;
        (void)list(t, r->output, true, list(t, r->input, true, at));
    }
    for (size_t i = 0; i < t->n; i++)
        TRY(item_kind(t, &t->items[i]));
    return ST_OK;
}

/* ---- text ---- */

static void put_part(struct turns *t, struct cut text, bool first)
{
    buf_adds(t->out, first ? "{\"type\":\"text\",\"text\":" : ",{\"type\":\"text\",\"text\":");
    put(t->out, text);
    buf_adds(t->out, "}");
}

/* The text of a part; t->place is the part's. */
static enum status part_text(struct turns *t, struct cut part, struct cut *text)
{
    struct cut type;
    if (chat_cut_kind_of(part) != CUT_OBJECT)
        return wrong_kind(t, "", "an object", part);
    TRY(string_member(t, part, "type", &type));
    if (chat_cut_is(type, "refusal"))
        return string_member(t, part, "refusal", text);
    if (chat_cut_is(type, "input_text") || chat_cut_is(type, "output_text"))
        return string_member(t, part, "text", text);
    return err_set(t->e, ST_UNSUPPORTED, t->place, "%s has type %.*s, which is not supported here", t->place,
                   (int)(type.n < 40 ? type.n : 40), type.s);
}

/* A string, or parts of text alone, as parts, of which `some` are there already. `member` of the item at t->place. */
static enum status put_parts(struct turns *t, struct cut v, const char *member, bool *some)
{
    char place[ERR_FIELD];
    struct cut key, part, text;
    struct cut_iter it = chat_cut_open(v);
    if (chat_cut_kind_of(v) == CUT_STRING) {
        put_part(t, v, !*some);
        *some = true;
        return ST_OK;
    }
    if (chat_cut_kind_of(v) != CUT_ARRAY)
        return wrong_kind(t, member, "a string or a list of parts", v);
    memcpy(place, t->place, sizeof place);
    for (uint32_t i = 0; chat_cut_next(&it, &key, &part); i++) {
        snprintf(t->place, sizeof t->place, "%.32s.%s[%u]", place, member, i);
        TRY(part_text(t, part, &text));
        put_part(t, text, !*some);
        *some = true;
    }
    memcpy(t->place, place, sizeof place);
    return ST_OK;
}

static void open_message(struct turns *t, const char *role)
{
    buf_addf(t->out, "%s{\"role\":\"%s\"", t->some ? "," : "", role);
    t->some = true;
}

/* ---- messages ---- */

static bool is_system(struct cut item)
{
    return chat_cut_is(chat_cut_member(item, "role"), "system");
}

/* Many templates take one message of the system and only at the beginning. Returns how many items went into it. */
static enum status put_first(struct turns *t, struct cut instructions, size_t *n)
{
    bool some = !absent(instructions);
    for (*n = 0; *n < t->n && t->items[*n].kind == ITEM_SYSTEM;)
        ++*n;
    if (!some && !*n)
        return ST_OK;
    open_message(t, some || is_system(t->items[0].v) ? "system" : "developer");
    buf_adds(t->out, ",\"content\":[");
    if (some)
        put_part(t, instructions, true);
    for (size_t i = 0; i < *n; i++) {
        set_place(t, &t->items[i]);
        TRY(put_parts(t, chat_cut_member(t->items[i].v, "content"), "content", &some));
    }
    buf_adds(t->out, "]}");
    return ST_OK;
}

static enum status put_message(struct turns *t, const struct item *item)
{
    bool some = false;
    open_message(t, item->kind == ITEM_USER ? "user" : is_system(item->v) ? "system" : "developer");
    buf_adds(t->out, ",\"content\":[");
    TRY(put_parts(t, chat_cut_member(item->v, "content"), "content", &some));
    buf_adds(t->out, "]}");
    return ST_OK;
}

static enum status put_result(struct turns *t, const struct item *item)
{
    struct cut id;
    bool some = false;
    TRY(string_member(t, item->v, "call_id", &id));
    open_message(t, "tool");
    buf_adds(t->out, ",\"tool_call_id\":");
    put(t->out, id);
    buf_adds(t->out, ",\"content\":[");
    TRY(put_parts(t, chat_cut_member(item->v, "output"), "output", &some));
    buf_adds(t->out, "]}");
    return ST_OK;
}

/* ---- the assistant's ---- */

static enum status put_call(struct turns *t, const struct item *item, bool first)
{
    struct cut id, name, arguments;
    TRY(string_member(t, item->v, "call_id", &id));
    TRY(string_member(t, item->v, "name", &name));
    TRY(string_member(t, item->v, "arguments", &arguments));
    buf_adds(t->out, first ? "{\"id\":" : ",{\"id\":");
    put(t->out, id);
    buf_adds(t->out, ",\"type\":\"function\",\"function\":{\"name\":");
    put(t->out, name);
    buf_adds(t->out, ",\"arguments\":");
    put(t->out, arguments);
    buf_adds(t->out, "}}");
    return ST_OK;
}

/* Joins what stands between the quotes of the thoughts: no escape is touched. */
static enum status put_thought(struct turns *t, const struct item *item, bool *some)
{
    const struct cut content = chat_cut_member(item->v, "content");
    struct cut_iter it = chat_cut_open(content);
    struct cut key, part, text;
    if (!absent(content) && chat_cut_kind_of(content) != CUT_ARRAY)
        return wrong_kind(t, "content", "a list of parts", content);
    for (uint32_t i = 0; chat_cut_next(&it, &key, &part); i++) {
        set_place(t, item);
        size_t n = strlen(t->place);
        snprintf(t->place + n, sizeof t->place - n, ".content[%u]", i);
        if (chat_cut_kind_of(part) != CUT_OBJECT)
            return wrong_kind(t, "", "an object", part);
        TRY(string_member(t, part, "text", &text));
        buf_adds(t->out, *some ? "\\n" : "");
        buf_add(t->out, text.s + 1, text.n - 2);
        *some = true;
    }
    return ST_OK;
}

/* The items of one kind, of those in a row, as what stands between two brackets. */
static enum status put_kind(struct turns *t, const struct item *items, size_t n, enum kind kind)
{
    bool some = false;
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind != kind)
            continue;
        set_place(t, &items[i]);
        if (kind == ITEM_SAID) {
            TRY(put_parts(t, chat_cut_member(items[i].v, "content"), "content", &some));
        } else if (kind == ITEM_THOUGHT) {
            TRY(put_thought(t, &items[i], &some));
        } else {
            TRY(put_call(t, &items[i], !some));
            some = true;
        }
    }
    return ST_OK;
}

static bool has_kind(const struct item *items, size_t n, enum kind kind)
{
    size_t i = 0;
    while (i < n && items[i].kind != kind)
        i++;
    return i < n;
}

static enum status put_assistant(struct turns *t, const struct item *items, size_t n)
{
    open_message(t, "assistant");
    buf_adds(t->out, ",\"content\":[");
    TRY(put_kind(t, items, n, ITEM_SAID));
    buf_adds(t->out, "]");
    if (has_kind(items, n, ITEM_THOUGHT)) {
        buf_adds(t->out, ",\"reasoning_content\":\"");
        TRY(put_kind(t, items, n, ITEM_THOUGHT));
        buf_adds(t->out, "\"");
    }
    if (has_kind(items, n, ITEM_CALL)) {
        buf_adds(t->out, ",\"tool_calls\":[");
        TRY(put_kind(t, items, n, ITEM_CALL));
        buf_adds(t->out, "]");
    }
    buf_adds(t->out, "}");
    return ST_OK;
}

/* ---- all of it ---- */

static bool is_assistants(const struct item *item)
{
    return item->kind == ITEM_SAID || item->kind == ITEM_CALL || item->kind == ITEM_THOUGHT;
}

static enum status put_items(struct turns *t, size_t from)
{
    for (size_t i = from; i < t->n;) {
        size_t n = 0;
        while (i + n < t->n && is_assistants(&t->items[i + n]))
            n++;
        set_place(t, &t->items[i]);
        if (n)
            TRY(put_assistant(t, &t->items[i], n));
        else if (t->items[i].kind == ITEM_RESULT)
            TRY(put_result(t, &t->items[i]));
        else
            TRY(put_message(t, &t->items[i]));
        i += n ? n : 1;
    }
    return ST_OK;
}

static enum status put_conversation(struct turns *t, const struct responses_request *rq, struct cut root,
                                    const struct responses_own *own)
{
    size_t first;
    buf_adds(t->out, "{\"messages\":[");
    TRY(list_items(t, own));
    TRY(put_first(t, chat_cut_member(root, "instructions"), &first));
    TRY(put_items(t, first));
    buf_adds(t->out, "]");
    if (rq->tools.n) {
        buf_adds(t->out, ",\"tools\":");
        responses_write_tools((struct text_view){root.s, root.n}, t->out);
    }
    TRY(openai_put_kwargs(chat_cut_member(root, "chat_template_kwargs"), rq->effort, t->out, t->e));
    buf_adds(t->out, "}");
    return t->out->failed ? err_set(t->e, ST_TOO_LONG, "input", "the conversation is too large") : ST_OK;
}

enum status responses_translate(const struct responses_request *rq, struct text_view body,
                                const struct responses_own *own, struct buf *out, struct err *e)
{
    struct turns t = {.out = out, .e = e};
    enum status st = put_conversation(&t, rq, chat_cut_text(body.data, body.n), own);
    free(t.items);
    return st;
}

/* ---- names of earlier replies ---- */

void responses_name_items(const json_t *root, struct reply_job *job)
{
    static const char *const members[] = {"id", "call_id", "encrypted_content"};
    const json_t *input = http_get(root, "input"), *previous = http_get(root, "previous_response_id");
    for (size_t i = json_array_size(input); i-- > 0 && job->lookups_n < LIMIT_REPLAY_LOOKUPS;)
        for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
            const json_t *v = json_object_get(json_array_get(input, i), members[k]);
            if (json_is_string(v))
                server_look_up(job, (struct server_name){json_string_value(v), json_string_length(v)});
        }
    if (json_is_string(previous))
        server_look_up(job, (struct server_name){json_string_value(previous), json_string_length(previous)});
}

/* ---- what a reply keeps ---- */

static void own_free(void *data)
{
    struct responses_own *own = data;
    buf_release(&own->echo);
    buf_release(&own->input);
    if (own->store)
        server_responses_drop(own->store, own->before);
    free(own);
}

enum status responses_own_new(struct reply_job *job, struct err *e)
{
    struct responses_own *own = calloc(1, sizeof *own);
    if (!own)
        return err_set(e, ST_NO_MEMORY, "", "no memory for a request");
    buf_init(&own->echo, LIMIT_RESPONSE_ECHO);
    buf_init(&own->input, MOST_INPUT);
    job->own = own;
    job->own_free = own_free;
    return ST_OK;
}
