/*
 * format: the list of formats, and which of them a chat template writes.
 */
#include <string.h>

#include "format/inside.h"

/* In the order in which they are tried. */
static const struct format *const FORMATS[] = {
    &format_qwen_xml, &format_seed, &format_glm, &format_gemma, &format_functiongemma, &format_mistral_args,
    &format_mistral, &format_deepseek_v32, &format_deepseek_v4, &format_deepseek, &format_deepseek_v31, &format_llama3,
    &format_hermes,
};

#define FORMATS_N (sizeof FORMATS / sizeof *FORMATS)

static const struct format_reasoning REASONING[] = {
    {"gemma", "<|channel>thought", "<channel|>", true},
    {"mistral", "[THINK]", "[/THINK]", true},
    {"seed", "<seed:think>", "</seed:think>", true},
    {"command", "<|START_THINKING|>", "<|END_THINKING|>", true},
    {"apertus", "<|inner_prefix|>", "<|inner_suffix|>", true},
    {"minimax", "<mm:think>", "</mm:think>", true},
    {"think", "<think>", "</think>", true},
};

#define REASONING_N (sizeof REASONING / sizeof *REASONING)

bool format_has(const char *source, size_t n, const char *text)
{
    return memmem(source, n, text, strlen(text)) != NULL;
}

static bool named(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && !memcmp(name, text, n);
}

const struct format *format_find(const char *name, size_t n)
{
    for (size_t i = 0; i < FORMATS_N; i++) {
        if (named(FORMATS[i]->name, name, n))
            return FORMATS[i];
    }
    return NULL;
}

const char *format_name_at(size_t i)
{
    return i < FORMATS_N ? FORMATS[i]->name : NULL;
}

const char *format_name(const struct format *f)
{
    return f->name;
}

const struct format *format_detect(const char *source, size_t n)
{
    for (size_t i = 0; i < FORMATS_N; i++) {
        if (FORMATS[i]->detect(source, n))
            return FORMATS[i];
    }
    return format_has(source, n, "tool") ? NULL : &format_hermes;
}

bool format_keeps_special(const struct format *f)
{
    return f->keeps_special;
}

const struct format_reasoning *format_detect_reasoning(const char *source, size_t n)
{
    for (size_t i = 0; i < REASONING_N; i++) {
        if (format_has(source, n, REASONING[i].open) && format_has(source, n, REASONING[i].close))
            return &REASONING[i];
    }
    return NULL;
}

const struct format_reasoning *format_find_reasoning(const char *name, size_t n)
{
    for (size_t i = 0; i < REASONING_N; i++) {
        if (named(REASONING[i].name, name, n))
            return &REASONING[i];
    }
    return NULL;
}

bool format_opens_reasoning(const struct format_reasoning *g, const char *tail, size_t n)
{
    size_t len = strlen(g->open);
    while (n && format_blank((unsigned char)tail[n - 1]))
        n--;
    return n >= len && !memcmp(tail + n - len, g->open, len);
}

void format_shape_init(const struct format *f, struct format_shape *s)
{
    *s = f->shape;
}

const char *format_mark_at(const struct format *f, size_t i)
{
    for (size_t k = 0; f->marks[k]; k++) {
        if (k == i)
            return f->marks[k];
    }
    return NULL;
}
