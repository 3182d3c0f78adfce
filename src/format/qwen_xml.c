/*
 * qwen_xml: keys and values between tags, as Qwen3-Coder, Qwen 3.5 and others write them, and Seed-OSS with tags of its
 * own.
 *
 *     <tool_call>
 *     <function=f>
 *     <parameter=a>
 *     1
 *     </parameter>
 *     </function>
 *     </tool_call>
 *
 * Models leave out the outer tags now and then; the call counts all the same.
 */
#include "format/inside.h"

#define FUNCTION(outer_close, lines) \
    {STEP_MARKS, STEP_WS, 0, {{"<function=", 1, 0}}},                                                              \
    {STEP_NAME, STEP_WS, 0, {{">", 2, 0}}},                                                                        \
    {STEP_MARKS, STEP_WS, RECOGNISER_ARGS, {{"<parameter=", 3, 0}, {"</function>", 6, 0}}},                        \
    {STEP_KEY, 0, 0, {{">", 4, 0}}},                                                                               \
    {STEP_VALUE, lines, 0, {{"</parameter>", 5, 0}}},                                                              \
    {STEP_MARKS, STEP_WS, RECOGNISER_VALUE_DONE, {{"<parameter=", 3, 0}, {"</function>", 6, 0}}},                  \
    {STEP_MARKS, STEP_WS | STEP_FINAL | STEP_SOFT, 0, {{outer_close, STEP_OUT, MARK_END}}}

static const struct format_mark QWEN_OPENERS[] = {{"<tool_call>", 0, 0}, {"<function=", 1, 0}, {0}};
static const struct format_mark SEED_OPENERS[] = {{"<seed:tool_call>", 0, 0}, {"<function=", 1, 0}, {0}};
static const struct format_step QWEN_STEPS[] = {FUNCTION("</tool_call>", STEP_LINES), {0}};
static const struct format_step SEED_STEPS[] = {FUNCTION("</seed:tool_call>", 0), {0}};
static const char *const QWEN_MARKS[] = {"<tool_call>", "</tool_call>", NULL};
static const char *const SEED_MARKS[] = {"<seed:tool_call>", "</seed:tool_call>", NULL};

static bool detect_qwen(const char *source, size_t n)
{
    return format_has(source, n, "<tool_call>") && format_has(source, n, "<function=") &&
           format_has(source, n, "<parameter=");
}

static bool detect_seed(const char *source, size_t n)
{
    return format_has(source, n, "<seed:tool_call>") && format_has(source, n, "<function=");
}

const struct format format_qwen_xml = {
    .name = "qwen-xml",
    .form = FORM_PAIRS,
    .openers = QWEN_OPENERS,
    .steps = QWEN_STEPS,
    .marks = QWEN_MARKS,
    .shape = {.open = "<tool_call>\n<function=", .named = ">\n", .close = "</function>\n</tool_call>", .between = "\n",
              .key_open = "<parameter=", .key_close = ">\n", .value_close = "\n</parameter>\n", .item_sep = ", ",
              .key_sep = ": ", .thought = "\n\n", .python_words = true},
    .detect = detect_qwen,
};

const struct format format_seed = {
    .name = "seed",
    .form = FORM_PAIRS,
    .keeps_special = true,
    .openers = SEED_OPENERS,
    .steps = SEED_STEPS,
    .marks = SEED_MARKS,
    .shape = {.open = "<seed:tool_call>\n<function=", .named = ">\n", .close = "</function>\n</seed:tool_call>",
              .between = "\n", .key_open = "<parameter=", .key_close = ">", .value_close = "</parameter>\n",
              .item_sep = ", ", .key_sep = ": ", .thought = "\n", .python_words = true},
    .detect = detect_seed,
};
