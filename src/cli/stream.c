/* stream: see stream.h. */
#include "cli/stream.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

void stream_init(struct stream *s)
{
    *s = (struct stream){0};
    buf_init(&s->line, LIMIT_LOAD_EVENT);
    buf_init(&s->data, LIMIT_LOAD_EVENT);
}

void stream_release(struct stream *s)
{
    buf_release(&s->line);
    buf_release(&s->data);
}

void stream_clear(struct stream *s)
{
    struct buf line = s->line, data = s->data;
    buf_clear(&line);
    buf_clear(&data);
    *s = (struct stream){.line = line, .data = data};
}

/* --- one chunk ------------------------------------------------------------------------------------------------------- */

static bool has_text(const json_t *o, const char *key)
{
    return json_string_length(json_object_get(o, key)) > 0;
}

/* Text of the answer, of its reasoning (the names that servers use), or of a tool call; or a token whose log-probability
 * comes, which may have no text of its own. */
static bool choice_has_token(const json_t *choice)
{
    const json_t *delta = json_object_get(choice, "delta");
    return has_text(choice, "text") || has_text(delta, "content") || has_text(delta, "reasoning_content") ||
           has_text(delta, "reasoning") || json_array_size(json_object_get(delta, "tool_calls")) > 0 ||
           json_is_object(json_object_get(choice, "logprobs"));
}

static uint64_t count_in(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key));
    return n > 0 ? (uint64_t)n : 0;
}

static void take_usage(struct stream *s, const json_t *usage)
{
    if (!json_is_object(usage))
        return;
    s->has_usage = true;
    s->tokens_in = count_in(usage, "prompt_tokens");
    s->tokens_out = count_in(usage, "completion_tokens");
    s->tokens_cached = count_in(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

static const char *error_message(const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    const char *text = json_string_value(error);
    return text ? text : json_string_value(json_object_get(error, "message"));
}

static enum status take_chunk(struct stream *s, const json_t *root, uint32_t *with_text, struct err *e)
{
    size_t i;
    json_t *choice;
    const json_t *error = json_object_get(root, "error");
    if (error && !json_is_null(error)) {
        const char *text = error_message(root);
        return err_set(e, ST_STEP_FAILED, "", "the server ended the stream: %s", text ? text : "it does not say why");
    }
    json_array_foreach(json_object_get(root, "choices"), i, choice) {
        s->finished |= json_is_string(json_object_get(choice, "finish_reason"));
        if (choice_has_token(choice)) {
            s->chunks++;
            (*with_text)++;
        }
    }
    take_usage(s, json_object_get(root, "usage"));
    return ST_OK;
}

/* --- events ---------------------------------------------------------------------------------------------------------- */

static enum status end_event(struct stream *s, uint32_t *with_text, struct err *e)
{
    if (s->data.len == 0)
        return ST_OK;
    if (strcmp(s->data.data, "[DONE]") == 0) {
        s->done = true;
    } else {
        json_t *root = json_loadb(s->data.data, s->data.len, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(root)) {
            json_decref(root);
            return err_set(e, ST_ARGUMENT, "", "an event of the stream is not a JSON object: %.60s", s->data.data);
        }
        enum status st = take_chunk(s, root, with_text, e);
        json_decref(root);
        TRY(st);
    }
    buf_clear(&s->data);
    return ST_OK;
}

/* A line without its end. An empty one ends an event; lines other than data (comments, ids) say nothing of interest. */
static enum status end_line(struct stream *s, uint32_t *with_text, struct err *e)
{
    const char *line = s->line.data;
    size_t n = s->line.len;
    if (n == 0)
        return end_event(s, with_text, e);
    if (n >= 5 && memcmp(line, "data:", 5) == 0) {
        size_t skip = n > 5 && line[5] == ' ' ? 6 : 5;
        if (s->data.len)
            buf_add(&s->data, "\n", 1);
        buf_add(&s->data, line + skip, n - skip);
    }
    buf_clear(&s->line);
    return ST_OK;
}

enum status stream_feed(struct stream *s, const char *bytes, size_t n, uint32_t *with_text, struct err *e)
{
    *with_text = 0;
    while (n) {
        if (s->was_cr && *bytes == '\n') {
            s->was_cr = false;
            bytes++, n--;
            continue;
        }
        size_t plain = 0;
        while (plain < n && bytes[plain] != '\n' && bytes[plain] != '\r')
            plain++;
        buf_add(&s->line, bytes, plain);
        s->was_cr = plain < n && bytes[plain] == '\r';
        if (plain < n) {
            TRY(end_line(s, with_text, e));
            plain++;
        }
        if (s->line.failed || s->data.failed)
            return err_set(e, ST_TOO_LONG, "", "an event of the stream is longer than %u bytes", LIMIT_LOAD_EVENT);
        bytes += plain;
        n -= plain;
    }
    return ST_OK;
}

enum status stream_end(const struct stream *s, struct err *e)
{
    if (s->done || s->finished)
        return ST_OK;
    return err_set(e, ST_IO, "", "the stream ended before [DONE]");
}

void stream_error_text(const char *body, size_t n, char *out, size_t cap)
{
    json_t *root = n ? json_loadb(body, n, 0, NULL) : NULL;
    const char *text = error_message(root);
    if (text)
        snprintf(out, cap, "%s", text);
    else
        snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap), n ? body : "");
    json_decref(root);
}
