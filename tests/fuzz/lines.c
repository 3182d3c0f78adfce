/* lines: any bytes as a file of recorded conversations (`ffwd bench replay`). What it holds is of lines that were taken. */
#include "cli/replay_lines.h"
#include "fuzz/kit/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct replay_lines l;
    struct buf text;
    struct err e;
    buf_init(&text, 1u << 20);
    buf_add(&text, data, n);
    if (replay_lines_init(&l, &text, "file", &e) != ST_OK) {
        FUZZ_CHECK(e.text[0] && !l.n && !l.line && !l.text.data, "not empty");
        return 0;
    }
    for (uint32_t i = 0; i < l.n; i++) {
        const struct replay_line *line = &l.line[i];
        FUZZ_CHECK(line->cls < l.classes && l.cls[line->cls][0], "line %u has no class", line->number);
        FUZZ_CHECK(line->json >= l.text.data && line->json + line->n <= l.text.data + l.text.len, "line %u", line->number);
        FUZZ_CHECK(json_is_object(line->root) && (!i || line->number > line[-1].number), "line %u", line->number);
        FUZZ_CHECK(strlen(line->reply) <= line->reply_n, "the reply of line %u", line->number);
        (void)replay_line_hides_tools(line);
    }
    replay_lines_release(&l);
    return 0;
}
