/*
 * responses_tools: tools, tool_choice and parallel_tool_calls of the Responses API. Only functions, which the client runs
 * itself; tools that the API's own servers run are refused by their names.
 */
#include <stdio.h>
#include <string.h>

#include "server/dialect/responses.h"
#include "server/http/json_in.h"

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* ---- one tool ---- */

static enum status check_type(const json_t *tool, uint32_t i, struct err *e)
{
    char field[ERR_FIELD];
    const json_t *type = http_get(tool, "type");
    snprintf(field, sizeof field, "tools[%u].type", i);
    if (!json_is_string(type))
        return http_wrong_type(type, field, "a string", e);
    if (is_string(type, "function"))
        return ST_OK;
    return err_set(e, ST_UNSUPPORTED, field, "%s '%.60s' is not supported: the only tools here are functions, which the "
                   "client runs", field, json_string_value(type));
}

/* What asks for something that is not done here. */
static enum status check_unsupported(const json_t *tool, uint32_t i, struct err *e)
{
    static const char *const members[] = {"allowed_callers", "async", "defer_loading"};
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        const json_t *v = http_get(tool, members[k]);
        bool direct = json_array_size(v) == 1 && is_string(json_array_get(v, 0), "direct");
        if (!v || json_is_false(v) || direct || (json_is_array(v) && !json_array_size(v)))
            continue;
        char field[ERR_FIELD];
        snprintf(field, sizeof field, "tools[%u].%s", i, members[k]);
        return err_set(e, ST_UNSUPPORTED, field, "%s is not supported by this version", field);
    }
    return ST_OK;
}

static enum status check_types(const json_t *tool, uint32_t i, struct err *e)
{
    char field[ERR_FIELD];
    const json_t *name = http_get(tool, "name"), *schema = http_get(tool, "parameters");
    const json_t *description = http_get(tool, "description"), *strict = http_get(tool, "strict");
    if (!json_is_string(name) || !json_string_length(name)) {
        snprintf(field, sizeof field, "tools[%u].name", i);
        return err_set(e, ST_ARGUMENT, field, "%s must be a string that is not empty", field);
    }
    if (description && !json_is_string(description)) {
        snprintf(field, sizeof field, "tools[%u].description", i);
        return http_wrong_type(description, field, "a string", e);
    }
    if (schema && !json_is_object(schema)) {
        snprintf(field, sizeof field, "tools[%u].parameters", i);
        return http_wrong_type(schema, field, "a JSON Schema", e);
    }
    snprintf(field, sizeof field, "tools[%u].strict", i);
    return strict && !json_is_boolean(strict) ? http_wrong_type(strict, field, "a boolean", e) : ST_OK;
}

static enum status check_tool(const json_t *tool, uint32_t i, struct err *e)
{
    char field[ERR_FIELD];
    snprintf(field, sizeof field, "tools[%u]", i);
    if (!json_is_object(tool))
        return http_wrong_type(tool, field, "an object", e);
    TRY(check_type(tool, i, e));
    TRY(check_unsupported(tool, i, e));
    return check_types(tool, i, e);
}

/* ---- the choice ---- */

/* Index of the tool that {"type":"function","name":…} names. */
static enum status find_tool(const json_t *tools, const json_t *v, const char *field, uint32_t *at, struct err *e)
{
    const json_t *type = http_get(v, "type"), *name = http_get(v, "name");
    if (!json_is_string(type))
        return err_set(e, ST_ARGUMENT, field, "%s.type must be a string, not %s", field, http_json_type(type));
    if (!is_string(type, "function"))
        return err_set(e, ST_UNSUPPORTED, field, "%s: '%.60s' is not supported, the only tools here are functions", field,
                       json_string_value(type));
    if (!json_is_string(name))
        return err_set(e, ST_ARGUMENT, field, "%s.name must be a string, not %s", field, http_json_type(name));
    for (uint32_t i = 0; i < json_array_size(tools); i++)
        if (json_equal(name, json_object_get(json_array_get(tools, i), "name"))) {
            *at = i;
            return ST_OK;
        }
    return err_set(e, ST_ARGUMENT, field, "%s names '%.80s', which is none of the tools", field, json_string_value(name));
}

