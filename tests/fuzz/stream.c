/*
 * stream: any text as the reply of a model, as each dialect's writer streams it, read back by a reader of this file.
 *
 * What a client gathers from a stream, however it was cut, is what the same reply holds when it comes as a whole: content,
 * reasoning, calls. Where that is promised otherwise (a call that breaks stands in the streams of some dialects, and is
 * text in whole replies) streams have more calls. The first byte chooses dialect, the second how the text is cut.
 */
#include "fuzz/kit/events.h"
#include "fuzz/kit/served.h"

#define TEXT_MOST 600u /* bytes of a reply */

/* ---- what a client gathers ---- */

struct heard {
    struct buf content, reasoning, calls; /* calls: NAME ARGUMENTS, a line each */
    struct buf arguments;                 /* of the call that is open */
    char name[64];
    unsigned n; /* calls, the open one included */
    bool open, ended;
};

static void heard_init(struct heard *h)
{
    *h = (struct heard){0};
    struct buf *bufs[] = {&h->content, &h->reasoning, &h->calls, &h->arguments};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        buf_init(bufs[i], 1u << 20);
}

static void heard_release(struct heard *h)
{
    buf_release(&h->content);
    buf_release(&h->reasoning);
    buf_release(&h->calls);
    buf_release(&h->arguments);
}

/* Arguments are compared as what they mean: some dialects write them as JSON, some as a text. */
static void close_call(struct heard *h)
{
    json_t *v = h->open ? json_loadb(h->arguments.data, h->arguments.len, JSON_ALLOW_NUL, NULL) : NULL;
    char *text = v ? json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (h->open)
        buf_addf(&h->calls, "%s %s\n", h->name, text ? text : "?");
    buf_clear(&h->arguments);
    h->open = false;
    free(text);
    json_decref(v);
}

static void open_call(struct heard *h, const json_t *name)
{
    close_call(h);
    FUZZ_CHECK(json_is_string(name), "a call without a name");
    snprintf(h->name, sizeof h->name, "%s", json_string_value(name));
    h->open = true;
    h->n++;
}

static void add(struct buf *to, const json_t *v)
{
    if (json_is_string(v))
        buf_add(to, json_string_value(v), json_string_length(v));
}

static void add_object(struct heard *h, const json_t *v)
{
    char *text = json_dumps(v, 0);
    FUZZ_CHECK(json_is_object(v) && text, "arguments that are no object");
    buf_adds(&h->arguments, text);
    free(text);
}

/* ---- dialects ---- */

static void chat_message(struct heard *h, const json_t *m, bool objects)
{
    size_t i;
    json_t *call;
    add(&h->content, json_object_get(m, "content"));
    add(&h->reasoning, json_object_get(m, "reasoning_content"));
    add(&h->reasoning, json_object_get(m, "thinking"));
    json_array_foreach(json_object_get(m, "tool_calls"), i, call) {
        const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
        if (json_object_get(function, "name"))
            open_call(h, json_object_get(function, "name"));
        if (objects)
            add_object(h, arguments);
        else
            add(&h->arguments, arguments);
    }
}

static void openai(void *user, const char *name, const json_t *data)
{
    struct heard *h = user;
    const json_t *choice = json_array_get(json_object_get(data, "choices"), 0), *delta = json_object_get(choice, "delta");
    (void)name;
    h->ended = !data || json_is_object(json_object_get(data, "usage")); /* a whole reply has it, a chunk has not */
    chat_message(h, delta ? delta : json_object_get(choice, "message"), false);
    add(&h->content, json_object_get(choice, "text"));
}

static void ollama(void *user, const char *name, const json_t *data)
{
    struct heard *h = user;
    (void)name;
    FUZZ_CHECK(!h->ended, "something follows the last object");
    h->ended = json_is_true(json_object_get(data, "done"));
    chat_message(h, json_object_get(data, "message"), true);
    add(&h->content, json_object_get(data, "response"));
    add(&h->reasoning, json_object_get(data, "thinking"));
}

static void completion(void *user, const char *name, const json_t *data)
{
    struct heard *h = user;
    (void)name;
    h->ended = json_is_true(json_object_get(data, "stop"));
    add(&h->content, json_object_get(data, "content"));
}

static void content_block(struct heard *h, const json_t *block, bool whole)
{
    add(&h->content, json_object_get(block, "text"));
    add(&h->reasoning, json_object_get(block, "thinking"));
    if (!json_object_get(block, "name"))
        return;
    open_call(h, json_object_get(block, "name"));
    if (whole)
        add_object(h, json_object_get(block, "input"));
}

static void anthropic(void *user, const char *name, const json_t *data)
{
    struct heard *h = user;
    const json_t *delta = json_object_get(data, "delta"), *type = json_object_get(data, "type");
    size_t i;
    json_t *block;
    FUZZ_CHECK(json_is_string(type) && (!*name || strcmp(name, json_string_value(type)) == 0), "it is no %s", name);
    h->ended = strcmp(json_string_value(type), "message_stop") == 0 || strcmp(json_string_value(type), "message") == 0;
    json_array_foreach(json_object_get(data, "content"), i, block) {
        content_block(h, block, true);
    }
    content_block(h, json_object_get(data, "content_block"), false);
    add(&h->content, json_object_get(delta, "text"));
    add(&h->reasoning, json_object_get(delta, "thinking"));
    add(&h->arguments, json_object_get(delta, "partial_json"));
}

