/*
 * hermes: JSON between tags, as Hermes and Qwen write it. Also what models are told that have no format of their own.
 *
 *     <tool_call>
 *     {"name": "f", "arguments": {"a": 1}}
 *     </tool_call>
 */
#include "format/inside.h"

static const struct format_mark OPENERS[] = {{"<tool_call>", 0, 0}, {0}};

static const struct format_step STEPS[] = {
    {STEP_OBJECT, 0, 0, {{"", 1, 0}}},
    {STEP_MARKS, STEP_WS | STEP_FINAL | STEP_SOFT, 0, {{"</tool_call>", STEP_OUT, MARK_END}}},
    {0},
};

static const char *const MARKS[] = {"<tool_call>", "</tool_call>", NULL};

static bool detect(const char *source, size_t n)
{
    return format_has(source, n, "<tool_call>") && !format_has(source, n, "<function=") &&
           !format_has(source, n, "arg_key>") && !format_has(source, n, "<tool_calls>") &&
           !format_has(source, n, "minimax");
}

const struct format format_hermes = {
    .name = "hermes",
    .form = FORM_OBJECT,
    .openers = OPENERS,
    .steps = STEPS,
    .marks = MARKS,
    .shape = {.open = "<tool_call>\n{\"name\": \"", .named = "\", \"arguments\": ", .close = "}\n</tool_call>",
              .between = "\n", .item_sep = ", ", .key_sep = ": ", .thought = "\n\n"},
    .detect = detect,
};
