/*
 * glm: a name, then keys and values between tags, as GLM 4.5 and later write them, with or without line feeds.
 *
 *     <tool_call>f
 *     <arg_key>a</arg_key>
 *     <arg_value>1</arg_value>
 *     </tool_call>
 */
#include "format/inside.h"

static const struct format_mark OPENERS[] = {{"<tool_call>", 0, 0}, {0}};

static const struct format_step STEPS[] = {
    {STEP_NAME, STEP_WS, 0, {{"\n", 1, 0}, {"<arg_key>", 2, 0}, {"</tool_call>", STEP_OUT, MARK_END}}},
    {STEP_MARKS, STEP_WS, RECOGNISER_ARGS, {{"<arg_key>", 2, 0}, {"</tool_call>", STEP_OUT, MARK_END}}},
    {STEP_KEY, 0, 0, {{"</arg_key>", 3, 0}}},
    {STEP_MARKS, STEP_WS, RECOGNISER_KEYED, {{"<arg_value>", 4, 0}}},
    {STEP_VALUE, 0, 0, {{"</arg_value>", 5, 0}}},
    {STEP_MARKS, STEP_WS, RECOGNISER_VALUE_DONE, {{"<arg_key>", 2, 0}, {"</tool_call>", STEP_OUT, MARK_END}}},
    {0},
};

static const char *const MARKS[] = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                                    "</arg_value>", NULL};

static bool detect(const char *source, size_t n)
{
    return format_has(source, n, "<tool_call>") && format_has(source, n, "<arg_key>") &&
           format_has(source, n, "<arg_value>");
}

const struct format format_glm = {
    .name = "glm",
    .form = FORM_PAIRS,
    .keeps_special = true,
    .openers = OPENERS,
    .steps = STEPS,
    .marks = MARKS,
    .shape = {.open = "<tool_call>", .named = "\n", .close = "</tool_call>", .between = "\n", .key_open = "<arg_key>",
              .key_close = "</arg_key>\n<arg_value>", .value_close = "</arg_value>\n", .item_sep = ", ",
              .key_sep = ": ", .thought = "\n"},
    .detect = detect,
};
