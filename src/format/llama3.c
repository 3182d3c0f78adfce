/*
 * llama3: a bare JSON object that comes first in the reply, as Llama 3.1 to 3.3 write it; <|python_tag|> may stand before
 * it. Several are separated by semicolons.
 *
 *     {"name": "f", "parameters": {"a": 1}}
 */
#include "format/inside.h"

static const struct format_mark OPENERS[] = {{"<|python_tag|>", 0, 0}, {"{", 1, MARK_AGAIN}, {";", 0, 0}, {0}};

static const struct format_step STEPS[] = {
    {STEP_MARKS, STEP_WS, 0, {{"{", 1, MARK_AGAIN}}},
    {STEP_OBJECT, 0, 0, {{"", STEP_OUT, MARK_END}}},
    {0},
};

static const char *const MARKS[] = {"<|python_tag|>", NULL};

static bool detect(const char *source, size_t n)
{
    return format_has(source, n, "<|start_header_id|>") && format_has(source, n, "\"parameters\": ") &&
           format_has(source, n, "ipython");
}

const struct format format_llama3 = {
    .name = "llama3",
    .form = FORM_OBJECT,
    .keeps_special = true,
    .at_start = true,
    .openers = OPENERS,
    .steps = STEPS,
    .marks = MARKS,
    .shape = {.open = "{\"name\": \"", .named = "\", \"parameters\": ", .close = "}", .between = "; ",
              .item_sep = ", ", .key_sep = ": ", .thought = "\n\n"},
    .detect = detect,
};
