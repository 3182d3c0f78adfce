/*
 * mistral: calls behind a control token, in two generations: an array of objects, and name and arguments apart.
 *
 *     [TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "123456789"}]
 *     [TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": 1}
 */
#include "format/inside.h"

static const struct format_mark OPENERS[] = {{"[TOOL_CALLS]", 0, 0}, {0}};

static const struct format_step ARRAY_STEPS[] = {
    {STEP_MARKS, STEP_WS, 0, {{"[", 1, 0}}},
    {STEP_MARKS, STEP_WS, 0, {{"{", 2, MARK_AGAIN}}},
    {STEP_OBJECT, 0, 0, {{"", 3, 0}}},
    {STEP_MARKS, STEP_WS | STEP_FINAL, 0, {{",", 1, MARK_END}, {"]", STEP_OUT, MARK_END}}},
    {0},
};

static const struct format_step ARGS_STEPS[] = {
    {STEP_NAME, STEP_WS, 0, {{"[ARGS]", 2, 0}, {"[CALL_ID]", 1, 0}, {"{", 2, MARK_AGAIN}}},
    {STEP_SKIP, 0, RECOGNISER_NAMED, {{"[ARGS]", 2, 0}}},
    {STEP_ARGS, 0, 0, {{"", STEP_OUT, MARK_END}}},
    {0},
};

static const char *const MARKS[] = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", NULL};

static bool detect_args(const char *source, size_t n)
{
    return format_has(source, n, "[TOOL_CALLS]") && format_has(source, n, "[ARGS]");
}

static bool detect_array(const char *source, size_t n)
{
    return format_has(source, n, "[TOOL_CALLS]") && !detect_args(source, n);
}

const struct format format_mistral = {
    .name = "mistral",
    .form = FORM_OBJECT,
    .keeps_special = true,
    .openers = OPENERS,
    .steps = ARRAY_STEPS,
    .marks = MARKS,
    .shape = {.before = "[TOOL_CALLS][", .open = "{\"name\": \"", .named = "\", \"arguments\": ",
              .close = ", \"id\": \"" FORMAT_ID "\"}", .between = ", ", .after = "]", .item_sep = ", ", .key_sep = ": "},
    .detect = detect_array,
};

const struct format format_mistral_args = {
    .name = "mistral-args",
    .form = FORM_NAMED,
    .keeps_special = true,
    .openers = OPENERS,
    .steps = ARGS_STEPS,
    .marks = MARKS,
    .shape = {.open = "[TOOL_CALLS]", .named = "[ARGS]", .item_sep = ", ", .key_sep = ": "},
    .detect = detect_args,
};
