/*
 * The example in the head comment of ffwd.h, run against a library that is not there: these stand-ins say "one" with a
 * token and "two" with the end, as the real library does with text that it held back.
 */
#include <ffwd.h>
#include <stdio.h>
#include <string.h>

static int asked;

ffwd_engine *ffwd_open(const char *path, const ffwd_options *options, ffwd_error *err)
{
    (void)path, (void)options, (void)err;
    return NULL;
}

int ffwd_encode(const ffwd_engine *en, const char *text, size_t n, unsigned flags, int32_t **ids, size_t *count,
                ffwd_error *err)
{
    (void)en, (void)flags, (void)err;
    *ids = NULL;
    *count = 0;
    return strlen(text) == n ? FFWD_OK : FFWD_ARGUMENT;
}

void ffwd_params_init(ffwd_params *p)
{
    *p = (ffwd_params){0};
}

ffwd_request *ffwd_start(ffwd_engine *en, const ffwd_params *p, ffwd_error *err)
{
    (void)en, (void)p, (void)err;
    return NULL;
}

int ffwd_next(ffwd_request *rq, ffwd_event *ev, int timeout_ms)
{
    (void)rq, (void)timeout_ms;
    static const ffwd_event said[] = {
        {.kind = FFWD_TOKEN, .id = 1, .text = "one", .text_n = 3},
        {.kind = FFWD_END, .id = -1, .text = "two", .text_n = 3},
    };
    *ev = said[asked > 0];
    if (asked++ > 1)
        ev->text_n = 0;
    return 1;
}

void ffwd_finish(ffwd_request *rq, ffwd_result *out)
{
    (void)rq, (void)out;
    puts(asked == 2 ? "" : ", and went on after the end");
}

int main(void)
{
    int32_t *ids;
    size_t n;
#include "fragment.inc"
    return 0;
}
