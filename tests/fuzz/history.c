/*
 * history: any bytes as a file of what was typed into `ffwd chat`, and any text added to it. What is added is the last
 * that is told, and what was told before still is.
 */
#include "cli/line_history.h"
#include "fuzz/kit/fuzz.h"

#include <fcntl.h>

struct told {
    size_t n;
    struct buf all, last;
};

static void tell(void *user, const char *text)
{
    struct told *t = user;
    t->n++;
    buf_adds(&t->all, text);
    buf_add(&t->all, "", 1);
    buf_clear(&t->last);
    buf_adds(&t->last, text);
}

static void load(const char *path, struct told *t)
{
    struct err e;
    *t = (struct told){0};
    buf_init(&t->all, 1u << 20);
    buf_init(&t->last, 1u << 20);
    FUZZ_CHECK(line_history_load(path, tell, t, &e) == ST_OK, "%s", e.text);
}

static void release(struct told *t)
{
    buf_release(&t->all);
    buf_release(&t->last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n}, text = fuzz_until(&f, '\n');
    struct told before, after;
    struct buf added;
    struct err e;
    buf_init(&added, 4 * (size_t)LINE_HISTORY_LONGEST);
    fuzz_utf8(text.at, text.n < LINE_HISTORY_LONGEST ? text.n : LINE_HISTORY_LONGEST, &added);
    const char *path = fuzz_file(f.at, f.n);
    load(path, &before);
    FUZZ_CHECK(line_history_add(path, added.data, added.len, &e) == ST_OK, "%s", e.text);
    load(path, &after);
    bool keeps = added.len && added.len <= LINE_HISTORY_LONGEST && !memchr(added.data, '\0', added.len);
    FUZZ_CHECK(!keeps || after.n == before.n + 1, "%zu lines, then %zu", before.n, after.n);
    if (keeps && after.n)
        fuzz_same(&after.last, &added, "what was added");
    FUZZ_CHECK(after.all.len >= before.all.len && (!before.all.len || memcmp(after.all.data, before.all.data,
               before.all.len) == 0), "what was there is not");
    release(&before);
    release(&after);
    buf_release(&added);
    return 0;
}
