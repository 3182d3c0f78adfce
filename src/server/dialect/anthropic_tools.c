/* anthropic_tools: which tools there are, and what the reply may do with them. */
#include <stdio.h>
#include <string.h>

#include "server/dialect/anthropic.h"
#include "server/http/json_in.h"

static bool is_string(const json_t *v, const char *s)
{
    return json_is_string(v) && json_string_length(v) == strlen(s) && strcmp(json_string_value(v), s) == 0;
}

/* ---- one tool ---- */

/* What asks for something that is not done here. */
static enum status check_unsupported(const json_t *tool, uint32_t i, struct err *e)
{
    static const char *const members[] = {"allowed_callers", "defer_loading", "input_examples"};
    char field[ERR_FIELD];
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        const json_t *v = http_get(tool, members[k]);
        bool direct = json_array_size(v) == 1 && is_string(json_array_get(v, 0), "direct");
        if (!v || json_is_false(v) || direct || (json_is_array(v) && !json_array_size(v)))
            continue;
        snprintf(field, sizeof field, "tools[%u].%s", i, members[k]);
        return err_set(e, ST_UNSUPPORTED, field, "%s is not supported by this version", field);
    }
    const json_t *type = http_get(tool, "type");
    if (!type || is_string(type, "custom"))
        return ST_OK;
    snprintf(field, sizeof field, "tools[%u].type", i);
    if (!json_is_string(type))
        return http_wrong_type(type, field, "a string", e);
    return err_set(e, ST_UNSUPPORTED, field, "%s '%.60s' is not supported: tools are those of the client, of type 'custom'",
                   field, json_string_value(type));
}

static enum status check_types(const json_t *tool, uint32_t i, struct err *e)
{
    char field[ERR_FIELD];
    const json_t *name = http_get(tool, "name"), *schema = http_get(tool, "input_schema");
    const json_t *description = http_get(tool, "description");
    if (!json_is_string(name) || !json_string_length(name)) {
        snprintf(field, sizeof field, "tools[%u].name", i);
        return err_set(e, ST_ARGUMENT, field, "%s must be a string that is not empty", field);
    }
    if (description && !json_is_string(description)) {
        snprintf(field, sizeof field, "tools[%u].description", i);
        return http_wrong_type(description, field, "a string", e);
    }
    if (!json_is_object(schema)) {
        snprintf(field, sizeof field, "tools[%u].input_schema", i);
        return http_wrong_type(schema, field, "a JSON Schema", e);
    }
    return ST_OK;
}

static enum status parse_tool(const json_t *tool, uint32_t i, struct anthropic_request *out, struct err *e)
{
    char field[ERR_FIELD];
    bool strict = false, eager;
    snprintf(field, sizeof field, "tools[%u]", i);
    if (!json_is_object(tool))
        return http_wrong_type(tool, field, "an object", e);
    TRY(check_unsupported(tool, i, e));
    TRY(check_types(tool, i, e));
    if (http_get_bool(tool, "strict", &strict, e) != ST_OK) {
        snprintf(field, sizeof field, "tools[%u].strict", i);
        return http_wrong_type(http_get(tool, "strict"), field, "a boolean", e);
    }
    if (http_get_bool(tool, "eager_input_streaming", &eager, e) != ST_OK) { /* arguments are always streamed as they come */
        snprintf(field, sizeof field, "tools[%u].eager_input_streaming", i);
        return http_wrong_type(http_get(tool, "eager_input_streaming"), field, "a boolean", e);
    }
    if (strict)
        server_set_add(out->strict, i);
    return ST_OK;
}

/* ---- the choice ---- */

