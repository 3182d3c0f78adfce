/*
 * gemma: calls in a notation of its own between control tokens, as Gemma 4 writes them, and FunctionGemma with others.
 *
 *     <|tool_call>call:f{a:1,b:<|"|>text<|"|>}<tool_call|>
 */
#include "format/inside.h"

static const struct format_mark GEMMA_OPENERS[] = {{"<|tool_call>", 0, 0}, {0}};
static const struct format_mark FUNCTION_OPENERS[] = {{"<start_function_call>", 0, 0}, {0}};

#define CALL(end) \
    {STEP_MARKS, STEP_WS, 0, {{"call:", 1, 0}}}, {STEP_NAME, STEP_WS, 0, {{"{", 2, 0}}}, \
    {STEP_BARE, 0, 0, {{"", 3, 0}}}, \
    {STEP_MARKS, STEP_WS | STEP_FINAL | STEP_SOFT, 0, {{end, STEP_OUT, MARK_END}}}

static const struct format_step GEMMA_STEPS[] = {CALL("<tool_call|>"), {0}};
static const struct format_step FUNCTION_STEPS[] = {CALL("<end_function_call>"), {0}};
static const char *const GEMMA_MARKS[] = {"<|tool_call>", "<tool_call|>", "<|\"|>", NULL};
static const char *const FUNCTION_MARKS[] = {"<start_function_call>", "<end_function_call>", "<escape>", NULL};

static bool detect_gemma(const char *source, size_t n)
{
    return format_has(source, n, "<|tool_call>call:");
}

static bool detect_function(const char *source, size_t n)
{
    return format_has(source, n, "<start_function_call>");
}

const struct format format_gemma = {
    .name = "gemma",
    .form = FORM_BARE,
    .keeps_special = true,
    .openers = GEMMA_OPENERS,
    .steps = GEMMA_STEPS,
    .quote = "<|\"|>",
    .marks = GEMMA_MARKS,
    .shape = {.open = "<|tool_call>call:", .named = "{", .close = "}<tool_call|>", .item_sep = ",", .key_sep = ":",
              .sorted = true},
    .detect = detect_gemma,
};

const struct format format_functiongemma = {
    .name = "functiongemma",
    .form = FORM_BARE,
    .keeps_special = true,
    .openers = FUNCTION_OPENERS,
    .steps = FUNCTION_STEPS,
    .quote = "<escape>",
    .marks = FUNCTION_MARKS,
    .shape = {.open = "<start_function_call>call:", .named = "{", .close = "}<end_function_call>", .item_sep = ",",
              .key_sep = ":", .sorted = true},
    .detect = detect_function,
};
