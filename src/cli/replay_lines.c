/* replay_lines: see replay_lines.h. */
#include "cli/replay_lines.h"

#include <stdlib.h>
#include <string.h>

#define CLASS_BYTES 64u

/* What is being read, for sentences. */
struct reader {
    struct replay_lines *out;
    const char *name;
    uint32_t number;
};

static enum status wrong(const struct reader *r, const char *member, const char *what, struct err *e)
{
    return err_set(e, ST_ARGUMENT, member, "%.100s: line %u: %s%s%s", r->name, r->number, member, member[0] ? " " : "",
                   what);
}

/* --- members --------------------------------------------------------------------------------------------------------- */

static enum status check_names(const struct reader *r, const json_t *root, struct err *e)
{
    static const char *const known[] = {"class",           "messages", "tools", "tool_choice",
                                        "response_format", "reply",    "chat_template_kwargs"};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)root, name, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return err_set(e, ST_ARGUMENT, "", "%.100s: line %u: \"%.40s\" is not a member that a line can have", r->name,
                           r->number, name);
    }
    return ST_OK;
}

static const char *tool_name(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static enum status check_tools(const struct reader *r, const json_t *tools, struct err *e)
{
    if (!tools)
        return ST_OK;
    if (!json_is_array(tools))
        return wrong(r, "tools", "must be an array", e);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *name = tool_name(json_array_get(tools, i));
        if (!name || !name[0])
            return wrong(r, "tools", "must hold objects with a function that has a name", e);
    }
    return ST_OK;
}

static bool has_tool(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (strcmp(tool_name(json_array_get(tools, i)), name) == 0)
            return true;
    return false;
}

static enum status check_choice(const struct reader *r, const json_t *root, struct err *e)
{
    const json_t *choice = json_object_get(root, "tool_choice"), *tools = json_object_get(root, "tools");
    const char *word = json_string_value(choice), *name = tool_name(choice);
    if (!choice)
        return ST_OK;
    if (!name && !(word && (strcmp(word, "none") == 0 || strcmp(word, "auto") == 0 || strcmp(word, "required") == 0)))
        return wrong(r, "tool_choice", "must be none, auto, required, or an object with a function that has a name", e);
    if (name && !has_tool(tools, name))
        return wrong(r, "tool_choice", "names a function that tools does not have", e);
    if (word && strcmp(word, "required") == 0 && !json_array_size(tools))
        return wrong(r, "tool_choice", "is required, but there are no tools", e);
    return ST_OK;
}

static enum status check_format(const struct reader *r, const json_t *root, struct err *e)
{
    const json_t *format = json_object_get(root, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format)
        return ST_OK;
    if (!type || (strcmp(type, "text") != 0 && strcmp(type, "json_object") != 0 && strcmp(type, "json_schema") != 0))
        return wrong(r, "response_format", "must be an object whose type is text, json_object or json_schema", e);
    if (strcmp(type, "json_schema") == 0 &&
        !json_is_object(json_object_get(json_object_get(format, "json_schema"), "schema")))
        return wrong(r, "response_format", "has no json_schema.schema", e);
    return ST_OK;
}

/* The class of that name; its name is kept where the line has it. */
static enum status find_class(const struct reader *r, const char *name, uint32_t *out, struct err *e)
{
    struct replay_lines *l = r->out;
    uint32_t i = 0;
    size_t n = name ? strlen(name) : 0;
    if (n == 0 || n > CLASS_BYTES)
        return wrong(r, "class", "must be a string of 1 to 64 bytes", e);
    while (i < l->classes && strcmp(l->cls[i], name) != 0)
        i++;
    if (i == LIMIT_REPLAY_CLASSES)
        return err_set(e, ST_TOO_LONG, "class", "%.100s: line %u: more than %u classes", r->name, r->number,
                       LIMIT_REPLAY_CLASSES);
    if (i == l->classes)
        l->cls[l->classes++] = name;
    *out = i;
    return ST_OK;
}

/* --- lines ----------------------------------------------------------------------------------------------------------- */

