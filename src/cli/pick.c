/* pick: see pick.h. */
#include "cli/pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/paint.h"

#define SPLIT_BYTES 20u /* of "-00001-of-00003.gguf" */

/* What is taken when nobody said which: small losses first, then what is bigger. */
static const char *const usual[] = {"Q4_K_M", "Q4_K_S", "Q4_K", "Q4_0", "Q4_1", "Q5_K_M", "Q5_K_S",
                                    "Q6_K",   "Q8_0",   "F16",  "BF16", "F32"};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcasecmp(s + n - m, end) == 0;
}

bool pick_is_gguf(const char *path)
{
    return strlen(base_name(path)) > 5 && ends_with(path, ".gguf");
}

bool pick_split(const char *path, uint32_t *no, uint32_t *of, size_t *stem)
{
    size_t n = strlen(path);
    if (n <= SPLIT_BYTES)
        return false;
    const char *end = path + n - SPLIT_BYTES;
    for (size_t i = 0; i < SPLIT_BYTES; i++) {
        char want = "-00000-of-00000.gguf"[i];
        if (want == '0' ? end[i] < '0' || end[i] > '9' : end[i] != want)
            return false;
    }
    uint32_t part = (uint32_t)strtoul(end + 1, NULL, 10), parts = (uint32_t)strtoul(end + 10, NULL, 10);
    if (part < 1 || part > parts || parts > LIMIT_SPLITS)
        return false;
    *no = part;
    *of = parts;
    *stem = n - SPLIT_BYTES;
    return true;
}

bool pick_is_safe(const char *path)
{
    if (strlen(path) >= LIMIT_PULL_PATH)
        return false;
    for (const char *p = path;; p++) { /* p is at the beginning of a step */
        if (!*p || *p == '/' || *p == '.')
            return false;
        for (; *p && *p != '/'; p++)
            if ((unsigned char)*p < ' ' || paint_control(p, 2) || *p == '\\')
                return false;
        if (!*p)
            return true;
    }
}

/* Does `name` hold `word`, in any case, not as the beginning of a longer one? Q4_K is not in Q4_K_M; but a '_' may come
 * before it, as in model_Q8_0. */
static bool has_word(const char *name, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = name; *p; p++) {
        bool begins = p == name || strchr("-./_", p[-1]);
        if (begins && strncasecmp(p, word, n) == 0 && (p[n] == '\0' || strchr("-./", p[n])))
            return true;
    }
    return false;
}

/* A file stands for its model: a whole one, or the first part. */
static bool is_head(const struct pick_file *f)
{
    uint32_t no, of;
    size_t stem;
    return pick_is_gguf(f->path) && (!pick_split(f->path, &no, &of, &stem) || no == 1);
}

static bool is_helper(const char *path)
{
    return strstr(base_name(path), "mmproj") || strstr(base_name(path), "imatrix");
}

struct search {
    const struct pick_file *files;
    size_t n, found, at; /* how many models fit, and the last of them */
};

enum by { BY_PATH, BY_LAST_STEP, BY_WORD };

/* Models whose path or its last step is `want`, or those that have it as a word; NULL = all. */
static void search(struct search *s, const char *want, enum by by)
{
    s->found = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct pick_file *f = &s->files[i];
        bool fits = by == BY_PATH        ? strcmp(f->path, want) == 0
                    : by == BY_LAST_STEP ? strcmp(base_name(f->path), want) == 0
                                         : is_head(f) && !is_helper(f->path) && (!want || has_word(f->path, want));
        if (fits && pick_is_gguf(f->path)) {
            s->found++;
            s->at = i;
        }
    }
}

static enum status refuse(const struct search *s, const char *want, const char *repo, struct err *e)
{
    char names[ERR_TEXT] = "";
    size_t at = 0;
    for (size_t i = 0; i < s->n && at + 4 < sizeof names; i++)
        if (is_head(&s->files[i]) && !is_helper(s->files[i].path))
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", base_name(s->files[i].path));
    if (!at)
        return err_set(e, ST_ARGUMENT, "name", "%.80s holds no GGUF file", repo);
    if (s->found)
        return err_set(e, ST_ARGUMENT, "name", "%.80s holds more than one such model; say which: %s", repo, names);
    return err_set(e, ST_ARGUMENT, "name", "%.80s holds no %.60s, only %s", repo, want, names);
}

enum status pick_head(const struct pick_file *files, size_t n, const char *want, const char *repo, size_t *out,
                      struct err *e)
{
    struct search s = {.files = files, .n = n};
    for (int by = want ? BY_PATH : BY_WORD; by <= BY_WORD && s.found != 1; by++)
        search(&s, want, (enum by)by);
    for (size_t i = 0; !want && s.found > 1 && i < sizeof usual / sizeof *usual; i++) {
        size_t all = s.found;
        search(&s, usual[i], BY_WORD);
        s.found = s.found ? s.found : all;
    }
    *out = s.at;
    return s.found == 1 ? ST_OK : refuse(&s, want, repo, e);
}

enum status pick_model(const struct pick_file *files, size_t n, const char *want, const char *repo, uint32_t *out,
                       uint32_t *count, struct err *e)
{
    size_t at, stem, len;
    uint32_t no, of, k, m;
    TRY(pick_head(files, n, want, repo, &at, e));
    const char *head = files[at].path;
    *count = 1;
    out[0] = (uint32_t)at;
    if (!pick_split(head, &no, &of, &stem))
        return ST_OK;
    *count = of;
    for (k = 0; k < of; k++)
        out[k] = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const char *path = files[i].path;
        if (pick_split(path, &k, &m, &len) && m == of && len == stem && memcmp(path, head, stem) == 0)
            out[k - 1] = (uint32_t)i;
    }
    for (k = 0; k < of; k++)
        if (out[k] == UINT32_MAX)
            return err_set(e, ST_MODEL, "name", "%.80s: part %u of %u of %.60s is missing", repo, k + 1, of,
                           base_name(head));
    return ST_OK;
}
