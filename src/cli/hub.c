/* hub: see hub.h. The interface: https://huggingface.co/docs/hub/api */
#include "cli/hub.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/get.h"

#define URL_CAP 2048

const char *hub_token(void)
{
    const char *token = getenv("HF_TOKEN");
    return token && token[0] ? token : NULL;
}

static const char *hub_base(void)
{
    const char *base = getenv("HF_ENDPOINT");
    return base && base[0] ? base : "https://huggingface.co";
}

/* Bytes of the base address without slashes at its end. */
static size_t base_bytes(void)
{
    size_t n = strlen(hub_base());
    while (n && hub_base()[n - 1] == '/')
        n--;
    return n;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Copies n bytes; false when they do not fit. */
static bool copy(char *out, size_t cap, const char *s, size_t n)
{
    if (n >= cap)
        return false;
    memcpy(out, s, n);
    out[n] = '\0';
    return true;
}

/* Bytes of "owner/name" that `s` begins with, 0 when it does not. */
static size_t repo_bytes(const char *s)
{
    size_t owner = strspn(s, NAME_BYTES);
    if (!owner || s[owner] != '/' || *s == '.' || s[owner + 1] == '.')
        return 0;
    size_t name = strspn(s + owner + 1, NAME_BYTES);
    return name ? owner + 1 + name : 0;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* "%20" becomes the byte it stands for, in place; false when it stands for none. */
static bool unescape(char *s)
{
    char *out = s;
    for (; *s; s++, out++) {
        *out = *s;
        if (*s != '%')
            continue;
        int high = hex_value(s[1]), low = high < 0 ? -1 : hex_value(s[2]);
        if (low < 0 || high + low == 0)
            return false;
        *out = (char)(high << 4 | low);
        s += 2;
    }
    *out = '\0';
    return true;
}

/* "resolve/main/dir/file.gguf" or "blob/main/file.gguf", a query left out. */
static bool parse_file(const char *s, struct hub_name *out)
{
    size_t kind = strcspn(s, "/");
    if (!(kind == 7 && memcmp(s, "resolve", 7) == 0) && !(kind == 4 && memcmp(s, "blob", 4) == 0))
        return false;
    s += kind + (s[kind] == '/');
    size_t rev = strspn(s, NAME_BYTES);
    if (!rev || s[rev] != '/' || !copy(out->rev, sizeof out->rev, s, rev))
        return false;
    s += rev + 1;
    return copy(out->want, sizeof out->want, s, strcspn(s, "?#")) && unescape(out->want) &&
           pick_is_safe(out->want);
}

bool hub_parse(const char *s, struct hub_name *out)
{
    size_t base = base_bytes();
    bool address = strncmp(s, hub_base(), base) == 0 && s[base] == '/';
    *out = (struct hub_name){.rev = "main"};
    s += address ? base + 1 : 0;
    size_t n = repo_bytes(s);
    if (!n || !copy(out->repo, sizeof out->repo, s, n))
        return false;
    s += n;
    if (address && *s == '/' && s[1])
        return parse_file(s + 1, out);
    if (address)
        return !*s || *s == '/' || *s == '?' || *s == '#';
    if (!*s)
        return true;
    return *s == ':' && s[1] && copy(out->want, sizeof out->want, s + 1, strlen(s + 1)) && pick_is_safe(out->want);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

void hub_list_free(struct hub_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->files[i].path);
    free(l->files);
    *l = (struct hub_list){0};
}

static bool read_file(const json_t *o, struct pick_file *f)
{
    const char *path = json_string_value(json_object_get(o, "rfilename"));
    const json_t *lfs = json_object_get(o, "lfs");
    const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
    json_int_t bytes = json_integer_value(json_object_get(o, "size"));
    if (!path || !pick_is_safe(path) || bytes < 0) /* one that could not be kept is as good as absent */
        return false;
    *f = (struct pick_file){.bytes = (uint64_t)bytes};
    if (sha256 && store_is_sha256(sha256))
        snprintf(f->sha256, sizeof f->sha256, "%s", sha256);
    f->path = strdup(path);
    return f->path != NULL;
}

static enum status read_list(const json_t *root, const char *repo, struct hub_list *out, struct err *e)
{
    const json_t *files = json_object_get(root, "siblings");
    const char *commit = json_string_value(json_object_get(root, "sha"));
    if (!json_is_array(files) || !commit || strspn(commit, NAME_BYTES) != strlen(commit) ||
        !copy(out->commit, sizeof out->commit, commit, strlen(commit)))
        return err_set(e, ST_MODEL, repo, "%s: the server's list of files is none", repo);
    size_t n = json_array_size(files);
    if (n > LIMIT_HUB_FILES)
        return err_set(e, ST_MODEL, repo, "%s has %zu files, at most %u are looked at", repo, n, LIMIT_HUB_FILES);
    out->files = calloc(n ? n : 1, sizeof *out->files);
    if (!out->files)
        return err_set(e, ST_NO_MEMORY, repo, "no memory for the list of %s", repo);
    for (size_t i = 0; i < n; i++)
        out->n += read_file(json_array_get(files, i), &out->files[out->n]);
    return ST_OK;
}

enum status hub_list(const struct hub_name *name, struct hub_list *out, struct err *e)
{
    char url[URL_CAP];
    struct buf text;
    *out = (struct hub_list){0};
    int n = snprintf(url, sizeof url, "%.*s/api/models/%s/revision/%s?blobs=true", (int)base_bytes(), hub_base(),
                     name->repo, name->rev);
    if (n < 0 || (size_t)n >= sizeof url)
        return err_set(e, ST_ARGUMENT, "HF_ENDPOINT", "the address in HF_ENDPOINT is too long");
    enum status st = get_text(url, hub_token(), LIMIT_HUB_BYTES, &text, e);
    json_t *root = st == ST_OK ? json_loadb(text.data, text.len, 0, NULL) : NULL;
    if (st == ST_OK)
        st = read_list(root, name->repo, out, e);
    if (st != ST_OK)
        hub_list_free(out);
    json_decref(root);
    buf_release(&text);
    return st;
}

enum status hub_url(const struct hub_name *name, const struct hub_list *l, const char *path, char *out, size_t cap,
                    struct err *e)
{
    struct buf b;
    buf_init(&b, cap - 1);
    buf_addf(&b, "%.*s/%s/resolve/%s/", (int)base_bytes(), hub_base(), name->repo, l->commit);
    for (const char *p = path; *p; p++) {
        if (strchr(NAME_BYTES "/~", *p))
            buf_add(&b, p, 1);
        else
            buf_addf(&b, "%%%02X", (unsigned)(unsigned char)*p);
    }
    bool ok = !b.failed;
    if (ok)
        memcpy(out, b.data, b.len + 1);
    buf_release(&b);
    return ok ? ST_OK : err_set(e, ST_ARGUMENT, "name", "%s: the address is too long", name->repo);
}