/* jansson's own recursion ends at 2048 levels; other readers of the same bytes are promised fewer. */
static bool too_deep(const char *s, size_t n)
{
    uint32_t depth = 0;
    bool string = false;
    for (size_t i = 0; i < n; i++) {
        if (string && s[i] == '\\')
            i++; /* and what it escapes */
        else if (s[i] == '"')
            string = !string;
        else if (!string && (s[i] == '[' || s[i] == '{') && ++depth > LIMIT_JSON_DEPTH)
            return true;
        else if (!string && (s[i] == ']' || s[i] == '}') && depth)
            depth--;
    }
    return false;
}

static enum status check_line(const struct reader *r, struct replay_line *l, struct err *e)
{
    const json_t *messages = json_object_get(l->root, "messages"), *reply = json_object_get(l->root, "reply");
    TRY(check_names(r, l->root, e));
    TRY(find_class(r, json_string_value(json_object_get(l->root, "class")), &l->cls, e));
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return wrong(r, "messages", "must be an array with at least one message", e);
    if (json_array_size(messages) > LIMIT_MESSAGES)
        return wrong(r, "messages", "has too many messages", e);
    if (!json_is_string(reply) || json_string_length(reply) == 0)
        return wrong(r, "reply", "must be a string that is not empty", e);
    l->reply = json_string_value(reply);
    l->reply_n = json_string_length(reply);
    TRY(check_tools(r, json_object_get(l->root, "tools"), e));
    TRY(check_choice(r, l->root, e));
    return check_format(r, l->root, e);
}

static enum status read_line(const struct reader *r, const char *s, size_t n, struct err *e)
{
    struct replay_line *l = &r->out->line[r->out->n];
    json_error_t why;
    if (n > LIMIT_BODY)
        return err_set(e, ST_TOO_LONG, "", "%.100s: line %u: more than %u bytes", r->name, r->number, LIMIT_BODY);
    if (too_deep(s, n))
        return err_set(e, ST_TOO_LONG, "", "%.100s: line %u: nested deeper than %u levels", r->name, r->number,
                       LIMIT_JSON_DEPTH);
    *l = (struct replay_line){.number = r->number, .json = s, .n = n};
    l->root = json_loadb(s, n, JSON_REJECT_DUPLICATES, &why);
    if (!l->root)
        return err_set(e, ST_ARGUMENT, "", "%.100s: line %u: not JSON: %.100s (column %d)", r->name, r->number, why.text,
                       why.column);
    r->out->n++; /* from here on release() gives root back */
    if (!json_is_object(l->root))
        return wrong(r, "", "not a JSON object", e);
    return check_line(r, l, e);
}

static enum status read_lines(struct reader *r, struct err *e)
{
    struct replay_lines *l = r->out;
    const char *s = l->text.data, *end = s + l->text.len;
    size_t lines = 1;
    for (const char *p = s; p < end; p++)
        lines += *p == '\n';
    if (lines > LIMIT_REPLAY_LINES)
        return err_set(e, ST_TOO_LONG, "", "%.100s: %zu lines are more than %u", r->name, lines, LIMIT_REPLAY_LINES);
    l->line = calloc(lines, sizeof *l->line);
    if (!l->line)
        return err_set(e, ST_NO_MEMORY, "", "%.100s: no memory for %zu lines", r->name, lines);
    while (s < end) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((stop ? stop : end) - s);
        size_t blank = 0;
        r->number++;
        while (blank < n && (s[blank] == ' ' || s[blank] == '\t' || s[blank] == '\r'))
            blank++;
        if (blank < n)
            TRY(read_line(r, s, n, e));
        s += n + (stop != NULL);
    }
    return l->n ? ST_OK : err_set(e, ST_ARGUMENT, "", "%.100s: no conversation in it", r->name);
}

enum status replay_lines_init(struct replay_lines *out, struct buf *text, const char *name, struct err *e)
{
    *out = (struct replay_lines){.text = *text};
    *text = (struct buf){0};
    struct reader r = {.out = out, .name = name};
    enum status st = out->text.len ? read_lines(&r, e) : err_set(e, ST_ARGUMENT, "", "%.100s: it is empty", name);
    if (st != ST_OK)
        replay_lines_release(out);
    return st;
}

void replay_lines_release(struct replay_lines *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        json_decref(l->line[i].root);
    free(l->line);
    buf_release(&l->text);
    *l = (struct replay_lines){0};
}

bool replay_line_hides_tools(const struct replay_line *l)
{
    const char *choice = json_string_value(json_object_get(l->root, "tool_choice"));
    return choice && strcmp(choice, "none") == 0;
}
