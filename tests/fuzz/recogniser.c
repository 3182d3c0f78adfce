/*
 * recogniser: any text as the reply of a model, in every format of calls and reasoning. However it is cut, the same is
 * told; every call that began is complete or broken; nothing vanishes.
 *
 * The first byte chooses the format, the second the reasoning, the third how the text is cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "fuzz/kit/fuzz.h"
#include "unit/format_told.h"

static const struct format_tool tools[] = {
    TOOL("f", "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"},"
              "\"l\":{\"type\":\"array\"},\"o\":{\"type\":\"object\"},\"t\":{\"type\":\"boolean\"},\"x\":{}}}"),
    TOOL("get_weather", "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}"),
    TOOL("none", ""),
};

/* In pieces of 1 to `most` bytes; most 0: in one. */
static void feed(struct told *t, const struct recogniser_config *cfg, struct fuzz text, size_t most)
{
    static struct recogniser r;
    struct recogniser_state state;
    const uint64_t n = text.n;
    recogniser_init(&r, cfg);
    told_init(t);
    for (uint32_t i = 0; text.n; i++) {
        size_t part = most ? 1 + (i * 7 + most) % most : text.n;
        part = part < text.n ? part : text.n;
        char *copy = fuzz_copy(text.at, part);
        recogniser_feed(&r, copy, part, told_sink, t);
        free(copy);
        recogniser_look(&r, &state);
        FUZZ_CHECK(r.held_n <= RECOGNISER_HELD && state.calls == t->ended, "%u held, %u calls", r.held_n, state.calls);
        text = (struct fuzz){text.at + part, text.n - part};
    }
    FUZZ_CHECK(r.fed == n, "%llu of %llu bytes", (unsigned long long)r.fed, (unsigned long long)n);
    recogniser_end(&r, told_sink, t);
    (void)told_text(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct format_tools *list;
    static const char *const reasonings[] = {NULL, "think", "gemma", "mistral", "seed", "minimax"};
    struct fuzz f = {(const char *)data, n};
    struct told whole, cut, bytes;
    struct err e;
    size_t formats = 0;
    if (!list)
        FUZZ_CHECK(format_tools_new(&list, tools, sizeof tools / sizeof *tools, &e) == ST_OK, "%s", e.text);
    while (format_name_at(formats))
        formats++;
    const char *format = format_name_at(fuzz_byte(&f) % formats);
    uint8_t how = fuzz_byte(&f), most = fuzz_byte(&f) % 16 + 2;
    const char *reasoning = how & 1 ? reasonings[how / 8 % (sizeof reasonings / sizeof *reasonings)] : NULL;
    const struct recogniser_config cfg = {
        .format = format_find(format, strlen(format)),
        .reasoning = reasoning ? format_find_reasoning(reasoning, strlen(reasoning)) : NULL,
        .tools = how & 4 ? NULL : list,
        .in_reasoning = reasoning && how & 2,
    };
    feed(&whole, &cfg, f, 0);
    feed(&cut, &cfg, f, most);
    feed(&bytes, &cfg, f, 1);
    fuzz_same(&whole.text, &cut.text, format);
    fuzz_same(&whole.text, &bytes.text, format);
    FUZZ_CHECK(whole.begun == whole.ended + whole.broken, "%u, %u, %u", whole.begun, whole.ended, whole.broken);
    if (!whole.begun && !reasoning && f.n)
        FUZZ_CHECK(whole.text.len == f.n + 3 && memcmp(whole.text.data + 2, f.at, f.n) == 0, "%s", whole.text.data);
    told_release(&whole);
    told_release(&cut);
    told_release(&bytes);
    return 0;
}
