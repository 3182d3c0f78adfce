/*
 * tell: tools for models whose chat template knows none.
 *
 * Such a model is told in the system's text which functions there are and how to call one, in the shape of Hermes, which
 * is also what its replies are read by (format_detect()). Calls in the conversation are written in that shape behind
 * their message's content, and results come as the user's, since the template may know no other role.
 */
#include <string.h>

#include "chat/chat.h"
#include "chat/cut.h"
#include "chat/private.h"

void chat_tell_tools(struct cut tools, struct buf *text)
{
    struct cut key, tool;
    struct cut_iter it = chat_cut_open(tools);
    buf_adds(text, "You can call functions to answer. These are the functions, each as JSON:\n<tools>\n");
    while (chat_cut_next(&it, &key, &tool)) {
        struct cut function = chat_cut_member(tool, "function");
        buf_add(text, function.s, function.n);
        buf_adds(text, "\n");
    }
    buf_adds(text, "</tools>\nTo call one, write its name and its arguments as JSON between these tags:\n<tool_call>\n"
                   "{\"name\": \"NAME\", \"arguments\": {\"KEY\": \"VALUE\"}}\n</tool_call>");
}

void chat_tell_call(struct cut name, const char *arguments, size_t n, struct buf *text)
{
    buf_adds(text, text->len ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
    buf_add(text, name.s, name.n);
    buf_adds(text, ", \"arguments\": ");
    buf_add(text, arguments, n);
    buf_adds(text, "}\n</tool_call>");
}

/* The inside of a JSON string. Bytes that are not UTF-8 go on as they are: the renderer refuses them. */
static void escape(struct buf *out, const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        if (c == '\n')
            buf_adds(out, "\\n");
        else if (c < 0x20)
            buf_addf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else
            buf_add(out, &c, 1);
    }
    if (text->failed)
        out->failed = true;
}

void chat_tell_string(struct buf *out, const struct buf *text)
{
    buf_adds(out, "\"");
    escape(out, text);
    buf_adds(out, "\"");
}

/* Takes the closing quote or bracket off and puts it back behind the text. */
void chat_tell_append(struct buf *out, const char *between, const struct buf *text)
{
    if (out->failed || !out->len)
        return;
    if (out->data[out->len - 1] == ']') {
        bool first = out->len > 1 && out->data[out->len - 2] == '[';
        out->len--;
        buf_adds(out, first ? "{\"type\":\"text\",\"text\":" : ",{\"type\":\"text\",\"text\":");
        chat_tell_string(out, text);
        buf_adds(out, "}]");
        return;
    }
    bool empty = out->len > 1 && out->data[out->len - 2] == '"' && (out->len < 3 || out->data[out->len - 3] != '\\');
    out->len--;
    if (!empty)
        buf_adds(out, between);
    escape(out, text);
    buf_adds(out, "\"");
}

void chat_tell_result(struct buf *out, const struct buf *content)
{
    static const char open[] = "<tool_response>\\n", close[] = "\\n</tool_response>";
    if (content->failed || content->len < 2) {
        out->failed = true;
        return;
    }
    bool parts = content->data[0] == '[';
    buf_addf(out, parts ? "[{\"type\":\"text\",\"text\":\"%s\"}" : "\"%s", open);
    if (parts && content->len > 2)
        buf_adds(out, ",");
    buf_add(out, content->data + 1, content->len - 2);
    buf_addf(out, parts ? ",{\"type\":\"text\",\"text\":\"%s\"}]" : "%s\"", close);
}
