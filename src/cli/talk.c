/* talk: see talk.h. */
#include "cli/talk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/said.h"
#include "text/text.h"

enum status talk_init(struct talk *t, const struct api_model *m, struct engine *engine, struct err *e)
{
    *t = (struct talk){.m = m, .engine = engine, .messages = json_array()};
    TRY(chat_tools_cache_new(&t->formats, m->chat, e));
    return t->messages ? ST_OK : err_set(e, ST_NO_MEMORY, "", "no memory for a conversation");
}

void talk_release(struct talk *t)
{
    json_decref(t->messages);
    chat_tools_cache_free(t->formats);
    t->messages = NULL;
    t->formats = NULL;
}

/* --- messages -------------------------------------------------------------------------------------------------------- */

static bool has_role(const json_t *message, const char *role)
{
    const char *s = json_string_value(json_object_get(message, "role"));
    return s && strcmp(s, role) == 0;
}

static json_t *last_of(const struct talk *t)
{
    size_t n = json_array_size(t->messages);
    return n ? json_array_get(t->messages, n - 1) : NULL;
}

static void cut(struct talk *t, size_t n)
{
    while (json_array_size(t->messages) > n)
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
}

static json_t *new_message(const char *role, const char *text, size_t n, struct err *e)
{
    json_t *content = json_stringn(text, n);
    if (!content)
        err_set(e, ST_ARGUMENT, role, "the text is not UTF-8");
    return content ? json_pack("{s:s, s:o}", "role", role, "content", content) : NULL;
}

/* Takes the reference, which may be NULL: then `e` says why. */
static enum status add_message(struct talk *t, json_t *message, struct err *e)
{
    if (!message)
        return e->code;
    if (json_array_size(t->messages) >= LIMIT_MESSAGES) {
        json_decref(message);
        return err_set(e, ST_TOO_LONG, "", "the conversation has %u messages, which is all it may have", LIMIT_MESSAGES);
    }
    json_array_append_new(t->messages, message);
    return ST_OK;
}

const char *talk_system(const struct talk *t)
{
    const json_t *first = json_array_get(t->messages, 0);
    return has_role(first, "system") ? json_string_value(json_object_get(first, "content")) : NULL;
}

enum status talk_set_system(struct talk *t, const char *text, struct err *e)
{
    json_t *message = text ? new_message("system", text, strlen(text), e) : NULL;
    if (text && !message)
        return e->code;
    if (has_role(json_array_get(t->messages, 0), "system"))
        json_array_remove(t->messages, 0);
    if (message)
        json_array_insert_new(t->messages, 0, message);
    return ST_OK;
}

void talk_clear(struct talk *t)
{
    cut(t, has_role(json_array_get(t->messages, 0), "system"));
}

bool talk_undo(struct talk *t)
{
    size_t n = json_array_size(t->messages);
    while (n && !has_role(json_array_get(t->messages, n - 1), "user"))
        n--;
    if (n)
        cut(t, n - 1);
    return n != 0;
}

/* --- turns ----------------------------------------------------------------------------------------------------------- */

/* A conversation as a client would send it: the request's text, for free(), and the ids of the prompt that it comes to. */
struct rendered {
    char *request;
    tok_id *ids;
    size_t n;
};

/* release_rendered() is due either way. */
static enum status render(const struct talk *t, const json_t *messages, struct rendered *out, struct err *e)
{
    const struct chat_options co = {.max_bytes = LIMIT_BODY};
    json_t *root = json_pack("{s:O}", "messages", messages);
    *out = (struct rendered){.request = root ? json_dumps(root, JSON_COMPACT) : NULL};
    json_decref(root);
    if (!out->request)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the conversation");
    return chat_prompt(t->m->chat, out->request, strlen(out->request), &co, &out->ids, &out->n, e);
}

static void release_rendered(struct rendered *r)
{
    free(r->request);
    if (r->ids)
        tok_ids_free(r->ids, r->n);
}

/* What is left to do once a reply has ended well: its message, unless nothing was said, and its figures. */
static enum status keep(struct talk *t, const struct said *s, const struct reply *r, struct err *e)
{
    if (r->result.finish == FINISH_CANCELLED && said_nothing(s))
        return err_set(e, ST_CANCELLED, "", "interrupted before the reply began");
    json_t *message = said_message(s);
    if (!message)
        return err_set(e, ST_NO_MEMORY, "", "no memory for the reply");
    TRY(add_message(t, message, e));
    reply_print_figures(r);
    return ST_OK;
}