static enum status find_tool(const json_t *tools, const json_t *choice, uint32_t *at, struct err *e)
{
    static const char field[] = "tool_choice.name";
    const json_t *name = http_get(choice, "name");
    if (!json_is_string(name))
        return http_wrong_type(name, field, "a string", e);
    for (uint32_t i = 0; i < json_array_size(tools); i++)
        if (json_equal(name, json_object_get(json_array_get(tools, i), "name"))) {
            *at = i;
            return ST_OK;
        }
    return err_set(e, ST_ARGUMENT, field, "%s '%.80s' is none of the tools", field, json_string_value(name));
}

static enum status parse_choice(const json_t *tools, const json_t *choice, struct anthropic_request *out, struct err *e)
{
    bool one = false;
    if (!choice)
        return ST_OK;
    if (!json_is_object(choice))
        return http_wrong_type(choice, "tool_choice", "an object", e);
    if (http_get_bool(choice, "disable_parallel_tool_use", &one, e) != ST_OK)
        return http_wrong_type(http_get(choice, "disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use",
                               "a boolean", e);
    out->parallel = !one;
    const json_t *type = http_get(choice, "type");
    out->hidden = is_string(type, "none");
    if (out->hidden || is_string(type, "auto"))
        return ST_OK;
    if (!is_string(type, "any") && !is_string(type, "tool"))
        return err_set(e, ST_ARGUMENT, "tool_choice.type", "tool_choice.type must be 'auto', 'any', 'tool' or 'none'");
    if (!out->tools)
        return err_set(e, ST_ARGUMENT, "tool_choice", "tool_choice asks for a call, but there are no tools");
    out->choice = is_string(type, "any") ? FORMAT_REQUIRED : FORMAT_NAMED;
    return is_string(type, "any") ? ST_OK : find_tool(tools, choice, &out->named, e);
}

enum status anthropic_parse_tools(const json_t *root, struct anthropic_request *out, struct err *e)
{
    const json_t *tools = http_get(root, "tools");
    out->parallel = true;
    if (tools && !json_is_array(tools))
        return http_wrong_type(tools, "tools", "an array", e);
    if (json_array_size(tools) > LIMIT_TOOLS)
        return err_set(e, ST_TOO_LONG, "tools", "tools has more than %u entries", LIMIT_TOOLS);
    for (uint32_t i = 0; i < json_array_size(tools); i++)
        TRY(parse_tool(json_array_get(tools, i), i, out, e));
    out->tools = (uint32_t)json_array_size(tools);
    return parse_choice(tools, http_get(root, "tool_choice"), out, e);
}

/* ---- what chat and format get ---- */

void anthropic_list_tools(const json_t *root, struct text_view body, struct format_tool *to)
{
    const json_t *tools = http_get(root, "tools");
    struct cut_iter it = chat_cut_open(chat_cut_member(chat_cut_text(body.data, body.n), "tools"));
    struct cut key, one;
    for (size_t i = 0; i < json_array_size(tools) && chat_cut_next(&it, &key, &one); i++) {
        const json_t *name = json_object_get(json_array_get(tools, i), "name");
        const struct cut schema = chat_cut_member(one, "input_schema");
        to[i] = (struct format_tool){.name = json_string_value(name), .name_n = json_string_length(name),
                                     .schema = schema.s, .schema_n = schema.n};
    }
}

void anthropic_write_tools(struct text_view body, struct buf *out)
{
    struct cut_iter it = chat_cut_open(chat_cut_member(chat_cut_text(body.data, body.n), "tools"));
    struct cut key, one;
    buf_adds(out, "[");
    for (bool first = true; chat_cut_next(&it, &key, &one); first = false) {
        struct cut name = chat_cut_member(one, "name");
        buf_adds(out, first ? "{\"type\":\"function\",\"function\":{\"name\":"
                            : ",{\"type\":\"function\",\"function\":{\"name\":");
        buf_add(out, name.s, name.n);
        chat_cut_put("description", chat_cut_member(one, "description"), out);
        chat_cut_put("parameters", chat_cut_member(one, "input_schema"), out);
        buf_adds(out, "}}");
    }
    buf_adds(out, "]");
}
