/*
 * hub: any bytes as what a repository's server says, and any name of a repository. Files that are listed can be kept below
 * a folder, and their addresses are of that server. Input: name, newline, reply.
 */
#include "cli/hub.h"

#include "cli/get.h"
#include "fuzz/kit/fuzz.h"

static struct fuzz reply;

/* Instead of a request. */
enum status get_text(const char *url, const char *token, size_t limit, struct buf *out, struct err *e)
{
    (void)token;
    (void)e;
    FUZZ_CHECK(strncmp(url, "https://huggingface.co/api/models/", 34) == 0 && !strpbrk(url, " \t\r\n"), "%s", url);
    buf_init(out, limit);
    buf_add(out, reply.at, reply.n);
    buf_adds(out, "");
    return ST_OK;
}

static void check_files(const struct hub_name *name, const struct hub_list *l)
{
    char url[4096];
    struct err e;
    for (size_t i = 0; i < l->n; i++) {
        const char *path = l->files[i].path;
        FUZZ_CHECK(path[0] && path[0] != '/' && path[0] != '.' && !strstr(path, "/.") && !strstr(path, "//"), "%s", path);
        for (const char *p = path; *p; p++)
            FUZZ_CHECK((unsigned char)*p >= 0x20 && *p != 0x7F, "a control character in %s", path);
        if (hub_url(name, l, path, url, sizeof url, &e) == ST_OK)
            FUZZ_CHECK(strncmp(url, "https://huggingface.co/", 23) == 0 && !strpbrk(url + 23, " ?#\"<>\\"), "%s", url);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz f = {(const char *)data, n}, line = fuzz_until(&f, '\n');
    struct hub_name name;
    struct hub_list list;
    uint32_t parts[LIMIT_SPLITS], count;
    struct err e;
    char *text = fuzz_string(line.at, line.n);
    unsetenv("HF_ENDPOINT");
    if (hub_parse(text, &name)) {
        reply = f;
        if (hub_list(&name, &list, &e) == ST_OK) {
            check_files(&name, &list);
            if (pick_model(list.files, list.n, name.want[0] ? name.want : NULL, name.repo, parts, &count, &e) == ST_OK)
                FUZZ_CHECK(count && count <= LIMIT_SPLITS && parts[count - 1] < list.n, "%u parts", count);
            hub_list_free(&list);
        }
        FUZZ_CHECK(!list.files && !list.n, "something is left");
    }
    free(text);
    return 0;
}
