/*
 * openai_effort: how much a reply may think: `reasoning_effort`, in Responses `reasoning.effort`.
 *
 * The word becomes variables of the template, which may read the effort itself or let thinking be switched. Where it reads
 * no effort, the word is a ceiling of ids to think with.
 */
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

/* What a word asks for: thinking at all, and where the template does not read the word, with how many ids; 0 = any. */
static const struct effort {
    const char *word;
    bool thinks;
    uint32_t most;
} efforts[] = {
    {"none", false, 0},    {"minimal", false, 256}, {"low", true, 1024}, {"medium", true, 4096},
    {"high", true, 16384}, {"xhigh", true, 0},      {"max", true, 0},
};

static const struct effort *find(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++)
        if (n == strlen(efforts[i].word) && memcmp(word, efforts[i].word, n) == 0)
            return &efforts[i];
    return NULL;
}

enum status openai_parse_effort(const json_t *root, const json_t *holder, const char *key, const char *field,
                                const char **effort, struct err *e)
{
    static const char *const ours[] = {"enable_thinking", "reasoning_effort", "thinking"};
    const json_t *v = http_get(holder, key), *kwargs = http_get(root, "chat_template_kwargs");
    *effort = NULL;
    if (!v)
        return ST_OK;
    const struct effort *found = json_is_string(v) ? find(json_string_value(v), json_string_length(v)) : NULL;
    if (!found)
        return err_set(e, ST_ARGUMENT, field, "%s must be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'",
                       field);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (json_object_get(kwargs, ours[i]))
            return err_set(e, ST_ARGUMENT, field, "%s and chat_template_kwargs.%s contradict each other", field, ours[i]);
    *effort = found->word;
    return ST_OK;
}

enum status openai_put_kwargs(struct cut given, const char *effort, struct buf *out, struct err *e)
{
    const enum cut_kind kind = chat_cut_kind_of(given);
    const bool some = kind != CUT_NONE && kind != CUT_NULL;
    if (some && kind != CUT_OBJECT)
        return err_set(e, ST_ARGUMENT, "chat_template_kwargs", "chat_template_kwargs must be an object, not %s",
                       chat_cut_kind_name(given));
    if (!some && !effort)
        return ST_OK;
    const struct cut inside = some ? chat_cut_text(given.s + 1, given.n - 2) : (struct cut){0};
    buf_adds(out, ",\"chat_template_kwargs\":{");
    buf_add(out, inside.s, inside.n);
    if (effort) {
        const char *on = find(effort, strlen(effort))->thinks ? "true" : "false";
        buf_addf(out, "%s\"enable_thinking\":%s,\"thinking\":%s,\"reasoning_effort\":\"%s\"", inside.n ? "," : "", on, on,
                 effort);
    }
    buf_adds(out, "}");
    return ST_OK;
}

enum status openai_tell_effort(const char *effort, struct text_view body, struct buf *room,
                               struct text_view *conversation, struct err *e)
{
    const struct cut root = chat_cut_text(body.data, body.n);
    *conversation = body;
    if (!effort)
        return ST_OK;
    const struct cut messages = chat_cut_member(root, "messages");
    buf_adds(room, "{\"messages\":");
    buf_add(room, messages.n ? messages.s : "null", messages.n ? messages.n : 4);
    chat_cut_put("tools", chat_cut_member(root, "tools"), room);
    TRY(openai_put_kwargs(chat_cut_member(root, "chat_template_kwargs"), effort, room, e));
    buf_adds(room, "}");
    *conversation = (struct text_view){room->data, room->len};
    return room->failed ? err_set(e, ST_TOO_LONG, "messages", "the conversation is too large") : ST_OK;
}

/* A model that is told not to think but opens its thinking all the same closes it at once. */
enum status openai_limit_thinking(const struct server *srv, const char *effort, const char *field, struct reply_job *job,
                                  struct err *e)
{
    if (!effort)
        return ST_OK;
    const struct effort *asked = find(effort, strlen(effort));
    const uint32_t most = chat_knows_effort(srv->chat) ? 0 : asked->most;
    if (!asked->thinks && !asked->most)
        return job->recognise.in_reasoning ? server_limit_thinking(srv, 0, field, job, e) : ST_OK;
    if (!asked->thinks && !job->recognise.reasoning)
        return ST_OK;
    if (!job->recognise.reasoning)
        return err_set(e, ST_UNSUPPORTED, field, "%s: this model does not think before it replies", field);
    return most ? server_limit_thinking(srv, most, field, job, e) : ST_OK;
}
