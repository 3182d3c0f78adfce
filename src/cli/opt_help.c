/* opt_help: a verb's table as a page to read, and as JSON, from which manual pages and completions are made. See opt.h. */
#include <stdio.h>
#include <string.h>

#include "cli/opt.h"

#define COLUMN 26
#define WIDTH 100

/* Prints words from column `at` on, wrapped, each further line indented to `at`. */
static void print_wrapped(const char *s, int at)
{
    int column = at;
    while (*s) {
        int n = (int)strcspn(s, " ");
        if (column > at && column + 1 + n > WIDTH) {
            printf("\n%*s", at, "");
            column = at;
        } else if (column > at) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, s);
        column += n;
        s += n;
        s += strspn(s, " ");
    }
    putchar('\n');
}

static void print_row(const struct opt *o)
{
    char left[80], letter[8] = "";
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "  %s%s%s%s%s", letter, o->name ? "--" : "", o->name ? o->name : "",
             o->name && o->arg ? " " : "", o->arg ? o->arg : "");
    printf("%-*s", COLUMN, left);
    if (strlen(left) >= COLUMN)
        printf("\n%*s", COLUMN, "");
    print_wrapped(o->help, COLUMN);
}

void opt_help(const struct opt_verb *v)
{
    static const struct opt help = {"help", 'h', OPT_FLAG, 0, 0, 0, NULL, "print this and do nothing else"};
    printf("usage: ffwd %s %s\n\n", v->name, v->usage);
    print_wrapped(v->about, 0);
    putchar('\n');
    for (size_t i = 0; i < v->n; i++)
        print_row(&v->opts[i]);
    print_row(&help);
}

/* --- values ---------------------------------------------------------------------------------------------------------- */

static void word_at(const char *words, uint32_t i, char *out, size_t cap)
{
    while (i-- && *words)
        words += strcspn(words, "|") + 1;
    snprintf(out, cap, "%.*s", (int)strcspn(words, "|"), words);
}

static void value_of(const struct opt *o, const void *at, char *out, size_t cap)
{
    if (o->kind == OPT_FLAG)
        snprintf(out, cap, "%s", *(const bool *)at ? "on" : "off");
    else if (o->kind == OPT_F32)
        snprintf(out, cap, "%g", (double)*(const float *)at);
    else if (o->kind == OPT_U64)
        snprintf(out, cap, "%llu", (unsigned long long)*(const uint64_t *)at);
    else if (o->kind == OPT_CHOICE)
        word_at(o->arg, *(const uint32_t *)at, out, cap);
    else if (*(const uint32_t *)at > o->hi)
        snprintf(out, cap, "not given");
    else
        snprintf(out, cap, "%u", *(const uint32_t *)at);
}

void opt_show(const struct opt_verb *v, const void *values, FILE *to)
{
    int column = 0;
    for (size_t i = 0; i < v->n; i++) {
        char value[40], pair[96];
        value_of(&v->opts[i], (const char *)values + v->opts[i].at, value, sizeof value);
        int n = snprintf(pair, sizeof pair, "%s %s%s", v->opts[i].name, value, i + 1 < v->n ? "," : "");
        bool fits = column && column + 1 + n <= WIDTH;
        fprintf(to, "%s%s", fits ? " " : column ? "\n" : "", pair);
        column = fits ? column + 1 + n : n;
    }
    fputc('\n', to);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------ */

static json_t *words_of(const char *arg)
{
    json_t *words = json_array();
    for (const char *s = arg; s; s = *s ? s + 1 : NULL) {
        size_t n = strcspn(s, "|");
        json_array_append_new(words, json_stringn(s, n));
        s += n;
    }
    return words;
}

static json_t *json_of(const struct opt *o)
{
    static const char *const kinds[] = {[OPT_FLAG] = "flag",    [OPT_STR] = "text",      [OPT_U32] = "integer",
                                        [OPT_U64] = "integer",  [OPT_F32] = "number",    [OPT_CHOICE] = "choice",
                                        [OPT_LIST] = "list"};
    const char letter[] = {o->letter, '\0'};
    json_t *out = json_pack("{s:s?, s:s?, s:s, s:s?, s:s}", "name", o->name, "letter", o->letter ? letter : NULL, "kind",
                            kinds[o->kind], "value", o->arg, "help", o->help);
    if (out && o->kind == OPT_CHOICE)
        json_object_set_new(out, "words", words_of(o->arg));
    return out;
}

json_t *opt_json(const struct opt_verb *v)
{
    json_t *options = json_array();
    for (size_t i = 0; i < v->n; i++)
        json_array_append_new(options, json_of(&v->opts[i]));
    return json_pack("{s:s, s:s, s:s, s:o}", "name", v->name, "about", v->about, "usage", v->usage, "options", options);
}