/* {"type":"allowed_tools","mode":"auto"|"required","tools":[{"type":"function","name":…},…]} */
static enum status parse_allowed(const json_t *tools, const json_t *v, struct openai_tools *out, struct err *e)
{
    static const char field[] = "tool_choice.tools";
    const json_t *mode = http_get(v, "mode"), *list = http_get(v, "tools");
    uint32_t at;
    if (!is_string(mode, "auto") && !is_string(mode, "required"))
        return err_set(e, ST_ARGUMENT, "tool_choice.mode", "tool_choice.mode must be 'auto' or 'required'");
    if (!json_is_array(list) || !json_array_size(list))
        return err_set(e, ST_ARGUMENT, field, "%s must be an array of one tool or more", field);
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
    out->hidden = is_string(choice, "none");
    if (!choice || out->hidden || is_string(choice, "auto"))
        return ST_OK;
    if (!json_is_object(choice) && !is_string(choice, "required"))
        return err_set(e, ST_ARGUMENT, field, "tool_choice must be 'none', 'auto', 'required' or an object");
    if (!json_array_size(tools))
        return err_set(e, ST_ARGUMENT, field, "tool_choice asks for a call, but there are no tools");
    if (json_is_string(choice)) {
        out->choice = FORMAT_REQUIRED;
        return ST_OK;
    }
    if (is_string(http_get(choice, "type"), "allowed_tools"))
        return parse_allowed(tools, choice, out, e);
    out->choice = FORMAT_NAMED;
    return find_tool(tools, choice, field, &out->named, e);
}

enum status responses_parse_tools(const json_t *root, struct openai_tools *out, struct err *e)
{
    const json_t *tools = http_get(root, "tools");
    *out = (struct openai_tools){.parallel = true};
    TRY(http_get_bool(root, "parallel_tool_calls", &out->parallel, e));
    if (tools && !json_is_array(tools))
        return http_wrong_type(tools, "tools", "an array", e);
    if (json_array_size(tools) > LIMIT_TOOLS)
        return err_set(e, ST_TOO_LONG, "tools", "tools has more than %u entries", LIMIT_TOOLS);
    for (uint32_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        TRY(check_tool(tool, i, e));
        if (json_is_true(http_get(tool, "strict")))
            server_set_add(out->strict, i);
    }
    TRY(parse_choice(tools, http_get(root, "tool_choice"), out, e));
    out->n = out->hidden ? 0 : (uint32_t)json_array_size(tools);
    return ST_OK;
}

/* ---- what chat and format get ---- */

void responses_list_tools(const json_t *root, struct text_view body, struct format_tool *to)
{
    const json_t *tools = http_get(root, "tools");
    struct cut_iter it = chat_cut_open(chat_cut_member(chat_cut_text(body.data, body.n), "tools"));
    struct cut key, one;
    for (size_t i = 0; i < json_array_size(tools) && chat_cut_next(&it, &key, &one); i++) {
        const json_t *name = json_object_get(json_array_get(tools, i), "name");
        const struct cut schema = chat_cut_member(one, "parameters");
        to[i] = (struct format_tool){.name = json_string_value(name), .name_n = json_string_length(name)};
        if (chat_cut_kind_of(schema) == CUT_OBJECT) {
            to[i].schema = schema.s;
            to[i].schema_n = schema.n;
        }
    }
}

void responses_write_tools(struct text_view body, struct buf *out)
{
    struct cut_iter it = chat_cut_open(chat_cut_member(chat_cut_text(body.data, body.n), "tools"));
    struct cut key, one;
    bool first = true;
    buf_adds(out, "[");
    for (; chat_cut_next(&it, &key, &one); first = false) {
        const struct cut name = chat_cut_member(one, "name");
        buf_adds(out, first ? "{\"type\":\"function\",\"function\":{\"name\":"
                            : ",{\"type\":\"function\",\"function\":{\"name\":");
        buf_add(out, name.s, name.n);
        chat_cut_put("description", chat_cut_member(one, "description"), out);
        chat_cut_put("parameters", chat_cut_member(one, "parameters"), out);
        buf_adds(out, "}}");
    }
    buf_adds(out, "]");
}