/* Answers the conversation as it stands, and appends the reply. ST_CANCELLED: it was interrupted before any text. */
static enum status answer(struct talk *t, const struct reply_options *how, struct err *e)
{
    struct reply_options own = *how;
    struct reply r = {0};
    struct said s = {0};
    struct rendered p;
    own.sampling.bias = own.bias;
    enum status st = render(t, t->messages, &p, e);
    if (st == ST_OK)
        st = said_init(&s, t->m->tok, t->formats, p.request, strlen(p.request), p.ids, p.n, e);
    if (st == ST_OK) {
        said_listen(&s, &own);
        st = reply_run(t->engine, t->m->tok, p.ids, p.n, &own, true, &r, e);
    }
    if (!said_nothing(&s) && (s.answer.len == 0 || s.answer.data[s.answer.len - 1] != '\n'))
        cli_write("\n", 1);
    if (st == ST_OK)
        st = keep(t, &s, &r, e);
    reply_release(&r);
    said_release(&s);
    release_rendered(&p);
    return st;
}

enum status talk_ask(struct talk *t, const char *text, size_t n, const struct reply_options *how, struct err *e)
{
    size_t before = json_array_size(t->messages);
    t->retries = 0;
    enum status st = add_message(t, new_message("user", text, n, e), e);
    if (st == ST_OK)
        st = answer(t, how, e);
    if (st != ST_OK)
        cut(t, before);
    return st;
}

enum status talk_retry(struct talk *t, const struct reply_options *how, struct err *e)
{
    struct reply_options next = *how;
    json_t *old = has_role(last_of(t), "assistant") ? json_incref(last_of(t)) : NULL;
    size_t asked = json_array_size(t->messages) - (old != NULL);
    cut(t, asked);
    enum status st = ST_OK;
    if (!has_role(last_of(t), "user")) {
        st = err_set(e, ST_ARGUMENT, "", "there is no question to ask again");
    } else {
        next.sampling.seed += ++t->retries;
        st = answer(t, &next, e);
    }
    if (st != ST_OK) {
        cut(t, asked);
        if (old)
            json_array_append(t->messages, old);
    }
    json_decref(old);
    return st;
}

/* --- files ----------------------------------------------------------------------------------------------------------- */

enum status talk_save(const struct talk *t, const char *path, bool over, struct err *e)
{
    char beside[PATH_MAX];
    if (!over && access(path, F_OK) == 0)
        return err_set(e, ST_ARGUMENT, path, "%.200s: there is such a file; it was not written by this conversation", path);
    int n = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof beside)
        return err_set(e, ST_ARGUMENT, path, "the path is too long");
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, ST_IO, path, "%.200s: cannot write", path);
    json_t *root = json_pack("{s:O}", "messages", t->messages);
    bool ok = root && json_dumpfd(root, fd, JSON_INDENT(2)) == 0 && write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    json_decref(root);
    if (!ok || rename(beside, path) != 0) {
        err_errno(e, ST_IO, path, "%.200s: cannot write", path);
        unlink(beside);
        ok = false;
    }
    close(fd);
    return ok ? ST_OK : e->code;
}

/* The messages in a file's text, as a new reference; NULL when it holds none. */
static json_t *messages_in(const struct buf *text)
{
    json_t *root = json_loadb(text->data, text->len, 0, NULL);
    json_t *list = json_is_array(root) ? root : json_object_get(root, "messages"), *message;
    size_t i;
    bool ok = json_is_array(list) && json_array_size(list) <= LIMIT_MESSAGES;
    json_array_foreach(list, i, message)
        ok &= json_is_string(json_object_get(message, "role"));
    list = ok ? json_incref(list) : NULL;
    json_decref(root);
    return list;
}

enum status talk_load(struct talk *t, const char *path, struct err *e)
{
    struct buf text;
    struct err why = {0};
    struct rendered p = {0};
    TRY(cli_read(path, LIMIT_BODY, &text, e));
    json_t *list = messages_in(&text);
    buf_release(&text);
    if (!list)
        return err_set(e, ST_ARGUMENT, path, "%.200s: neither an array of messages nor an object that has one", path);
    enum status st = json_array_size(list) ? render(t, list, &p, &why) : ST_OK;
    release_rendered(&p);
    if (st != ST_OK) {
        json_decref(list);
        return err_set(e, st, path, "%.200s: %.200s", path, why.text);
    }
    json_decref(t->messages);
    t->messages = list;
    t->retries = 0;
    return ST_OK;
}
