/* opt: see opt.h. */
#include "cli/opt.h"

#include "cli/cli.h"
#include "cli/near.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int opt_wrong(const struct opt_verb *v, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "ffwd %s: %s; see `ffwd help %s`\n", v->name, text, v->name);
    return 2;
}

/* --- values ---------------------------------------------------------------------------------------------------------- */

/* Decimal digits only: strtoull alone would take signs and blanks. */
static bool parse_u64(const char *s, uint64_t *out)
{
    if (!*s || s[strspn(s, "0123456789")])
        return false;
    errno = 0;
    *out = strtoull(s, NULL, 10);
    return errno == 0;
}

static bool parse_f64(const char *s, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(s, &end);
    return end != s && !*end && isfinite(*out) && (*s == '.' || *s == '-' || (*s >= '0' && *s <= '9'));
}

static bool parse_choice(const char *words, const char *s, uint32_t *out)
{
    size_t n = strlen(s);
    for (uint32_t i = 0;; i++) {
        size_t word = strcspn(words, "|");
        if (word == n && memcmp(words, s, n) == 0) {
            *out = i;
            return true;
        }
        if (!words[word])
            return false;
        words += word + 1;
    }
}

/* "a or b" from "a|b", for sentences. */
static const char *choice_words(const char *words, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (; *words && at + 5 < cap; words++)
        at += (size_t)snprintf(out + at, cap - at, *words == '|' ? " or " : "%c", *words);
    return out;
}

static int set_number(const struct opt_verb *v, const struct opt *o, const char *shown, const char *s, void *at)
{
    if (o->kind == OPT_F32) {
        double f;
        if (!parse_f64(s, &f) || f < o->lo || f > o->hi)
            return opt_wrong(v, "%s must be a number from %g to %g, not \"%s\"", shown, o->lo, o->hi, s);
        *(float *)at = (float)f;
        return 0;
    }
    uint64_t u;
    bool whole = parse_u64(s, &u);
    if (o->kind == OPT_U64) {
        if (!whole)
            return opt_wrong(v, "%s must be a whole number below 2^64, not \"%s\"", shown, s);
        *(uint64_t *)at = u;
        return 0;
    }
    if (!whole || u < (uint64_t)o->lo || u > (uint64_t)o->hi)
        return opt_wrong(v, "%s must be a whole number from %.0f to %.0f, not \"%s\"", shown, o->lo, o->hi, s);
    *(uint32_t *)at = (uint32_t)u;
    return 0;
}

static int set_value(const struct opt_verb *v, const struct opt *o, const char *shown, const char *s, void *at)
{
    char words[128];
    struct opt_list *list = at;
    switch (o->kind) {
    case OPT_STR:
        *(const char **)at = s;
        return 0;
    case OPT_CHOICE:
        if (!parse_choice(o->arg, s, at))
            return opt_wrong(v, "%s must be %s, not \"%s\"", shown, choice_words(o->arg, words, sizeof words), s);
        return 0;
    case OPT_LIST:
        if (list->n == LIMIT_STOPS && !o->name)
            return opt_wrong(v, "%s may be given at most %u times", o->arg, LIMIT_STOPS);
        if (list->n == LIMIT_STOPS)
            return opt_wrong(v, "%s may be given at most %u times", shown, LIMIT_STOPS);
        list->item[list->n++] = s;
        return 0;
    default:
        return set_number(v, o, shown, s, at);
    }
}

bool opt_ids(const char *s, tok_id **ids, size_t *n)
{
    size_t count = 1;
    for (const char *p = s; *p; p++)
        count += *p == ',';
    *n = 0;
    *ids = malloc(count * sizeof **ids);
    while (*ids && *n < count) {
        size_t digits = strspn(s, "0123456789");
        uint64_t u = 0;
        for (size_t i = 0; i < digits && u <= INT32_MAX; i++)
            u = u * 10 + (uint64_t)(s[i] - '0');
        if (digits == 0 || u > INT32_MAX || (s[digits] && s[digits] != ','))
            break;
        (*ids)[(*n)++] = (tok_id)u;
        s += digits + (s[digits] == ',');
    }
    if (*ids && *n == count)
        return true;
    free(*ids);
    *ids = NULL;
    return false;
}

/* --- parsing --------------------------------------------------------------------------------------------------------- */

/* The option `arg` names, and where its value begins if `arg` holds it: behind the "=", or all of a word. */
static const struct opt *find_option(const struct opt_verb *v, const char *arg, const char **value)
{
    bool is_long = arg[0] == '-' && arg[1] == '-', is_word = arg[0] != '-';
    *value = is_word ? arg : NULL;
    size_t n = is_long ? strcspn(arg + 2, "=") : 0;
    for (size_t i = 0; i < v->n; i++) {
        const struct opt *o = &v->opts[i];
        if (is_word && !o->name)
            return o;
        if (is_word || !o->name)
            continue;
        if (!is_long && o->letter && arg[1] == o->letter && !arg[2])
            return o;
        if (is_long && strlen(o->name) == n && memcmp(o->name, arg + 2, n) == 0) {
            *value = arg[2 + n] == '=' ? arg + 3 + n : NULL;
            return o;
        }
    }
    return NULL;
}

static int wrong_name(const struct opt_verb *v, const char *shown)
{
    struct near near;
    size_t dashes = shown[1] == '-' ? 2 : 1;
    near_init(&near, shown + dashes, strlen(shown + dashes));
    for (size_t i = 0; i < v->n; i++)
        if (v->opts[i].name)
            near_offer(&near, v->opts[i].name, strlen(v->opts[i].name));
    near_offer(&near, "help", 4);
    return near.best ? opt_wrong(v, "%s is not an option, but --%s is", shown, near.best)
                     : opt_wrong(v, "%s is not an option", shown);
}

bool opt_parse(const struct opt_verb *v, int argc, char **argv, void *out, int *status)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *value;
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            opt_help(v);
            *status = cli_flush();
            return false;
        }
        if (strcmp(arg, "--help=json") == 0) {
            *status = cli_print_json(opt_json(v));
            return false;
        }
        const struct opt *o = find_option(v, arg, &value);
        char shown[48];
        snprintf(shown, sizeof shown, "%.*s", (int)strcspn(arg, "="), arg);
        if (!o) {
            *status = arg[0] == '-' ? wrong_name(v, shown)
                                    : opt_wrong(v, "\"%s\" is one word too many", arg);
            return false;
        }
        void *at = (char *)out + o->at;
        if (o->kind == OPT_FLAG) {
            *(bool *)at = true;
            *status = value ? opt_wrong(v, "%s takes no value", shown) : 0;
        } else if (!value && i + 1 == argc) {
            *status = opt_wrong(v, "%s needs a value: %s", shown, o->arg);
        } else {
            *status = set_value(v, o, shown, value ? value : argv[++i], at);
        }
        if (*status)
            return false;
    }
    return true;
}
