/*
 * native_infill: POST /infill, llama-server's way to ask for what is missing between two texts.
 *
 * Everything but the texts is as in /completion, replies too. A prompt that does not fit the context is refused: nothing is
 * cut off its texts.
 */
#include <stdio.h>

#include "server/dialect/native.h"
#include "server/dialect/openai_fields.h"
#include "server/http/json_in.h"
#include "server/infill.h"

/* input_suffix by the name that /completion knows. */
static const struct openai_refused refused[] = {
    {"suffix", NEUTRAL_EMPTY},
    {NULL, NEUTRAL_NULL},
};

static enum status get_text(const json_t *o, const char *key, bool needed, struct text_view *to, struct err *e)
{
    TRY(http_get_string(o, key, &to->data, &to->n, e));
    if (needed && !to->data)
        return err_set(e, ST_ARGUMENT, key, "%s is missing", key);
    return ST_OK;
}

/* A file without a name is called "tmp", as there. */
static enum status parse_file(const json_t *v, size_t i, struct server_infill_file *to, struct err *e)
{
    char field[ERR_FIELD];
    struct err why;
    snprintf(field, sizeof field, "input_extra[%zu]", i);
    *to = (struct server_infill_file){.name = {"tmp", 3}};
    if (!json_is_object(v))
        return http_wrong_type(v, field, "an object", e);
    if (get_text(v, "text", true, &to->text, &why) != ST_OK || get_text(v, "filename", false, &to->name, &why) != ST_OK)
        return err_set(e, why.code, field, "%s: %s", field, why.text);
    return ST_OK;
}

static enum status parse_files(const json_t *root, struct server_infill_file *files, size_t *n, struct err *e)
{
    static const char field[] = "input_extra";
    const json_t *v = http_get(root, field);
    if (!v)
        return ST_OK;
    if (!json_is_array(v))
        return http_wrong_type(v, field, "an array of {\"text\", \"filename\"}", e);
    if (json_array_size(v) > LIMIT_INFILL_FILES)
        return err_set(e, ST_ARGUMENT, field, "%s has more than %u entries", field, LIMIT_INFILL_FILES);
    for (; *n < json_array_size(v); ++*n)
        TRY(parse_file(json_array_get(v, *n), *n, &files[*n], e));
    return ST_OK;
}

static enum status take_texts(const struct server *srv, struct reply_job *job, struct err *e)
{
    struct server_infill_file files[LIMIT_INFILL_FILES];
    struct server_infill in = {.field = "input_prefix", .project = true, .files = files};
    TRY(get_text(job->root, "input_prefix", true, &in.before, e));
    TRY(get_text(job->root, "input_suffix", true, &in.after, e));
    TRY(get_text(job->root, "prompt", false, &in.line, e));
    TRY(parse_files(job->root, files, &in.files_n, e));
    TRY(server_infill(srv, &in, &job->prompts[0], e));
    job->prompts_n = 1;
    return ST_OK;
}

static enum status prepare(const struct server *srv, struct text_view body, struct reply_job *job, struct err *e)
{
    struct server_constraint c;
    job->fill = srv->fill;
    TRY(openai_refuse_fields(job->root, refused, e));
    TRY(native_parse_completion(job->root, job, e));
    TRY(openai_parse_constraint(job->root, body, &c, e));
    TRY(take_texts(srv, job, e));
    server_fit_context(srv, job);
    return c.field ? server_constrain(srv, &c, job, e) : ST_OK;
}

void native_infill(struct http_call *call)
{
    openai_serve(call, prepare, &native_completion_ops);
}
