/*
 * deepseek: calls in a section of their own, in three generations: V3 and R1, V3.1, and the tags of V3.2 and V4.
 *
 *     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
 *     ```json
 *     {"a": 1}
 *     ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
 *
 *     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
 *
 *     <｜DSML｜function_calls>
 *     <｜DSML｜invoke name="f">
 *     <｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>
 *     </｜DSML｜invoke>
 *     </｜DSML｜function_calls>
 */
#include "format/inside.h"

#define CALLS_BEGIN "<｜tool▁calls▁begin｜>"
#define CALLS_END "<｜tool▁calls▁end｜>"
#define CALL_BEGIN "<｜tool▁call▁begin｜>"
#define CALL_END "<｜tool▁call▁end｜>"
#define SEP "<｜tool▁sep｜>"

static const struct format_mark OPENERS[] = {{CALLS_BEGIN, 0, 0}, {CALL_BEGIN, 1, 0}, {0}};

static const struct format_step V3_STEPS[] = {
    {STEP_MARKS, STEP_WS, 0, {{CALL_BEGIN, 1, 0}}},
    {STEP_SKIP, 0, 0, {{SEP, 2, 0}}},
    {STEP_NAME, STEP_WS, 0, {{"\n", 3, 0}}},
    {STEP_MARKS, STEP_WS, RECOGNISER_NAMED, {{"```json", 4, 0}}},
    {STEP_ARGS, 0, 0, {{"", 5, 0}}},
    {STEP_MARKS, STEP_WS, RECOGNISER_CLOSING, {{"```", 6, 0}}},
    {STEP_MARKS, STEP_WS | STEP_FINAL, 0, {{CALL_END, 7, MARK_END}}},
    {STEP_MARKS, STEP_WS | STEP_FINAL, 0, {{CALL_BEGIN, 1, 0}, {CALLS_END, STEP_OUT, 0}}},
    {0},
};

static const struct format_step V31_STEPS[] = {
    {STEP_MARKS, STEP_WS, 0, {{CALL_BEGIN, 1, 0}}},
    {STEP_NAME, STEP_WS, 0, {{SEP, 2, 0}}},
    {STEP_ARGS, 0, 0, {{"", 3, 0}}},
    {STEP_MARKS, STEP_WS | STEP_FINAL, 0, {{CALL_END, 4, MARK_END}}},
    {STEP_MARKS, STEP_WS | STEP_FINAL, 0, {{CALL_BEGIN, 1, 0}, {CALLS_END, STEP_OUT, 0}}},
    {0},
};

static const char *const MARKS[] = {CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, SEP, NULL};

#define DSML "｜DSML｜"
#define INVOKE "<" DSML "invoke name=\""
#define PARAMETER "<" DSML "parameter name=\""
#define PARAMETER_END "</" DSML "parameter>"
#define INVOKE_END "</" DSML "invoke>"

#define DSML_STEPS(section) \
    {STEP_MARKS, STEP_WS, 0, {{INVOKE, 1, 0}}}, \
    {STEP_NAME, 0, 0, {{"\">", 2, 0}}}, \
    {STEP_MARKS, STEP_WS, RECOGNISER_ARGS, {{PARAMETER, 3, 0}, {INVOKE_END, 7, MARK_END}}}, \
    {STEP_KEY, 0, 0, {{"\" string=\"true\">", 4, 0}, {"\" string=\"false\">", 5, 0}}}, \
    {STEP_STRING, 0, 0, {{PARAMETER_END, 6, 0}}}, \
    {STEP_JSON, 0, 0, {{PARAMETER_END, 6, 0}}}, \
    {STEP_MARKS, STEP_WS, RECOGNISER_VALUE_DONE, {{PARAMETER, 3, 0}, {INVOKE_END, 7, MARK_END}}}, \
    {STEP_MARKS, STEP_WS | STEP_FINAL, 0, {{INVOKE, 1, 0}, {"</" DSML section ">", STEP_OUT, 0}}}

static const struct format_mark V32_OPENERS[] = {{"<" DSML "function_calls>", 0, 0}, {0}};
static const struct format_mark V4_OPENERS[] = {{"<" DSML "tool_calls>", 0, 0}, {0}};
static const struct format_step V32_STEPS[] = {DSML_STEPS("function_calls"), {0}};
static const struct format_step V4_STEPS[] = {DSML_STEPS("tool_calls"), {0}};
static const char *const DSML_MARKS[] = {DSML, NULL};

static bool detect_v3(const char *source, size_t n)
{
    return format_has(source, n, CALLS_BEGIN) && format_has(source, n, "```json");
}

static bool detect_v31(const char *source, size_t n)
{
    return format_has(source, n, CALLS_BEGIN) && !format_has(source, n, "```json");
}

static bool detect_v32(const char *source, size_t n)
{
    return format_has(source, n, DSML) && format_has(source, n, "function_calls>");
}

static bool detect_v4(const char *source, size_t n)
{
    return format_has(source, n, DSML) && !format_has(source, n, "function_calls>");
}

const struct format format_deepseek = {
    .name = "deepseek",
    .form = FORM_NAMED,
    .keeps_special = true,
    .openers = OPENERS,
    .steps = V3_STEPS,
    .marks = MARKS,
    .shape = {.before = CALLS_BEGIN, .open = CALL_BEGIN "function" SEP, .named = "\n```json\n",
              .close = "\n```" CALL_END, .between = "\n", .after = CALLS_END, .item_sep = ", ", .key_sep = ": ",
              .thought = "\n\n"},
    .detect = detect_v3,
};

const struct format format_deepseek_v31 = {
    .name = "deepseek-v3.1",
    .form = FORM_NAMED,
    .keeps_special = true,
    .openers = OPENERS,
    .steps = V31_STEPS,
    .marks = MARKS,
    .shape = {.before = CALLS_BEGIN, .open = CALL_BEGIN, .named = SEP, .close = CALL_END, .after = CALLS_END,
              .item_sep = ", ", .key_sep = ": "},
    .detect = detect_v31,
};

#define DSML_SHAPE(section) \
    {.before = "<" DSML section ">\n", .open = INVOKE, .named = "\">\n", .close = INVOKE_END "\n", \
     .after = "</" DSML section ">", .key_open = PARAMETER, .key_close = "\" string=\"true\">", \
     .key_close_other = "\" string=\"false\">", .value_close = PARAMETER_END "\n", .item_sep = ", ", .key_sep = ": ", \
     .thought = "\n\n"}

const struct format format_deepseek_v32 = {
    .name = "deepseek-v3.2",
    .form = FORM_PAIRS,
    .keeps_special = true,
    .openers = V32_OPENERS,
    .steps = V32_STEPS,
    .marks = DSML_MARKS,
    .shape = DSML_SHAPE("function_calls"),
    .detect = detect_v32,
};

const struct format format_deepseek_v4 = {
    .name = "deepseek-v4",
    .form = FORM_PAIRS,
    .keeps_special = true,
    .openers = V4_OPENERS,
    .steps = V4_STEPS,
    .marks = DSML_MARKS,
    .shape = DSML_SHAPE("tool_calls"),
    .detect = detect_v4,
};
