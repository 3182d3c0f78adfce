/* events: see events.h. */
#include "fuzz/kit/events.h"

struct reader {
    events_sink *sink;
    void *user;
};

static bool is_type(const struct wire_reply *r, const char *type)
{
    return strncmp(r->type, type, strlen(type)) == 0;
}

/* What RFC 8259 allows and jansson does not hold: half surrogate pairs, keys with a NUL, and numbers too large for it. */
static bool is_beyond_jansson(const char *why)
{
    return strstr(why, "Unicode") || strstr(why, "NUL byte in object key") || strstr(why, "overflow") ||
           strstr(why, "too big");
}

static bool tell(const struct reader *to, const char *name, const char *s, size_t n)
{
    json_error_t bad;
    json_t *v = json_loadb(s, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &bad);
    if (!v && is_beyond_jansson(bad.text))
        return false;
    FUZZ_CHECK(v, "%s: %.*s", bad.text, (int)n, s);
    if (to->sink)
        to->sink(to->user, name, v);
    json_decref(v);
    return true;
}

/* The next line of a text, without its end, which has to be there. */
static struct fuzz next_line(struct fuzz *text)
{
    FUZZ_CHECK(memchr(text->at, '\n', text->n), "the last line has no end: %.*s", (int)text->n, text->at);
    return fuzz_until(text, '\n');
}

static bool begins(struct fuzz line, const char *s)
{
    return line.n >= strlen(s) && memcmp(line.at, s, strlen(s)) == 0;
}

/* An event is a name if it has one, one line of data, and an empty line; a comment may stand in its place. */
static bool read_event(const struct reader *to, struct fuzz *text)
{
    char name[64] = "";
    bool ok = true;
    struct fuzz line = next_line(text);
    if (begins(line, "event: ") && line.n - 7 < sizeof name) {
        memcpy(name, line.at + 7, line.n - 7);
        name[line.n - 7] = '\0';
        line = next_line(text);
        FUZZ_CHECK(begins(line, "data: "), "an event without data: %.*s", (int)line.n, line.at);
    }
    if (begins(line, "data: [DONE]") && line.n == 12)
        to->sink ? to->sink(to->user, name, NULL) : (void)0;
    else if (begins(line, "data: "))
        ok = tell(to, name, line.at + 6, line.n - 6);
    else
        FUZZ_CHECK(begins(line, ":"), "neither event nor comment: %.*s", (int)line.n, line.at);
    line = next_line(text);
    FUZZ_CHECK(!line.n, "the event has more lines: %.*s", (int)line.n, line.at);
    return ok;
}

bool events_read(const struct wire_reply *r, events_sink *sink, void *user)
{
    const struct reader to = {sink, user};
    struct fuzz text = {r->body.data, r->body.len};
    bool ok = true;
    if (is_type(r, "application/json"))
        return tell(&to, "", text.at, text.n);
    if (is_type(r, "application/x-ndjson"))
        while (ok && text.n) {
            struct fuzz line = next_line(&text);
            ok = tell(&to, "", line.at, line.n);
        }
    if (is_type(r, "text/event-stream"))
        while (ok && text.n)
            ok = read_event(&to, &text);
    return ok;
}