static void response_items(struct heard *h, const json_t *response)
{
    size_t i, k;
    json_t *item, *part;
    json_array_foreach(json_object_get(response, "output"), i, item) {
        bool reasons = strcmp(json_string_value(json_object_get(item, "type")), "reasoning") == 0;
        json_array_foreach(json_object_get(item, "content"), k, part) {
            add(reasons ? &h->reasoning : &h->content, json_object_get(part, "text"));
        }
        if (json_object_get(item, "name")) {
            open_call(h, json_object_get(item, "name"));
            add(&h->arguments, json_object_get(item, "arguments"));
        }
    }
}

static void same_heard(struct heard *a, struct heard *b, const char *what)
{
    close_call(a);
    close_call(b);
    fuzz_same(&a->content, &b->content, what);
    fuzz_same(&a->reasoning, &b->reasoning, what);
    fuzz_same(&a->calls, &b->calls, what);
}

/* The last event holds all that the others told. */
static void responses_end(struct heard *h, const json_t *response)
{
    struct heard last;
    heard_init(&last);
    response_items(&last, response);
    same_heard(h, &last, "deltas and the last event");
    heard_release(&last);
    h->ended = true;
}

static void responses(void *user, const char *name, const json_t *data)
{
    struct heard *h = user;
    const json_t *delta = json_object_get(data, "delta"), *item = json_object_get(data, "item");
    if (!*name) {
        response_items(h, data);
        h->ended = true;
    } else if (strcmp(name, "response.output_item.added") == 0 && json_object_get(item, "name")) {
        open_call(h, json_object_get(item, "name"));
    } else if (strcmp(name, "response.output_text.delta") == 0) {
        add(&h->content, delta);
    } else if (strcmp(name, "response.reasoning_text.delta") == 0) {
        add(&h->reasoning, delta);
    } else if (strcmp(name, "response.function_call_arguments.delta") == 0) {
        add(&h->arguments, delta);
    } else if (strcmp(name, "response.completed") == 0) {
        responses_end(h, json_object_get(data, "response"));
    }
}

#define SAY "[{'role':'user','content':'say it'}]"
#define FUNCTION "{'type':'object','properties':{'a':{'type':'string'}}}"
#define TOOLS "'tools':[{'type':'function','function':{'name':'f','parameters':" FUNCTION "}}],"

static const struct dialect {
    const char *path, *body; /* as in json() of server_live.h, with a place for true or false */
    events_sink *gather;
    bool whole_calls; /* streams tell of whole calls only */
} dialects[] = {
    {"/v1/chat/completions", "{" TOOLS "'messages':" SAY ",'stream':%s}", openai, false},
    {"/v1/chat/completions", "{'logprobs':true,'top_logprobs':2,'messages':" SAY ",'stream':%s}", openai, false},
    {"/v1/completions", "{'prompt':'say it','max_tokens':4000,'stream':%s}", openai, false},
    {"/v1/messages",
     "{'max_tokens':4000,'tools':[{'name':'f','input_schema':" FUNCTION "}],'messages':" SAY ",'stream':%s}",
     anthropic, false},
    {"/v1/responses", "{'tools':[{'type':'function','name':'f','parameters':" FUNCTION "}],'input':'say it','stream':%s}",
     responses, false},
    {"/api/chat", "{" TOOLS "'messages':" SAY ",'think':true,'stream':%s}", ollama, true},
    {"/api/generate", "{'prompt':'say it','stream':%s}", ollama, true},
    {"/completion", "{'prompt':'say it','stream':%s}", completion, true},
};
#define DIALECTS (sizeof dialects / sizeof *dialects)

/* ---- a reply both ways ---- */

/* False: it holds what this reader cannot read. */
static bool ask(const struct dialect *d, bool stream, size_t piece, struct heard *h)
{
    char body[1000];
    struct wire_reply r;
    snprintf(body, sizeof body, d->body, stream ? "true" : "false");
    const char *text = json(body);
    const struct wire_request rq = {.method = "POST", .path = d->path, .body = text, .n = strlen(text), .piece = piece};
    heard_init(h);
    wire_ask(&rq, &r);
    FUZZ_CHECK(r.status == 200 && r.streamed == stream && !r.broken, "%s: %d: %s", d->path, r.status,
               r.body.data ? r.body.data : "");
    bool ok = events_read(&r, d->gather, h);
    FUZZ_CHECK(!ok || h->ended, "%s has no end: %s", d->path, r.body.data);
    close_call(h);
    wire_release(&r);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n};
    struct heard whole, streamed;
    struct buf says;
    served_start(NULL);
    const struct dialect *d = &dialects[fuzz_byte(&f) % DIALECTS];
    uint8_t cut = fuzz_byte(&f);
    char *text = fuzz_string(f.at, f.n < TEXT_MOST ? f.n : TEXT_MOST);
    buf_init(&says, 4 * TEXT_MOST);
    fuzz_utf8(text, strlen(text), &says);
    buf_adds(&says, "");
    fake_reply = says.data ? says.data : "";
    fake_holds = cut >> 3;
    bool ok = ask(d, false, 0, &whole);
    ok = ask(d, true, (cut & 7) * 41u, &streamed) && ok;
    if (ok && (whole.n == streamed.n || d->whole_calls))
        same_heard(&whole, &streamed, d->path);
    FUZZ_CHECK(!ok || streamed.n >= whole.n, "%s: the stream lacks a call", d->path);
    heard_release(&whole);
    heard_release(&streamed);
    buf_release(&says);
    free(text);
    return 0;
}
