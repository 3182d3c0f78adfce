/*
 * openai_tools: tools, tool_choice, parallel_tool_calls. What is wrong with the shape of a tool is said by chat, which
 * shows them to the model; here is what they mean for the reply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/openai.h"
#include "server/http/json_in.h"

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* ---- the choice ---- */

/* Index of the tool that {"type":"function","function":{"name":…}} names. */
static enum status find_tool(const json_t *tools, const json_t *v, const char *field, uint32_t *at, struct err *e)
{
    const json_t *name = json_object_get(json_object_get(v, "function"), "name");
    if (!is_string(json_object_get(v, "type"), "function"))
        return err_set(e, ST_UNSUPPORTED, field, "%s: the only kind of tool that can be chosen is 'function'", field);
    if (!json_is_string(name))
        return err_set(e, ST_ARGUMENT, field, "%s: function.name must be a string, not %s", field, http_json_type(name));
    for (uint32_t i = 0; i < json_array_size(tools); i++)
        if (json_equal(name, json_object_get(json_object_get(json_array_get(tools, i), "function"), "name"))) {
            *at = i;
            return ST_OK;
        }
    return err_set(e, ST_ARGUMENT, field, "%s names '%.80s', which is none of the tools", field,
                   json_string_value(name));
}

/* {"mode":"auto"|"required","tools":[{"type":"function","function":{"name":…}},…]} */
static enum status parse_allowed(const json_t *tools, const json_t *v, struct openai_tools *out, struct err *e)
{
    static const char field[] = "tool_choice.allowed_tools";
    const json_t *mode = json_object_get(v, "mode"), *list = json_object_get(v, "tools");
    uint32_t at;
    if (!is_string(mode, "auto") && !is_string(mode, "required"))
        return err_set(e, ST_ARGUMENT, field, "%s.mode must be 'auto' or 'required'", field);
    if (!json_is_array(list) || !json_array_size(list))
        return err_set(e, ST_ARGUMENT, field, "%s.tools must be an array of one tool or more", field);
    for (size_t i = 0; i < json_array_size(list); i++) {
        TRY(find_tool(tools, json_array_get(list, i), field, &at, e));
        server_set_add(out->allowed, at);
    }
    out->some = true;
    out->choice = is_string(mode, "auto") ? FORMAT_AUTO : FORMAT_REQUIRED;
    return ST_OK;
}

static enum status parse_choice(const json_t *tools, const json_t *choice, struct openai_tools *out, struct err *e)
{
    static const char field[] = "tool_choice";
    if (!choice || is_string(choice, "auto"))
        return ST_OK;
    if (is_string(choice, "none")) {
        out->hidden = true;
        return ST_OK;
    }
    if (json_is_string(choice) && !is_string(choice, "required"))
        return err_set(e, ST_ARGUMENT, field, "tool_choice must be 'none', 'auto', 'required' or an object, not '%.40s'",
                       json_string_value(choice));
    if (!json_array_size(tools))
        return err_set(e, ST_ARGUMENT, field, "tool_choice asks for a call, but there are no tools");
    if (json_is_string(choice)) {
        out->choice = FORMAT_REQUIRED;
        return ST_OK;
    }
    if (is_string(json_object_get(choice, "type"), "allowed_tools"))
        return parse_allowed(tools, json_object_get(choice, "allowed_tools"), out, e);
    out->choice = FORMAT_NAMED;
    return find_tool(tools, choice, field, &out->named, e);
}

enum status openai_parse_tools(const json_t *root, struct openai_tools *out, struct err *e)
{
    const json_t *tools = http_get(root, "tools"), *choice = http_get(root, "tool_choice");
    *out = (struct openai_tools){.parallel = true};
    TRY(http_get_bool(root, "parallel_tool_calls", &out->parallel, e));
    if (tools && !json_is_array(tools))
        return http_wrong_type(tools, "tools", "an array", e);
    if (choice && !json_is_string(choice) && !json_is_object(choice))
        return http_wrong_type(choice, "tool_choice", "a string or an object", e);
    if (json_array_size(tools) > LIMIT_TOOLS)
        return err_set(e, ST_TOO_LONG, "tools", "tools has more than %u entries", LIMIT_TOOLS);
    TRY(parse_choice(tools, choice, out, e));
    for (uint32_t i = 0; i < json_array_size(tools) && !out->hidden; i++) {
        char field[ERR_FIELD];
        const json_t *strict = http_get(json_object_get(json_array_get(tools, i), "function"), "strict");
        snprintf(field, sizeof field, "tools[%u].function.strict", i);
        if (strict && !json_is_boolean(strict))
            return http_wrong_type(strict, field, "a boolean", e);
        if (json_is_true(strict))
            server_set_add(out->strict, i);
    }
    out->n = out->hidden ? 0 : (uint32_t)json_array_size(tools);
    return ST_OK;
}

/* ---- what they come to ---- */

/* Names from the parsed request, schemas as they were written. */
static void list_tools(const json_t *root, struct cut body, struct format_tool *to)
{
    const json_t *tools = http_get(root, "tools");
    struct cut_iter it = chat_cut_open(chat_cut_member(body, "tools"));
    struct cut key, one;
    for (size_t i = 0; i < json_array_size(tools) && chat_cut_next(&it, &key, &one); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const json_t *name = json_object_get(function, "name");
        to[i] = (struct format_tool){.name = json_string_value(name), .name_n = json_string_length(name)};
        if (http_get(function, "parameters")) {
            struct cut text = chat_cut_member(chat_cut_member(one, "function"), "parameters");
            to[i].schema = text.s;
            to[i].schema_n = text.n;
        }
    }
}

struct server_calls openai_calls(const struct openai_tools *tools, const struct format_tool *list,
                                 const struct format_shape *shape, const char *schema_field)
{
    return (struct server_calls){
        .tools = list,
        .n = tools->n,
        .strict = tools->strict,
        .allowed = tools->some ? tools->allowed : NULL,
        .choice = tools->choice,
        .named = tools->named,
        .parallel = tools->parallel,
        .shape = shape,
        .schema_field = schema_field,
        .choice_field = "tool_choice",
    };
}

enum status openai_constrain_calls(const struct server *srv, const json_t *root, struct text_view body,
                                   const struct openai_tools *tools, const struct format_shape *shape,
                                   struct reply_job *job, struct err *e)
{
    struct format_tool *list = calloc(tools->n, sizeof *list);
    if (!list)
        return err_set(e, ST_NO_MEMORY, "tools", "no memory for %u tools", tools->n);
    const struct server_calls calls = openai_calls(tools, list, shape, "function.parameters");
    list_tools(root, chat_cut_text(body.data, body.n), list);
    enum status st = server_constrain_calls(srv, &calls, job, e);
    free(list);
    return st;
}
