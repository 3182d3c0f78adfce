/*
 * template: chat templates over the shim. Compiling, rendering, and giving renderings back; encoding one is the
 * tokenizer's business (tok.c).
 */
#include <string.h>
#include <time.h>

#include "ffwd_shim.h"
#include "text/shim.h"
#include "text/text.h"

/* A `chat_template` is the shim's template itself; the name only exists here. */

_Static_assert(TEXT_LIMIT_FUEL == FFWD_LIMIT_FUEL, "text.h names the shim's limit");
_Static_assert(TEXT_LIMIT_RENDERING == FFWD_LIMIT_RENDERING, "text.h names the shim's limit");
_Static_assert(TEXT_LIMIT_TEMPLATE == FFWD_LIMIT_SOURCE, "text.h names the shim's limit");
_Static_assert(TEXT_LIMIT_STRINGS == FFWD_LIMIT_STRINGS, "text.h names the shim's limit");

/* Seconds that local time is ahead of UTC then. */
static int32_t ahead_of_utc(int64_t unix_time)
{
    time_t then = (time_t)unix_time;
    struct tm local;
    return localtime_r(&then, &local) ? (int32_t)local.tm_gmtoff : 0;
}

enum status chat_template_new(struct chat_template **out, const char *source, size_t n, struct err *e)
{
    struct ffwd_error failure;
    struct ffwd_template *c = NULL;
    *out = NULL;
    TRY(text_status(ffwd_template_new((const uint8_t *)source, n, &c, &failure), &failure, "chat_template", e));
    *out = (struct chat_template *)c;
    return ST_OK;
}

void chat_template_free(struct chat_template *c)
{
    ffwd_template_free((struct ffwd_template *)c);
}

enum status chat_template_render(const struct chat_template *c, const struct tok *t, const char *vars, size_t n,
                                 int64_t unix_time, struct text_rendering *out, struct err *e)
{
    struct ffwd_error failure;
    struct ffwd_rendering r = {0};
    *out = (struct text_rendering){0};
    int32_t code = ffwd_template_render((const struct ffwd_template *)c, text_shim_tok(t), (const uint8_t *)vars, n,
                                        unix_time, ahead_of_utc(unix_time), &r, &failure);
    TRY(text_status(code, &failure, "messages", e));
    *out = (struct text_rendering){
        .text = (char *)r.text, .n = r.n,
        .marked = (char *)r.marked, .marked_n = r.marked_n,
        .brk = r.brk, .quote = r.quote,
        .guarded = t != NULL,
    };
    return ST_OK;
}

void text_rendering_release(struct text_rendering *r)
{
    text_free(r->text, r->n);
    text_free(r->marked, r->marked_n);
    *r = (struct text_rendering){0};
}

const char *text_versions(void)
{
    return ffwd_shim_versions();
}
